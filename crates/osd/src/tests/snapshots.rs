//! Snapshots against a plain model: whatever is done, and whoever dies, each snapshot shows what was there
//! when it was taken.

use super::cluster::{Cluster, POOL, append, write_full};
use crate::object::ObjectInfo;
use crate::snapset::SnapContext;
use maps::{IntervalSet, SnapId};
use msgs::op::input::{self, ListSnapsReply, PgNlsReply};
use msgs::{Extent, Op, OsdOpReply};
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::{Bufs, Rng};
use store::ObjectKey;

const SECOND: Duration = Duration::from_secs(1);

impl Cluster {
    pub fn read_at(&mut self, name: &str, snap: SnapId) -> Result<String, i32> {
        self.at = snap;
        let found = self.read(name);
        self.at = SnapId::HEAD;
        found
    }

    fn list_snaps(&mut self, name: &str) -> Result<ListSnapsReply, i32> {
        self.at = SnapId::DIR;
        let reply = self.op(name, vec![Op::ListSnaps]);
        self.at = SnapId::HEAD;
        if reply.result < 0 {
            Err(reply.result)
        } else {
            Ok(input::read(&reply.ops[0].data).expect("a list"))
        }
    }

    /// Names of the first PG.
    fn listed(&mut self, name: &str) -> Vec<String> {
        let reply = self.op(name, vec![Op::PgNls { max: 100, start_epoch: 0, data: Bufs::new() }]);
        let page: PgNlsReply = input::read(&reply.ops[0].data).expect("a page");
        page.entries.iter().map(|e| String::from_utf8_lossy(&e.oid).into_owned()).collect()
    }

    pub fn wait_purged(&mut self) {
        self.run_until("all removed snapshots purged", |c| !c.map.removed_snaps_queue.contains_key(&POOL));
    }

    /// Clones on an OSD's disk.
    pub fn clones(&self, osd: usize) -> Vec<String> {
        let all = self.objects(osd).into_keys().map(|name| String::from_utf8_lossy(&name).into_owned());
        all.filter(|name| name.contains('@')).collect()
    }
}

#[test]
fn a_snapshot_shows_what_was_there_and_a_deleted_object_stays_hidden_for_it() {
    let mut c = Cluster::new(3, 3, 2, 1);
    c.write("x", "one");
    let first = c.take_snap();
    assert_eq!(c.read_at("x", first), Ok("one".into()), "nothing is copied yet");
    assert_eq!(c.objects(0).len(), 1);
    c.write("x", "two");
    c.write("x", "three");
    let second = c.take_snap();
    assert_eq!(c.op("x", vec![Op::Delete]).result, 0);
    assert_eq!((c.read_at("x", first), c.read_at("x", second)), (Ok("one".into()), Ok("three".into())));
    assert_eq!(c.read("x"), Err(-2));
    assert_eq!(c.op("x", vec![Op::Delete]).result, -2, "it is gone for clients");
    assert_eq!(c.listed("x"), Vec::<String>::new());
    let list = c.list_snaps("x").expect("clones of what was deleted");
    let ids: Vec<(SnapId, u64)> = list.clones.iter().map(|c| (c.cloneid, c.size)).collect();
    assert_eq!(ids, [(first, 3), (second, 5)]);
    let third = c.take_snap();
    c.write("x", "four");
    assert_eq!((c.read_at("x", third), c.listed("x")), (Err(-2), vec!["x".to_owned()]));
    assert_eq!(c.list_snaps("x").expect("a list").clones.last().map(|c| c.cloneid), Some(SnapId::HEAD));
    assert_eq!(c.list_snaps("never"), Err(-2));
    c.check();
}

#[test]
fn rolling_back_brings_a_snapshot_back_and_takes_away_what_was_not_there() {
    let mut c = Cluster::new(3, 3, 2, 1);
    let none = c.take_snap();
    c.write("x", "one");
    let first = c.take_snap();
    c.write("x", "changed");
    assert_eq!(c.op("x", vec![Op::Rollback { snap: first }]).result, 0);
    assert_eq!(c.read("x"), Ok("one".into()));
    assert_eq!(c.op("x", vec![append(" more")]).result, 0);
    assert_eq!((c.read("x"), c.read_at("x", first)), (Ok("one more".into()), Ok("one".into())));
    assert_eq!(c.op("x", vec![Op::Rollback { snap: none }]).result, 0);
    assert_eq!(c.read("x"), Err(-2));
    assert_eq!(c.op("x", vec![Op::Rollback { snap: first }]).result, 0);
    assert_eq!(c.read("x"), Ok("one".into()));
    assert_eq!(c.op("never", vec![Op::Rollback { snap: first }]).result, 0);
    assert_eq!(c.read("never"), Err(-2));
    c.check();
}

#[test]
fn old_contexts_bad_contexts_and_writes_to_snapshots_are_refused() {
    let mut c = Cluster::new(3, 3, 2, 1);
    c.write("x", "one");
    let snap = c.take_snap();
    c.write("x", "two");
    c.context = SnapContext { seq: SnapId(1), snaps: Vec::new() };
    c.write("x", "an old context changes the head");
    assert_eq!(c.read_at("x", snap), Ok("one".into()));
    c.context = SnapContext { seq: SnapId(1), snaps: vec![SnapId(3)] };
    assert_eq!(c.op("x", vec![write_full("no")]).result, -22);
}

#[test]
fn removed_snapshots_are_trimmed_everywhere_and_never_come_back() {
    let mut c = Cluster::new(3, 3, 2, 2);
    let names: Vec<String> = (0..12).map(|i| format!("o{i}")).collect();
    names.iter().for_each(|name| c.write(name, "one"));
    let first = c.take_snap();
    let second = c.take_snap();
    names.iter().for_each(|name| c.write(name, "two"));
    let third = c.take_snap();
    names.iter().take(6).for_each(|name| assert_eq!(c.op(name, vec![Op::Delete]).result, 0));
    c.remove_snap(first);
    c.wait_purged();
    assert_eq!(c.read_at("o0", second), Ok("one".into()), "another snapshot shows the same clone");
    assert_eq!(c.list_snaps("o0").expect("a list").clones[0].snaps, [second]);
    c.remove_snap(second);
    c.remove_snap(third);
    c.wait_purged();
    c.check();
    for osd in 0..3 {
        assert_eq!(c.clones(osd), Vec::<String>::new());
        assert_eq!(c.objects(osd).len(), 6, "whiteouts go with their last clone");
    }
    // The client has not noticed; its context has all three.
    c.write("o7", "late");
    c.check();
    assert_eq!(c.clones(0), Vec::<String>::new());
    let fourth = c.take_snap();
    c.write("o7", "later");
    assert_eq!(c.read_at("o7", fourth), Ok("late".into()));
    assert_eq!(c.clones(0).len(), 1);
}

#[test]
fn trimming_goes_on_after_everybody_was_killed() {
    let mut c = Cluster::new(3, 3, 2, 1);
    let names: Vec<String> = (0..30).map(|i| format!("o{i}")).collect();
    names.iter().for_each(|name| c.write(name, "one"));
    let snap = c.take_snap();
    names.iter().for_each(|name| c.write(name, "two"));
    c.remove_snap(snap);
    c.run(Duration::from_millis(40));
    let left = c.clones(0).len();
    assert!(left > 0 && left < 30, "in the middle of it: {left}");
    for osd in 0..3 {
        c.kill(osd);
    }
    (0..3).for_each(|osd| c.start(osd));
    c.wait_purged();
    c.check();
    (0..3).for_each(|osd| assert_eq!(c.clones(osd), Vec::<String>::new()));
}

#[test]
fn a_member_that_was_away_gets_clones_and_can_trim_them() {
    for log in [None, Some((4, 4))] {
        let mut c = Cluster::new(3, 3, 2, 1);
        if let Some(log) = log {
            (c.options.log_entries, c.options.log_entries_total) = (log, 4);
            for osd in 0..3 {
                c.kill(osd);
                c.start(osd);
            }
            c.run(SECOND);
        }
        (0..8).for_each(|i| c.write(&format!("o{i}"), "one"));
        let away = c.acting("o0")[0];
        let old = c.take_snap();
        c.write("o1", "two");
        c.kill(away);
        let snap = c.take_snap();
        (0..8).for_each(|i| c.write(&format!("o{i}"), "three"));
        assert_eq!(c.op("o3", vec![Op::Delete]).result, 0);
        c.start(away);
        assert_eq!(c.read_at("o1", snap), Ok("two".into()));
        assert_eq!(c.listed("o0").len(), 7);
        c.run(SECOND);
        c.check();
        assert_eq!(c.acting("o0")[0], away, "it leads again");
        c.remove_snap(snap);
        c.remove_snap(old);
        c.wait_purged();
        c.check();
        (0..3).for_each(|osd| assert_eq!(c.clones(osd), Vec::<String>::new()));
    }
}

// ---- random steps against a model

/// A byte, and which write it is of.
type Byte = (u8, u32);

#[derive(Clone, Debug, Default)]
struct Object {
    head: Option<Vec<Byte>>,
    /// By snapshot, also of those that were removed.
    at: BTreeMap<SnapId, Option<Vec<Byte>>>,
}

struct Model {
    objects: BTreeMap<String, Object>,
    stamp: u32,
    snaps: Vec<SnapId>,
    rolled_back: bool,
}

impl Model {
    fn bytes(&mut self, len: usize, value: u8) -> Vec<Byte> {
        self.stamp += 1;
        vec![(value, self.stamp); len]
    }

    /// A random change, as operation and in the model.
    fn change(&mut self, name: &str, rng: &mut Rng) -> (Op, i32) {
        let value = b'a' + rng.below(26) as u8;
        let (off, len) = (rng.below(40) as usize, rng.range(1, 20) as usize);
        let new = self.bytes(len, value);
        let data = Bufs::from(vec![value; len]);
        let extent = Extent::new(off as u64, len as u64);
        let gap = self.bytes(1, 0)[0];
        let object = self.objects.entry(name.to_owned()).or_default();
        let exists = object.head.is_some();
        let end = object.head.as_ref().map_or(0, Vec::len);
        let op = match rng.below(9) {
            0..=2 => Op::Write { extent, data },
            3 => Op::WriteFull { extent: Extent::new(0, len as u64), data },
            4 => Op::Append { extent: Extent::new(0, len as u64), data },
            5 => Op::Truncate(Extent::new(off as u64, 0)),
            6 => Op::Zero(extent),
            7 => Op::Delete,
            _ if self.snaps.is_empty() || object.at.is_empty() => Op::Truncate(Extent::new(0, 0)),
            _ => Op::Rollback { snap: *rng.pick(&self.snaps) },
        };
        let mut put = |from: usize, bytes: &[Byte]| {
            let head = object.head.get_or_insert_default();
            head.resize(head.len().max(from + bytes.len()), gap);
            head[from..from + bytes.len()].copy_from_slice(bytes);
        };
        match &op {
            Op::Write { .. } => put(off, &new),
            Op::Append { .. } => put(end, &new),
            Op::WriteFull { .. } => object.head = Some(new),
            Op::Truncate(_) if exists => {
                let head = object.head.get_or_insert_default();
                let to = if matches!(&op, Op::Truncate(e) if e.off == 0) { 0 } else { off };
                head.resize(to, gap);
            }
            Op::Zero(_) if exists => {
                let head = object.head.get_or_insert_default();
                // To the end and beyond it is a truncation.
                match off + len < end {
                    true => head[off..off + len].fill(gap),
                    false => head.truncate(off),
                }
            }
            Op::Delete => object.head = None,
            Op::Rollback { snap } => {
                self.rolled_back = true;
                object.head = object.at[snap].clone();
            }
            _ => {}
        }
        let absent = matches!(op, Op::Delete) && !exists;
        (op, if absent { -2 } else { 0 })
    }
}

fn shown(bytes: Option<&Vec<Byte>>) -> Result<String, i32> {
    let text = |bytes: &Vec<Byte>| {
        String::from_utf8_lossy(&bytes.iter().map(|b| b.0).collect::<Vec<_>>()).into_owned()
    };
    bytes.map(text).ok_or(-2)
}

/// The ranges in which two states are of the same writes.
fn same(a: &[Byte], b: &[Byte]) -> IntervalSet {
    let mut set = IntervalSet::new();
    let both = a.iter().zip(b).enumerate().filter(|(_, (a, b))| a == b);
    both.for_each(|(i, _)| set.insert(i as u64, 1));
    set
}

fn check_list(c: &mut Cluster, name: &str, model: &Model, what: &str) {
    let object = model.objects.get(name).cloned().unwrap_or_default();
    let Ok(list) = c.list_snaps(name) else {
        let shown = |snap: &SnapId| object.at.get(snap).is_some_and(Option::is_some);
        return assert!(object.head.is_none() && !model.snaps.iter().any(shown), "{what}: no list");
    };
    let states: Vec<(SnapId, Vec<Byte>)> = list
        .clones
        .iter()
        .map(|clone| {
            let state = match clone.cloneid {
                SnapId::HEAD => object.head.clone(),
                _ => object.at.get(&clone.snaps[0]).cloned().flatten(),
            };
            (clone.cloneid, state.unwrap_or_else(|| panic!("{what}: {clone:?} shows what was not there")))
        })
        .collect();
    for (i, clone) in list.clones.iter().enumerate() {
        assert_eq!(clone.size as usize, states[i].1.len(), "{what}: {clone:?}");
        let Some((_, newer)) = states.get(i + 1) else { break };
        let mut beyond = clone.overlap.clone();
        let truth = same(&states[i].1, newer);
        beyond.subtract(&truth);
        assert!(beyond.is_empty(), "{what}: {clone:?} shares {truth:?}");
        if !model.rolled_back {
            assert_eq!(clone.overlap, truth, "{what}: {clone:?}");
        }
    }
}

fn random_steps(seed: u64, steps: u32) {
    let mut rng = Rng::from_seed(seed);
    let mut c = Cluster::new(3, 3, 2, 2);
    let misfortunes = rng.chance(1, 2);
    c.rescue = true;
    if rng.chance(1, 3) {
        (c.options.log_entries, c.options.log_entries_total) = ((4, 4), 4);
    }
    let mut model = Model { objects: BTreeMap::new(), stamp: 0, snaps: Vec::new(), rolled_back: false };
    for step in 0..steps {
        let name = format!("o{}", rng.below(3));
        let what = format!("seed {seed} step {step} {name}");
        match rng.below(20) {
            0 | 1 => {
                let snap = c.take_snap();
                model.snaps.push(snap);
                for object in model.objects.values_mut() {
                    object.at.insert(snap, object.head.clone());
                }
            }
            2 if !model.snaps.is_empty() => {
                let snap = model.snaps.remove(rng.below(model.snaps.len() as u64) as usize);
                c.remove_snap(snap);
                if rng.chance(1, 2) {
                    c.context.snaps.retain(|s| *s != snap);
                }
            }
            3 if misfortunes => super::storm::misfortune(&mut c, &mut rng),
            4 | 5 => {
                let object = model.objects.get(&name).cloned().unwrap_or_default();
                assert_eq!(c.read(&name), shown(object.head.as_ref()), "{what}");
                for snap in &model.snaps {
                    let state = object.at.get(snap).and_then(Option::as_ref);
                    assert_eq!(c.read_at(&name, *snap), shown(state), "{what} at {snap}");
                }
                check_list(&mut c, &name, &model, &what);
            }
            6 => c.run(Duration::from_millis(rng.below(300))),
            _ => {
                let before = model.objects.clone();
                let (op, result) = model.change(&name, &mut rng);
                if !before.contains_key(&name) {
                    // It was not there at any snapshot.
                    let snaps = model.snaps.clone();
                    let object = model.objects.get_mut(&name).expect("there");
                    snaps.into_iter().for_each(|snap| drop(object.at.insert(snap, None)));
                }
                while c.alive().0.len() < 2 {
                    let (_, dead) = c.alive();
                    c.start(*rng.pick(&dead));
                }
                let reply: OsdOpReply = c.op(&name, vec![op.clone()]);
                assert_eq!(reply.result, result, "{what} {op:?}");
            }
        }
    }
    finish(&mut c, &mut model, seed);
}

fn finish(c: &mut Cluster, model: &mut Model, seed: u64) {
    c.alive().1.into_iter().for_each(|osd| c.start(osd));
    c.run(SECOND);
    c.wait_purged();
    for (name, object) in &model.objects {
        for snap in &model.snaps {
            let state = object.at.get(snap).and_then(Option::as_ref);
            assert_eq!(c.read_at(name, *snap), shown(state), "seed {seed} {name} at {snap}");
        }
        check_list(c, name, model, &format!("seed {seed} {name}"));
    }
    c.complaints.retain(|text| !text.contains("object_unfound"));
    c.check();
    check_counts(c, seed);
    for snap in model.snaps.drain(..) {
        c.remove_snap(snap);
    }
    c.wait_purged();
    c.check();
    for osd in 0..3 {
        assert_eq!(c.clones(osd), Vec::<String>::new(), "seed {seed}: no snapshot is left");
        assert!(c.objects(osd).len() == model.objects.values().filter(|o| o.head.is_some()).count());
    }
    check_counts(c, seed);
}

/// What PGs say of objects, clones and bytes is what is there.
fn check_counts(c: &mut Cluster, seed: u64) {
    let stored: Vec<(ObjectKey, store::ObjectView)> = c.objects(0).into_values().collect();
    let mut counted = (0, 0, 0);
    for pg in c.osd(0).pgs.values() {
        let s = &pg.info().stats;
        counted = (counted.0 + s.objects, counted.1 + s.clones, counted.2 + s.bytes);
    }
    let heads = stored.iter().filter(|(key, _)| key.snap == ObjectKey::HEAD);
    let bytes = heads.map(|(_, view)| {
        let info = ObjectInfo::parse(&view.attrs[0].1).expect("an info");
        view.size as i64 + info.snapset.bytes() as i64
    });
    let clones = stored.iter().filter(|(key, _)| key.snap != ObjectKey::HEAD).count() as i64;
    assert_eq!(counted, (stored.len() as i64, clones, bytes.sum()), "seed {seed}");
}

#[test]
fn random_steps_leave_every_snapshot_as_it_was() {
    let only = std::env::var("OSD_SEED").ok().and_then(|s| s.parse().ok());
    for seed in only.map_or(0..24, |s: u64| s..s + 1) {
        random_steps(seed, 160);
    }
}

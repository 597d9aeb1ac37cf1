//! PGs that become several.

use super::cluster::{Cluster, append, names};
use crate::pg::Pg;
use crate::pg::meta::{Loader, MetaChange, Stored};
use maps::{PgId, Spg};
use std::collections::BTreeSet;
use std::time::Duration;
use store::TxnOp;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn objects_stay_where_they_are_and_are_found() {
    let mut c = Cluster::new(3, 3, 2, 1);
    names(60).iter().for_each(|name| c.write(name, name));
    for pg_num in [2, 3, 8] {
        c.set_pg_num(pg_num, 1);
        for name in names(60) {
            assert_eq!(c.read(&name), Ok(name.clone()), "of {pg_num}");
        }
        c.check();
        assert_eq!(c.objects_counted(), 60);
    }
    let homes: BTreeSet<_> = names(60).iter().map(|name| c.pgid(name)).collect();
    assert_eq!(homes.len(), 8);
    names(60).iter().for_each(|name| c.write(name, "again"));
    assert_eq!((c.counted("objects_recovered"), c.counted("copy_resynced")), (0, 0), "nothing moves");
    c.check();
}

#[test]
fn copies_move_where_places_follow() {
    let mut c = Cluster::new(5, 3, 2, 2);
    names(60).iter().for_each(|name| c.write(name, name));
    c.set_pg_num(16, 16);
    for name in names(60) {
        assert_eq!(c.read(&name), Ok(name.clone()));
    }
    c.check();
    c.run(SECOND);
    let members: usize = names(60).iter().map(|name| c.acting(name).len()).sum();
    let copies: usize = (0..5).map(|osd| c.objects(osd).len()).sum();
    assert_eq!(copies, members, "those that are not needed any more are gone");
}

#[test]
fn a_member_that_was_away_splits_what_it_has_when_it_comes_back() {
    let mut c = Cluster::new(3, 3, 2, 1);
    names(30).iter().for_each(|name| c.write(name, "old"));
    c.kill(1);
    names(10).iter().for_each(|name| c.write(name, "before"));
    c.set_pg_num(4, 4);
    names(5).iter().for_each(|name| c.write(name, "after"));
    c.start(1);
    c.run(SECOND);
    c.check();
    assert_eq!(c.counted("copy_resynced"), 0, "each part's log was enough");
    for (i, name) in names(30).iter().enumerate() {
        let text = if i < 5 {
            "after"
        } else if i < 10 {
            "before"
        } else {
            "old"
        };
        assert_eq!(c.read(name), Ok(text.into()));
    }
}

#[test]
fn a_repeated_append_is_known_after_its_pg_was_split() {
    let mut c = Cluster::new(3, 3, 2, 1);
    let mut sent = Vec::new();
    for (i, name) in names(12).iter().enumerate() {
        let tid = 5_000 + i as u64;
        let primary = c.acting(name)[0];
        c.send_op(primary, Some(tid), name, vec![append("x")]);
        sent.push(tid);
    }
    c.run(Duration::from_millis(1));
    c.set_pg_num(4, 4);
    for (name, tid) in names(12).iter().zip(&sent) {
        c.resend(*tid, name, vec![append("x")]);
        assert_eq!(c.read(name), Ok("x".into()), "once");
    }
    c.check();
}

#[test]
fn a_power_failure_at_any_time_of_a_split_loses_nothing() {
    for after in (0..40).map(|n| Duration::from_micros(50 * n)) {
        let mut c = Cluster::new(3, 3, 2, 2);
        names(20).iter().for_each(|name| c.write(name, name));
        c.set_pg_num(5, 3);
        c.run(after);
        (0..3).for_each(|osd| c.kill(osd));
        (0..3).for_each(|osd| c.start(osd));
        for name in names(20) {
            assert_eq!(c.read(&name), Ok(name.clone()), "killed {after:?} after the map");
        }
        c.check();
        assert_eq!((c.objects_counted(), c.counted("copy_resynced")), (20, 0));
    }
}

#[test]
fn clones_are_trimmed_by_the_pg_that_has_them_now() {
    let mut c = Cluster::new(3, 3, 2, 1);
    names(12).iter().for_each(|name| c.write(name, "one"));
    let snap = c.take_snap();
    names(12).iter().for_each(|name| c.write(name, "two"));
    c.set_pg_num(4, 4);
    assert_eq!(c.read_at("o1", snap), Ok("one".into()));
    c.remove_snap(snap);
    c.wait_purged();
    c.check();
    (0..3).for_each(|osd| assert_eq!(c.clones(osd), Vec::<String>::new()));
}

#[test]
fn a_split_that_a_start_finds_marked_comes_to_the_same() {
    let mut c = Cluster::new(1, 1, 1, 1);
    names(40).iter().for_each(|name| c.write(name, name));
    let whole = Spg::replicated(PgId::new(c.pgid("o0").pool, 0));
    let pg = &c.osd(0).pgs[&whole];
    // What lies on the disk between the map's transaction and that of the parts.
    let mut change = MetaChange::default();
    change.replace_log(pg.log(), pg.missing());
    change.info(pg.info());
    change.pg_num_before(1);
    let mut ops = Vec::new();
    change.into_ops(whole, &mut ops);
    c.set_pg_num(4, 1);
    c.run(SECOND);
    let mut entries = Vec::new();
    ops.into_iter().for_each(|op| {
        if let TxnOp::OmapSet(_, set) = op {
            entries.extend(set)
        }
    });
    let mut loader = Loader::default();
    entries.iter().for_each(|(key, value)| loader.take(key, value).expect("own encoding"));
    let members = c.osd(0).pgs[&whole].members().clone();
    let mut found = Pg::new(whole, 4, Stored { members, ..loader.finish() });
    let mut parts = found.split(&mut c.osd_mut(0).core);
    parts.push(found);
    assert_eq!(parts.len(), 4);
    for part in parts {
        let now = &c.osd(0).pgs[&part.id()];
        let of = |pg: &Pg| {
            (pg.range().clone(), pg.log().len(), pg.log().head(), pg.info().stats.objects, pg.pg_num_before())
        };
        assert_eq!(of(&part), of(now));
        let past = |pg: &Pg| {
            let members = pg.members();
            let grain = (members.bits(), members.is_premerge());
            (members.acting().clone(), members.past().len(), grain)
        };
        assert_eq!(past(&part), past(now));
    }
}

//! What must hold where the data of updates goes ahead of them.

use super::cluster::{Cluster, append, write_full};
use maps::{OsdId, SnapId, Spg};
use msgs::{Extent, Op};
use node::{Body, Msg};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use stdx::Bufs;

const SECOND: Duration = Duration::from_secs(1);
/// Larger than a part, and no multiple of anything.
const LARGE: usize = 100_003;

/// Three OSDs, one PG, and parts of a few blocks.
fn cluster() -> Cluster {
    let mut c = Cluster::new(3, 3, 2, 1);
    (c.options.update_whole, c.options.update_part) = (16 << 10, 8 << 10);
    for osd in 0..3 {
        let options = c.options.clone();
        c.osd_mut(osd).core.change_options(|old| *old = options);
    }
    c
}

fn text(seed: usize, len: usize) -> String {
    (0..).map(|i| format!("{seed}-{i} ")).take(len).collect::<String>()[..len].to_owned()
}

fn write_at(offset: usize, text: &str) -> Op {
    let data = Bufs::from(text.as_bytes().to_vec());
    Op::Write { extent: Extent::new(offset as u64, data.len() as u64), data }
}

fn part(msg: &Msg) -> Option<&peer::RepData> {
    if let Body::Peer(peer::Body::RepData(part)) = &msg.body { Some(part) } else { None }
}

fn is_rep_op(msg: &Msg) -> bool {
    matches!(msg.body, Body::Peer(peer::Body::RepOp(_)))
}

/// Nothing is left of what came ahead.
fn check(c: &mut Cluster) {
    c.check();
    let left: Vec<_> = c.alive().0.into_iter().flat_map(|osd| c.temporary(osd)).collect();
    assert_eq!(left, []);
}

#[test]
fn copies_are_the_same_wherever_data_went_ahead() {
    let mut c = cluster();
    let mut content = text(1, LARGE);
    c.write("x", &content);
    assert_eq!(c.read("x"), Ok(content.clone()));
    content += &text(2, LARGE);
    assert_eq!(c.op("x", vec![append(&text(2, LARGE))]).result, 0);
    assert_eq!(c.read("x"), Ok(content.clone()));

    c.context = crate::snapset::SnapContext { seq: SnapId(1), snaps: vec![SnapId(1)] };
    let before = content.clone();
    for (seed, offset, len) in [(3, 5000, 50_000), (4, 8192, 40_960), (5, 0, 20_000), (6, 190_000, 30_001)] {
        assert_eq!(c.op("x", vec![write_at(offset, &text(seed, len))]).result, 0);
        content.truncate(content.len().max(offset));
        content.replace_range(offset..(offset + len).min(content.len()), &text(seed, len));
        assert_eq!(c.read("x"), Ok(content.clone()), "{offset} {len}");
    }
    c.at = SnapId(1);
    assert_eq!(c.read("x"), Ok(before));
    c.at = SnapId::HEAD;

    let same = Op::WriteSame { off: 3, len: 60_000, data: text(7, 60).into_bytes().into() };
    assert_eq!(
        c.op("y", vec![same, write_at(70_000, &text(8, 300)), write_at(80_000, &text(9, 30_000))]).result,
        0
    );
    let read = c.read("y").expect("is there");
    assert!(read[3..].starts_with(&text(7, 60).repeat(1000)) && read.ends_with(&text(9, 30_000)));
    assert!(c.counted("updates_in_parts") >= 2 * 7, "{}", c.counted("updates_in_parts"));
    check(&mut c);
}

/// A member has got the first part of a write and nothing else. Gives the tid, and who that is.
fn torn() -> (Cluster, u64, usize) {
    let mut c = cluster();
    c.write("x", "before");
    let acting = c.acting("x");
    let member = acting[1];
    c.filter = Some(Box::new(move |_, to, msg| {
        to == member && (is_rep_op(msg) || part(msg).is_some_and(|part| part.offset > 0))
    }));
    let tid = c.send_op(acting[0], None, "x", vec![write_full(&text(1, LARGE))]);
    c.run(SECOND / 10);
    assert!(!c.replies.contains_key(&tid));
    assert_eq!(c.temporary(member).len(), 1);
    c.filter = None;
    (c, tid, member)
}

fn goes_through(mut c: Cluster, tid: u64) {
    assert_eq!(c.finish(tid, "x", vec![write_full(&text(1, LARGE))]).result, 0);
    assert_eq!(c.read("x"), Ok(text(1, LARGE)));
    check(&mut c);
}

#[test]
fn a_member_that_dies_between_parts_keeps_nothing_of_them() {
    let (mut c, tid, member) = torn();
    c.kill(member);
    assert_eq!(c.temporary(member).len(), 1, "it was durable");
    c.run(SECOND);
    c.start(member);
    c.run_until("it is up", |c| c.map.is_up(OsdId(member as i32)));
    goes_through(c, tid);
}

#[test]
fn an_interval_that_ends_between_parts_takes_them_along() {
    let (mut c, tid, member) = torn();
    let other = c.acting("x")[2];
    c.kill(other);
    c.run_until("it is down", |c| !c.map.is_up(OsdId(other as i32)));
    c.start(other);
    c.run_until("it is up", |c| c.map.is_up(OsdId(other as i32)));
    c.run(SECOND);
    assert!(c.osd(member).pgs[&Spg::replicated(c.pgid("x"))].preship().is_none());
    goes_through(c, tid);
}

#[test]
fn a_primary_that_dies_between_parts_leaves_nothing() {
    let (mut c, tid, member) = torn();
    let primary = c.acting("x")[0];
    c.kill(primary);
    c.run_until("it is down", |c| !c.map.is_up(OsdId(primary as i32)));
    c.run(SECOND);
    assert_eq!(c.temporary(member), []);
    c.start(primary);
    c.run_until("it is up", |c| c.map.is_up(OsdId(primary as i32)));
    goes_through(c, tid);
}

#[test]
fn an_update_whose_data_is_not_here_is_not_carried_out() {
    let mut c = cluster();
    c.write("x", "before");
    let acting = c.acting("x");
    let member = acting[1];
    for lost in [0, 8 << 10, 88 << 10] {
        c.filter =
            Some(Box::new(move |_, to, msg| to == member && part(msg).is_some_and(|p| p.offset == lost)));
        let tid = c.send_op(acting[0], None, "x", vec![write_full(&text(1, LARGE))]);
        c.run(SECOND / 2);
        assert!(!c.replies.contains_key(&tid), "{lost}");
        let refused = std::mem::take(&mut c.complaints);
        // Where not even the first part is here, it may have come too early over another connection.
        match lost {
            0 => assert_eq!(refused, [""; 0]),
            _ => assert!(refused.len() == 1 && refused[0].contains("update_refused"), "{refused:?}"),
        }
        assert_eq!(c.objects(member)[&b"x"[..]].1.size, 6);
        c.filter = None;
        c.break_links(acting[0], member);
        assert_eq!(c.finish(tid, "x", vec![write_full(&text(1, LARGE))]).result, 0);
        assert_eq!(c.read("x"), Ok(text(1, LARGE)));
        c.write("x", "before");
    }
    check(&mut c);
}

#[test]
fn nobody_reads_what_has_come_ahead() {
    let (mut c, _, member) = torn();
    let object = c.objects(member);
    assert_eq!(object.keys().collect::<Vec<_>>(), [&b"x".to_vec()]);
    assert_eq!(object[&b"x"[..]].1.size, 6);
    c.run(SECOND / 10);
}

#[test]
fn a_member_of_an_older_version_gets_everything_at_once() {
    let mut c = cluster();
    c.write("x", "before");
    let old = c.acting("x")[2];
    c.options.levels.newest = 2;
    c.kill(old);
    c.run_until("it is down", |c| !c.map.is_up(OsdId(old as i32)));
    c.start(old);
    c.run_until("it is up", |c| c.map.is_up(OsdId(old as i32)));
    c.run(SECOND);
    c.wait_clean();
    let seen = Rc::new(Cell::new([0; 3]));
    let counts = seen.clone();
    c.filter = Some(Box::new(move |_, to, msg| {
        let mut all = counts.get();
        if to < 3 && part(msg).is_some() {
            all[to] += 1;
        }
        counts.set(all);
        false
    }));
    c.write("x", &text(1, LARGE));
    let primary = c.acting("x")[0];
    let expected: [usize; 3] = std::array::from_fn(|osd| if osd == old || osd == primary { 0 } else { 12 });
    assert_eq!(seen.get(), expected);
    check(&mut c);
}

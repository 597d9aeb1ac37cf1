//! Reads that clients let any member answer.

use super::cluster::{Cluster, POOL, write_full};
use maps::{Epoch, SnapId, Spg};
use msgs::{Extent, Op, OsdOp, SubOp, osd_flag};
use node::{Body, Msg};
use std::time::Duration;
use stdx::Bufs;

const EAGAIN: i32 = -11;
const MOMENT: Duration = Duration::from_millis(100);
const CLIENT: usize = 101;

/// What this OSD answers, if it does.
fn at(c: &mut Cluster, osd: usize, name: &str, epoch: Epoch, ops: Vec<Op>) -> Option<(i32, String)> {
    let (pgid, hash) = c.pgid_of(name);
    let tid = 1_000_000 + c.now().0;
    let request = OsdOp {
        pgid: Spg::replicated(pgid),
        hash,
        epoch,
        flags: c.flags | osd_flag::ONDISK | osd_flag::READ,
        locator: maps::ObjectLocator { pool: POOL, ..Default::default() },
        oid: name.as_bytes().to_vec(),
        ops: ops.into_iter().map(SubOp::from).collect(),
        snapid: SnapId::HEAD,
        ..OsdOp::default()
    };
    c.send_any(osd, tid, msgs::Body::from(request));
    c.run(MOMENT);
    let reply = &c.replies.get(&tid)?[0];
    let data = reply.ops.first().map(|op| op.data.to_vec()).unwrap_or_default();
    Some((reply.result, String::from_utf8_lossy(&data).into_owned()))
}

fn read_at(c: &mut Cluster, osd: usize, name: &str) -> Option<(i32, String)> {
    let epoch = c.map.epoch;
    at(c, osd, name, epoch, vec![Op::Read(Extent::new(0, 0))])
}

fn balanced() -> Cluster {
    let mut c = Cluster::new(3, 3, 2, 1);
    c.write("x", "known everywhere");
    c.write("y", "the last");
    c.flags = osd_flag::BALANCE_READS;
    c.run(MOMENT);
    c
}

#[test]
fn any_member_shows_what_it_knows_to_be_everywhere() {
    let mut c = balanced();
    let acting = c.acting("x");
    for osd in &acting {
        assert_eq!(read_at(&mut c, *osd, "x"), Some((0, "known everywhere".into())), "osd.{osd}");
        assert_eq!(read_at(&mut c, *osd, "never"), Some((-2, String::new())), "osd.{osd}");
    }
    assert_eq!(c.counted("balanced_reads"), 4);
    // Only the primary knows yet that the newest update is durable everywhere.
    assert_eq!(read_at(&mut c, acting[0], "y"), Some((0, "the last".into())));
    assert_eq!(read_at(&mut c, acting[1], "y"), Some((EAGAIN, String::new())));
    c.write("z", "another");
    assert_eq!(read_at(&mut c, acting[1], "y"), Some((0, "the last".into())));
    c.flags = 0;
    assert_eq!(read_at(&mut c, acting[1], "x"), None, "nobody let it");
    c.check();
}

#[test]
fn what_only_the_primary_can_do_is_left_to_it() {
    let mut c = balanced();
    let (replica, epoch) = (c.acting("x")[1], c.map.epoch);
    let list = Op::PgNls { max: 10, start_epoch: 0, data: Bufs::new() };
    let notify = Op::Notify { cookie: 1, data: Bufs::new() };
    for op in [list, notify, Op::ListWatchers] {
        let name = op.code();
        assert_eq!(at(&mut c, replica, "x", epoch, vec![op]), Some((EAGAIN, String::new())), "{name}");
    }
    // Asked for with another number it might be carried out twice.
    for op in [Op::Delete, write_full("not here")] {
        assert_eq!(at(&mut c, replica, "x", epoch, vec![op]), None);
    }
    assert_eq!(c.read("x"), Ok("known everywhere".into()));
}

#[test]
fn a_member_that_lacks_an_object_does_not_show_it() {
    let mut c = Cluster::new(3, 3, 2, 1);
    c.write("x", "old");
    let replica = c.acting("x")[1];
    c.kill(replica);
    c.write("x", "new");
    c.write("y", "later");
    c.flags = osd_flag::BALANCE_READS;
    c.start(replica);
    let mut shown = 0;
    for _ in 0..100 {
        match read_at(&mut c, replica, "x") {
            Some((0, text)) => {
                assert_eq!(text, "new");
                shown += 1;
            }
            None | Some((EAGAIN, _)) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(shown > 0, "it has the object by now");
}

/// A member that the others can't reach any more, and that is marked down at once.
#[test]
fn nobody_shows_what_was_overwritten_without_it() {
    let mut c = balanced();
    let (primary, cut_off) = (c.acting("x")[0], c.acting("x")[2]);
    let epoch = c.map.epoch;
    c.run(Duration::from_secs(3));
    let inside = move |osd: usize| osd != cut_off && osd != CLIENT;
    c.filter = Some(Box::new(move |from, to, _: &Msg| {
        from == cut_off && inside(to) || to == cut_off && inside(from)
    }));
    c.mark_down(cut_off, false);
    let asked = c.now();
    c.flags = 0;
    let tid = c.send_op(primary, None, "x", vec![write_full("overwritten")]);
    c.flags = osd_flag::BALANCE_READS;
    let mut shown = 0;
    for _ in 0..100 {
        let read = at(&mut c, cut_off, "x", epoch, vec![Op::Read(Extent::new(0, 0))]);
        let over = c.replies.contains_key(&tid);
        match read {
            Some((0, text)) => {
                assert!(!over, "it still shows {text:?} {:?} later", c.now().since(asked));
                shown += 1;
            }
            None | Some((EAGAIN, _)) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(shown > 0, "it served for a while");
    assert_eq!(c.replies[&tid][0].result, 0);
}

#[test]
fn an_update_on_its_way_is_not_shown_before_it_is_everywhere() {
    let mut c = balanced();
    let acting = c.acting("x");
    let (told, spared) = (acting[1], acting[2]);
    let is_update = |msg: &Msg| matches!(msg.body, Body::Peer(peer::Body::RepOp(_)));
    c.filter = Some(Box::new(move |_, to, msg| is_update(msg) && to == spared));
    c.flags = 0;
    let tid = c.send_op(acting[0], None, "x", vec![write_full("on its way")]);
    c.flags = osd_flag::BALANCE_READS;
    c.run(MOMENT);
    assert_eq!(read_at(&mut c, told, "x"), Some((EAGAIN, String::new())));
    assert_eq!(read_at(&mut c, spared, "x"), Some((0, "known everywhere".into())));
    assert!(!c.replies.contains_key(&tid));
}

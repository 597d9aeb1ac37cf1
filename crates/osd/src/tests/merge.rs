//! PGs that become one.

use super::cluster::{Cluster, POOL, append, names};
use crate::pg::Pg;
use maps::{EVersion, HObject, OsdMap, PgId, Spg};
use msgs::Op;
use msgs::op::input::{self, PgNlsReply};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// So many PGs in one place, on three OSDs.
fn together(pg_num: u32) -> Cluster {
    let mut c = Cluster::new(3, 3, 2, 1);
    c.set_pg_num(pg_num, 1);
    c.wait_clean();
    c
}

#[test]
fn objects_stay_where_they_are_and_are_found() {
    let mut c = together(6);
    names(60).iter().for_each(|name| c.write(name, name));
    while c.pg_num() > 1 {
        c.merge_last();
        for name in names(60) {
            assert_eq!(c.read(&name), Ok(name.clone()), "of {}", c.pg_num());
        }
        c.check();
        assert_eq!(c.objects_counted(), 60);
    }
    names(60).iter().for_each(|name| c.write(name, "again"));
    c.check();
    let moved = ["objects_recovered", "copy_resynced", "merged_copy_not_whole"].map(|what| c.counted(what));
    assert_eq!(moved, [0; 3], "nothing moves");
    c.set_pg_num(5, 5);
    for name in names(60) {
        assert_eq!(c.read(&name), Ok("again".into()), "split again");
    }
    c.check();
}

#[test]
fn requests_wait_until_the_merge_is_over() {
    for is_merged in [true, false] {
        let mut c = together(2);
        names(12).iter().for_each(|name| c.write(name, "x"));
        let meta = c.ready_to_merge();
        let tids: Vec<(String, u64)> = names(12)
            .into_iter()
            .map(|name| {
                let primary = c.acting(&name)[0];
                let tid = c.send_op(primary, None, &name, vec![append("y")]);
                (name, tid)
            })
            .collect();
        c.run(5 * SECOND);
        assert!(tids.iter().all(|(_, tid)| !c.replies.contains_key(tid)), "nobody is served meanwhile");
        assert_eq!(
            c.merge_meta().map(|now| (now.source_version, now.target_version)),
            Some((meta.source_version, meta.target_version))
        );
        if is_merged {
            c.merge(meta)
        } else {
            c.set_pending(2)
        }
        for (name, tid) in tids {
            assert_eq!(c.finish(tid, &name, vec![append("y")]).result, 0);
            assert_eq!(c.read(&name), Ok("xy".into()), "merged: {is_merged}");
        }
        c.check();
    }
}

#[test]
fn a_repeated_append_is_known_after_its_pg_was_merged() {
    let mut c = together(4);
    let sent: Vec<u64> = (0..24).map(|i| 5_000 + i).collect();
    for (name, tid) in names(24).iter().zip(&sent) {
        c.resend(*tid, name, vec![append("x")]);
    }
    for _ in 0..3 {
        c.merge_last();
    }
    for (name, tid) in names(24).iter().zip(&sent) {
        c.resend(*tid, name, vec![append("x")]);
        assert_eq!(c.read(name), Ok("x".into()), "once");
    }
    c.set_pg_num(3, 1);
    for (name, tid) in names(24).iter().zip(&sent) {
        c.resend(*tid, name, vec![append("x")]);
        assert_eq!(c.read(name), Ok("x".into()), "once, after they were split again");
    }
    c.check();
}

#[test]
fn a_member_that_was_away_merges_what_it_has_when_it_comes_back() {
    let mut c = together(2);
    names(30).iter().for_each(|name| c.write(name, "old"));
    let meta = c.ready_to_merge();
    c.kill(1);
    c.merge(meta);
    names(5).iter().for_each(|name| c.write(name, "after"));
    c.start(1);
    c.run(SECOND);
    c.check();
    assert_eq!(c.counted("copy_resynced"), 0, "its log was enough");
    for (i, name) in names(30).iter().enumerate() {
        assert_eq!(c.read(name), Ok(if i < 5 { "after" } else { "old" }.into()));
    }
}

#[test]
fn power_failures_at_any_time_of_a_merge_lose_nothing() {
    for after in (0..40).map(|n| Duration::from_micros(50 * n)) {
        let mut c = together(3);
        names(20).iter().for_each(|name| c.write(name, name));
        c.merge_last();
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

/// Two PGs that were on OSDs 0 and 1 until OSD 1 was killed, and are on 0 and 2 since then. Everything was
/// written before, and half of it again afterwards.
fn moved_away() -> Cluster {
    let mut c = Cluster::new(3, 2, 1, 1);
    let pgs = |c: &Cluster| c.map.pools[&POOL].pgs(POOL).collect::<Vec<_>>();
    c.set_pg_num(2, 1);
    for pgid in pgs(&c) {
        c.place(pgid, &[0, 1]);
    }
    c.wait_clean();
    names(24).iter().for_each(|name| c.write(name, "old"));
    c.kill(1);
    for pgid in pgs(&c) {
        c.place(pgid, &[0, 2]);
    }
    c.wait_clean();
    names(12).iter().for_each(|name| c.write(name, "new"));
    c
}

#[test]
fn a_stale_copy_is_no_authority_and_is_compared() {
    let mut c = moved_away();
    c.merge_last();
    c.wait_clean();
    c.start(1);
    c.run(SECOND);
    let whole = PgId::new(POOL, 0);
    c.place(whole, &[1, 2]);
    for (i, name) in names(24).iter().enumerate() {
        assert_eq!(c.read(name), Ok(if i < 12 { "new" } else { "old" }.into()));
    }
    c.run(SECOND);
    c.check();
}

#[test]
fn a_stale_copy_alone_serves_nobody() {
    let mut c = moved_away();
    c.merge_last();
    c.wait_clean();
    c.kill(0);
    c.kill(2);
    c.start(1);
    c.run(2 * SECOND);
    let whole = PgId::new(POOL, 0);
    c.place(whole, &[1]);
    c.run(2 * SECOND);
    assert!(!c.osd(1).pgs[&Spg::replicated(whole)].is_serving());
    assert!(c.osd(1).pgs[&Spg::replicated(whole)].info().incomplete);
    c.start(2);
    for (i, name) in names(24).iter().enumerate() {
        assert_eq!(c.read(name), Ok(if i < 12 { "new" } else { "old" }.into()));
    }
}

#[test]
fn clones_are_trimmed_by_the_pg_that_has_them_now() {
    let mut c = together(4);
    names(12).iter().for_each(|name| c.write(name, "one"));
    let snap = c.take_snap();
    names(12).iter().for_each(|name| c.write(name, "two"));
    for _ in 0..3 {
        c.merge_last();
    }
    assert_eq!(c.read_at("o1", snap), Ok("one".into()));
    c.remove_snap(snap);
    c.wait_purged();
    c.check();
    (0..3).for_each(|osd| assert_eq!(c.clones(osd), Vec::<String>::new()));
}

#[test]
fn all_copies_of_a_merged_pg_begin_at_one_version() {
    let mut c = together(2);
    names(20).iter().for_each(|name| c.write(name, "x"));
    let meta = c.ready_to_merge();
    let head = EVersion::new(meta.ready_epoch, meta.source_version.version + meta.target_version.version + 1);
    c.merge(meta);
    c.run(SECOND);
    c.wait_clean();
    let whole = PgId::new(POOL, 0);
    for osd in 0..3 {
        let pg: &Pg = &c.osd(osd).pgs[&Spg::replicated(whole)];
        assert_eq!(
            (pg.info().last_update, pg.info().log_tail, pg.log().head(), pg.log().tail()),
            (head, head, head, head)
        );
        assert_eq!((pg.info().incomplete, pg.missing().len(), pg.log().dups().count()), (false, 0, 20));
        assert!(pg.log().dups().all(|dup| dup.version < head));
    }
}

/// The next page of a listing, of the PG that holds the cursor by the map that the client has, and whether
/// the PG ends with it.
fn page(c: &mut Cluster, map: &OsdMap, cursor: &HObject) -> (PgNlsReply, bool) {
    let home = |map: &OsdMap| map.pools[&POOL].raw_pg_to_pg(PgId::new(POOL, cursor.hash));
    // What was merged into another PG is asked of that one.
    let pgid = Some(home(map)).filter(|pgid| pgid.seed < c.pg_num()).unwrap_or_else(|| home(&c.map));
    let any = (0..).map(|i| format!("o{i}")).find(|name| c.pgid(name) == pgid).expect("an object of it");
    let reply = c.op(&any, vec![Op::PgNls { max: 5, start_epoch: 0, data: input::write(cursor) }]);
    (input::read(&reply.ops[0].data).expect("a page"), reply.result == 1)
}

#[test]
fn a_listing_that_runs_on_while_pgs_split_and_are_merged_tells_each_name_once() {
    for first in [1, 2, 4, 8] {
        let mut c = together(first);
        names(150).iter().for_each(|name| c.write(name, "x"));
        let mut found: Vec<String> = Vec::new();
        let (mut cursor, mut known) = (HObject { pool: POOL, ..HObject::default() }, c.map.clone());
        let mut elsewhere = 0;
        for round in 0.. {
            let (page, end) = page(&mut c, &known, &cursor);
            found.extend(page.entries.into_iter().map(|e| String::from_utf8(e.oid).expect("a name")));
            if page.handle.max {
                break;
            }
            elsewhere += usize::from(end && page.handle == cursor);
            cursor = page.handle;
            // It has the map of the answer. Then there is another one.
            known = c.map.clone();
            match (round % 3, c.pg_num()) {
                (0, 1..3) => c.set_pg_num(8, 1),
                (0, _) => c.merge_last(),
                _ => {}
            }
        }
        found.sort();
        let mut all = names(150);
        all.sort();
        assert_eq!(found, all, "from {first}");
        assert!(first > 1 || elsewhere > 0, "the client has asked a PG for what was split off from it");
    }
}

#[test]
fn planted_faults_are_seen() {
    // An append to PGs that are ready to be merged is not answered before.
    let serves = || {
        let mut c = together(2);
        c.write("o0", "x");
        c.ready_to_merge();
        let tid = c.send_op(c.acting("o0")[0], None, "o0", vec![append("y")]);
        c.run(SECOND);
        c.replies.contains_key(&tid)
    };
    assert_eq!((serves(), stdx::mutants::with("osd_serves_before_a_merge", serves)), (false, true));
    let appended = || {
        let mut c = together(2);
        c.resend(5_000, "o0", vec![append("x")]);
        c.merge_last();
        c.resend(5_000, "o0", vec![append("x")]);
        c.read("o0")
    };
    let twice = stdx::mutants::with("osd_forgets_answers_of_merged_pgs", appended);
    assert_eq!((appended(), twice), (Ok("x".into()), Ok("xx".into())));
}

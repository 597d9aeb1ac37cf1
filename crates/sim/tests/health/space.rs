//! Codes of OSDs that run out of space, and of PGs that wait for it.

use crate::operator::{Operator, request, write};
use msgs::osd_flag;
use sim::Crash;
use sim::cluster::Spec;
use std::time::Duration;

const MIB: usize = 1 << 20;

/// Three OSDs with small disks.
fn small(osd: osd::OsdOptions) -> Operator {
    let mut op = Operator::of(&Spec { osd_disk: 64 << 20, pgs: 16, osd, ..Spec::default() });
    // The store keeps a quarter of so small a disk for itself.
    for (level, ratio) in [("nearfull", "0.4"), ("backfillfull", "0.5"), ("full", "0.6")] {
        op.ceph(&format!("osd set-{level}-ratio {ratio}"));
    }
    op
}

impl Operator {
    /// Writes objects of a MiB into the pool, until `ceph health detail` shows the code. Returns how many.
    fn fills(&mut self, pool: &str, code: &str) -> usize {
        let client = self.c.clients[0];
        for i in 0..100 {
            // One that does not fit is not answered.
            self.c.ask(client, request(pool, &format!("fill{i}"), write(MIB), 0), Duration::from_secs(4));
            self.c.world.run_for(Duration::from_secs(3));
            if self.health().contains(&format!("] {code}: ")) {
                return i + 1;
            }
        }
        panic!("no {code}: {}{}", self.health(), self.ceph("osd df"));
    }

    /// Removes objects from the pool, as `rados rm --force-full` does.
    fn deletes(&mut self, pool: &str, objects: usize) {
        for i in 0..objects {
            self.asks(request(pool, &format!("fill{i}"), msgs::Op::Delete, osd_flag::FULL_TRY));
        }
    }
}

#[test]
fn a_nearly_full_osd_has_room_again_when_data_is_deleted() {
    let mut op = small(osd::OsdOptions::default());
    let made = op.fills("objects", "OSD_NEARFULL");
    let df = op.follows("OSD_NEARFULL", "ceph osd df", &[]);
    assert!(df.contains("%USE"), "{df}");
    op.deletes("objects", made / 2);
    op.sees_no("OSD_NEARFULL");
    op.sees_health_ok();
}

#[test]
fn an_osd_that_takes_no_backfill_does_so_again_when_data_is_deleted() {
    let mut op = small(osd::OsdOptions::default());
    let made = op.fills("objects", "OSD_BACKFILLFULL");
    op.follows("OSD_BACKFILLFULL", "ceph osd df", &[]);
    op.deletes("objects", made / 2);
    op.sees_no("OSD_BACKFILLFULL");
    op.sees_health_ok();
}

#[test]
fn a_full_osd_takes_writes_again_when_data_is_deleted() {
    let mut op = small(osd::OsdOptions::default());
    let made = op.fills("objects", "OSD_FULL");
    op.follows("OSD_FULL", "ceph osd df", &[]);
    op.deletes("objects", made / 2);
    op.sees_no("OSD_FULL");
    op.c.client(1).write("a", b"x");
    op.sees_health_ok();
}

/// A pool whose only copies are on OSD 2, filled until the code appears. Returns how many objects it has.
fn filled_alone(op: &mut Operator, code: &str) -> usize {
    op.ceph("config set global mon_warn_on_pool_no_redundancy false");
    op.ceph("osd crush rule create-replicated alone sim-2 osd");
    op.ceph("osd pool create alone 4 4 replicated alone");
    op.ceph("osd pool set alone size 1 --yes-i-really-mean-it");
    op.ceph("osd pool application enable alone test");
    op.fills("alone", code)
}

#[test]
fn backfill_goes_on_when_there_is_room_for_it() {
    let mut op = small(osd::OsdOptions { log_entries: (5, 5), ..osd::OsdOptions::default() });
    op.ceph("osd pool set objects size 2");
    (0..300).for_each(|i| op.c.client(0).write(&format!("o{}", i % 60), &[3; 10_000]));
    let made = filled_alone(&mut op, "OSD_BACKFILLFULL");
    op.ceph("osd out 0");
    let seen = op.sees("PG_BACKFILL_FULL");
    assert!(seen.contains("backfill_toofull"), "{seen}");
    op.follows("PG_BACKFILL_FULL", "ceph osd df", &[]);
    op.deletes("alone", made / 2);
    op.sees_no("PG_BACKFILL_FULL");
    op.sees_health_ok();
}

#[test]
fn recovery_goes_on_when_there_is_room_for_it() {
    let mut op = small(osd::OsdOptions::default());
    let made = filled_alone(&mut op, "OSD_NEARFULL");
    op.c.osd(2).crash(Crash::Process);
    op.sees("OSD_DOWN");
    for i in 0..30 {
        op.asks(request("objects", &format!("fill{i}"), write(MIB), 0));
    }
    op.c.osd(2).start();
    let seen = op.sees("PG_RECOVERY_FULL");
    assert!(seen.contains("recovery_toofull"), "{seen}");
    op.follows("PG_RECOVERY_FULL", "ceph osd df", &[]);
    op.deletes("alone", made);
    op.sees_no("PG_RECOVERY_FULL");
    op.deletes("objects", 30);
    op.sees_health_ok();
}

/// One of the members has no room for what is written, and the others wait for it.
#[test]
fn requests_that_wait_are_shown_and_answered_when_their_cause_is_gone() {
    let mut op = small(osd::OsdOptions::default());
    let made = filled_alone(&mut op, "OSD_NEARFULL");
    for i in 0..30 {
        let client = op.c.clients[0];
        op.c.world.request(client, request("objects", &format!("fill{i}"), write(MIB), 0));
    }
    let seen = op.sees("SLOW_OPS");
    let slow =
        seen.lines().find(|line| line.contains("slow ops, oldest is blocked for")).expect("one of them");
    let name = slow.trim().split(' ').next().expect("its name").to_owned();
    let ops = op.follows("SLOW_OPS", "ceph daemon NAME ops", &[("NAME", &name)]);
    assert!(ops.contains("fill") && ops.contains("\"num_ops\""), "{ops}");
    op.deletes("alone", made);
    op.sees_no("SLOW_OPS");
    op.deletes("objects", 30);
    op.sees_health_ok();
}

//! What must hold of a [`Cluster`], and looks into it.

use super::*;
use crate::pg::member::Member;
use crate::pg::meta::TEMP_POOL;

/// The copy of a PG that an OSD has.
pub fn member(osd: usize) -> Member {
    Member { osd: OsdId(osd as i32), shard: Spg::NO_SHARD }
}

impl Cluster {
    /// Waits until every PG is clean by what its primary reports.
    pub fn wait_clean(&mut self) {
        let pgs: Vec<PgId> = self.map.pools[&POOL].pgs(POOL).collect();
        self.stats.clear();
        self.run_until("all PGs clean", |c| {
            let clean = peer::pg_state::ACTIVE | peer::pg_state::CLEAN;
            pgs.iter().all(|p| {
                let newest = c.stats.get(p).is_some_and(|s| s.state & clean == clean);
                let primary = c.map.pg_up_acting(*p).acting_primary.map(|o| o.0 as usize);
                let inside = primary
                    .and_then(|o| c.slots[&o].osd.as_ref())
                    .and_then(|o| o.pgs.get(&Spg::replicated(*p)));
                newest || inside.is_some_and(|pg| pg.state() == crate::pg::state::State::Clean)
            })
        });
    }

    /// All objects on an OSD's disk, read by a store of its own.
    pub fn objects(&self, osd: usize) -> BTreeMap<Vec<u8>, (ObjectKey, ObjectView)> {
        let mut reader = StoreReader::open(self.slots[&osd].disk.clone(), self.disk_size(osd));
        let from = ObjectKey::first_at(0, i8::MIN, 0);
        let to = ObjectKey::first_at(i64::MAX, -1, 0);
        let ReadReply::List(keys) = reader.read(Read::List { from, to, max: 100_000 }) else {
            panic!("a list")
        };
        let mut out = BTreeMap::new();
        for key in keys {
            let read = Read::Object {
                key: key.clone(),
                attrs: true,
                data: vec![(0, 1 << 30)],
                omap_header: true,
                omap_keys: vec![],
                omap_range: Some(OmapRange { max: 100_000, max_bytes: 1 << 30, ..Default::default() }),
            };
            let ReadReply::Object(Some(view)) = reader.read(read) else { panic!("an object") };
            let mut name = key.name.clone();
            if key.snap != ObjectKey::HEAD {
                name.extend_from_slice(format!("@{}", key.snap).as_bytes());
            }
            out.insert(name, (key, view));
        }
        out
    }

    /// Objects on an OSD's disk that are no PG's: parts of something to come.
    pub fn temporary(&self, osd: usize) -> Vec<ObjectKey> {
        let mut reader = StoreReader::open(self.slots[&osd].disk.clone(), self.disk_size(osd));
        let pool = |pool| ObjectKey::first_at(pool, i8::MIN, 0);
        match reader.read(Read::List { from: pool(TEMP_POOL), to: pool(TEMP_POOL + 1), max: 100_000 }) {
            ReadReply::List(keys) => keys,
            _ => panic!("a list"),
        }
    }

    /// Replicas are byte-identical, nothing complained.
    pub fn check(&mut self) {
        self.wait_clean();
        self.run(Duration::from_millis(200));
        assert_eq!(self.complaints, Vec::<String>::new());
        assert_eq!(self.stopped, Vec::new());
        let waits =
            |osd: &Osd| osd.waits_for_map() || osd.pgs.values().any(|pg| pg.requests().next().is_some());
        let kept = self.alive().0.into_iter().any(|osd| waits(self.osd(osd)));
        assert!(kept || self.answers.used() == 0, "memory is held for answers that nobody waits for");
        let up: Vec<usize> = self.slots.iter().filter(|(_, s)| s.osd.is_some()).map(|(n, _)| *n).collect();
        let all: BTreeMap<usize, _> = up.iter().map(|o| (*o, self.objects(*o))).collect();
        let names: BTreeSet<Vec<u8>> = all.values().flat_map(|o| o.keys().cloned()).collect();
        for name in names {
            let text = String::from_utf8_lossy(&name).into_owned();
            let acting = self.acting(text.split('@').next().unwrap_or_default());
            for osd in &acting {
                assert_eq!(
                    all[osd].get(&name),
                    all[&acting[0]].get(&name),
                    "{name:?} on osd.{osd} and osd.{}",
                    acting[0]
                );
            }
        }
    }

    /// The OSDs that run, and those that do not.
    pub fn alive(&self) -> (Vec<usize>, Vec<usize>) {
        self.slots.keys().partition(|n| self.slots[n].osd.is_some())
    }

    /// What time it is.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Puts one OSD's disk into another's machine.
    pub fn give_disk(&mut self, from: usize, to: usize) {
        let disk = self.slots[&from].disk.clone();
        self.slots.insert(to, Slot { osd: None, disk, nonce: 1, incarnation: 1 });
    }

    /// Kills an OSD with an idle store: nothing is in its log only.
    pub fn stop_at_rest(&mut self, osd: usize) {
        self.stop(osd);
    }

    /// Changes one bit where `pattern` begins on a stopped OSD's disk, everywhere. Whether it was found.
    pub fn rot(&mut self, osd: usize, pattern: &[u8]) -> bool {
        self.slots.get_mut(&osd).expect("a known OSD").disk.rot(pattern)
    }

    /// Changes what an OSD stores behind its back.
    pub fn tamper(&mut self, osd: usize, ops: Vec<store::TxnOp>) {
        self.run(Duration::from_millis(100));
        let slot = self.slots.get_mut(&osd).and_then(|s| s.osd.as_mut()).expect("a running OSD");
        slot.core.submit_own(store::Transaction { ops }, crate::completion::CommitFor::Nothing);
        self.input(osd, Input::Timer);
        self.run(Duration::from_millis(100));
    }

    /// Changes how a running OSD scrubs.
    pub fn set_scrub(&mut self, osd: usize, change: impl FnOnce(&mut crate::ScrubOptions)) {
        let slot = self.slots.get_mut(&osd).and_then(|s| s.osd.as_mut()).expect("a running OSD");
        slot.core.change_options(|options| change(&mut options.scrub));
    }

    /// Orders a scrub, as the monitor does.
    pub fn order_scrub(&mut self, osd: usize, pgid: PgId, deep: bool, repair: bool) {
        let slot = self.slots.get_mut(&osd).and_then(|s| s.osd.as_mut()).expect("a running OSD");
        assert!(slot.scrub_order(pgid, deep, repair), "osd.{osd} leads {pgid}");
        self.input(osd, Input::Timer);
    }

    /// Gives an OSD a command by its admin socket.
    pub fn admin(&mut self, osd: usize, command: &str) -> (i32, String) {
        self.input(osd, Input::Admin { id: node::AdminId(1), command: command.to_owned() });
        self.admin_answer.take().expect("an answer at once")
    }

    /// The store's key of an object.
    pub fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::head(POOL, self.pgid_of(name).1, b"", b"", name.as_bytes())
    }

    /// Looks inside an OSD.
    pub fn osd(&self, osd: usize) -> &Osd {
        self.slots[&osd].osd.as_ref().expect("a running OSD")
    }

    /// Reaches inside an OSD.
    pub fn osd_mut(&mut self, osd: usize) -> &mut Osd {
        self.slots.get_mut(&osd).and_then(|s| s.osd.as_mut()).expect("a running OSD")
    }

    /// The PG of an object.
    pub fn pgid(&self, name: &str) -> PgId {
        self.pgid_of(name).0
    }

    /// Counts of all OSDs that run.
    pub fn counted(&self, name: &str) -> u64 {
        let counts = self.slots.values().filter_map(|s| s.osd.as_ref()?.core.counters().get(name));
        counts.sum()
    }
}

/// A store whose disk answers at once.
struct StoreReader {
    store: Store,
    disk: Disk,
}

impl StoreReader {
    fn open(disk: Disk, size: u64) -> Self {
        let info = DiskInfo { id: DiskId(0), size, sector: 512 };
        let mut reader = Self { store: Store::new(Config::default(), info, Rng::from_seed(1)), disk };
        let mut out = Vec::new();
        reader.store.open(None, &mut out);
        reader.pump(out);
        assert!(reader.store.is_open());
        reader
    }

    fn pump(&mut self, mut out: Vec<StoreOut>) -> Vec<ReadReply> {
        let mut replies = Vec::new();
        while !out.is_empty() {
            let mut next = Vec::new();
            for event in out {
                match event {
                    StoreOut::Disk(id, op) => {
                        let result = self.disk.run(op);
                        self.store.disk_done(id, result, &mut next);
                    }
                    StoreOut::Read(_, result) => replies.push(result.expect("readable")),
                    StoreOut::Failed(error) => panic!("{error}"),
                    _ => {}
                }
            }
            out = next;
        }
        replies
    }

    fn read(&mut self, read: Read) -> ReadReply {
        let mut out = Vec::new();
        self.store.read(read, &mut out);
        self.pump(out).pop().expect("an answer")
    }
}

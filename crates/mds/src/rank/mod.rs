//! One rank as a state machine without a network: messages of clients and ends of object operations in,
//! [`Effect`]s out. The daemon around it keeps connections, monitor and RADOS; tests put maps in memory
//! around it.
//!
//! An input changes memory at once and appends to the journal; what is sent waits until the journal is
//! durable. After each input [`Rank::settle`] runs what became possible, so that no input leaves anything
//! half done.
//!
//! The state belongs to owners, one folder each, whose fields nobody else changes. [`Rank`] passes each of
//! them what it needs and routes what one does to the others ([`env::Due`]).

mod accounting;
mod administration;
mod balance;
mod caps;
mod client_replay;
mod commit;
mod damage;
mod effect;
mod env;
mod fragments;
mod handover;
mod inputs;
mod loader;
mod migration;
mod ops;
mod perf;
mod popularity;
mod postponed;
mod quotas;
mod reclaim;
mod reconnect;
mod replay;
mod scrub;
mod sessions;
mod snaps;
mod start;
mod stat;
mod strays;
mod top;
mod trimming;
mod write_back;

pub use effect::{Effect, Stage};
pub use scrub::ScrubOptions;
pub use sessions::ClientPeer;

use crate::cache::{Cache, Keep, Stats};
use crate::config::{MdsOptions, RankConfig};
use crate::types::{ClientId, Lsn, Need};
use accounting::Accounting;
use balance::Balance;
use caps::Caps;
use client_replay::ClientReplay;
use damage::DamageTable;
use env::{Due, Env, Loaded};
use fragments::Fragments;
use fsfmt::InodeKey;
use loader::Loader;
use maps::{Epoch, MdsRank};
use migration::Migration;
pub use migration::RankStatus;
use ops::Ops;
use postponed::Postponed;
use quotas::Quotas;
use reclaim::Reclaims;
use reconnect::Reconnect;
use replay::Replay;
use scrub::Scrub;
use sessions::Sessions;
use std::collections::BTreeMap;
use stdx::{Instant, Now};
use strays::Strays;
use trimming::Trimming;
use write_back::WriteBack;

/// Entries that trimming examines once a second, which takes some milliseconds.
const TRIM_LOOKS: usize = 20_000;
/// In debug builds the owners are also checked by walks over all their state, once in this many inputs.
const INPUTS_PER_WALK: u64 = 64;

/// A rank of the metadata server.
pub struct Rank {
    env: Env,
    cache: Cache,
    sessions: Sessions,
    loader: Loader,
    write_back: WriteBack,
    caps: Caps,
    strays: Strays,
    trimming: Trimming,
    fragments: Fragments,
    damage: DamageTable,
    scrub: Scrub,
    accounting: Accounting,
    quotas: Quotas,
    reclaims: Reclaims,
    reconnect: Reconnect,
    client_replay: ClientReplay,
    postponed: Postponed,
    migration: Migration,
    balance: Balance,
    ops: Ops,
    /// The replay of the predecessor's journal, until it is done.
    replay: Option<Replay>,
    /// Event that must be durable before the stage counts as reached.
    begin: Option<Lsn>,
    next_second: Instant,
    inputs: u64,
}

impl Rank {
    fn new(cfg: RankConfig, now: Now, stage: Stage) -> Self {
        let write_back = WriteBack::new(cfg.rank);
        Self {
            cache: Cache::new(MdsRank(cfg.rank as i32)),
            env: Env::new(cfg, now, stage),
            sessions: Sessions::new(now.mono),
            loader: Loader::default(),
            write_back,
            caps: Caps::default(),
            strays: Strays::default(),
            trimming: Trimming::default(),
            fragments: Fragments::default(),
            damage: DamageTable::default(),
            scrub: Scrub::default(),
            accounting: Accounting::new(now.mono),
            quotas: Quotas::default(),
            reclaims: Reclaims::default(),
            reconnect: Reconnect::default(),
            client_replay: ClientReplay::default(),
            postponed: Postponed::default(),
            migration: Migration::default(),
            balance: Balance::default(),
            ops: Ops::default(),
            replay: None,
            begin: None,
            next_second: now.mono,
            inputs: 0,
        }
    }

    /// The stage of its start.
    pub fn stage(&self) -> Stage {
        self.env.stage()
    }

    /// Size of its cache.
    pub fn stats(&self) -> Stats {
        self.cache.stats()
    }

    /// Sets the limits that may change while it runs.
    pub fn set_limits(&mut self, limits: &MdsOptions) {
        self.env.configure(|cfg| cfg.options.take_limits(limits));
    }

    /// Sets how much the cache may take beside its limit ([`MdsOptions::spare_bytes`]).
    pub fn set_spare_memory(&mut self, bytes: u64) {
        self.env.configure(|cfg| cfg.options.spare_bytes = bytes);
    }

    /// Bytes of journal that are still needed.
    pub fn journal_bytes(&self) -> u64 {
        self.env.journal().bytes()
    }

    /// True if nothing is in progress: no operation, no object operation, no message.
    pub fn is_quiet(&self) -> bool {
        self.ops.is_empty()
            && self.client_replay.is_quiet()
            && self.postponed.is_empty()
            && self.env.is_quiet()
            && self.fragments.is_idle()
            && self.migration.is_idle(&self.cache)
            && !self.migration.is_fencing(&self.cache)
            && !self.migration.is_replicating(&self.cache)
            && self.sessions.is_quiet()
    }

    /// Notes a new epoch of the MDS map.
    pub fn set_map_epoch(&mut self, epoch: Epoch) {
        self.env.configure(|cfg| cfg.map_epoch = epoch);
    }

    /// Notes a new epoch of the OSD map.
    pub fn set_osd_epoch(&mut self, epoch: Epoch) {
        self.env.configure(|cfg| cfg.osd_epoch = epoch);
    }

    /// Notes the file system's pools for data, with their names.
    pub fn set_data_pools(&mut self, pools: BTreeMap<i64, String>) {
        if self.env.cfg().data_pools != pools {
            self.env.configure(|cfg| cfg.data_pools = pools);
        }
    }

    /// Notes that the cluster, or a pool of the file system, is full or no longer full.
    pub fn set_full(&mut self, full: bool) {
        let was_full = self.env.cfg().full;
        self.env.configure(|cfg| cfg.full = full);
        if full && !was_full {
            let Self { env, cache, sessions, .. } = self;
            let clients: Vec<ClientId> = sessions.iter().map(|(client, _)| client).collect();
            // Nothing new may be made.
            for client in clients {
                Caps::revoke_directories(env, cache, sessions, client, |_| true);
            }
        }
    }

    /// The addresses of a client that has a session.
    pub fn client_addrs(&self, client: ClientId) -> Option<&wire::AddrVec> {
        self.sessions.get(client).map(|s| &s.record().addrs)
    }

    /// The addresses of a client that is connected, with or without a session.
    pub fn peer_addrs(&self, client: ClientId) -> Option<&wire::AddrVec> {
        self.sessions.peer(client).map(|peer| &peer.addrs)
    }

    /// All clients with a session.
    pub fn clients(&self) -> Vec<ClientId> {
        self.sessions.clients()
    }

    /// Runs everything possible and returns the effects.
    pub fn settle(&mut self, out: &mut Vec<Effect>) {
        self.cache.look(&self.env.cfg().options, self.sessions.all_held());
        loop {
            self.take_postponed();
            self.run();
            if self.replay.is_some() {
                self.advance_replay();
                break;
            }
            if self.resume_reconnected() || self.advance_client_replay() {
                continue;
            }
            if !self.reconnect.has_absent() {
                self.ops.nobody_is_absent();
            }
            if self.client_replay.take_kept() {
                self.ops.promises_kept();
            }
            let Self { env, cache, sessions, .. } = self;
            self.reconnect.check_window(env, cache, sessions);
            if self.reconnect.has_unclaimed() && self.migration.is_certain() {
                self.reconnect.end_unclaimed(env, cache);
            }
            // Clients whose requests are being repeated claim what these make only afterwards.
            let has_unclaimed = self.reconnect.has_absent()
                || self.client_replay.has_clients()
                || !self.migration.unconfirmed.is_empty();
            let takes_changes = self.write_back.takes_changes(env);
            let drains = self.write_back.is_draining();
            self.strays.advance(env, cache, sessions, has_unclaimed, drains);
            // Who walks over a directory counts on its fragments, so none changes meanwhile.
            let is_walked = self.trimming.is_walking() || self.scrub.is_walking();
            self.fragments.advance(env, cache, sessions, takes_changes, is_walked);
            if let Some(segment) = self.fragments.must_expire() {
                self.write_back.expire_to(env, segment);
            }
            if self.fragments.is_idle() {
                self.trimming.advance(env, cache, sessions, takes_changes);
                self.scrub.advance(env, cache, sessions, takes_changes);
            }
            let flush = self.fragments.to_flush(cache);
            self.write_back.advance(env, cache, sessions, flush);
            let has_moved = self.advance_migration();
            let Self { env, cache, sessions, .. } = self;
            let drained = drains && !self.write_back.is_draining();
            // What waited for this goes on, also if no object operation ends.
            let is_flushed = flush.is_some() && cache.refragments.is_flushed();
            let has_space = drained || !takes_changes && self.write_back.takes_changes(env);
            self.quotas.advance(env, cache, sessions);
            self.env.write_journal();
            if !self.run() && !is_flushed && !has_space && !has_moved {
                break;
            }
        }
        self.loader.flush(&mut self.env);
        self.trim();
        self.report_begin();
        self.sessions.flush(&mut self.env);
        self.check();
        out.append(&mut self.env.take_effects());
    }

    /// Routes consequences and runs operations until nothing follows; false if no operation could run.
    fn run(&mut self) -> bool {
        let mut has_run = false;
        loop {
            while let Some(due) = self.env.next_due() {
                self.route(due);
            }
            let takes_changes = self.write_back.takes_changes(&self.env);
            let numbers = (takes_changes, self.reconnect.has_absent(), self.write_back.ino_next());
            let withholds =
                !self.client_replay.promises().is_empty() || self.migration.withholds_directories();
            self.caps.withhold_directories(withholds);
            let Self { env, cache, sessions, caps, .. } = self;
            if !self.ops.run_next(env, cache, sessions, caps, self.client_replay.promises(), numbers) {
                return has_run;
            }
            has_run = true;
        }
    }

    /// Informs the owners of a consequence.
    fn route(&mut self, due: Due) {
        let Self { env, cache, sessions, .. } = self;
        match due {
            Due::InodeLoaded(ino) | Due::InodeAwaited(ino) => self.note(ino),
            Due::InodeChanged(ino) => {
                self.migration.note_change(env, cache, ino);
                self.reconnect.note_change(ino);
                self.note(ino);
            }
            // Nothing of it changes here, but operations may wait for what clients could have held.
            Due::CapsChanged(ino) if cache.is_fixed(ino) => self.ops.wake(cache, ino),
            Due::CapsChanged(ino) => {
                if env.stage() == Stage::Active {
                    caps::record_writers(env, cache, sessions, ino);
                }
                self.caps.eval(env, cache, sessions, ino, None);
                self.ops.wake(cache, ino);
                self.note(ino);
            }
            Due::Wake(ino) => {
                self.ops.wake(cache, ino);
                self.note(ino);
            }
            Due::Load(need, op) => self.loader.load(env, cache, need, op),
            Due::Loaded(loaded) => self.loaded(&loaded),
            Due::Damaged(damage) => self.damage.note(env, cache, damage),
            Due::InodeNumbersUsed { next, segment } => self.write_back.use_inode_numbers(next, segment),
            Due::Answered(client, tid, errno) => {
                self.client_replay.ended(env, cache, sessions, client, (tid, errno));
            }
            Due::HeldElsewhere(ino) => self.pass_on(ino),
            Due::Announce(ino) => self.announce(ino),
            Due::Together { here, there, is_promised } => self.bring_together(here, there, is_promised),
            Due::Seek(ino) => self.seek(ino),
            Due::Alone(dir) => self.recall_replicas(dir),
            Due::Fence => self.want_fence(),
            Due::Used(ino, weight) => self.balance.popularity.note(cache, ino, weight),
            Due::JournalHasSpace => {
                if self.write_back.takes_changes(env) {
                    self.ops.wake_space_waiters();
                }
            }
        }
    }

    /// Notes the later work on an inode that was loaded or changed.
    fn note(&mut self, ino: InodeKey) {
        if !ino.is_head() {
            return;
        }
        if self.cache.has_replica(ino) || self.cache.is_fixed(ino) {
            return;
        }
        self.reconnect.presume_holders(&mut self.cache, &mut self.sessions, ino);
        let Some(inode) = self.cache.inodes.get(&ino) else { return };
        self.migration.note(&self.cache, ino, inode);
        self.strays.note(ino, inode);
        self.accounting.note(&self.cache, ino, inode);
        self.fragments.note(&self.env, inode);
        self.quotas.note(ino, inode);
    }

    fn loaded(&mut self, loaded: &Loaded) {
        let Self { env, cache, sessions, .. } = self;
        if let (Need::Page(dir, _), Some(page)) = (&loaded.need, &loaded.page)
            && dir.ino.is_stray()
        {
            self.strays.page_loaded(dir.ino, page.last.as_ref());
        }
        if let Need::Inode(ino) = loaded.need {
            self.reconnect.resume_claims(env, cache, sessions, ino);
            self.client_replay.loaded(env, cache, sessions, ino);
            self.caps.resume_flushes(env, cache, sessions, ino);
        }
        self.trimming.loaded(env, cache, sessions, loaded);
        self.scrub.loaded(env, cache, sessions, loaded);
        self.ops.loaded(cache, loaded);
        if let Need::Inode(ino) = loaded.need {
            self.loaded_for_migration(ino);
        }
    }

    /// Entries used since this run must stay in the cache.
    fn barrier(&self) -> u64 {
        let needed = [self.loader.oldest_run(), self.ops.oldest_run()];
        needed.into_iter().flatten().min().unwrap_or(self.cache.tick + 1)
    }

    /// What trimming leaves. Statistics that are not counted would be lost with their inode until that is
    /// loaded again.
    fn keep(&self) -> Keep {
        Keep { since: self.barrier(), uncounted: self.accounting.is_few() }
    }

    /// Evicts entries beyond the cache's limit.
    fn trim(&mut self) {
        self.cache.look(&self.env.cfg().options, self.sessions.all_held());
        if self.cache.stats().entries > self.cache.most_entries() {
            let keep = self.keep();
            self.cache.trim(keep);
        }
        self.cache.limit_queue();
    }

    /// Evicts entries that clients have given up.
    fn trim_thoroughly(&mut self) {
        self.cache.look(&self.env.cfg().options, self.sessions.all_held());
        let keep = self.keep();
        self.cache.trim_some(keep, TRIM_LOOKS);
    }

    /// Asserts the owners' invariants.
    fn check(&mut self) {
        self.inputs += 1;
        let Self { env, cache, sessions, .. } = self;
        env.check();
        self.loader.check();
        self.ops.check();
        self.strays.check(cache);
        self.damage.check();
        self.caps.check();
        self.reconnect.check();
        self.client_replay.check(env.stage() == Stage::Active);
        self.postponed.check(self.write_back.is_draining());
        self.replay.iter().for_each(Replay::check);
        sessions.check(env);
        self.reclaims.check(sessions);
        self.write_back.check(env, cache, sessions);
        if cfg!(debug_assertions) && self.inputs.is_multiple_of(INPUTS_PER_WALK) {
            cache.check_all();
            cache.locks.check_all();
            sessions.check_all();
            self.loader.check_all();
            self.ops.check_all();
            self.reconnect.check_all();
            self.strays.check_all(cache);
            Caps::check_all(cache, sessions);
        }
    }
}

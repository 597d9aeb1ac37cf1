//! The start of a rank: creates a file system, or takes over from a predecessor with its journal and its
//! clients.

use super::effect::{Effect, Stage};
use super::env::{Due, Env};
use super::replay::{Ended, Replay, Step};
use super::{Rank, commit};
use crate::cache::Keep;
use crate::config::RankConfig;
use crate::io::{IoResult, IoWhy, ObjOp};
use crate::types::{IoId, Lsn, Origin, Segment};
use fsfmt::{DirFrag, Event, Ino, InodeData, NestStat, Update, mode, names};
use node::Level;
use stdx::Now;

impl Rank {
    /// Creates a new, empty file system.
    pub fn create(cfg: RankConfig, now: Now) -> Self {
        let mut rank = Self::new(cfg, now, Stage::Creating);
        let env = &mut rank.env;
        let n = env.cfg().rank;
        // An interrupted creation may have left a longer object.
        let ops = vec![ObjOp::Create, ObjOp::Truncate(0)];
        env.start_metadata_io(names::journal_object(n, 1), ops, IoWhy::JournalTrim);
        rank.write_back.write_header(env, 1);
        let (root, mdsdir, stray) = (Ino::ROOT, Ino::mdsdir(n), Ino::stray(n));
        let bases = [(mdsdir, 0o700), (stray, 0o700), (root, 0o755)];
        // Rank 0 has the root.
        let bases = if n == 0 { &bases[..] } else { &bases[..2] };
        let mut updates: Vec<Update> = bases.iter().map(|(i, m)| new_base(env, *i, *m)).collect();
        updates.push(Update::InoNext { next: rank.write_back.ino_next() });
        rank.begin_with("create file system", updates);
        for (dir, _) in bases.iter().filter(|(dir, _)| *dir != mdsdir) {
            rank.cache.dirs.entry(DirFrag::whole(*dir)).or_default().complete = true;
        }
        rank
    }

    /// Takes over the stored state.
    pub fn replay(cfg: RankConfig, now: Now) -> Self {
        let mut rank = Self::new(cfg, now, Stage::Replaying);
        rank.replay = Some(Replay::start(&mut rank.env));
        rank
    }

    /// Follows the journal of a rank that somebody else serves, as a standby.
    pub fn follow(cfg: RankConfig, now: Now) -> Self {
        let mut rank = Self::new(cfg, now, Stage::Replaying);
        rank.replay = Some(Replay::follow(&mut rank.env));
        rank
    }

    /// Takes over the rank whose journal it followed. The predecessor is refused by every OSD that answers
    /// from now on.
    pub fn take_over(&mut self, cfg: RankConfig, now: Now) {
        self.env.set_now(now);
        self.env.configure(|old| *old = cfg);
        self.replay.as_mut().expect("it follows until it takes over").take_over();
    }

    /// True if it follows a rank that somebody else serves.
    pub fn is_following(&self) -> bool {
        self.replay.as_ref().is_some_and(Replay::is_following)
    }

    /// Journals the first event of this incarnation, before any of it is visible.
    fn begin_with(&mut self, what: &str, updates: Vec<Update>) {
        let Self { env, cache, sessions, .. } = self;
        self.begin = Some(commit::commit(env, cache, sessions, what, updates));
    }

    /// Reports the stage as reached when the first event of this incarnation is durable.
    pub(super) fn report_begin(&mut self) {
        if self.begin.is_some_and(|begin| self.env.journal().durable() >= begin) {
            self.begin = None;
            self.env.effect(Effect::Reached(self.env.stage()));
        }
    }

    /// Handles a read of the replay.
    pub(super) fn replay_read(&mut self, id: IoId, result: IoResult) {
        let Self { env, cache, sessions, .. } = self;
        let Some(replay) = &mut self.replay else { return };
        if let Err(damage) = replay.io_done(env, cache, sessions, id, result) {
            self.replay = None;
            env.effect(Effect::Fail(damage));
        }
    }

    /// Applies events and reads on, unless changes must be written back first.
    pub(super) fn advance_replay(&mut self) {
        let mut has_changed = false;
        while let Some(step) = self.replay.as_mut().and_then(Replay::next_step) {
            has_changed = true;
            match step {
                Step::InodeNumbers(next) => self.write_back.load_inode_numbers(next),
                Step::Apply(segment, events) => self.apply_all(segment, events),
                Step::Stored(segment, lsn) => self.note_stored(segment, lsn),
                Step::Behind => return self.fall_behind(),
                Step::End(ended) => return self.end_replay(ended),
            }
        }
        if has_changed {
            self.trim_replayed();
        }
        let may_write_back = self.replay.as_ref().is_some_and(Replay::may_write_back);
        let Self { env, cache, sessions, .. } = self;
        if may_write_back && self.write_back.advance_replay(env, cache, sessions) {
            return;
        }
        if let Some(replay) = &mut self.replay {
            replay.advance(env);
        }
    }

    fn apply_all(&mut self, segment: Segment, events: Vec<(Lsn, Event)>) {
        self.cache.tick += 1;
        for (lsn, event) in events {
            self.migration.note_replayed(&event);
            let Self { env, cache, sessions, .. } = self;
            let origin = Origin { lsn, segment, author: None };
            commit::apply(env, cache, sessions, event, origin);
            self.run();
        }
    }

    /// Takes note of what the holder of the rank has stored: what its segments before `segment` changed.
    fn note_stored(&mut self, segment: Segment, lsn: Lsn) {
        self.cache.note_stored(segment, lsn);
        self.cache.snaps.note_stored(segment);
        self.cache.borders.note_stored(segment);
        self.cache.refragments.note_stored(segment);
        self.sessions.note_stored(segment);
        self.write_back.note_stored(segment);
    }

    fn fall_behind(&mut self) {
        self.replay = None;
        self.env.effect(Effect::Behind);
    }

    /// Evicts clean entries beyond the cache's limit.
    fn trim_replayed(&mut self) {
        self.cache.look(&self.env.cfg().options, self.sessions.all_held());
        let barrier = self.cache.tick + 1;
        self.cache.trim_some(Keep { since: barrier, uncounted: false }, usize::MAX);
    }

    /// Ends the replay and takes over from the journal's end.
    fn end_replay(&mut self, Ended { last, count, segments }: Ended) {
        self.replay = None;
        self.env.continue_journal(last, segments);
        self.env.log(Level::Info, "journal_replayed", format!("{count} events up to {last}"));
        if self.env.cfg().rank == 0 && !self.cache.inodes.contains_key(&Ino::ROOT.head()) {
            let text = "the root inode is neither stored nor in the journal".to_owned();
            return self.env.effect(Effect::Fail(text));
        }
        self.drop_joined_bases();
        self.reconnect.expect_clients(&mut self.cache, &mut self.sessions);
        self.env.enter(Stage::Replayed);
        self.begin_with("take over", Vec::new());
        for dir in self.cache.stray_dirs() {
            self.strays.search(&mut self.env, dir);
        }
        self.run();
        self.env.write_journal();
    }

    /// Begins the reconnect stage, as the map says.
    pub fn reconnect(&mut self, now: Now) {
        self.env.set_now(now);
        if self.stage() == Stage::Replayed {
            self.env.enter(Stage::Reconnecting);
            self.reconnect.open_window(now.mono);
            self.take_early();
        }
    }

    /// Begins to serve, as the map says.
    pub fn activate(&mut self, now: Now) {
        self.env.set_now(now);
        if !matches!(self.stage(), Stage::Creating | Stage::Rejoined) {
            return;
        }
        if self.stage() == Stage::Rejoined {
            // The predecessor may have evicted clients.
            self.sessions.raise_barrier(self.env.cfg().osd_epoch);
        }
        self.env.enter(Stage::Active);
        self.begin_fenced();
        self.resume_migrations();
        self.client_replay.serve(now.mono);
        for (_, session) in self.sessions.iter() {
            session.inodes().iter().for_each(|ino| self.env.due(Due::CapsChanged(*ino)));
        }
        self.run();
        self.take_early();
        for client in self.reconnect.absent_clients() {
            let said = self.reconnect.take_said(client);
            self.client_replay.expect_nothing(client);
            self.take_messages(client, said);
        }
    }

    /// Handles the messages that came before this stage.
    fn take_early(&mut self) {
        for (client, (tid, body)) in self.reconnect.take_early() {
            self.take_message(client, tid, body);
        }
    }
}

fn new_base(env: &Env, ino: Ino, permissions: u32) -> Update {
    let stamp = env.stamp();
    let stat = NestStat { rsubdirs: 1, rctime: stamp, ..NestStat::default() };
    let inode = Box::new(InodeData {
        ino,
        version: 1,
        mode: mode::DIR | permissions,
        nlink: 1,
        mtime: stamp,
        ctime: stamp,
        atime: stamp,
        btime: stamp,
        truncate_size: u64::MAX,
        xattr_version: 1,
        rstat: stat.clone(),
        accounted: stat,
        ..InodeData::default()
    });
    Update::Base { inode }
}

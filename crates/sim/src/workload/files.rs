//! Clients that work in one small tree: nested directories, files, symbolic and hard links, renames of
//! everything over everything; files written, appended to, truncated and extended, and held open while their
//! names go; xattrs and modes; listings at once and in pages. In some runs they make, read and remove
//! snapshots of directories (`snap_walk.rs`), or set limits of what is in a directory's tree.
//!
//! Each client has one operation at a time. An operation may take several requests (open, write, fsync,
//! close): the first is its call, and the last relevant one its return.
//!
//! A file's number determines its use ([`Use`]): otherwise few files would be
//! used by several clients in the same way.

use super::believed::Believed;
use super::file_requests::{
    O_TRUNC, O_WRONLY, S_IFDIR, S_IFLNK, S_IFMT, Task, Use, Work, cells_of, changes_attributes, data_first,
    data_request, limit_request, name_request, names_of, number, read_of, use_of,
};
use super::snap_walk::{Found, Walk};
use super::{ClientWorld, Load};
use crate::host::HostId;
use crate::oracle::contents;
use crate::oracle::late::Told;
use crate::oracle::linear::Judgement;
use crate::oracle::namespace::{self, Action, Answer, ROOT};
use crate::oracle::shown::Snapshots;
use crate::oracle::snapped;
use fsclient::{Answer as FsAnswer, Caller, Entry, Errno, Fh, FsRequest, Invalidate, Reply, Request};
use node::RequestId;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use stdx::{Instant, Rng};

const THINK: Duration = Duration::from_millis(600);
/// The same of a client that works in one directory for a while, which it then has for itself.
const BRIEFLY: Duration = Duration::from_millis(20);
/// The most handles that a client holds open.
const HELD: usize = 2;
pub(super) const FILES: [&str; 4] = ["a", "b", "c", "d"];
pub(super) const DIRS: [&str; 2] = ["x", "y"];
pub(super) const LINKS: [&str; 2] = ["s", "t"];
/// The name of a file that clients pass on to one another. It stays.
pub(super) const HANDED: &str = "handed";

/// The load of file system operations.
pub struct FileLoad {
    names: namespace::History,
    contents: contents::History,
    pub(super) rng: Rng,
    pub(super) clients: Vec<ClientState>,
    left: usize,
    /// Operations to do at the end, in reverse order.
    last_look: Vec<Work>,
    /// True once the end has begun.
    finishing: bool,
    pending: BTreeMap<RequestId, usize>,
    /// What the callers on each host believe.
    believed: BTreeMap<HostId, Believed>,
    pub(super) next_tag: u32,
    pub(super) has_sprees: bool,
    /// Clients pass a file on to one another: who has written closes it, and syncs later.
    pub(super) hands_over: bool,
    /// Now and then all clients do little but read for a while, which leaves replicas of directories alone.
    pub(super) reads_for_a_while: bool,
    /// Operations until they do other things again.
    pub(super) reads_left: u32,
    /// Directories have several fragments, which are listed one after another.
    has_fragments: bool,
    /// Clients make snapshots.
    pub(super) has_snapshots: bool,
    pub(super) snaps: Snapshots,
    /// Clients set limits of trees.
    pub(super) has_limits: bool,
    /// The kinds of limits that somebody was asked to set.
    limits: BTreeSet<&'static str>,
    /// A refusal without a limit.
    refused: Option<String>,
}

pub(super) struct ClientState {
    host: HostId,
    next_at: Instant,
    pub(super) doing: Option<Doing>,
    pub(super) dirs: BTreeSet<u64>,
    pub(super) files: BTreeSet<u64>,
    pub(super) links: BTreeSet<u64>,
    /// Files held open beyond the operation that opened them.
    pub(super) held: BTreeMap<u64, Fh>,
    /// The file that clients pass on.
    pub(super) handed: Option<u64>,
    /// The directory in which it works alone, and the operations until it does something else.
    pub(super) spree: Option<(u64, u32)>,
    /// It has synced at the end.
    has_synced: bool,
}

impl ClientState {
    fn new(host: HostId, now: Instant) -> Self {
        let mut this = Self {
            host,
            next_at: now,
            doing: None,
            dirs: BTreeSet::new(),
            files: BTreeSet::new(),
            links: BTreeSet::new(),
            held: BTreeMap::new(),
            handed: None,
            spree: None,
            has_synced: false,
        };
        this.forget();
        this
    }

    fn forget(&mut self) {
        self.doing = None;
        self.dirs = BTreeSet::from([ROOT]);
        self.files.clear();
        self.links.clear();
        self.held.clear();
        self.handed = None;
        self.spree = None;
        self.has_synced = false;
    }
}

/// The operation of a client.
pub(super) struct Doing {
    work: Work,
    /// Its number in the history.
    number: usize,
    /// Time of its call in the history of names.
    call: u64,
    stage: Stage,
    /// Names listed so far.
    listing: BTreeMap<String, u64>,
    /// The next request and its time: data stay in the client's buffer for a while before they are synced.
    pub(super) later: Option<(Instant, FsRequest)>,
    /// True if it uses a handle that was held open.
    by_held: bool,
    /// When a write had returned, in the history of contents: if it is not lost, all others see it from then
    /// on.
    written: Option<u64>,
    /// The task with snapshots that it is.
    walk: Option<Walk>,
}

impl Doing {
    fn new(work: Work, stage: Stage) -> Self {
        let listing = BTreeMap::new();
        Self {
            work,
            stage,
            listing,
            number: 0,
            call: 0,
            later: None,
            by_held: false,
            written: None,
            walk: None,
        }
    }
}

/// The request in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// The only one, or the first.
    First,
    /// Data of an open file, or entries of an open directory.
    Data(Fh),
    /// An fsync of a handle.
    Sync(Fh),
    /// A close, with data that are synced later.
    Leaving,
    /// A sync of everything: a change without a handle may be only in the client, and dies with it.
    SyncAll,
    /// A request about snapshots.
    Walk,
    /// A close after the answer was recorded.
    Closing,
}

/// An answer to record.
enum Outcome {
    Name(Answer),
    Data(contents::Answer),
    Failed(Errno),
}

impl FileLoad {
    /// A load of `calls` calls by these clients.
    pub fn new(rng: Rng, clients: &[HostId], calls: usize, now: Instant) -> Self {
        Self {
            names: Default::default(),
            contents: Default::default(),
            rng,
            clients: clients.iter().map(|host| ClientState::new(*host, now)).collect(),
            left: calls,
            last_look: Vec::new(),
            finishing: false,
            pending: BTreeMap::new(),
            believed: BTreeMap::new(),
            next_tag: 0,
            has_sprees: false,
            hands_over: false,
            reads_for_a_while: false,
            reads_left: 0,
            has_fragments: false,
            has_snapshots: false,
            snaps: Snapshots::default(),
            has_limits: false,
            limits: BTreeSet::new(),
            refused: None,
        }
    }

    /// The same, in a name space that several ranks may serve, and which is read more than changed at times.
    pub fn with_ranks(mut self, has_ranks: bool) -> Self {
        self.names = namespace::History::of_ranks(has_ranks);
        self.reads_for_a_while = has_ranks;
        self
    }

    /// The same, in which clients now and then work in one directory for a while.
    pub fn with_sprees(mut self) -> Self {
        self.has_sprees = true;
        self
    }

    /// The same, in which clients pass one file on to one another if `hands_over`.
    pub fn with_hand_overs(mut self, hands_over: bool) -> Self {
        self.hands_over = hands_over;
        self
    }

    /// The same, with directories that may have several fragments.
    pub fn with_fragments(mut self, has_fragments: bool) -> Self {
        self.has_fragments = has_fragments;
        self
    }

    /// The same, in which clients make snapshots, or set limits of trees.
    pub fn with_trees(mut self, has_snapshots: bool, has_limits: bool) -> Self {
        (self.has_snapshots, self.has_limits) = (has_snapshots, has_limits);
        self
    }

    fn begin(&mut self, world: &mut ClientWorld, client: usize, work: Work) {
        if let Work::Name(action) = &work
            && let Some(answer) = self.believed(client).answer(world.now(), action)
        {
            let number = self.names.called(client, action.clone());
            return self.names.returned(number, answer);
        }
        let call = self.names.moment();
        let number = match &work {
            Work::Name(action) => self.names.called(client, action.clone()),
            Work::Data(ino, action) => self.contents.called(*ino, client, action.clone()),
            Work::Stat(ino) => self.contents.called(*ino, client, contents::Action::Stat),
            Work::Snap(task) => self.call_snap(client, task),
            Work::Pages(_) | Work::Close | Work::Sync | Work::Limit(..) => 0,
        };
        let held = match &work {
            Work::Data(ino, contents::Action::Read { .. } | contents::Action::Write { .. }) => {
                self.clients[client].held.get(ino).copied()
            }
            _ => None,
        };
        let stage = match work {
            Work::Sync => Stage::SyncAll,
            Work::Snap(_) => Stage::Walk,
            _ => held.map_or(Stage::First, Stage::Data),
        };
        let walk = match &work {
            Work::Snap(task) => Some(Walk::new(task.clone(), self.rng.fork())),
            _ => None,
        };
        let request = match (held, walk.as_ref().and_then(Walk::request)) {
            (_, Some(request)) => request,
            (Some(fh), None) => data_request(&work, fh, 0),
            (None, None) => self.first_request(&work),
        };
        let by_held = held.is_some();
        let doing = Doing { number, call, by_held, walk, ..Doing::new(work, stage) };
        self.clients[client].doing = Some(doing);
        self.ask(world, client, request);
    }

    /// Records the call that a task with snapshots is.
    fn call_snap(&mut self, client: usize, task: &Task) -> usize {
        match task {
            Task::Make(name) => {
                let at = self.contents.moment();
                let snap = Action::Snap(name.0, name.1.clone(), Rc::default());
                let number = self.names.called(client, snap);
                self.snaps.called(name.clone(), client, number, at);
                number
            }
            Task::Remove(name) => {
                self.snaps.removed(name);
                self.names.called(client, Action::Unsnap(name.0, name.1.clone()))
            }
            Task::Read(dir) | Task::List(dir) => self.names.called(client, Action::Snaps(*dir)),
            Task::Whole(_) => 0,
        }
    }

    /// Handles the reply to a request of a task with snapshots, and makes the next one.
    fn advance_walk(&mut self, world: &mut ClientWorld, client: usize, reply: &Reply) {
        let doing = self.clients[client].doing.as_mut().expect("an answer to something");
        let (number, work) = (doing.number, doing.work.clone());
        let Some(walk) = &mut doing.walk else { return };
        let (found, next) = (walk.take(reply), walk.request());
        for found in found {
            let at = self.contents.moment();
            match found {
                Found::Answered(answer) => {
                    match (&work, &answer) {
                        (Work::Snap(Task::Make(name)), Answer::Done) => self.snaps.made(name, at),
                        (Work::Snap(Task::List(dir)), Answer::Snaps(all)) => {
                            let own = all.iter().filter(|(of, _)| of == dir).cloned();
                            self.last_look.extend(own.map(|name| Work::Snap(Task::Whole(name))));
                        }
                        _ => {}
                    }
                    self.names.returned(number, answer);
                }
                Found::Seen(name, seen) => self.snaps.saw(&name, at, seen),
                Found::Missed(name, what) => self.snaps.missed(&name, what),
            }
        }
        match next {
            Some(request) => self.ask(world, client, request),
            None => self.clients[client].doing = None,
        }
    }

    fn believed(&mut self, client: usize) -> &mut Believed {
        self.believed.entry(self.clients[client].host).or_default()
    }

    fn ask(&mut self, world: &mut ClientWorld, client: usize, request: FsRequest) {
        let host = self.clients[client].host;
        let id = world.request(host, Request::Fs(Caller::default(), request));
        self.pending.insert(id, client);
    }

    /// The kernel forgets a file that has lost its last name there, unless a descriptor of `O_PATH` refers to
    /// it: of every fourth file there is one.
    fn forget_file(&self, world: &mut ClientWorld, client: usize, gone: Option<u64>) {
        let is_file = |ino: &u64| self.clients.iter().any(|c| c.files.contains(ino));
        if let Some(ino) = gone.filter(|ino| is_file(ino) && ino % 4 != 0) {
            let forget = FsRequest::Forget { ino, count: u64::MAX };
            world.request(self.clients[client].host, Request::Fs(Caller::default(), forget));
        }
    }

    /// Records the answer to a call.
    fn record(&mut self, client: usize, outcome: Outcome) {
        let doing = self.clients[client].doing.as_ref().expect("an answer to something");
        let (number, call, by_held, written) = (doing.number, doing.call, doing.by_held, doing.written);
        match (doing.work.clone(), outcome) {
            (work, Outcome::Failed(errno @ (Errno::EDQUOT | Errno::EXDEV))) => {
                self.refused(client, (number, work), errno);
            }
            (Work::Name(Action::List(dir)), Outcome::Name(Answer::Names(names))) if self.has_fragments => {
                self.names.ignore(number);
                self.seen_by_name(client, call, dir, &names);
            }
            (Work::Name(_), Outcome::Name(answer)) => self.names.returned(number, answer),
            (Work::Name(_), Outcome::Failed(errno)) => self.names.returned(number, Answer::Error(errno)),
            (Work::Data(ino, _) | Work::Stat(ino), Outcome::Data(answer)) => {
                let at = written.unwrap_or_else(|| self.contents.moment());
                self.contents.returned_at(ino, number, answer, at);
            }
            (Work::Data(ino, _) | Work::Stat(ino), Outcome::Failed(errno)) => {
                let gone = [Errno::ENOENT, Errno::ESTALE].contains(&errno) && !by_held;
                let answer = if gone { contents::Answer::Gone } else { contents::Answer::Error(errno) };
                self.contents.returned(ino, number, answer);
                if gone {
                    self.names.found(client, call, Action::Use(ino), Answer::Error(errno));
                }
            }
            (Work::Pages(dir), Outcome::Name(Answer::Names(names))) => {
                self.seen_by_name(client, call, dir, &names);
            }
            _ => {}
        }
    }

    /// Records a listing in parts: each name was there, or was not, at a moment of its own.
    fn seen_by_name(&mut self, client: usize, call: u64, dir: u64, names: &BTreeMap<String, u64>) {
        let known = FILES.iter().chain(&DIRS).chain(&LINKS).map(|name| (*name).to_owned());
        let all: BTreeSet<String> = known.chain(names.keys().cloned()).collect();
        for name in all {
            let seen = names.get(&name).map_or(Answer::Error(Errno::ENOENT), |ino| Answer::Ino(*ino));
            self.names.found(client, call, Action::Lookup(dir, name), seen);
        }
    }

    /// A call was refused because of a limit. That one was ever set is all that is known here: clients know
    /// late of limits and of what is used. The audit ([`crate::audit`]) sees what they do when all is quiet.
    fn refused(&mut self, client: usize, (number, work): (usize, Work), errno: Errno) {
        let kind = match (&work, errno) {
            (Work::Name(_), Errno::EDQUOT) => "max_files",
            (Work::Data(..), Errno::EDQUOT) => "max_bytes",
            _ => "",
        };
        if !self.limits.contains(kind) && (!kind.is_empty() || self.limits.is_empty()) {
            self.refused.get_or_insert_with(|| format!("client.{client} {work:?}: {errno} without a limit"));
        }
        match work {
            Work::Name(_) => self.names.ignore(number),
            Work::Data(ino, _) => self.contents.returned(ino, number, contents::Answer::Refused),
            _ => {}
        }
    }

    /// Handles the reply to a request of an operation: makes the next request, or ends the operation.
    fn advance(&mut self, world: &mut ClientWorld, client: usize, reply: &Reply) {
        let doing = self.clients[client].doing.as_mut().expect("an answer to something");
        let (stage, work) = (doing.stage, doing.work.clone());
        if stage == Stage::Walk {
            return self.advance_walk(world, client, reply);
        }
        if let Stage::Sync(_) | Stage::SyncAll = stage {
            match reply {
                Ok(_) => self.names.synced(client),
                Err(_) => self.names.lost(client),
            }
        }
        let next = match (stage, reply) {
            (Stage::Closing | Stage::Walk, _) => None,
            (Stage::First, Ok(FsAnswer::Opened { fh, .. })) => match work {
                Work::Data(_, contents::Action::Truncate(_)) => {
                    self.record(client, Outcome::Data(contents::Answer::Done));
                    self.close(client, *fh)
                }
                work => Some((Stage::Data(*fh), data_request(&work, *fh, 0))),
            },
            (Stage::First, Ok(FsAnswer::Created { entry, fh })) => self.made(client, &work, entry, *fh),
            (Stage::Leaving, _) => Some((Stage::SyncAll, FsRequest::Sync)),
            (Stage::First, Ok(_)) if changes_attributes(&work) => Some((Stage::SyncAll, FsRequest::Sync)),
            (Stage::SyncAll, _) if matches!(work, Work::Sync) => {
                self.clients[client].has_synced |= self.finishing;
                None
            }
            (Stage::SyncAll, reply) => {
                let done = Outcome::Data(contents::Answer::Done);
                self.record(client, if reply.is_ok() { done } else { Outcome::Failed(Errno::EIO) });
                None
            }
            (Stage::First, reply) => {
                self.record_single(client, &work, reply);
                None
            }
            (Stage::Data(fh), Ok(FsAnswer::Written(_))) => {
                doing.written = Some(self.contents.moment());
                Some(self.after_write(client, &work, fh))
            }
            (Stage::Data(fh), Ok(FsAnswer::Entries(entries))) if !entries.is_empty() => {
                doing.listing.extend(names_of(entries));
                let offset = entries.last().expect("seen to be there").next_offset;
                Some((Stage::Data(fh), data_request(&work, fh, offset)))
            }
            (Stage::Data(fh), Ok(FsAnswer::Entries(_))) => {
                let names = std::mem::take(&mut doing.listing);
                self.listed(client, &work, names);
                self.close(client, fh)
            }
            (Stage::Data(fh), Ok(FsAnswer::Data(data))) => {
                self.record(client, Outcome::Data(contents::Answer::Data(data.to_vec())));
                self.close(client, fh)
            }
            (Stage::Data(fh), Err(Errno::EDQUOT)) => {
                self.record(client, Outcome::Failed(Errno::EDQUOT));
                self.close(client, fh)
            }
            (Stage::Data(fh) | Stage::Sync(fh), reply) => {
                // After a failed write or fsync the outcome is unknown.
                let done = Outcome::Data(contents::Answer::Done);
                self.record(client, if reply.is_ok() { done } else { Outcome::Failed(Errno::EIO) });
                self.close(client, fh)
            }
        };
        self.go_on(world, client, next);
    }

    /// A file was opened and perhaps made.
    fn made(&mut self, client: usize, work: &Work, entry: &Entry, fh: Fh) -> Option<(Stage, FsRequest)> {
        self.learn(client, entry);
        let ino = entry.attr.ino;
        if matches!(work, Work::Name(Action::OpenOrCreate(_, name)) if name == HANDED) {
            self.clients[client].handed = Some(ino);
        }
        self.record(client, Outcome::Name(Answer::Ino(ino)));
        let doing = self.clients[client].doing.as_mut().expect("still at it");
        doing.work = Work::Data(ino, contents::Action::Stat);
        self.fill(client, ino, fh).or_else(|| self.close(client, fh))
    }

    /// What follows a write: an fsync, or of the file that clients pass on a close, and a sync later.
    fn after_write(&mut self, client: usize, work: &Work, fh: Fh) -> (Stage, FsRequest) {
        let state = &self.clients[client];
        let is_handed = matches!(work, Work::Data(ino, _) if state.handed == Some(*ino))
            && state.doing.as_ref().is_some_and(|doing| !doing.by_held);
        if is_handed && self.rng.chance(1, 2) {
            (Stage::Leaving, FsRequest::Release { fh, lock_owner: 0 })
        } else {
            (Stage::Sync(fh), FsRequest::Fsync { fh, data_only: false })
        }
    }

    /// A file that everyone writes is written and synced as soon as it is made, as many programs do.
    fn fill(&mut self, client: usize, ino: u64, fh: Fh) -> Option<(Stage, FsRequest)> {
        if use_of(ino) != Use::Shared {
            return None;
        }
        self.next_tag += 1;
        let action = contents::Action::Write { offset: 0, tag: self.next_tag };
        let (number, call) = (self.contents.called(ino, client, action.clone()), self.names.moment());
        let (work, stage) = (Work::Data(ino, action), Stage::Data(fh));
        let request = data_request(&work, fh, 0);
        self.clients[client].doing = Some(Doing { number, call, ..Doing::new(work, stage) });
        Some((stage, request))
    }

    /// All names of a directory are here. At the end each leads on to its inode.
    fn listed(&mut self, client: usize, work: &Work, names: BTreeMap<String, u64>) {
        if self.finishing
            && let Work::Name(Action::List(dir)) = work
        {
            let found = names.keys().map(|name| Work::Name(Action::Lookup(*dir, name.clone())));
            self.last_look.extend(found);
        }
        self.record(client, Outcome::Name(Answer::Names(names)));
    }

    /// Records the answer of an operation with one request.
    fn record_single(&mut self, client: usize, work: &Work, reply: &Reply) {
        use contents::Action as Do;
        let outcome = match (work, reply) {
            (Work::Data(_, Do::GetXattr | Do::RemoveXattr), Err(Errno::ENODATA)) => {
                Outcome::Data(contents::Answer::Xattr(None))
            }
            (_, Err(errno)) => Outcome::Failed(*errno),
            (Work::Stat(ino), Ok(FsAnswer::Attr(attr, _))) => {
                let call = self.clients[client].doing.as_ref().expect("an answer to something").call;
                self.names.found(client, call, Action::Nlink(*ino), Answer::Count(attr.nlink));
                Outcome::Data(contents::Answer::Stat(attr.size, attr.mode & !S_IFMT))
            }
            (Work::Data(_, Do::GetXattr), Ok(FsAnswer::Data(data))) => {
                Outcome::Data(contents::Answer::Xattr(Some(number(&data.to_vec()))))
            }
            (Work::Data(..), Ok(_)) => Outcome::Data(contents::Answer::Done),
            (Work::Name(Action::Readlink(_)), Ok(FsAnswer::Data(data))) => {
                Outcome::Name(Answer::Target(number(&data.to_vec())))
            }
            (Work::Name(_), Ok(FsAnswer::Absent(_))) => Outcome::Failed(Errno::ENOENT),
            (Work::Name(action), Ok(FsAnswer::Entry(entry))) => {
                self.learn(client, entry);
                if self.has_sprees && matches!(action, Action::Mkdir(..)) {
                    // Nobody else knows the directory yet.
                    self.clients[client].spree = Some((entry.attr.ino, 5 + self.rng.below(12) as u32));
                }
                let links = matches!(action, Action::Link(..));
                Outcome::Name(if links { Answer::Done } else { Answer::Ino(entry.attr.ino) })
            }
            _ => Outcome::Name(Answer::Done),
        };
        self.record(client, outcome);
    }

    /// Closes or keeps the handle once the answer is known. Returns the request to make.
    fn close(&mut self, client: usize, fh: Fh) -> Option<(Stage, FsRequest)> {
        let state = &mut self.clients[client];
        let doing = state.doing.as_ref().expect("at something");
        let ino = match &doing.work {
            Work::Name(Action::List(_)) | Work::Pages(_) => {
                return Some((Stage::Closing, FsRequest::Releasedir { fh }));
            }
            // A handle that appends is used for nothing else.
            Work::Data(_, contents::Action::Append(_) | contents::Action::Truncate(_)) => None,
            Work::Data(ino, _) => Some(*ino),
            _ => None,
        };
        if let Some(ino) = ino {
            let may = !self.finishing
                && (doing.by_held || state.held.len() < HELD && !state.held.contains_key(&ino));
            let chance = if doing.by_held { 3 } else { 1 };
            if may && self.rng.chance(chance, 4) {
                state.held.insert(ino, fh);
                return None;
            }
            if doing.by_held {
                state.held.remove(&ino);
            }
        }
        Some((Stage::Closing, FsRequest::Release { fh, lock_owner: 0 }))
    }

    fn go_on(&mut self, world: &mut ClientWorld, client: usize, next: Option<(Stage, FsRequest)>) {
        let Some((stage, request)) = next else {
            self.clients[client].doing = None;
            return;
        };
        let was_closed = self.clients[client].doing.as_ref().is_some_and(|d| d.stage == Stage::Leaving);
        let syncs = matches!(stage, Stage::Sync(_)) || was_closed;
        let is_long = self.has_snapshots && self.rng.chance(1, 3) || was_closed;
        let longest = if is_long { 1500 } else { 300 };
        let pause = if syncs && self.rng.chance(1, 2) { self.rng.below(longest) } else { 0 };
        let doing = self.clients[client].doing.as_mut().expect("still at it");
        doing.stage = stage;
        if pause > 0 {
            doing.later = Some((world.now() + Duration::from_millis(pause), request));
        } else {
            self.ask(world, client, request);
        }
    }

    fn learn(&mut self, client: usize, entry: &Entry) {
        let state = &mut self.clients[client];
        let ino = entry.attr.ino;
        let is_new = match entry.attr.mode & S_IFMT {
            S_IFDIR => state.dirs.insert(ino),
            S_IFLNK => state.links.insert(ino),
            _ => state.files.insert(ino),
        };
        // At the end, each directory leads on to its entries.
        if !self.finishing {
            return;
        }
        match entry.attr.mode & S_IFMT {
            S_IFDIR => {
                let snaps = self.has_snapshots.then_some(Work::Snap(Task::List(ino)));
                self.last_look.extend(snaps.into_iter().chain([Work::Name(Action::List(ino))]));
            }
            S_IFLNK => self.last_look.push(Work::Name(Action::Readlink(ino))),
            _ if is_new || self.clients.len() < 3 => {
                self.last_look.extend((0..cells_of(ino)).map(|cell| Work::Data(ino, read_of(ino, cell))));
                self.last_look.extend([Work::Stat(ino), Work::Data(ino, contents::Action::GetXattr)]);
            }
            _ => {}
        }
    }

    fn first_request(&mut self, work: &Work) -> FsRequest {
        match work {
            Work::Name(action) => name_request(action),
            Work::Pages(dir) => FsRequest::Opendir { ino: *dir },
            Work::Stat(ino) => FsRequest::Getattr { ino: *ino },
            Work::Data(ino, contents::Action::Truncate(0)) if self.rng.chance(1, 2) => {
                FsRequest::Open { ino: *ino, flags: O_WRONLY | O_TRUNC, kill_suidgid: false }
            }
            Work::Data(ino, action) => data_first(*ino, action),
            Work::Sync => FsRequest::Sync,
            Work::Limit(dir, name, value) => {
                self.limits.extend(value.map(|_| *name));
                limit_request(*dir, name, *value)
            }
            Work::Snap(_) | Work::Close => unreachable!("begins otherwise"),
        }
    }

    /// Closes a handle that a client holds. Reports whether there was one.
    fn close_one(&mut self, world: &mut ClientWorld, client: usize) -> bool {
        let state = &mut self.clients[client];
        let Some((_, fh)) = state.held.pop_first() else { return false };
        state.doing = Some(Doing::new(Work::Close, Stage::Closing));
        self.ask(world, client, FsRequest::Release { fh, lock_owner: 0 });
        true
    }
}

impl Load for FileLoad {
    fn wants_at(&self) -> Option<Instant> {
        let later = self.clients.iter().filter_map(|c| Some(c.doing.as_ref()?.later.as_ref()?.0));
        let more = self.left > 0 || !self.last_look.is_empty();
        let ends = |c: &ClientState| self.finishing && (!c.held.is_empty() || !c.has_synced);
        let wants = |c: &&ClientState| c.doing.is_none() && (more || ends(c));
        later.chain(self.clients.iter().filter(wants).map(|c| c.next_at)).min()
    }

    fn issue(&mut self, world: &mut ClientWorld) {
        for client in 0..self.clients.len() {
            let now = world.now();
            if let Some(doing) = &mut self.clients[client].doing
                && let Some((_, request)) = doing.later.take_if(|(at, _)| *at <= now)
            {
                self.ask(world, client, request);
            }
            let state = &self.clients[client];
            if state.next_at > now || state.doing.is_some() {
                continue;
            }
            let think = if state.spree.is_some() { BRIEFLY } else { THINK };
            let think = Duration::from_nanos(self.rng.below(think.as_nanos() as u64) + 1);
            let is_up = world.is_up(self.clients[client].host);
            self.clients[client].next_at = if self.finishing && is_up { now } else { now + think };
            if !is_up || self.finishing && self.close_one(world, client) {
                continue;
            }
            if self.finishing && !self.clients[client].has_synced {
                self.begin(world, client, Work::Sync);
                continue;
            }
            if let Some(work) = self.last_look.pop() {
                self.begin(world, client, work);
            } else if self.left > 0 {
                let work = self.draw(client);
                // A spree is in addition to the other work.
                self.left -= usize::from(self.clients[client].spree.is_none());
                self.begin(world, client, work);
            }
        }
    }

    fn answered(&mut self, world: &mut ClientWorld, _: HostId, id: RequestId, reply: &Reply) -> bool {
        let Some(client) = self.pending.remove(&id) else { return false };
        let doing = self.clients[client].doing.as_ref().expect("an answer to something");
        if let (Stage::First, Work::Name(action)) = (doing.stage, doing.work.clone()) {
            let gone = self.believed(client).without_name(&action).filter(|_| reply.is_ok());
            self.believed(client).take(world.now(), &action, reply);
            self.forget_file(world, client, gone);
        }
        self.advance(world, client, reply);
        true
    }

    fn died(&mut self, host: HostId, _: Instant) {
        self.pending.retain(|_, client| self.clients[*client].host != host);
        self.believed.remove(&host);
        for client in (0..self.clients.len()).filter(|client| self.clients[*client].host == host) {
            self.names.lost(client);
            self.contents.died(client);
        }
        self.clients.iter_mut().filter(|c| c.host == host).for_each(ClientState::forget);
    }

    fn invalidated(&mut self, host: HostId, what: &Invalidate) {
        if let (Some(believed), Invalidate::Names { parent, names }) = (self.believed.get_mut(&host), what) {
            names.iter().for_each(|name| believed.forget(*parent, &String::from_utf8_lossy(name)));
        }
    }

    fn heard(&mut self, host: HostId, told: &Told) {
        for client in (0..self.clients.len()).filter(|client| self.clients[*client].host == host) {
            match told {
                Told::Missing(_) => self.names.missing(client),
                Told::Returned(_) => self.names.came_back(client),
                Told::Refused(_) => self.names.cut(client),
                // A write or an fsync that fails says so itself.
                Told::Gone(..) => {}
                Told::Evicted(_) => {
                    self.names.missing(client);
                    self.contents.evicted(client);
                }
                Told::SessionLost => {
                    self.names.cut(client);
                    self.names.came_back(client);
                    self.contents.began_anew(client);
                }
            }
        }
    }

    fn finish(&mut self, _: &ClientWorld) {
        self.left = 0;
        self.finishing = true;
        self.last_look = vec![Work::Name(Action::List(ROOT))];
        self.last_look.extend(self.has_snapshots.then_some(Work::Snap(Task::List(ROOT))));
    }

    fn in_flight(&self) -> Vec<String> {
        let doing = self.clients.iter().enumerate().filter_map(|(i, c)| c.doing.as_ref().map(|d| (i, d)));
        let doing = doing.map(|(i, d)| format!("client.{i} {:?} ({:?})", d.work, d.stage));
        doing.chain(self.last_look.iter().map(|a| format!("last look: {a:?}"))).collect()
    }

    fn answered_calls(&self) -> usize {
        self.names.answered() + self.contents.answered()
    }

    fn linked_files(&self) -> BTreeSet<u64> {
        self.names.linked()
    }

    fn verdicts(&self) -> Vec<(&'static str, Judgement)> {
        let (mut names, mut contents) = (self.names.clone(), self.contents.clone());
        snapped::tell(&self.snaps, &mut names, &mut contents);
        let limits = Judgement { wrong: self.refused.clone(), ..Judgement::default() };
        vec![
            ("snapshots_constant", self.snaps.check()),
            ("namespace_linearizable", names.check()),
            ("files_linearizable", contents.check()),
            ("quotas_hold", limits),
        ]
    }
}

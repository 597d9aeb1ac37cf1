//! Clients that work in one small tree: nested directories, files, symbolic and hard links, renames of
//! everything over everything; files written, appended to, truncated and extended, and held open while their
//! names go; xattrs and modes; listings at once and in pages.
//!
//! Each client has one operation at a time. An operation may take several requests (open, write, fsync,
//! close): the first is its call, and the last relevant one its return.
//!
//! A file's number determines its use ([`Use`]): otherwise few files would be used by several clients in the
//! same way.

use super::believed::Believed;
use super::{ClientWorld, Load};
use crate::host::HostId;
use crate::oracle::contents::{self, CELL};
use crate::oracle::late::Told;
use crate::oracle::linear::Judgement;
use crate::oracle::namespace::{self, Action, Answer, ROOT};
use crate::oracle::objects::filled;
use fsclient::{
    Answer as FsAnswer, Caller, DirEntry, Entry, Errno, Fh, FsRequest, Invalidate, Reply, Request, SetAttr,
};
use node::RequestId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::{Instant, Rng};

const THINK: Duration = Duration::from_millis(600);
/// The same of a client that works in one directory for a while, which it then has for itself.
const BRIEFLY: Duration = Duration::from_millis(20);
/// Cells of a file that are written.
const CELLS: u64 = 4;
/// Distance of the cells of a wide file in bytes: each lies in an object of its own.
const WIDE: u64 = 4 << 20;
/// The name of the xattr.
const XATTR: &[u8] = b"user.sim";
/// The most handles that a client holds open.
const HELD: usize = 2;
const FILES: [&str; 4] = ["a", "b", "c", "d"];
const DIRS: [&str; 2] = ["x", "y"];
const LINKS: [&str; 2] = ["s", "t"];
const O_WRONLY: u32 = 1;
const O_RDWR: u32 = 2;
const O_CREAT: u32 = 0o100;
const O_EXCL: u32 = 0o200;
const O_TRUNC: u32 = 0o1000;
const O_APPEND: u32 = 0o2000;
const S_IFMT: u32 = 0o170_000;
const S_IFDIR: u32 = 0o040_000;
const S_IFLNK: u32 = 0o120_000;
const S_IFREG: u32 = 0o100_000;

/// The use of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Small, and written by everyone.
    Shared,
    /// Of several objects with holes between them, and written by everyone.
    Wide,
    /// Appended to by one client: concurrent appends are not atomic in any client of this protocol.
    Log,
}

fn use_of(ino: u64) -> Use {
    match ino % 4 {
        0 => Use::Log,
        1 => Use::Wide,
        _ => Use::Shared,
    }
}

/// The offset of a cell in a file.
fn place(ino: u64, cell: u64) -> u64 {
    if use_of(ino) == Use::Wide { cell * WIDE } else { cell * CELL }
}

/// The load of file system operations.
pub struct FileLoad {
    names: namespace::History,
    contents: contents::History,
    rng: Rng,
    clients: Vec<ClientState>,
    left: usize,
    /// Operations to do at the end, in reverse order.
    last_look: Vec<Work>,
    /// True once the end has begun.
    finishing: bool,
    pending: BTreeMap<RequestId, usize>,
    /// What the callers on each host believe.
    believed: BTreeMap<HostId, Believed>,
    next_tag: u32,
    has_sprees: bool,
}

struct ClientState {
    host: HostId,
    next_at: Instant,
    doing: Option<Doing>,
    dirs: BTreeSet<u64>,
    files: BTreeSet<u64>,
    links: BTreeSet<u64>,
    /// Files held open beyond the operation that opened them.
    held: BTreeMap<u64, Fh>,
    /// The directory in which it works alone, and the operations until it does something else.
    spree: Option<(u64, u32)>,
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
        self.spree = None;
        self.has_synced = false;
    }
}

/// An operation to do.
#[derive(Clone, Debug)]
enum Work {
    Name(Action),
    Data(u64, contents::Action),
    /// A listing in pages, during which names may come and go.
    Pages(u64),
    /// Attributes: names and content are checked separately.
    Stat(u64),
    /// Close a file that was held open.
    Close,
    /// Make everything durable.
    Sync,
}

/// The operation of a client.
struct Doing {
    work: Work,
    /// Its number in the history.
    number: usize,
    /// Time of its call in the history of names.
    call: u64,
    stage: Stage,
    /// Names listed so far.
    listing: BTreeMap<String, u64>,
    /// The next request and its time: data stay in the client's buffer for a while before they are synced.
    later: Option<(Instant, FsRequest)>,
    /// True if it uses a handle that was held open.
    by_held: bool,
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
    /// A sync of everything: a change without a handle may be only in the client, and dies with it.
    SyncAll,
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
        }
    }

    /// The same, in which clients now and then work in one directory for a while.
    pub fn with_sprees(mut self) -> Self {
        self.has_sprees = true;
        self
    }

    fn draw(&mut self, client: usize) -> Work {
        if let Some(work) = self.draw_in_spree(client) {
            return work;
        }
        let rng = &mut self.rng;
        let state = &self.clients[client];
        let pick = |rng: &mut Rng, from: &BTreeSet<u64>| {
            from.iter().nth(rng.below(from.len().max(1) as u64) as usize).copied()
        };
        let name = |rng: &mut Rng, from: &[&str]| (*rng.pick(from)).to_owned();
        let dir = pick(rng, &state.dirs).unwrap_or(ROOT);
        let to = pick(rng, &state.dirs).unwrap_or(ROOT);
        let file = pick(rng, &state.files);
        let any_name = |rng: &mut Rng| (*rng.pick(&[&FILES[..], &DIRS, &LINKS].concat())).to_owned();
        self.next_tag += 1;
        let tag = self.next_tag;
        Work::Name(match rng.below(100) {
            0..7 => Action::Lookup(dir, name(rng, &FILES)),
            7..12 => Action::Lookup(dir, name(rng, &DIRS)),
            12..24 => Action::Create(dir, name(rng, &FILES)),
            24..28 => Action::OpenOrCreate(dir, name(rng, &FILES)),
            28..33 => Action::Mkdir(dir, name(rng, &DIRS)),
            33..36 => Action::Symlink(dir, name(rng, &LINKS), tag),
            36..42 => Action::Unlink(dir, name(rng, &FILES)),
            42..43 => Action::Unlink(dir, name(rng, &LINKS)),
            43..45 => Action::Rmdir(dir, name(rng, &DIRS)),
            45..53 => Action::Rename(dir, name(rng, &FILES), to, name(rng, &FILES)),
            53..56 => Action::Rename(dir, name(rng, &DIRS), to, name(rng, &DIRS)),
            56..58 => Action::Rename(dir, any_name(rng), to, any_name(rng)),
            58..61 => Action::List(dir),
            61..62 => return Work::Sync,
            62..65 => return Work::Pages(dir),
            65..66 => match pick(rng, &state.links) {
                Some(link) => Action::Readlink(link),
                None => Action::Lookup(dir, name(rng, &LINKS)),
            },
            roll => match file {
                None => Action::Create(dir, name(rng, &FILES)),
                Some(file) if roll < 70 => Action::Link(file, dir, name(rng, &FILES)),
                Some(file) if roll < 73 => return Work::Stat(file),
                // Files that are held open come first, also those without a name.
                Some(file) => {
                    let held = state.held.keys().next().copied().filter(|_| rng.chance(1, 3));
                    return self.draw_data(client, held.unwrap_or(file));
                }
            },
        })
    }

    /// The next operation of a client that works in one directory for a while. Sometimes it begins to.
    fn draw_in_spree(&mut self, client: usize) -> Option<Work> {
        if !self.has_sprees {
            return None;
        }
        let (rng, state) = (&mut self.rng, &mut self.clients[client]);
        if state.spree.is_none() && rng.chance(1, 16) {
            let dir = state.dirs.iter().nth(rng.below(state.dirs.len() as u64) as usize)?;
            state.spree = Some((*dir, 5 + rng.below(12) as u32));
        }
        let (dir, left) = state.spree?;
        state.spree = (left > 1).then_some((dir, left - 1));
        let name = (*rng.pick(&FILES)).to_owned();
        Some(Work::Name(match rng.below(20) {
            0..9 => Action::Create(dir, name),
            9..10 => Action::OpenOrCreate(dir, name),
            10..16 => Action::Unlink(dir, name),
            16..17 => Action::Lookup(dir, name),
            17..18 => Action::Rename(dir, name, dir, (*rng.pick(&FILES)).to_owned()),
            18..19 => Action::List(dir),
            _ => match state.files.last().copied() {
                Some(file) => return Some(self.draw_data(client, file)),
                None => Action::Create(dir, name),
            },
        }))
    }

    fn draw_data(&mut self, client: usize, ino: u64) -> Work {
        use contents::Action;
        let rng = &mut self.rng;
        let (tag, cell) = (self.next_tag, rng.below(CELLS));
        let log = use_of(ino) == Use::Log;
        let others = log && (ino / 4) % self.clients.len() as u64 != client as u64;
        Work::Data(
            ino,
            match rng.below(27) {
                0..11 if log && !others => Action::Append(tag),
                0..11 if !others => Action::Write { offset: place(ino, cell), tag },
                11..15 if !others => Action::Truncate(place(ino, cell) + CELL * rng.below(2)),
                15..17 => Action::SetXattr(tag),
                17 => Action::RemoveXattr,
                18..20 => Action::GetXattr,
                20 => Action::Chmod(*rng.pick(&[0o600, 0o640, 0o755])),
                _ => read_of(ino, cell),
            },
        )
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
            Work::Pages(_) | Work::Close | Work::Sync => 0,
        };
        let held = match &work {
            Work::Data(ino, contents::Action::Read { .. } | contents::Action::Write { .. }) => {
                self.clients[client].held.get(ino).copied()
            }
            _ => None,
        };
        let stage = match work {
            Work::Sync => Stage::SyncAll,
            _ => held.map_or(Stage::First, Stage::Data),
        };
        let request = match held {
            Some(fh) => data_request(&work, fh, 0),
            None => self.first_request(&work),
        };
        let by_held = held.is_some();
        let listing = BTreeMap::new();
        self.clients[client].doing = Some(Doing { work, number, call, stage, listing, later: None, by_held });
        self.ask(world, client, request);
    }

    fn believed(&mut self, client: usize) -> &mut Believed {
        self.believed.entry(self.clients[client].host).or_default()
    }

    fn ask(&mut self, world: &mut ClientWorld, client: usize, request: FsRequest) {
        let host = self.clients[client].host;
        let id = world.request(host, Request::Fs(Caller::default(), request));
        self.pending.insert(id, client);
    }

    /// Records the answer to a call.
    fn record(&mut self, client: usize, outcome: Outcome) {
        let doing = self.clients[client].doing.as_ref().expect("an answer to something");
        let (number, call, by_held) = (doing.number, doing.call, doing.by_held);
        match (doing.work.clone(), outcome) {
            (Work::Name(_), Outcome::Name(answer)) => self.names.returned(number, answer),
            (Work::Name(_), Outcome::Failed(errno)) => self.names.returned(number, Answer::Error(errno)),
            (Work::Data(ino, _) | Work::Stat(ino), Outcome::Data(answer)) => {
                self.contents.returned(ino, number, answer);
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
                for name in FILES.iter().chain(&DIRS).chain(&LINKS) {
                    let seen = names.get(*name).map_or(Answer::Error(Errno::ENOENT), |ino| Answer::Ino(*ino));
                    self.names.found(client, call, Action::Lookup(dir, (*name).to_owned()), seen);
                }
            }
            _ => {}
        }
    }

    /// Handles the reply to a request of an operation: makes the next request, or ends the operation.
    fn advance(&mut self, world: &mut ClientWorld, client: usize, reply: &Reply) {
        let doing = self.clients[client].doing.as_mut().expect("an answer to something");
        let (stage, work) = (doing.stage, doing.work.clone());
        if let Stage::Sync(_) | Stage::SyncAll = stage {
            match reply {
                Ok(_) => self.names.synced(client),
                Err(_) => self.names.lost(client),
            }
        }
        let next = match (stage, reply) {
            (Stage::Closing, _) => None,
            (Stage::First, Ok(FsAnswer::Opened { fh, .. })) => match work {
                Work::Data(_, contents::Action::Truncate(_)) => {
                    self.record(client, Outcome::Data(contents::Answer::Done));
                    self.close(client, *fh)
                }
                work => Some((Stage::Data(*fh), data_request(&work, *fh, 0))),
            },
            (Stage::First, Ok(FsAnswer::Created { entry, fh })) => {
                self.learn(client, entry);
                self.record(client, Outcome::Name(Answer::Ino(entry.attr.ino)));
                self.clients[client].doing.as_mut().expect("still at it").work =
                    Work::Data(entry.attr.ino, contents::Action::Stat);
                self.close(client, *fh)
            }
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
                Some((Stage::Sync(fh), FsRequest::Fsync { fh, data_only: false }))
            }
            (Stage::Data(fh), Ok(FsAnswer::Entries(entries))) if !entries.is_empty() => {
                doing.listing.extend(names_of(entries));
                let offset = entries.last().expect("seen to be there").next_offset;
                Some((Stage::Data(fh), data_request(&work, fh, offset)))
            }
            (Stage::Data(fh), Ok(FsAnswer::Entries(_))) => {
                let names = std::mem::take(&mut doing.listing);
                if self.finishing
                    && let Work::Name(Action::List(dir)) = &work
                {
                    let found = names.keys().map(|name| Work::Name(Action::Lookup(*dir, name.clone())));
                    self.last_look.extend(found);
                }
                self.record(client, Outcome::Name(Answer::Names(names)));
                self.close(client, fh)
            }
            (Stage::Data(fh), Ok(FsAnswer::Data(data))) => {
                self.record(client, Outcome::Data(contents::Answer::Data(data.to_vec())));
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
        let syncs = matches!(stage, Stage::Sync(_));
        let pause = if syncs && self.rng.chance(1, 2) { self.rng.below(300) } else { 0 };
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
            S_IFDIR => self.last_look.push(Work::Name(Action::List(ino))),
            S_IFLNK => self.last_look.push(Work::Name(Action::Readlink(ino))),
            _ if is_new || self.clients.len() < 3 => {
                let cells = if use_of(ino) == Use::Wide { CELLS } else { 1 };
                self.last_look.extend((0..cells).map(|cell| Work::Data(ino, read_of(ino, cell))));
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
            Work::Close => unreachable!("begins with its end"),
        }
    }

    /// Closes a handle that a client holds. Reports whether there was one.
    fn close_one(&mut self, world: &mut ClientWorld, client: usize) -> bool {
        let state = &mut self.clients[client];
        let Some((_, fh)) = state.held.pop_first() else { return false };
        state.doing = Some(Doing {
            work: Work::Close,
            number: 0,
            call: 0,
            stage: Stage::Closing,
            listing: BTreeMap::new(),
            later: None,
            by_held: false,
        });
        self.ask(world, client, FsRequest::Release { fh, lock_owner: 0 });
        true
    }
}

/// True for a change of attributes, which is recorded as done once it is durable.
fn changes_attributes(work: &Work) -> bool {
    use contents::Action as Do;
    matches!(work, Work::Data(_, Do::Chmod(_) | Do::SetXattr(_) | Do::RemoveXattr))
}

/// A read of the range that shows a cell; of a small file all cells.
fn read_of(ino: u64, cell: u64) -> contents::Action {
    match use_of(ino) {
        Use::Wide => contents::Action::Read { offset: place(ino, cell), len: 64 },
        _ => contents::Action::Read { offset: 0, len: 4096 },
    }
}

fn name_request(action: &Action) -> FsRequest {
    let bytes = |name: &String| name.clone().into_bytes();
    let create = |parent: u64, name: &String, flags: u32| FsRequest::Create {
        parent,
        name: bytes(name),
        mode: contents::NEW_MODE,
        flags: O_CREAT | O_RDWR | flags,
    };
    match action {
        Action::Lookup(dir, name) => FsRequest::Lookup { parent: *dir, name: bytes(name) },
        // There are two ways to make a file. The name decides, so that a replay takes the same one.
        Action::Create(dir, name) if name == "a" => {
            FsRequest::Mknod { parent: *dir, name: bytes(name), mode: S_IFREG | contents::NEW_MODE, rdev: 0 }
        }
        Action::Create(dir, name) => create(*dir, name, O_EXCL),
        Action::OpenOrCreate(dir, name) => create(*dir, name, 0),
        Action::Mkdir(dir, name) => FsRequest::Mkdir { parent: *dir, name: bytes(name), mode: 0o755 },
        Action::Symlink(dir, name, to) => {
            FsRequest::Symlink { parent: *dir, name: bytes(name), target: to.to_string().into_bytes() }
        }
        Action::Readlink(ino) => FsRequest::Readlink { ino: *ino },
        Action::Unlink(dir, name) => FsRequest::Unlink { parent: *dir, name: bytes(name) },
        Action::Rmdir(dir, name) => FsRequest::Rmdir { parent: *dir, name: bytes(name) },
        Action::Rename(dir, name, to, to_name) => FsRequest::Rename {
            parent: *dir,
            name: bytes(name),
            new_parent: *to,
            new_name: bytes(to_name),
            flags: 0,
        },
        Action::Link(ino, dir, name) => {
            FsRequest::Link { ino: *ino, new_parent: *dir, new_name: bytes(name) }
        }
        Action::List(dir) => FsRequest::Opendir { ino: *dir },
        Action::Nlink(ino) | Action::Use(ino) => FsRequest::Getattr { ino: *ino },
    }
}

fn data_first(ino: u64, action: &contents::Action) -> FsRequest {
    use contents::Action as Do;
    let name = XATTR.to_vec();
    match action {
        Do::Write { .. } | Do::Read { .. } => FsRequest::Open { ino, flags: O_RDWR, kill_suidgid: false },
        Do::Append(_) => FsRequest::Open { ino, flags: O_WRONLY | O_APPEND, kill_suidgid: false },
        Do::Truncate(size) => {
            FsRequest::Setattr { ino, set: SetAttr { size: Some(*size), ..SetAttr::default() } }
        }
        Do::Chmod(mode) => {
            FsRequest::Setattr { ino, set: SetAttr { mode: Some(*mode), ..SetAttr::default() } }
        }
        Do::SetXattr(tag) => {
            FsRequest::Setxattr { ino, name, value: tag.to_string().into_bytes(), flags: 0, kill_sgid: false }
        }
        Do::RemoveXattr => FsRequest::Removexattr { ino, name },
        Do::GetXattr => FsRequest::Getxattr { ino, name },
        Do::Stat => FsRequest::Getattr { ino },
    }
}

fn data_request(work: &Work, fh: Fh, offset: u64) -> FsRequest {
    use contents::Action as Do;
    let cell = |tag: u32| filled(tag, 0, CELL as usize).into();
    match work {
        Work::Data(_, Do::Write { offset, tag }) => {
            FsRequest::Write { fh, offset: *offset, data: cell(*tag), kill_suidgid: false }
        }
        // The append flag decides the offset.
        Work::Data(_, Do::Append(tag)) => {
            FsRequest::Write { fh, offset: 0, data: cell(*tag), kill_suidgid: false }
        }
        Work::Data(_, Do::Read { offset, len }) => FsRequest::Read { fh, offset: *offset, len: *len as u32 },
        Work::Pages(_) => FsRequest::Readdir { fh, offset, max_bytes: 64, plus: false },
        _ => FsRequest::Readdir { fh, offset, max_bytes: 1 << 16, plus: false },
    }
}

fn names_of(entries: &[DirEntry]) -> impl Iterator<Item = (String, u64)> {
    let names = entries.iter().map(|e| (String::from_utf8_lossy(&e.name).into_owned(), e.ino));
    names.filter(|(n, _)| n != "." && n != ".." && n != super::locks::FILE)
}

/// The number in some bytes, or a number that nobody has if they are none.
fn number(bytes: &[u8]) -> u32 {
    std::str::from_utf8(bytes).ok().and_then(|s| s.parse().ok()).unwrap_or(u32::MAX)
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
            self.believed(client).take(world.now(), &action, reply);
        }
        self.advance(world, client, reply);
        true
    }

    fn died(&mut self, host: HostId, _: Instant) {
        self.pending.retain(|_, client| self.clients[*client].host != host);
        self.believed.remove(&host);
        for client in (0..self.clients.len()).filter(|client| self.clients[*client].host == host) {
            self.names.lost(client);
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
                Told::Evicted(_) => {}
                Told::SessionLost => {
                    self.names.cut(client);
                    self.names.came_back(client);
                }
            }
        }
    }

    fn finish(&mut self, _: &ClientWorld) {
        self.left = 0;
        self.finishing = true;
        self.last_look = vec![Work::Name(Action::List(ROOT))];
    }

    fn in_flight(&self) -> Vec<String> {
        let doing = self.clients.iter().enumerate().filter_map(|(i, c)| c.doing.as_ref().map(|d| (i, d)));
        let doing = doing.map(|(i, d)| format!("client.{i} {:?} ({:?})", d.work, d.stage));
        doing.chain(self.last_look.iter().map(|a| format!("last look: {a:?}"))).collect()
    }

    fn answered_calls(&self) -> usize {
        self.names.answered() + self.contents.answered()
    }

    fn verdicts(&self) -> Vec<(&'static str, Judgement)> {
        vec![("namespace_linearizable", self.names.check()), ("files_linearizable", self.contents.check())]
    }
}

//! Clients that work in one small tree: create, rename, link, unlink, directories, files written with fsync and read.
//!
//! Each client does one thing at a time; a thing may take several requests (open, write, fsync, close), of which the first is
//! the call and the last that matters the return.

use super::{ClientWorld, Load};
use crate::oracle::linear::Judgement;
use crate::oracle::namespace::{Action, Answer, History, ROOT};
use crate::oracle::objects::filled;
use crate::world::Slot;
use fsclient::{Answer as FsAnswer, Caller, Entry, Errno, Fh, FsRequest, Reply, Request};
use node::RequestId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::{Instant, Rng};

const THINK: Duration = Duration::from_millis(600);
/// Bytes of each file's content.
const CONTENT: usize = 16;
const O_RDONLY: u32 = 0;
const O_WRONLY: u32 = 1;
const O_RDWR: u32 = 2;
const O_CREAT: u32 = 0o100;
const O_EXCL: u32 = 0o200;
const S_IFMT: u32 = 0o170_000;
const S_IFDIR: u32 = 0o040_000;
const S_IFREG: u32 = 0o100_000;

/// See the module.
pub struct FileLoad {
    history: History,
    rng: Rng,
    clients: Vec<ClientState>,
    left: usize,
    /// What is to be done at the end, last first.
    last_look: Vec<Action>,
    /// Whether the end has begun.
    finishing: bool,
    pending: BTreeMap<RequestId, usize>,
    next_tag: u32,
}

struct ClientState {
    slot: Slot,
    next_at: Instant,
    doing: Option<Doing>,
    dirs: BTreeSet<u64>,
    files: BTreeSet<u64>,
}

/// What a client is at.
struct Doing {
    number: usize,
    action: Action,
    stage: Stage,
    /// Names so far.
    names: BTreeSet<String>,
    /// What is asked next, and when: data lie in the client's buffer for a while before they are synced.
    later: Option<(Instant, FsRequest)>,
}

/// Which request is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// The only one, or the first.
    First,
    /// Data of an open file, or entries of an open directory.
    Data(Fh),
    /// An fsync.
    Sync(Fh),
    /// A close after the answer was recorded.
    Closing,
}

impl FileLoad {
    /// `calls` calls by these clients.
    pub fn new(rng: Rng, clients: &[Slot], calls: usize, now: Instant) -> Self {
        let state = |slot: &Slot| ClientState {
            slot: *slot,
            next_at: now,
            doing: None,
            dirs: BTreeSet::from([ROOT]),
            files: BTreeSet::new(),
        };
        Self {
            history: History::default(),
            rng,
            clients: clients.iter().map(state).collect(),
            left: calls,
            last_look: Vec::new(),
            finishing: false,
            pending: BTreeMap::new(),
            next_tag: 0,
        }
    }

    fn draw(&mut self, client: usize) -> Action {
        let rng = &mut self.rng;
        let state = &self.clients[client];
        let dirs: Vec<u64> = state.dirs.iter().copied().collect();
        let files: Vec<u64> = state.files.iter().copied().collect();
        let dir = *rng.pick(&dirs);
        let file_name = |rng: &mut Rng| ["a", "b", "c", "d"][rng.below(4) as usize].to_owned();
        let dir_name = |rng: &mut Rng| ["x", "y"][rng.below(2) as usize].to_owned();
        let kind = rng.below(100);
        match kind {
            0..12 => Action::Lookup(dir, file_name(rng)),
            12..20 => Action::Lookup(ROOT, dir_name(rng)),
            20..38 => Action::Create(dir, file_name(rng)),
            38..44 => Action::Mkdir(ROOT, dir_name(rng)),
            44..52 => Action::Unlink(dir, file_name(rng)),
            52..54 => Action::Rmdir(ROOT, dir_name(rng)),
            54..66 => {
                let to = *rng.pick(&dirs);
                Action::Rename(dir, file_name(rng), to, file_name(rng))
            }
            66..74 => Action::List(dir),
            _ if files.is_empty() => Action::Create(dir, file_name(rng)),
            74..78 => Action::Link(*rng.pick(&files), dir, file_name(rng)),
            78..90 => {
                self.next_tag += 1;
                Action::Write(*rng.pick(&files), self.next_tag)
            }
            _ => Action::Read(*rng.pick(&files)),
        }
    }

    fn begin(&mut self, world: &mut ClientWorld, client: usize, action: Action) {
        let number = self.history.called(client, action.clone());
        let request = first_request(&action);
        self.clients[client].doing =
            Some(Doing { number, action, stage: Stage::First, names: BTreeSet::new(), later: None });
        self.ask(world, client, request);
    }

    fn ask(&mut self, world: &mut ClientWorld, client: usize, request: FsRequest) {
        let slot = self.clients[client].slot;
        let id = world.request(slot, Request::Fs(Caller::default(), request));
        self.pending.insert(id, client);
    }

    /// The call has its answer.
    fn record(&mut self, client: usize, answer: Answer) {
        let doing = self.clients[client].doing.as_ref().expect("an answer to something");
        let number = doing.number;
        self.history.returned(number, answer);
    }

    /// A request of what the client is at was answered: the next one, or the end.
    fn advance(&mut self, world: &mut ClientWorld, client: usize, reply: &Reply) {
        let doing = self.clients[client].doing.as_mut().expect("an answer to something");
        let (stage, action) = (doing.stage, doing.action.clone());
        let close = |fh, action: &Action| match action {
            Action::List(_) => FsRequest::Releasedir { fh },
            _ => FsRequest::Release { fh, lock_owner: 0 },
        };
        let (next_stage, request) = match (stage, reply) {
            (Stage::Closing, _) => return self.clients[client].doing = None,
            (Stage::First, Ok(FsAnswer::Opened { fh, .. })) => {
                (Stage::Data(*fh), data_request(&action, *fh, 0))
            }
            (Stage::First, Ok(FsAnswer::Created { entry, fh, .. })) => {
                self.learn(client, entry);
                self.record(client, Answer::Ino(entry.attr.ino));
                (Stage::Closing, close(*fh, &action))
            }
            (Stage::First, reply) => {
                let answer = match reply {
                    Ok(FsAnswer::Entry(entry)) => self.entry_answer(client, &action, entry),
                    Ok(_) => Answer::Done,
                    Err(Errno(errno)) => Answer::Error(*errno),
                };
                self.record(client, answer);
                return self.clients[client].doing = None;
            }
            (Stage::Data(fh), Ok(FsAnswer::Written(_))) => {
                (Stage::Sync(fh), FsRequest::Fsync { fh, data_only: false })
            }
            (Stage::Data(fh), Ok(FsAnswer::Entries(entries))) if !entries.is_empty() => {
                doing.names.extend(names_of(entries));
                let offset = entries.last().expect("seen to be there").next_offset;
                (Stage::Data(fh), data_request(&action, fh, offset))
            }
            (Stage::Data(fh), Ok(FsAnswer::Entries(_))) => {
                let names = std::mem::take(&mut doing.names);
                self.record(client, Answer::Names(names));
                (Stage::Closing, close(fh, &action))
            }
            (Stage::Data(fh), Ok(FsAnswer::Data(data))) => {
                self.record(client, Answer::Content(content(&data.to_vec())));
                (Stage::Closing, close(fh, &action))
            }
            (Stage::Data(fh) | Stage::Sync(fh), reply) => {
                // A failed write or fsync says nothing of what happened.
                let answer = if reply.is_ok() { Answer::Done } else { Answer::Error(msgs::errno::EIO) };
                self.record(client, answer);
                (Stage::Closing, close(fh, &action))
            }
        };
        let pause = if matches!(next_stage, Stage::Sync(_)) && self.rng.chance(1, 2) {
            self.rng.below(300)
        } else {
            0
        };
        let doing = self.clients[client].doing.as_mut().expect("still at it");
        doing.stage = next_stage;
        if pause > 0 {
            doing.later = Some((world.now() + Duration::from_millis(pause), request));
        } else {
            self.ask(world, client, request);
        }
    }

    fn entry_answer(&mut self, client: usize, action: &Action, entry: &Entry) -> Answer {
        self.learn(client, entry);
        match action {
            Action::Link(..) => Answer::Done,
            _ => Answer::Ino(entry.attr.ino),
        }
    }

    fn learn(&mut self, client: usize, entry: &Entry) {
        let state = &mut self.clients[client];
        let is_dir = entry.attr.mode & S_IFMT == S_IFDIR;
        if is_dir {
            state.dirs.insert(entry.attr.ino)
        } else {
            state.files.insert(entry.attr.ino)
        };
        // One that looks at everything at the end goes on into what it finds.
        if self.finishing {
            let next =
                if is_dir { everything_in(entry.attr.ino) } else { vec![Action::Read(entry.attr.ino)] };
            self.last_look.extend(next);
        }
    }
}

fn everything_in(dir: u64) -> Vec<Action> {
    let names = ["a", "b", "c", "d"].iter().map(|n| Action::Lookup(dir, (*n).to_owned()));
    names.chain([Action::List(dir)]).collect()
}

fn first_request(action: &Action) -> FsRequest {
    let bytes = |name: &String| name.clone().into_bytes();
    match action {
        Action::Lookup(dir, name) => FsRequest::Lookup { parent: *dir, name: bytes(name) },
        // Two ways to make a file: by the name, so that a replay takes the same.
        Action::Create(dir, name) if name == "a" => {
            FsRequest::Mknod { parent: *dir, name: bytes(name), mode: S_IFREG | 0o644, rdev: 0 }
        }
        Action::Create(dir, name) => FsRequest::Create {
            parent: *dir,
            name: bytes(name),
            mode: 0o644,
            flags: O_CREAT | O_EXCL | O_RDWR,
        },
        Action::Mkdir(dir, name) => FsRequest::Mkdir { parent: *dir, name: bytes(name), mode: 0o755 },
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
        Action::Write(ino, _) => FsRequest::Open { ino: *ino, flags: O_WRONLY },
        Action::Read(ino) => FsRequest::Open { ino: *ino, flags: O_RDONLY },
        Action::List(dir) => FsRequest::Opendir { ino: *dir },
    }
}

fn data_request(action: &Action, fh: Fh, offset: u64) -> FsRequest {
    match action {
        Action::Write(_, tag) => FsRequest::Write { fh, offset: 0, data: filled(*tag, 0, CONTENT).into() },
        Action::List(_) => FsRequest::Readdir { fh, offset, max_bytes: 1 << 16, plus: false },
        _ => FsRequest::Read { fh, offset: 0, len: 4096 },
    }
}

fn names_of(entries: &[fsclient::DirEntry]) -> impl Iterator<Item = String> {
    let names = entries.iter().map(|e| String::from_utf8_lossy(&e.name).into_owned());
    names.filter(|n| n != "." && n != "..")
}

/// Who wrote a file; a number that nobody has where it is no whole write of anyone.
fn content(data: &[u8]) -> Option<u32> {
    if data.is_empty() {
        return None;
    }
    let first = data.first_chunk::<4>().map_or(u32::MAX, |b| u32::from_le_bytes(*b));
    Some(if data == filled(first, 0, CONTENT) { first } else { u32::MAX })
}

impl Load for FileLoad {
    fn wants_at(&self) -> Option<Instant> {
        let later = self.clients.iter().filter_map(|c| Some(c.doing.as_ref()?.later.as_ref()?.0));
        let idle = self.clients.iter().filter(|c| c.doing.is_none()).map(|c| c.next_at);
        let more = self.left > 0 || !self.last_look.is_empty();
        later.chain(idle.filter(|_| more)).min()
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
            let think = Duration::from_nanos(self.rng.below(THINK.as_nanos() as u64) + 1);
            self.clients[client].next_at = now + think;
            if !world.is_up(self.clients[client].slot) {
                continue;
            }
            if let Some(action) = self.last_look.pop() {
                self.clients[client].next_at = now;
                self.begin(world, client, action);
            } else if self.left > 0 {
                self.left -= 1;
                let action = self.draw(client);
                self.begin(world, client, action);
            }
        }
    }

    fn answered(&mut self, world: &mut ClientWorld, _: Slot, id: RequestId, reply: &Reply) -> bool {
        let Some(client) = self.pending.remove(&id) else { return false };
        self.advance(world, client, reply);
        true
    }

    fn died(&mut self, slot: Slot) {
        self.pending.retain(|_, client| self.clients[*client].slot != slot);
        for state in self.clients.iter_mut().filter(|c| c.slot == slot) {
            state.doing = None;
            state.dirs = BTreeSet::from([ROOT]);
            state.files.clear();
        }
    }

    fn finish(&mut self, _: &ClientWorld) {
        self.left = 0;
        self.finishing = true;
        self.last_look = everything_in(ROOT);
        self.last_look.extend(["x", "y"].map(|name| Action::Lookup(ROOT, name.to_owned())));
    }

    fn in_flight(&self) -> Vec<String> {
        let doing = self.clients.iter().enumerate().filter_map(|(i, c)| c.doing.as_ref().map(|d| (i, d)));
        let doing = doing.map(|(i, d)| format!("client.{i} {:?} ({:?})", d.action, d.stage));
        doing.chain(self.last_look.iter().map(|a| format!("last look: {a:?}"))).collect()
    }

    fn answered_calls(&self) -> usize {
        self.history.answered()
    }

    fn verdict(&self) -> (&'static str, Judgement) {
        ("namespace_linearizable", self.history.check())
    }
}

//! What a client does with a directory's snapshots, request by request: `.snap` is looked up and listed, a
//! snapshot is made or removed in it as a directory, or read with all that is below.
//!
//! Inodes in a snapshot have numbers of their own, which follow from the live inode's and the snapshot's.

use super::file_requests::{S_IFDIR, S_IFLNK, S_IFMT, Task, XATTR, cells_of, number, read_of};
use crate::oracle::contents;
use crate::oracle::namespace::Answer;
use crate::oracle::shown::{Listing, Name, Seen};
use fsclient::{Answer as FsAnswer, DirEntry, Entry, Errno, Fh, FsRequest, Reply};
use maps::SnapId;
use std::collections::BTreeMap;
use stdx::Rng;

/// The highest id that a snapshot is looked for under.
const MAX_SNAP: u64 = 100_000;
const SNAPDIR: &[u8] = b".snap";

/// What a reply tells.
pub(super) enum Found {
    /// The answer to the call that the task is.
    Answered(Answer),
    /// A snapshot shows something.
    Seen(Name, Seen),
    /// A snapshot lacks something that it contains, or is not there.
    Missed(Name, String),
}

/// A request to come. Those in a snapshot name inodes by their numbers there, and then by the live ones.
enum Step {
    Snapdir,
    Make(u64),
    Remove(u64),
    OpenSnapdir(u64),
    PageOfSnapdir(Fh, u64, Vec<String>),
    /// The snapshot of a name below `.snap`.
    Snap(u64, String),
    OpenDir(u64, u64),
    Page(Fh, u64, u64, Vec<DirEntry>),
    Child {
        dir: u64,
        name: Vec<u8>,
        number: u64,
        kind: u32,
    },
    Link(u64, u64),
    Xattr(u64, u64),
    OpenFile(u64, u64),
    Read(Fh, u64, contents::Action),
    CloseDir(Fh),
    Close(Fh),
}

/// A task under way.
pub(super) struct Walk {
    task: Task,
    /// The requests to come, the next one last.
    left: Vec<Step>,
    /// The snapshot that is read, and its id.
    of: Option<(Name, SnapId)>,
    rng: Rng,
}

impl Walk {
    pub(super) fn new(task: Task, rng: Rng) -> Self {
        Self { task, left: vec![Step::Snapdir], of: None, rng }
    }

    /// The next request; `None` at the end.
    pub(super) fn request(&self) -> Option<FsRequest> {
        let new_name = || match &self.task {
            Task::Make((_, name)) | Task::Remove((_, name)) => name.clone().into_bytes(),
            _ => Vec::new(),
        };
        Some(match self.left.last()? {
            Step::Snapdir => FsRequest::Lookup { parent: self.task.dir(), name: SNAPDIR.to_vec() },
            Step::Make(snapdir) => FsRequest::Mkdir { parent: *snapdir, name: new_name(), mode: 0o755 },
            Step::Remove(snapdir) => FsRequest::Rmdir { parent: *snapdir, name: new_name() },
            Step::OpenSnapdir(number) | Step::OpenDir(number, _) => FsRequest::Opendir { ino: *number },
            Step::PageOfSnapdir(fh, offset, _) | Step::Page(fh, offset, ..) => {
                FsRequest::Readdir { fh: *fh, offset: *offset, max_bytes: 1 << 16, plus: false }
            }
            Step::Snap(snapdir, name) => {
                FsRequest::Lookup { parent: *snapdir, name: name.clone().into_bytes() }
            }
            Step::Child { dir, name, .. } => FsRequest::Lookup { parent: *dir, name: name.clone() },
            Step::Link(number, _) => FsRequest::Readlink { ino: *number },
            Step::Xattr(number, _) => FsRequest::Getxattr { ino: *number, name: XATTR.to_vec() },
            Step::OpenFile(number, _) => FsRequest::Open { ino: *number, flags: 0, kill_suidgid: false },
            Step::Read(fh, _, contents::Action::Read { offset, len }) => {
                FsRequest::Read { fh: *fh, offset: *offset, len: *len as u32 }
            }
            Step::Read(..) => unreachable!("reads read"),
            Step::CloseDir(fh) => FsRequest::Releasedir { fh: *fh },
            Step::Close(fh) => FsRequest::Release { fh: *fh, lock_owner: 0 },
        })
    }

    /// Takes the reply to the request.
    pub(super) fn take(&mut self, reply: &Reply) -> Vec<Found> {
        let Some(step) = self.left.pop() else { return Vec::new() };
        let mut found = Vec::new();
        match reply {
            Ok(answer) => self.go_on(step, answer, &mut found),
            Err(Errno::ENODATA) if matches!(step, Step::Xattr(..)) => {
                let Step::Xattr(_, live) = step else { return found };
                let none = contents::Answer::Xattr(None);
                self.see(Seen::File(live, contents::Action::GetXattr, none), &mut found);
            }
            Err(errno) => self.fail(&step, *errno, &mut found),
        }
        found
    }

    /// A request has failed: what follows is not done.
    fn fail(&mut self, step: &Step, errno: Errno, found: &mut Vec<Found>) {
        self.left.retain(|step| matches!(step, Step::CloseDir(_) | Step::Close(_)));
        let is_gone = [Errno::ENOENT, Errno::ESTALE].contains(&errno);
        match step {
            Step::Snapdir | Step::Make(_) | Step::Remove(_) | Step::OpenSnapdir(_) => {
                // Of a directory without a name no snapshot is made.
                let errno = if errno == Errno::EPERM { Errno::ENOENT } else { errno };
                found.push(Found::Answered(Answer::Error(errno)));
            }
            Step::PageOfSnapdir(..) => found.push(Found::Answered(Answer::Error(errno))),
            Step::Snap(_, name) if errno == Errno::ENOENT => {
                let what = "it is not there".to_owned();
                found.push(Found::Missed(owner(self.task.dir(), name), what));
            }
            Step::Child { name, .. } if errno == Errno::ENOENT => {
                let what = format!("{} is listed and not there", String::from_utf8_lossy(name));
                self.miss(what, found);
            }
            // At the end nothing else goes on.
            _ if is_gone && matches!(self.task, Task::Whole(_)) => {
                self.miss(format!("a part of it is not there: {errno}"), found);
            }
            _ => {}
        }
    }

    fn go_on(&mut self, step: Step, answer: &FsAnswer, found: &mut Vec<Found>) {
        match (step, answer) {
            (Step::Snapdir, FsAnswer::Entry(Entry { attr, .. })) => self.left.push(match &self.task {
                Task::Make(_) => Step::Make(attr.ino),
                Task::Remove(_) => Step::Remove(attr.ino),
                Task::Read(_) | Task::List(_) => Step::OpenSnapdir(attr.ino),
                Task::Whole((_, name)) => Step::Snap(attr.ino, name.clone()),
            }),
            (Step::Make(_) | Step::Remove(_), _) => found.push(Found::Answered(Answer::Done)),
            (Step::OpenSnapdir(snapdir), FsAnswer::Opened { fh, .. }) => {
                // What is read, is found by the number of `.snap`.
                self.left.push(Step::Snap(snapdir, String::new()));
                self.left.push(Step::CloseDir(*fh));
                self.left.push(Step::PageOfSnapdir(*fh, 0, Vec::new()));
            }
            (Step::PageOfSnapdir(fh, _, mut names), FsAnswer::Entries(page)) => match page.last() {
                Some(last) => {
                    names.extend(names_in(page).map(|entry| text(&entry.name)));
                    self.left.push(Step::PageOfSnapdir(fh, last.next_offset, names));
                }
                None => self.listed(names, found),
            },
            (Step::Snap(_, name), FsAnswer::Entry(Entry { attr, .. })) => {
                self.enter(&name, attr.ino, found);
            }
            (Step::Snap(_, name), _) => {
                found.push(Found::Missed(owner(self.task.dir(), &name), "it is not there".to_owned()));
            }
            (step, answer) => self.go_on_inside(step, answer, found),
        }
    }

    /// The names below `.snap` are known.
    fn listed(&mut self, names: Vec<String>, found: &mut Vec<Found>) {
        let dir = self.task.dir();
        let all = names.iter().map(|name| owner(dir, name)).collect();
        found.push(Found::Answered(Answer::Snaps(all)));
        let chosen = match &self.task {
            Task::Read(_) if !names.is_empty() => Some(self.rng.pick(&names).clone()),
            _ => None,
        };
        // It waits below the end of the listing.
        if let Some(Step::Snap(_, name)) = self.left.first_mut() {
            match chosen {
                Some(chosen) => *name = chosen,
                None => drop(self.left.remove(0)),
            }
        }
    }

    /// The directory's state in a snapshot is found.
    fn enter(&mut self, name: &str, number: u64, found: &mut Vec<Found>) {
        let dir = self.task.dir();
        let of = owner(dir, name);
        let is_it = |snap: &u64| fsclient::number_in_snapshot(dir, SnapId(*snap)) == number;
        match (1..MAX_SNAP).find(is_it) {
            Some(snap) => {
                self.of = Some((of, SnapId(snap)));
                self.left.push(Step::OpenDir(number, dir));
            }
            None => found.push(Found::Missed(of, format!("it leads to {number:x}"))),
        }
    }

    fn go_on_inside(&mut self, step: Step, answer: &FsAnswer, found: &mut Vec<Found>) {
        match (step, answer) {
            (Step::OpenDir(_, live), FsAnswer::Opened { fh, .. }) => {
                self.left.push(Step::CloseDir(*fh));
                self.left.push(Step::Page(*fh, 0, live, Vec::new()));
            }
            (Step::Page(fh, _, live, mut entries), FsAnswer::Entries(page)) => match page.last() {
                Some(last) => {
                    entries.extend(names_in(page).cloned());
                    self.left.push(Step::Page(fh, last.next_offset, live, entries));
                }
                None => self.dir_listed(live, entries, found),
            },
            (Step::Child { name, number, kind, .. }, FsAnswer::Entry(entry)) => {
                self.child(&name, (number, kind), entry, found);
            }
            (Step::Child { name, .. }, _) => {
                self.miss(format!("{} is listed and not there", text(&name)), found);
            }
            (Step::Link(_, live), FsAnswer::Data(data)) => {
                self.see(Seen::Link(live, number(&data.to_vec())), found);
            }
            (Step::Xattr(_, live), FsAnswer::Data(data)) => {
                let value = contents::Answer::Xattr(Some(number(&data.to_vec())));
                self.see(Seen::File(live, contents::Action::GetXattr, value), found);
            }
            (Step::OpenFile(_, live), FsAnswer::Opened { fh, .. }) => {
                self.left.push(Step::Close(*fh));
                let reads = (0..cells_of(live)).map(|cell| Step::Read(*fh, live, read_of(live, cell)));
                self.left.extend(reads);
            }
            (Step::Read(_, live, action), FsAnswer::Data(data)) => {
                self.see(Seen::File(live, action, contents::Answer::Data(data.to_vec())), found);
            }
            _ => {}
        }
    }

    fn live(&self, number: u64) -> u64 {
        self.of.as_ref().map_or(0, |(_, snap)| fsclient::inode_in_snapshot(number, *snap))
    }

    fn dir_listed(&mut self, live: u64, entries: Vec<DirEntry>, found: &mut Vec<Found>) {
        let child = |e: &DirEntry| (text(&e.name), (self.live(e.ino), e.kind & S_IFMT == S_IFDIR));
        let names: BTreeMap<_, _> =
            entries.iter().map(child).filter(|(name, _)| name != super::locks::FILE).collect();
        let Some((_, snap)) = &self.of else { return };
        let dir = fsclient::number_in_snapshot(live, *snap);
        let children = entries.into_iter().filter(|e| e.name != super::locks::FILE.as_bytes());
        let children =
            children.map(|DirEntry { ino, kind, name, .. }| Step::Child { dir, name, number: ino, kind });
        self.left.extend(children.collect::<Vec<_>>());
        self.see(Seen::Dir(live, Listing { names }), found);
    }

    /// A name leads to an inode.
    fn child(&mut self, name: &[u8], (number, kind): (u64, u32), entry: &Entry, found: &mut Vec<Found>) {
        let attr = &entry.attr;
        if (attr.ino, attr.mode & S_IFMT) != (number, kind & S_IFMT) {
            let what = format!("{} is {number:x} in a listing, and {attr:?}", text(name));
            return self.miss(what, found);
        }
        let live = self.live(number);
        let is_whole = matches!(self.task, Task::Whole(_));
        match kind & S_IFMT {
            S_IFDIR => return self.left.push(Step::OpenDir(number, live)),
            S_IFLNK => self.left.push(Step::Link(number, live)),
            _ => {
                let stat = contents::Answer::Stat(attr.size, attr.mode & !S_IFMT);
                self.see(Seen::File(live, contents::Action::Stat, stat), found);
                if is_whole || self.rng.chance(1, 2) {
                    self.left.extend([Step::OpenFile(number, live), Step::Xattr(number, live)]);
                }
            }
        }
        self.see(Seen::Count(live, attr.nlink), found);
    }

    fn see(&self, seen: Seen, found: &mut Vec<Found>) {
        found.extend(self.of.iter().map(|(of, _)| Found::Seen(of.clone(), seen.clone())));
    }

    fn miss(&self, what: String, found: &mut Vec<Found>) {
        found.extend(self.of.iter().map(|(of, _)| Found::Missed(of.clone(), what.clone())));
    }
}

/// The snapshot that a name below a directory's `.snap` stands for: its own, or as `_NAME_INODE` one of a
/// directory above.
fn owner(dir: u64, name: &str) -> Name {
    let above = name.strip_prefix('_').and_then(|rest| rest.rsplit_once('_'));
    let above = above.and_then(|(name, ino)| Some((ino.parse().ok()?, name.to_owned())));
    above.unwrap_or((dir, name.to_owned()))
}

fn names_in(page: &[DirEntry]) -> impl Iterator<Item = &DirEntry> {
    page.iter().filter(|entry| entry.name != b"." && entry.name != b"..")
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

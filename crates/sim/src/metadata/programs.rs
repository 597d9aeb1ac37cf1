//! What clients do: the workloads of the paper's section 6.2.3 and a flash crowd (section 4.4), one request
//! after another.

use fsclient::{Answer, FsRequest, Reply};
use std::collections::VecDeque;
use stdx::Rng;

/// The root of the file system.
const ROOT: u64 = 1;
const FILE: u32 = 0o100_644;
const DIRECTORY: u32 = 0o755;
const READ_ONLY: u32 = 0;
const WRITE_ONLY: u32 = 1;
/// Levels of a tree, and files and subdirectories of each directory.
const LEVELS: usize = 4;
const FANOUT: u32 = 10;
/// The directory that all share.
const SHARED: &str = "shared";
/// Files that all open again and again.
const SHARED_FILES: u32 = 10;
/// Files of a directory that a flash crowd reads, many times what a client keeps.
const CROWD_FILES: u32 = 1000;
/// Files of a shared directory of headers, those that one unit of a compilation reads, and the sources that
/// it reads in its private directory.
const HEADERS: u32 = 100;
const HEADERS_READ: u32 = 30;
const SOURCES_READ: u32 = 3;
/// Libraries, and those that one unit of a compilation reads.
const LIBRARIES: u32 = 20;
const LIBRARIES_READ: u32 = 3;
/// Directories in which a client makes and removes files.
const CHURNED: u32 = 8;
/// Files of a client's private directory before it begins.
const SOURCES: u32 = 40;

/// A workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workload {
    /// Each client makes trees of directories, four levels deep, with ten files and ten subdirectories in
    /// each.
    MakeDirs,
    /// All clients make files in one directory.
    MakeFiles,
    /// All clients open and close the same ten files.
    OpenShared,
    /// Each client compiles in a directory of its own, with headers that all share.
    OpensshInclude,
    /// Each client compiles in a directory of its own, with libraries that all share.
    OpensshLib,
    /// All clients begin to open files in one directory at the same time. Not one of the paper's figures.
    FlashCrowd,
    /// Each client makes and removes files in directories of its own ([`super::shifts`]).
    Churn,
}

impl Workload {
    /// All of them, in the paper's order.
    pub const ALL: [Self; 6] = [
        Self::MakeDirs,
        Self::MakeFiles,
        Self::OpenShared,
        Self::OpensshInclude,
        Self::OpensshLib,
        Self::FlashCrowd,
    ];

    /// Its name, the paper's where it has one.
    pub fn name(self) -> &'static str {
        match self {
            Self::MakeDirs => "makedirs",
            Self::MakeFiles => "makefiles",
            Self::OpenShared => "openshared",
            Self::OpensshInclude => "openssh+include",
            Self::OpensshLib => "openssh+lib",
            Self::FlashCrowd => "flashcrowd",
            Self::Churn => "churn",
        }
    }

    /// Files that have to exist in the directory that all share.
    pub(super) fn shared_files(self) -> u32 {
        match self {
            Self::MakeDirs | Self::MakeFiles | Self::Churn => 0,
            Self::OpenShared => SHARED_FILES,
            Self::OpensshInclude => HEADERS,
            Self::OpensshLib => LIBRARIES,
            Self::FlashCrowd => CROWD_FILES,
        }
    }

    /// True if all that clients do is in a directory that all share.
    pub(super) fn is_in_one_directory(self) -> bool {
        matches!(self, Self::MakeFiles | Self::FlashCrowd)
    }

    fn has_private_dir(self) -> bool {
        !matches!(self, Self::MakeFiles | Self::OpenShared | Self::FlashCrowd)
    }

    fn is_compilation(self) -> bool {
        matches!(self, Self::OpensshInclude | Self::OpensshLib)
    }
}

/// A request of a client, by names: what it needs to know of them is asked for first.
enum Step {
    MakeFile(u64, String),
    MakeDir(u64, String),
    /// Opens and closes a file.
    Read(u64, String),
    /// Makes a file, and closes it.
    Write(u64, String),
    Release(u64),
    Open(u64),
    Remove(u64, String),
}

/// What the answer to a client's request is for.
#[derive(Clone, Copy)]
enum Awaits {
    Shared,
    Private,
    /// A directory of a tree.
    Dir,
    /// A file that it does not use.
    File,
    /// A file to be opened.
    Opens,
    /// An open file.
    Opened(u64),
    Nothing,
}

/// What one client does next.
pub(super) struct Program {
    workload: Workload,
    client: u32,
    rng: Rng,
    shared: u64,
    private: u64,
    /// Directories of a tree, from its root on, each with the number of files and directories made in it.
    tree: Vec<(u64, u32)>,
    made: u32,
    steps: VecDeque<Step>,
    awaits: Awaits,
    /// Inodes that are not used any more.
    unused: Vec<u64>,
}

/// Requests that make what all share.
pub(super) fn shared_dir() -> FsRequest {
    FsRequest::Mkdir { parent: ROOT, name: SHARED.into(), mode: DIRECTORY }
}

/// A file in the directory that all share.
pub(super) fn shared_file(dir: u64, number: u32) -> FsRequest {
    FsRequest::Mknod { parent: dir, name: shared_name(number).into(), mode: FILE, rdev: 0 }
}

fn shared_name(number: u32) -> String {
    format!("s{number}")
}

impl Program {
    pub fn new(workload: Workload, client: u32, rng: Rng) -> Self {
        Self {
            workload,
            client,
            rng,
            shared: 0,
            private: 0,
            tree: Vec::new(),
            made: 0,
            steps: VecDeque::new(),
            awaits: Awaits::Nothing,
            unused: Vec::new(),
        }
    }

    /// The first request.
    pub fn first(&mut self) -> FsRequest {
        if self.workload.has_private_dir() {
            self.awaits = Awaits::Private;
            return FsRequest::Mkdir {
                parent: ROOT,
                name: format!("c{}", self.client).into(),
                mode: DIRECTORY,
            };
        }
        self.look_up_shared()
    }

    fn look_up_shared(&mut self) -> FsRequest {
        self.awaits = Awaits::Shared;
        FsRequest::Lookup { parent: ROOT, name: SHARED.into() }
    }

    /// The request after an answer; an error if that is not what it should be.
    pub fn next(&mut self, answer: Reply) -> Result<FsRequest, String> {
        let found = match &answer {
            Ok(Answer::Entry(entry) | Answer::Created { entry, .. }) => entry.attr.ino,
            Ok(Answer::Opened { .. } | Answer::Done) => 0,
            other => return Err(format!("client {} got {other:?}", self.client)),
        };
        match std::mem::replace(&mut self.awaits, Awaits::Nothing) {
            Awaits::Private => {
                self.private = found;
                if self.workload.is_compilation() {
                    let sources = (0..SOURCES).map(|n| Step::MakeFile(found, format!("source{n}.c")));
                    self.steps.extend(sources);
                    return Ok(self.look_up_shared());
                }
                if self.workload == Workload::Churn {
                    self.steps.extend((0..CHURNED).map(|n| Step::MakeDir(found, format!("dir{n}"))));
                }
            }
            Awaits::Shared => self.shared = found,
            Awaits::Dir => self.tree.push((found, 0)),
            Awaits::File => self.unused.push(found),
            Awaits::Opens => {
                self.steps.push_front(Step::Open(found));
                self.unused.push(found);
            }
            Awaits::Opened(ino) => {
                let (Ok(Answer::Opened { fh, .. }) | Ok(Answer::Created { fh, .. })) = answer else {
                    return Err(format!("client {} did not open {ino:x}: {answer:?}", self.client));
                };
                self.steps.push_front(Step::Release(fh));
                self.unused.extend((found != 0).then_some(found));
            }
            Awaits::Nothing => {}
        }
        Ok(self.request())
    }

    /// A number below `bound`.
    pub fn draw(&mut self, bound: u64) -> u64 {
        self.rng.below(bound.max(1))
    }

    /// Takes the inodes that are not used any more.
    pub fn take_unused(&mut self) -> Vec<u64> {
        match self.steps.front() {
            Some(Step::Open(_) | Step::Release(_)) => Vec::new(),
            _ => std::mem::take(&mut self.unused),
        }
    }

    fn request(&mut self) -> FsRequest {
        while self.steps.is_empty() {
            match self.workload {
                Workload::MakeDirs => self.go_on_with_tree(),
                Workload::MakeFiles => {
                    let name = format!("f{}.{}", self.client, self.made);
                    self.steps.push_back(Step::MakeFile(self.shared, name));
                }
                Workload::OpenShared => {
                    let name = shared_name(self.made % SHARED_FILES);
                    self.steps.push_back(Step::Read(self.shared, name));
                }
                Workload::FlashCrowd => {
                    let file = self.rng.below(u64::from(CROWD_FILES)) as u32;
                    self.steps.push_back(Step::Read(self.shared, shared_name(file)));
                }
                Workload::Churn => {
                    let dir = self.tree[self.rng.below(self.tree.len() as u64) as usize].0;
                    let name = format!("f{}", self.made);
                    self.steps.extend([Step::MakeFile(dir, name.clone()), Step::Remove(dir, name)]);
                }
                Workload::OpensshInclude => self.compile(HEADERS, HEADERS_READ),
                Workload::OpensshLib => self.compile(LIBRARIES, LIBRARIES_READ),
            }
            self.made += 1;
        }
        let step = self.steps.pop_front().expect("just seen");
        let (request, awaits) = match step {
            Step::MakeFile(parent, name) => {
                (FsRequest::Mknod { parent, name: name.into(), mode: FILE, rdev: 0 }, Awaits::File)
            }
            Step::MakeDir(parent, name) => {
                (FsRequest::Mkdir { parent, name: name.into(), mode: DIRECTORY }, Awaits::Dir)
            }
            Step::Read(parent, name) => (FsRequest::Lookup { parent, name: name.into() }, Awaits::Opens),
            Step::Open(ino) => {
                (FsRequest::Open { ino, flags: READ_ONLY, kill_suidgid: false }, Awaits::Opened(ino))
            }
            Step::Write(parent, name) => {
                let flags = WRITE_ONLY;
                (FsRequest::Create { parent, name: name.into(), mode: FILE, flags }, Awaits::Opened(0))
            }
            Step::Remove(parent, name) => (FsRequest::Unlink { parent, name: name.into() }, Awaits::Nothing),
            Step::Release(fh) => (FsRequest::Release { fh, lock_owner: 0 }, Awaits::Nothing),
        };
        self.awaits = awaits;
        request
    }

    /// The next file or directory of a tree, depth first; after the last one, the next tree.
    fn go_on_with_tree(&mut self) {
        let depth = self.tree.len();
        let Some((dir, made)) = self.tree.last_mut() else {
            let name = format!("tree{}", self.made);
            return self.steps.push_back(Step::MakeDir(self.private, name));
        };
        let most = if depth == LEVELS { FANOUT } else { 2 * FANOUT };
        let step = match *made {
            n if n == most => {
                self.unused.push(*dir);
                self.tree.pop();
                return;
            }
            n if n < FANOUT => Step::MakeFile(*dir, format!("file{n}")),
            n => Step::MakeDir(*dir, format!("dir{n}")),
        };
        *made += 1;
        self.steps.push_back(step);
    }

    /// One unit of a compilation: it reads a source and others beside it, and shared files; it writes an
    /// object.
    fn compile(&mut self, of: u32, shared: u32) {
        for _ in 0..SOURCES_READ {
            let source = self.rng.below(u64::from(SOURCES));
            self.steps.push_back(Step::Read(self.private, format!("source{source}.c")));
        }
        for _ in 0..shared {
            let file = self.rng.below(u64::from(of)) as u32;
            self.steps.push_back(Step::Read(self.shared, shared_name(file)));
        }
        self.steps.push_back(Step::Write(self.private, format!("unit{}.o", self.made)));
    }
}

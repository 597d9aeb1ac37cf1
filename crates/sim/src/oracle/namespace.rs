//! Checker `namespace_linearizable`: a file system's name space is one tree that all clients see alike. An
//! acknowledged create, rename, link or unlink is visible to everyone once it is, and survives crashes of the
//! metadata server if its client syncs or lives (the paper's section 3.3; docs/design.md, decisions 8 and 9).
//! What a client did since it last synced may be lost with it: it may or may not have happened, but nothing
//! is lost from the middle.
//!
//! A server that was restarted may go on without a client, which repeats what it had not synced when it comes
//! late (docs/adr/0014-early-replies.md). Until then nobody else sees that, so it may have happened at any
//! moment from its call until the client's next sync, in its order; if that sync fails, a suffix is lost.
//!
//! Inodes are told apart by number, so a rename in between does not matter. The content of files is another
//! checker's business ([`super::contents`]): linearizability is local, and short histories are decided.

use super::linear::{Entry, Judgement, Model, Step};
use super::shown::Shown;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;
use wire::Errno;

/// The root's inode number.
pub const ROOT: u64 = 1;

/// A client's operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Find a name.
    Lookup(u64, String),
    /// Create a file exclusively.
    Create(u64, String),
    /// Open a file; create it if it does not exist.
    OpenOrCreate(u64, String),
    /// Make a directory.
    Mkdir(u64, String),
    /// Make a symbolic link to a number.
    Symlink(u64, String, u32),
    /// Read the target of a symbolic link.
    Readlink(u64),
    /// Remove a name of something that is no directory.
    Unlink(u64, String),
    /// Remove a directory.
    Rmdir(u64, String),
    /// Rename, replacing an existing entry of the new name.
    Rename(u64, String, u64, String),
    /// One more name for a file.
    Link(u64, u64, String),
    /// All names of a directory, at one moment.
    List(u64),
    /// Number of names of a file.
    Nlink(u64),
    /// Anything else that found an inode gone.
    Use(u64),
    /// Make a snapshot of a directory, which was seen to contain this.
    Snap(u64, String, Rc<Shown>),
    /// Remove a snapshot.
    Unsnap(u64, String),
    /// All snapshots of a directory, those of directories above included.
    Snaps(u64),
}

impl Action {
    /// The directory that a change is in, or the inode that another operation is about.
    fn dir(&self) -> u64 {
        match self {
            Self::Lookup(dir, _)
            | Self::Create(dir, _)
            | Self::OpenOrCreate(dir, _)
            | Self::Mkdir(dir, _)
            | Self::Symlink(dir, ..)
            | Self::Readlink(dir)
            | Self::Unlink(dir, _)
            | Self::Rmdir(dir, _)
            | Self::Rename(dir, ..)
            | Self::Link(_, dir, _)
            | Self::List(dir)
            | Self::Nlink(dir)
            | Self::Use(dir)
            | Self::Snap(dir, ..)
            | Self::Unsnap(dir, _)
            | Self::Snaps(dir) => *dir,
        }
    }
}

/// Answer of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It is done.
    Done,
    /// An inode's number.
    Ino(u64),
    /// Names with their inodes.
    Names(BTreeMap<String, u64>),
    /// Target of a symbolic link.
    Target(u32),
    /// A link count.
    Count(u32),
    /// Snapshots: the directory of each, and its name there.
    Snaps(BTreeSet<(u64, String)>),
    /// An error.
    Error(Errno),
}

/// A call with its answer.
#[derive(Clone, Debug)]
pub struct Call {
    /// Number of the client.
    pub client: usize,
    /// The operation called.
    pub action: Action,
    /// The answer, if it came.
    pub answer: Option<Answer>,
    /// What the client had not synced: it happened in order, except for a suffix.
    pub chain: Option<u64>,
}

impl Call {
    /// The number of the inode that it made or opened.
    fn ino(&self) -> Option<u64> {
        match self.answer {
            Some(Answer::Ino(ino)) => Some(ino),
            _ => None,
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answer = self.answer.as_ref().map_or("no answer".to_owned(), |a| format!("{a:?}"));
        write!(f, "client.{} {:?} = {answer}", self.client, self.action)
    }
}

/// An inode: known by its number, or made by a create whose answer nobody got.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Node {
    Known(u64),
    Nameless(u32),
}

/// An inode that has a name.
#[derive(Clone, Hash, PartialEq, Eq, Debug)]
struct Inode {
    /// Number of its names.
    names: u32,
    what: What,
    /// Names of its snapshots.
    snaps: BTreeSet<String>,
}

impl Inode {
    fn new(what: What) -> Self {
        Self { names: 1, what, snaps: BTreeSet::new() }
    }
}

#[derive(Clone, Hash, PartialEq, Eq, Debug)]
enum What {
    File,
    Symlink(u32),
    Dir(BTreeMap<String, Node>),
}

/// The model of the tree.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Tree {
    inodes: BTreeMap<Node, Inode>,
}

impl Default for Tree {
    fn default() -> Self {
        let root = Inode::new(What::Dir(BTreeMap::new()));
        Self { inodes: BTreeMap::from([(Node::Known(ROOT), root)]) }
    }
}

/// Success, or all errors that are right: an operation may check its reasons in any order.
type Outcome = Result<(), Vec<Errno>>;

impl Tree {
    /// The entries of a directory that has a name.
    fn dir(&self, ino: u64) -> Result<&BTreeMap<String, Node>, Errno> {
        match self.inodes.get(&Node::Known(ino)).map(|i| &i.what) {
            Some(What::Dir(entries)) => Ok(entries),
            Some(_) => Err(Errno::ENOTDIR),
            None => Err(Errno::ENOENT),
        }
    }

    fn dir_mut(&mut self, ino: u64) -> &mut BTreeMap<String, Node> {
        match self.inodes.get_mut(&Node::Known(ino)).map(|i| &mut i.what) {
            Some(What::Dir(entries)) => entries,
            other => panic!("seen to be a directory: {other:?}"),
        }
    }

    fn find(&self, dir: u64, name: &str) -> Result<Node, Errno> {
        self.dir(dir)?.get(name).copied().ok_or(Errno::ENOENT)
    }

    fn is_dir(&self, node: Node) -> bool {
        matches!(self.inodes[&node].what, What::Dir(_))
    }

    /// Reports whether a directory is `node` or lies below it.
    fn is_below(&self, dir: u64, node: Node) -> bool {
        let mut inside = vec![node];
        while let Some(node) = inside.pop() {
            if node == Node::Known(dir) {
                return true;
            }
            if let Some(What::Dir(entries)) = self.inodes.get(&node).map(|i| &i.what) {
                inside.extend(entries.values().copied());
            }
        }
        false
    }

    /// Records the number of an inode whose create was never answered.
    fn learn(&mut self, node: Node, ino: u64) -> bool {
        let known = Node::Known(ino);
        match node {
            Node::Known(_) => node == known,
            Node::Nameless(_) if self.inodes.contains_key(&known) => false,
            Node::Nameless(_) => {
                let inode = self.inodes.remove(&node).expect("an inode of the tree");
                self.inodes.insert(known, inode);
                for inode in self.inodes.values_mut() {
                    if let What::Dir(entries) = &mut inode.what {
                        entries.values_mut().filter(|n| **n == node).for_each(|n| *n = known);
                    }
                }
                true
            }
        }
    }

    fn make(&mut self, dir: u64, name: &str, what: What, ino: Option<u64>) -> Outcome {
        if self.dir(dir).map_err(|e| vec![e])?.contains_key(name) {
            return Err(vec![Errno::EEXIST]);
        }
        // The first free number, so that equal trees compare equal.
        let is_free = |node: &Node| !self.inodes.contains_key(node);
        let nameless = || (0..).map(Node::Nameless).find(is_free);
        let node = ino.map(Node::Known).or_else(nameless).expect("fewer inodes than numbers");
        self.inodes.insert(node, Inode::new(what));
        self.dir_mut(dir).insert(name.to_owned(), node);
        Ok(())
    }

    fn drop_name(&mut self, dir: u64, name: &str) {
        let Some(node) = self.dir_mut(dir).remove(name) else { return };
        let inode = self.inodes.get_mut(&node).expect("an entry's inode");
        inode.names -= 1;
        if inode.names == 0 {
            self.inodes.remove(&node);
        }
    }

    /// The error that forbids removing a name, or renaming a directory or another inode over it.
    fn in_the_way(&self, node: Node, by_dir: bool) -> Option<Errno> {
        let inode = &self.inodes[&node];
        match (&inode.what, by_dir) {
            (What::Dir(_), false) => Some(Errno::EISDIR),
            (What::Dir(entries), true) => {
                (!entries.is_empty() || !inode.snaps.is_empty()).then_some(Errno::ENOTEMPTY)
            }
            (_, true) => Some(Errno::ENOTDIR),
            (_, false) => None,
        }
    }

    fn remove(&mut self, dir: u64, name: &str, wants_dir: bool) -> Outcome {
        let node = self.find(dir, name).map_err(|e| vec![e])?;
        if let Some(why) = self.in_the_way(node, wants_dir) {
            return Err(vec![why]);
        }
        self.drop_name(dir, name);
        Ok(())
    }

    fn rename(&mut self, dir: u64, name: &str, to_dir: u64, to_name: &str) -> Outcome {
        let (node, old) = (self.find(dir, name), self.find(to_dir, to_name).ok());
        let mut errors: Vec<Errno> = [node.err(), self.dir(to_dir).err()].into_iter().flatten().collect();
        if let Ok(node) = node {
            if old == Some(node) {
                return Ok(());
            }
            errors.extend((self.is_dir(node) && self.is_below(to_dir, node)).then_some(Errno::EINVAL));
            errors.extend(old.and_then(|old| self.in_the_way(old, self.is_dir(node))));
        }
        let Ok(node) = node else { return Err(errors) };
        if !errors.is_empty() {
            return Err(errors);
        }
        self.drop_name(to_dir, to_name);
        self.dir_mut(dir).remove(name);
        self.dir_mut(to_dir).insert(to_name.to_owned(), node);
        Ok(())
    }

    fn link(&mut self, ino: u64, dir: u64, name: &str) -> Outcome {
        let node = Node::Known(ino);
        let mut errors: Vec<Errno> = self.dir(dir).err().into_iter().collect();
        errors.extend((!self.inodes.contains_key(&node)).then_some(Errno::ENOENT));
        errors.extend(self.find(dir, name).is_ok().then_some(Errno::EEXIST));
        if !errors.is_empty() {
            return Err(errors);
        }
        self.inodes.get_mut(&node).expect("seen to be there").names += 1;
        self.dir_mut(dir).insert(name.to_owned(), node);
        Ok(())
    }

    fn open_or_create(&mut self, dir: u64, name: &str, ino: Option<u64>) -> Outcome {
        let Ok(node) = self.find(dir, name) else { return self.make(dir, name, What::File, ino) };
        match (&self.inodes[&node].what, ino) {
            (What::File, Some(ino)) => self.learn(node, ino).then_some(()).ok_or(Vec::new()),
            (What::File, None) => Ok(()),
            (What::Dir(_), _) => Err(vec![Errno::EISDIR, Errno::EEXIST]),
            (What::Symlink(_), _) => Err(vec![Errno::ELOOP, Errno::EEXIST]),
        }
    }

    /// Applies a call that changes the tree; `ino` is the number that a create returned.
    fn change(&mut self, action: &Action, ino: Option<u64>) -> Outcome {
        match action {
            Action::Create(dir, name) => self.make(*dir, name, What::File, ino),
            Action::OpenOrCreate(dir, name) => self.open_or_create(*dir, name, ino),
            Action::Mkdir(dir, name) => self.make(*dir, name, What::Dir(BTreeMap::new()), ino),
            Action::Symlink(dir, name, to) => self.make(*dir, name, What::Symlink(*to), ino),
            Action::Unlink(dir, name) => self.remove(*dir, name, false),
            Action::Rmdir(dir, name) => self.remove(*dir, name, true),
            Action::Rename(dir, name, to_dir, to_name) => self.rename(*dir, name, *to_dir, to_name),
            Action::Link(ino, dir, name) => self.link(*ino, *dir, name),
            Action::Lookup(dir, name) => self.find(*dir, name).map(|_| ()).map_err(|e| vec![e]),
            Action::Snap(dir, name, shown) => self.snap(*dir, name, shown),
            Action::Unsnap(dir, name) => self.unsnap(*dir, name),
            Action::Readlink(_) | Action::List(_) | Action::Nlink(_) => Ok(()),
            Action::Use(_) | Action::Snaps(_) => Ok(()),
        }
    }

    fn snaps_mut(&mut self, dir: u64) -> Result<&mut BTreeSet<String>, Errno> {
        self.dir(dir)?;
        let inode = self.inodes.get_mut(&Node::Known(dir)).ok_or(Errno::ENOENT)?;
        Ok(&mut inode.snaps)
    }

    fn snap(&mut self, dir: u64, name: &str, shown: &Shown) -> Outcome {
        if !self.snaps_mut(dir).map_err(|e| vec![e])?.insert(name.to_owned()) {
            return Err(vec![Errno::EEXIST]);
        }
        if self.is_shown(dir, shown) { Ok(()) } else { Err(Vec::new()) }
    }

    fn unsnap(&mut self, dir: u64, name: &str) -> Outcome {
        let removed = self.snaps_mut(dir).map_err(|e| vec![e])?.remove(name);
        if removed { Ok(()) } else { Err(vec![Errno::ENOENT]) }
    }

    /// Reports whether a snapshot that is taken now of a directory shows this.
    fn is_shown(&mut self, top: u64, shown: &Shown) -> bool {
        let mut left = vec![top];
        while let Some(dir) = left.pop() {
            let Some(seen) = shown.dirs.get(&dir) else { continue };
            if self.dir(dir).is_err() || !self.lists(dir, &seen.numbers()) {
                return false;
            }
            let is_dir = |(ino, kind): &(u64, bool)| self.is_dir(Node::Known(*ino)) == *kind;
            if !seen.names.values().all(is_dir) {
                return false;
            }
            left.extend(seen.names.values().filter(|(_, is_dir)| *is_dir).map(|(ino, _)| *ino));
        }
        let inode = |ino: &u64| self.inodes.get(&Node::Known(*ino));
        shown.links.iter().all(|(ino, to)| inode(ino).is_some_and(|i| i.what == What::Symlink(*to)))
            && shown.counts.iter().all(|(ino, count)| inode(ino).is_some_and(|i| i.names == *count))
    }

    /// Reports whether these are the snapshots of a directory. Those of directories above are anywhere.
    fn lists_snaps(&self, dir: u64, seen: &BTreeSet<(u64, String)>) -> bool {
        let snaps = |dir: u64| self.inodes.get(&Node::Known(dir)).map(|inode| &inode.snaps);
        let own: BTreeSet<&String> = seen.iter().filter(|(of, _)| *of == dir).map(|(_, name)| name).collect();
        // A directory without a name still shows the snapshots that contain it.
        own == snaps(dir).into_iter().flatten().collect()
            && seen.iter().all(|(of, name)| snaps(*of).is_some_and(|there| there.contains(name)))
    }

    /// Reports whether an error may mean that an inode or directory is gone since it was looked up.
    fn may_be_stale(&self, action: &Action, errno: Errno) -> bool {
        let gone = |ino: u64| !self.inodes.contains_key(&Node::Known(ino));
        let stale = match action {
            Action::Lookup(dir, _) | Action::Create(dir, _) | Action::OpenOrCreate(dir, _) => gone(*dir),
            Action::Mkdir(dir, _) | Action::Symlink(dir, ..) | Action::List(dir) => gone(*dir),
            Action::Snap(dir, ..) | Action::Unsnap(dir, _) | Action::Snaps(dir) => gone(*dir),
            Action::Unlink(dir, _) | Action::Rmdir(dir, _) => gone(*dir),
            Action::Rename(dir, _, to, _) => gone(*dir) || gone(*to),
            Action::Link(ino, dir, _) => gone(*ino) || gone(*dir),
            Action::Readlink(ino) | Action::Nlink(ino) | Action::Use(ino) => gone(*ino),
        };
        stale && [Errno::ENOENT, Errno::ESTALE].contains(&errno)
    }

    fn lists(&mut self, dir: u64, names: &BTreeMap<String, u64>) -> bool {
        // A removed directory that is still open is empty.
        let Ok(entries) = self.dir(dir) else { return names.is_empty() };
        let pairs: Vec<(Node, u64)> = entries.values().copied().zip(names.values().copied()).collect();
        entries.keys().eq(names.keys()) && pairs.into_iter().all(|(node, ino)| self.learn(node, ino))
    }

    /// The tree after a call; `None` if its answer is wrong.
    fn answered(&self, call: &Call) -> Option<Self> {
        let answer = call.answer.as_ref()?;
        if let Answer::Error(errno) = answer
            && self.may_be_stale(&call.action, *errno)
        {
            return Some(self.clone());
        }
        let mut next = self.clone();
        let inode = |ino: &u64| self.inodes.get(&Node::Known(*ino));
        let right = match (&call.action, answer) {
            (Action::Lookup(dir, name), Answer::Ino(ino)) => next.learn(self.find(*dir, name).ok()?, *ino),
            (Action::List(dir), Answer::Names(names)) => next.lists(*dir, names),
            (Action::Snaps(dir), Answer::Snaps(seen)) => self.lists_snaps(*dir, seen),
            (Action::Nlink(ino), Answer::Count(count)) => inode(ino).map_or(0, |i| i.names) == *count,
            // An open inode without a name still answers.
            (Action::Readlink(ino), Answer::Target(to)) => {
                inode(ino).is_none_or(|i| i.what == What::Symlink(*to))
            }
            (Action::OpenOrCreate(dir, name), Answer::Ino(ino)) if self.find(*dir, name).is_ok() => {
                next.change(&call.action, Some(*ino)).is_ok()
            }
            (_, Answer::Ino(ino)) => inode(ino).is_none() && next.change(&call.action, Some(*ino)).is_ok(),
            (action, Answer::Done) => next.change(action, None).is_ok(),
            (action, Answer::Error(errno)) => {
                next.change(action, None).is_err_and(|errors| errors.contains(errno))
            }
            _ => false,
        };
        right.then_some(next)
    }

    /// The tree after a call that may have happened; `None` if it can't have.
    fn unanswered(&self, call: &Call) -> Option<Self> {
        // A create that is repeated gives the same number.
        let ino = call.ino();
        let is_open =
            matches!(&call.action, Action::OpenOrCreate(dir, name) if self.find(*dir, name).is_ok());
        if ino.is_some_and(|ino| self.inodes.contains_key(&Node::Known(ino))) && !is_open {
            return None;
        }
        let mut next = self.clone();
        next.change(&call.action, ino).ok()?;
        Some(next)
    }
}

impl Model for Tree {
    type Call = Call;

    fn apply(&self, call: &Call) -> Step<Self> {
        match self.answered(call) {
            None => Step::Wrong,
            Some(next) if next == *self => Step::Same,
            Some(next) => Step::To(next),
        }
    }

    fn apply_unknown(&self, call: &Call) -> Option<Self> {
        self.unanswered(call).filter(|next| next != self)
    }

    fn chain(call: &Call) -> Option<u64> {
        call.chain
    }

    fn may_pass(&self, call: &Call) -> bool {
        self.unanswered(call).is_some_and(|next| next == *self)
    }

    fn is_read(call: &Call) -> bool {
        let action = &call.action;
        let reads =
            matches!(action, Action::Lookup(..) | Action::List(_) | Action::Nlink(_) | Action::Readlink(_))
                || matches!(action, Action::Snaps(_));
        reads || matches!(call.answer, Some(Answer::Error(_)))
    }

    fn are_alike(a: &Call, b: &Call) -> bool {
        a.action == b.action && a.ino() == b.ino()
    }
}

/// The history of one file system.
#[derive(Clone, Debug, Default)]
pub struct History {
    calls: Vec<Entry<Call>>,
    moment: u64,
    /// Each client's answered calls since it last synced.
    unsynced: BTreeMap<usize, Unsynced>,
    /// Observations that may rest on changes which were lost, or came late.
    dropped: BTreeSet<usize>,
    /// Several ranks serve the name space: each may lose a suffix of what was done in its directories.
    has_ranks: bool,
}

/// A client's answered calls since it last synced.
#[derive(Clone, Debug, Default)]
struct Unsynced {
    /// Their numbers, in runs: of each run a suffix may be lost.
    runs: Vec<Vec<usize>>,
    /// A server has gone on without the client, which has not come back yet.
    is_missing: bool,
}

impl Unsynced {
    fn add(&mut self, number: usize) {
        match self.runs.last_mut() {
            Some(run) => run.push(number),
            None => self.runs.push(vec![number]),
        }
    }
}

/// Errors that tell the outcome: the operation has not happened.
const DEFINITE: [Errno; 8] = [
    Errno::ENOENT,
    Errno::EEXIST,
    Errno::EINVAL,
    Errno::EISDIR,
    Errno::ELOOP,
    Errno::ENOTDIR,
    Errno::ENOTEMPTY,
    Errno::ESTALE,
];

/// Reports whether an answer tells the outcome. Any other error leaves it unknown.
fn is_definite(answer: &Answer) -> bool {
    match answer {
        Answer::Error(errno) => DEFINITE.contains(errno),
        _ => true,
    }
}

impl History {
    /// The history of a file system that several ranks may serve.
    pub fn of_ranks(has_ranks: bool) -> Self {
        Self { has_ranks, ..Self::default() }
    }

    /// The present time, for [`Self::found`].
    pub fn moment(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    /// Records a call. Returns its number, for [`Self::returned`].
    pub fn called(&mut self, client: usize, action: Action) -> usize {
        let call = self.moment();
        let what = Call { client, action, answer: None, chain: None };
        self.calls.push(Entry { call, ret: None, what });
        self.calls.len() - 1
    }

    /// Records the answer to a call.
    pub fn returned(&mut self, number: usize, answer: Answer) {
        let ret = self.moment();
        let entry = &mut self.calls[number];
        entry.ret = is_definite(&answer).then_some(ret);
        entry.what.answer = Some(answer);
        let client = entry.what.client;
        self.answered_to(client, number);
    }

    /// What a snapshot that a call made was seen to contain.
    pub fn show(&mut self, number: usize, seen: &Rc<Shown>) {
        if let Action::Snap(_, _, shown) = &mut self.calls[number].what.action {
            *shown = Rc::clone(seen);
        }
    }

    /// The answer to a call says nothing: it was refused for a reason that this checker does not know, and
    /// has not happened.
    pub fn ignore(&mut self, number: usize) {
        self.dropped.insert(number);
    }

    /// Records an observation made at a time by a call that is not an [`Action`].
    pub fn found(&mut self, client: usize, call: u64, action: Action, answer: Answer) {
        let ret = Some(self.moment());
        let what = Call { client, action, answer: Some(answer), chain: None };
        self.calls.push(Entry { call, ret, what });
        self.answered_to(client, self.calls.len() - 1);
    }

    fn answered_to(&mut self, client: usize, number: usize) {
        let unsynced = self.unsynced.entry(client).or_default();
        unsynced.add(number);
        if unsynced.is_missing {
            self.doubt(&[number], true);
        }
    }

    /// A client has synced: what it did before is durable.
    pub fn synced(&mut self, client: usize) {
        let now = self.moment();
        for run in self.unsynced.remove(&client).unwrap_or_default().runs {
            let changes = self.changes(&run);
            let is_late = changes.iter().any(|number| self.calls[*number].ret.is_none());
            if is_late {
                self.chain(&changes);
                changes.into_iter().for_each(|number| {
                    self.calls[number].ret.get_or_insert(now);
                });
            }
        }
    }

    /// A client has died, or was told by a sync that changes are lost: of those since it last synced, a
    /// suffix may not have happened, and what it saw since then counts for nothing.
    pub fn lost(&mut self, client: usize) {
        let runs = self.unsynced.remove(&client).unwrap_or_default().runs;
        self.doubt(&runs.concat(), false);
        for run in runs {
            let changes = self.changes(&run);
            self.chain(&changes);
        }
    }

    /// Of these changes of a client a suffix is lost; with several ranks, of those in each directory. (One in
    /// two directories counts in the first.)
    fn chain(&mut self, changes: &[usize]) {
        let mut firsts = BTreeMap::new();
        for number in changes {
            let call = &mut self.calls[*number].what;
            let part = if self.has_ranks { call.action.dir() } else { 0 };
            call.chain = Some(*firsts.entry(part).or_insert(*number) as u64);
        }
    }

    /// A server goes on without a client.
    pub fn missing(&mut self, client: usize) {
        let unsynced = self.unsynced.entry(client).or_default();
        unsynced.is_missing = true;
        let numbers = unsynced.runs.concat();
        self.doubt(&numbers, false);
    }

    /// A missing client has come back: what it sees from now on is the present.
    pub fn came_back(&mut self, client: usize) {
        self.unsynced.entry(client).or_default().is_missing = false;
    }

    /// What a client did since it last synced is lost from some point on. What it does from now on is not.
    pub fn cut(&mut self, client: usize) {
        self.unsynced.entry(client).or_default().runs.push(Vec::new());
    }

    /// Calls whose changes others may not have seen yet, or never see: what the client saw on top of them,
    /// and if it was `missing` all that it saw, counts for nothing.
    fn doubt(&mut self, numbers: &[usize], missing: bool) {
        let mut has_changed = missing;
        for number in numbers {
            let entry = &mut self.calls[*number];
            let is_read = Tree::is_read(&entry.what) && entry.ret.is_some();
            has_changed |= !is_read;
            if !is_read {
                entry.ret = None;
            } else if has_changed {
                self.dropped.insert(*number);
            }
        }
    }

    /// Those of some answered calls that have made a change.
    fn changes(&self, numbers: &[usize]) -> Vec<usize> {
        numbers.iter().copied().filter(|number| !Tree::is_read(&self.calls[*number].what)).collect()
    }

    /// The number of answered calls.
    pub fn answered(&self) -> usize {
        self.calls.iter().filter(|e| e.ret.is_some()).count()
    }

    /// The files for which somebody asked for a further name.
    pub fn linked(&self) -> BTreeSet<u64> {
        let file = |entry: &Entry<Call>| match entry.what.action {
            Action::Link(ino, ..) => Some(ino),
            _ => None,
        };
        self.calls.iter().filter_map(file).collect()
    }

    /// An inode number that two creates returned.
    fn given_twice(&self) -> Option<u64> {
        let mut given = BTreeSet::new();
        let made = self.calls.iter().filter_map(|e| match (&e.what.action, &e.what.answer) {
            (Action::Create(..) | Action::Mkdir(..) | Action::Symlink(..), Some(Answer::Ino(ino))) => {
                Some(*ino)
            }
            _ => None,
        });
        made.into_iter().find(|ino| !given.insert(*ino))
    }

    /// Checks the history. A violation lists all calls.
    pub fn check(&self) -> Judgement {
        let mut judgement = Judgement::default();
        let counts = |(number, _): &(usize, &Entry<Call>)| !self.dropped.contains(number);
        let calls: Vec<_> =
            self.calls.iter().enumerate().filter(counts).map(|(_, call)| call.clone()).collect();
        judgement.judge("names", &Tree::default(), &calls);
        if let Some(ino) = self.given_twice() {
            judgement.wrong = Some(format!("inode number {ino:x} was given to two"));
        }
        judgement
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(calls: &[(Action, Option<Answer>)]) -> History {
        let mut out = History::default();
        for (action, answer) in calls {
            let n = out.called(0, action.clone());
            if let Some(answer) = answer {
                out.returned(n, answer.clone());
            }
        }
        out
    }

    fn name(n: &str) -> String {
        n.to_owned()
    }

    #[test]
    fn a_create_that_nobody_answered_may_be_there() {
        let unknown = (Action::Create(ROOT, name("a")), None);
        let there = (Action::Lookup(ROOT, name("a")), Some(Answer::Ino(9)));
        let gone = (Action::Lookup(ROOT, name("a")), Some(Answer::Error(Errno::ENOENT)));
        assert_eq!(history(&[unknown.clone(), there.clone()]).check().wrong, None);
        assert_eq!(history(&[unknown.clone(), gone.clone(), there.clone()]).check().wrong, None);
        assert!(history(&[unknown, there, gone]).check().wrong.is_some());
    }

    #[test]
    fn what_was_not_synced_may_be_lost_with_its_client() {
        let made = (Action::Create(ROOT, name("a")), Some(Answer::Ino(9)));
        let own = (Action::Lookup(ROOT, name("a")), Some(Answer::Ino(9)));
        let gone = (Action::Lookup(ROOT, name("a")), Some(Answer::Error(Errno::ENOENT)));
        let with = |synced: bool, lost: bool, last: &(Action, Option<Answer>)| {
            let mut out = history(&[made.clone(), own.clone()]);
            if synced {
                out.synced(0);
            }
            if lost {
                out.lost(0);
            }
            let n = out.called(1, last.0.clone());
            out.returned(n, last.1.clone().expect("an answer"));
            out.check().wrong.is_none()
        };
        assert!(with(false, true, &gone) && with(false, true, &own) && with(true, true, &own));
        assert!(!with(true, true, &gone) && !with(false, false, &gone));
    }

    fn add(out: &mut History, client: usize, action: Action, answer: Answer) {
        let n = out.called(client, action);
        out.returned(n, answer);
    }

    #[test]
    fn what_was_not_synced_is_lost_from_some_point_on() {
        let seen = |a: bool, b: bool, is_cut: bool| {
            let mut out = History::default();
            add(&mut out, 0, Action::Create(ROOT, name("a")), Answer::Ino(9));
            if is_cut {
                out.cut(0);
            }
            add(&mut out, 0, Action::Create(ROOT, name("b")), Answer::Ino(10));
            out.lost(0);
            for (name, there) in [("b", b.then_some(10)), ("a", a.then_some(9))] {
                let answer = there.map_or(Answer::Error(Errno::ENOENT), Answer::Ino);
                add(&mut out, 1, Action::Lookup(ROOT, name.to_owned()), answer);
            }
            out.check().wrong.is_none()
        };
        assert!(seen(true, true, false) && seen(true, false, false) && seen(false, false, false));
        assert!(!seen(false, true, false), "nothing is lost from the middle");
        assert!(seen(false, true, true), "another session");
    }

    /// Each rank has a journal of its own.
    #[test]
    fn of_several_ranks_each_may_lose_a_suffix() {
        let seen = |has_ranks: bool, there: [bool; 3]| {
            let mut out = History::of_ranks(has_ranks);
            add(&mut out, 0, Action::Mkdir(ROOT, name("d")), Answer::Ino(5));
            out.synced(0);
            let made = [(ROOT, "a", 9), (5, "b", 10), (ROOT, "c", 11)];
            for (dir, file, ino) in made {
                add(&mut out, 0, Action::Create(dir, name(file)), Answer::Ino(ino));
            }
            out.lost(0);
            for ((dir, file, ino), there) in made.into_iter().zip(there).rev() {
                let answer = if there { Answer::Ino(ino) } else { Answer::Error(Errno::ENOENT) };
                add(&mut out, 1, Action::Lookup(dir, name(file)), answer);
            }
            out.check().wrong.is_none()
        };
        assert!(seen(true, [false, true, false]) && !seen(false, [false, true, false]));
        assert!(seen(true, [true, false, true]) && !seen(false, [true, false, true]));
        assert!(!seen(true, [false, true, true]), "nothing is lost from the middle");
    }

    /// A change that changes nothing where others went on does not hold up those after it.
    #[test]
    fn what_comes_after_a_change_without_effect_may_have_happened() {
        let mut out = History::default();
        add(&mut out, 0, Action::Create(ROOT, name("a")), Answer::Ino(9));
        out.synced(0);
        add(&mut out, 0, Action::OpenOrCreate(ROOT, name("a")), Answer::Ino(9));
        add(&mut out, 0, Action::Create(ROOT, name("b")), Answer::Ino(10));
        out.lost(0);
        add(&mut out, 1, Action::Lookup(ROOT, name("b")), Answer::Ino(10));
        assert_eq!(out.check().wrong, None);
    }

    #[test]
    fn a_late_client_repeats_what_others_have_not_seen_yet() {
        let gone = |name: &str| (Action::Lookup(ROOT, name.to_owned()), Answer::Error(Errno::ENOENT));
        let there = |name: &str, ino| (Action::Lookup(ROOT, name.to_owned()), Answer::Ino(ino));
        // What another sees while the client is missing, and after it has synced.
        let judge = |missing: bool, between: &[(Action, Answer)], after: &[(Action, Answer)]| {
            let mut out = History::default();
            add(&mut out, 0, gone("a").0, gone("a").1);
            add(&mut out, 0, Action::Create(ROOT, name("a")), Answer::Ino(9));
            add(&mut out, 0, Action::Create(ROOT, name("b")), Answer::Ino(10));
            add(&mut out, 0, there("a", 9).0, there("a", 9).1);
            if missing {
                out.missing(0);
                add(&mut out, 0, there("b", 10).0, there("b", 10).1);
            }
            between.iter().for_each(|(action, answer)| add(&mut out, 1, action.clone(), answer.clone()));
            out.came_back(0);
            add(&mut out, 0, there("a", 9).0, there("a", 9).1);
            out.synced(0);
            after.iter().for_each(|(action, answer)| add(&mut out, 1, action.clone(), answer.clone()));
            out.check().wrong.is_none()
        };
        let both = [there("a", 9), there("b", 10)];
        assert!(judge(true, &[gone("b"), gone("a")], &both));
        assert!(judge(true, &[there("a", 9), gone("b")], &both));
        assert!(!judge(false, &[gone("b")], &both), "it was there");
        assert!(!judge(true, &[there("b", 10), gone("a")], &both), "not in order");
        assert!(!judge(true, &[], &[gone("b")]), "it has synced");
        assert!(!judge(true, &[there("a", 9), gone("a")], &both), "seen and gone again");
    }

    #[test]
    fn a_rename_moves_and_replaces() {
        let calls = [
            (Action::Create(ROOT, name("a")), Some(Answer::Ino(9))),
            (Action::Create(ROOT, name("b")), Some(Answer::Ino(10))),
            (Action::Rename(ROOT, name("a"), ROOT, name("b")), Some(Answer::Done)),
            (Action::List(ROOT), Some(Answer::Names([(name("b"), 9)].into()))),
            (Action::Lookup(ROOT, name("b")), Some(Answer::Ino(9))),
            (Action::Nlink(10), Some(Answer::Count(0))),
        ];
        assert_eq!(history(&calls).check().wrong, None);
        let mut wrong = calls.to_vec();
        wrong[4].1 = Some(Answer::Ino(10));
        assert!(history(&wrong).check().wrong.is_some());
    }

    #[test]
    fn a_directory_does_not_move_below_itself_nor_over_what_is_not_empty() {
        let error = |e| Some(Answer::Error(e));
        let calls = [
            (Action::Mkdir(ROOT, name("x")), Some(Answer::Ino(9))),
            (Action::Mkdir(9, name("y")), Some(Answer::Ino(10))),
            (Action::Rename(ROOT, name("x"), 10, name("x")), error(Errno::EINVAL)),
            (Action::Rename(9, name("y"), ROOT, name("x")), error(Errno::ENOTEMPTY)),
            (Action::Rename(9, name("y"), ROOT, name("y")), Some(Answer::Done)),
            (Action::Rename(ROOT, name("y"), ROOT, name("x")), Some(Answer::Done)),
            (Action::Create(9, name("a")), error(Errno::ENOENT)),
            (Action::List(ROOT), Some(Answer::Names([(name("x"), 10)].into()))),
        ];
        assert_eq!(history(&calls).check().wrong, None);
        let mut wrong = calls.to_vec();
        wrong[6].1 = Some(Answer::Ino(11));
        assert!(history(&wrong).check().wrong.is_some(), "nothing is made in what is removed");
    }

    #[test]
    fn names_are_counted() {
        let calls = [
            (Action::OpenOrCreate(ROOT, name("a")), Some(Answer::Ino(9))),
            (Action::OpenOrCreate(ROOT, name("a")), Some(Answer::Ino(9))),
            (Action::Link(9, ROOT, name("b")), Some(Answer::Done)),
            (Action::Nlink(9), Some(Answer::Count(2))),
            (Action::Unlink(ROOT, name("a")), Some(Answer::Done)),
            (Action::Nlink(9), Some(Answer::Count(1))),
        ];
        assert_eq!(history(&calls).check().wrong, None);
        let mut wrong = calls.to_vec();
        wrong[5].1 = Some(Answer::Count(2));
        assert!(history(&wrong).check().wrong.is_some());
    }
}

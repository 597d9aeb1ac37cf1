//! Checker `namespace_linearizable`: a file system's name space is one tree that all clients see alike. An acknowledged create,
//! rename, link, unlink or fsynced write is there for everyone and survives crashes of the metadata server (the paper's
//! section 4.1; DESIGN, decisions 8 and 9).
//!
//! Directories do not nest and a file's content is one number: enough for every order of metadata operations to show.
//! Files are told apart by inode number, so that a name that moves meanwhile confuses nobody.

use super::linear::{self, Entry, Judgement, Model, Step};
use msgs::errno::{EEXIST, EISDIR, ENOENT, ENOTDIR, ENOTEMPTY, ESTALE};
use std::collections::{BTreeMap, BTreeSet};

/// The root's inode number.
pub const ROOT: u64 = 1;

/// What a client does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Find a name.
    Lookup(u64, String),
    /// Create a file exclusively.
    Create(u64, String),
    /// Make a directory.
    Mkdir(u64, String),
    /// Remove a file's name.
    Unlink(u64, String),
    /// Remove a directory.
    Rmdir(u64, String),
    /// Rename, over an existing one where there is one.
    Rename(u64, String, u64, String),
    /// One more name for a file.
    Link(u64, u64, String),
    /// Open, write a number, fsync, close.
    Write(u64, u32),
    /// Open, read, close.
    Read(u64),
    /// All names of a directory.
    List(u64),
}

/// What it was told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It is done.
    Done,
    /// An inode's number.
    Ino(u64),
    /// A file's content, `None` while it is empty.
    Content(Option<u32>),
    /// Names.
    Names(BTreeSet<String>),
    /// A positive errno.
    Error(i32),
}

/// A call with its answer.
#[derive(Clone, Debug)]
pub struct Call {
    /// Who asked.
    pub client: usize,
    /// What.
    pub action: Action,
    /// The answer, where one came.
    pub answer: Option<Answer>,
}

/// An inode: a number that somebody was told, or that of a create whose answer nobody got.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Node {
    Known(u64),
    Nameless(u32),
}

#[derive(Clone, Hash, PartialEq, Eq, Debug)]
enum Inode {
    File(Option<u32>),
    Dir(BTreeMap<String, Node>),
}

/// The tree.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Tree {
    inodes: BTreeMap<Node, Inode>,
    /// Counts creates without an answer.
    nameless: u32,
}

impl Default for Tree {
    fn default() -> Self {
        Self { inodes: BTreeMap::from([(Node::Known(ROOT), Inode::Dir(BTreeMap::new()))]), nameless: 0 }
    }
}

type Outcome = Result<(), i32>;

impl Tree {
    fn dir(&self, ino: u64) -> Result<&BTreeMap<String, Node>, i32> {
        match self.inodes.get(&Node::Known(ino)) {
            Some(Inode::Dir(entries)) => Ok(entries),
            Some(Inode::File(_)) => Err(ENOTDIR),
            None => Err(ENOENT),
        }
    }

    fn dir_mut(&mut self, ino: u64) -> &mut BTreeMap<String, Node> {
        match self.inodes.get_mut(&Node::Known(ino)) {
            Some(Inode::Dir(entries)) => entries,
            other => panic!("seen to be a directory: {other:?}"),
        }
    }

    fn find(&self, dir: u64, name: &str) -> Result<Node, i32> {
        self.dir(dir)?.get(name).copied().ok_or(ENOENT)
    }

    fn is_dir(&self, node: Node) -> bool {
        matches!(self.inodes.get(&node), Some(Inode::Dir(_)))
    }

    fn is_linked(&self, node: Node) -> bool {
        self.inodes.values().any(|i| matches!(i, Inode::Dir(entries) if entries.values().any(|n| *n == node)))
    }

    /// Somebody learns the number of an inode whose create was never answered.
    fn learn(&mut self, node: Node, ino: u64) -> bool {
        let known = Node::Known(ino);
        match node {
            Node::Known(_) => node == known,
            Node::Nameless(_) if self.inodes.contains_key(&known) => false,
            Node::Nameless(_) => {
                let inode = self.inodes.remove(&node).expect("an inode of the tree");
                self.inodes.insert(known, inode);
                for inode in self.inodes.values_mut() {
                    if let Inode::Dir(entries) = inode {
                        entries.values_mut().filter(|n| **n == node).for_each(|n| *n = known);
                    }
                }
                true
            }
        }
    }

    fn make(&mut self, dir: u64, name: &str, inode: Inode, ino: Option<u64>) -> Outcome {
        if self.dir(dir)?.contains_key(name) {
            return Err(EEXIST);
        }
        let node = ino.map_or(Node::Nameless(self.nameless), Node::Known);
        self.nameless += u32::from(ino.is_none());
        self.inodes.insert(node, inode);
        self.dir_mut(dir).insert(name.to_owned(), node);
        Ok(())
    }

    fn remove(&mut self, dir: u64, name: &str, wants_dir: bool) -> Outcome {
        let node = self.find(dir, name)?;
        match (&self.inodes[&node], wants_dir) {
            (Inode::Dir(_), false) => return Err(EISDIR),
            (Inode::File(_), true) => return Err(ENOTDIR),
            (Inode::Dir(entries), true) if !entries.is_empty() => return Err(ENOTEMPTY),
            _ => {}
        }
        self.dir_mut(dir).remove(name);
        Ok(())
    }

    fn rename(&mut self, dir: u64, name: &str, to_dir: u64, to_name: &str) -> Outcome {
        let node = self.find(dir, name)?;
        self.dir(to_dir)?;
        if let Ok(old) = self.find(to_dir, to_name) {
            if old == node {
                return Ok(());
            }
            match (&self.inodes[&old], self.is_dir(node)) {
                (Inode::Dir(_), false) => return Err(EISDIR),
                (Inode::File(_), true) => return Err(ENOTDIR),
                (Inode::Dir(entries), true) if !entries.is_empty() => return Err(ENOTEMPTY),
                _ => {}
            }
        }
        self.dir_mut(dir).remove(name);
        self.dir_mut(to_dir).insert(to_name.to_owned(), node);
        Ok(())
    }

    fn link(&mut self, ino: u64, dir: u64, name: &str) -> Outcome {
        let node = Node::Known(ino);
        if !self.inodes.contains_key(&node) || !self.is_linked(node) {
            return Err(ENOENT);
        }
        if self.dir(dir)?.contains_key(name) {
            return Err(EEXIST);
        }
        self.dir_mut(dir).insert(name.to_owned(), node);
        Ok(())
    }

    fn write(&mut self, ino: u64, value: u32) -> Outcome {
        match self.inodes.get_mut(&Node::Known(ino)) {
            Some(Inode::File(content)) => *content = Some(value),
            Some(Inode::Dir(_)) => return Err(EISDIR),
            None => return Err(ENOENT),
        }
        Ok(())
    }

    /// Changes the tree as a call that changes it does; `ino` is the number that a create gave.
    fn change(&mut self, action: &Action, ino: Option<u64>) -> Outcome {
        match action {
            Action::Create(dir, name) => self.make(*dir, name, Inode::File(None), ino),
            Action::Mkdir(dir, name) => self.make(*dir, name, Inode::Dir(BTreeMap::new()), ino),
            Action::Unlink(dir, name) => self.remove(*dir, name, false),
            Action::Rmdir(dir, name) => self.remove(*dir, name, true),
            Action::Rename(dir, name, to_dir, to_name) => self.rename(*dir, name, *to_dir, to_name),
            Action::Link(ino, dir, name) => self.link(*ino, *dir, name),
            Action::Write(ino, value) => self.write(*ino, *value),
            Action::Lookup(..) | Action::Read(_) | Action::List(_) => Ok(()),
        }
    }

    /// Whether a link fails for two reasons, of which the model looks at the other one first.
    fn is_second_reason(&self, action: &Action, errno: i32) -> bool {
        matches!(action, Action::Link(_, dir, name) if errno == EEXIST && self.find(*dir, name).is_ok())
    }

    /// Whether an error says that an inode or directory is gone that was looked up before.
    fn may_be_stale(&self, action: &Action, errno: i32) -> bool {
        let gone = |ino: u64| ino != ROOT && !self.is_linked(Node::Known(ino));
        let stale = match action {
            Action::Lookup(dir, _) | Action::Create(dir, _) | Action::Mkdir(dir, _) => gone(*dir),
            Action::Unlink(dir, _) | Action::Rmdir(dir, _) | Action::List(dir) => gone(*dir),
            Action::Rename(dir, _, to, _) => gone(*dir) || gone(*to),
            Action::Link(ino, dir, _) => gone(*ino) || gone(*dir),
            Action::Write(ino, _) | Action::Read(ino) => gone(*ino),
        };
        stale && [ENOENT, ESTALE].contains(&errno)
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
        let mut next = self.clone();
        next.change(&call.action, None).ok()?;
        (next != *self).then_some(next)
    }

    fn is_read(call: &Call) -> bool {
        let reads = matches!(call.action, Action::Lookup(..) | Action::Read(_) | Action::List(_));
        reads || matches!(call.answer, Some(Answer::Error(_)))
    }
}

impl Tree {
    fn answered(&self, call: &Call) -> Option<Self> {
        let answer = call.answer.as_ref()?;
        if let Answer::Error(errno) = answer
            && (self.may_be_stale(&call.action, *errno) || self.is_second_reason(&call.action, *errno))
        {
            return Some(self.clone());
        }
        let mut next = self.clone();
        let right = match (&call.action, answer) {
            (Action::Lookup(dir, name), Answer::Ino(ino)) => {
                let node = self.find(*dir, name).ok()?;
                next.learn(node, *ino)
            }
            (Action::Lookup(dir, name), Answer::Error(errno)) => self.find(*dir, name) == Err(*errno),
            // What is left of a file without a name goes at any time; nobody held it open.
            (Action::Read(ino), Answer::Content(_)) if !self.is_linked(Node::Known(*ino)) => true,
            (Action::Read(ino), Answer::Content(seen)) => {
                matches!(self.inodes.get(&Node::Known(*ino)), Some(Inode::File(content)) if content == seen)
            }
            (Action::List(dir), Answer::Names(names)) => {
                self.dir(*dir).is_ok_and(|entries| entries.keys().eq(names.iter()))
            }
            (Action::Create(..) | Action::Mkdir(..), Answer::Ino(ino)) => {
                let fresh = !self.inodes.contains_key(&Node::Known(*ino));
                fresh && next.change(&call.action, Some(*ino)).is_ok()
            }
            (action, Answer::Done) => next.change(action, None).is_ok(),
            (action, Answer::Error(errno)) => next.change(action, None) == Err(*errno),
            _ => false,
        };
        right.then_some(next)
    }
}

/// The history of one file system.
#[derive(Clone, Debug, Default)]
pub struct History {
    calls: Vec<Entry<Call>>,
    moment: u64,
}

/// Errors that say what happened: nothing. Any other leaves the call unknown.
fn is_definite(answer: &Answer) -> bool {
    match answer {
        Answer::Error(errno) => [ENOENT, EEXIST, EISDIR, ENOTDIR, ENOTEMPTY, ESTALE].contains(errno),
        _ => true,
    }
}

impl History {
    /// A call is made.
    pub fn called(&mut self, client: usize, action: Action) -> usize {
        self.moment += 1;
        self.calls.push(Entry { call: self.moment, ret: None, what: Call { client, action, answer: None } });
        self.calls.len() - 1
    }

    /// Its answer has come.
    pub fn returned(&mut self, number: usize, answer: Answer) {
        self.moment += 1;
        let entry = &mut self.calls[number];
        entry.ret = is_definite(&answer).then_some(self.moment);
        entry.what.answer = Some(answer);
    }

    /// What was asked by a call.
    pub fn action(&self, number: usize) -> &Action {
        &self.calls[number].what.action
    }

    /// Calls with an answer.
    pub fn answered(&self) -> usize {
        self.calls.iter().filter(|e| e.ret.is_some()).count()
    }

    /// The verdict, with all calls where it is bad.
    pub fn check(&self) -> Judgement {
        let mut judgement = Judgement::default();
        judgement.add(linear::check(&Tree::default(), &self.calls), || {
            let wrong = linear::first_wrong(&Tree::default(), &self.calls);
            let mut text = format!("no order of the operations explains the answer at {wrong}\n");
            for Entry { call, ret, what } in self.calls.iter().filter(|e| e.call <= wrong) {
                let ret = ret.map_or("-".to_owned(), |r| r.to_string());
                text.push_str(&format!(
                    "  {call}..{ret} client.{} {:?} = {:?}\n",
                    what.client, what.action, what.answer
                ));
            }
            text
        });
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
        let gone = (Action::Lookup(ROOT, name("a")), Some(Answer::Error(ENOENT)));
        assert_eq!(history(&[unknown.clone(), there.clone()]).check().wrong, None);
        assert_eq!(history(&[unknown.clone(), gone.clone(), there.clone()]).check().wrong, None);
        assert!(history(&[unknown, there, gone]).check().wrong.is_some());
    }

    #[test]
    fn a_rename_moves_and_replaces() {
        let calls = [
            (Action::Create(ROOT, name("a")), Some(Answer::Ino(9))),
            (Action::Write(9, 7), Some(Answer::Done)),
            (Action::Create(ROOT, name("b")), Some(Answer::Ino(10))),
            (Action::Rename(ROOT, name("a"), ROOT, name("b")), Some(Answer::Done)),
            (Action::List(ROOT), Some(Answer::Names([name("b")].into()))),
            (Action::Lookup(ROOT, name("b")), Some(Answer::Ino(9))),
            (Action::Read(9), Some(Answer::Content(Some(7)))),
        ];
        assert_eq!(history(&calls).check().wrong, None);
        let mut wrong = calls.to_vec();
        wrong[5].1 = Some(Answer::Ino(10));
        assert!(history(&wrong).check().wrong.is_some());
    }
}

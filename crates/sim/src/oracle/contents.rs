//! Checker `files_linearizable`: a file's bytes, size, mode and xattr are one atomic thing to every observer.
//! Data that was written and fsynced is there for everyone, also in a file without a name that is held open;
//! bytes that a truncation cut off never come back (the paper's sections 3.2 and 5.3; docs/design.md,
//! decision 8).
//!
//! Each file is a history of its own, known by its inode number, so a rename in between does not matter. The
//! name space's checker ([`super::namespace`]) decides if a file may be gone.

use super::linear::{Entry, Judgement, Model, Step};
use super::objects::{filled, runs};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use wire::Errno;

/// Size of one write in bytes; its offset is a multiple of this.
pub const CELL: u64 = 16;
/// The mode of a new file.
pub const NEW_MODE: u32 = 0o644;

/// A client's operation on a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Write a cell, then fsync.
    Write {
        /// Offset in bytes.
        offset: u64,
        /// Number of the write.
        tag: u32,
    },
    /// Write a cell at the end, then fsync.
    Append(u32),
    /// What is left of a write whose client was evicted or died before its fsync ended, if the server has
    /// heard of the size and the data are lost: zeros, at an offset or at the end.
    Zeros(Option<u64>),
    /// Set the size, a multiple of a cell.
    Truncate(u64),
    /// Read a range.
    Read {
        /// Offset in bytes.
        offset: u64,
        /// Most bytes to read.
        len: u64,
    },
    /// Set the xattr.
    SetXattr(u32),
    /// Remove the xattr.
    RemoveXattr,
    /// Get the xattr.
    GetXattr,
    /// Change the mode.
    Chmod(u32),
    /// Get size and mode.
    Stat,
    /// What a snapshot shows, which is the state of one moment.
    Parts(Vec<Action>),
}

/// Answer of a call.
#[derive(Clone, PartialEq, Eq)]
pub enum Answer {
    /// The change succeeded.
    Done,
    /// Bytes that were read.
    Data(Vec<u8>),
    /// The xattr's value; `None` if there is none, also as the answer to its removal.
    Xattr(Option<u32>),
    /// Size and mode.
    Stat(u64, u32),
    /// The answer to each part.
    Parts(Vec<Answer>),
    /// There is no such file, and nothing happened.
    Gone,
    /// A limit forbids it, and nothing happened.
    Refused,
    /// An error that leaves open if the operation happened.
    Error(Errno),
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Done => write!(f, "done"),
            Self::Data(data) => write!(f, "{} bytes {}", data.len(), runs(data)),
            Self::Xattr(value) => write!(f, "xattr {value:?}"),
            Self::Stat(size, mode) => write!(f, "{size} bytes, mode {mode:o}"),
            Self::Parts(parts) => write!(f, "{parts:?}"),
            Self::Gone => write!(f, "gone"),
            Self::Refused => write!(f, "refused"),
            Self::Error(errno) => write!(f, "{errno}"),
        }
    }
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
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answer = self.answer.as_ref().map_or("no answer".to_owned(), |a| format!("{a:?}"));
        write!(f, "client.{} {:?} = {answer}", self.client, self.action)
    }
}

/// The model of a file.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct File {
    size: u64,
    /// Number of the write of each cell; all others are zeros.
    cells: BTreeMap<u64, u32>,
    xattr: Option<u32>,
    mode: u32,
}

impl Default for File {
    fn default() -> Self {
        Self { size: 0, cells: BTreeMap::new(), xattr: None, mode: NEW_MODE }
    }
}

impl File {
    fn read(&self, offset: u64, len: u64) -> Vec<u8> {
        let end = (offset + len).min(self.size).max(offset);
        let mut out = vec![0; (end - offset) as usize];
        for (at, tag) in self.cells.range(offset..end) {
            let (from, cell) = ((at - offset) as usize, filled(*tag, 0, CELL as usize));
            let len = cell.len().min(out.len() - from);
            out[from..from + len].copy_from_slice(&cell[..len]);
        }
        out
    }

    fn write(&mut self, offset: u64, tag: u32) {
        self.cells.insert(offset, tag);
        self.size = self.size.max(offset + CELL);
    }

    fn change(&mut self, action: &Action) {
        match action {
            Action::Write { offset, tag } => self.write(*offset, *tag),
            Action::Append(tag) => self.write(self.size, *tag),
            Action::Zeros(offset) => self.size = self.size.max(offset.unwrap_or(self.size) + CELL),
            Action::Truncate(size) => {
                self.cells.retain(|at, _| at < size);
                self.size = *size;
            }
            Action::SetXattr(value) => self.xattr = Some(*value),
            Action::RemoveXattr => self.xattr = None,
            Action::Chmod(mode) => self.mode = *mode,
            Action::Read { .. } | Action::GetXattr | Action::Stat | Action::Parts(_) => {}
        }
    }

    /// Reports whether the answer to a read is right.
    fn shows(&self, action: &Action, answer: &Answer) -> bool {
        let call = Call { client: 0, action: action.clone(), answer: Some(answer.clone()) };
        Self::is_read(&call) && self.apply(&call) == Step::Same
    }

    fn changed(&self, action: &Action) -> Option<Self> {
        let mut next = self.clone();
        next.change(action);
        (next != *self).then_some(next)
    }
}

impl Model for File {
    type Call = Call;

    fn apply(&self, call: &Call) -> Step<Self> {
        let right = match (&call.action, &call.answer) {
            (_, Some(Answer::Gone | Answer::Refused)) => true,
            (Action::Read { offset, len }, Some(Answer::Data(seen))) => *seen == self.read(*offset, *len),
            (Action::GetXattr, Some(Answer::Xattr(seen))) => *seen == self.xattr,
            (Action::RemoveXattr, Some(Answer::Xattr(_))) => self.xattr.is_none(),
            (Action::RemoveXattr, Some(Answer::Done)) if self.xattr.is_none() => false,
            (Action::Parts(actions), Some(Answer::Parts(answers))) => {
                actions.iter().zip(answers).all(|(action, answer)| self.shows(action, answer))
            }
            (Action::Stat, Some(Answer::Stat(size, mode))) => (*size, *mode) == (self.size, self.mode),
            (action, Some(Answer::Done)) => return self.changed(action).map_or(Step::Same, Step::To),
            _ => false,
        };
        if right { Step::Same } else { Step::Wrong }
    }

    fn apply_unknown(&self, call: &Call) -> Option<Self> {
        self.changed(&call.action)
    }

    fn is_read(call: &Call) -> bool {
        let reads = matches!(call.action, Action::Read { .. } | Action::GetXattr | Action::Stat)
            || matches!(call.action, Action::Parts(_));
        reads || matches!(call.answer, Some(Answer::Gone | Answer::Refused | Answer::Xattr(_)))
    }

    fn are_alike(a: &Call, b: &Call) -> bool {
        a.action == b.action
    }
}

/// What may be left of a write.
fn zeros(action: &Action) -> Option<Action> {
    match action {
        Action::Write { offset, .. } => Some(Action::Zeros(Some(*offset))),
        Action::Append(_) => Some(Action::Zeros(None)),
        _ => None,
    }
}

/// The histories of all files.
#[derive(Clone, Debug, Default)]
pub struct History {
    files: BTreeMap<u64, Vec<Entry<Call>>>,
    moment: u64,
    /// Clients that hold nothing any more, and may not know it yet.
    evicted: BTreeSet<usize>,
}

impl History {
    /// The present time.
    pub fn moment(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    /// Records what a snapshot shows, which was made between two times.
    pub fn observed(
        &mut self,
        ino: u64,
        client: usize,
        (call, ret): (u64, u64),
        parts: Vec<(Action, Answer)>,
    ) {
        let (actions, answers) = parts.into_iter().unzip();
        let what = Call { client, action: Action::Parts(actions), answer: Some(Answer::Parts(answers)) };
        self.files.entry(ino).or_default().push(Entry { call, ret: Some(ret), what });
    }

    /// Records a call. Returns its number, for [`Self::returned`].
    pub fn called(&mut self, ino: u64, client: usize, action: Action) -> usize {
        self.moment += 1;
        let zeros = zeros(&action).filter(|_| self.evicted.contains(&client));
        let calls = self.files.entry(ino).or_default();
        let entry =
            |action| Entry { call: self.moment, ret: None, what: Call { client, action, answer: None } };
        calls.extend(zeros.map(entry));
        calls.push(entry(action));
        calls.len() - 1
    }

    /// Records the answer to a call.
    pub fn returned(&mut self, ino: u64, number: usize, answer: Answer) {
        let now = self.moment();
        self.returned_at(ino, number, answer, now);
    }

    /// Records the answer to a call, whose effect others could see at a time before it.
    pub fn returned_at(&mut self, ino: u64, number: usize, answer: Answer, at: u64) {
        let entry = &mut self.files.get_mut(&ino).expect("called before")[number];
        let what = Call { answer: Some(answer.clone()), ..entry.what.clone() };
        // It may come from a cache that others have written behind.
        let is_in_doubt = File::is_read(&what) && self.evicted.contains(&what.client);
        let answer = if is_in_doubt { Answer::Error(Errno::EBLOCKLISTED) } else { answer };
        entry.ret = (!matches!(answer, Answer::Error(_))).then_some(at);
        entry.what.answer = Some(answer);
    }

    /// A client is evicted: until it knows, what it reads counts for nothing.
    pub fn evicted(&mut self, client: usize) {
        self.tore_writes(client);
        self.evicted.insert(client);
    }

    /// A client has ended.
    pub fn died(&mut self, client: usize) {
        self.tore_writes(client);
        self.began_anew(client);
    }

    /// A client is gone: of what it was writing the size may be left.
    fn tore_writes(&mut self, client: usize) {
        for calls in self.files.values_mut() {
            let open = calls.iter().filter(|e| e.what.client == client && e.what.answer.is_none());
            let torn = open.filter_map(|e| Some((e.call, zeros(&e.what.action)?)));
            let torn = torn.map(|(call, action)| {
                let what = Call { client, action, answer: None };
                Entry { call, ret: None, what }
            });
            let torn: Vec<_> = torn.collect();
            calls.extend(torn);
        }
    }

    /// A client knows that it was evicted: what it reads from now on is the present.
    pub fn began_anew(&mut self, client: usize) {
        self.evicted.remove(&client);
    }

    /// The number of answered calls.
    pub fn answered(&self) -> usize {
        self.files.values().flatten().filter(|e| e.ret.is_some()).count()
    }

    /// Checks all files.
    pub fn check(&self) -> Judgement {
        let mut judgement = Judgement::default();
        for (ino, calls) in &self.files {
            judgement.judge(&format!("inode {ino:x}"), &File::default(), calls);
        }
        judgement
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(calls: &[(Action, Option<Answer>)]) -> Judgement {
        let mut out = History::default();
        for (action, answer) in calls {
            let n = out.called(7, 0, action.clone());
            if let Some(answer) = answer {
                out.returned(7, n, answer.clone());
            }
        }
        out.check()
    }

    fn read(data: &[(u32, usize)]) -> (Action, Option<Answer>) {
        let data = data.iter().flat_map(|(tag, len)| filled(*tag, 0, *len)).collect();
        (Action::Read { offset: 0, len: 4096 }, Some(Answer::Data(data)))
    }

    #[test]
    fn what_was_cut_off_does_not_come_back() {
        let done = Some(Answer::Done);
        let mut calls = vec![
            (Action::Write { offset: 16, tag: 5 }, done.clone()),
            read(&[(0, 16), (5, 16)]),
            (Action::Truncate(16), done.clone()),
            (Action::Append(6), done.clone()),
            (Action::Truncate(64), done),
            read(&[(0, 16), (6, 16), (0, 32)]),
        ];
        assert_eq!(history(&calls).wrong, None);
        calls[5] = read(&[(0, 16), (6, 16), (5, 16), (0, 16)]);
        assert!(history(&calls).wrong.is_some());
    }

    #[test]
    fn an_append_whose_answer_nobody_got_may_be_there() {
        let unknown = (Action::Append(9), Some(Answer::Error(Errno::EIO)));
        assert_eq!(history(&[unknown.clone(), read(&[]), read(&[(9, 16)])]).wrong, None);
        assert!(history(&[unknown, read(&[(9, 16)]), read(&[])]).wrong.is_some());
    }

    #[test]
    fn of_a_write_whose_client_was_evicted_the_size_may_be_left() {
        let torn = |is_evicted| {
            let mut out = History::default();
            let write = out.called(7, 0, Action::Write { offset: 16, tag: 9 });
            if is_evicted {
                out.evicted(0);
            }
            out.returned(7, write, Answer::Error(Errno::EIO));
            for (of, len) in [(0, 32), (0, 16)] {
                let (action, answer) = read(&[(of, len)]);
                let seen = out.called(7, 1, action);
                out.returned(7, seen, answer.expect("an answer"));
                if len == 32 && is_evicted {
                    assert_eq!(out.check().wrong, None);
                }
            }
            out.check().wrong
        };
        assert!(torn(false).is_some(), "nobody lost anything");
        assert!(torn(true).is_some(), "16 zeros after 32 of them");
    }

    #[test]
    fn a_removed_xattr_is_gone() {
        let removed = (Action::RemoveXattr, Some(Answer::Done));
        let set = (Action::SetXattr(3), Some(Answer::Done));
        assert_eq!(
            history(&[set.clone(), removed.clone(), (Action::GetXattr, Some(Answer::Xattr(None)))]).wrong,
            None
        );
        assert!(history(&[set, removed.clone(), removed]).wrong.is_some(), "there was none to remove");
    }
}

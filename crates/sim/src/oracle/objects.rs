//! Checker `objects_linearizable`: every object is one atomic thing. No acknowledged write is ever lost, no
//! reply shows state that is not durable, no write happens twice, whatever crashes (the paper's section 5.3;
//! docs/design.md, decisions 5 and 12).

use super::linear::{Entry, Judgement, Model, Step};
use super::provenance::{Change, may_become};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use wire::Errno;

/// The model of an object; a read shows all of it.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct State {
    /// Content of the object.
    pub data: Arc<Vec<u8>>,
    /// Omap entries by key.
    pub omap: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The xattr `v`.
    pub attr: Option<Vec<u8>>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes {}", self.data.len(), runs(&self.data))?;
        for (key, value) in &self.omap {
            write!(f, " {}={}", String::from_utf8_lossy(key), String::from_utf8_lossy(value))?;
        }
        self.attr.as_ref().map_or(Ok(()), |v| write!(f, " v={}", String::from_utf8_lossy(v)))
    }
}

/// Content as lengths and writers: each write fills its range with its number.
pub fn runs(data: &[u8]) -> String {
    let mut out = Vec::new();
    let mut at = 0;
    while at < data.len() {
        let word = word_at(data, at);
        let mut end = at + 1;
        while end < data.len() && word_at(data, end) == word {
            end += 1;
        }
        out.push(format!("{}*{word}", end - at));
        at = end;
    }
    format!("[{}]", out.join(" "))
}

fn word_at(data: &[u8], at: usize) -> u32 {
    let at = at & !3;
    let mut word = [0; 4];
    let end = data.len().min(at + 4);
    word[..end - at].copy_from_slice(&data[at..end]);
    u32::from_le_bytes(word)
}

/// Makes `len` bytes that identify their writer.
pub fn filled(tag: u32, offset: usize, len: usize) -> Vec<u8> {
    // By absolute position, so that unaligned writes still show whole numbers.
    (offset..offset + len).map(|at| tag.to_le_bytes()[at % 4]).collect()
}

/// A client's operation on an object. Tags are unique in the run.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Replace the content.
    WriteFull {
        /// Number of the write.
        tag: u32,
        /// Number of bytes.
        len: usize,
    },
    /// Overwrite a range.
    Write {
        /// Number of the write.
        tag: u32,
        /// Offset in bytes.
        offset: usize,
        /// Number of bytes.
        len: usize,
    },
    /// Add to the end: not idempotent, so a write carried out twice shows.
    Append {
        /// Number of the write.
        tag: u32,
        /// Number of bytes.
        len: usize,
    },
    /// Set the size.
    Truncate(usize),
    /// Remove the object.
    Delete,
    /// Create it if it does not exist.
    Create,
    /// Set an omap entry.
    OmapSet(Vec<u8>, u32),
    /// Remove an omap entry.
    OmapRemove(Vec<u8>),
    /// Remove all omap entries.
    OmapClear,
    /// Remove the xattr `v`.
    AttrRemove,
    /// Write zeros, up to the end of the object.
    Zero {
        /// Offset in bytes.
        offset: usize,
        /// Number of bytes.
        len: usize,
    },
    /// Replace the content, set an omap entry and the xattr `v`: all or nothing.
    Everything {
        /// Number of the write.
        tag: u32,
        /// Number of bytes.
        len: usize,
        /// The omap key.
        key: Vec<u8>,
    },
    /// Set the xattr `v` and append, if the xattr was `expect`.
    Guarded {
        /// Number of the write.
        tag: u32,
        /// The value that the guard expects.
        expect: Vec<u8>,
    },
    /// Read data, xattrs and omap.
    Read,
}

/// A call with its answer.
#[derive(Clone, Debug)]
pub struct Call {
    /// Number of the client.
    pub client: usize,
    /// The operation called.
    pub action: Action,
    /// The result, if the answer came.
    pub result: Result<u32, Errno>,
    /// The object as a read saw it.
    pub seen: Option<State>,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client.{} {:?} = {:?}", self.client, self.action, self.result)?;
        self.seen.as_ref().map_or(Ok(()), |seen| write!(f, " {seen:?}"))
    }
}

impl Model for Option<State> {
    type Call = Call;

    fn apply(&self, call: &Call) -> Step<Self> {
        let (expected, next) = self.expect(call);
        let right = match expected {
            Expected::Ok => call.result.is_ok(),
            Expected::Errors(errors) => call.result.is_err_and(|errno| errors.contains(&errno)),
            Expected::Read => match (self, &call.seen) {
                (Some(state), Some(seen)) => state == seen,
                (None, None) => call.result == Err(Errno::ENOENT),
                _ => false,
            },
        };
        match next {
            _ if !right => Step::Wrong,
            next if next == *self => Step::Same,
            next => Step::To(next),
        }
    }

    fn apply_unknown(&self, call: &Call) -> Option<Self> {
        Some(self.expect(call).1).filter(|next| next != self)
    }

    fn is_read(call: &Call) -> bool {
        call.action == Action::Read || call.result.is_err()
    }

    fn are_alike(a: &Call, b: &Call) -> bool {
        a.action == b.action
    }

    fn is_lost<'a>(&self, call: &Call, open: Option<&dyn Fn() -> Vec<&'a Call>>) -> bool {
        let (Some(open), shown) = (open, shown(call)) else { return false };
        if matches!(shown, Shown::Nothing) {
            return false;
        }
        let open = open();
        let open = || open.iter().map(|call| &call.action);
        match shown {
            Shown::Nothing => false,
            Shown::Absence => self.is_some() && !open().any(|a| *a == Action::Delete),
            Shown::Presence => self.is_none() && !open().any(creates),
            Shown::Attr(value) => {
                let now = self.as_ref().and_then(|s| s.attr.as_deref());
                now != Some(value) && !open().any(|a| sets_attr(a, Some(value)))
            }
            Shown::All(seen) => {
                let now = self.as_ref();
                let attr = seen.attr.as_deref();
                let changes: Vec<Change<'_>> = open().filter_map(change).collect();
                now.is_none() && !open().any(creates)
                    || now.and_then(|s| s.attr.as_deref()) != attr && !open().any(|a| sets_attr(a, attr))
                    || is_omap_lost(now.map(|s| &s.omap), &seen.omap, open)
                    || !may_become(now.map_or(&[], |s| &s.data), &seen.data, &changes)
            }
        }
    }
}

/// What a state must have for a call's answer to be right in it.
enum Shown<'a> {
    Nothing,
    Absence,
    Presence,
    /// This value of the xattr.
    Attr(&'a [u8]),
    All(&'a State),
}

fn shown(call: &Call) -> Shown<'_> {
    use Action::{AttrRemove, Delete, Guarded, OmapClear, OmapRemove, Read};
    match (&call.action, &call.seen) {
        (Read, Some(seen)) => Shown::All(seen),
        (Read | Delete | OmapRemove(_) | OmapClear | AttrRemove, _) => match call.result {
            Ok(_) => Shown::Presence,
            Err(_) => Shown::Absence,
        },
        (Guarded { expect, .. }, _) if call.result.is_ok() && !expect.is_empty() => Shown::Attr(expect),
        _ => Shown::Nothing,
    }
}

/// Reports whether an action makes an object that is not there.
fn creates(action: &Action) -> bool {
    use Action::{Append, Create, Everything, Guarded, OmapSet, Write, WriteFull};
    matches!(
        action,
        WriteFull { .. }
            | Write { .. }
            | Append { .. }
            | Create
            | OmapSet(..)
            | Everything { .. }
            | Guarded { .. }
    )
}

/// Reports whether an action may leave the xattr at this value.
fn sets_attr(action: &Action, value: Option<&[u8]>) -> bool {
    match (action, value) {
        (Action::Everything { tag, .. } | Action::Guarded { tag, .. }, Some(value)) => {
            tag.to_string().as_bytes() == value
        }
        (Action::AttrRemove | Action::Delete, None) => true,
        _ => false,
    }
}

type Omap = BTreeMap<Vec<u8>, Vec<u8>>;

/// Reports whether omap entries cannot become those that were seen.
fn is_omap_lost<'a, I: Iterator<Item = &'a Action>>(
    now: Option<&Omap>,
    seen: &Omap,
    open: impl Fn() -> I,
) -> bool {
    let now_of = |key: &Vec<u8>| now.and_then(|now| now.get(key));
    let appears = |key: &Vec<u8>, value: &Vec<u8>| {
        open().any(|action| match action {
            Action::OmapSet(of, tag) | Action::Everything { key: of, tag, .. } => {
                of == key && tag.to_string().as_bytes() == value
            }
            _ => false,
        })
    };
    let goes = |key: &Vec<u8>| {
        open().any(|action| match action {
            Action::OmapRemove(of) => of == key,
            Action::OmapClear | Action::Delete => true,
            _ => false,
        })
    };
    let missing = seen.iter().any(|(key, value)| now_of(key) != Some(value) && !appears(key, value));
    missing || now.into_iter().flatten().any(|(key, _)| !seen.contains_key(key) && !goes(key))
}

/// The change of the content that an action makes.
fn change(action: &Action) -> Option<Change<'static>> {
    Some(match action {
        Action::WriteFull { tag, len } | Action::Everything { tag, len, .. } => {
            Change::Replace { tag: *tag, len: *len }
        }
        Action::Write { tag, offset, len } => Change::Overwrite { tag: *tag, offset: *offset, len: *len },
        Action::Append { tag, len } => Change::Append { tag: *tag, len: *len },
        Action::Guarded { tag, .. } => Change::Append { tag: *tag, len: 8 },
        Action::Truncate(len) => Change::Truncate(*len),
        Action::Zero { offset, len } => Change::Zero { offset: *offset, len: *len },
        Action::Delete => Change::Clear,
        _ => return None,
    })
}

enum Expected {
    Ok,
    Errors(&'static [Errno]),
    Read,
}

trait Expect {
    fn expect(&self, call: &Call) -> (Expected, Option<State>);
}

impl Expect for Option<State> {
    fn expect(&self, call: &Call) -> (Expected, Option<State>) {
        let state = || self.clone().unwrap_or_default();
        let changed = |change: &dyn Fn(&mut State)| {
            let mut next = state();
            change(&mut next);
            (Expected::Ok, Some(next))
        };
        match &call.action {
            Action::Read => (Expected::Read, self.clone()),
            Action::WriteFull { tag, len } => changed(&|s| s.data = Arc::new(filled(*tag, 0, *len))),
            Action::Write { tag, offset, len } => changed(&|s| write(&mut s.data, *tag, *offset, *len)),
            Action::Append { tag, len } => changed(&|s| append(&mut s.data, *tag, *len)),
            Action::Truncate(len) if self.is_some() => {
                changed(&|s| Arc::make_mut(&mut s.data).resize(*len, 0))
            }
            Action::Delete if self.is_some() => (Expected::Ok, None),
            // As in Ceph: truncating to more than the size is no error.
            Action::Truncate(_) => (Expected::Ok, None),
            Action::Delete => (Expected::Errors(&[Errno::ENOENT]), None),
            Action::Create => changed(&|_| ()),
            Action::OmapSet(key, tag) => changed(&|s| {
                s.omap.insert(key.clone(), tag.to_string().into_bytes());
            }),
            Action::OmapRemove(key) if self.is_some() => changed(&|s| {
                s.omap.remove(key);
            }),
            Action::OmapClear if self.is_some() => changed(&|s| s.omap.clear()),
            Action::AttrRemove if self.is_some() => changed(&|s| s.attr = None),
            Action::OmapRemove(_) | Action::OmapClear | Action::AttrRemove => {
                (Expected::Errors(&[Errno::ENOENT]), None)
            }
            Action::Zero { offset, len } if self.is_some() => changed(&|s| {
                let data = Arc::make_mut(&mut s.data);
                // As in Ceph: zeroing up to the end or beyond truncates.
                match offset + len < data.len() {
                    true => data[*offset..offset + len].fill(0),
                    false if *len > 0 => data.truncate(*offset),
                    false => {}
                }
            }),
            Action::Zero { .. } => (Expected::Ok, None),
            Action::Everything { tag, len, key } => changed(&|s| {
                s.data = Arc::new(filled(*tag, 0, *len));
                s.omap.insert(key.clone(), tag.to_string().into_bytes());
                s.attr = Some(tag.to_string().into_bytes());
            }),
            Action::Guarded { tag, expect } => {
                match self.as_ref().and_then(|s| s.attr.as_ref()) {
                    Some(attr) if attr == expect => changed(&|s| {
                        s.attr = Some(tag.to_string().into_bytes());
                        append(&mut s.data, *tag, 8);
                    }),
                    // As in Ceph: an empty expectation does not compare the xattr.
                    _ if expect.is_empty() => changed(&|s| {
                        s.attr = Some(tag.to_string().into_bytes());
                        append(&mut s.data, *tag, 8);
                    }),
                    _ => (Expected::Errors(&[Errno::ECANCELED, Errno::ENODATA, Errno::ENOENT]), self.clone()),
                }
            }
        }
    }
}

fn write(data: &mut Arc<Vec<u8>>, tag: u32, offset: usize, len: usize) {
    let data = Arc::make_mut(data);
    if data.len() < offset + len {
        data.resize(offset + len, 0);
    }
    data[offset..offset + len].copy_from_slice(&filled(tag, offset, len));
}

fn append(data: &mut Arc<Vec<u8>>, tag: u32, len: usize) {
    // A client does not know the offset of its append, so the bytes do not depend on it.
    Arc::make_mut(data).extend_from_slice(&filled(tag, 0, len));
}

/// Reports whether a result tells the outcome. Any other leaves a write unknown.
pub fn is_definite(result: Result<u32, Errno>) -> bool {
    result.map_or_else(
        |errno| [Errno::ENOENT, Errno::EEXIST, Errno::ECANCELED, Errno::ENODATA].contains(&errno),
        |_| true,
    )
}

/// The histories of all objects.
#[derive(Clone, Debug, Default)]
pub struct History {
    objects: BTreeMap<String, Vec<Entry<Call>>>,
    moment: u64,
}

impl History {
    /// Records a call. Returns its number, for [`Self::returned`].
    pub fn called(&mut self, object: &str, client: usize, action: Action) -> usize {
        self.moment += 1;
        let calls = self.objects.entry(object.to_owned()).or_default();
        calls.push(Entry {
            call: self.moment,
            ret: None,
            what: Call { client, action, result: Ok(0), seen: None },
        });
        calls.len() - 1
    }

    /// Records the answer to a call.
    pub fn returned(&mut self, object: &str, number: usize, result: Result<u32, Errno>, seen: Option<State>) {
        self.moment += 1;
        let entry = &mut self.objects.get_mut(object).expect("called before")[number];
        entry.ret = is_definite(result).then_some(self.moment);
        entry.what.result = result;
        entry.what.seen = seen;
    }

    /// The number of answered calls.
    pub fn answered(&self) -> usize {
        self.objects.values().flatten().filter(|e| e.ret.is_some()).count()
    }

    /// Names of all objects.
    pub fn names(&self) -> Vec<String> {
        self.objects.keys().cloned().collect()
    }

    /// Checks all objects, each a history of its own.
    pub fn check(&self) -> Judgement {
        let mut judgement = Judgement::default();
        for (name, calls) in &self.objects {
            judgement.judge(name, &None, calls);
        }
        judgement
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_append_that_happened_twice_is_found() {
        let mut history = History::default();
        let n = history.called("o", 0, Action::Append { tag: 1, len: 4 });
        history.returned("o", n, Ok(0), None);
        let n = history.called("o", 0, Action::Read);
        let twice = State { data: Arc::new([1, 0, 0, 0, 1, 0, 0, 0].to_vec()), ..State::default() };
        history.returned("o", n, Ok(0), Some(twice));
        let why = history.check().wrong.expect("it is not linearizable");
        assert!(why.contains("8*1"), "{why}");
    }

    #[test]
    fn a_guard_that_fails_changes_nothing() {
        let mut history = History::default();
        let n = history.called("o", 0, Action::Guarded { tag: 1, expect: vec![] });
        history.returned("o", n, Ok(0), None);
        let n = history.called("o", 1, Action::Guarded { tag: 2, expect: b"9".to_vec() });
        history.returned("o", n, Err(Errno::ECANCELED), None);
        let n = history.called("o", 1, Action::Read);
        let seen = State { data: Arc::new(filled(1, 0, 8)), attr: Some(b"1".to_vec()), ..State::default() };
        history.returned("o", n, Ok(0), Some(seen));
        assert_eq!(history.check().wrong, None);
        assert_eq!(history.answered(), 3);
    }
}

//! Names that a client's caller believes without asking, as Linux does.

use crate::oracle::namespace::{Action, Answer};
use fsclient::{Answer as FsAnswer, Reply};
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::Instant;
use wire::Errno;

/// The believed names of one host: the inode of each, `None` if it does not exist, and until when.
#[derive(Default)]
pub(super) struct Believed {
    names: BTreeMap<(u64, String), (Option<u64>, Instant)>,
}

impl Believed {
    /// The answer to an operation that needs no request.
    pub(super) fn answer(&self, now: Instant, action: &Action) -> Option<Answer> {
        let Action::Lookup(dir, name) = action else { return None };
        let (ino, until) = self.names.get(&(*dir, name.clone()))?;
        (now < *until).then(|| ino.map_or(Answer::Error(Errno::ENOENT), Answer::Ino))
    }

    /// The inode of which an operation takes a name away, if callers know no other name of it.
    pub(super) fn without_name(&self, action: &Action) -> Option<u64> {
        let (Action::Unlink(dir, name) | Action::Rename(_, _, dir, name)) = action else { return None };
        let gone = (*dir, name.clone());
        let ino = self.names.get(&gone)?.0?;
        let is_other =
            |(name, (of, _)): (&(u64, String), &(Option<u64>, Instant))| *of == Some(ino) && *name != gone;
        (!self.names.iter().any(is_other)).then_some(ino)
    }

    /// Takes the answer to an operation.
    pub(super) fn take(&mut self, now: Instant, action: &Action, reply: &Reply) {
        match (action, reply) {
            (Action::Lookup(dir, name), Ok(FsAnswer::Absent(valid))) => {
                self.told(now, *dir, name, None, *valid);
            }
            (
                Action::Lookup(dir, name)
                | Action::Create(dir, name)
                | Action::OpenOrCreate(dir, name)
                | Action::Mkdir(dir, name)
                | Action::Symlink(dir, name, _)
                | Action::Link(_, dir, name),
                Ok(FsAnswer::Entry(entry) | FsAnswer::Created { entry, .. }),
            ) => self.told(now, *dir, name, Some(entry.attr.ino), entry.entry_valid),
            (Action::Unlink(dir, name) | Action::Rmdir(dir, name), _) => self.forget(*dir, name),
            (Action::Rename(dir, name, new_dir, new_name), reply) => {
                let moved = self.names.remove(&(*dir, name.clone())).filter(|_| reply.is_ok());
                self.forget(*new_dir, new_name);
                // Linux moves what it knows of the name.
                self.names.extend(moved.map(|known| ((*new_dir, new_name.clone()), known)));
            }
            _ => {}
        }
    }

    fn told(&mut self, now: Instant, dir: u64, name: &str, ino: Option<u64>, valid: Duration) {
        self.names.insert((dir, name.to_owned()), (ino, now + valid));
    }

    /// Asks for a name again the next time.
    pub(super) fn forget(&mut self, dir: u64, name: &str) {
        self.names.remove(&(dir, name.to_owned()));
    }
}

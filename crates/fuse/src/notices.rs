//! What the kernel is to forget. Such a notice may block on locks that requests hold, so they leave from
//! threads of their own: names from several, since a request that holds a directory may take long.

use crate::places::Place;
use crate::reply::Device;
use crate::request::Form;
use crate::root::Root;
use crate::truncations::Truncations;
use client::{Answer, Entry, Ino, Invalidate, Invalidated, Reply};
use fuser::{INodeNo, Notifier};
use std::io;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Threads that have the kernel forget names; those of one directory leave from one thread.
const NAME_THREADS: usize = 8;
/// The time that the answer to a lookup waits until the kernel has dropped a former name. Its own lookup may
/// hold the directory of that name.
const PATIENCE: Duration = Duration::from_millis(20);

/// Names in a directory that are to be forgotten.
enum Names {
    /// They are to be asked for again, because their right is revoked.
    Expire(u64, Vec<Vec<u8>>, Invalidated),
    /// A directory has another name. The sender is dropped when this one is gone.
    Drop(Place, mpsc::Sender<()>),
}

/// Pages that are to be dropped: the kernel's number of their inode, and that of the notice if it is waited
/// for.
type Dropped = (u64, Option<u64>);

/// The answer to a lookup that is given when the kernel has dropped a former name of the directory.
pub(crate) struct Held {
    pub(crate) former: Place,
    pub(crate) unique: u64,
    pub(crate) form: Form,
    pub(crate) answer: Reply,
}

/// The threads' inboxes for names.
#[derive(Clone)]
struct NameThreads(Vec<mpsc::Sender<Names>>);

impl NameThreads {
    fn start(device: &Arc<Device>) -> io::Result<Self> {
        let start = |n| {
            let (tx, names) = mpsc::channel();
            let device = device.clone();
            spawn(&format!("fuse-names-{n}"), move || {
                for what in names {
                    match what {
                        Names::Expire(parent, names, done) => {
                            device.expire(parent, &names);
                            drop(done);
                        }
                        Names::Drop((parent, name), done) => {
                            device.drop_name(parent, &name);
                            drop(done);
                        }
                    }
                }
            })?;
            Ok(tx)
        };
        (0..NAME_THREADS).map(start).collect::<io::Result<_>>().map(Self)
    }

    fn send(&self, parent: u64, what: Names) {
        // The threads live as long as the session; after that there is nothing to forget.
        let _ = self.0[parent as usize % self.0.len()].send(what);
    }
}

/// What requests have to do with notices.
#[derive(Clone)]
pub(crate) struct Notices {
    root: Root,
    held: mpsc::Sender<Held>,
    pages: mpsc::Sender<Dropped>,
    truncations: Truncations<Invalidated>,
}

impl Notices {
    /// Has a former name of a directory dropped, then gives an answer.
    pub(crate) fn hold(&self, held: Held) {
        // The threads live as long as the mount; after that nobody waits for an answer.
        let _ = self.held.send(held);
    }

    /// A request to set the size of `ino` comes.
    pub(crate) fn truncation_begins(&self, ino: Ino) {
        self.truncations.begin(ino);
    }

    /// A request to set the size of `ino` has been answered.
    pub(crate) fn truncation_ended(&self, ino: Ino) {
        if self.truncations.end(ino) {
            let _ = self.pages.send((self.root.outer(ino), None));
        }
    }
}

/// Hands the client's notices to the kernel.
pub(crate) fn forward(device: &Arc<Device>, notifier: Notifier) -> io::Result<Notices> {
    let truncations = Truncations::default();
    let pages = drop_pages(notifier.clone(), truncations.clone())?;
    // Dropping pages waits for writes to them, and a write may wait for attributes to be forgotten.
    let attributes = forget_attributes(notifier)?;
    let names = NameThreads::start(device)?;
    let held = hold(device, names.clone())?;
    let root = device.root;
    let notices = Notices { root, held, pages: pages.clone(), truncations: truncations.clone() };
    device.fs.on_invalidate(move |what, done| match what {
        // As above.
        Invalidate::Inode { ino } => {
            if let Some(number) = truncations.notice(ino, done) {
                let _ = pages.send((root.outer(ino), Some(number)));
            }
        }
        Invalidate::Attributes { ino } => drop(attributes.send((root.outer(ino), done))),
        Invalidate::Names { parent, names: gone } => {
            names.send(parent, Names::Expire(parent, gone, done));
        }
    });
    Ok(notices)
}

/// A thread that has former names dropped, and answers lookups after that.
fn hold(device: &Arc<Device>, names: NameThreads) -> io::Result<mpsc::Sender<Held>> {
    let (tx, held) = mpsc::channel::<Held>();
    let device = device.clone();
    spawn("fuse-moved", move || {
        for Held { former, unique, form, answer } in held {
            let (done, dropped) = mpsc::channel();
            names.send(former.0, Names::Drop(former, done));
            // Nothing is ever sent: this ends with the sender, or by the clock.
            let _ = dropped.recv_timeout(PATIENCE);
            device.answer(unique, form, answer.map(believed_for_no_time));
        }
    })?;
    Ok(tx)
}

/// An answer that was held: the rights that it rests on may be lost since.
fn believed_for_no_time(answer: Answer) -> Answer {
    match answer {
        Answer::Entry(Entry { attr, .. }) => {
            Answer::Entry(Entry { attr, entry_valid: Duration::ZERO, attr_valid: Duration::ZERO })
        }
        other => other,
    }
}

/// A thread that has the kernel drop pages.
fn drop_pages(
    notifier: Notifier,
    truncations: Truncations<Invalidated>,
) -> io::Result<mpsc::Sender<Dropped>> {
    let (tx, to_drop) = mpsc::channel::<Dropped>();
    spawn("fuse-notify", move || {
        for (ino, number) in to_drop {
            // The kernel refuses what it does not know: then there is nothing to drop.
            let _ = notifier.inval_inode(INodeNo(ino), 0, 0);
            if let Some(number) = number {
                truncations.carried_out(number);
            }
        }
    })?;
    Ok(tx)
}

/// A thread that has the kernel forget attributes.
fn forget_attributes(notifier: Notifier) -> io::Result<mpsc::Sender<(u64, Invalidated)>> {
    let (tx, to_forget) = mpsc::channel::<(u64, Invalidated)>();
    spawn("fuse-attrs", move || {
        for (ino, done) in to_forget {
            // As above. An offset below 0 means no pages.
            let _ = notifier.inval_inode(INodeNo(ino), -1, 0);
            drop(done);
        }
    })?;
    Ok(tx)
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.into()).spawn(run).map(drop)
}

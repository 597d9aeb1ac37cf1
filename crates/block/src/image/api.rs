//! What goes into an image's machine, and what comes out of it.

use crate::call::{Answer, Call, Place};
use crate::error::Error;
use crate::format::ParentSpec;
use crate::header::Header;
pub use crate::operation::{Operation, Reply};
use maps::SnapId;
use stdx::{Bufs, Rng};

/// What an image is opened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// For everything.
    Write,
    /// Nothing is to be written.
    Read,
    /// It is to be removed, or its snapshots are. So a clone opens whose parent has gone: an interrupted
    /// removal has told the parent already that it is no clone any more. Its data cannot be used.
    Remove,
    /// It is to be flattened, and its parent may have gone: then nothing is copied. Its data cannot be used.
    FlattenOrphan,
}

impl Access {
    /// True if data are read and written, and operations done for other clients.
    pub(super) fn has_data(self) -> bool {
        matches!(self, Self::Write | Self::Read)
    }
}

/// The image to open.
#[derive(Debug)]
pub struct Spec {
    /// Pool and namespace.
    pub place: Place,
    /// Name.
    pub name: String,
    /// A snapshot, which is read-only.
    pub snap: Option<String>,
    /// What it is opened for.
    pub access: Access,
    /// For the numbers of watches.
    pub rng: Rng,
}

/// Something that the machine is told.
#[derive(Debug)]
pub enum Input {
    /// Begin: the image is opened.
    Start,
    /// A request by a caller's number, which is answered once.
    Request {
        /// The number.
        id: u64,
        /// The request.
        request: Request,
    },
    /// The answer to an [`Output::Call`].
    Answer {
        /// Its token.
        token: u64,
        /// The answer.
        answer: Answer,
    },
    /// Somebody notifies the watchers of a watched object.
    Notified {
        /// The watch.
        cookie: u64,
        /// The number of the notification.
        notify_id: u64,
        /// The message.
        payload: Vec<u8>,
    },
    /// A watch is no more.
    WatchBroken {
        /// The watch.
        cookie: u64,
    },
    /// The time of [`super::Image::deadline`] has come.
    Timer,
}

/// What a caller wants.
#[derive(Clone, Debug)]
pub enum Request {
    /// Reads bytes.
    Read {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
    /// Writes bytes. The answer says that all members of the placement groups have them.
    Write {
        /// First byte.
        offset: u64,
        /// Bytes.
        data: Bufs,
    },
    /// Makes bytes zeros, and gives back the room that they took.
    Zero {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
    /// Waits for all changes that were requested before.
    Flush,
    /// Does something to the image.
    Maintain(Operation),
    /// Ends everything in order: the last request.
    Close,
}

/// What is known of an image that is open.
#[derive(Clone, PartialEq, Debug)]
pub struct Opened {
    /// Its header.
    pub header: Header,
    /// The snapshot that is read; otherwise the image itself.
    pub snap: SnapId,
    /// Size in bytes.
    pub size: u64,
    /// Nothing can be written.
    pub read_only: bool,
}

/// Something that the machine wants.
#[derive(Debug)]
pub enum Output {
    /// A call to the cluster, whose answer is [`Input::Answer`].
    Call {
        /// The machine's number for it.
        token: u64,
        /// The call.
        call: Call,
    },
    /// The image is open, or cannot be.
    Opened(Box<Result<Opened, Error>>),
    /// The answer to a request.
    Reply {
        /// The caller's number.
        id: u64,
        /// The answer.
        reply: Result<Reply, Error>,
    },
    /// A request is under way.
    Progress {
        /// The caller's number.
        id: u64,
        /// Objects that are done with.
        done: u64,
        /// All.
        total: u64,
    },
    /// By what was done for another client, a snapshot in the trash has lost its last clone: it can go by
    /// [`Operation::SnapRemoveTrashed`].
    Unused(ParentSpec),
    /// The image has this size now.
    Resized(u64),
    /// The image is lost to this client: all further requests fail with this.
    Lost(Error),
    /// For a log.
    Event(String),
}

//! What the watchers of an image's header say to each other: librbd's messages.

use crate::call::Answer;
use crate::format::SnapNamespace;
use wire::{Errno, Reader, Writer, wire_structs};

wire_structs! {
    /// A client's watch.
    #[derive(Copy, Eq, PartialOrd, Ord)]
    pub(crate) struct ClientId[plain] {
        pub(crate) gid: u64,
        pub(crate) handle: u64,
    }

    /// A request that ends later than it is acknowledged.
    #[derive(Copy, Eq, PartialOrd, Ord)]
    pub(crate) struct AsyncId[plain] {
        pub(crate) client: ClientId,
        pub(crate) request: u64,
    }
}

/// Numbers of messages.
mod code {
    pub(super) const ACQUIRED_LOCK: u32 = 0;
    pub(super) const RELEASED_LOCK: u32 = 1;
    pub(super) const REQUEST_LOCK: u32 = 2;
    pub(super) const HEADER_UPDATE: u32 = 3;
    pub(super) const ASYNC_PROGRESS: u32 = 4;
    pub(super) const ASYNC_COMPLETE: u32 = 5;
    pub(super) const FLATTEN: u32 = 6;
    pub(super) const RESIZE: u32 = 7;
    pub(super) const SNAP_CREATE: u32 = 8;
    pub(super) const SNAP_REMOVE: u32 = 9;
    pub(super) const QUIESCE: u32 = 18;
    pub(super) const UNQUIESCE: u32 = 19;
    pub(super) const METADATA_UPDATE: u32 = 20;
}

/// The version whose messages we send.
const VERSION: u8 = 7;

/// A message.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Message {
    /// The sender has got the lock.
    AcquiredLock(ClientId),
    /// The sender has given the lock back.
    ReleasedLock(ClientId),
    /// The sender wants the lock.
    RequestLock(ClientId),
    /// The header has changed.
    HeaderUpdate,
    /// A request of another client is under way, and has got so far.
    AsyncProgress { id: AsyncId, done: u64, total: u64 },
    /// A request of another client has ended.
    AsyncComplete(AsyncId, i32),
    /// The lock's owner is to make the image independent of its parent.
    Flatten(AsyncId),
    /// The lock's owner is to change the size.
    Resize { size: u64, id: AsyncId, allow_shrink: bool },
    /// The lock's owner is to take a snapshot.
    SnapCreate { name: String, namespace: SnapNamespace, id: Option<AsyncId> },
    /// The lock's owner is to remove a snapshot.
    SnapRemove { name: String, namespace: SnapNamespace },
    /// Nothing that concerns us.
    Other,
    /// Something that the lock's owner is to do, and that we cannot.
    Unsupported,
}

impl Message {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.versioned(VERSION, 1, |w| match self {
            Self::AcquiredLock(client) => w.put(&(code::ACQUIRED_LOCK, *client)),
            Self::ReleasedLock(client) => w.put(&(code::RELEASED_LOCK, *client)),
            Self::RequestLock(client) => w.put(&((code::REQUEST_LOCK, *client), false)),
            Self::HeaderUpdate => w.put(&code::HEADER_UPDATE),
            Self::AsyncProgress { id, done, total } => w.put(&((code::ASYNC_PROGRESS, *id), (*done, *total))),
            Self::AsyncComplete(id, result) => w.put(&((code::ASYNC_COMPLETE, *id), *result)),
            Self::Flatten(id) => w.put(&(code::FLATTEN, *id)),
            _ => unreachable!("the other requests are not sent"),
        });
        w.into_vec()
    }

    /// `None` for what is no message.
    pub(crate) fn decode(payload: &[u8]) -> Option<Self> {
        // An empty one is that of old clients: the header has changed.
        if payload.is_empty() {
            return Some(Self::HeaderUpdate);
        }
        Reader::new(payload)
            .versioned(VERSION, |version, r| {
                let code: u32 = r.get()?;
                Ok(match code {
                    code::ACQUIRED_LOCK if version >= 2 => Self::AcquiredLock(r.get()?),
                    code::RELEASED_LOCK if version >= 2 => Self::ReleasedLock(r.get()?),
                    code::REQUEST_LOCK if version >= 2 => Self::RequestLock(r.get()?),
                    code::HEADER_UPDATE => Self::HeaderUpdate,
                    code::ASYNC_PROGRESS if version >= 2 => {
                        let (id, (done, total)) = r.get()?;
                        Self::AsyncProgress { id, done, total }
                    }
                    code::ASYNC_COMPLETE if version >= 2 => {
                        let (id, result) = r.get()?;
                        Self::AsyncComplete(id, result)
                    }
                    code::FLATTEN if version >= 2 => Self::Flatten(r.get()?),
                    code::RESIZE => {
                        let (size, id) = r.get()?;
                        Self::Resize { size, id, allow_shrink: version < 4 || r.get()? }
                    }
                    code::SNAP_CREATE if version >= 6 => {
                        let (name, namespace) = r.get()?;
                        let id = if version >= 7 { Some(r.get()?) } else { None };
                        Self::SnapCreate { name, namespace, id }
                    }
                    code::SNAP_REMOVE if version >= 6 => {
                        let (name, namespace) = r.get()?;
                        Self::SnapRemove { name, namespace }
                    }
                    code::ACQUIRED_LOCK
                    | code::RELEASED_LOCK
                    | code::ASYNC_PROGRESS
                    | code::ASYNC_COMPLETE => Self::Other,
                    code::QUIESCE | code::UNQUIESCE | code::METADATA_UPDATE => Self::Other,
                    _ => Self::Unsupported,
                })
            })
            .ok()
    }
}

/// The answer of the lock's owner to a request.
pub(crate) fn response(result: i32) -> Vec<u8> {
    let mut w = Writer::new();
    w.versioned(1, 1, |w| w.put(&result));
    w.into_vec()
}

/// The result that the lock's owner has given to a request, if it has answered.
pub(crate) fn response_of(answer: &Answer) -> Option<Result<(), Errno>> {
    let Answer::Notified { acks, .. } = answer else { return None };
    let read = |ack: &Vec<u8>| Reader::new(ack).versioned(1, |_, r| r.get::<i32>()).ok();
    acks.iter().find_map(read).map(|result| Errno::check(result).map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_those_of_librbd() {
        let client = ClientId { gid: 0x1122, handle: 7 };
        let encoded = Message::RequestLock(client).encode();
        let mut wanted = vec![7, 1, 21, 0, 0, 0, 2, 0, 0, 0];
        wanted.extend(0x1122u64.to_le_bytes());
        wanted.extend(7u64.to_le_bytes());
        wanted.push(0);
        assert_eq!(encoded, wanted);
        assert_eq!(Message::decode(&encoded), Some(Message::RequestLock(client)));
        assert_eq!(Message::decode(b""), Some(Message::HeaderUpdate));
        assert_eq!(Message::decode(&[7, 1, 4, 0, 0, 0, 10, 0, 0, 0]), Some(Message::Unsupported));
        assert_eq!(Message::decode(&[7, 1, 200]), None);
        let id = AsyncId { client, request: 3 };
        let progress = Message::AsyncProgress { id, done: 5, total: 9 };
        for message in [Message::Flatten(id), progress, Message::AsyncComplete(id, -22)] {
            assert_eq!(Message::decode(&message.encode()), Some(message));
        }
        let mut wanted = vec![7, 1, 28, 0, 0, 0, 6, 0, 0, 0];
        [0x1122u64, 7, 3].iter().for_each(|part| wanted.extend(part.to_le_bytes()));
        assert_eq!(Message::Flatten(id).encode(), wanted);
    }
}

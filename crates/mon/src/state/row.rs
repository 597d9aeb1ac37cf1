//! Keys of the rows in which the state is stored.

use maps::{Epoch, Fscid};
use wire::{DecodeError, EntityName, EntityType, Reader, Writer};

/// Name of a row. The row's key is a tag byte and the encoded name: rows of one kind are adjacent and in
/// order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Row {
    /// Index of the last entry applied.
    Version,
    /// The map of monitors.
    MonMap,
    /// The newest OSD map.
    OsdFull,
    /// The oldest OSD map.
    OsdOldest,
    /// Our own map.
    Nacre,
    /// The incremental that leads to an epoch.
    OsdInc(Epoch),
    /// The map of file systems.
    FsMap,
    /// Key and capabilities of an entity.
    Auth(EntityName),
    /// The rotating keys of a service.
    Rotating(EntityType),
    /// The end of the global ids given out.
    GlobalIds,
    /// An option: section and name.
    Config(String, String),
    /// A stored value.
    Kv(String),
    /// Metadata of a daemon.
    Metadata(EntityName),
    /// The map in which a file system last let clients reconnect.
    ReconnectMap(Fscid),
    /// The voting stores.
    Voters,
    /// Term of the last entry applied.
    Term,
    /// The last completed commands.
    Done,
    /// The last commands that were refused.
    Refused,
    /// A segment of the cluster log.
    Log(u64),
}

impl Row {
    /// Stored key of the row.
    pub fn key(&self) -> Vec<u8> {
        let mut w = Writer::new();
        match self {
            Self::Version => w.put(&1u8),
            Self::MonMap => w.put(&2u8),
            Self::OsdFull => w.put(&3u8),
            Self::OsdOldest => w.put(&4u8),
            Self::Nacre => w.put(&5u8),
            Self::OsdInc(epoch) => {
                w.put(&6u8);
                w.raw(&epoch.0.to_be_bytes());
            }
            Self::FsMap => w.put(&7u8),
            Self::Auth(name) => {
                w.put(&8u8);
                w.put(name);
            }
            Self::Rotating(service) => {
                w.put(&9u8);
                w.put(service);
            }
            Self::GlobalIds => w.put(&10u8),
            Self::Config(who, name) => {
                w.put(&11u8);
                w.put(who);
                w.put(name);
            }
            Self::Kv(key) => {
                w.put(&12u8);
                w.put(key);
            }
            Self::Metadata(name) => {
                w.put(&13u8);
                w.put(name);
            }
            Self::Voters => w.put(&32u8),
            Self::Term => w.put(&33u8),
            Self::Done => w.put(&34u8),
            Self::Refused => w.put(&36u8),
            Self::Log(segment) => {
                w.put(&35u8);
                w.raw(&segment.to_be_bytes());
            }
            Self::ReconnectMap(id) => {
                w.put(&14u8);
                w.put(id);
            }
        }
        w.into_vec()
    }

    pub(super) fn parse(key: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(key);
        Ok(match r.get::<u8>()? {
            1 => Self::Version,
            2 => Self::MonMap,
            3 => Self::OsdFull,
            4 => Self::OsdOldest,
            5 => Self::Nacre,
            6 => Self::OsdInc(Epoch(u32::from_be_bytes(r.array()?))),
            7 => Self::FsMap,
            8 => Self::Auth(r.get()?),
            9 => Self::Rotating(r.get()?),
            10 => Self::GlobalIds,
            11 => Self::Config(r.get()?, r.get()?),
            12 => Self::Kv(r.get()?),
            13 => Self::Metadata(r.get()?),
            32 => Self::Voters,
            33 => Self::Term,
            34 => Self::Done,
            35 => Self::Log(u64::from_be_bytes(r.array()?)),
            36 => Self::Refused,
            14 => Self::ReconnectMap(r.get()?),
            tag => return Err(r.newer(format!("a row of kind {tag}"))),
        })
    }
}

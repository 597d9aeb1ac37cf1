//! Log entries, the unit of agreement among monitors: each is a list of changes that take effect together.

use auth::{EntityAuth, RotatingKeys};
use maps::{FsMap, MonMap, NacreMap};
use std::collections::BTreeMap;
use stdx::Rng;
use wire::{
    Decode, DecodeError, Encode, EntityName, EntityType, Errno, Reader, Sample, Utime, Writer, wire_structs,
};

wire_structs! {
    /// One entry of the log.
    pub struct LogEntry[v 1/1] {
        /// Position, from 1 without gaps.
        pub index: u64,
        /// Term of the leader that proposed it.
        pub term: u64,
        /// Time of the proposal.
        pub stamp: Utime,
        /// Changes, applied in order, all or nothing.
        pub changes: Vec<Change>,
    }
}

/// One change of the replicated state. It holds the new content and not the request behind it: applying it
/// requires no decision, so replicas cannot diverge.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// The next OSD map, as an encoded incremental, and the map of our own that belongs to the same epoch.
    OsdMap {
        /// An encoded `maps::OsdMapIncremental`.
        inc: Vec<u8>,
        /// Nacre's own map of the same epoch.
        nacre: NacreMap,
    },
    /// The map of monitors.
    MonMap(Box<MonMap>),
    /// All file systems.
    FsMap(Box<FsMap>),
    /// Key and capabilities of an entity, or their removal.
    Auth(EntityName, Option<EntityAuth>),
    /// The rotating keys of a service.
    Rotating(EntityType, RotatingKeys),
    /// Global ids below this number may have been given out.
    GlobalIds(u64),
    /// An option: section, name, value or removal.
    Config(String, String, Option<String>),
    /// A stored value of `config-key`, or its removal.
    Kv(String, Option<Vec<u8>>),
    /// Metadata that a daemon reported about itself and its host; `None` forgets it.
    Metadata(EntityName, Option<BTreeMap<String, String>>),
    /// The voting stores, with the names of their monitors.
    Voters(BTreeMap<u64, String>),
    /// The entry completes the command with this tid of the client with this global id. If the command is
    /// sent again, it is not executed again.
    Done(u64, u64),
    /// The command with this tid of the client with this global id was refused, with this error
    /// and text. If it is sent again, it is not executed either.
    Refused(u64, u64, Errno, String),
    /// Lines of the cluster log. Lines with numbers before `first` are dropped.
    Log {
        /// The oldest line that is kept.
        first: u64,
        /// New lines of the cluster log.
        lines: Vec<msgs::LogEntry>,
    },
}

macro_rules! changes {
    ($($tag:literal $name:ident $(($($field:ident),*))? $({$($named:ident),*})?;)*) => {
        impl Encode for Change {
            fn encode(&self, w: &mut Writer) {
                match self { $(
                    Self::$name $(($($field),*))? $({$($named),*})? => {
                        w.put(&($tag as u8));
                        w.sized(|w| { $( $( w.put($field); )* )? $( $( w.put($named); )* )? });
                    }
                )* }
            }
        }
        impl Decode for Change {
            const MIN_SIZE: usize = 5;
            fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
                let tag: u8 = r.get()?;
                let mut r = r.sub()?;
                match tag { $(
                    $tag => {
                        $( $( let $field = r.get()?; )* )?
                        $( $( let $named = r.get()?; )* )?
                        Ok(Self::$name $(($($field),*))? $({$($named),*})?)
                    }
                )*
                    tag => Err(r.newer(format!("change of kind {tag}"))),
                }
            }
        }
        impl Sample for Change {
            fn sample(rng: &mut Rng) -> Self {
                match *rng.pick(&[$($tag),*]) { $(
                    $tag => {
                        $( $( let $field = Sample::sample(rng); )* )?
                        $( $( let $named = Sample::sample(rng); )* )?
                        Self::$name $(($($field),*))? $({$($named),*})?
                    }
                )*
                    _ => unreachable!("picked from the list"),
                }
            }
        }
    };
}

changes! {
    1 OsdMap { inc, nacre };
    2 MonMap(map);
    3 FsMap(map);
    4 Auth(name, auth);
    5 Rotating(service, keys);
    6 GlobalIds(end);
    7 Config(who, name, value);
    8 Kv(key, value);
    9 Metadata(name, values);
    32 Voters(voters);
    33 Done(client, tid);
    34 Log { first, lines };
    35 Refused(client, tid, errno, text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_survive_their_encoding() {
        let mut rng = Rng::from_seed(5);
        for _ in 0..200 {
            let entry = LogEntry::sample(&mut rng);
            let bytes = Writer::encode(&entry);
            assert_eq!(Reader::new(&bytes).get::<LogEntry>().expect("own encoding"), entry);
        }
    }

    #[test]
    fn an_unknown_change_is_refused_not_skipped() {
        let mut w = Writer::new();
        w.put(&200u8);
        w.blob(b"x");
        let error = Reader::new(w.as_slice()).get::<Change>().expect_err("unknown");
        assert!(error.what.contains("200"), "{error}");
    }
}

//! Transactions that change what two or more ranks are authoritative for. Each participant journals its part
//! with [`Update::Prepare`]; the part takes effect with [`Update::Commit`], or never with [`Update::Abort`].

use crate::Update;
use maps::MdsRank;
use std::fmt;
use stdx::Rng;
use wire::{Decode, DecodeError, Encode, Reader, Sample, Writer};

wire::wire_structs! {
    /// The id of a transaction between ranks.
    #[derive(Copy, Eq, PartialOrd, Ord)]
    pub struct TxnId[plain] {
        /// The rank that coordinates it.
        pub coordinator: MdsRank,
        /// Its number there; never used twice.
        pub number: u64,
    }
}

/// The omap key of a transaction in a rank's table of prepared ones.
pub fn txn_key(txn: TxnId) -> Vec<u8> {
    format!("{:08x}.{:016x}", txn.coordinator.0, txn.number).into_bytes()
}

impl fmt::Display for TxnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.coordinator, self.number)
    }
}

/// One rank's part of a transaction, prepared and not yet decided. Filled by operations over several ranks.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PreparedTxn {
    /// All ranks that have a part, the coordinator included.
    pub participants: Vec<MdsRank>,
    /// This rank's changes; none of them is about a transaction.
    pub updates: Vec<Update>,
    /// True at the coordinator once it is decided that the transaction takes effect.
    pub is_committed: bool,
    /// At the coordinator: participants that have not confirmed the decision.
    pub unconfirmed: Vec<MdsRank>,
}

impl Encode for PreparedTxn {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.participants);
            w.put(&self.updates);
            w.put(&self.is_committed);
            w.put(&self.unconfirmed);
        });
    }
}

impl Decode for PreparedTxn {
    const MIN_SIZE: usize = 19;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned(1, |_, r| {
            let participants = r.get()?;
            let count = r.count(1)?;
            let mut updates = Vec::new();
            for _ in 0..count {
                // Not `Update::decode`, which would let bytes nest transactions as deep as they like.
                updates.push(Update::decode_prepared(r)?);
            }
            Ok(Self { participants, updates, is_committed: r.get()?, unconfirmed: r.get()? })
        })
    }
}

impl Sample for PreparedTxn {
    fn sample(rng: &mut Rng) -> Self {
        let updates = (0..rng.below(3)).map(|_| Update::sample_prepared(rng)).collect();
        Self {
            participants: Sample::sample(rng),
            updates,
            is_committed: Sample::sample(rng),
            unconfirmed: Sample::sample(rng),
        }
    }
}

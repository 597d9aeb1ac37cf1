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
}

impl Encode for PreparedTxn {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.participants);
            w.put(&self.updates);
        });
    }
}

impl Decode for PreparedTxn {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned(1, |_, r| {
            let participants = r.get()?;
            let count = r.count(1)?;
            let mut updates = Vec::new();
            for _ in 0..count {
                // Not `Update::decode`, which would let bytes nest transactions as deep as they like.
                updates.push(Update::decode_prepared(r)?);
            }
            Ok(Self { participants, updates })
        })
    }
}

impl Sample for PreparedTxn {
    fn sample(rng: &mut Rng) -> Self {
        let updates = (0..rng.below(3)).map(|_| Update::sample_prepared(rng)).collect();
        Self { participants: Sample::sample(rng), updates }
    }
}

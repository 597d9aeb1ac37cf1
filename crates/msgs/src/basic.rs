//! Small types that several messages share; PG ids, object names and versions are those of `maps`.

use std::fmt;
use wire::{Decode, DecodeError, Encode, Reader, Sample, Writer};

/// The head of every message to the monitors' services: the version that the sender has. Two further fields
/// are constant (-1 and 0).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Paxos {
    /// Version of the service's state that the sender knows.
    pub version: u64,
}

impl Encode for Paxos {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.version);
        w.put(&-1i16);
        w.put(&0u64);
    }
}

impl Decode for Paxos {
    const MIN_SIZE: usize = 18;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let version = r.get()?;
        r.take(10)?;
        Ok(Self { version })
    }
}

impl Sample for Paxos {
    fn sample(rng: &mut stdx::Rng) -> Self {
        Self { version: rng.u64() }
    }
}

/// All bytes that are left: a structure without a length at the end of a message, uninterpreted.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Rest(pub Vec<u8>);

impl fmt::Debug for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl Encode for Rest {
    fn encode(&self, w: &mut Writer) {
        w.raw(&self.0);
    }
}

impl Decode for Rest {
    const MIN_SIZE: usize = 0;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self(r.rest().to_vec()))
    }
}

impl Sample for Rest {
    fn sample(rng: &mut stdx::Rng) -> Self {
        Self(Sample::sample(rng))
    }
}

/// The last field of a message that some senders leave out, without a version that says so; it is the default
/// then.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Trailing<T>(pub T);

impl<T: Encode> Encode for Trailing<T> {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.0);
    }
}

impl<T: Decode + Default> Decode for Trailing<T> {
    const MIN_SIZE: usize = 0;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self(if r.is_empty() { T::default() } else { r.get()? }))
    }
}

impl<T: Sample> Sample for Trailing<T> {
    fn sample(rng: &mut stdx::Rng) -> Self {
        Self(T::sample(rng))
    }
}

/// A structure with a version header whose content is not interpreted here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Versioned {
    /// Its version.
    pub version: u8,
    /// The oldest version that a reader must know.
    pub compat: u8,
    /// Its content.
    pub body: Vec<u8>,
}

impl Default for Versioned {
    fn default() -> Self {
        Self { version: 1, compat: 1, body: Vec::new() }
    }
}

impl Encode for Versioned {
    fn encode(&self, w: &mut Writer) {
        w.versioned(self.version, self.compat, |w| w.raw(&self.body));
    }
}

impl Decode for Versioned {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { version: r.get()?, compat: r.get()?, body: r.blob()?.to_vec() })
    }
}

impl Sample for Versioned {
    fn sample(rng: &mut stdx::Rng) -> Self {
        Self { version: Sample::sample(rng), compat: Sample::sample(rng), body: Sample::sample(rng) }
    }
}

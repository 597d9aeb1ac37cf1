//! Arbitrary values for round-trip tests and fuzz seeds.

use crate::{AddrType, AddrVec, EntityAddr, EntityId, EntityName, EntityType, Timespec, Utime, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use stdx::{Buf, Bufs, ConstDefault, Rare, Rng, Shared, SortedMap};

/// A type of which a random valid value can be made.
pub trait Sample: Sized {
    /// A random value; small, so that nested containers stay small.
    fn sample(rng: &mut Rng) -> Self;
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl Sample for $t {
            fn sample(rng: &mut Rng) -> Self {
                // Small numbers, all bits, and the extremes.
                match rng.below(4) {
                    0 => rng.below(16) as $t,
                    1 => <$t>::MAX,
                    _ => rng.u64() as $t,
                }
            }
        }
    )*};
}
integers!(u8 u16 u32 u64 i8 i16 i32 i64);

impl Sample for f32 {
    fn sample(rng: &mut Rng) -> Self {
        rng.below(1000) as f32 / 1000.0
    }
}

impl Sample for f64 {
    fn sample(rng: &mut Rng) -> Self {
        rng.below(1000) as f64 / 1000.0
    }
}

impl Sample for bool {
    fn sample(rng: &mut Rng) -> Self {
        rng.chance(1, 2)
    }
}

impl Sample for String {
    fn sample(rng: &mut Rng) -> Self {
        (0..rng.below(12)).map(|_| char::from(b'a' + rng.below(26) as u8)).collect()
    }
}

impl<T: Sample> Sample for Vec<T> {
    fn sample(rng: &mut Rng) -> Self {
        (0..rng.below(4)).map(|_| T::sample(rng)).collect()
    }
}

impl<const N: usize> Sample for [u8; N] {
    fn sample(rng: &mut Rng) -> Self {
        let mut out = [0; N];
        rng.fill(&mut out);
        out
    }
}

impl<K: Sample + Ord, V: Sample> Sample for BTreeMap<K, V> {
    fn sample(rng: &mut Rng) -> Self {
        (0..rng.below(4)).map(|_| (K::sample(rng), V::sample(rng))).collect()
    }
}

impl<K: Sample + Ord, V: Sample> Sample for SortedMap<K, V> {
    fn sample(rng: &mut Rng) -> Self {
        BTreeMap::sample(rng).into_iter().collect()
    }
}

impl<T: Sample + ConstDefault> Sample for Rare<T> {
    fn sample(rng: &mut Rng) -> Self {
        T::sample(rng).into()
    }
}

impl<T: Sample + ConstDefault> Sample for Shared<T> {
    fn sample(rng: &mut Rng) -> Self {
        T::sample(rng).into()
    }
}

impl<T: Sample + Ord> Sample for BTreeSet<T> {
    fn sample(rng: &mut Rng) -> Self {
        (0..rng.below(4)).map(|_| T::sample(rng)).collect()
    }
}

impl<A: Sample, B: Sample> Sample for (A, B) {
    fn sample(rng: &mut Rng) -> Self {
        (A::sample(rng), B::sample(rng))
    }
}

impl<T: Sample> Sample for Option<T> {
    fn sample(rng: &mut Rng) -> Self {
        rng.chance(1, 2).then(|| T::sample(rng))
    }
}

impl<T: Sample> Sample for Box<T> {
    fn sample(rng: &mut Rng) -> Self {
        Self::new(T::sample(rng))
    }
}

impl<T: Sample> Sample for std::sync::Arc<T> {
    fn sample(rng: &mut Rng) -> Self {
        Self::new(T::sample(rng))
    }
}

impl Sample for Buf {
    fn sample(rng: &mut Rng) -> Self {
        Self::from(Vec::<u8>::sample(rng))
    }
}

impl Sample for Bufs {
    fn sample(rng: &mut Rng) -> Self {
        Buf::sample(rng).into()
    }
}

impl Sample for Utime {
    fn sample(rng: &mut Rng) -> Self {
        Self { sec: rng.u32(), nsec: rng.below(1_000_000_000) as u32 }
    }
}

impl Sample for Timespec {
    fn sample(rng: &mut Rng) -> Self {
        Self { sec: rng.u32(), nsec: rng.below(1_000_000_000) as u32 }
    }
}

impl Sample for Uuid {
    fn sample(rng: &mut Rng) -> Self {
        Self(Sample::sample(rng))
    }
}

impl Sample for EntityType {
    fn sample(rng: &mut Rng) -> Self {
        *rng.pick(&[Self::MON, Self::MDS, Self::OSD, Self::CLIENT])
    }
}

impl Sample for EntityName {
    fn sample(rng: &mut Rng) -> Self {
        Self { ty: Sample::sample(rng), id: Sample::sample(rng) }
    }
}

impl Sample for EntityId {
    fn sample(rng: &mut Rng) -> Self {
        Self { ty: Sample::sample(rng), num: rng.below(1 << 40) as i64 }
    }
}

impl Sample for EntityAddr {
    fn sample(rng: &mut Rng) -> Self {
        let octets: [u8; 4] = Sample::sample(rng);
        Self {
            ty: *rng.pick(&[AddrType::MSGR2, AddrType::LEGACY]),
            nonce: rng.u32(),
            addr: Some(std::net::SocketAddr::from((octets, rng.u32() as u16))),
        }
    }
}

impl Sample for AddrVec {
    fn sample(rng: &mut Rng) -> Self {
        Self(Sample::sample(rng))
    }
}

//! [`Encode`] and [`Decode`] of integers, strings and containers.

use crate::{DecodeError, Reader, Writer};
use std::collections::{BTreeMap, BTreeSet};
use stdx::{Buf, Bufs, ConstDefault, Rare, Shared, SortedMap};

/// A value with one binary form.
pub trait Encode {
    /// Appends the value.
    fn encode(&self, w: &mut Writer);
    /// Appends the elements of a slice, without a count.
    fn encode_slice(items: &[Self], w: &mut Writer)
    where
        Self: Sized,
    {
        items.iter().for_each(|item| item.encode(w));
    }
}

/// A value that can be read from untrusted bytes.
pub trait Decode: Sized {
    /// The fewest bytes that an encoding takes; bounds what a count may announce.
    const MIN_SIZE: usize = 1;
    /// Reads one value.
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError>;
    /// Reads `n` values.
    fn decode_vec(r: &mut Reader<'_>, n: usize) -> Result<Vec<Self>, DecodeError> {
        // `n` is bounded by the bytes present, but an element may be larger in memory than on the wire.
        let mut out = Vec::with_capacity(n.min(4096));
        for _ in 0..n {
            out.push(Self::decode(r)?);
        }
        Ok(out)
    }
}

impl Writer {
    /// The encoding of one value.
    pub fn encode<T: Encode + ?Sized>(value: &T) -> Vec<u8> {
        let mut w = Self::new();
        w.put(value);
        w.into_vec()
    }

    /// Appends a value.
    pub fn put<T: Encode + ?Sized>(&mut self, value: &T) {
        value.encode(self);
    }
}

impl Reader<'_> {
    /// The next value.
    pub fn get<T: Decode>(&mut self) -> Result<T, DecodeError> {
        T::decode(self)
    }
}

/// The fields of a structure or message without any header: the code that `wire_structs!` generates, and a
/// message's front, whose version is in the message's header.
pub trait Fields: Sized {
    /// Appends all fields, in the newest version that we write.
    fn encode_fields(&self, w: &mut Writer);
    /// Reads the fields that `version` has; those that it lacks get their default.
    fn decode_fields(r: &mut Reader<'_>, version: u16) -> Result<Self, DecodeError>;
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl Encode for $t {
            fn encode(&self, w: &mut Writer) {
                w.raw(&self.to_le_bytes());
            }
        }
        impl Decode for $t {
            const MIN_SIZE: usize = size_of::<$t>();
            fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
                r.array().map(<$t>::from_le_bytes)
            }
        }
    )*};
}
integers!(u16 u32 u64 u128 i8 i16 i32 i64 f32 f64);

impl Encode for u8 {
    fn encode(&self, w: &mut Writer) {
        w.raw(&[*self]);
    }
    fn encode_slice(items: &[Self], w: &mut Writer) {
        w.raw(items);
    }
}

impl Decode for u8 {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.array::<1>().map(|[b]| b)
    }
    fn decode_vec(r: &mut Reader<'_>, n: usize) -> Result<Vec<Self>, DecodeError> {
        r.take(n).map(<[u8]>::to_vec)
    }
}

impl Encode for bool {
    fn encode(&self, w: &mut Writer) {
        w.raw(&[u8::from(*self)]);
    }
}

impl Decode for bool {
    /// Any byte but 0 is true, as in Ceph.
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(u8::decode(r)? != 0)
    }
}

impl Encode for str {
    fn encode(&self, w: &mut Writer) {
        w.blob(self.as_bytes());
    }
}

impl Encode for String {
    fn encode(&self, w: &mut Writer) {
        self.as_str().encode(w);
    }
}

impl Decode for String {
    const MIN_SIZE: usize = 4;
    /// Names that need not be UTF-8 (objects, dentries, keys of maps) are `Vec<u8>`, which has the same form.
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let bytes = r.blob()?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(e) => Err(r.error(format!("a string that is not UTF-8: {e}"))),
        }
    }
}

impl<T: Encode> Encode for [T] {
    fn encode(&self, w: &mut Writer) {
        w.count(self.len());
        T::encode_slice(self, w);
    }
}

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, w: &mut Writer) {
        self.as_slice().encode(w);
    }
}

impl<T: Decode> Decode for Vec<T> {
    const MIN_SIZE: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let n = r.count(T::MIN_SIZE)?;
        T::decode_vec(r, n)
    }
}

impl<const N: usize> Encode for [u8; N] {
    fn encode(&self, w: &mut Writer) {
        w.raw(self);
    }
}

impl<const N: usize> Decode for [u8; N] {
    const MIN_SIZE: usize = N;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.array()
    }
}

impl<K: Encode, V: Encode> Encode for BTreeMap<K, V> {
    fn encode(&self, w: &mut Writer) {
        w.count(self.len());
        for (k, v) in self {
            w.put(k);
            w.put(v);
        }
    }
}

impl<K: Decode + Ord, V: Decode> Decode for BTreeMap<K, V> {
    const MIN_SIZE: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let n = r.count(K::MIN_SIZE + V::MIN_SIZE)?;
        (0..n).map(|_| Ok((K::decode(r)?, V::decode(r)?))).collect()
    }
}

impl<K: Encode, V: Encode> Encode for SortedMap<K, V> {
    fn encode(&self, w: &mut Writer) {
        w.count(self.len());
        for (k, v) in self.iter() {
            w.put(k);
            w.put(v);
        }
    }
}

impl<K: Decode + Ord, V: Decode> Decode for SortedMap<K, V> {
    const MIN_SIZE: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        // A stranger's entries may be in any order.
        r.get::<BTreeMap<K, V>>().map(|map| map.into_iter().collect())
    }
}

impl<T: Encode + ConstDefault> Encode for Rare<T> {
    fn encode(&self, w: &mut Writer) {
        w.put(&**self);
    }
}

impl<T: Decode + ConstDefault> Decode for Rare<T> {
    const MIN_SIZE: usize = T::MIN_SIZE;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.get::<T>().map(Self::from)
    }
}

impl<T: Encode + ConstDefault> Encode for Shared<T> {
    fn encode(&self, w: &mut Writer) {
        w.put(&**self);
    }
}

impl<T: Decode + ConstDefault> Decode for Shared<T> {
    const MIN_SIZE: usize = T::MIN_SIZE;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.get::<T>().map(Self::from)
    }
}

impl<T: Encode> Encode for BTreeSet<T> {
    fn encode(&self, w: &mut Writer) {
        w.count(self.len());
        self.iter().for_each(|item| item.encode(w));
    }
}

impl<T: Decode + Ord> Decode for BTreeSet<T> {
    const MIN_SIZE: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let n = r.count(T::MIN_SIZE)?;
        (0..n).map(|_| T::decode(r)).collect()
    }
}

impl<A: Encode, B: Encode> Encode for (A, B) {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.0);
        w.put(&self.1);
    }
}

impl<A: Decode, B: Decode> Decode for (A, B) {
    const MIN_SIZE: usize = A::MIN_SIZE + B::MIN_SIZE;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok((A::decode(r)?, B::decode(r)?))
    }
}

/// A u8 that is 1 if a value follows.
impl<T: Encode> Encode for Option<T> {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.is_some());
        if let Some(value) = self {
            w.put(value);
        }
    }
}

impl<T: Decode> Decode for Option<T> {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        if r.get::<bool>()? { T::decode(r).map(Some) } else { Ok(None) }
    }
}

impl Encode for Buf {
    fn encode(&self, w: &mut Writer) {
        w.blob(self);
    }
}

impl Decode for Buf {
    const MIN_SIZE: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.blob().map(Self::copy_from)
    }
}

impl Encode for Bufs {
    fn encode(&self, w: &mut Writer) {
        w.count(self.len());
        self.parts().iter().for_each(|part| w.raw(part));
    }
}

impl Decode for Bufs {
    const MIN_SIZE: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Buf::decode(r).map(Self::from)
    }
}

impl<T: Encode + ?Sized> Encode for &T {
    fn encode(&self, w: &mut Writer) {
        (**self).encode(w);
    }
}

impl<T: Encode> Encode for Box<T> {
    fn encode(&self, w: &mut Writer) {
        (**self).encode(w);
    }
}

impl<T: Decode> Decode for Box<T> {
    const MIN_SIZE: usize = T::MIN_SIZE;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        T::decode(r).map(Self::new)
    }
}

impl<T: Encode> Encode for std::sync::Arc<T> {
    fn encode(&self, w: &mut Writer) {
        (**self).encode(w);
    }
}

impl<T: Decode> Decode for std::sync::Arc<T> {
    const MIN_SIZE: usize = T::MIN_SIZE;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        T::decode(r).map(Self::new)
    }
}

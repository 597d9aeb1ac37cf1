//! Names of objects in the order in which PGs hold and list them.

use crate::SnapId;
use std::cmp::Ordering;
use stdx::Rng;
use wire::{Decode, DecodeError, Encode, Reader, Sample, Writer};

/// The pool of the smallest object name.
pub const POOL_MIN: i64 = i64::MIN;

/// An object's full name, `hobject_t`. Ordered bitwise: by pool, then by the bit-reversed hash, so that a PG
/// is one range also after it splits.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct HObject {
    /// The locator key, hashed instead of the name; empty if the name is hashed.
    pub key: Vec<u8>,
    /// The object's name.
    pub name: Vec<u8>,
    /// The snapshot.
    pub snap: SnapId,
    /// The hash that places it.
    pub hash: u32,
    /// The marker behind all objects; everything else is then default.
    pub max: bool,
    /// Namespace.
    pub ns: Vec<u8>,
    /// Pool id.
    pub pool: i64,
}

/// The smallest name.
impl Default for HObject {
    fn default() -> Self {
        Self {
            key: Vec::new(),
            name: Vec::new(),
            snap: SnapId(0),
            hash: 0,
            max: false,
            ns: Vec::new(),
            pool: POOL_MIN,
        }
    }
}

impl HObject {
    /// The marker behind all objects.
    pub fn max() -> Self {
        Self { max: true, ..Self::default() }
    }

    /// The head object with this name; the hash is that of its namespace and key, or name.
    pub fn head(pool: i64, ns: &[u8], key: &[u8], name: &[u8]) -> Self {
        let hash = crate::object_hash(ns, if key.is_empty() { name } else { key });
        let key = if key == name { Vec::new() } else { key.to_vec() };
        Self { key, name: name.to_vec(), snap: SnapId::HEAD, hash, max: false, ns: ns.to_vec(), pool }
    }

    /// True if it is the smallest name of all.
    pub fn is_min(&self) -> bool {
        *self == Self::default()
    }

    /// The hash as the order sees it.
    pub fn bitwise_key(&self) -> u64 {
        if self.max { 1 << 32 } else { u64::from(self.hash.reverse_bits()) }
    }

    fn effective_key(&self) -> &[u8] {
        if self.key.is_empty() { &self.name } else { &self.key }
    }
}

impl Ord for HObject {
    fn cmp(&self, other: &Self) -> Ordering {
        let keys = || match self.key.is_empty() && other.key.is_empty() {
            true => Ordering::Equal,
            false => self.effective_key().cmp(other.effective_key()),
        };
        (self.max.cmp(&other.max))
            .then_with(|| self.pool.cmp(&other.pool))
            .then_with(|| self.bitwise_key().cmp(&other.bitwise_key()))
            .then_with(|| self.ns.cmp(&other.ns))
            .then_with(keys)
            .then_with(|| self.name.cmp(&other.name))
            .then_with(|| self.snap.cmp(&other.snap))
            // Ceph's order ends here; names that differ only in an empty or a repeated key must still differ.
            .then_with(|| self.key.cmp(&other.key))
    }
}

impl PartialOrd for HObject {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Encode for HObject {
    fn encode(&self, w: &mut Writer) {
        w.versioned(4, 3, |w| {
            w.put(&self.key);
            w.put(&self.name);
            w.put(&self.snap);
            w.put(&self.hash);
            w.put(&self.max);
            w.put(&self.ns);
            w.put(&self.pool);
        });
    }
}

impl Decode for HObject {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned(4, |v, r| {
            let (key, name): (Vec<u8>, Vec<u8>) = (r.get()?, r.get()?);
            let (snap, hash, max): (SnapId, u32, bool) = (r.get()?, r.get()?, r.get()?);
            let (ns, mut pool) = if v >= 4 { (r.get()?, r.get()?) } else { (Vec::new(), POOL_MIN) };
            let bare = SnapId(0) == snap && hash == 0 && !max;
            if pool == -1 && bare && name.is_empty() {
                pool = POOL_MIN; // how releases before Infernalis wrote the smallest name
            }
            // The marker equals no other name only while nothing else is set.
            if max { Ok(Self::max()) } else { Ok(Self { key, name, snap, hash, max, ns, pool }) }
        })
    }
}

impl Sample for HObject {
    fn sample(rng: &mut Rng) -> Self {
        if rng.chance(1, 8) {
            return Self::max();
        }
        let name = String::sample(rng);
        let key = if rng.chance(1, 4) { String::sample(rng) } else { String::new() };
        let ns = if rng.chance(1, 4) { String::sample(rng) } else { String::new() };
        let snap = if rng.chance(1, 4) { Sample::sample(rng) } else { SnapId::HEAD };
        Self { snap, ..Self::head(rng.below(9) as i64, ns.as_bytes(), key.as_bytes(), name.as_bytes()) }
    }
}

/// The locator of an object, `object_locator_t`: the parts beside its name that place it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectLocator {
    /// Pool id.
    pub pool: i64,
    /// Hashed instead of the name, if not empty.
    pub key: Vec<u8>,
    /// Namespace.
    pub ns: Vec<u8>,
    /// The hash itself, if not -1.
    pub hash: i64,
}

impl Default for ObjectLocator {
    fn default() -> Self {
        Self { pool: -1, key: Vec::new(), ns: Vec::new(), hash: -1 }
    }
}

impl ObjectLocator {
    /// An object in a namespace, hashed by its name.
    pub fn new(pool: i64, ns: impl Into<Vec<u8>>) -> Self {
        Self { pool, ns: ns.into(), ..Self::default() }
    }

    /// The hash of an object with this name.
    pub fn hash_of(&self, name: &[u8]) -> u32 {
        match self.hash {
            -1 => crate::object_hash(&self.ns, if self.key.is_empty() { name } else { &self.key }),
            hash => hash as u32,
        }
    }
}

impl Encode for ObjectLocator {
    fn encode(&self, w: &mut Writer) {
        // A reader that does not know the hash would look in the wrong place.
        let compat = if self.hash == -1 { 3 } else { 6 };
        w.versioned(6, compat, |w| {
            w.put(&self.pool);
            w.put(&-1i32); // once the preferred OSD
            w.put(&self.key);
            w.put(&self.ns);
            w.put(&self.hash);
        });
    }
}

impl Decode for ObjectLocator {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned(6, |v, r| {
            let pool = if v < 2 { i64::from(r.get::<i32>()?) } else { r.get()? };
            let _preferred: [u8; 4] = if v < 2 { [0; 4] } else { r.get()? };
            let key = r.get()?;
            let ns = if v >= 5 { r.get()? } else { Vec::new() };
            let hash = if v >= 6 { r.get()? } else { -1 };
            Ok(Self { pool, key, ns, hash })
        })
    }
}

impl Sample for ObjectLocator {
    fn sample(rng: &mut Rng) -> Self {
        Self {
            pool: rng.below(9) as i64,
            key: String::sample(rng).into_bytes(),
            ns: String::sample(rng).into_bytes(),
            hash: if rng.chance(1, 4) { i64::from(rng.u32()) } else { -1 },
        }
    }
}

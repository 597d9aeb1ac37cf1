//! Keys of the index: byte strings whose order is the order of what they name.
//!
//! | first byte | then | value |
//! |---|---|---|
//! | `B` | blob id u64, chunk u32 | a part of a value that is too long for a page |
//! | `F` | chunk of 4096 blocks u64 | which of them hold data |
//! | `G` | id u64 | an object or omap to be forgotten, bit by bit |
//! | `M` | omap id u64, omap key | cell |
//! | `O` | object key | onode |
//! | `R` | chunk of 64 blocks u64 | extra references of shared blocks |
//! | `X` | object id u64, `a`, xattr name | cell |
//! | `X` | object id u64, `d` | cell: the data of a small object |
//! | `X` | object id u64, `e`, first block u64 | extent |
//! | `X` | object id u64, `h` | cell: the omap header |
//!
//! All integers are big-endian, so that they order as bytes.

use crate::api::ObjectKey;
use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;

/// Keys of at most this many bytes are kept in place: all but those of objects and of omap entries with long
/// names.
const SHORT: usize = 38;
/// The bytes that are compared before any others.
const HEAD: usize = 16;

/// A key in memory. Tables compare keys all the time, so neither finding one nor comparing it with most
/// others needs more memory than where it lies itself: it holds what is short, and the head of what is long.
#[derive(Clone)]
pub(crate) enum Key {
    Short { len: u8, bytes: [u8; SHORT] },
    Long { head: [u8; HEAD], bytes: Box<[u8]> },
}

impl Key {
    /// The least key.
    pub fn new() -> Self {
        Self::of([])
    }

    /// These parts in a row.
    pub fn of<const N: usize>(parts: [&[u8]; N]) -> Self {
        let len = parts.iter().map(|part| part.len()).sum::<usize>();
        if len > SHORT {
            return Self::long(parts.concat());
        }
        let (mut bytes, mut at) = ([0; SHORT], 0);
        for part in parts {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        Self::Short { len: len as u8, bytes }
    }

    fn long(bytes: Vec<u8>) -> Self {
        let head = *bytes.first_chunk().expect("it is long");
        Self::Long { head, bytes: bytes.into() }
    }

    /// The first bytes as a number; what a shorter key lacks counts as zeros, so that who has a lesser head
    /// is less.
    fn head(&self) -> u128 {
        u128::from_be_bytes(match self {
            Self::Short { bytes, .. } => *bytes.first_chunk().expect("there are more"),
            Self::Long { head, .. } => *head,
        })
    }
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Short { len, bytes } => &bytes[..usize::from(*len)],
            Self::Long { bytes, .. } => bytes,
        }
    }
}

impl From<Vec<u8>> for Key {
    fn from(bytes: Vec<u8>) -> Self {
        if bytes.len() > SHORT { Self::long(bytes) } else { Self::of([&bytes]) }
    }
}

impl From<&[u8]> for Key {
    fn from(bytes: &[u8]) -> Self {
        Self::of([bytes])
    }
}

impl Default for Key {
    fn default() -> Self {
        Self::new()
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.head().cmp(&other.head()).then_with(|| self[..].cmp(&other[..]))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

impl Eq for Key {}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self[..].fmt(f)
    }
}

/// The longest key that a page must hold (three of them fit).
pub(crate) const KEY_MAX: usize = 2600;

pub(crate) fn prefixed(tag: u8, id: u64) -> Key {
    Key::of([&[tag], &id.to_be_bytes()])
}

pub(crate) fn blob(id: u64, chunk: u32) -> Key {
    Key::of([b"B", &id.to_be_bytes(), &chunk.to_be_bytes()])
}

pub(crate) fn space(chunk: u64) -> Key {
    prefixed(b'F', chunk)
}

pub(crate) fn garbage(omap: u64) -> Key {
    prefixed(b'G', omap)
}

pub(crate) fn refs(chunk: u64) -> Key {
    prefixed(b'R', chunk)
}

pub(crate) fn omap(id: u64, key: &[u8]) -> Key {
    Key::of([b"M", &id.to_be_bytes(), key])
}

pub(crate) fn part(id: u64) -> Key {
    prefixed(b'X', id)
}

pub(crate) fn attr(id: u64, name: &[u8]) -> Key {
    Key::of([b"X", &id.to_be_bytes(), b"a", name])
}

pub(crate) fn extent(id: u64, block: u64) -> Key {
    Key::of([b"X", &id.to_be_bytes(), b"e", &block.to_be_bytes()])
}

/// Data that is kept in the index.
pub(crate) fn inline(id: u64) -> Key {
    Key::of([b"X", &id.to_be_bytes(), b"d"])
}

/// True if it is the key of an extent.
pub(crate) fn is_extent(key: &[u8]) -> bool {
    key.first() == Some(&b'X') && key.get(9) == Some(&b'e')
}

pub(crate) fn header(id: u64) -> Key {
    Key::of([b"X", &id.to_be_bytes(), b"h"])
}

/// The key that follows this one.
pub(crate) fn after(key: &[u8]) -> Key {
    Key::of([key, &[0]])
}

/// A key under another id.
pub(crate) fn rebased(key: &[u8], id: u64) -> Key {
    Key::of([&key[..1], &id.to_be_bytes(), &key[9..]])
}

/// The bytes before the name in keys of xattrs and omap entries; also the offset of the block in an extent's
/// key.
pub(crate) const ATTR_NAME_AT: usize = 10;
pub(crate) const OMAP_KEY_AT: usize = 9;

/// The u64 at `at`, where the key is long enough.
pub(crate) fn number(key: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(at..at + 8)?.try_into().ok()?))
}

/// The id that this is under, or that it names; none if it is under no id.
pub(crate) fn id(key: &[u8]) -> Option<u64> {
    matches!(key.first()?, b'B' | b'G' | b'M' | b'X').then(|| number(key, 1)).flatten()
}

/// The smallest key greater than all that begin with `prefix`, which must not be all 0xff.
pub(crate) fn end_of(prefix: &[u8]) -> Key {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end.into();
        }
    }
    unreachable!("every key begins with a letter")
}

/// A byte string that orders before all longer ones that begin with it, whatever follows: a zero is written
/// as 00 ff, the end as 00 01.
fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    for (i, part) in bytes.split(|byte| *byte == 0).enumerate() {
        if i > 0 {
            out.extend_from_slice(&[0, 0xff]);
        }
        out.extend_from_slice(part);
    }
    out.extend_from_slice(&[0, 1]);
}

/// The length of what [`put_string`] makes.
fn string_len(bytes: &[u8]) -> usize {
    bytes.len() + bytes.iter().filter(|byte| **byte == 0).count() + 2
}

fn take_string<'a>(bytes: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    let mut at = 0;
    loop {
        match (*bytes.get(at)?, bytes.get(at + 1)) {
            (0, Some(0xff)) => {
                out.push(0);
                at += 2;
            }
            (0, Some(1)) => return Some(&bytes[at + 2..]),
            (0, _) => return None,
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
}

/// The length of an object's key.
pub(crate) fn object_len(key: &ObjectKey) -> usize {
    30 + string_len(&key.namespace) + string_len(&key.locator) + string_len(&key.name)
}

pub(crate) fn object(key: &ObjectKey) -> Key {
    let mut out = Vec::with_capacity(object_len(key));
    out.push(b'O');
    out.extend_from_slice(&((key.pool as u64) ^ (1 << 63)).to_be_bytes());
    out.push((key.shard as u8) ^ 0x80);
    out.extend_from_slice(&key.hash.reverse_bits().to_be_bytes());
    put_string(&mut out, &key.namespace);
    put_string(&mut out, &key.locator);
    put_string(&mut out, &key.name);
    out.extend_from_slice(&key.snap.to_be_bytes());
    out.extend_from_slice(&key.generation.to_be_bytes());
    out.into()
}

pub(crate) fn parse_object(bytes: &[u8]) -> Option<ObjectKey> {
    let rest = bytes.strip_prefix(b"O")?;
    let (pool, rest) = rest.split_first_chunk::<8>()?;
    let (shard, rest) = rest.split_first()?;
    let (hash, rest) = rest.split_first_chunk::<4>()?;
    let mut strings = [Vec::new(), Vec::new(), Vec::new()];
    let mut rest = rest;
    for string in &mut strings {
        rest = take_string(rest, string)?;
    }
    let (snap, rest) = rest.split_first_chunk::<8>()?;
    let generation: [u8; 8] = rest.try_into().ok()?;
    let [namespace, locator, name] = strings;
    Some(ObjectKey {
        pool: (u64::from_be_bytes(*pool) ^ (1 << 63)) as i64,
        shard: (shard ^ 0x80) as i8,
        hash: u32::from_be_bytes(*hash).reverse_bits(),
        namespace,
        locator,
        name,
        snap: u64::from_be_bytes(*snap),
        generation: u64::from_be_bytes(generation),
    })
}

/// An object's name for error texts.
pub(crate) fn describe(key: &ObjectKey) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let snap = if key.snap == ObjectKey::HEAD { "head".to_owned() } else { format!("snap {}", key.snap) };
    let namespace =
        if key.namespace.is_empty() { String::new() } else { format!("{}/", text(&key.namespace)) };
    format!("object {}:{:08x}:{namespace}{} ({snap})", key.pool, key.hash, text(&key.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::Rng;

    fn random(rng: &mut Rng) -> ObjectKey {
        let mut string = |max: u64| -> Vec<u8> {
            (0..rng.below(max)).map(|_| *rng.pick(&[0u8, 1, 2, b'a', 0xfe, 0xff])).collect()
        };
        let (namespace, locator, name) = (string(3), string(3), string(5));
        ObjectKey {
            pool: *rng.pick(&[i64::MIN, -1, 0, 1, i64::MAX]),
            shard: *rng.pick(&[-128, -1, 0, 1, 127]),
            hash: *rng.pick(&[0, 1, 0x8000_0000, u32::MAX]),
            namespace,
            locator,
            name,
            snap: *rng.pick(&[0, 1, ObjectKey::HEAD, u64::MAX]),
            generation: *rng.pick(&[0, 5, ObjectKey::NO_GENERATION]),
        }
    }

    #[test]
    fn bytes_order_as_the_keys_do_and_come_back() {
        let mut rng = Rng::from_seed(1);
        let mut same = 0;
        for _ in 0..20_000 {
            let (a, mut b) = (random(&mut rng), random(&mut rng));
            if rng.chance(3, 4) {
                // Differ in the strings only, where the escaping matters.
                b = ObjectKey { pool: a.pool, shard: a.shard, hash: a.hash, snap: a.snap, ..b };
            }
            let (x, y) = (object(&a), object(&b));
            assert_eq!(x.cmp(&y), a.cmp(&b), "{a:?} {b:?}");
            assert_eq!(parse_object(&x), Some(a.clone()));
            assert_eq!(x.len(), object_len(&a));
            same += usize::from(a == b);
        }
        assert!(same > 0, "equal keys were met too");
    }

    #[test]
    fn keys_in_memory_order_as_their_bytes_do() {
        let mut rng = Rng::from_seed(2);
        // Around the ends of what is compared first and of what is kept in place.
        let lens = [0, 1, HEAD - 1, HEAD, HEAD + 1, SHORT - 1, SHORT, SHORT + 1, 100];
        let mut heads = 0;
        for _ in 0..20_000 {
            let mut a = vec![0; *rng.pick(&lens)];
            let mut b = vec![0; *rng.pick(&lens)];
            for bytes in [&mut a, &mut b] {
                for _ in 0..rng.below(3) {
                    if !bytes.is_empty() {
                        let at = rng.below(bytes.len() as u64) as usize;
                        bytes[at] = *rng.pick(&[1, 0xff]);
                    }
                }
            }
            let (x, y) = (Key::from(&a[..]), Key::from(b.clone()));
            assert_eq!((&x[..], &y[..]), (&a[..], &b[..]));
            assert_eq!((x.cmp(&y), x == y), (a.cmp(&b), a == b), "{a:?} {b:?}");
            heads += usize::from(x.head() == y.head() && a != b);
        }
        assert!(heads > 2000, "only {heads} differed behind their heads");
    }

    #[test]
    fn damaged_object_keys_are_refused() {
        let bytes = object(&ObjectKey::head(3, 7, b"n", b"", b"name"));
        for cut in 0..bytes.len() {
            assert_eq!(parse_object(&bytes[..cut]), None, "{cut}");
        }
        assert_eq!(end_of(&[b'a', 0xff, 0xff])[..], *b"b");
    }
}

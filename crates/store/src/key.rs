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

use crate::ObjectKey;

pub(crate) type Key = Vec<u8>;

/// The longest key that a page must hold (three of them fit).
pub(crate) const KEY_MAX: usize = 2600;

pub(crate) fn prefixed(tag: u8, id: u64) -> Key {
    let mut key = Vec::with_capacity(24);
    key.push(tag);
    key.extend_from_slice(&id.to_be_bytes());
    key
}

pub(crate) fn blob(id: u64, chunk: u32) -> Key {
    let mut key = prefixed(b'B', id);
    key.extend_from_slice(&chunk.to_be_bytes());
    key
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
    let mut out = Vec::with_capacity(OMAP_KEY_AT + key.len());
    out.push(b'M');
    out.extend_from_slice(&id.to_be_bytes());
    out.extend_from_slice(key);
    out
}

pub(crate) fn part(id: u64) -> Key {
    prefixed(b'X', id)
}

pub(crate) fn attr(id: u64, name: &[u8]) -> Key {
    let mut out = part(id);
    out.push(b'a');
    out.extend_from_slice(name);
    out
}

pub(crate) fn extent(id: u64, block: u64) -> Key {
    let mut out = part(id);
    out.push(b'e');
    out.extend_from_slice(&block.to_be_bytes());
    out
}

/// Data that is kept in the index.
pub(crate) fn inline(id: u64) -> Key {
    let mut out = part(id);
    out.push(b'd');
    out
}

/// Whether it is the key of an extent.
pub(crate) fn is_extent(key: &[u8]) -> bool {
    key.first() == Some(&b'X') && key.get(9) == Some(&b'e')
}

pub(crate) fn header(id: u64) -> Key {
    let mut out = part(id);
    out.push(b'h');
    out
}

/// The bytes before the name in keys of xattrs and omap entries; also the offset of the block in an extent's key.
pub(crate) const ATTR_NAME_AT: usize = 10;
pub(crate) const OMAP_KEY_AT: usize = 9;

/// The u64 at `at`, where the key is long enough.
pub(crate) fn number(key: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(at..at + 8)?.try_into().ok()?))
}

/// The smallest key greater than all that begin with `prefix`, which must not be all 0xff.
pub(crate) fn end_of(prefix: &[u8]) -> Key {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end;
        }
    }
    unreachable!("every key begins with a letter")
}

/// A byte string that orders before all longer ones that begin with it, whatever follows: a zero is written as
/// 00 ff, the end as 00 01.
fn put_string(out: &mut Key, bytes: &[u8]) {
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
    out
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
    fn damaged_object_keys_are_refused() {
        let bytes = object(&ObjectKey::head(3, 7, b"n", b"", b"name"));
        for cut in 0..bytes.len() {
            assert_eq!(parse_object(&bytes[..cut]), None, "{cut}");
        }
        assert_eq!(end_of(&[b'a', 0xff, 0xff]), b"b");
    }
}

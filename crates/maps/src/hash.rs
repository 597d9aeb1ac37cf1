//! From a name to a placement seed (docs/protocol.md 4.3, steps 1 and 2). The hash is Robert Jenkins' of
//! 1996, in the public domain (<https://burtleburtle.net/bob/hash/evahash.html>); directory entries are
//! hashed by it too.

/// Separates namespace and name in what is hashed.
const NS_SEPARATOR: u8 = 0x1f;

fn mix([mut a, mut b, mut c]: [u32; 3]) -> [u32; 3] {
    for (right, left, last) in [(13, 8, 13), (12, 16, 5), (3, 10, 15)] {
        a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> right);
        b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << left);
        c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> last);
    }
    [a, b, c]
}

/// The hash of a string.
pub fn ceph_str_hash_rjenkins(text: &[u8]) -> u32 {
    let mut state = [0x9e37_79b9, 0x9e37_79b9, 0];
    let (blocks, rest) = text.as_chunks::<12>();
    for block in blocks {
        state = mix(plus(state, block));
    }
    // The last word's lowest byte belongs to the length.
    let mut last = [0; 12];
    let (low, high) = rest.split_at(rest.len().min(8));
    last[..low.len()].copy_from_slice(low);
    last[9..9 + high.len()].copy_from_slice(high);
    state[2] = state[2].wrapping_add(text.len() as u32);
    mix(plus(state, &last))[2]
}

/// Adds a block as three little-endian words.
fn plus(state: [u32; 3], block: &[u8; 12]) -> [u32; 3] {
    let word = |at: usize| u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
    [state[0].wrapping_add(word(0)), state[1].wrapping_add(word(4)), state[2].wrapping_add(word(8))]
}

/// The hash of an object: of its locator's key if it has one, else of its name, within its namespace.
pub fn object_hash(ns: &[u8], key_or_name: &[u8]) -> u32 {
    if ns.is_empty() {
        return ceph_str_hash_rjenkins(key_or_name);
    }
    ceph_str_hash_rjenkins(&[ns, &[NS_SEPARATOR], key_or_name].concat())
}

/// `hash` modulo `n`, defined so that growing `n` by one moves only the objects of one group. `mask` is the
/// next power of two, less one.
pub fn stable_mod(hash: u32, n: u32, mask: u32) -> u32 {
    if hash & mask < n { hash & mask } else { hash & (mask >> 1) }
}

/// The groups that split off from `group` when `new` groups replace `old`; none if there are fewer.
pub fn split_off(group: u32, old: u32, new: u32) -> impl Iterator<Item = u32> {
    let mask = stable_mod_mask(old);
    (old.max(1)..new).filter(move |part| stable_mod(*part, old, mask) == group)
}

/// The mask of [`stable_mod`] for `n` groups.
pub fn stable_mod_mask(n: u32) -> u32 {
    // In 64 bits, because the next power of two of more than 2^31 does not fit into 32.
    (u64::from(n.max(1)).next_power_of_two() - 1) as u32
}

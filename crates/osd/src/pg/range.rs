//! The keys of a PG's objects: a range, because keys are ordered by the reversed hash.

use maps::{PgId, Spg};
use store::ObjectKey;

/// Number of bits of an object's hash that place it in the PG `seed` of `pg_num`.
pub fn bits_of(seed: u32, pg_num: u32) -> u32 {
    let bits = pg_num.max(1).next_power_of_two().trailing_zeros();
    // If the number of PGs is no power of two, some have not split yet at the last bit.
    if bits > 0 && seed < 1 << (bits - 1) && seed + (1 << (bits - 1)) >= pg_num { bits - 1 } else { bits }
}

/// The keys of the objects of a PG's shard: a range, because keys are ordered by the reversed hash.
pub fn objects_of(id: Spg, pg_num: u32) -> (ObjectKey, ObjectKey) {
    let Spg { pgid: PgId { pool, seed }, shard } = id;
    let bits = bits_of(seed, pg_num);
    let first = seed.reverse_bits();
    let from = ObjectKey::first_at(pool, shard, first);
    let step = 1u64 << (32 - bits);
    let to = match (u32::try_from(u64::from(first) + step), shard.checked_add(1)) {
        (Ok(end), _) => ObjectKey::first_at(pool, shard, end),
        (Err(_), Some(next)) => ObjectKey::first_at(pool, next, 0),
        (Err(_), None) => ObjectKey::first_at(pool + 1, i8::MIN, 0),
    };
    (from, to)
}

/// The smallest key behind `key`.
pub fn successor(key: &ObjectKey) -> ObjectKey {
    if key.generation < u64::MAX {
        return ObjectKey { generation: key.generation + 1, ..key.clone() };
    }
    ObjectKey { snap: key.snap + 1, generation: 0, ..key.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::{stable_mod, stable_mod_mask};

    #[test]
    fn a_pg_is_the_range_of_the_keys_that_stable_mod_gives_it() {
        let mut rng = stdx::Rng::from_seed(5);
        for pg_num in [1, 2, 3, 8, 12, 13, 16, 100] {
            let ranges: Vec<_> =
                (0..pg_num).map(|seed| objects_of(Spg::replicated(PgId::new(4, seed)), pg_num)).collect();
            for _ in 0..500 {
                let hash = rng.u32();
                let key = ObjectKey::head(4, hash, b"", b"", b"x");
                let holds: Vec<u32> = (0..pg_num)
                    .filter(|s| ranges[*s as usize].0 <= key && key < ranges[*s as usize].1)
                    .collect();
                assert_eq!(
                    holds,
                    [stable_mod(hash, pg_num, stable_mod_mask(pg_num))],
                    "{hash:x} of {pg_num}"
                );
            }
        }
    }

    #[test]
    fn shards_of_a_pg_have_ranges_of_their_own() {
        let shard = |shard| objects_of(Spg { pgid: PgId::new(4, 0), shard }, 1);
        for (before, after) in [(-1, 0), (0, 1), (126, 127)] {
            assert_eq!(shard(before).1, shard(after).0);
        }
        assert_eq!(shard(i8::MAX).1, ObjectKey::first_at(5, i8::MIN, 0));
    }

    #[test]
    fn nothing_lies_between_a_key_and_its_successor() {
        let a = ObjectKey::head(1, 5, b"", b"", b"a");
        assert!(a < successor(&a) && successor(&a) < ObjectKey::head(1, 5, b"", b"", b"b"));
    }
}

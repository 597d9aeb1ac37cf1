//! Which directories a rank gives away: few and large ones, since each costs a migration, and then a subtree
//! that must be kept apart.

use crate::rank::popularity::Loads;
use fsfmt::Ino;

/// Directories that are given away at once.
const MOST: usize = 8;
/// A directory fits if its load is at most this many times what is to be given.
pub(super) const FITS: f64 = 1.1;
/// A directory with less than this part of what is to be given is not worth it.
const WORTH: f64 = 0.02;

/// Chooses directories with a load of `wanted` together, of those that may go; or one with up to `most`,
/// since that is better than none. None is part of another.
pub(super) fn choose(
    loads: &Loads,
    (wanted, most): (f64, f64),
    may_go: impl Fn(Ino) -> bool,
) -> Vec<(Ino, f64)> {
    let mut candidates = Vec::new();
    let mut left: Vec<Ino> = loads.roots.iter().copied().collect();
    while let Some(dir) = left.pop() {
        let load = loads.nested.get(&dir).copied().unwrap_or_default();
        if load < wanted * WORTH {
            continue;
        }
        if load <= most.max(wanted * FITS) && may_go(dir) {
            candidates.push((dir, load));
        } else {
            left.extend(loads.children.get(&dir).into_iter().flatten());
        }
    }
    candidates.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let mut room = wanted * FITS;
    let mut chosen = Vec::new();
    for (dir, load) in candidates {
        if chosen.len() < MOST && (load <= room || chosen.is_empty()) {
            room -= load;
            chosen.push((dir, load));
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loads of a tree: root 1, each of the others in the directory that is its number divided by 10.
    fn tree(own: &[(u64, f64)]) -> Loads {
        let mut loads = Loads::default();
        loads.roots.insert(Ino(1));
        for (dir, load) in own {
            let mut at = *dir;
            loop {
                *loads.nested.entry(Ino(at)).or_default() += load;
                if at == 1 {
                    break;
                }
                loads.children.entry(Ino(at / 10)).or_default().insert(Ino(at));
                at /= 10;
            }
        }
        loads
    }

    fn chosen(loads: &Loads, wanted: f64, stays: &[u64]) -> Vec<u64> {
        let may_go = |dir: Ino| dir != Ino(1) && !stays.contains(&dir.0);
        choose(loads, (wanted, wanted), may_go).into_iter().map(|(dir, _)| dir.0).collect()
    }

    #[test]
    fn the_largest_that_fits_goes_with_all_that_is_below_it() {
        let loads = tree(&[(11, 10.0), (111, 300.0), (112, 100.0), (12, 90.0), (13, 500.0)]);
        assert_eq!(chosen(&loads, 500.0, &[]), [13]);
        assert_eq!(chosen(&loads, 400.0, &[]), [11]);
        assert_eq!(chosen(&loads, 370.0, &[]), [111, 112], "11 is too large, 12 too with these two");
        assert_eq!(chosen(&loads, 400.0, &[11]), [111, 112], "what may not go stays, what is in it may go");
        assert!(chosen(&loads, 1.0, &[]).is_empty(), "nothing is as small as that");
        let may_go = |dir: Ino| dir == Ino(13);
        assert_eq!(choose(&loads, (300.0, 500.0), may_go), [(Ino(13), 500.0)]);
        assert_eq!(choose(&loads, (300.0, 499.0), may_go), []);
    }
}

//! Which rank gives how much of its load to which others. Each rank decides for itself, from what all have
//! told; they come to the same end, since they decide in the same way.

use maps::MdsRank;
use std::collections::BTreeMap;

/// A rank gives something away if its load is this many times the mean.
const TOLERATED: f64 = 1.15;

/// What `own` gives to others, in weighted requests a second: nothing unless its load exceeds the mean of all
/// by `least`. Those with the greatest loads give to those with the smallest ones.
pub(super) fn shares(loads: &BTreeMap<MdsRank, f64>, own: MdsRank, least: f64) -> Vec<(MdsRank, f64)> {
    let mean = loads.values().sum::<f64>() / loads.len().max(1) as f64;
    let mut sorted: Vec<(f64, MdsRank)> = loads.iter().map(|(rank, load)| (*load, *rank)).collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let gives = |load: f64| load > mean * TOLERATED && load - mean >= least;
    let givers = sorted.iter().rev().copied().filter(|(load, _)| gives(*load));
    let mut takers = sorted.iter().copied().filter(|(load, _)| *load < mean);
    let mut taker = takers.next().map(|(load, rank)| (mean - load, rank));
    let mut shares = Vec::new();
    for (load, giver) in givers {
        let mut excess = load - mean;
        while let Some((room, to)) = taker
            && excess > 0.0
        {
            let part = excess.min(room);
            if giver == own {
                shares.push((to, part));
            }
            excess -= part;
            taker = match room - part {
                left if left > 0.0 => Some((left, to)),
                _ => takers.next().map(|(load, rank)| (mean - load, rank)),
            };
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(loads: &[f64], own: i32) -> Vec<(i32, f64)> {
        let loads = loads.iter().enumerate().map(|(rank, load)| (MdsRank(rank as i32), *load)).collect();
        shares(&loads, MdsRank(own), 50.0).into_iter().map(|(rank, load)| (rank.0, load)).collect()
    }

    #[test]
    fn the_loaded_give_to_the_idle_until_all_have_the_mean() {
        assert_eq!(given(&[900.0, 0.0, 0.0], 0), [(1, 300.0), (2, 300.0)]);
        assert_eq!(given(&[900.0, 0.0, 0.0], 1), []);
        assert_eq!(given(&[700.0, 500.0, 0.0, 0.0], 0), [(2, 300.0), (3, 100.0)]);
        assert_eq!(given(&[700.0, 500.0, 0.0, 0.0], 1), [(3, 200.0)]);
    }

    #[test]
    fn nothing_is_given_while_loads_are_even_or_small() {
        assert_eq!(given(&[110.0, 90.0], 0), []);
        assert_eq!(given(&[1100.0, 1000.0], 0), []);
        assert_eq!(given(&[60.0, 0.0], 0), [], "less than 50 above the mean");
        assert_eq!(given(&[1000.0], 0), []);
        assert_eq!(given(&[0.0, 0.0], 0), []);
    }

    #[test]
    fn what_is_given_is_what_is_taken() {
        let mut rng = stdx::Rng::from_seed(1);
        for _ in 0..1000 {
            let count = 2 + rng.below(7);
            let loads: Vec<f64> = (0..count).map(|_| rng.below(2000) as f64).collect();
            let mean = loads.iter().sum::<f64>() / count as f64;
            let mut after = loads.clone();
            for own in 0..count as i32 {
                for (to, load) in given(&loads, own) {
                    after[own as usize] -= load;
                    after[to as usize] += load;
                }
            }
            for (before, after) in loads.iter().zip(&after) {
                let (low, high) = (before.min(mean) - 1e-6, before.max(mean) + 1e-6);
                assert!(
                    (low..=high).contains(after),
                    "{loads:?}: {before} becomes {after}, the mean is {mean}"
                );
            }
        }
    }
}

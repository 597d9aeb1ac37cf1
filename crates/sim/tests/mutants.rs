//! The simulator itself is proven: each of these faults, planted in one line of a role behind a switch that only tests have,
//! is caught within a bounded number of seeds, and by a checker that is meant to catch it.

use sim::run_seed;

/// Runs seeds with a mutant until one fails.
fn caught_by(mutant: &'static str, seeds: std::ops::Range<u64>) -> Option<(u64, &'static str)> {
    // A mutant may well make a role panic; that is a finding and no news.
    std::panic::set_hook(Box::new(|_| ()));
    stdx::mutants::with(mutant, || {
        seeds.into_iter().find_map(|seed| run_seed(seed).err().map(|failure| (seed, failure.checker)))
    })
}

macro_rules! mutants {
    ($($name:ident within $seeds:literal by $($checker:literal)|+;)*) => {
        $(
            #[test]
            fn $name() {
                let expected = [$($checker),+];
                match caught_by(stringify!($name), 0..$seeds) {
                    Some((seed, checker)) => assert!(expected.contains(&checker), "seed {seed}: caught by {checker}"),
                    None => panic!("not caught within {} seeds", $seeds),
                }
            }
        )*
    };
}

mutants! {
    osd_answers_before_replicas within 300 by "objects_linearizable" | "namespace_linearizable" | "replicas_identical";
}

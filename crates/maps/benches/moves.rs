//! Data moved by a change of a cluster, on 100 random clusters of 100 OSDs: `cargo bench -p maps --bench
//! moves`.

#[path = "../tests/support/clusters.rs"]
mod clusters;

use clusters::{CHANGES, Outcome, cluster, run};
use stdx::Rng;

const CLUSTERS: u64 = 100;
const PG_NUM: u32 = 4096;

fn main() {
    println!("{CLUSTERS} clusters of 100 OSDs, {PG_NUM} PGs of 3 copies");
    println!(
        "| change | least | moved / least: mean, worst | CRUSH alone: mean | spread: worst | CRUSH alone: mean | exceptions |"
    );
    println!("|---|---|---|---|---|---|---|");
    for change in CHANGES {
        let outcomes: Vec<Outcome> = (0..CLUSTERS)
            .map(|seed| {
                let mut rng = Rng::from_seed(seed);
                let map = cluster(&mut rng, PG_NUM);
                run(&mut rng, &map, change)
            })
            .collect();
        let mean = |of: &dyn Fn(&Outcome) -> f64| outcomes.iter().map(of).sum::<f64>() / CLUSTERS as f64;
        let worst = |of: &dyn Fn(&Outcome) -> f64| outcomes.iter().map(of).fold(0.0, f64::max);
        let ratio = |o: &Outcome| o.moved as f64 / o.least;
        println!(
            "| {change:?} | {:.0} | {:.3}, {:.3} | {:.2} | {:.2} PGs, {:.2} of what is allowed | {:.1} PGs | {:.0} PGs |",
            mean(&|o| o.least),
            mean(&ratio),
            worst(&ratio),
            mean(&|o| o.by_crush as f64 / o.least),
            worst(&|o| o.spread[1]),
            worst(&|o| o.beyond),
            mean(&|o| o.spread_by_crush),
            mean(&|o| o.exceptions as f64),
        );
    }
}

//! Profiles of CRUSH tunables.

use crush::Tunables;

/// The tunables of a profile, named after the release that introduced it.
pub fn profile(name: &str, old: &Tunables) -> Tunables {
    let argonaut = Tunables {
        choose_local_tries: 2,
        choose_local_fallback_tries: 5,
        choose_total_tries: 19,
        chooseleaf_descend_once: 0,
        chooseleaf_vary_r: 0,
        straw_calc_version: old.straw_calc_version,
        allowed_bucket_algs: 22,
        chooseleaf_stable: 0,
    };
    let bobtail = Tunables {
        choose_local_tries: 0,
        choose_local_fallback_tries: 0,
        choose_total_tries: 50,
        chooseleaf_descend_once: 1,
        ..argonaut
    };
    let firefly = Tunables { chooseleaf_vary_r: 1, ..bobtail };
    let hammer = Tunables { allowed_bucket_algs: 54, straw_calc_version: 1, ..firefly };
    match name {
        "legacy" | "argonaut" => Tunables { straw_calc_version: 0, ..argonaut },
        "bobtail" => bobtail,
        "firefly" => firefly,
        "hammer" => hammer,
        _ => Tunables::default(),
    }
}

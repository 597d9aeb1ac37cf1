//! A proof of the simulator: each of these faults, planted in one line of a role behind a switch that only
//! tests have, is caught within a bounded number of seeds, by a checker that is meant to catch it.

use sim::{Failure, Profile, run_profile};
use std::ops::Range;

/// Runs seeds with a mutant until one fails that passes without it. Returns the seed and its failure. If only
/// one seed in hundreds catches the mutant, the first seed is chosen near that one.
fn caught_by(mutant: &'static str, profile: Profile, mut seeds: Range<u64>) -> Option<(u64, Failure)> {
    seeds.find_map(|seed| {
        let failure = stdx::mutants::with(mutant, || run_profile(seed, profile)).err()?;
        run_profile(seed, profile).is_ok().then_some((seed, *failure))
    })
}

macro_rules! mutants {
    ($($name:ident in $profile:ident within $seeds:literal $(from $first:literal)?
        by $($checker:literal)|+;)*) => {
        $(
            #[test]
            fn $name() {
                let expected = [$($checker),+];
                let first = 0 $(+ $first)?;
                match caught_by(stringify!($name), Profile::$profile, first..first + $seeds) {
                    Some((seed, failure)) => {
                        println!("seed {seed}: {}", failure.checker);
                        assert!(expected.contains(&failure.checker), "seed {seed}: caught by {failure}")
                    }
                    None => panic!("not caught within {} seeds", $seeds),
                }
            }
        )*
    };
}

mutants! {
    osd_answers_before_replicas in Any within 400
        by "objects_linearizable" | "namespace_linearizable" | "replicas_identical" | "files_linearizable";
    osd_forgets_what_it_answered in Any within 400
        by "objects_linearizable" | "snapshots_linearizable" | "namespace_linearizable"
           | "files_linearizable";
    osd_misses_nothing in Any within 400
        by "replicas_identical" | "objects_linearizable" | "files_linearizable";
    osd_shows_what_is_not_durable in Primary within 100 by "objects_linearizable";
    osd_keeps_divergent_objects in Primary within 100 by "replicas_identical" | "objects_linearizable";
    osd_reads_without_lease in Primary within 200 from 340 by "objects_linearizable";
    osd_balances_what_is_not_sure in Primary within 400 from 2600 by "objects_linearizable";
    osd_loses_parts in Objects within 50 by "replicas_identical" | "objects_linearizable";
    osd_removes_copies_too_early in Objects within 400
        by "converges" | "objects_linearizable" | "replicas_identical";
    osd_forgets_to_unblock in Objects within 10 from 5 by "backoffs_end" | "answers_everything";
    osd_backs_off_wrong_range in Objects within 20 by "backoffs_hold";
    osd_takes_what_is_held_back in Rados within 10 from 20 by "backoffs_hold";
    osd_forgets_watches_of_others in Objects within 30 by "watches_told";
    osd_notifies_only_who_is_connected in Objects within 100 by "watches_told";
    osd_makes_no_clone in Snapshots within 20 by "snapshots_linearizable";
    osd_reads_head_for_snapshots in Snapshots within 20 by "snapshots_linearizable";
    osd_keeps_trimmed_clones in Snapshots within 50 by "clones_trimmed" | "replicas_identical";
    osd_misses_no_clone in Snapshots within 200
        by "snapshots_linearizable" | "clones_trimmed" | "replicas_identical" | "unexpected_event";
    osd_indexes_no_recovered_clone in Snapshots within 200 by "clones_trimmed";
    osd_clones_for_removed_snaps in Snapshots within 200 by "clones_trimmed";
    mon_publishes_before_commit in Commits within 50 by "one_content_per_epoch";
    mon_votes_before_durable in Monitors within 100 by "one_leader_per_term";
    mon_votes_during_lease in Monitors within 200 by "lease_is_exclusive";
    mon_reads_without_lease in Monitors within 200 by "reads_under_lease" | "commands_linearizable";
    mon_takes_a_new_store_for_its_old_one in Monitors within 20 from 50
        by "one_leader_per_term" | "commands_linearizable" | "global_ids_unique" | "one_content_per_epoch"
           | "no_panic";
    store_skips_flush in Any within 400
        by "unexpected_event" | "keeps_running" | "global_ids_unique" | "objects_linearizable"
           | "replicas_identical" | "one_content_per_epoch" | "files_linearizable";
    store_accepts_torn_records in Objects within 400
        by "keeps_running" | "unexpected_event" | "replicas_identical" | "objects_linearizable";
    mon_reuses_global_ids in Any within 400 by "global_ids_unique";
    mds_hands_over_what_is_not_stored in Ranks within 120 from 680000
        by "no_panic" | "metadata_consistent" | "namespace_linearizable" | "files_linearizable"
            | "answers_everything";
    mds_hands_over_no_capabilities in Ranks within 120 from 680000
        by "unexpected_event" | "locks_exclude" | "answers_everything";
    mds_hands_over_no_locks in Ranks within 120 from 680000 by "locks_exclude" | "unexpected_event";
    mds_serves_what_it_hands_over in Ranks within 120 from 680000
        by "ranks_stop" | "no_panic" | "namespace_linearizable";
    mds_takes_no_directories_back in Ranks within 120 from 670070
        by "unexpected_event" | "namespace_linearizable";
    mds_forgets_what_it_hands_over in Ranks within 120 from 680000 by "ranks_stop";
    mds_takes_no_sessions in Ranks within 120 from 680000
        by "unexpected_event" | "locks_exclude" | "answers_everything";
    mds_keeps_old_copies in Ranks within 120 from 680030
        by "files_linearizable" | "namespace_linearizable" | "statistics_exact" | "scrub_finds_nothing"
            | "metadata_consistent";
    mds_tells_no_client_of_imports in Ranks within 120 from 680000
        by "answers_everything" | "locks_exclude";
    mds_keeps_what_went_ahead in Ranks within 120 from 680250
        by "no_panic" | "files_linearizable" | "namespace_linearizable" | "unexpected_event"
            | "statistics_exact";
    mds_forgets_what_is_counted in Ranks within 120 from 680000 by "statistics_exact" | "metadata_consistent";
    mds_counts_no_names_of_shards in Ranks within 60 from 680025
        by "statistics_exact" | "metadata_consistent" | "scrub_finds_nothing";
    mds_announces_directories_only in Ranks within 120 from 680000
        by "ranks_stop" | "answers_everything";
    mds_changes_what_has_replicas in Ranks within 200 from 990000
        by "namespace_linearizable" | "files_linearizable" | "unexpected_event" | "no_panic"
            | "snapshots_constant" | "locks_exclude" | "metadata_consistent";
    mds_keeps_replicas in Ranks within 200 from 990012
        by "namespace_linearizable" | "files_linearizable" | "unexpected_event" | "no_panic"
            | "locks_exclude" | "answers_everything" | "ranks_stop" | "metadata_consistent";
    mds_works_without_what_is_below in Ranks within 120 from 680025
        by "files_linearizable" | "namespace_linearizable" | "snapshots_constant";
    // The last walk over all is sent around between a rank and one that has stopped.
    mds_stops_with_what_it_has in Ranks within 120 from 680000
        by "ranks_stop" | "answers_everything" | "statistics_exact";
    mds_learns_of_no_snapshots in Ranks within 120 from 680002 by "ranks_stop" | "snapshots_constant";
    mds_answers_from_copies in Ranks within 120 from 680000
        by "no_panic" | "unexpected_event" | "locks_exclude" | "namespace_linearizable";
    mds_serves_what_has_not_come in Ranks within 500 from 710000
        by "no_panic" | "ranks_stop" | "unexpected_event" | "locks_exclude" | "namespace_linearizable"
           | "statistics_exact" | "metadata_consistent";
    mds_gives_numbers_of_others in Ranks within 120 from 680004
        by "no_panic" | "metadata_consistent" | "namespace_linearizable" | "unexpected_event";
    // A truncation that was answered and lost: directories count what its client does not see any more.
    mds_answers_before_journal in Files within 200
        by "namespace_linearizable" | "files_linearizable" | "unexpected_event" | "statistics_exact";
    mds_forgets_completed_requests in Files within 400
        by "namespace_linearizable" | "files_linearizable" | "unexpected_event";
    mds_forgets_locks_that_are_claimed in Files within 50 by "locks_exclude";
    mds_loses_revocation in Any within 400
        by "answers_everything" | "namespace_linearizable" | "files_linearizable";
    client_drops_dirty_data in Files within 200 from 150 by "files_linearizable";
    client_forgets_what_it_told in Files within 200 by "namespace_linearizable" | "files_linearizable";
    client_works_without_right in Files within 400 from 208
        by "namespace_linearizable" | "files_linearizable" | "unexpected_event" | "quotas_hold";
    client_forgets_promises in Files within 400 from 400
        by "namespace_linearizable" | "files_linearizable" | "unexpected_event";
    mds_makes_snapshots_at_once in Files within 60
        by "snapshots_constant" | "files_linearizable" | "namespace_linearizable" | "scrub_finds_nothing"
            | "answers_everything";
    mds_copies_no_entries in Files within 20 by "snapshots_constant" | "namespace_linearizable";
    mds_trims_what_others_need in Files within 20 by "snapshots_constant" | "namespace_linearizable";
    mds_tells_nobody_of_snapshots in Files within 100 by "snapshots_constant" | "files_linearizable";
    mds_purges_for_snapshots_too in Files within 60 by "snapshots_constant" | "files_linearizable";
    mds_keeps_clones_of_removed_snapshots in Files within 60 by "metadata_consistent";
    mds_forgets_what_changed_during_a_split in Files within 400
        by "namespace_linearizable" | "metadata_consistent" | "files_linearizable" | "statistics_exact";
    mds_counts_what_has_moved_away in Files within 20 by "statistics_exact" | "metadata_consistent";
    client_writes_without_snapshots in Files within 60 by "snapshots_constant" | "files_linearizable";
    client_links_beyond_quotas in Files within 20 by "quotas_hold";
    mds_grants_before_data_are_stored in Files within 200 by "files_linearizable" | "snapshots_constant";
    mds_forgets_data_of_the_journal in Files within 60 by "files_linearizable" | "snapshots_constant";
    client_reads_past_the_journal in Files within 200 by "files_linearizable" | "snapshots_constant";
    block_writes_without_lock in Images within 5 by "image_lock_excludes";
    block_breaks_locks_of_the_living in Images within 100
        by "image_lock_excludes" | "images_answer" | "images_linearizable";
    block_copies_nothing_up in Images within 20 by "images_linearizable" | "image_snapshots_constant";
    block_shows_the_parent_again in Images within 20 by "images_linearizable" | "image_snapshots_constant";
    block_maps_no_writes in Images within 5 by "images_consistent";
    block_misses_the_newest_snapshot in Images within 10
        by "image_snapshots_constant" | "images_linearizable" | "images_consistent";
    block_forgets_what_changed_in_snapshots in Images within 100 by "images_consistent";
    osd_locks_for_everybody in Images within 10 by "image_lock_excludes";
    client_believes_old_names in Any within 400 by "namespace_linearizable" | "files_linearizable";
}

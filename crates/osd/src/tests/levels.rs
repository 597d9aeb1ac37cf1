//! Feature levels: builds that can't do what is in use, and stores that were used at a later level.

use super::cluster::Cluster;
use peer::level::Levels;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Three OSDs in a cluster that uses the highest level of this build.
fn cluster() -> Cluster {
    let mut c = Cluster::new(3, 3, 2, 4);
    c.change(|_, nacre| nacre.feature_level = Levels::default().newest);
    c.run(SECOND);
    c.write("a", "text");
    c
}

/// Starts an OSD as another build. Why it ends.
fn end_of(c: &mut Cluster, osd: usize, levels: Levels) -> String {
    c.options.levels = levels;
    c.start(osd);
    c.run(SECOND);
    c.options.levels = Levels::default();
    assert_eq!(c.stopped.iter().map(|(osd, _)| *osd).collect::<Vec<_>>(), [osd]);
    c.kill(osd);
    c.stopped.remove(0).1
}

#[test]
fn the_store_of_an_osd_is_not_opened_by_a_build_that_can_not_do_its_level() {
    let mut c = cluster();
    let newest = Levels::default().newest;
    c.kill(1);
    let why = end_of(&mut c, 1, Levels { oldest: 1, newest: newest - 1 });
    assert!(why.contains(&format!("the store of osd.1 was used at feature level {newest}")), "{why}");
    assert!(why.contains(&format!("can do {} at most: install a build", newest - 1)), "{why}");
    c.start(1);
    c.wait_clean();
    assert_eq!(c.read("a"), Ok("text".to_owned()));
    c.check();
}

#[test]
fn a_new_osd_ends_that_can_not_do_the_level_in_use_or_any_that_low() {
    let newest = Levels::default().newest;
    for (levels, said) in [
        (Levels { oldest: 1, newest: newest - 1 }, "install a newer one"),
        (Levels { oldest: newest + 1, newest: newest + 2 }, "go back to the former build"),
    ] {
        let mut c = cluster();
        let why = end_of(&mut c, 3, levels);
        assert!(why.contains("the build of osd.3") && why.contains(said), "{why}");
    }
}

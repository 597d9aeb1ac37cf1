//! What the daemons of this binary say of the build that they are.

use peer::level::{Build, Levels};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The key of [`program`] in a daemon's metadata.
pub(crate) const PROGRAM: &str = "program";

/// This build. One with debug assertions, as tests use it, passes for another if a file beside the program
/// says so: `nacre.build` beside `nacre`, as [`parse`] reads it. So the second version that an upgrade
/// needs is installed as a second version would be.
pub(crate) fn build() -> Build {
    let program = std::env::current_exe().ok().filter(|_| cfg!(debug_assertions));
    program.and_then(|program| imitated(&program)).unwrap_or_default()
}

/// What tells the running program from another build of the same version: its size and the time of its last
/// change, which packages set.
pub(crate) fn program() -> Option<String> {
    // Also that of one that has been replaced since it was started.
    let found = std::fs::metadata("/proc/self/exe").ok()?;
    Some(format!("{}-{}.{:09}", found.size(), found.mtime(), found.mtime_nsec()))
}

fn imitated(program: &Path) -> Option<Build> {
    parse(&std::fs::read_to_string(program.with_extension("build")).ok()?)
}

/// Reads version, lowest and highest level: `0.0.9 1 3`.
fn parse(text: &str) -> Option<Build> {
    let mut words = text.split_whitespace();
    let version = words.next()?.to_owned();
    let mut level = || words.next()?.parse().ok();
    Some(Build { version, levels: Levels { oldest: level()?, newest: level()? } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_beside_the_program_names_another_build() {
        let dir = tempfile::tempdir().expect("a directory");
        let program = dir.path().join("nacre");
        assert_eq!(imitated(&program), None);
        std::fs::write(dir.path().join("nacre.build"), "0.0.9 1 3\n").expect("writes");
        let older = Build { version: "0.0.9".into(), levels: Levels { oldest: 1, newest: 3 } };
        assert_eq!(imitated(&program), Some(older));
        assert_eq!(parse("0.0.9 1"), None);
    }
}

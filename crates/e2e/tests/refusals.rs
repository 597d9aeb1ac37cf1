//! A user's mistake gets one line with advice, and an exit status that is not 0.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real sockets and processes"
)]

use e2e::{Ran, nacre};

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().expect("temporary directory")
}

/// One line on standard error that contains each of `words`.
fn refuses(ran: Ran, words: &[&str]) {
    assert_ne!(ran.code, 0, "{}", ran.line);
    assert_eq!(ran.stderr.lines().count(), 1, "{}: {}", ran.line, ran.stderr);
    for word in words {
        assert!(ran.stderr.contains(word), "no `{word}` in: {}", ran.stderr);
    }
}

#[test]
fn an_unknown_option_points_to_the_help() {
    refuses(nacre(&["dev", "--no-such-thing"]), &["--no-such-thing", "nacre --help"]);
    refuses(nacre(&["dev", "--osds", "many"]), &["many", "--osds"]);
}

#[test]
fn a_port_in_use_is_named_with_the_option_that_changes_it() {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = taken.local_addr().expect("bound").port().to_string();
    let dir = dir();
    let path = dir.path().to_string_lossy();
    refuses(nacre(&["dev", &path, "--port", &port]), &[&port, "in use", "--port"]);
}

#[test]
fn a_file_in_the_place_of_the_directory_is_named() {
    let dir = dir();
    let file = dir.path().join("file");
    std::fs::write(&file, "x").expect("writes");
    refuses(nacre(&["dev", &file.to_string_lossy()]), &["file", "another directory"]);
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    refuses(nacre(&["dev", "/proc/nacre"]), &["/proc/nacre", "cannot create"]);
}

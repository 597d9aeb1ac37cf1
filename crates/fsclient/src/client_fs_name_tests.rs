//! Which of a cluster's file systems is mounted.

use super::tests::Rig;
use super::*;
use maps::{FsInfo, Fscid};

fn list() -> FsMapUser {
    let info = |id, name: &str| FsInfo { fscid: Fscid(id), name: name.into() };
    FsMapUser { filesystems: vec![info(1, "one"), info(4, "four")], ..FsMapUser::default() }
}

/// A client that looks for a file system in a list. Returns the map that it asks for, and what it ends with.
fn chosen(name: Option<&str>) -> (String, Option<String>) {
    let mut rig = Rig::new();
    rig.client.config.options.fs_name = name.map(str::to_owned);
    let mut out = Vec::new();
    rig.client.choose_file_system(rig.now, &list(), &mut out);
    let end = out.into_iter().find_map(|output| match output {
        Output::Stop(Err(why)) => Some(why),
        _ => None,
    });
    (rig.client.mdsmap.clone(), end)
}

#[test]
fn a_file_system_is_found_by_its_name() {
    assert_eq!(chosen(Some("four")), ("mdsmap.4".into(), None));
    assert_eq!(chosen(None), ("mdsmap".into(), None), "the default has no name");
}

#[test]
fn a_name_that_is_not_there_ends_the_client() {
    let (_, end) = chosen(Some("two"));
    let end = end.expect("ends");
    assert!(end.contains("no file system `two`") && end.contains("one, four"), "{end}");
}

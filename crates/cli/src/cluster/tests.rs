//! A cluster's files in a temporary directory.

use super::setup::default_mds;
use super::{Layout, Wanted, open_or_create};
use client::Options;
use std::os::unix::fs::PermissionsExt;
use wire::EntityName;

const NOTHING: Wanted = Wanted { mons: None, osds: None, mds: None, addr: None, port: None, cephx: None };

fn layout() -> (tempfile::TempDir, Layout) {
    let dir = tempfile::tempdir().expect("temporary directory");
    let layout = Layout::create(&dir.path().join("c")).expect("creates");
    (dir, layout)
}

#[test]
fn a_new_cluster_is_read_back_as_it_was_made() {
    let (_dir, layout) = layout();
    let made =
        open_or_create(&layout, &Wanted { osds: Some(2), port: Some(4400), ..NOTHING }).expect("creates");
    assert_eq!((made.osds.as_slice(), made.mons[0].port(), made.cephx), (&[0, 1][..], 4400, true));
    let again = open_or_create(&layout, &NOTHING).expect("opens");
    assert_eq!((again.fsid, again.mons, again.osds), (made.fsid, made.mons, made.osds));
}

#[test]
fn keys_are_for_the_owner_only_and_clients_find_theirs_by_the_configuration() {
    let (_dir, layout) = layout();
    let made = open_or_create(&layout, &NOTHING).expect("creates");
    for file in
        [layout.keyring(), layout.daemon("osd.0").join("keyring"), layout.daemon("mon.a").join("keyring")]
    {
        let mode = std::fs::metadata(&file).expect("was written").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    }
    let conf = Options::new(layout.conf()).read().expect("reads");
    assert!(conf.credentials.key.is_some());
    assert_eq!((conf.fsid, conf.mons[0].addr), (Some(made.fsid), Some(made.mons[0])));
}

#[test]
fn what_contradicts_the_cluster_is_refused_with_what_it_is() {
    let (_dir, layout) = layout();
    open_or_create(&layout, &Wanted { osds: Some(3), ..NOTHING }).expect("creates");
    let refused =
        |wanted: Wanted| open_or_create(&layout, &wanted).map(|_| ()).expect_err("refused").to_string();
    assert!(refused(Wanted { port: Some(1), ..NOTHING }).contains("--port 3300"));
    assert!(refused(Wanted { cephx: Some(false), ..NOTHING }).contains("--auth cephx"));
    assert!(refused(Wanted { osds: Some(4), ..NOTHING }).contains("not supported yet"));
    assert!(refused(Wanted { osds: Some(2), ..NOTHING }).contains("holds 3 OSDs"));
}

#[test]
fn a_new_cluster_has_servers_for_its_cores_and_some_may_be_left_out_and_added() {
    let (_dir, layout) = layout();
    let count = |wanted: Wanted| open_or_create(&layout, &wanted).expect("opens").mds;
    assert_eq!(count(NOTHING), default_mds());
    assert_eq!(count(Wanted { mds: Some(1), ..NOTHING }), 1);
    assert_eq!(count(NOTHING), default_mds(), "it continues with those that it has");
    assert_eq!(count(Wanted { mds: Some(12), ..NOTHING }), 12);
    assert_eq!(count(NOTHING), 12);
}

#[test]
fn without_authentication_no_key_is_used() {
    let (_dir, layout) = layout();
    open_or_create(&layout, &Wanted { cephx: Some(false), ..NOTHING }).expect("creates");
    let conf = Options::new(layout.conf()).read().expect("reads");
    assert!(conf.credentials.key.is_none());
}

#[test]
fn several_monitors_share_one_key_and_take_ports_in_a_row() {
    let (_dir, layout) = layout();
    let made =
        open_or_create(&layout, &Wanted { mons: Some(3), port: Some(4400), ..NOTHING }).expect("creates");
    let ports: Vec<u16> = made.mons.iter().map(|m| m.port()).collect();
    assert_eq!(ports, [4400, 4401, 4402]);
    let key = |name: &str| {
        let text = std::fs::read_to_string(layout.daemon(name).join("keyring")).expect("was written");
        let ring = auth::Keyring::parse(&text).expect("a keyring");
        ring.key(&EntityName::parse("mon.").expect("a name")).cloned().expect("the shared key")
    };
    assert_eq!((key("mon.b"), key("mon.c")), (key("mon.a"), key("mon.a")));
    let again = open_or_create(&layout, &NOTHING).expect("opens");
    assert_eq!(again.mons, made.mons);
    let refused =
        open_or_create(&layout, &Wanted { mons: Some(5), ..NOTHING }).map(|_| ()).expect_err("refused");
    assert!(refused.to_string().contains("--mons 3"), "{refused}");
}

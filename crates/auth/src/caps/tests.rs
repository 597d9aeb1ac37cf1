use super::*;
use std::collections::BTreeMap;

fn args(list: &[(&str, &str)]) -> BTreeMap<String, String> {
    list.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

#[test]
fn mon_grants_add_up_and_are_limited_to_their_service() {
    let cap = MonCap::parse("allow r, allow service osd w").expect("parses");
    assert!(cap.allows("mon", Perm::R) && cap.allows("osd", Perm::RW));
    assert!(!cap.allows("mon", Perm::W) && !cap.allows("osd", Perm::X));
    assert!(!cap.is_allow_all());
    for all in ["allow *", "allow all", "allow *,", " allow\t* ; allow r"] {
        assert!(MonCap::parse(all).expect("parses").is_allow_all(), "{all}");
    }
    assert!(!MonCap::parse("").expect("nothing is granted").allows("mon", Perm::R));
    assert!(MonCap::parse("allow rwx").expect("parses").allows("auth", Perm::RW.and(Perm::X)));
}

#[test]
fn mon_commands_are_granted_with_their_arguments() {
    let cap = MonCap::parse("allow command \"auth get\" with entity=client.a, allow command 'osd dump'")
        .expect("parses");
    assert!(cap.allows_command("auth", Perm::X, "auth get", &args(&[("entity", "client.a")])));
    assert!(!cap.allows_command("auth", Perm::X, "auth get", &args(&[("entity", "client.b")])));
    assert!(!cap.allows_command("auth", Perm::X, "auth get", &args(&[])));
    assert!(cap.allows_command("osd", Perm::R, "osd dump", &args(&[("format", "json")])));
    assert!(!cap.allows_command("osd", Perm::R, "osd tree", &args(&[])));
    let boot = MonCap::parse("allow profile bootstrap-mds").expect("parses");
    let mut wanted = args(&[
        ("entity", "mds.a"),
        ("caps_mon", "allow profile mds"),
        ("caps_osd", "allow rwx"),
        ("caps_mds", "allow"),
    ]);
    assert!(boot.allows_command("auth", Perm::X, "auth get-or-create", &wanted));
    wanted.insert("entity".into(), "client.evil".into());
    assert!(!boot.allows_command("auth", Perm::X, "auth get-or-create", &wanted));
}

#[test]
fn a_client_of_rbd_may_read_maps_and_blocklist() {
    let cap = MonCap::parse("profile rbd").expect("parses");
    assert!(cap.allows("mon", Perm::R) && cap.allows("osd", Perm::R) && !cap.allows("osd", Perm::W));
    let may = |op| {
        let args = args(&[("blocklistop", op), ("addr", "10.0.0.1:0/5")]);
        cap.allows_command("osd", Perm::RW, "osd blocklist", &args)
    };
    assert!(may("add") && !may("rm"));
}

fn target<'a>(
    pool: &'a str,
    apps: &'a BTreeMap<String, BTreeMap<String, String>>,
    ns: &'a str,
    object: &'a str,
) -> OsdTarget<'a> {
    OsdTarget { pool, applications: apps, namespace: ns.as_bytes(), object: object.as_bytes() }
}

#[test]
fn osd_grants_match_pool_namespace_prefix_and_tag() {
    let cephfs = BTreeMap::from([("cephfs".to_owned(), args(&[("data", "fs1")]))]);
    let none = BTreeMap::new();
    let on = |caps: &str, t: &OsdTarget<'_>| OsdCap::parse(caps).expect("parses").allows(t, true, true, &[]);
    let t = target("p", &none, "n1", "obj.1");
    for (caps, expected) in [
        ("allow *", true),
        ("allow rw", true),
        ("allow r", false),
        ("allow r, allow w", false),
        ("allow rw pool=p", true),
        ("allow rw pool p", true),
        ("allow pool p rw", true),
        ("allow rwx pool=other", false),
        ("allow rw namespace=n1", true),
        ("allow rw namespace=n*", true),
        ("allow rw namespace=\"\"", false),
        ("allow rw object_prefix obj.", true),
        ("allow rw object_prefix=x", false),
        ("allow rw tag cephfs data=fs1", false),
        ("profile rbd pool=p", true),
        ("profile rbd-read-only", false),
    ] {
        assert_eq!(on(caps, &t), expected, "{caps}");
    }
    let t = target("p", &cephfs, "", "1000.0");
    for (caps, expected) in [
        ("allow rw tag cephfs data=fs1", true),
        ("allow rw tag cephfs data=*", true),
        ("allow rw tag cephfs *=*", true),
        ("allow rw tag cephfs metadata=*", false),
        ("allow rw tag rbd *=*", false),
        ("allow rw namespace=''", true),
    ] {
        assert_eq!(on(caps, &t), expected, "{caps}");
    }
    assert!(OsdCap::parse("allow *").expect("parses").is_allow_all());
    assert!(!OsdCap::parse("allow * pool=p").expect("parses").is_allow_all());
}

#[test]
fn osd_class_calls_need_x_or_their_name() {
    let none = BTreeMap::new();
    let t = target("p", &none, "", "rbd_header.1");
    let call = ClassCall { class: "rbd", method: "get_size", read: true, write: false };
    let attach = ClassCall { class: "rbd", method: "child_attach", read: true, write: true };
    for (caps, get, att) in [
        ("allow rwx", true, true),
        ("allow rw", false, false),
        ("allow class-read", true, false),
        ("allow class rbd", true, true),
        ("allow class rbd get_size", true, false),
        ("allow class lock", false, false),
        ("profile rbd-read-only", true, true),
    ] {
        let cap = OsdCap::parse(caps).expect("parses");
        assert_eq!(cap.allows(&t, false, false, &[call]), get, "{caps}");
        assert_eq!(cap.allows(&t, false, false, &[call, attach]), get && att, "{caps}");
    }
}

#[test]
fn mds_grants_cover_a_path_and_below() {
    let cap =
        MdsCap::parse("allow r, allow rw path=/home/a, allow rwps path=\"/b c\" fsname=two").expect("parses");
    let user = Caller { uid: 1000, gid: 1000, more_gids: &[] };
    let may = |fs: &str, path: &str, access| cap.allows(fs, path, &user, access);
    assert!(may("one", "/x", Access::Read) && !may("one", "/x", Access::Write));
    assert!(may("one", "/home/a", Access::Write) && may("one", "/home/a/b", Access::Write));
    assert!(!may("one", "/home/ab", Access::Write) && !may("one", "/home/a", Access::Snapshot));
    assert!(may("two", "/b c/d", Access::Snapshot) && !may("one", "/b c/d", Access::Write));
    assert!(MdsCap::parse("allow *").expect("parses").is_allow_all());
    assert!(!MdsCap::parse("allow * path=/").expect("parses").is_allow_all());
    assert!(MdsCap::parse("allow").expect("parses").allows("f", "/", &Caller::default(), Access::SetPolicy));
}

#[test]
fn mds_grants_know_users_and_squash_root() {
    let cap = MdsCap::parse("allow rw uid=7 gids=8,9, allow r root_squash").expect("parses");
    let may = |cap: &MdsCap, uid, gid, more_gids: &[u64], access| {
        cap.allows("f", "/", &Caller { uid, gid, more_gids }, access)
    };
    for (uid, gid, more, access, expected) in [
        (7, 1, &[9][..], Access::Write, true),
        (7, 8, &[], Access::Write, true),
        (7, 1, &[1], Access::Write, false),
        (1, 8, &[8], Access::Write, false),
        (1, 1, &[], Access::Read, true),
    ] {
        assert_eq!(may(&cap, uid, gid, more, access), expected, "{uid} {gid} {more:?} {access:?}");
    }
    let squash = MdsCap::parse("allow rwps root_squash").expect("parses");
    for access in [Access::Write, Access::SetPolicy, Access::Snapshot] {
        assert!(may(&squash, 5, 5, &[0], access));
        assert!(!may(&squash, 0, 5, &[], access) && !may(&squash, 5, 0, &[], access), "{access:?}");
    }
    assert!(may(&squash, 0, 0, &[], Access::Read));
}

#[test]
fn errors_name_the_byte_and_what_was_expected() {
    for (service, text, at, word) in [
        ("mon", "deny *", 0, "allow"),
        ("mon", "allow", 5, "rwx"),
        ("mon", "allow rwz", 6, "rwx"),
        ("mon", "allow profile nothing", 14, "profile"),
        ("mon", "allow r allow w", 8, "`,`"),
        ("mon", "allow command \"x", 14, "closed"),
        ("osd", "allow pool=p", 12, "rwx"),
        ("osd", "allow rw tag cephfs data", 24, "`=`"),
        ("osd", "allow rw pools=x", 9, "`,`"),
        ("mds", "allow q", 6, "rw"),
        ("mds", "allow rw pat=/x", 9, "path"),
        ("rgw", "allow *", 0, "mon, osd"),
    ] {
        let error = check_caps(service, text).expect_err(text);
        assert!(error.at == at && error.expected.contains(word), "{text}: {error}");
    }
    assert_eq!(check_caps("mgr", "allow *"), Ok(()));
}

/// Capabilities that `ceph fs authorize`, ceph-csi, Proxmox, OpenStack and Ceph's own documentation give to
/// keys.
#[test]
fn strings_that_are_in_use_are_understood() {
    for (service, text) in [
        ("mon", "allow r fsname=cephfs"),
        ("mon", "profile rbd"),
        ("mon", "allow r, allow command \"osd blocklist\" with blocklistop=add addr prefix 10."),
        ("mon", "allow profile osd"),
        ("mgr", "allow profile osd"),
        ("mgr", "profile rbd pool=volumes, profile rbd-read-only pool=images"),
        ("mgr", "allow rw"),
        ("osd", "profile rbd pool=volumes, profile rbd pool=vms, profile rbd-read-only pool=images"),
        ("osd", "profile rbd pool=a namespace=b"),
        ("osd", "allow class-read object_prefix rbd_children, allow rwx pool=images"),
        ("osd", "allow rw tag cephfs data=cephfs, allow rw tag cephfs metadata=*"),
        ("osd", "allow rwx tag rgw *=*"),
        ("osd", "allow rw pool=cephfs_data namespace=fsvolumens_1"),
        ("mds", "allow rw fsname=cephfs path=/volumes/_nogroup/a"),
        ("mds", "allow r, allow rws path=/volumes"),
        ("mds", "allow rwps fsname=a, allow r fsname=b root_squash"),
    ] {
        assert_eq!(check_caps(service, text), Ok(()), "{service} {text}");
    }
    let cap = MonCap::parse("allow r fsname=a").expect("parses");
    assert!(
        cap.allows("osd", Perm::R)
            && cap.allows_fs("a", Perm::R)
            && !cap.allows_fs("b", Perm::R)
            && !cap.is_allow_all()
    );
    assert!(MonCap::parse("allow r").expect("parses").allows_fs("b", Perm::R));
}

//! Permissions of capability strings, case by case: the outcomes are those of Ceph's monitors and OSDs for
//! the same string and question.

use super::*;
use std::collections::BTreeMap;
use std::net::IpAddr;
use wire::EntityName;

const YES: bool = true;
const NO: bool = false;

fn here() -> Option<IpAddr> {
    Some("10.1.2.3".parse().expect("an address"))
}

fn args(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split(';').filter_map(|pair| pair.split_once('='));
    pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

fn perm(text: &str) -> Perm {
    Perm::parse(text).unwrap_or(Perm::NONE)
}

/// Capabilities; the service, what is needed on it, the command with its arguments; whether it may run.
type MonCase = (&'static str, &'static str, &'static str, &'static str, &'static str, bool);

const MON: &[MonCase] = &[
    ("allow *", "config-key", "rw", "config-key set", "key=a", YES),
    ("allow *", "auth", "rwx", "auth rm", "", YES),
    ("allow rwx", "auth", "rwx", "auth rm", "", YES),
    ("allow rwx", "config-key", "r", "config-key get", "key=a", NO),
    ("allow r", "config-key", "r", "config-key dump", "", NO),
    ("allow service config-key r", "config-key", "r", "config-key get", "key=a", YES),
    ("allow service config-key r", "config-key", "rw", "config-key set", "key=a", NO),
    ("allow r", "osd", "r", "osd dump", "", YES),
    ("allow r", "osd", "rw", "osd out", "", NO),
    ("allow r", "auth", "rx", "auth get", "entity=client.admin", NO),
    ("allow rw", "auth", "rx", "auth ls", "", NO),
    ("allow rw", "osd", "rw", "osd pool create", "", YES),
    ("allow w", "osd", "rw", "osd out", "", NO),
    ("allow r, allow w", "osd", "rw", "osd out", "", YES),
    ("allow service osd rw", "osd", "rw", "osd out", "", YES),
    ("allow service osd rw", "mon", "r", "mon dump", "", NO),
    ("allow service mon *", "mon", "rw", "mon rm", "", YES),
    ("allow service mon *", "osd", "r", "osd dump", "", NO),
    ("allow command 'osd out'", "osd", "rw", "osd out", "", YES),
    ("allow command 'osd out'", "osd", "rw", "osd out now", "", NO),
    ("allow command=\"osd out\" with ids=3", "osd", "rw", "osd out", "ids=3", YES),
    ("allow command \"osd out\" with ids=3", "osd", "rw", "osd out", "ids=3 4", NO),
    ("allow command \"osd out\" with ids=3", "osd", "rw", "osd out", "", NO),
    ("allow command a with k prefix /x, allow r", "osd", "rw", "a", "k=/xy", YES),
    ("allow command a with k prefix /x, allow r", "osd", "rw", "a", "k=y/x", NO),
    ("allow command a with k=1 l=2", "osd", "rw", "a", "k=1", NO),
    ("allow command a with k=1 l=2", "osd", "rw", "a", "k=1;l=2;m=3", YES),
    ("profile read-only", "osd", "r", "osd dump", "", YES),
    ("profile read-only", "osd", "rw", "osd out", "", NO),
    ("profile read-only", "auth", "rx", "auth ls", "", NO),
    ("profile read-write", "osd", "rw", "osd out", "", YES),
    ("profile read-write", "config-key", "r", "config-key ls", "", NO),
    ("allow profile osd", "osd", "rw", "osd out", "", YES),
    ("allow profile osd", "auth", "rx", "auth ls", "", NO),
    ("allow profile osd", "mds", "r", "fs dump", "", NO),
    ("allow profile osd", "config-key", "r", "config-key get", "key=daemon-private/osd.1/x", YES),
    ("allow profile osd", "config-key", "r", "config-key get", "key=daemon-private/osd.11/x", NO),
    ("allow profile osd", "config-key", "r", "config-key get", "key=dm-crypt/osd/1/luks", NO),
    ("allow profile mds", "osd", "rw", "osd blocklist", "blocklistop=add", YES),
    ("allow profile mds", "osd", "rw", "osd out", "", NO),
    ("allow profile mds", "mds", "rw", "fs set", "", YES),
    ("allow profile mgr", "auth", "rwx", "auth get-or-create", "", YES),
    ("allow profile mgr", "config-key", "rw", "config-key set", "key=mgr/x", YES),
    ("profile rbd", "osd", "r", "osd dump", "", YES),
    ("profile rbd", "osd", "rw", "osd pool create", "", NO),
    ("profile rbd", "osd", "rw", "osd blocklist", "blocklistop=add;addr=10.0.0.1:0/77", YES),
    ("profile rbd", "osd", "rw", "osd blacklist", "blacklistop=add;addr=10.0.0.1:0/77", YES),
    ("profile rbd", "osd", "rw", "osd blocklist", "blocklistop=rm;addr=10.0.0.1:0/77", NO),
    ("profile rbd", "osd", "rw", "osd blocklist", "blocklistop=add;addr=10.0.0.1", NO),
    ("profile rbd", "osd", "rw", "osd blocklist", "blocklistop=add;addr=10.0.0.1:0/x", NO),
    ("profile rbd", "config-key", "r", "config-key get", "key=rbd/mirror/uuid", NO),
    ("profile rbd-mirror", "config-key", "r", "config-key get", "key=rbd/mirror/uuid", YES),
    ("profile rbd-mirror", "config-key", "r", "config-key get", "key=mgr/x", NO),
    ("profile rbd-read-only", "osd", "rw", "osd blocklist", "blocklistop=add;addr=1.1.1.1:0/7", NO),
    ("profile fs-client", "mds", "r", "mds stat", "", YES),
    ("profile fs-client", "mds", "rw", "mds fail", "", NO),
    ("profile crash", "mgr", "rw", "crash post", "", YES),
    ("profile crash", "mgr", "rw", "crash rm", "", NO),
    ("profile role-definer", "auth", "rwx", "auth get-or-create", "", YES),
    ("profile role-definer", "osd", "r", "osd dump", "", NO),
    ("profile bootstrap-osd", "osd", "rw", "osd new", "uuid=x", YES),
    ("profile bootstrap-osd", "osd", "rw", "osd purge", "", NO),
    ("profile bootstrap-mgr", "auth", "rwx", "auth get-or-create", "entity=mgr.x", NO),
    (
        "profile bootstrap-mgr",
        "auth",
        "rwx",
        "auth get-or-create",
        "entity=mgr.x;caps_mon=allow profile mgr",
        YES,
    ),
    ("profile bootstrap-mgr", "auth", "rwx", "auth get-or-create", "entity=mgr.x;caps_mon=allow *", NO),
    (
        "profile bootstrap-rgw",
        "auth",
        "rwx",
        "auth get-or-create",
        "entity=client.rgw.a;caps_mon=allow rw;caps_osd=allow rwx",
        YES,
    ),
    (
        "profile bootstrap-rgw",
        "auth",
        "rwx",
        "auth get-or-create",
        "entity=client.admin;caps_mon=allow rw;caps_osd=allow rwx",
        NO,
    ),
    (
        "profile bootstrap-rbd",
        "auth",
        "rwx",
        "auth get-or-create",
        "entity=client.a;caps_mon=profile rbd;caps_osd=profile rbd pool=a, profile rbd-read-only pool b",
        YES,
    ),
    (
        "profile bootstrap-rbd",
        "auth",
        "rwx",
        "auth get-or-create",
        "entity=client.a;caps_mon=profile rbd;caps_osd=allow *",
        NO,
    ),
    (
        "profile bootstrap-rbd",
        "auth",
        "rwx",
        "auth get-or-create",
        "entity=client.a;caps_mon=profile rbd;caps_osd=profile rbd, allow *",
        NO,
    ),
    ("allow r network 10.0.0.0/8", "osd", "r", "osd dump", "", YES),
    ("allow r network 192.168.0.0/16", "osd", "r", "osd dump", "", NO),
    ("allow * network 10.1.2.3/32", "auth", "rwx", "auth rm", "", YES),
    ("profile rbd network 10.1.2.4/31", "osd", "r", "osd dump", "", NO),
    ("allow command 'osd out' network 0.0.0.0/0", "osd", "rw", "osd out", "", YES),
    ("allow command a with k=1 network 11.0.0.0/8", "osd", "rw", "a", "k=1", NO),
    ("allow r fsname=a", "osd", "r", "osd dump", "", YES),
    ("allow rw fsname=a", "config-key", "r", "config-key get", "", NO),
    ("", "mon", "r", "mon dump", "", NO),
];

#[test]
fn at_monitors() {
    let who = EntityName::parse("osd.1").expect("a name");
    for (caps, service, needed, command, given, expected) in MON {
        let cap = MonCap::parse(caps).expect(caps).for_peer(&who, here());
        let may = cap.allows_command(service, perm(needed), command, &args(given));
        assert_eq!(may, *expected, "`{caps}`: {needed} on {service} for `{command}` {given}");
    }
}

#[test]
fn file_systems_at_monitors() {
    for (caps, one, other, hides) in [
        ("allow *", "rw", "rw", NO),
        ("allow r", "r", "r", NO),
        ("allow r fsname=one", "r", "", YES),
        ("allow rw fsname=one", "rw", "", YES),
        ("allow rw fsname=one, allow r fsname=other", "rw", "r", YES),
        ("allow rw fsname=one, allow r", "rw", "r", NO),
        ("allow r fsname=one, profile mds", "rw", "rw", NO),
        ("allow r fsname=one, profile rbd", "r", "", YES),
        ("allow r fsname=one network 11.0.0.0/8", "", "", NO),
        ("allow service mds rw", "rw", "rw", NO),
        ("profile fs-client", "r", "r", NO),
        ("profile rbd", "", "", NO),
    ] {
        let who = EntityName::parse("client.x").expect("a name");
        let cap = MonCap::parse(caps).expect(caps).for_peer(&who, here());
        for (fs, granted) in [("one", one), ("other", other)] {
            for letter in ["r", "w"] {
                let may = cap.allows_fs(fs, perm(letter));
                assert_eq!(may, granted.contains(letter), "`{caps}`: {letter} on {fs}");
            }
        }
        assert_eq!(cap.hides_fs(), hides, "{caps}");
    }
}

/// Capabilities; pool, namespace, object; `r`, `w`, and methods called as `CLASS.METHOD`, with `!` for one
/// that writes; true if it may run.
type OsdCase = (&'static str, &'static str, &'static str, &'static str, &'static str, bool);

/// Pool `data` holds the data of file system `one`, `meta` its metadata, `images` is for rbd, `plain` for
/// nothing.
const OSD: &[OsdCase] = &[
    ("allow *", "plain", "", "o", "r w rbd.x!", YES),
    ("allow rwx", "plain", "", "o", "r w rbd.x!", YES),
    ("allow rw", "plain", "", "o", "r w", YES),
    ("allow rw", "plain", "", "o", "rbd.x", NO),
    ("allow r", "plain", "", "o", "r", YES),
    ("allow r", "plain", "", "o", "w", NO),
    ("allow w", "plain", "", "o", "w", YES),
    ("allow w", "plain", "", "o", "r", NO),
    // One grant must cover reading and writing together.
    ("allow r, allow w", "plain", "", "o", "r w", NO),
    ("allow r, allow w", "plain", "", "o", "r", YES),
    ("allow r, allow w", "plain", "", "o", "w", YES),
    ("allow x", "plain", "", "o", "rbd.x!", YES),
    ("allow x", "plain", "", "o", "r", NO),
    ("allow class-read", "plain", "", "o", "rbd.x", YES),
    ("allow class-read", "plain", "", "o", "rbd.x!", NO),
    ("allow class-write", "plain", "", "o", "rbd.x!", NO),
    ("allow class-read class-write", "plain", "", "o", "rbd.x!", YES),
    ("allow r class-read", "plain", "", "o", "r rbd.x", YES),
    ("allow class rbd", "plain", "", "o", "rbd.x!", YES),
    ("allow class rbd", "plain", "", "o", "lock.lock!", NO),
    ("allow class rbd x", "plain", "", "o", "rbd.x!", YES),
    ("allow class rbd x", "plain", "", "o", "rbd.y", NO),
    ("allow class rbd x, allow class rbd y", "plain", "", "o", "rbd.x! rbd.y!", YES),
    // A grant of a method counts only if it covers the rest of the operation too.
    ("allow class rbd x, allow r", "plain", "", "o", "r rbd.x", NO),
    ("allow rw pool=data", "data", "", "o", "r w", YES),
    ("allow rw pool data", "data", "", "o", "r w", YES),
    ("allow pool data rw", "data", "", "o", "r w", YES),
    ("allow rw pool=data", "meta", "", "o", "r", NO),
    ("allow rw pool=dat", "data", "", "o", "r", NO),
    ("allow rw pool=data, allow r pool=meta", "meta", "", "o", "r", YES),
    ("allow rw pool=data, allow r pool=meta", "meta", "", "o", "w", NO),
    ("allow rw pool='data'", "data", "", "o", "w", YES),
    ("allow rw namespace=n", "data", "n", "o", "w", YES),
    ("allow rw namespace=n", "data", "", "o", "r", NO),
    ("allow rw namespace=n", "data", "nn", "o", "r", NO),
    ("allow rw namespace=n*", "data", "nn", "o", "r", YES),
    ("allow rw namespace=n*", "data", "m", "o", "r", NO),
    ("allow rw namespace=''", "data", "", "o", "r", YES),
    ("allow rw namespace=\"\"", "data", "n", "o", "r", NO),
    ("allow rw pool=data namespace=n", "data", "n", "o", "r w", YES),
    ("allow rw pool=data namespace=n", "data", "", "o", "r", NO),
    ("allow rw pool=data namespace=n", "meta", "n", "o", "r", NO),
    ("allow rw pool=data", "data", "any", "o", "r w", YES),
    ("allow rw object_prefix p.", "data", "", "p.1", "r w", YES),
    ("allow rw object_prefix p.", "data", "", "q.1", "r", NO),
    ("allow rw object_prefix p.", "data", "", "", "r", NO),
    ("allow rw object_prefix p.", "data", "", "p", "r", NO),
    ("allow rw pool=data namespace=n object_prefix p.", "data", "n", "p.1", "w", YES),
    ("allow rw pool=data namespace=n object_prefix p.", "data", "n", "o", "w", NO),
    ("allow rw tag cephfs data=one", "data", "", "o", "r w", YES),
    ("allow rw tag cephfs data=one", "meta", "", "o", "r", NO),
    ("allow rw tag cephfs data=two", "data", "", "o", "r", NO),
    ("allow rw tag cephfs metadata=*", "meta", "", "o", "w", YES),
    ("allow rw tag cephfs metadata=*", "data", "", "o", "r", NO),
    ("allow rw tag cephfs *=one", "meta", "", "o", "w", YES),
    ("allow rw tag cephfs *=*", "images", "", "o", "r", NO),
    ("allow rw tag rbd *=*", "images", "", "o", "r", YES),
    ("allow rw tag rbd x=*", "images", "", "o", "r", NO),
    ("allow rw namespace=n tag cephfs data=one", "data", "n", "o", "r", YES),
    ("allow rw namespace=n tag cephfs data=one", "data", "", "o", "r", NO),
    ("profile rbd", "images", "", "rbd_data.1", "r w", YES),
    ("profile rbd pool=images", "images", "", "rbd_header.1", "r rbd.x!", YES),
    ("profile rbd pool=images", "data", "", "rbd_data.1", "r", NO),
    ("profile rbd pool=images", "data", "", "rbd_children", "rbd.get_children", YES),
    ("profile rbd pool=images", "data", "", "rbd_children", "rbd.add_child!", NO),
    ("profile rbd pool=images", "data", "", "rbd_info", "r", YES),
    ("profile rbd pool=images namespace=n", "images", "", "rbd_header.1", "r", NO),
    ("profile rbd pool=images namespace=n", "images", "", "rbd_header.1", "rbd.metadata_list", YES),
    ("profile rbd pool=images namespace=n", "images", "n", "rbd_header.1", "w", YES),
    ("profile rbd-read-only", "images", "", "rbd_data.1", "r", YES),
    ("profile rbd-read-only", "images", "", "rbd_data.1", "w", NO),
    ("profile rbd-read-only", "images", "", "rbd_header.1", "rbd.child_attach!", YES),
    ("profile rbd-read-only", "images", "", "rbd_header.1", "rbd.set_size!", NO),
    ("profile read-only pool=data", "data", "", "o", "r", YES),
    ("profile read-only pool=data", "data", "", "o", "w", NO),
    ("profile read-write pool=data", "data", "", "o", "r w", YES),
    ("profile read-write pool=data", "data", "", "o", "rbd.x", NO),
    ("allow rw network 10.0.0.0/8", "data", "", "o", "r w", YES),
    ("allow rw network 11.0.0.0/8", "data", "", "o", "r", NO),
    ("allow rw pool=data network 10.1.0.0/16", "data", "", "o", "r", YES),
    ("profile rbd pool=images network fd00::/8", "images", "", "o", "r", NO),
    ("allow class rbd network 11.0.0.0/8", "data", "", "o", "rbd.x", NO),
    ("", "data", "", "o", "r", NO),
];

fn applications(pool: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    match pool {
        "data" => BTreeMap::from([("cephfs".to_owned(), args("data=one"))]),
        "meta" => BTreeMap::from([("cephfs".to_owned(), args("metadata=one"))]),
        "images" => BTreeMap::from([("rbd".to_owned(), BTreeMap::new())]),
        _ => BTreeMap::new(),
    }
}

#[test]
fn at_osds() {
    for (caps, pool, namespace, object, asked, expected) in OSD {
        let cap = OsdCap::parse(caps).expect(caps).for_peer(here());
        let calls: Vec<_> = asked.split(' ').filter_map(|word| word.split_once('.')).collect();
        let calls: Vec<_> = calls
            .into_iter()
            .map(|(class, method)| ClassCall {
                class,
                method: method.trim_end_matches('!'),
                read: true,
                write: method.ends_with('!'),
            })
            .collect();
        let target = OsdTarget {
            pool,
            applications: &applications(pool),
            namespace: namespace.as_bytes(),
            object: object.as_bytes(),
        };
        let does = |letter| asked.split(' ').any(|word| word == letter);
        let may = cap.allows(&target, does("r"), does("w"), &calls);
        assert_eq!(may, *expected, "`{caps}`: `{asked}` on {pool}/{namespace}/{object}");
    }
}

#[test]
fn who_may_manage_snapshots_of_its_own() {
    for (caps, expected) in [
        ("allow *", YES),
        ("allow rw", YES),
        ("allow r", NO),
        ("allow rw pool=images", YES),
        ("allow rw pool=data", NO),
        ("allow w pool=images namespace=n", YES),
        ("allow rw namespace=n", NO),
        ("allow rw object_prefix x", NO),
        ("allow rw tag rbd *=*", NO),
        ("profile rbd pool=images", YES),
        ("profile rbd-read-only pool=images", NO),
        ("allow rw network 11.0.0.0/8", NO),
    ] {
        let cap = OsdCap::parse(caps).expect(caps).for_peer(here());
        assert_eq!(cap.may_snap("images"), expected, "{caps}");
    }
}

/// A capability that nobody would enforce, or that means nothing, is refused.
#[test]
fn strings_that_are_refused() {
    for (service, text) in [
        ("mon", "allow r network 10.0.0.0"),
        ("mon", "allow r network 10.0.0.0/33"),
        ("mon", "allow r network"),
        ("mon", "allow command \"a\" with k regex \"^x$\""),
        ("mon", "allow command \"a\" with"),
        ("mon", "profile nosuch"),
        ("mon", "profile admin"),
        ("osd", "allow rw pool=a pool=b"),
        ("osd", "allow rw namespace=a namespace=b"),
        ("osd", "profile osd"),
        ("osd", "profile rbd pool=a pool=b"),
        ("osd", "allow rw auid 5"),
        ("osd", "allow class a class b"),
        ("mds", "allow rw network 10.0.0.0/8"),
        ("mds", "allow rwf"),
        ("mds", "allow w"),
        ("mds", "profile mds"),
        ("mgr", "profile nosuch"),
    ] {
        assert!(check_caps(service, text).is_err(), "{service} `{text}`");
    }
}

#[test]
fn before_it_is_known_from_where_a_grant_for_a_network_allows_nothing() {
    assert!(!MonCap::parse("allow * network 0.0.0.0/0").expect("parses").is_allow_all());
    assert!(!OsdCap::parse("allow * network 0.0.0.0/0").expect("parses").is_allow_all());
    let of = |from: &str, net: &str| {
        let from = Some(from.parse().expect("an address"));
        OsdCap::parse(&format!("allow * network {net}")).expect("parses").for_peer(from).is_allow_all()
    };
    assert!(of("fd00::1", "fd00::/8") && of("fd00::1", "[fd00::]/8") && !of("fe80::1", "fd00::/8"));
    assert!(of("::ffff:10.0.0.1", "10.0.0.0/8") && !of("::1", "0.0.0.0/0") && of("::1", "::/0"));
}

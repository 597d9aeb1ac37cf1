//! Which options are taken, and what they mean.

use super::*;

fn parse(text: &str) -> Result<Options, String> {
    let mut options = Options::default();
    options.take(text, false).map(|()| options)
}

/// The only difference from the default must be what `change` does.
fn check(text: &str, change: impl FnOnce(&mut Options)) {
    let mut wanted = Options::default();
    change(&mut wanted);
    assert_eq!(parse(text), Ok(wanted), "{text}");
}

#[test]
fn options_that_mean_something() {
    let admin = EntityName::new(EntityType::CLIENT, "admin");
    check("name=admin", |o| o.name = Some(admin.clone()));
    check("name=client.admin", |o| o.name = Some(admin.clone()));
    check("ceph.id=admin", |o| o.name = Some(admin.clone()));
    check("ceph.name=client.admin", |o| o.name = Some(admin.clone()));
    check("conf=/c", |o| o.conf = Some("/c".into()));
    check("ceph.conf=/c", |o| o.conf = Some("/c".into()));
    check("secret=AQ==", |o| o.secret = Some(Secret::Text("AQ==".into())));
    check("secretfile=/s", |o| o.secret = Some(Secret::File("/s".into())));
    check("mon_addr=a:1/b", |o| o.mons = vec!["a:1".into(), "b".into()]);
    check("fs=x", |o| o.fs_name = Some("x".into()));
    check("mds_namespace=x", |o| o.fs_name = Some("x".into()));
    check("ms_mode=secure", |o| o.mode = Some(ConMode::Secure));
    check("ms_mode=crc", |o| o.mode = Some(ConMode::Crc));
    check("ms_mode=prefer-secure", |_| {});
    check("snapdirname=.s", |o| o.snapdir = Some(".s".into()));
    check("ceph.client_cache_size=9", |o| o.inodes = Some(9));
    check("mount_timeout=5", |o| o.timeout = Some(5));
    check("dirty=1M,log=/l", |o| (o.dirty, o.log) = (Some(1 << 20), Some("/l".into())));
    check("wsync", |o| o.asynchronous = false);
    check("wsync,nowsync", |_| {});
    check("ro", |o| o.flags.read_only = true);
    check("ro,rw", |_| {});
    check("nosuid,nodev,noexec", |o| (o.flags.suid, o.flags.dev, o.flags.exec) = (false, false, false));
    check("user", |o| (o.flags.suid, o.flags.dev, o.flags.exec) = (false, false, false));
    check("user=me,exec", |o| (o.flags.suid, o.flags.dev) = (false, false));
    check("owner", |o| (o.flags.suid, o.flags.dev) = (false, false));
    check("nosuid,defaults", |_| {});
    check("sync,dirsync", |o| (o.flags.sync, o.flags.dirsync) = (true, true));
    check("allow_other", |o| o.flags.allow_other = true);
    check("fsid=07fe3187-00d9-42a3-814b-72a4d5e7d5be", |o| {
        o.fsid = Uuid::parse("07fe3187-00d9-42a3-814b-72a4d5e7d5be");
    });
}

#[test]
fn options_that_do_nothing_here() {
    for text in [
        "",
        ",",
        "noatime,_netdev,noauto,nofail",
        "x-systemd.automount,x-systemd.idle-timeout=60",
        "comment=some text",
        "norbytes,acl,noshare,rasize=1024,rsize=1,wsize=2",
        "default_permissions",
        "recover_session=clean",
        "read_from_replica=balance,crush_location=rack:a|host:b",
        "relatime,nouser",
    ] {
        check(text, |_| {});
    }
}

#[test]
fn options_that_are_not_done_are_told() {
    for text in
        ["recover_session=no", "rbytes", "noacl", "ip=1.2.3.4", "ino32", "dirstat", "ceph.client_oc=false"]
    {
        let options = parse(text).expect("taken");
        assert_eq!(options.notes.len(), 1, "{text}");
        let name = text.split('=').next().unwrap_or_default();
        assert!(options.notes[0].starts_with(name), "{text}: {:?}", options.notes);
    }
}

#[test]
fn what_is_unknown_or_wrong_is_refused_by_name() {
    for (text, named) in [
        ("ro,nosuch,rw", "`nosuch`"),
        ("nosuch=1", "`nosuch`"),
        ("name", "`name`"),
        ("name=", "`name`"),
        ("name=a b", "`a b`"),
        ("name=a,name=b", "`client.a`"),
        ("fsid=1", "`1`"),
        ("ms_mode=legacy", "`ms_mode=legacy`"),
        ("ms_mode=x", "`ms_mode=x`"),
        ("mount_timeout=soon", "`mount_timeout=soon`"),
        ("dirty=much", "`much`"),
        ("recover_session=maybe", "`recover_session`"),
        ("remount", "`remount`"),
        ("bind", "`bind`"),
        ("test_dummy_encryption", "`test_dummy_encryption`"),
    ] {
        let error = parse(text).expect_err(text);
        assert!(error.contains(named), "{text}: {error}");
    }
}

#[test]
fn sloppy_mounts_ignore_what_is_unknown_only() {
    let mut options = Options::default();
    assert_eq!(options.take("nosuch,ro", true), Ok(()));
    assert!(options.flags.read_only);
    assert!(options.take("fsid=1", true).is_err());
}

//! Layouts, set on empty files and on directories, whose new files get them.

mod world;

use maps::LegacyFileLayout;
use msgs::{ClientRequest, FilePath, MdsOp, SetlayoutArgs, cap};
use wire::Errno;
use world::World;
use world::client::{create, getattr, mkdir, request, setattr_size, setxattr, two};
use world::pair::{A, B, caps, fails, ino, ok, stat, two_clients};

const ALONE: u32 = cap::FILE_EXCL | cap::DIR_CREATE | cap::DIR_UNLINK;
const KIB: u32 = 1 << 10;

fn set(path: &str, name: &str, value: &str) -> ClientRequest {
    setxattr(path, &format!("ceph.{name}"), value.as_bytes())
}

fn remove(path: &str, name: &str) -> ClientRequest {
    ClientRequest { op: MdsOp::RMXATTR, ..set(path, name, "") }
}

/// Stripe unit and count, object size, pool and namespace as a client is told of them.
fn layout(w: &mut World, path: &str) -> (u32, u32, u32, u32, String) {
    let stat = stat(w, B, path);
    let LegacyFileLayout { stripe_unit, stripe_count, object_size, pool } = stat.layout;
    (stripe_unit, stripe_count, object_size, pool, stat.pool_ns)
}

fn default() -> (u32, u32, u32, u32, String) {
    (4096 * KIB, 1, 4096 * KIB, 2, String::new())
}

/// The value of an xattr that the server computes.
fn value(w: &mut World, path: &str, name: &str) -> Result<String, i32> {
    let reply = w.call(B, ClientRequest { op: MdsOp::GETVXATTR, ..set(path, name, "") });
    if reply.result < 0 {
        return Err(reply.result);
    }
    let mut r = wire::Reader::new(&reply.extra);
    r.versioned(1, |_, r| r.get()).map_err(|_| 0)
}

#[test]
fn new_files_get_the_layout_of_the_nearest_directory_that_has_one() {
    let mut w = two_clients(1);
    for r in [mkdir("d"), mkdir("d/e"), mkdir("d/e/g"), create("d/before", 2)] {
        ok(&mut w, r);
    }
    ok(&mut w, set("d", "dir.layout", "stripe_unit=65536 stripe_count=2 object_size=131072 pool=fast"));
    ok(&mut w, set("d", "dir.layout.pool_namespace", "ns"));
    let of_d = (64 * KIB, 2, 128 * KIB, 7, "ns".to_owned());
    ok(&mut w, set("d/e", "dir.layout.stripe_count", "5"));
    let of_e = (64 * KIB, 5, 128 * KIB, 7, "ns".to_owned());
    w.crash(&[A, B]);
    for r in [create("d/f", 2), create("d/e/g/f", 2), create("f", 2), mkdir("d/new"), create("d/new/f", 2)] {
        ok(&mut w, r);
    }
    for (path, want) in [("d", &of_d), ("d/f", &of_d), ("d/new/f", &of_d), ("d/e/g/f", &of_e)] {
        assert_eq!(layout(&mut w, path), *want, "{path}");
    }
    assert_eq!((layout(&mut w, "f"), layout(&mut w, "d/before")), (default(), default()));
    assert_eq!(layout(&mut w, "d/new").0, 0, "it has none of its own");
    let text = "stripe_unit=65536 stripe_count=2 object_size=131072 pool=fast pool_namespace=ns";
    assert_eq!(value(&mut w, "d", "dir.layout"), Ok(text.into()));
    assert_eq!(value(&mut w, "d/f", "file.layout.pool"), Ok("fast".into()));
    for (path, name) in [("d/new", "dir.layout"), ("d", "file.layout"), ("d/f", "dir.layout.pool")] {
        assert_eq!(value(&mut w, path, name), Err(Errno::ENODATA.to_result_code()), "{path} {name}");
    }
    ok(&mut w, remove("d/e", "dir.layout"));
    ok(&mut w, remove("d/e", "dir.layout"));
    ok(&mut w, create("d/e/g/second", 2));
    assert_eq!(layout(&mut w, "d/e/g/second"), of_d);
    ok(&mut w, set("", "dir.layout.stripe_count", "3"));
    ok(&mut w, create("second", 2));
    assert_eq!(layout(&mut w, "second").1, 3);
}

#[test]
fn a_file_changes_its_layout_until_it_has_data() {
    let mut w = two_clients(2);
    let file = ino(&w.call(B, create("f", 2)));
    ok(&mut w, set("f", "file.layout.pool", "7"));
    assert_eq!(layout(&mut w, "f"), (4096 * KIB, 1, 4096 * KIB, 7, String::new()));
    w.crash(&[A, B]);
    assert_eq!(layout(&mut w, "f").3, 7);
    assert_eq!(caps(&w, B, file) & cap::FILE_WR, cap::FILE_WR, "B has it open");
    assert!(w.clients.get_mut(&B).expect("b").write_to(file, 1000));
    fails(&mut w, set("f", "file.layout.pool", "2"), Errno::ENOTEMPTY);
    assert_eq!(layout(&mut w, "f").3, 7);
    ok(&mut w, setattr_size("f", 0));
    fails(&mut w, set("f", "file.layout.pool", "2"), Errno::ENOTEMPTY);
}

#[test]
fn wrong_layouts_are_refused() {
    let mut w = two_clients(3);
    for r in [mkdir("d"), create("f", 2)] {
        ok(&mut w, r);
    }
    let wrong = [
        ("dir.layout", ""),
        ("dir.layout", "pool"),
        ("dir.layout.pool", "1"),
        ("dir.layout.pool", "slow"),
        ("dir.layout.stripe_unit", "0"),
        ("dir.layout.stripe_unit", "65537"),
        ("dir.layout.object_size", "65536"),
        ("dir.layout.stripe_count", "-1"),
        ("file.layout.pool", "7"),
    ];
    for (name, value) in wrong {
        fails(&mut w, set("d", name, value), Errno::EINVAL);
    }
    fails(&mut w, set("f", "dir.layout.pool", "7"), Errno::EINVAL);
    fails(&mut w, remove("f", "file.layout"), Errno::EINVAL);
    fails(&mut w, remove("d", "dir.layout.pool"), Errno::EINVAL);
    fails(&mut w, set("d", "dir.layout.size", "7"), Errno::ENODATA);
    assert_eq!(layout(&mut w, "d").0, 0);
    for (client, caps, result) in [(30, "allow rw", Errno::EACCES.to_result_code()), (31, "allow rwp", 0)] {
        w.connect_with(client, caps);
        assert_eq!(w.call(client, set("d", "dir.layout.pool", "7")).result, result, "{caps}");
        assert_eq!(w.call(client, whole(MdsOp::SETLAYOUT, "f", 0, 7)).result, result, "{caps}");
    }
}

#[test]
fn no_answer_tells_of_a_layout_that_a_crash_may_undo() {
    let mut w = two_clients(6);
    for r in [mkdir("d"), mkdir("d/e"), mkdir("other"), mkdir("other/e"), set("d", "dir.layout.pool", "7")] {
        ok(&mut w, r);
    }
    let (e, moved) = (stat(&mut w, A, "d/e").ino, stat(&mut w, A, "other/e").ino);
    // By the number of the directory, as clients ask: no directory above is on the path.
    let is_early = |w: &mut World, dir: u64, name: String| {
        let path = FilePath { ino: dir, path: name.into_bytes() };
        let tid = w.start(A, ClientRequest { path, ..create("", 2) });
        let is_early = w.clients[&A].replies.contains_key(&tid);
        w.quiet();
        w.reply(A, tid);
        is_early
    };
    assert!(is_early(&mut w, e, "a".into()));
    let changes = [
        set("d", "dir.layout.stripe_count", "2"),
        remove("d", "dir.layout"),
        set("d", "dir.layout.pool", "7"),
        two(MdsOp::RENAME, "d/other", "other"),
    ];
    for (n, change) in changes.into_iter().enumerate() {
        w.call_early(B, change);
        let dir = if n == 3 { moved } else { e };
        assert!(!is_early(&mut w, dir, n.to_string()), "after change {n}");
        assert!(is_early(&mut w, dir, format!("{n}more")), "now it is durable");
    }
}

fn whole(op: MdsOp, path: &str, stripe_count: u32, pool: u32) -> ClientRequest {
    let layout = LegacyFileLayout { stripe_count, pool, ..LegacyFileLayout::default() };
    ClientRequest { args: SetlayoutArgs { layout }.into(), ..request(op, path) }
}

#[test]
fn the_older_requests_set_what_is_not_0() {
    let mut w = two_clients(4);
    for r in [mkdir("d"), create("f", 2)] {
        ok(&mut w, r);
    }
    ok(&mut w, whole(MdsOp::SETLAYOUT, "f", 3, 0));
    ok(&mut w, whole(MdsOp::SETDIRLAYOUT, "d", 0, 7));
    assert_eq!(layout(&mut w, "f"), (4096 * KIB, 3, 4096 * KIB, 2, String::new()));
    assert_eq!(layout(&mut w, "d"), (4096 * KIB, 1, 4096 * KIB, 7, String::new()));
    fails(&mut w, whole(MdsOp::SETLAYOUT, "d", 3, 0), Errno::EINVAL);
    fails(&mut w, whole(MdsOp::SETDIRLAYOUT, "f", 3, 0), Errno::EINVAL);
    fails(&mut w, whole(MdsOp::SETLAYOUT, "f", 3, 1), Errno::EINVAL);
}

#[test]
fn who_creates_without_asking_gives_that_up_before_its_files_get_another_layout() {
    let mut w = two_clients(5);
    w.call(A, getattr("", 0));
    w.want_alone(A, 1);
    for dir in ["d", "other"] {
        ok(&mut w, mkdir(dir));
    }
    let alone_in = |w: &mut World, path: &str| {
        let dir = ino(&w.call(A, mkdir(path)));
        ok(w, create(&format!("{path}/f"), 2));
        assert_eq!(caps(w, A, dir) & ALONE, ALONE, "{path}");
        w.clients.get_mut(&A).expect("a").held.get_mut(&dir).expect("held").wanted = 0;
        dir
    };
    let e = alone_in(&mut w, "d/e");
    let aside = alone_in(&mut w, "aside");
    assert_eq!(w.call(B, set("d", "dir.layout.pool", "7")).result, 0);
    assert_eq!(caps(&w, A, e) & cap::DIR_CREATE, 0, "it was told, and answered");
    assert_eq!(caps(&w, A, aside) & ALONE, ALONE, "elsewhere nothing changes");
    assert_eq!(w.call(B, two(MdsOp::RENAME, "other/aside", "aside")).result, 0);
    let moved = alone_in(&mut w, "moved");
    assert_eq!(w.call(B, two(MdsOp::RENAME, "d/moved", "moved")).result, 0);
    assert_eq!(caps(&w, A, moved) & cap::DIR_CREATE, 0, "new files get another layout there");
}

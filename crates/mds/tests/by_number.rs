//! Inodes by number alone, as clients ask for what NFS servers have handles of.

mod world;

use mds::MdsOptions;
use msgs::{ClientReply, ClientRequest, FilePath, MdsOp};
use wire::Errno;
use world::World;
use world::client::{create, mkdir, request, two};
use world::pair::{A, B, ino, ok, two_clients};

fn ask(w: &mut World, op: MdsOp, ino: u64) -> Result<u64, i32> {
    let path = FilePath { ino, path: Vec::new() };
    let reply: ClientReply = w.call(B, ClientRequest { path, ..request(op, "") });
    reply.trace.target.map(|stat| stat.ino).ok_or(reply.result)
}

/// B has looked at nothing by name, and after a crash the rank knows nothing either.
#[test]
fn a_directory_tells_its_parent_by_number_wherever_it_is() {
    let mut w = two_clients(1);
    let made = |w: &mut World, request| ino(&w.call(A, request));
    let (a, b) = (made(&mut w, mkdir("a")), made(&mut w, mkdir("b")));
    let (sub, gone) = (made(&mut w, mkdir("a/sub")), made(&mut w, mkdir("a/gone")));
    let file = made(&mut w, create("a/sub/f", 2));
    w.give_everything_back(A);
    let none = Err(Errno::EINVAL.to_result_code());
    for round in 0..2 {
        assert_eq!(ask(&mut w, MdsOp::LOOKUPPARENT, sub), Ok(a), "round {round}");
        assert_eq!(ask(&mut w, MdsOp::LOOKUPPARENT, file), Ok(sub));
        assert_eq!(ask(&mut w, MdsOp::LOOKUPPARENT, a), Ok(1));
        assert_eq!(ask(&mut w, MdsOp::LOOKUPPARENT, 1), none);
        assert_eq!(ask(&mut w, MdsOp::LOOKUPINO, file), Ok(file));
        w.crash(&[A, B]);
    }
    ok(&mut w, two(MdsOp::RENAME, "b/sub", "a/sub"));
    ok(&mut w, request(MdsOp::RMDIR, "a/gone"));
    let stale = Err(Errno::ESTALE.to_result_code());
    for round in 0..2 {
        assert_eq!(ask(&mut w, MdsOp::LOOKUPPARENT, sub), Ok(b), "round {round}");
        assert_eq!(ask(&mut w, MdsOp::LOOKUPINO, file), Ok(file));
        w.give_everything_back(A);
        w.quiet();
        for op in [MdsOp::LOOKUPPARENT, MdsOp::LOOKUPINO] {
            assert_eq!(ask(&mut w, op, gone), stale, "round {round}");
            assert_eq!(ask(&mut w, op, file + 1000), stale, "no such number was given");
        }
        w.crash(&[A, B]);
    }
}

#[test]
fn a_file_without_a_name_has_no_parent() {
    let mut w = two_clients(1);
    let file = ino(&w.call(A, create("f", 2)));
    ok(&mut w, request(MdsOp::UNLINK, "f"));
    assert_eq!(ask(&mut w, MdsOp::LOOKUPINO, file), Ok(file), "it is open");
    assert_eq!(ask(&mut w, MdsOp::LOOKUPPARENT, file), Err(Errno::ESTALE.to_result_code()));
}

/// Linux asks so when it serves a file system by NFS.
#[test]
fn the_name_of_an_inode_in_its_directory_is_found_by_number() {
    let mut w = two_clients(1);
    let dir = ino(&w.call(A, mkdir("a")));
    let sub = ino(&w.call(A, mkdir("a/sub")));
    w.give_everything_back(A);
    let mut request = request(MdsOp::LOOKUPNAME, "");
    (request.path.ino, request.path2.ino) = (sub, dir);
    let reply = w.call(B, request.clone());
    assert_eq!((reply.result, reply.trace.dentry.map(|d| d.name)), (0, Some(b"sub".to_vec())));
    request.path2.ino = 1;
    assert_eq!(w.call(B, request).result, Errno::ENOENT.to_result_code(), "it is not there");
}

/// NFS servers pass on what their clients may have made up.
#[test]
fn a_key_for_a_path_finds_nothing_elsewhere_by_number() {
    for is_cached in [true, false] {
        let mut w = World::new(1, MdsOptions::default());
        w.connect(A);
        ok(&mut w, mkdir("mine"));
        ok(&mut w, mkdir("theirs"));
        let mine = ino(&w.call(A, create("mine/f", 2)));
        let theirs = ino(&w.call(A, create("theirs/f", 2)));
        if !is_cached {
            w.give_everything_back(A);
            w.crash(&[A]);
        }
        w.connect_with(B, "allow rw path=/mine");
        let refused = Err(Errno::EACCES.to_result_code());
        for op in [MdsOp::LOOKUPINO, MdsOp::LOOKUPPARENT] {
            assert_eq!(ask(&mut w, op, theirs), refused, "{op}, {is_cached}");
        }
        assert_eq!(ask(&mut w, MdsOp::LOOKUPINO, mine), Ok(mine), "{is_cached}");
    }
}

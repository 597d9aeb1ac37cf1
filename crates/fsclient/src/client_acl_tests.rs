//! ACLs: what new inodes inherit, and lists in step with modes.

use super::tests::{DIR, DIR_CAPS, INO, Rig, answers, asked_mds, dir_stat, requests, stat};
use super::*;
use crate::acl;
use crate::api::{Caller, SetAttr};
use maps::MdsRank;
use msgs::{
    ClientReply, ClientRequest, InodeStat, MdsOp, MkdirArgs, ReplyTrace, SetattrArgs, SetxattrArgs, cap,
    cap_op,
};
use wire::Writer;

/// A list of these entries: tag, permissions and number.
fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut w = Writer::new();
    w.put(&2u32);
    for (tag, perm, id) in entries {
        w.put(tag);
        w.put(perm);
        w.put(id);
    }
    w.into_vec()
}

/// A list with a named user.
fn named(group: u16) -> Vec<u8> {
    list(&[(1, 7, 0), (2, 6, 1000), (4, 5, 0), (0x10, group, 0), (0x20, 0, 0)])
}

fn minimal() -> Vec<u8> {
    list(&[(1, 6, 0), (4, 4, 0), (0x20, 0, 0)])
}

impl Rig {
    /// An active MDS, and a directory with these lists.
    fn with_lists(bits: u32, lists: &[(&[u8], Vec<u8>)]) -> Self {
        let mut rig = Self::with_dir(bits);
        rig.client.cache.learn_inode(MdsRank(0), &with(lists, bits));
        rig
    }

    fn makes(&mut self, umask: u32) -> Outs {
        let mkdir = FsRequest::Mkdir { parent: DIR, name: b"d".to_vec(), mode: 0o777 };
        let request = Request::Fs(Caller { umask, ..Caller::default() }, mkdir);
        self.input(Input::Request { id: RequestId(1000), request })
    }

    /// The MDS answers a request about the directory.
    fn answered(&mut self, tid: u64, op: MdsOp, target: InodeStat) -> Outs {
        let trace = ReplyTrace { target: Some(Box::new(target)), dentry: None };
        self.mds_says(tid, ClientReply { op, safe: true, trace, ..ClientReply::default() })
    }
}

fn with(lists: &[(&[u8], Vec<u8>)], bits: u32) -> InodeStat {
    let xattrs: BTreeMap<Vec<u8>, Vec<u8>> = lists.iter().map(|(n, v)| (n.to_vec(), v.clone())).collect();
    InodeStat { xattrs: Writer::encode(&xattrs), xattr_version: 2, version: 2, ..dir_stat(2, bits) }
}

fn made(out: &Outs) -> (u32, BTreeMap<Vec<u8>, Vec<u8>>) {
    let asked = requests(out);
    let [(_, request)] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!(request.op, MdsOp::MKDIR);
    let xattrs = if request.data.is_empty() {
        BTreeMap::new()
    } else {
        Reader::new(&request.data.to_vec()).get().expect("a map")
    };
    (request.args.get::<MkdirArgs>().mode, xattrs)
}

fn only(out: &Outs, op: MdsOp) -> (u64, ClientRequest) {
    let mut asked = requests(out);
    assert_eq!(asked.iter().map(|(_, r)| r.op).collect::<Vec<_>>(), [op]);
    asked.remove(0)
}

#[test]
fn a_directory_without_a_default_list_leaves_it_to_the_umask() {
    let mut rig = Rig::with_dir(DIR_CAPS);
    assert_eq!(made(&rig.makes(0o022)), (0o755, BTreeMap::new()));
}

#[test]
fn a_default_list_is_inherited_instead_of_the_umask() {
    let mut rig = Rig::with_lists(DIR_CAPS, &[(acl::DEFAULT, named(6))]);
    let (mode, xattrs) = made(&rig.makes(0o077));
    assert_eq!(mode, 0o760);
    assert_eq!(xattrs[acl::DEFAULT], named(6));
    assert_eq!(xattrs[acl::ACCESS], named(6));
}

#[test]
fn a_list_that_is_not_known_is_asked_for_once() {
    let bits = DIR_CAPS & !cap::XATTR_SHARED;
    let mut rig = Rig::with_dir(bits);
    let (tid, _) = only(&rig.makes(0), MdsOp::GETATTR);
    let out = rig.answered(tid, MdsOp::GETATTR, with(&[(acl::DEFAULT, minimal())], bits));
    let (mode, xattrs) = made(&out);
    assert_eq!((mode, xattrs.len()), (0o640, 1), "the mode says what the list says");
}

#[test]
fn a_list_follows_the_mode() {
    let mut rig = Rig::with_lists(DIR_CAPS | cap::AUTH_EXCL, &[(acl::ACCESS, named(7))]);
    let set = SetAttr { mode: Some(0o750), ..SetAttr::default() };
    let (tid, _) = only(&rig.ask(FsRequest::Setattr { ino: DIR, set }), MdsOp::SETATTR);
    let out = rig.answered(tid, MdsOp::SETATTR, with(&[(acl::ACCESS, named(7))], DIR_CAPS));
    let (tid, request) = only(&out, MdsOp::SETXATTR);
    assert_eq!((&request.path2.path[..], request.data.to_vec()), (acl::ACCESS, named(5)));
    let out = rig.answered(tid, MdsOp::SETXATTR, with(&[(acl::ACCESS, named(5))], DIR_CAPS));
    assert!(matches!(answers(&out)[..], [Ok(Answer::Attr(..))]), "{:?}", answers(&out));
}

#[test]
fn the_mode_follows_a_list() {
    let unknown = DIR_CAPS & !cap::XATTR_SHARED;
    for (value, mode, bits) in
        [(named(5), 0o750, DIR_CAPS), (minimal(), 0o640, DIR_CAPS), (minimal(), 0o640, unknown)]
    {
        let mut rig = Rig::with_dir(bits);
        let name = acl::ACCESS.to_vec();
        let set = FsRequest::Setxattr { ino: DIR, name, value: value.clone(), flags: 0, kill_sgid: false };
        let (tid, request) = only(&rig.ask(set), MdsOp::SETATTR);
        assert_eq!(request.args.get::<SetattrArgs>().mode & 0o7777, mode);
        let out = rig.answered(tid, MdsOp::SETATTR, dir_stat(2, bits));
        if mode == 0o750 {
            let (tid, request) = only(&out, MdsOp::SETXATTR);
            assert_eq!(request.args.get::<SetxattrArgs>().flags, 0);
            assert_eq!(request.data.to_vec(), value);
            let out = rig.answered(tid, MdsOp::SETXATTR, dir_stat(3, DIR_CAPS));
            assert_eq!(answers(&out), [&Ok(Answer::Done)]);
        } else if bits == DIR_CAPS {
            assert_eq!(answers(&out), [&Ok(Answer::Done)], "none is there to be removed");
        } else {
            let (tid, _) = only(&out, MdsOp::RMXATTR);
            let result = Errno::ENODATA.to_result_code();
            let reply = ClientReply { op: MdsOp::RMXATTR, safe: true, result, ..ClientReply::default() };
            assert_eq!(answers(&rig.mds_says(tid, reply)), [&Ok(Answer::Done)], "there was none");
        }
    }
}

#[test]
fn a_list_that_the_mode_says_is_set_on_a_held_file_without_asking() {
    let mut rig = Rig::with_dir(DIR_CAPS);
    rig.caps(cap_op::GRANT, 2, cap::PIN | cap::ANY_SHARED | cap::AUTH_EXCL);
    rig.client.cache.learn_inode(MdsRank(0), &stat(INO, 0o100_600));
    let set = |value| FsRequest::Setxattr {
        ino: INO,
        name: acl::ACCESS.to_vec(),
        value,
        flags: 0,
        kill_sgid: false,
    };
    let out = rig.ask(set(minimal()));
    assert!(asked_mds(&out).is_empty());
    assert_eq!(answers(&out), [&Ok(Answer::Done)]);
    let out = rig.ask(FsRequest::Getattr { ino: INO });
    let [Ok(Answer::Attr(attr, _))] = &answers(&out)[..] else { panic!("{:?}", answers(&out)) };
    assert_eq!(attr.mode & 0o7777, 0o640);
    let out = rig.ask(set(named(5)));
    assert_eq!(asked_mds(&out), [MdsOp::SETATTR], "more than a mode is the MDS's");
}

#[test]
fn what_is_no_list_is_refused() {
    let mut rig = Rig::with_dir(DIR_CAPS);
    let set = |name: &[u8]| FsRequest::Setxattr {
        ino: INO,
        name: name.to_vec(),
        value: b"any".to_vec(),
        flags: 0,
        kill_sgid: false,
    };
    assert_eq!(answers(&rig.ask(set(acl::ACCESS))), [&Err(Errno::EINVAL)]);
}

#[test]
fn names_outside_of_all_name_spaces_are_refused() {
    let mut rig = Rig::with_dir(DIR_CAPS);
    let taken: [&[u8]; 4] = [b"user.a", b"trusted.a", b"security.a", acl::DEFAULT];
    let refused: [(&[u8], Errno); 4] = [
        (b"system.other", Errno::EOPNOTSUPP),
        (b"other.a", Errno::EOPNOTSUPP),
        (b"user", Errno::EOPNOTSUPP),
        (b"user.", Errno::EINVAL),
    ];
    for (name, errno) in refused {
        let (ino, name) = (DIR, name.to_vec());
        let set = FsRequest::Setxattr { ino, name: name.clone(), value: vec![1], flags: 0, kill_sgid: false };
        let remove = FsRequest::Removexattr { ino, name: name.clone() };
        for request in [set, remove, FsRequest::Getxattr { ino, name }] {
            assert_eq!(answers(&rig.ask(request)), [&Err(errno)]);
        }
    }
    for name in taken {
        let get = FsRequest::Getxattr { ino: DIR, name: name.to_vec() };
        assert_eq!(answers(&rig.ask(get)), [&Err(Errno::ENODATA)]);
    }
}

#[test]
fn a_list_keeps_the_mode_that_it_says_nothing_of() {
    let bits = DIR_CAPS & !cap::AUTH_SHARED;
    let mut rig = Rig::with_dir(bits);
    let (ino, name, value) = (DIR, acl::ACCESS.to_vec(), named(5));
    let set = FsRequest::Setxattr { ino, name, value, flags: 0, kill_sgid: false };
    let (tid, _) = only(&rig.ask(set), MdsOp::GETATTR);
    // Somebody has made the directory one of a group meanwhile.
    let now = InodeStat { mode: 0o042_755, ..with(&[], bits) };
    let (_, request) = only(&rig.answered(tid, MdsOp::GETATTR, now), MdsOp::SETATTR);
    assert_eq!(request.args.get::<SetattrArgs>().mode & 0o7777, 0o2750);
}

#[test]
fn a_list_that_came_without_the_right_to_keep_it_is_asked_for_when_the_mode_changes() {
    let bits = DIR_CAPS & !cap::XATTR_SHARED;
    let mut rig = Rig::with_lists(bits, &[(acl::ACCESS, named(7))]);
    let set = SetAttr { mode: Some(0o750), ..SetAttr::default() };
    let (tid, _) = only(&rig.ask(FsRequest::Setattr { ino: DIR, set }), MdsOp::SETATTR);
    // As a server of Ceph answers.
    let (tid, _) = only(&rig.answered(tid, MdsOp::SETATTR, dir_stat(2, bits)), MdsOp::GETATTR);
    let listed = list(&[(1, 7, 0), (2, 4, 1001), (4, 5, 0), (0x10, 7, 0), (0x20, 0, 0)]);
    let stat = InodeStat { xattr_version: 3, ..with(&[(acl::ACCESS, listed)], bits) };
    let (_, request) = only(&rig.answered(tid, MdsOp::GETATTR, stat), MdsOp::SETXATTR);
    let expected = list(&[(1, 7, 0), (2, 4, 1001), (4, 5, 0), (0x10, 5, 0), (0x20, 0, 0)]);
    assert_eq!(request.data.to_vec(), expected, "somebody has changed it meanwhile");
}

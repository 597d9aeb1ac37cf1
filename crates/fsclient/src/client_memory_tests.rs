//! Inodes that callers refer to, and which are dropped all the same: there are too many, or nobody has a name
//! for them.

use super::names_tests::rig_with_all_names;
use super::tests::{DIR_CAPS, Rig, asked_mds, released, requests};
use super::*;
use crate::key::InodeKey;
use maps::MdsRank;
use msgs::{Caps, ClientCaps, MdsOp, cap_op};

/// What callers are asked to forget.
fn to_forget(out: &Outs) -> Vec<u64> {
    let id = |o: &Output<Reply>| match o {
        Output::Reply { reply: Ok(Answer::Invalidate { id, .. }), .. } => Some(*id),
        _ => None,
    };
    out.iter().filter_map(id).collect()
}

impl Rig {
    /// Callers forget what they are asked to.
    fn forget(&mut self, out: &Outs) -> Outs {
        let mut more = Outs::new();
        for id in to_forget(out) {
            let request = Request::Invalidated { id };
            more.extend(self.input(Input::Request { id: RequestId(0), request }));
        }
        more
    }
}

#[test]
fn inodes_that_the_kernel_refers_to_are_dropped_when_there_are_too_many() {
    let mut rig = rig_with_all_names();
    rig.client.cache.limit_unused_inodes(40);
    let file = |n: u64| 0x200_0000_0000 + n;
    // Callers believe the attributes of the last ones.
    for n in (90..100).chain(0..100) {
        let out = rig.ask(FsRequest::Getattr { ino: file(n) });
        rig.forget(&out);
    }
    assert!(rig.client.cache.len() <= 60, "{} inodes", rig.client.cache.len());
    let key = InodeKey::head(file(1));
    assert!(rig.client.cache.inode(key).is_none(), "it was used least recently");
    assert_eq!(asked_mds(&rig.lookup(b"unknown")), [], "all names are known still");
    let asked = requests(&rig.ask(FsRequest::Getattr { ino: file(1) }));
    assert_eq!((asked[0].1.op, asked[0].1.path.ino), (MdsOp::GETATTR, file(1)));
    // Callers have the one reference that they had before, and give it back.
    rig.client.cache.learn_inode(MdsRank(0), &super::tests::stat(file(1), 0o100_644));
    assert!(rig.client.cache.inode(key).is_some_and(|inode| !inode.is_idle()));
    rig.ask(FsRequest::Forget { ino: file(1), count: 1 });
    assert!(rig.client.cache.inode(key).is_none_or(crate::inode::Inode::is_idle));
}

#[test]
fn a_file_without_a_name_goes_although_the_kernel_refers_to_it() {
    let mut rig = rig_with_all_names();
    let ino = 0x200_0000_0000;
    rig.ask(FsRequest::Getattr { ino });
    let links = ClientCaps { op: cap_op::GRANT, ino, cap_id: 100, seq: 2, ..ClientCaps::default() };
    let out = rig.mds_says(0, ClientCaps { caps: Caps(DIR_CAPS), mode: 0o100_644, nlink: 0, ..links });
    assert!(released(&out).is_empty(), "callers believe that it is there");
    let out = rig.forget(&out);
    assert_eq!(released(&out)[0].ino, ino, "its MDS may purge it");
}

//! Snapshots of a directory, against scripted answers of an MDS.

use super::tests::{DIR, DIR_CAPS, INO, Rig, answers, asked_mds, requests, stat};
use super::*;
use crate::api::{Attr, Entry, Ino, Invalidate};
use crate::key::InodeKey;
use maps::SnapId;
use msgs::{ClientReply, ClientRequest, ClientSnap, InodeStat, MdsOp, SnapRealmInfo, cap, snap_op};
use stdx::Bufs;

const SNAP: u64 = 7;
/// The bits that come with a state of a snapshot.
const BITS: u32 = cap::PIN | cap::ANY_RD;

fn state(ino: Ino, mode: u32) -> InodeStat {
    let mut state = InodeStat { snapid: SnapId(SNAP), ..stat(ino, mode) };
    state.cap.caps = BITS;
    state.snap_btime = wire::Timespec { sec: 1000, nsec: 5 };
    (state.layout.stripe_unit, state.layout.stripe_count, state.layout.object_size) = (4 << 20, 1, 4 << 20);
    state
}

fn path(request: &ClientRequest) -> (u64, &str) {
    (request.path.ino, std::str::from_utf8(&request.path.path).expect("ascii"))
}

fn entry(out: &Outs) -> Entry {
    match answers(out)[..] {
        [Ok(Answer::Entry(entry))] => *entry,
        ref other => panic!("{other:?}"),
    }
}

fn attr(out: &Outs) -> Attr {
    match answers(out)[..] {
        [Ok(Answer::Attr(attr, _))] => *attr,
        ref other => panic!("{other:?}"),
    }
}

fn lookup(parent: Ino, name: &[u8]) -> FsRequest {
    FsRequest::Lookup { parent, name: name.to_vec() }
}

fn mkdir(parent: Ino, name: &[u8]) -> FsRequest {
    FsRequest::Mkdir { parent, name: name.to_vec(), mode: 0o755 }
}

impl Rig {
    /// Asks what has to be asked of the MDS, once. Returns the request with its tid.
    fn asks(&mut self, request: FsRequest) -> (u64, ClientRequest) {
        let out = self.ask(request);
        assert_eq!(answers(&out), Vec::<&Reply>::new(), "not known yet");
        requests(&out).pop().expect("the MDS is asked")
    }

    fn told(&mut self, tid: u64, op: MdsOp, target: InodeStat) -> Outs {
        let trace = msgs::ReplyTrace { dentry: None, target: Some(Box::new(target)) };
        self.mds_says(tid, ClientReply { op, safe: true, trace, ..ClientReply::default() })
    }

    fn refused(&mut self, tid: u64, op: MdsOp, errno: Errno) -> Outs {
        let result = errno.to_result_code();
        self.mds_says(tid, ClientReply { op, result, safe: true, ..ClientReply::default() })
    }

    /// The number of the directory's `.snap`.
    fn snapdir(&mut self) -> Ino {
        entry(&self.ask(lookup(DIR, b".snap"))).attr.ino
    }

    /// A rig, the numbers of the directory's snapshot `S`, and of a file with one name in it, `f`.
    fn with_snapshot() -> (Self, Ino, Ino) {
        let mut rig = Self::with_dir(DIR_CAPS);
        let snapdir = rig.snapdir();
        let (tid, _) = rig.asks(lookup(snapdir, b"S"));
        let top = entry(&rig.told(tid, MdsOp::LOOKUPSNAP, state(DIR, 0o040_755))).attr.ino;
        let (tid, asked) = rig.asks(lookup(top, b"f"));
        assert_eq!((asked.op, path(&asked)), (MdsOp::LOOKUP, (DIR, "/S/f")));
        let dentry = msgs::ReplyDentry {
            dir: state(DIR, 0o040_755),
            dir_stat: msgs::DirStat::default(),
            name: b"f".to_vec(),
            lease: msgs::LeaseStat::default(),
        };
        let target = InodeStat { size: 5000, ..state(INO, 0o100_644) };
        let trace = msgs::ReplyTrace { dentry: Some(Box::new(dentry)), target: Some(Box::new(target)) };
        let found = ClientReply { op: MdsOp::LOOKUP, safe: true, trace, ..ClientReply::default() };
        let file = entry(&rig.mds_says(tid, found)).attr.ino;
        (rig, top, file)
    }

    /// The MDS tells that the realm of `DIR` has these snapshots.
    fn realm(&mut self, seq: u64, snaps: &[u64]) -> Outs {
        let info = SnapRealmInfo {
            ino: DIR,
            created: SnapId(2),
            parent: 1,
            parent_since: SnapId(2),
            seq: SnapId(seq),
            snaps: snaps.iter().map(|snap| SnapId(*snap)).collect(),
            prior_parent_snaps: Vec::new(),
        };
        let trace = vec![info];
        self.mds_says(0, ClientSnap { op: snap_op::UPDATE, trace, ..ClientSnap::default() })
    }
}

#[test]
fn a_directory_of_snapshots_has_a_number_of_its_own_and_the_rights_of_its_directory() {
    let mut rig = Rig::with_dir(DIR_CAPS);
    let out = rig.ask(lookup(DIR, b".snap"));
    let found = entry(&out);
    assert_eq!((asked_mds(&out), found.attr.mode), (vec![], 0o040_755));
    assert_ne!(found.attr.ino, DIR);
    assert_eq!(found.entry_valid, std::time::Duration::ZERO);
    let out = rig.ask(FsRequest::Getattr { ino: found.attr.ino });
    assert_eq!(attr(&out), found.attr);
    // Without a capability the directory may have changed.
    rig.client.cache.open_inode(InodeKey::head(DIR)).lose_cap();
    let (tid, asked) = rig.asks(FsRequest::Getattr { ino: found.attr.ino });
    assert_eq!((asked.op, path(&asked)), (MdsOp::GETATTR, (DIR, "")));
    let out = rig.told(tid, MdsOp::GETATTR, stat(DIR, 0o040_700));
    assert_eq!((attr(&out).ino, attr(&out).mode), (found.attr.ino, 0o040_700));
}

#[test]
fn snapshots_are_made_renamed_and_removed_in_it() {
    let mut rig = Rig::with_dir(DIR_CAPS);
    let snapdir = rig.snapdir();
    let (tid, asked) = rig.asks(mkdir(snapdir, b"S"));
    assert_eq!((asked.op, path(&asked)), (MdsOp::MKSNAP, (DIR, "/S")));
    let top = entry(&rig.told(tid, MdsOp::MKSNAP, state(DIR, 0o040_755))).attr.ino;
    assert!(top != DIR && top != snapdir);
    let to = |new_name: &[u8]| FsRequest::Rename {
        parent: snapdir,
        name: b"S".to_vec(),
        new_parent: snapdir,
        new_name: new_name.to_vec(),
        flags: 0,
    };
    let (tid, asked) = rig.asks(to(b"T"));
    assert_eq!((asked.op, path(&asked)), (MdsOp::RENAMESNAP, (DIR, "/T")));
    assert_eq!((asked.path2.ino, asked.path2.path.as_slice()), (DIR, b"/S".as_slice()));
    let out = rig.told(tid, MdsOp::RENAMESNAP, state(DIR, 0o040_755));
    assert_eq!(answers(&out), [&Ok(Answer::Done)]);
    let (_, asked) = rig.asks(lookup(top, b"f"));
    assert_eq!(path(&asked), (DIR, "/T/f"), "by its new name");
    let (tid, asked) = rig.asks(FsRequest::Rmdir { parent: snapdir, name: b"T".to_vec() });
    assert_eq!((asked.op, path(&asked)), (MdsOp::RMSNAP, (DIR, "/T")));
    let gone = ClientReply { op: MdsOp::RMSNAP, safe: true, ..ClientReply::default() };
    assert_eq!(answers(&rig.mds_says(tid, gone)), [&Ok(Answer::Done)]);
    let (tid, asked) = rig.asks(FsRequest::Getattr { ino: top });
    assert_eq!((asked.op, path(&asked)), (MdsOp::GETATTR, (DIR, "/T")), "it is not believed any more");
    assert_eq!(answers(&rig.refused(tid, MdsOp::GETATTR, Errno::ENOENT)), [&Err(Errno::ESTALE)]);
}

#[test]
fn listings_of_snapshots_and_in_snapshots_go_by_path() {
    let (mut rig, top, file) = Rig::with_snapshot();
    let snapdir = rig.snapdir();
    let mut list = |dir, op, at, name: &[u8], inode| {
        let out = rig.ask(FsRequest::Opendir { ino: dir });
        let Ok(Answer::Opened { fh, .. }) = answers(&out)[0] else { panic!("opened") };
        let (tid, asked) = rig.asks(FsRequest::Readdir { fh: *fh, offset: 2, max_bytes: 4096, plus: true });
        assert_eq!((asked.op, path(&asked)), (op, (DIR, at)));
        let entry = msgs::ReaddirEntry { name: name.to_vec(), lease: msgs::LeaseStat::default(), inode };
        let (dir, flags) = (msgs::DirStat::default(), msgs::readdir_flag::FRAG_END);
        let listing = msgs::ReaddirReply { dir, flags, entries: vec![entry] };
        let extra = wire::Writer::encode(&listing);
        let out = rig.mds_says(tid, ClientReply { op, safe: true, extra, ..ClientReply::default() });
        match answers(&out)[..] {
            [Ok(Answer::Entries(entries))] => entries[0].clone(),
            ref other => panic!("{other:?}"),
        }
    };
    let snapshot = list(snapdir, MdsOp::LSSNAP, "", b"S", state(DIR, 0o040_755));
    assert_eq!((snapshot.ino, snapshot.name), (top, b"S".to_vec()));
    let inside = list(top, MdsOp::READDIR, "/S", b"f", state(INO, 0o100_644));
    assert_eq!((inside.ino, inside.entry.map(|e| e.attr.ino)), (file, Some(file)));
    assert_eq!(answers(&rig.ask(lookup(top, b"g"))), [&Err(Errno::ENOENT)], "all names are known");
}

#[test]
fn states_are_told_without_asking_and_cannot_be_changed() {
    let (mut rig, top, file) = Rig::with_snapshot();
    let snapdir = rig.snapdir();
    assert_eq!(attr(&rig.ask(FsRequest::Getattr { ino: file })).size, 5000);
    assert_eq!(entry(&rig.ask(lookup(top, b"f"))).attr.ino, file);
    let btime = FsRequest::Getxattr { ino: top, name: b"ceph.snap.btime".to_vec() };
    assert_eq!(answers(&rig.ask(btime)), [&Ok(Answer::Data(b"1000.000000005".to_vec().into()))]);
    let name = || b"f".to_vec();
    let create = |parent| FsRequest::Create { parent, name: name(), mode: 0o644, flags: 0 };
    let rename = |parent, new_parent| FsRequest::Rename {
        parent,
        name: name(),
        new_parent,
        new_name: b"g".to_vec(),
        flags: 0,
    };
    let snap = || b".snap".to_vec();
    for (request, errno) in [
        (create(top), Errno::EROFS),
        (create(snapdir), Errno::EROFS),
        (mkdir(top, b"d"), Errno::EROFS),
        (FsRequest::Unlink { parent: top, name: name() }, Errno::EROFS),
        (FsRequest::Rmdir { parent: top, name: name() }, Errno::EROFS),
        (rename(top, top), Errno::EROFS),
        (rename(top, DIR), Errno::EXDEV),
        (rename(snapdir, DIR), Errno::EXDEV),
        (FsRequest::Link { ino: file, new_parent: DIR, new_name: name() }, Errno::EROFS),
        (FsRequest::Setattr { ino: file, set: Default::default() }, Errno::EROFS),
        (FsRequest::Open { ino: file, flags: 1, kill_suidgid: false }, Errno::EROFS),
        (
            FsRequest::Setxattr { ino: file, name: name(), value: name(), flags: 0, kill_sgid: false },
            Errno::EROFS,
        ),
        (mkdir(DIR, b".snap"), Errno::EEXIST),
        (FsRequest::Rmdir { parent: DIR, name: snap() }, Errno::EPERM),
        (FsRequest::Create { parent: DIR, name: snap(), mode: 0, flags: 0 }, Errno::EISDIR),
    ] {
        let shown = format!("{request:?}");
        let out = rig.ask(request);
        assert_eq!((answers(&out), asked_mds(&out)), (vec![&Err(errno)], vec![]), "{shown}");
    }
}

#[test]
fn what_another_client_removes_is_not_believed_any_more() {
    let (mut rig, top, file) = Rig::with_snapshot();
    rig.realm(SNAP, &[SNAP]);
    let getattr = || FsRequest::Getattr { ino: file };
    for _ in 0..2 {
        // Local callers may believe it for a while, now that they have asked by number.
        attr(&rig.ask(getattr()));
    }
    let out = rig.realm(SNAP + 1, &[]);
    let withdrawn = out.iter().any(|o| match o {
        Output::Reply { reply: Ok(Answer::Invalidate { what, .. }), .. } => {
            *what == Invalidate::Attributes { ino: file }
        }
        _ => false,
    });
    assert!(withdrawn, "by the number that they know");
    let (tid, asked) = rig.asks(lookup(top, b"f"));
    assert_eq!(path(&asked), (DIR, "/S/f"));
    assert_eq!(answers(&rig.refused(tid, MdsOp::LOOKUP, Errno::ENOENT)), [&Err(Errno::ENOENT)]);
}

#[test]
fn an_object_that_is_missing_is_a_hole_only_while_the_snapshot_exists() {
    let (mut rig, _, file) = Rig::with_snapshot();
    let out = rig.ask(FsRequest::Open { ino: file, flags: 0, kill_suidgid: false });
    let Ok(Answer::Opened { fh, .. }) = *answers(&out)[0] else { panic!("opened") };
    let read = || FsRequest::Read { fh, offset: 0, len: 100 };
    let missing = |rig: &mut Rig| {
        assert_eq!(answers(&rig.ask(read())).len(), 0);
        rig.client.services.end_reads(&Err(Errno::ENOENT));
        let mut out = Vec::new();
        rig.client.settle(rig.now, &mut out);
        assert_eq!(answers(&out).len(), 0);
        let (tid, asked) = requests(&out).pop().expect("the MDS is asked");
        assert_eq!((asked.op, path(&asked)), (MdsOp::GETATTR, (DIR, "/S/f")));
        tid
    };
    let tid = missing(&mut rig);
    let out = rig.told(tid, MdsOp::GETATTR, InodeStat { size: 5000, ..state(INO, 0o100_644) });
    assert_eq!(answers(&out), [&Ok(Answer::Data(Bufs::from(vec![0; 100])))]);
    let tid = missing(&mut rig);
    assert_eq!(answers(&rig.refused(tid, MdsOp::GETATTR, Errno::ENOENT)), [&Err(Errno::ESTALE)]);
    assert_eq!(answers(&rig.ask(FsRequest::Release { fh, lock_owner: 0 })), [&Ok(Answer::Done)]);
}

#[test]
fn the_directory_of_snapshots_has_the_name_that_is_configured() {
    let mut rig = Rig::with_dir(DIR_CAPS);
    rig.client.config.options.snapdir = "old".into();
    assert_ne!(entry(&rig.ask(lookup(DIR, b"old"))).attr.ino, DIR);
    assert_eq!(asked_mds(&rig.ask(lookup(DIR, b".snap"))), [MdsOp::LOOKUP]);
    rig.client.config.options.snapdir.clear();
    assert_eq!(asked_mds(&rig.ask(lookup(DIR, b"old"))), [MdsOp::LOOKUP]);
}

#[test]
fn a_state_is_found_by_its_number_as_long_as_it_is_here() {
    let (mut rig, top, file) = Rig::with_snapshot();
    let (find, parent) = (|ino| FsRequest::LookupIno { ino }, |ino| FsRequest::LookupParent { ino });
    let snapdir = rig.snapdir();
    for ino in [file, top, snapdir] {
        assert_eq!(entry(&rig.ask(find(ino))).attr.ino, ino);
    }
    assert_eq!(entry(&rig.ask(parent(file))).attr.ino, top);
    assert_eq!(entry(&rig.ask(parent(top))).attr.ino, snapdir);
    assert_eq!(entry(&rig.ask(parent(snapdir))).attr.ino, DIR);
    // The snapshot may be removed.
    rig.client.cache.forget_snapshot(SnapId(SNAP));
    let (tid, asked) = rig.asks(find(file));
    assert_eq!((asked.op, path(&asked)), (MdsOp::GETATTR, (DIR, "/S/f")));
    assert_eq!(answers(&rig.refused(tid, MdsOp::GETATTR, Errno::ENOENT)), [&Err(Errno::ESTALE)]);
}

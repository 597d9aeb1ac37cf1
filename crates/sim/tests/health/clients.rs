//! Codes of clients that harm others.

use crate::operator::Operator;
use fsclient::{Answer, Caller, FsRequest, Reply, Request, SetAttr};
use node::RequestId;
use sim::HostId;
use sim::cluster::Spec;
use std::time::Duration;
use stdx::Bufs;

const LATE: &str = "Client sim-client-0 failing to respond to capability release client_id: ";

const ROOT: u64 = 1;
const READ_WRITE: u32 = 2;

fn me(request: FsRequest) -> Request {
    Request::Fs(Caller { uid: 0, gid: 0, pid: 1, umask: 0 }, request)
}

impl Operator {
    fn fs(&mut self, client: HostId, request: FsRequest) -> Answer {
        match self.c.ask(client, me(request), Duration::from_secs(60)) {
            Some(Ok(answer)) => answer,
            other => panic!("{other:?}"),
        }
    }
}

/// A client that has a file open hangs, and another one wants to truncate it. Returns both, and the request.
fn hang_with_a_file(op: &mut Operator) -> (HostId, HostId, RequestId) {
    let (hangs, waits) = (op.c.clients[0], op.c.clients[1]);
    let create = FsRequest::Create { parent: ROOT, name: b"f".to_vec(), mode: 0o644, flags: READ_WRITE };
    let Answer::Created { fh, .. } = op.fs(hangs, create) else { panic!("a new file") };
    let data = Bufs::from(vec![1; 5000]);
    op.fs(hangs, FsRequest::Write { fh, offset: 0, data, kill_suidgid: false });
    op.fs(hangs, FsRequest::Fsync { fh, data_only: false });
    op.fs(hangs, FsRequest::Read { fh, offset: 0, len: 5000 });
    op.c.hung.insert(hangs);

    let lookup = FsRequest::Lookup { parent: ROOT, name: b"f".to_vec() };
    let Answer::Entry(found) = op.fs(waits, lookup) else { panic!("the file") };
    let set = SetAttr { size: Some(10), ..SetAttr::default() };
    let truncated = op.c.world.request(waits, me(FsRequest::Setattr { ino: found.attr.ino, set }));
    (hangs, waits, truncated)
}

/// The id of the client that does not give back the file, once health tells of it.
fn late_client(op: &mut Operator) -> String {
    let seen = op.sees("MDS_CLIENT_LATE_RELEASE");
    assert!(seen.contains("mds.a(mds.0)"), "{seen}");
    seen.lines().find_map(|line| line.split_once(LATE)).map(|(_, id)| id.to_owned()).expect("its id")
}

#[test]
fn a_client_whose_request_waits_for_another_one_confirms_its_answers_when_that_one_is_evicted() {
    let mut op = Operator::of(&Spec { fs: true, ..Spec::default() });
    op.ceph("config set mds mds_max_completed_requests 20");
    let (_, waits, _) = hang_with_a_file(&mut op);
    let create = |n: u32| FsRequest::Mkdir { parent: ROOT, name: format!("d{n}").into_bytes(), mode: 0o755 };
    (0..30).for_each(|n| drop(op.fs(waits, create(n))));
    let seen = op.sees("MDS_CLIENT_OLDEST_TID");
    assert!(seen.contains("1 client failing to advance oldest client/flush tid"), "{seen}");
    let old = "mds.a(mds.0): Client sim-client-1 failing to advance its oldest client/flush tid. client_id: ";
    assert!(seen.contains(old), "{seen}");
    let ops = op.follows("MDS_CLIENT_OLDEST_TID", "ceph tell mds.NAME ops", &[("NAME", "a")]);
    assert!(ops.contains("setattr"), "{ops}");
    let id = late_client(&mut op);
    let evict = "ceph tell mds.NAME client evict id=ID";
    op.follows("MDS_CLIENT_LATE_RELEASE", evict, &[("NAME", "a"), ("ID", &id)]);
    op.sees_no("MDS_CLIENT_LATE_RELEASE");
    op.fs(waits, create(30));
    op.sees_no("MDS_CLIENT_OLDEST_TID");
    op.sees_health_ok();
}

#[test]
fn a_client_that_hangs_with_what_others_wait_for_is_evicted() {
    let mut op = Operator::of(&Spec { fs: true, ..Spec::default() });
    let (_, _, truncated) = hang_with_a_file(&mut op);
    let id = late_client(&mut op);
    op.follows(
        "MDS_CLIENT_LATE_RELEASE",
        "ceph tell mds.NAME client evict id=ID",
        &[("NAME", "a"), ("ID", &id)],
    );
    op.sees_no("MDS_CLIENT_LATE_RELEASE");
    let done: Vec<Reply> = (op.c.take_answers().into_iter())
        .filter(|(_, request, _)| *request == truncated)
        .map(|(_, _, reply)| reply)
        .collect();
    assert!(matches!(done[..], [Ok(Answer::Attr(attr, _))] if attr.size == 10), "{done:?}");
    op.sees_health_ok();
}

//! Codes of clients that harm others.

use crate::operator::Operator;
use fsclient::{Answer, Caller, FsRequest, Reply, Request, SetAttr};
use sim::HostId;
use sim::cluster::Spec;
use std::time::Duration;
use stdx::Bufs;

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

#[test]
fn a_client_that_hangs_with_what_others_wait_for_is_evicted() {
    let mut op = Operator::of(&Spec { fs: true, ..Spec::default() });
    let (hangs, waits) = (op.c.clients[0], op.c.clients[1]);
    let create = FsRequest::Create { parent: ROOT, name: b"f".to_vec(), mode: 0o644, flags: READ_WRITE };
    let Answer::Created { entry, fh } = op.fs(hangs, create) else { panic!("a new file") };
    let data = Bufs::from(vec![1; 5000]);
    op.fs(hangs, FsRequest::Write { fh, offset: 0, data, kill_suidgid: false });
    op.fs(hangs, FsRequest::Fsync { fh, data_only: false });
    op.fs(hangs, FsRequest::Read { fh, offset: 0, len: 5000 });
    op.c.hung.insert(hangs);

    let lookup = FsRequest::Lookup { parent: ROOT, name: b"f".to_vec() };
    let Answer::Entry(found) = op.fs(waits, lookup) else { panic!("the file") };
    let set = SetAttr { size: Some(10), ..SetAttr::default() };
    let truncated = op.c.world.request(waits, me(FsRequest::Setattr { ino: found.attr.ino, set }));
    let seen = op.sees("MDS_CLIENT_LATE_RELEASE");
    let late = "Client sim-client-0 failing to respond to capability release client_id: ";
    let id =
        seen.lines().find_map(|line| line.split_once(late)).map(|(_, id)| id.to_owned()).expect("its id");
    assert!(seen.contains("mds.a(mds.0)") && entry.attr.nlink == 1, "{seen}");
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

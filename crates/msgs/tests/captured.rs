//! Messages captured between real clients (Linux 6.1; ceph-fuse, rados, rbd, ceph of 16.2.15 and 20.2.4) and
//! real daemons of 16.2.15: every one decodes, and encodes to the same bytes again.

use msgs::{Body, Op};
use std::collections::BTreeMap;
use wire::{RawMsg, Reader};

/// One captured message and whether a server sent it. The file is a row of records: u8 sent by a server, u16
/// type, version, compat, u64 tid, u16 priority, three u32 lengths, front, middle, data.
fn captured() -> Vec<(bool, RawMsg)> {
    let bytes = include_bytes!("data/captured.bin");
    let r = &mut Reader::new(bytes);
    let mut out = Vec::new();
    while !r.is_empty() {
        let from_server = r.get().expect("whole record");
        let (kind, version, compat): (u16, u16, u16) = (r.get().unwrap(), r.get().unwrap(), r.get().unwrap());
        let (tid, priority) = (r.get().unwrap(), r.get().unwrap());
        let lens: [u32; 3] = [r.get().unwrap(), r.get().unwrap(), r.get().unwrap()];
        let [front, middle, data] = lens.map(|len| r.take(len as usize).expect("whole record").to_vec());
        let raw = RawMsg { kind, version, compat, tid, priority, front, middle, data: data.into() };
        out.push((from_server, raw));
    }
    out
}

#[test]
fn every_captured_message_decodes() {
    let mut counts = BTreeMap::new();
    for (_, raw) in captured() {
        let (kind, tid) = (raw.kind, raw.tid);
        let (got_tid, body) = Body::from_raw(raw).unwrap_or_else(|e| panic!("type {kind}: {e}"));
        assert_eq!((got_tid, body.kind()), (tid, kind));
        *counts.entry(body.name()).or_insert(0) += 1;
    }
    assert!(counts.len() >= 20, "{counts:?}");
}

#[test]
fn what_is_decoded_encodes_to_the_same_bytes() {
    let mut same = 0;
    for (from_server, raw) in captured() {
        let (tid, body) = Body::from_raw(raw.clone()).expect("decodes");
        let again = body.to_raw(tid);
        // The kernel sends some messages in older versions than ours: those must decode alike, not encode
        // alike. Newer clients send some in newer versions, whose additions we drop.
        if again.version != raw.version {
            assert!(!from_server, "{body:?}: servers send what we send, not version {}", raw.version);
            let newer = raw.version > again.version;
            let (_, read_again) = Body::from_raw(again).expect("own encoding");
            assert!(newer || read_again == body, "{body:?}");
            continue;
        }
        // The kernel's locators are one version older, which shifts everything behind them.
        if let Body::OsdOp(op) = &body
            && raw.compat == 0
        {
            assert_eq!(again.front.len(), raw.front.len() + 8, "{op:?}");
        } else {
            assert!(again.front == raw.front, "front of {body:?}\n{:02x?}\n{:02x?}", again.front, raw.front);
        }
        assert_eq!((again.middle, again.data), (raw.middle, raw.data), "{body:?}");
        same += 1;
    }
    assert!(same > 200, "{same}");
}

#[test]
fn every_captured_operation_is_understood() {
    for (_, raw) in captured() {
        if let (_, Body::OsdOp(m)) = Body::from_raw(raw).expect("decodes") {
            for sub in &m.ops {
                assert!(!matches!(sub.op, Op::Other { .. }), "{:?}", sub.op);
            }
        }
    }
}

#[test]
fn no_cut_of_a_captured_message_panics() {
    for (_, raw) in captured() {
        let step = 1 + raw.front.len() / 64;
        for len in (0..raw.front.len()).step_by(step) {
            let mut short = raw.clone();
            short.front.truncate(len);
            if let Ok((tid, body)) = Body::from_raw(short) {
                // If a cut message still has a meaning, that meaning can be encoded.
                assert_eq!(body.to_raw(tid).kind, raw.kind);
            }
        }
    }
}

#[test]
fn extra_parts_of_replies_are_what_their_operation_says() {
    use msgs::{CreatedInode, MdsOp, ReaddirReply};
    use wire::Writer;
    let (mut listings, mut created) = (0, 0);
    for (_, raw) in captured() {
        let (_, Body::ClientReply(reply)) = Body::from_raw(raw).expect("decodes") else { continue };
        let r = &mut Reader::new(&reply.extra);
        match reply.op {
            MdsOp::READDIR | MdsOp::LSSNAP if reply.result == 0 => {
                let listing: ReaddirReply = r.get().expect("a listing");
                assert_eq!(Writer::encode(&listing), reply.extra);
                listings += 1;
            }
            MdsOp::CREATE if reply.extra.len() > 8 => {
                let inode: CreatedInode = r.get().expect("a created inode");
                assert_eq!(Writer::encode(&inode), reply.extra);
                created += 1;
            }
            _ => {}
        }
    }
    assert!(listings > 0 && created > 0, "{listings} {created}");
}

#[test]
fn an_answer_made_for_a_captured_request_has_the_flags_and_versions_of_the_captured_answer() {
    let mut requests = BTreeMap::new();
    let mut compared = 0;
    for (_, raw) in captured() {
        match Body::from_raw(raw).expect("decodes") {
            (tid, Body::OsdOp(m)) => drop(requests.insert((tid, m.oid.clone()), m)),
            (tid, Body::OsdOpReply(real)) => {
                let Some(request) = requests.get(&(tid, real.oid.clone())) else { continue };
                let mut ours = msgs::OsdOpReply::to(request, real.result, real.epoch);
                ours.set_version(real.replay_version, real.user_version);
                for (op, real) in ours.ops.iter_mut().zip(&real.ops) {
                    // Ceph's OSD changes the arguments that it repeats, for example a read's length; clients
                    // ignore them.
                    (op.rval, op.data, op.raw.args) = (real.rval, real.data.clone(), real.raw.args);
                }
                // Tids of several clients overlap in the captures: compare only equal operations.
                let codes = |m: &msgs::OsdOpReply| m.ops.iter().map(|op| op.raw.code).collect::<Vec<_>>();
                if codes(&ours) == codes(&real) && ours.flags | 1 == real.flags | 1 {
                    assert_eq!(ours, *real);
                    compared += 1;
                }
            }
            _ => {}
        }
    }
    assert!(compared > 20, "{compared}");
}

//! The rank's object operations as RADOS requests.

use crate::io::{IoRequest, IoResult, ObjOp, ObjReply};
use msgs::op::input::OmapGetVals;
use msgs::{Extent, Op, osd_flag};
use rados::{Completion, Request};
use std::collections::BTreeMap;
use stdx::Bufs;
use wire::{Errno, Reader, Writer};

/// A request for one vector.
pub(super) fn request(io: IoRequest) -> Request {
    let writes = io.ops.iter().any(ObjOp::writes);
    let ops: Vec<Op> = io.ops.into_iter().map(op).collect();
    let (pool, ns) = (io.object.pool, io.object.ns.as_bytes());
    if !writes {
        return Request::read(pool, ns, io.object.name, ops);
    }
    let snapc = rados::SnapContext { seq: io.snaps.seq, snaps: io.snaps.snaps };
    // Also in a full cluster, in which nothing could be removed otherwise; the rank creates nothing new then.
    Request::write(pool, ns, io.object.name, ops).with_snapc(snapc).with_flags(osd_flag::FULL_FORCE)
}

fn op(op: ObjOp) -> Op {
    let encoded = |bytes: Vec<u8>| Bufs::from(bytes);
    match op {
        ObjOp::Create => Op::Create { data: Bufs::new() },
        ObjOp::Read { offset, len } => Op::Read(Extent::new(offset, len)),
        ObjOp::Write { offset, data } => {
            Op::Write { extent: Extent::new(offset, data.len() as u64), data: data.into() }
        }
        ObjOp::WriteFull(data) => {
            Op::WriteFull { extent: Extent::new(0, data.len() as u64), data: data.into() }
        }
        ObjOp::Truncate(size) => Op::Truncate(Extent::new(size, 0)),
        ObjOp::Cut { size, seq } => {
            Op::TrimTrunc(Extent { truncate_size: size, truncate_seq: seq, ..Extent::new(size, 0) })
        }
        ObjOp::Delete => Op::Delete,
        ObjOp::OmapList { after, max } => {
            let input = OmapGetVals { start_after: after, max, prefix: Vec::new() };
            Op::OmapGetVals { data: encoded(Writer::encode(&input)) }
        }
        ObjOp::OmapGet(keys) => Op::OmapGetValsByKeys { data: encoded(Writer::encode(&keys)) },
        ObjOp::OmapSet(entries) => Op::OmapSetVals { data: encoded(Writer::encode(&entries)) },
        ObjOp::OmapRemove(keys) => Op::OmapRmKeys { data: encoded(Writer::encode(&keys)) },
        ObjOp::OmapHeader(bytes) => Op::OmapSetHeader { data: bytes.into() },
    }
}

/// Translates a completion into the rank's terms.
pub(super) fn result(completion: &Completion) -> IoResult {
    completion.result?;
    completion.ops.iter().map(reply).collect()
}

fn reply(r: &msgs::OpResult) -> Result<ObjReply, Errno> {
    use msgs::OpCode as C;
    let bytes = r.data.to_vec();
    // An OSD's answer is untrusted too: if it does not decode, that is an I/O error.
    let bad = |_| Errno::EIO;
    Ok(match r.raw.code {
        C::READ => ObjReply::Data(bytes),
        C::OMAPGETVALS => {
            let mut reader = Reader::new(&bytes);
            let entries: BTreeMap<Vec<u8>, Vec<u8>> = reader.get().map_err(bad)?;
            let more = !reader.is_empty() && reader.get::<bool>().map_err(bad)?;
            ObjReply::Omap(entries, more)
        }
        C::OMAPGETVALSBYKEYS => ObjReply::Omap(Reader::new(&bytes).get().map_err(bad)?, false),
        _ => ObjReply::None,
    })
}

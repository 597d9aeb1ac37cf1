//! SCRUBLS: what the last scrub found, for `rados list-inconsistent-obj` and `list-inconsistent-snapset`.

use crate::core::Core;
use crate::object::{INFO_ATTR, hobject_of};
use crate::pg::Pg;
use crate::pg::member::Member;
use crate::pg::request::{ClientOp, Reply};
use crate::pg::scrub::finding::{Finding, Scanned, SnapFinding};
use maps::{Epoch, SnapId};
use msgs::op::scrub::{
    InconsistentObject, InconsistentSnapset, ObjectId, ObjectInfo, ScrubLs, ScrubLsReply, ShardId, ShardInfo,
    read,
};
use msgs::{Op, OpCode, OsdOpReply};
use store::ObjectKey;
use wire::{Errno, Writer};

/// The most that one answer has.
const MAX: u64 = 1000;

impl Pg {
    /// The reply to a request that asks what scrub found; `None` if it asks something else.
    pub(in crate::pg) fn scrub_ls(&self, core: &Core, op: &ClientOp) -> Option<Reply> {
        let [sub] = &op.request.ops[..] else { return None };
        let Op::Other { raw, data } = &sub.op else { return None };
        if raw.code != OpCode::SCRUBLS {
            return None;
        }
        let outcome =
            read(data).ok_or(Errno::EINVAL).and_then(|input| self.list_found(self.us(core), &input));
        let result = outcome.as_ref().err().map_or(0, |errno| errno.to_result_code());
        let mut reply = OsdOpReply::to(&op.request, result, core.epoch());
        reply.ops[0].rval = result;
        // With the epoch also where that of the question is over, as Ceph does.
        let empty = ScrubLsReply { interval: self.members.interval().0, values: Vec::new() };
        reply.ops[0].data = Writer::encode(&outcome.unwrap_or(empty)).into();
        reply.set_version(self.local.info().last_update, self.local.info().last_user_version);
        Some(reply)
    }

    fn list_found(&self, us: Member, input: &ScrubLs) -> Result<ScrubLsReply, Errno> {
        let interval = self.members.interval();
        if input.interval != 0 && input.interval != interval.0 {
            return Err(Errno::EAGAIN);
        }
        let found = &self.scrub.found;
        if found.interval == Epoch(0) {
            return Err(Errno::ENOENT);
        }
        let max = usize::try_from(input.max.min(MAX)).unwrap_or_default();
        let is_last = |key: &ObjectKey| {
            key.name == input.name && key.namespace == input.namespace && key.snap == input.snap.0
        };
        let after = |keys: &[&ObjectKey]| match input.name.is_empty() {
            true => 0,
            false => keys.iter().position(|key| is_last(key)).map_or(keys.len(), |at| at + 1),
        };
        let values = match input.snapsets {
            0 => {
                let from = after(&found.objects.keys().collect::<Vec<_>>());
                let some = found.objects.values().skip(from).take(max);
                some.map(|finding| Writer::encode(&object(finding, us))).collect()
            }
            _ => {
                let from = after(&found.snapsets.iter().map(|s| &s.head).collect::<Vec<_>>());
                let some = found.snapsets.iter().skip(from).take(max);
                some.map(|set| Writer::encode(&snapset(set))).collect()
            }
        };
        Ok(ScrubLsReply { interval: interval.0, values })
    }
}

fn object_id(key: &ObjectKey) -> ObjectId {
    ObjectId {
        name: key.name.clone(),
        namespace: key.namespace.clone(),
        locator: key.locator.clone(),
        snap: SnapId(key.snap),
    }
}

fn snapset(set: &SnapFinding) -> InconsistentSnapset {
    InconsistentSnapset {
        errors: set.errors,
        object: object_id(&set.head),
        clones: set.extra.clone(),
        missing: set.missing.clone(),
        snapset: Vec::new(),
    }
}

fn object(finding: &Finding, primary: Member) -> InconsistentObject {
    let chosen = finding.good.iter().next().copied();
    let shards = finding.shards.iter().map(|(member, shard)| {
        let nothing = Scanned::default();
        let copy = shard.object.as_ref().unwrap_or(&nothing);
        let info = ShardInfo {
            errors: shard.errors,
            primary: *member == primary,
            attrs: copy.attrs.iter().map(|(name, value)| (name.clone(), shown(copy, name, value))).collect(),
            size: copy.size,
            omap_digest: copy.omap_digest,
            data_digest: copy.data_digest,
            selected: chosen == Some(*member),
        };
        (ShardId { osd: member.osd.0, shard: member.shard }, info)
    });
    let version = chosen.and_then(|member| finding.shards.get(&member)?.object.as_ref()?.info());
    InconsistentObject {
        errors: finding.errors,
        object: object_id(&finding.key),
        version: version.map_or(0, |info| info.user_version),
        shards: shards.collect(),
    }
}

/// An xattr's value; that of the versions as Ceph's tools read it.
fn shown(copy: &Scanned, name: &[u8], value: &[u8]) -> Vec<u8> {
    match copy.info() {
        Some(info) if name == INFO_ATTR => Writer::encode(&ObjectInfo {
            object: hobject_of(&copy.key),
            version: info.version,
            user_version: info.user_version,
            size: copy.size,
            mtime: info.mtime,
            truncation: (info.truncate_seq.into(), info.truncate_size),
            whiteout: info.whiteout,
        }),
        _ => value.to_vec(),
    }
}

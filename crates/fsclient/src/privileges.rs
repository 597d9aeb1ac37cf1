//! What a file gives to whoever runs it: the bits set-user-ID and set-group-ID, and `security.capability`.
//! They go before the content or the owner changes (`FUSE_HANDLE_KILLPRIV_V2`): the bits if the kernel says
//! so of the caller, the capabilities always.

use crate::api::{FsRequest, SetAttr};
use crate::cache::Cache;
use crate::inode::Inode;
use crate::key::InodeKey;
use crate::mds_request;
use crate::mode;
use crate::op::{Attempt, Stage, Step, fail};
use crate::sessions::Sessions;
use maps::Epoch;
use msgs::{ClientReply, MdsOp, cap};
use wire::Errno;

/// The xattr that gives capabilities of Linux.
const CAPABILITY: &[u8] = b"security.capability";

/// How a change drops privileges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Dropping {
    /// The bits of the mode go as well.
    pub(crate) bits: bool,
    /// The request of the change carries the new mode itself.
    pub(crate) is_carried: bool,
    /// An MDS has told mode and xattrs since the operation began.
    pub(crate) is_told: bool,
}

/// What has to be done before a change.
enum Due {
    /// To ask for mode and xattrs.
    Look,
    /// To remove `security.capability`.
    Capability,
    /// To set this mode.
    Mode(u32),
    /// To wait until nobody above believes in an older mode.
    Doubt,
}

fn due(inode: &Inode, dropping: Dropping) -> Option<Due> {
    let needs = cap::XATTR_SHARED | if dropping.bits { cap::AUTH_SHARED } else { 0 };
    if !inode.attrs().is_file() || !inode.key().is_head() {
        return None;
    }
    // A revocation may wait for this change, and who answers for that: then what is known last counts.
    if !dropping.is_told && !inode.may(needs) && !inode.caps().is_revoked() {
        return Some(Due::Look);
    }
    // Who has xattrs revoked now sets them after this change.
    let is_set_later = inode.caps().implements(cap::XATTR_SHARED) && !inode.may(cap::XATTR_SHARED);
    if inode.attrs().xattrs().contains_key(CAPABILITY) && !is_set_later {
        return Some(Due::Capability);
    }
    if !dropping.bits || dropping.is_carried {
        return None;
    }
    let mode = mode::without_set_id(inode.attrs().mode());
    mode.map(Due::Mode).or_else(|| inode.is_belief_doubted().then_some(Due::Doubt))
}

/// Drops the privileges of a file before a change. `None` if there are none, or none any more.
pub(crate) fn drop_before(
    cache: &mut Cache,
    sessions: &mut Sessions,
    attempt: &mut Attempt<'_>,
    key: InodeKey,
    dropping: Dropping,
) -> Option<Step> {
    let ino = key.ino();
    let inode = cache.inode_mut(key)?;
    let request = match due(inode, dropping)? {
        Due::Look => return Some(sessions.ask(attempt, cache, mds_request::look_at(ino))),
        Due::Capability => FsRequest::Removexattr { ino, name: CAPABILITY.to_vec() },
        Due::Mode(mode) => {
            let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
            if inode.set_mode_here(&set, attempt.now().wall) {
                inode.withdraw_belief();
                cache.note_dirty(attempt.now(), key);
                cache.inode_changed(key);
                return drop_before(cache, sessions, attempt, key, dropping);
            }
            FsRequest::Setattr { ino, set }
        }
        Due::Doubt => {
            inode.wait(attempt.op());
            cache.settle_later(key);
            return Some(attempt.wait_at(if dropping.is_told { Stage::Sized } else { Stage::New }));
        }
    };
    let message = mds_request::build(cache, Epoch::default(), &attempt.caller(), &request);
    Some(message.map_or_else(fail, |message| sessions.ask(attempt, cache, message)))
}

/// Takes the answer to a request of [`drop_before`]: the change goes on, or fails.
pub(crate) fn dropped(cache: &mut Cache, key: InodeKey, reply: &ClientReply) -> Result<(), Errno> {
    let error = Errno::from_result_code(reply.result);
    let Some(inode) = cache.inode_mut(key) else { return error.map_or(Ok(()), Err) };
    match (reply.op, error) {
        // There was none any more.
        (MdsOp::RMXATTR, None | Some(Errno::ENODATA)) => inode.forget_xattr(CAPABILITY),
        (_, Some(errno)) => return Err(errno),
        (MdsOp::SETATTR, _) => inode.withdraw_belief(),
        _ => {}
    }
    cache.settle_later(key);
    Ok(())
}

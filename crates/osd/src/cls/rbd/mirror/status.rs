//! What the daemons that mirror images report of them. A report counts while its daemon watches the object.

use crate::cls::object::{MethodStop, Object};
use crate::cls::stored::{self, key};
use std::collections::BTreeSet;
use wire::{
    AddrType, Decode, DecodeError, Encode, EntityAddr, EntityId, Reader, Utime, Writer, wire_structs,
};

/// Prefix of the keys of what this cluster's daemons report.
pub(super) const LOCAL: &[u8] = b"status_global_";
/// Prefix of the keys of what other clusters' daemons report: image and cluster.
pub(super) const REMOTE: &[u8] = b"remote_status_global_";

/// States of a report.
pub(super) mod state {
    pub const UNKNOWN: u8 = 0;
    pub const ERROR: u8 = 1;
}

/// A client and its address, as all clusters' releases compare them: without the type of the address.
pub(super) type Origin = (EntityId, EntityAddr);

fn comparable((client, addr): Origin) -> Origin {
    (client, EntityAddr { ty: AddrType::ANY, ..addr })
}

/// The caller.
pub(super) fn caller(o: &Object<'_, '_>) -> Origin {
    comparable(o.caller())
}

/// The daemons that watch the object.
pub(super) fn watchers(o: &Object<'_, '_>) -> Result<BTreeSet<Vec<u8>>, MethodStop> {
    Ok(o.watchers()?.into_iter().map(|who| Writer::encode(&comparable(who))).collect())
}

wire_structs! {
    /// Where a stored report is from.
    struct Meta[v 1/1] {
        pub origin: Origin,
    }

    /// What a report says.
    pub(super) struct Said[plain] {
        pub state: u8,
        pub description: Vec<u8>,
        pub last_update: Utime,
        pub up: bool,
    }
}

/// A report on an image (`cls::rbd::MirrorImageSiteStatus`).
#[derive(Clone, Debug)]
pub(super) struct Report {
    /// The cluster that it is from; empty for this one.
    pub(super) mirror_uuid: Vec<u8>,
    pub(super) said: Said,
}

impl Encode for Report {
    fn encode(&self, w: &mut Writer) {
        // Readers that do not know other clusters' reports must not misread them.
        let version = if self.mirror_uuid.is_empty() { 1 } else { 2 };
        w.versioned(version, version, |w| {
            if version > 1 {
                w.put(&self.mirror_uuid);
            }
            w.put(&self.said);
        });
    }
}

impl Decode for Report {
    const MIN_SIZE: usize = 20;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned(2, |version, r| {
            let mirror_uuid = if version > 1 { r.get()? } else { Vec::new() };
            Ok(Self { mirror_uuid, said: r.get()? })
        })
    }
}

/// A stored report; which cluster it is from, its key says.
pub(super) struct Stored {
    pub(super) origin: Origin,
    pub(super) said: Said,
}

impl Encode for Stored {
    fn encode(&self, w: &mut Writer) {
        w.put(&Meta { origin: self.origin });
        w.put(&Report { mirror_uuid: Vec::new(), said: self.said.clone() });
    }
}

impl Decode for Stored {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (meta, report): (Meta, Report) = r.get()?;
        Ok(Self { origin: comparable(meta.origin), said: report.said })
    }
}

impl Stored {
    /// True if its daemon is among these.
    pub(super) fn is_up(&self, watchers: &BTreeSet<Vec<u8>>) -> bool {
        watchers.contains(&Writer::encode(&self.origin))
    }
}

/// The key of a cluster's report.
pub(super) fn key_of(global: &[u8], mirror_uuid: &[u8]) -> Vec<u8> {
    match mirror_uuid {
        b"" => key(LOCAL, global),
        _ => [&remote_prefix(global), mirror_uuid].concat(),
    }
}

/// The prefix of the keys of other clusters' reports on an image.
fn remote_prefix(global: &[u8]) -> Vec<u8> {
    [REMOTE, global, b"_"].concat()
}

/// The keys of all reports on an image.
pub(super) fn keys_of(o: &mut Object<'_, '_>, global: &[u8]) -> Result<Vec<Vec<u8>>, MethodStop> {
    let remote = stored::list_all(o, &remote_prefix(global))?;
    let remote = remote.iter().map(|(mirror_uuid, _)| key_of(global, mirror_uuid));
    Ok(std::iter::once(key(LOCAL, global)).chain(remote).collect())
}

/// All reports on an image, this cluster's first (`cls::rbd::MirrorImageStatus`).
#[derive(Clone, Debug, Default)]
pub(super) struct Status {
    pub(super) local: Option<Said>,
    pub(super) remote: Vec<(Vec<u8>, Said)>,
}

impl Status {
    pub(super) fn is_empty(&self) -> bool {
        self.local.is_none() && self.remote.is_empty()
    }

    /// The reports on an image, of which those are up whose daemons are among `watchers`.
    pub(super) fn load(
        o: &mut Object<'_, '_>,
        global: &[u8],
        watchers: &BTreeSet<Vec<u8>>,
    ) -> Result<Self, MethodStop> {
        let said = |stored: Stored| Said { up: stored.is_up(watchers), ..stored.said };
        let local = stored::find(o, &key(LOCAL, global))?.map(said);
        let mut remote = Vec::new();
        for (mirror_uuid, value) in stored::list_all(o, &remote_prefix(global))? {
            remote.push((mirror_uuid, said(stored::decode(&value)?)));
        }
        Ok(Self { local, remote })
    }

    /// One state of all reports that count for a pool that takes images, sends them, or both: the worst one,
    /// and unknown while one of `receivers` has not reported.
    pub(super) fn summary(&self, takes: bool, sends: bool, receivers: &BTreeSet<Vec<u8>>) -> u8 {
        let mut state = self.local.as_ref().filter(|local| takes && local.up).map(|local| local.state);
        if !sends {
            return state.unwrap_or(state::UNKNOWN);
        }
        for (_, said) in &self.remote {
            let theirs = if said.up { said.state } else { state::UNKNOWN };
            state = match state {
                _ if said.state == state::ERROR => Some(state::ERROR),
                None => Some(theirs),
                Some(state::ERROR) => Some(state::ERROR),
                Some(state) => Some(state.min(theirs)),
            };
        }
        let reported = self.remote.iter().filter(|(uuid, _)| receivers.contains(uuid)).count();
        if reported < receivers.len() { state::UNKNOWN } else { state.unwrap_or(state::UNKNOWN) }
    }
}

impl Encode for Status {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.put(&self.local.clone().unwrap_or_default());
            w.put(&self.local.is_some());
            w.put(&self.remote);
        });
    }
}

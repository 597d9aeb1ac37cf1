//! A client's report of its state to an MDS that took over (MClientReconnect).

use maps::SnapId;
use std::collections::BTreeMap;
use wire::{DecodeError, Message, RawMsg, Reader, Sample, Writer, wire_structs};

wire_structs! {
    /// A cap that the client claims.
    pub struct CapReconnect[v 2/1] {
        /// Path below `pathbase`.
        pub path: Vec<u8>,
        /// Its number.
        pub cap_id: u64,
        /// Cap bits wanted.
        pub wanted: u32,
        /// Cap bits held.
        pub issued: u32,
        /// Snapshot realm.
        pub snaprealm: u64,
        /// Inode at which the path starts.
        pub pathbase: u64,
        /// File locks held, encoded.
        pub flock: Vec<u8>,
        /// Newest snapshot sequence that the client has seen for it.
        pub snap_follows: SnapId = since 2,
    }

    /// A snapshot realm that the client knows.
    #[derive(Copy, Eq)]
    pub struct SnapRealmReconnect[v 1/1] {
        /// Its directory.
        pub ino: u64,
        /// Newest snapshot sequence.
        pub seq: SnapId,
        /// Directory of its parent.
        pub parent: u64,
    }
}

/// All caps and realms of a client, in the **data** segment of the message.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ClientReconnect {
    /// By inode.
    pub caps: BTreeMap<u64, CapReconnect>,
    /// Realms.
    pub realms: Vec<SnapRealmReconnect>,
    /// True if another message follows.
    pub more: bool,
}

impl Message for ClientReconnect {
    const KIND: u16 = 23;
    const NAME: &'static str = "client_reconnect";
    const VERSION: u16 = 5;
    const COMPAT: u16 = 4;

    fn encode_parts(&self, raw: &mut RawMsg) {
        let mut w = Writer::new();
        w.put(&self.caps);
        w.put(&self.realms);
        w.put(&self.more);
        raw.data = w.into_vec().into();
    }

    fn decode_parts(raw: &RawMsg) -> Result<Self, DecodeError> {
        let bytes = raw.data.to_buf();
        let r = &mut Reader::new(&bytes);
        if matches!(raw.version, 2 | 3) {
            // Linux, if all fits into one message: realms without a count or headers. 2, with claims without
            // headers too, if it has not heard from the predecessor yet that its session is open.
            let caps = if raw.version == 3 { r.get()? } else { old_caps(r)? };
            let mut realms = Vec::new();
            while !r.is_empty() {
                realms.push(SnapRealmReconnect { ino: r.get()?, seq: r.get()?, parent: r.get()? });
            }
            return Ok(Self { caps, realms, more: false });
        }
        if raw.version < 2 {
            return Err(
                r.error(format!("client_reconnect version {}: clients older than Nautilus", raw.version))
            );
        }
        let (caps, realms) = (r.get()?, r.get()?);
        let more = raw.version >= 5 && r.get()?;
        Ok(Self { caps, realms, more })
    }
}

/// Claims in the form of version 2.
fn old_caps(r: &mut Reader) -> Result<BTreeMap<u64, CapReconnect>, DecodeError> {
    let (count, mut caps) = (r.get::<u32>()?, BTreeMap::new());
    for _ in 0..count {
        let ino = r.get()?;
        let claim = CapReconnect {
            path: r.get()?,
            cap_id: r.get()?,
            wanted: r.get()?,
            issued: r.get()?,
            snaprealm: r.get()?,
            pathbase: r.get()?,
            flock: r.get()?,
            snap_follows: SnapId::default(),
        };
        caps.insert(ino, claim);
    }
    Ok(caps)
}

impl Sample for ClientReconnect {
    fn sample(rng: &mut stdx::Rng) -> Self {
        Self { caps: Sample::sample(rng), realms: Sample::sample(rng), more: Sample::sample(rng) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One claim and one realm in a form of Linux, of which `put` writes the claim's header.
    fn read_as(version: u16, put: impl FnOnce(&mut Writer, &CapReconnect)) {
        let cap = CapReconnect {
            path: b"name".to_vec(),
            cap_id: 7,
            issued: 0x155,
            pathbase: 1,
            flock: vec![0; 8],
            ..CapReconnect::default()
        };
        let mut w = Writer::new();
        w.put(&1u32);
        w.put(&0x100_0000_0000u64);
        put(&mut w, &cap);
        [1u64, 2, 0].iter().for_each(|n| w.put(n));
        let data = w.into_vec().into();
        let raw = RawMsg { kind: ClientReconnect::KIND, version, data, ..RawMsg::default() };
        let m = ClientReconnect::from_raw(&raw).expect("readable");
        assert_eq!(m.caps, BTreeMap::from([(0x100_0000_0000u64, cap)]));
        assert_eq!(m.realms, vec![SnapRealmReconnect { ino: 1, seq: SnapId(2), parent: 0 }]);
    }

    #[test]
    fn the_short_forms_of_linux_are_read() {
        read_as(3, |w, cap| w.put(cap));
        read_as(2, |w, cap| {
            w.put(&cap.path);
            w.put(&cap.cap_id);
            w.put(&(cap.wanted, cap.issued));
            w.put(&(cap.snaprealm, cap.pathbase));
            w.put(&cap.flock);
        });
    }
}

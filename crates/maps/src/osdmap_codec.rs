//! The binary form of the OSD map (docs/protocol.md 4.1): the clients' part (version 9), the OSDs' part (9),
//! a checksum.

use crate::{OsdEntry, OsdInfo, OsdMap, OsdXinfo};
use stdx::crc32c;
use wire::{AddrVec, Decode, DecodeError, Encode, EntityAddr, Reader, Utime, Uuid, Writer};

/// The wrapper's version and oldest compatible version, of map and incremental.
const WRAPPER: [u8; 2] = [8, 7];

impl OsdMap {
    /// The encoding, and the checksum that it ends with (an incremental's `full_crc`).
    pub fn encode_with_crc(&self) -> (Vec<u8>, u32) {
        let mut body = Writer::new();
        body.versioned(9, 1, |w| self.encode_client(w));
        body.versioned(9, 1, |w| self.encode_osd(w));
        let mut w = wrapper(body.len() + 4);
        w.raw(body.as_slice());
        let crc = crc32c::update(!0, w.as_slice());
        w.put(&crc);
        (w.into_vec(), crc)
    }

    fn encode_column<T: Encode>(&self, w: &mut Writer, column: impl Fn(&OsdEntry) -> &T) {
        w.count(self.osds.len());
        self.osds.iter().for_each(|osd| w.put(column(osd)));
    }

    fn encode_client(&self, w: &mut Writer) {
        w.put(&self.fsid);
        w.put(&self.epoch);
        w.put(&self.created);
        w.put(&self.modified);
        w.put(&self.pools);
        w.put(&self.pool_names);
        w.put(&self.pool_max);
        w.put(&self.flags);
        w.put(&self.max_osd());
        self.encode_column(w, |o| &o.state);
        self.encode_column(w, |o| &o.weight);
        self.encode_column(w, |o| &o.client_addrs);
        w.put(&self.pg_temp);
        w.put(&self.primary_temp);
        w.put(&self.primary_affinity);
        w.sized(|w| w.put(&self.crush));
        w.put(&self.ec_profiles);
        w.put(&self.pg_upmap);
        w.put(&self.pg_upmap_items);
        w.put(&self.crush_version);
        w.put(&self.new_removed_snaps);
        w.put(&self.new_purged_snaps);
        w.put(&self.last_up_change);
        w.put(&self.last_in_change);
    }

    fn encode_osd(&self, w: &mut Writer) {
        self.encode_column(w, |o| &o.hb_back_addrs);
        self.encode_column(w, |o| &o.info);
        encode_by_addr(w, self.blocklist.iter());
        self.encode_column(w, |o| &o.cluster_addrs);
        w.put(&self.cluster_snapshot_epoch);
        w.put(&self.cluster_snapshot);
        self.encode_column(w, |o| &o.uuid);
        self.encode_column(w, |o| &o.xinfo);
        self.encode_column(w, |o| &o.hb_front_addrs);
        w.put(&self.nearfull_ratio);
        w.put(&self.full_ratio);
        w.put(&self.backfillfull_ratio);
        w.put(&self.require_min_compat_client);
        w.put(&self.require_osd_release);
        w.put(&self.removed_snaps_queue);
        w.put(&self.crush_node_flags);
        w.put(&self.device_class_flags);
    }

    fn decode_client(r: &mut Reader<'_>, version: u8) -> Result<Self, DecodeError> {
        if version < 9 {
            return Err(r.error(format!("an OSD map of before Nautilus (version {version})")));
        }
        let mut m = Self {
            fsid: r.get()?,
            epoch: r.get()?,
            created: r.get()?,
            modified: r.get()?,
            pools: r.get()?,
            pool_names: r.get()?,
            pool_max: r.get()?,
            flags: r.get()?,
            ..Self::default()
        };
        let max_osd: i32 = r.get()?;
        let state: Vec<u32> = r.get()?;
        if usize::try_from(max_osd) != Ok(state.len()) {
            return Err(r.error(format!("max_osd {max_osd}, states of {} OSDs", state.len())));
        }
        m.osds = state.into_iter().map(|state| OsdEntry { state, ..OsdEntry::default() }).collect();
        m.decode_column::<u32>(r, |o| &mut o.weight)?;
        m.decode_column::<AddrVec>(r, |o| &mut o.client_addrs)?;
        m.pg_temp = r.get()?;
        m.primary_temp = r.get()?;
        m.primary_affinity = r.get()?;
        if !matches!(m.primary_affinity.len(), n if n == 0 || n == m.osds.len()) {
            return Err(r.error(format!("primary affinity of {} OSDs", m.primary_affinity.len())));
        }
        m.crush = r.sub()?.get()?;
        m.ec_profiles = r.get()?;
        m.pg_upmap = r.get()?;
        m.pg_upmap_items = r.get()?;
        m.crush_version = r.get()?;
        m.new_removed_snaps = r.get()?;
        m.new_purged_snaps = r.get()?;
        m.last_up_change = r.get()?;
        m.last_in_change = r.get()?;
        if version >= 10 {
            m.pg_upmap_primaries = r.get()?;
        }
        Ok(m)
    }

    fn decode_osd(&mut self, r: &mut Reader<'_>, version: u8) -> Result<(), DecodeError> {
        if version < 9 {
            return Err(r.error(format!("an OSD map of before Nautilus (version {version})")));
        }
        self.decode_column::<AddrVec>(r, |o| &mut o.hb_back_addrs)?;
        self.decode_column::<OsdInfo>(r, |o| &mut o.info)?;
        self.blocklist = r.get()?;
        self.decode_column::<AddrVec>(r, |o| &mut o.cluster_addrs)?;
        self.cluster_snapshot_epoch = r.get()?;
        self.cluster_snapshot = r.get()?;
        self.decode_column::<Uuid>(r, |o| &mut o.uuid)?;
        self.decode_column::<OsdXinfo>(r, |o| &mut o.xinfo)?;
        self.decode_column::<AddrVec>(r, |o| &mut o.hb_front_addrs)?;
        self.nearfull_ratio = r.get()?;
        self.full_ratio = r.get()?;
        self.backfillfull_ratio = r.get()?;
        self.require_min_compat_client = r.get()?;
        self.require_osd_release = r.get()?;
        self.removed_snaps_queue = r.get()?;
        self.crush_node_flags = r.get()?;
        self.device_class_flags = r.get()?;
        Ok(())
    }

    fn decode_column<T: Decode>(
        &mut self,
        r: &mut Reader<'_>,
        column: impl Fn(&mut OsdEntry) -> &mut T,
    ) -> Result<(), DecodeError> {
        let n: u32 = r.get()?;
        if n as usize != self.osds.len() {
            return Err(r.error(format!("an array of {n} for {} OSDs", self.osds.len())));
        }
        for osd in &mut self.osds {
            *column(osd) = r.get()?;
        }
        Ok(())
    }
}

impl Encode for OsdMap {
    fn encode(&self, w: &mut Writer) {
        w.raw(&self.encode_with_crc().0);
    }
}

impl Decode for OsdMap {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut whole = r.clone();
        r.versioned(WRAPPER[0], |version, r| {
            if version < WRAPPER[1] {
                return Err(r.error(format!("an OSD map in a wrapper of version {version}")));
            }
            let mut map = r.versioned(1, |v, r| Self::decode_client(r, v))?;
            r.versioned(1, |v, r| map.decode_osd(r, v))?;
            check_crc(r, crc32c::update(!0, whole.take(6 + r.position())?))?;
            Ok(map)
        })
    }
}

/// The wrapper's header for a body of `len` bytes.
pub(crate) fn wrapper(len: usize) -> Writer {
    let mut w = Writer::new();
    w.raw(&WRAPPER);
    w.count(len);
    w
}

/// Reads a checksum and compares it.
pub(crate) fn check_crc(r: &mut Reader<'_>, expected: u32) -> Result<(), DecodeError> {
    match r.get::<u32>()? {
        crc if crc == expected => Ok(()),
        crc => Err(r.error(format!("checksum {crc:#x} of a map whose bytes give {expected:#x}"))),
    }
}

/// A map by address in Ceph's order, that of an address's bytes in memory, which is also that of its bytes on
/// the wire. Checksums depend on it.
pub(crate) fn encode_by_addr<'a>(w: &mut Writer, entries: impl Iterator<Item = (&'a EntityAddr, &'a Utime)>) {
    let mut sorted: Vec<(Vec<u8>, &Utime)> =
        entries.map(|(addr, until)| (Writer::encode(addr), until)).collect();
    sorted.sort();
    w.count(sorted.len());
    for (addr, until) in sorted {
        w.raw(&addr);
        w.put(until);
    }
}

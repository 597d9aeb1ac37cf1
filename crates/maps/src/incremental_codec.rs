//! The binary form of an incremental (docs/protocol.md 4.1): the clients' part (version 8), the OSDs' part
//! (9), two checksums.

use crate::OsdMapIncremental;
use crate::osdmap_codec::{check_crc, encode_by_addr, wrapper};
use stdx::crc32c;
use wire::{Decode, DecodeError, Encode, Reader, Writer};

impl OsdMapIncremental {
    fn encode_client(&self, w: &mut Writer) {
        w.put(&self.fsid);
        w.put(&self.epoch);
        w.put(&self.modified);
        w.put(&self.new_pool_max);
        w.put(&self.new_flags);
        w.put(&self.fullmap);
        w.put(&self.crush);
        w.put(&self.new_max_osd);
        w.put(&self.new_pools);
        w.put(&self.new_pool_names);
        w.put(&self.old_pools);
        w.put(&self.new_up_client);
        w.put(&self.new_state);
        w.put(&self.new_weight);
        w.put(&self.new_pg_temp);
        w.put(&self.new_primary_temp);
        w.put(&self.new_primary_affinity);
        w.put(&self.new_ec_profiles);
        w.put(&self.old_ec_profiles);
        w.put(&self.new_pg_upmap);
        w.put(&self.old_pg_upmap);
        w.put(&self.new_pg_upmap_items);
        w.put(&self.old_pg_upmap_items);
        w.put(&self.new_removed_snaps);
        w.put(&self.new_purged_snaps);
        w.put(&self.new_last_up_change);
        w.put(&self.new_last_in_change);
    }

    fn encode_osd(&self, w: &mut Writer) {
        w.put(&self.new_hb_back_up);
        w.put(&self.new_up_thru);
        w.put(&self.new_last_clean_interval);
        w.put(&self.new_lost);
        encode_by_addr(w, self.new_blocklist.iter());
        w.put(&self.old_blocklist);
        w.put(&self.new_up_cluster);
        w.put(&self.cluster_snapshot);
        w.put(&self.new_uuid);
        w.put(&self.new_xinfo);
        w.put(&self.new_hb_front_up);
        w.put(&self.encode_features);
        w.put(&self.new_nearfull_ratio);
        w.put(&self.new_full_ratio);
        w.put(&self.new_backfillfull_ratio);
        w.put(&self.new_require_min_compat_client);
        w.put(&self.new_require_osd_release);
        w.put(&self.new_crush_node_flags);
        w.put(&self.new_device_class_flags);
    }

    fn decode_client(r: &mut Reader<'_>, version: u8) -> Result<Self, DecodeError> {
        if version < 8 {
            return Err(r.error(format!("an incremental of before Nautilus (version {version})")));
        }
        let mut inc = Self {
            fsid: r.get()?,
            epoch: r.get()?,
            modified: r.get()?,
            new_pool_max: r.get()?,
            new_flags: r.get()?,
            fullmap: r.get()?,
            crush: r.get()?,
            new_max_osd: r.get()?,
            new_pools: r.get()?,
            new_pool_names: r.get()?,
            old_pools: r.get()?,
            new_up_client: r.get()?,
            new_state: r.get()?,
            new_weight: r.get()?,
            new_pg_temp: r.get()?,
            new_primary_temp: r.get()?,
            new_primary_affinity: r.get()?,
            new_ec_profiles: r.get()?,
            old_ec_profiles: r.get()?,
            new_pg_upmap: r.get()?,
            old_pg_upmap: r.get()?,
            new_pg_upmap_items: r.get()?,
            old_pg_upmap_items: r.get()?,
            new_removed_snaps: r.get()?,
            new_purged_snaps: r.get()?,
            new_last_up_change: r.get()?,
            new_last_in_change: r.get()?,
            ..Self::default()
        };
        if version >= 9 {
            inc.new_pg_upmap_primaries = r.get()?;
            inc.old_pg_upmap_primaries = r.get()?;
        }
        Ok(inc)
    }

    fn decode_osd(&mut self, r: &mut Reader<'_>, version: u8) -> Result<(), DecodeError> {
        if version < 9 {
            return Err(r.error(format!("an incremental of before Nautilus (version {version})")));
        }
        self.new_hb_back_up = r.get()?;
        self.new_up_thru = r.get()?;
        self.new_last_clean_interval = r.get()?;
        self.new_lost = r.get()?;
        self.new_blocklist = r.get()?;
        self.old_blocklist = r.get()?;
        self.new_up_cluster = r.get()?;
        self.cluster_snapshot = r.get()?;
        self.new_uuid = r.get()?;
        self.new_xinfo = r.get()?;
        self.new_hb_front_up = r.get()?;
        self.encode_features = r.get()?;
        self.new_nearfull_ratio = r.get()?;
        self.new_full_ratio = r.get()?;
        self.new_backfillfull_ratio = r.get()?;
        self.new_require_min_compat_client = r.get()?;
        self.new_require_osd_release = r.get()?;
        self.new_crush_node_flags = r.get()?;
        self.new_device_class_flags = r.get()?;
        Ok(())
    }
}

impl Encode for OsdMapIncremental {
    fn encode(&self, w: &mut Writer) {
        let mut body = Writer::new();
        body.versioned(8, 1, |w| self.encode_client(w));
        body.versioned(9, 1, |w| self.encode_osd(w));
        let mut front = wrapper(body.len() + 8);
        front.raw(body.as_slice());
        // The checksum runs over everything but itself.
        let crc = crc32c::update(crc32c::update(!0, front.as_slice()), &self.full_crc.to_le_bytes());
        w.raw(front.as_slice());
        w.put(&crc);
        w.put(&self.full_crc);
    }
}

impl Decode for OsdMapIncremental {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut whole = r.clone();
        r.versioned(8, |version, r| {
            if version < 7 {
                return Err(r.error(format!("an incremental in a wrapper of version {version}")));
            }
            let mut inc = r.versioned(1, |v, r| Self::decode_client(r, v))?;
            r.versioned(1, |v, r| inc.decode_osd(r, v))?;
            let front = crc32c::update(!0, whole.take(6 + r.position())?);
            let mut tail = r.clone();
            tail.get::<u32>()?;
            inc.full_crc = tail.get()?;
            check_crc(r, crc32c::update(front, &inc.full_crc.to_le_bytes()))?;
            Ok(inc)
        })
    }
}

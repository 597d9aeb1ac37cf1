//! The binary form of a pool, version 29 of `pg_pool_t` (docs/protocol.md 4.2).

use crate::{Epoch, Pool, PoolOpt};
use stdx::Rng;
use wire::{Decode, DecodeError, Encode, Reader, Sample, Writer};

impl Encode for Pool {
    fn encode(&self, w: &mut Writer) {
        w.versioned(29, 5, |w| {
            self.encode_base(w);
            self.encode_tiering(w);
            self.encode_newer(w);
        });
    }
}

impl Pool {
    fn encode_base(&self, w: &mut Writer) {
        w.raw(&[self.ty, self.size, self.crush_rule, self.object_hash]);
        w.put(&self.pg_num);
        w.put(&self.pgp_num);
        w.put(&0u32); // localized PGs, no more
        w.put(&0u32);
        w.put(&self.last_change);
        w.put(&self.snap_seq);
        w.put(&self.snap_epoch);
        w.put(&self.snaps);
        w.put(&self.removed_snaps);
        w.put(&self.auid);
        w.put(&self.flags);
        w.put(&0u32); // crash replay interval, no more
        w.put(&self.min_size);
        w.put(&self.quota_max_bytes);
        w.put(&self.quota_max_objects);
    }

    fn encode_tiering(&self, w: &mut Writer) {
        w.put(&self.tiers);
        w.put(&self.tier_of);
        w.put(&self.cache_mode);
        w.put(&self.read_tier);
        w.put(&self.write_tier);
        w.put(&self.properties);
        w.versioned(1, 1, |w| w.raw(&self.hit_set_params));
        w.put(&self.hit_set_period);
        w.put(&self.hit_set_count);
        w.put(&self.stripe_width);
        w.put(&self.target_max_bytes);
        w.put(&self.target_max_objects);
        self.cache_target.iter().for_each(|x| w.put(x));
    }

    fn encode_newer(&self, w: &mut Writer) {
        w.put(&self.ec_profile);
        w.put(&self.last_force_op_resend_preluminous);
        w.put(&self.min_read_recency_for_promote);
        w.put(&self.expected_num_objects);
        w.put(&self.cache_target_dirty_high_ratio_micro);
        w.put(&self.min_write_recency_for_promote);
        w.put(&self.use_gmt_hitset);
        w.put(&self.fast_read);
        w.put(&self.hit_set_grade_decay_rate);
        w.put(&self.hit_set_search_last_n);
        w.versioned(2, 1, |w| w.put(&self.opts));
        w.put(&self.last_force_op_resend_prenautilus);
        w.put(&self.application_metadata);
        w.put(&self.create_time);
        w.put(&self.pg_num_target);
        w.put(&self.pgp_num_target);
        w.put(&self.pg_num_pending);
        w.put(&0u32); // two epochs that only 14.1 used
        w.put(&0u32);
        w.put(&self.last_force_op_resend);
        w.put(&self.pg_autoscale_mode);
        w.put(&self.last_pg_merge_meta);
    }

    fn decode_base(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let [ty, size, crush_rule, object_hash] = r.array()?;
        let (pg_num, pgp_num) = (r.get()?, r.get()?);
        r.take(8)?;
        let mut p = Self { ty, size, crush_rule, object_hash, pg_num, pgp_num, ..Self::default() };
        p.last_change = r.get()?;
        p.snap_seq = r.get()?;
        p.snap_epoch = r.get()?;
        p.snaps = r.get()?;
        p.removed_snaps = r.get()?;
        p.auid = r.get()?;
        p.flags = r.get()?;
        r.take(4)?;
        p.min_size = r.get()?;
        p.quota_max_bytes = r.get()?;
        p.quota_max_objects = r.get()?;
        Ok(p)
    }

    fn decode_tiering(&mut self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        self.tiers = r.get()?;
        self.tier_of = r.get()?;
        self.cache_mode = r.get()?;
        self.read_tier = r.get()?;
        self.write_tier = r.get()?;
        self.properties = r.get()?;
        self.hit_set_params = r.versioned(1, |_, r| Ok(r.rest().to_vec()))?;
        self.hit_set_period = r.get()?;
        self.hit_set_count = r.get()?;
        self.stripe_width = r.get()?;
        self.target_max_bytes = r.get()?;
        self.target_max_objects = r.get()?;
        self.cache_target = [r.get()?, r.get()?, r.get()?, r.get()?];
        Ok(())
    }

    fn decode_newer(&mut self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        self.ec_profile = r.get()?;
        self.last_force_op_resend_preluminous = r.get()?;
        self.min_read_recency_for_promote = r.get()?;
        self.expected_num_objects = r.get()?;
        self.cache_target_dirty_high_ratio_micro = r.get()?;
        self.min_write_recency_for_promote = r.get()?;
        self.use_gmt_hitset = r.get()?;
        self.fast_read = r.get()?;
        self.hit_set_grade_decay_rate = r.get()?;
        self.hit_set_search_last_n = r.get()?;
        self.opts = r.versioned(2, |_, r| r.get())?;
        self.last_force_op_resend_prenautilus = r.get()?;
        self.application_metadata = r.get()?;
        self.create_time = r.get()?;
        Ok(())
    }

    fn decode_nautilus(&mut self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        self.pg_num_target = r.get()?;
        self.pgp_num_target = r.get()?;
        self.pg_num_pending = r.get()?;
        r.take(8)?;
        self.last_force_op_resend = r.get()?;
        self.pg_autoscale_mode = r.get()?;
        self.last_pg_merge_meta = r.get()?;
        Ok(())
    }
}

impl Decode for Pool {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned(29, |v, r| {
            if v < 27 {
                return Err(r.error(format!("a pool of before Luminous (version {v})")));
            }
            let mut pool = Self::decode_base(r)?;
            pool.decode_tiering(r)?;
            pool.decode_newer(r)?;
            if v >= 29 {
                pool.decode_nautilus(r)?;
            } else {
                (pool.pg_num_target, pool.pgp_num_target) = (pool.pg_num, pool.pgp_num);
                (pool.pg_num_pending, pool.last_force_op_resend) = (pool.pg_num, Epoch(0));
            }
            Ok(pool)
        })
    }
}

impl Sample for Pool {
    fn sample(rng: &mut Rng) -> Self {
        let size = rng.range(1, 6) as u8;
        let now = Sample::sample(rng);
        let opts: Vec<PoolOpt> = Sample::sample(rng);
        Self {
            ty: *rng.pick(&[1, 3]),
            last_change: Sample::sample(rng),
            snap_seq: Sample::sample(rng),
            snaps: Sample::sample(rng),
            removed_snaps: Sample::sample(rng),
            flags: Sample::sample(rng),
            tiers: Sample::sample(rng),
            properties: Sample::sample(rng),
            ec_profile: Sample::sample(rng),
            opts: (0..).zip(opts).collect(),
            application_metadata: Sample::sample(rng),
            last_pg_merge_meta: Sample::sample(rng),
            ..Self::replicated(size, 1, rng.below(3) as u8, rng.range(1, 40) as u32, now)
        }
    }
}

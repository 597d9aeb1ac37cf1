//! The binary form of a map (docs/protocol.md 4.4): unversioned, its later parts optional at the end of the
//! bytes.

use crate::types::{Bucket, BucketData, ChooseArg, ChooseArgMap, CrushMap, Rule, RuleMask, Step, Tunables};
use std::collections::BTreeMap;
use wire::{Decode, DecodeError, Encode, Reader, Writer};

const MAGIC: u32 = 0x0001_0000;

impl Encode for CrushMap {
    fn encode(&self, w: &mut Writer) {
        w.put(&MAGIC);
        w.count(self.buckets.len());
        w.count(self.rules.len());
        w.put(&self.max_devices);
        for slot in &self.buckets {
            match slot {
                None => w.put(&0u32),
                Some(bucket) => bucket.encode(w),
            }
        }
        for slot in &self.rules {
            w.put(&u32::from(slot.is_some()));
            if let Some(rule) = slot {
                rule.encode(w);
            }
        }
        w.put(&self.types);
        w.put(&self.names);
        w.put(&self.rule_names);
        self.tunables.encode(w);
        w.put(&self.classes);
        w.put(&self.class_names);
        w.put(&self.class_buckets);
        w.count(self.choose_args.len());
        for (key, args) in &self.choose_args {
            w.put(key);
            // An arg that replaces nothing is not written, as Ceph does.
            let used = args.iter().filter(|(_, a)| !a.weight_set.is_empty() || !a.ids.is_empty());
            w.count(used.clone().count());
            for (slot, arg) in used {
                w.put(slot);
                w.put(&arg.weight_set);
                w.put(&arg.ids);
            }
        }
    }
}

impl Decode for CrushMap {
    const MIN_SIZE: usize = 16;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let magic: u32 = r.get()?;
        if magic != MAGIC {
            return Err(r.error(format!("a CRUSH map begins with {magic:#x}")));
        }
        let (max_buckets, max_rules): (u32, u32) = (r.get()?, r.get()?);
        let mut map = Self { max_devices: r.get()?, tunables: Tunables::legacy(), ..Self::default() };
        if max_buckets as usize + max_rules as usize > r.remaining() / 4 {
            return Err(r.error(format!("{max_buckets} buckets and {max_rules} rules announced")));
        }
        for slot in 0..max_buckets {
            map.buckets.push(decode_bucket(r, slot)?);
        }
        for _ in 0..max_rules {
            map.rules.push(if r.get::<u32>()? != 0 { Some(r.get()?) } else { None });
        }
        if map.has_cycle() {
            return Err(r.error("a bucket that contains itself"));
        }
        map.types = decode_names(r)?;
        map.names = decode_names(r)?;
        map.rule_names = decode_names(r)?;
        map.decode_tail(r)?;
        Ok(map)
    }
}

impl CrushMap {
    /// Additions since the first release: each part may be missing, and then all that follow are.
    fn decode_tail(&mut self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        let t = &mut self.tunables;
        if !r.is_empty() {
            t.choose_local_tries = r.get()?;
            t.choose_local_fallback_tries = r.get()?;
            t.choose_total_tries = r.get()?;
        }
        if !r.is_empty() {
            t.chooseleaf_descend_once = r.get()?;
        }
        if !r.is_empty() {
            t.chooseleaf_vary_r = r.get()?;
        }
        if !r.is_empty() {
            t.straw_calc_version = r.get()?;
        }
        if !r.is_empty() {
            t.allowed_bucket_algs = r.get()?;
        }
        if !r.is_empty() {
            t.chooseleaf_stable = r.get()?;
        }
        if !r.is_empty() {
            self.classes = r.get()?;
            self.class_names = r.get()?;
            self.class_buckets = r.get()?;
        }
        if !r.is_empty() {
            self.choose_args = decode_choose_args(r, self)?;
        }
        Ok(())
    }
}

/// Ceph once wrote the length of a name as 64 bits in some maps; a length of 0 followed by another betrays
/// it.
fn decode_names(r: &mut Reader<'_>) -> Result<BTreeMap<i32, String>, DecodeError> {
    let n = r.count(8)?;
    let mut names = BTreeMap::new();
    for _ in 0..n {
        let key = r.get()?;
        let mut len: u32 = r.get()?;
        if len == 0 {
            len = r.get()?;
        }
        let bytes = r.take(len as usize)?;
        let name =
            std::str::from_utf8(bytes).map_err(|e| r.error(format!("a name that is not UTF-8: {e}")))?;
        names.insert(key, name.to_owned());
    }
    Ok(names)
}

fn decode_choose_args(
    r: &mut Reader<'_>,
    map: &CrushMap,
) -> Result<BTreeMap<i64, ChooseArgMap>, DecodeError> {
    let n = r.count(12)?;
    let mut out = BTreeMap::new();
    for _ in 0..n {
        let key = r.get()?;
        let mut args = ChooseArgMap::new();
        for _ in 0..r.count(12)? {
            let slot: u32 = r.get()?;
            let arg = ChooseArg { weight_set: r.get()?, ids: r.get()? };
            let size = map.buckets.get(slot as usize).and_then(Option::as_ref).map_or(0, |b| b.items.len());
            let fits = arg.weight_set.iter().all(|set| set.len() == size);
            if !fits || !(arg.ids.is_empty() || arg.ids.len() == size) {
                return Err(r.error(format!("choose_args of slot {slot} do not fit its {size} items")));
            }
            args.insert(slot, arg);
        }
        out.insert(key, args);
    }
    Ok(out)
}

impl Encode for Bucket {
    fn encode(&self, w: &mut Writer) {
        w.put(&u32::from(self.data.alg()));
        w.put(&self.id);
        w.put(&self.ty);
        w.put(&self.data.alg());
        w.put(&self.hash);
        w.put(&self.weight);
        w.put(&self.items);
        match &self.data {
            BucketData::Uniform { item_weight } => w.put(item_weight),
            BucketData::List { item_weights: a, sum_weights: b }
            | BucketData::Straw { item_weights: a, straws: b } => {
                for pair in a.iter().zip(b) {
                    w.put(pair.0);
                    w.put(pair.1);
                }
            }
            BucketData::Tree { node_weights } => {
                // One byte on the wire: a tree of more than 127 items can't be encoded, in Ceph neither.
                w.put(&(node_weights.len() as u8));
                u32::encode_slice(node_weights, w);
            }
            BucketData::Straw2 { item_weights } => u32::encode_slice(item_weights, w),
        }
    }
}

fn decode_bucket(r: &mut Reader<'_>, slot: u32) -> Result<Option<Bucket>, DecodeError> {
    let alg: u32 = r.get()?;
    if alg == 0 {
        return Ok(None);
    }
    let (id, ty): (i32, u16) = (r.get()?, r.get()?);
    let (_, hash): (u8, u8) = (r.get()?, r.get()?);
    let (weight, items): (u32, Vec<i32>) = (r.get()?, r.get()?);
    if CrushMap::slot(id) != Some(slot as usize) {
        return Err(r.error(format!("bucket {id} in slot {slot}")));
    }
    let n = items.len();
    let data = match alg {
        1 => BucketData::Uniform { item_weight: r.get()? },
        2 => {
            let (item_weights, sum_weights) = decode_pairs(r, n)?;
            BucketData::List { item_weights, sum_weights }
        }
        3 => {
            let nodes = usize::from(r.get::<u8>()?);
            if nodes < 2 * n {
                return Err(r.error(format!("a tree of {nodes} nodes for {n} items")));
            }
            BucketData::Tree { node_weights: u32::decode_vec(r, nodes)? }
        }
        4 => {
            let (item_weights, straws) = decode_pairs(r, n)?;
            BucketData::Straw { item_weights, straws }
        }
        5 => BucketData::Straw2 { item_weights: u32::decode_vec(r, n)? },
        other => return Err(r.error(format!("bucket algorithm {other}"))),
    };
    Ok(Some(Bucket { id, ty, hash, weight, items, data }))
}

fn decode_pairs(r: &mut Reader<'_>, n: usize) -> Result<(Vec<u32>, Vec<u32>), DecodeError> {
    let pairs = <(u32, u32)>::decode_vec(r, n)?;
    Ok(pairs.into_iter().unzip())
}

impl Encode for Rule {
    fn encode(&self, w: &mut Writer) {
        w.count(self.steps.len());
        w.raw(&[self.mask.ruleset, self.mask.ty, self.mask.min_size, self.mask.max_size]);
        for step in &self.steps {
            let (op, arg1, arg2) = step.parts();
            w.put(&op);
            w.put(&arg1);
            w.put(&arg2);
        }
    }
}

impl Decode for Rule {
    const MIN_SIZE: usize = 8;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let n: u32 = r.get()?;
        let [ruleset, ty, min_size, max_size] = r.array()?;
        let mask = RuleMask { ruleset, ty, min_size, max_size };
        if n as usize > r.remaining() / 12 {
            return Err(r.error(format!("a rule of {n} steps")));
        }
        let steps = (0..n)
            .map(|_| Ok(Step::from_parts(r.get()?, r.get()?, r.get()?)))
            .collect::<Result<_, DecodeError>>()?;
        Ok(Self { mask, steps })
    }
}

impl Step {
    /// Ceph's op number and arguments.
    pub fn parts(&self) -> (u32, i32, i32) {
        match *self {
            Self::Noop => (0, 0, 0),
            Self::Take(item) => (1, item, 0),
            Self::ChooseFirstn { n, ty } => (2, n, ty),
            Self::ChooseIndep { n, ty } => (3, n, ty),
            Self::Emit => (4, 0, 0),
            Self::ChooseleafFirstn { n, ty } => (6, n, ty),
            Self::ChooseleafIndep { n, ty } => (7, n, ty),
            Self::SetChooseTries(n) => (8, n, 0),
            Self::SetChooseleafTries(n) => (9, n, 0),
            Self::SetChooseLocalTries(n) => (10, n, 0),
            Self::SetChooseLocalFallbackTries(n) => (11, n, 0),
            Self::SetChooseleafVaryR(n) => (12, n, 0),
            Self::SetChooseleafStable(n) => (13, n, 0),
            Self::Unknown { op, arg1, arg2 } => (op, arg1, arg2),
        }
    }

    /// The inverse of [`Self::parts`]; arguments that the op does not use are dropped.
    pub fn from_parts(op: u32, arg1: i32, arg2: i32) -> Self {
        match op {
            0 => Self::Noop,
            1 => Self::Take(arg1),
            2 => Self::ChooseFirstn { n: arg1, ty: arg2 },
            3 => Self::ChooseIndep { n: arg1, ty: arg2 },
            4 => Self::Emit,
            6 => Self::ChooseleafFirstn { n: arg1, ty: arg2 },
            7 => Self::ChooseleafIndep { n: arg1, ty: arg2 },
            8 => Self::SetChooseTries(arg1),
            9 => Self::SetChooseleafTries(arg1),
            10 => Self::SetChooseLocalTries(arg1),
            11 => Self::SetChooseLocalFallbackTries(arg1),
            12 => Self::SetChooseleafVaryR(arg1),
            13 => Self::SetChooseleafStable(arg1),
            _ => Self::Unknown { op, arg1, arg2 },
        }
    }
}

impl Encode for Tunables {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.choose_local_tries);
        w.put(&self.choose_local_fallback_tries);
        w.put(&self.choose_total_tries);
        w.put(&self.chooseleaf_descend_once);
        w.put(&self.chooseleaf_vary_r);
        w.put(&self.straw_calc_version);
        w.put(&self.allowed_bucket_algs);
        w.put(&self.chooseleaf_stable);
    }
}

impl Tunables {
    /// The profile "argonaut": what a map without tunables means.
    pub fn legacy() -> Self {
        Self {
            choose_local_tries: 2,
            choose_local_fallback_tries: 5,
            choose_total_tries: 19,
            chooseleaf_descend_once: 0,
            chooseleaf_vary_r: 0,
            straw_calc_version: 0,
            allowed_bucket_algs: 22,
            chooseleaf_stable: 0,
        }
    }
}

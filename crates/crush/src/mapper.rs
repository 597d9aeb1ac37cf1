//! Rules: from an input to a list of devices.

use crate::choose::{choose, perm_choose};
use crate::hash::hash32_2;
use crate::types::{
    Bucket, BucketData, ChooseArgMap, CrushMap, DEFAULT_CHOOSE_ARGS, ITEM_NONE, ITEM_UNDEF, Step,
};

impl CrushMap {
    /// The weight sets for a pool: its own or the default ones.
    pub fn choose_args_for(&self, pool: i64) -> Option<&ChooseArgMap> {
        self.choose_args.get(&pool).or_else(|| self.choose_args.get(&DEFAULT_CHOOSE_ARGS))
    }

    /// Runs a rule: at most `result_max` devices for input `x`. `weights`, by device, are 0 for out, 0x10000
    /// for in, and between them for a share of the inputs. Rules with "indep" return [`ITEM_NONE`] for a
    /// position that could not be filled. Empty if there is no such rule.
    pub fn do_rule(
        &self,
        rule: u32,
        x: u32,
        result_max: usize,
        weights: &[u32],
        choose_args: Option<&ChooseArgMap>,
    ) -> Vec<i32> {
        self.do_rule_by(rule, x, result_max, &|device| weights.get(device).copied().unwrap_or(0), choose_args)
    }

    /// [`Self::do_rule`] for a caller that keeps the devices' weights elsewhere. `weight` is called for the
    /// devices that the rule encounters, and returns 0 for one that it does not know.
    pub fn do_rule_by(
        &self,
        rule: u32,
        x: u32,
        result_max: usize,
        weight: &dyn Fn(usize) -> u32,
        choose_args: Option<&ChooseArgMap>,
    ) -> Vec<i32> {
        let Some(rule) = self.rule(rule) else { return Vec::new() };
        let mut run = Run::new(self, x, result_max, weight, choose_args);
        rule.steps.iter().for_each(|step| run.step(*step));
        run.result
    }

    /// True if a bucket contains itself, so that a descent would not end.
    pub(crate) fn has_cycle(&self) -> bool {
        // 0 not seen, 1 on the path, 2 done.
        let mut state = vec![0u8; self.buckets.len()];
        for start in 0..self.buckets.len() {
            let mut path = vec![(start, 0)];
            while let Some((slot, next)) = path.last_mut() {
                let slot = *slot;
                let items = self.buckets[slot].as_ref().map_or(&[][..], |b| &b.items);
                if state[slot] == 2 || *next >= items.len() {
                    state[slot] = 2;
                    path.pop();
                    continue;
                }
                state[slot] = 1;
                let item = items[*next];
                *next += 1;
                if let Some(child) = Self::slot(item).filter(|c| *c < state.len()) {
                    match state[child] {
                        0 => path.push((child, 0)),
                        1 => return true,
                        _ => {}
                    }
                }
            }
        }
        false
    }
}

/// More attempts at positions than any rule makes: a bound on what a damaged map costs.
const MAX_REPS: usize = 4096;

/// One execution of a rule.
struct Run<'a> {
    map: &'a CrushMap,
    x: u32,
    result_max: usize,
    weight: &'a dyn Fn(usize) -> u32,
    choose_args: Option<&'a ChooseArgMap>,
    tries: u32,
    leaf_tries: u32,
    local_tries: u32,
    local_fallback_tries: u32,
    vary_r: u32,
    stable: bool,
    working: Vec<i32>,
    result: Vec<i32>,
}

/// The parameters of a choose step, for each bucket.
#[derive(Clone, Copy)]
struct Choice {
    /// Items wanted.
    numrep: usize,
    /// Type wanted.
    ty: i32,
    tries: u32,
    /// Tries below each chosen item, if devices are wanted.
    leaf_tries: u32,
    parent_r: u32,
}

impl<'a> Run<'a> {
    fn new(
        map: &'a CrushMap,
        x: u32,
        result_max: usize,
        weight: &'a dyn Fn(usize) -> u32,
        choose_args: Option<&'a ChooseArgMap>,
    ) -> Self {
        let t = &map.tunables;
        Self {
            map,
            x,
            result_max,
            weight,
            choose_args,
            // The tunable counts retries.
            tries: t.choose_total_tries.saturating_add(1),
            leaf_tries: 0,
            local_tries: t.choose_local_tries,
            local_fallback_tries: t.choose_local_fallback_tries,
            vary_r: u32::from(t.chooseleaf_vary_r),
            stable: t.chooseleaf_stable != 0,
            working: Vec::new(),
            result: Vec::new(),
        }
    }

    fn step(&mut self, step: Step) {
        let set = |field: &mut u32, n: i32, at_least: i32| {
            if n >= at_least {
                *field = n as u32;
            }
        };
        match step {
            Step::Noop | Step::Unknown { .. } => {}
            Step::Take(item) => {
                if (0..self.map.max_devices).contains(&item) || self.map.bucket(item).is_some() {
                    self.working = vec![item];
                }
            }
            Step::SetChooseTries(n) => set(&mut self.tries, n, 1),
            Step::SetChooseleafTries(n) => set(&mut self.leaf_tries, n, 1),
            Step::SetChooseLocalTries(n) => set(&mut self.local_tries, n, 0),
            Step::SetChooseLocalFallbackTries(n) => set(&mut self.local_fallback_tries, n, 0),
            Step::SetChooseleafVaryR(n) => set(&mut self.vary_r, n, 0),
            Step::SetChooseleafStable(n) => {
                if n >= 0 {
                    self.stable = n != 0;
                }
            }
            Step::ChooseFirstn { n, ty } => self.choose_step(n, ty, true, false),
            Step::ChooseIndep { n, ty } => self.choose_step(n, ty, false, false),
            Step::ChooseleafFirstn { n, ty } => self.choose_step(n, ty, true, true),
            Step::ChooseleafIndep { n, ty } => self.choose_step(n, ty, false, true),
            Step::Emit => {
                let room = self.result_max - self.result.len();
                let items = std::mem::take(&mut self.working);
                self.result.extend(items.into_iter().take(room));
            }
        }
    }

    fn choose_step(&mut self, n: i32, ty: i32, firstn: bool, to_leaf: bool) {
        // 0 and below count from the size asked for.
        let numrep = if n > 0 { i64::from(n) } else { self.result_max as i64 + i64::from(n) };
        let mut chosen = Vec::new();
        for item in std::mem::take(&mut self.working) {
            let Some(bucket) = self.map.bucket(item).filter(|_| numrep > 0) else { continue };
            let room = self.result_max - chosen.len();
            let leaf_tries = match (self.leaf_tries, firstn) {
                (0, true) if self.map.tunables.chooseleaf_descend_once == 0 => self.tries,
                (0, _) => 1,
                (n, _) => n,
            };
            let numrep = numrep as usize;
            let choice = Choice { numrep, ty, tries: self.tries, leaf_tries, parent_r: 0 };
            let mut out = vec![0; room.min(numrep)];
            let mut leaves = to_leaf.then(|| out.clone());
            if firstn {
                let placed = self.choose_firstn(choice, bucket, &mut out, 0, leaves.as_deref_mut());
                out.truncate(placed);
            } else {
                let end = out.len();
                self.choose_indep(choice, bucket, &mut out, 0..end, leaves.as_deref_mut());
            }
            let len = out.len();
            chosen.extend_from_slice(&leaves.unwrap_or(out)[..len]);
        }
        self.working = chosen;
    }

    /// True if a device is out for this input.
    fn is_out(&self, device: i32) -> bool {
        match (self.weight)(device as usize) {
            0 => true,
            weight => weight < 0x1_0000 && hash32_2(self.x, device as u32) & 0xffff >= weight,
        }
    }

    /// The type of an item, `None` for what is neither a device nor a bucket of the map.
    fn type_of(&self, item: i32) -> Option<i32> {
        if item >= 0 {
            (item < self.map.max_devices).then_some(0)
        } else {
            self.map.bucket(item).map(|b| i32::from(b.ty))
        }
    }

    fn choose_in(&self, bucket: &Bucket, r: u32, position: usize) -> i32 {
        let slot = CrushMap::slot(bucket.id).unwrap_or(usize::MAX) as u32;
        let arg = self.choose_args.and_then(|args| args.get(&slot));
        choose(bucket, self.x, r, arg, position)
    }

    /// Fills `out` from `at` on with distinct items, and `leaves` with a device below each. Returns the
    /// position after the last. Items that can't be placed are left out.
    fn choose_firstn(
        &self,
        c: Choice,
        bucket: &Bucket,
        out: &mut [i32],
        mut at: usize,
        mut leaves: Option<&mut [i32]>,
    ) -> usize {
        let first = if self.stable { 0 } else { at };
        for rep in first..c.numrep.min(MAX_REPS) {
            if at >= out.len() {
                break;
            }
            if let Some(item) = self.place(c, bucket, rep as u32, &out[..at], leaves.as_deref_mut()) {
                out[at] = item;
                at += 1;
            }
        }
        at
    }

    /// One item that is not in `placed` and, if `leaves` are wanted, has a device below it.
    fn place(
        &self,
        c: Choice,
        bucket: &Bucket,
        rep: u32,
        placed: &[i32],
        mut leaves: Option<&mut [i32]>,
    ) -> Option<i32> {
        let mut failed = 0u32;
        'descent: loop {
            let mut inner = bucket;
            let mut failed_here = 0u32;
            loop {
                let r = rep.wrapping_add(c.parent_r).wrapping_add(failed);
                let size = inner.items.len() as u32;
                let mut collides = false;
                if size > 0 {
                    let exhaustive = self.local_fallback_tries > 0
                        && failed_here >= size / 2
                        && failed_here > self.local_fallback_tries;
                    let item = if exhaustive {
                        perm_choose(inner, self.x, r)
                    } else {
                        self.choose_in(inner, r, placed.len())
                    };
                    let ty = self.type_of(item)?;
                    if ty != c.ty {
                        inner = self.map.bucket(item)?;
                        continue;
                    }
                    collides = placed.contains(&item);
                    if !collides
                        && self.leaf_below(c, item, r, placed.len(), leaves.as_deref_mut())
                        && !(ty == 0 && self.is_out(item))
                    {
                        return Some(item);
                    }
                }
                failed += 1;
                failed_here += 1;
                if collides && failed_here <= self.local_tries
                    || self.local_fallback_tries > 0
                        && failed_here <= size.saturating_add(self.local_fallback_tries)
                {
                    continue;
                }
                if failed < c.tries {
                    continue 'descent;
                }
                return None;
            }
        }
    }

    /// Finds a device below `item` for position `at` of `leaves`, if leaves are wanted.
    fn leaf_below(&self, c: Choice, item: i32, r: u32, at: usize, leaves: Option<&mut [i32]>) -> bool {
        let Some(leaves) = leaves else { return true };
        let Some(bucket) = self.map.bucket(item) else {
            leaves[at] = item; // a device already
            return true;
        };
        let parent_r = match self.vary_r {
            0 => 0,
            n => r.checked_shr(n - 1).unwrap_or(0),
        };
        let numrep = if self.stable { 1 } else { at + 1 };
        let below = Choice { numrep, ty: 0, tries: c.leaf_tries, leaf_tries: 0, parent_r };
        self.choose_firstn(below, bucket, leaves, at, None) > at
    }

    /// Fills `range` of `out`, each position on its own, and `leaves` with a device below each.
    fn choose_indep(
        &self,
        c: Choice,
        bucket: &Bucket,
        out: &mut [i32],
        range: std::ops::Range<usize>,
        mut leaves: Option<&mut [i32]>,
    ) {
        out[range.clone()].fill(ITEM_UNDEF);
        if let Some(leaves) = &mut leaves {
            leaves[range.clone()].fill(ITEM_UNDEF);
        }
        for round in 0..c.tries {
            let mut open = false;
            for rep in range.clone() {
                if out[rep] != ITEM_UNDEF {
                    continue;
                }
                match self.place_indep(
                    c,
                    bucket,
                    rep,
                    round,
                    &out[range.clone()],
                    leaves.as_deref_mut(),
                    range.start,
                ) {
                    Attempt::Placed(item) => out[rep] = item,
                    Attempt::Never => {
                        out[rep] = ITEM_NONE;
                        if let Some(leaves) = &mut leaves {
                            leaves[rep] = ITEM_NONE;
                        }
                    }
                    Attempt::NotYet => open = true,
                }
            }
            if !open {
                break;
            }
        }
        let holes = |items: &mut [i32]| {
            items.iter_mut().filter(|item| **item == ITEM_UNDEF).for_each(|item| *item = ITEM_NONE);
        };
        holes(&mut out[range.clone()]);
        if let Some(leaves) = leaves {
            holes(&mut leaves[range]);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the inner loop of choose_indep")]
    fn place_indep(
        &self,
        c: Choice,
        bucket: &Bucket,
        rep: usize,
        round: u32,
        placed: &[i32],
        leaves: Option<&mut [i32]>,
        start: usize,
    ) -> Attempt {
        let mut inner = bucket;
        loop {
            // In a uniform bucket whose size is a multiple, the plain stride would meet the same items again.
            let uniform = matches!(inner.data, BucketData::Uniform { .. });
            let stride = c.numrep as u32 + u32::from(uniform && inner.items.len().is_multiple_of(c.numrep));
            let r = (rep as u32).wrapping_add(c.parent_r).wrapping_add(stride.wrapping_mul(round));
            if inner.items.is_empty() {
                return Attempt::NotYet;
            }
            let item = self.choose_in(inner, r, start);
            let Some(ty) = self.type_of(item) else { return Attempt::Never };
            if ty != c.ty {
                match self.map.bucket(item) {
                    Some(bucket) => inner = bucket,
                    None => return Attempt::Never,
                }
                continue;
            }
            if placed.contains(&item) {
                return Attempt::NotYet;
            }
            if let Some(leaves) = leaves {
                match self.map.bucket(item) {
                    None => leaves[rep] = item,
                    Some(bucket) => {
                        let below = Choice { ty: 0, tries: c.leaf_tries, leaf_tries: 0, parent_r: r, ..c };
                        self.choose_indep(below, bucket, leaves, rep..rep + 1, None);
                        if leaves[rep] == ITEM_NONE {
                            return Attempt::NotYet;
                        }
                    }
                }
            }
            let out = ty == 0 && self.is_out(item);
            return if out { Attempt::NotYet } else { Attempt::Placed(item) };
        }
    }
}

/// The outcome of one try for a position.
enum Attempt {
    Placed(i32),
    NotYet,
    Never,
}

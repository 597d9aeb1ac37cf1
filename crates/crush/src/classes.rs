//! Device classes. For each bucket and class there is a shadow bucket with the devices of that class only,
//! from which rules start; to the mapper it is an ordinary bucket.

use crate::builder::{CrushError, check_name};
use crate::query::SHADOW_SEPARATOR;
use crate::types::{Bucket, BucketData, CrushMap};
use std::collections::BTreeSet;

impl CrushMap {
    /// Sets a device's class, which is made if missing; `None` removes its class.
    pub fn set_class(&mut self, device: i32, class: Option<&str>) -> Result<(), CrushError> {
        if device < 0 {
            return Err(CrushError::NoItem(self.name(device)));
        }
        match class {
            None => drop(self.classes.remove(&device)),
            Some(name) => {
                check_name(name)?;
                let id = self.class_of(name).unwrap_or_else(|| {
                    let free = (0..).find(|id| !self.class_names.contains_key(id));
                    free.expect("fewer classes than numbers")
                });
                self.class_names.insert(id, name.to_owned());
                self.classes.insert(device, id);
            }
        }
        self.rebuild_shadows();
        Ok(())
    }

    /// Renames a class, and its shadows with it.
    pub fn rename_class(&mut self, id: i32, name: &str) -> Result<(), CrushError> {
        check_name(name)?;
        if self.class_of(name).is_some_and(|other| other != id) {
            return Err(CrushError::Exists(name.to_owned()));
        }
        self.class_names.insert(id, name.to_owned());
        self.rebuild_shadows();
        Ok(())
    }

    /// Makes the shadow trees again. A shadow keeps its id, because rules and weight sets name it; a class
    /// without devices goes, unless a rule starts from one of its shadows.
    pub fn rebuild_shadows(&mut self) {
        let old = std::mem::take(&mut self.class_buckets);
        let taken: BTreeSet<i32> = old.values().flat_map(|shadows| shadows.values()).copied().collect();
        let mut old_args = self.choose_args.clone();
        for id in &taken {
            self.names.remove(id);
            self.classes.remove(id);
            if let Some(slot) = Self::slot(*id).filter(|slot| *slot < self.buckets.len()) {
                self.drop_bucket(slot);
            }
        }
        let used: BTreeSet<i32> = self.classes.iter().filter(|(id, _)| **id >= 0).map(|(_, c)| *c).collect();
        let in_rules = |class: &i32| {
            let mut shadows = old.values().filter_map(|shadows| shadows.get(class));
            shadows.any(|id| !self.rules_from(*id).is_empty())
        };
        let classes: Vec<i32> =
            self.class_names.keys().copied().filter(|c| used.contains(c) || in_rules(c)).collect();
        self.class_names.retain(|class, _| classes.contains(class));

        for root in self.roots() {
            for class in &classes {
                self.clone_for_class(
                    root,
                    *class,
                    &|bucket, class| old.get(&bucket).and_then(|shadows| shadows.get(&class)).copied(),
                    &taken,
                );
            }
        }
        // The weight sets of shadows that kept their shape stay.
        for (pool, args) in &mut old_args {
            args.retain(|slot, arg| {
                let id = -1 - *slot as i32;
                let len = self.bucket(id).map_or(0, |b| b.items.len());
                taken.contains(&id)
                    && self.bucket(id).is_some()
                    && arg.weight_set.iter().all(|set| set.len() == len)
                    && (arg.ids.is_empty() || arg.ids.len() == len)
            });
            self.choose_args.entry(*pool).or_default().append(args);
        }
    }

    /// Makes the shadow of a bucket and all below it. Returns its id and weight.
    fn clone_for_class(
        &mut self,
        bucket: i32,
        class: i32,
        old_id: &dyn Fn(i32, i32) -> Option<i32>,
        taken: &BTreeSet<i32>,
    ) -> (i32, u32) {
        let original = self.bucket(bucket).expect("only buckets are cloned");
        let (ty, hash, items) = (original.ty, original.hash, original.items.clone());
        let weights: Vec<u32> = (0..items.len()).map(|at| original.item_weight(at)).collect();
        let mut shadow = Bucket { hash, ..Bucket::straw2(0, ty) };
        let mut shadow_weights = Vec::new();
        for (item, weight) in items.into_iter().zip(weights) {
            let (item, weight) = match item {
                device if device >= 0 => match self.classes.get(&device) {
                    Some(c) if *c == class => (device, weight),
                    _ => continue,
                },
                child if self.bucket(child).is_none() => continue,
                child => self.clone_for_class(child, class, old_id, taken),
            };
            shadow.items.push(item);
            shadow_weights.push(weight);
            shadow.weight = shadow.weight.saturating_add(weight);
        }
        shadow.data = BucketData::Straw2 { item_weights: shadow_weights };
        // The id of another shadow must not be reused for this one.
        let free = |map: &Self, id: i32| map.bucket(id).is_none();
        shadow.id = match old_id(bucket, class).filter(|id| free(self, *id)) {
            Some(id) => id,
            None => self.new_bucket_id(|id| !taken.contains(&id)),
        };
        let (id, weight) = (shadow.id, shadow.weight);
        let name = format!("{}{SHADOW_SEPARATOR}{}", self.name(bucket), self.class_names[&class]);
        self.put_bucket(shadow, &name);
        self.classes.insert(id, class);
        self.class_buckets.entry(bucket).or_default().insert(class, id);
        (id, weight)
    }
}

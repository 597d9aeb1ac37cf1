//! Questions about the hierarchy: parents, roots, locations, what a rule reaches.

use crate::types::{CrushMap, Step};
use std::collections::{BTreeMap, BTreeSet};

/// Between a bucket's name and the device class in the name of its shadow.
pub const SHADOW_SEPARATOR: char = '~';

impl CrushMap {
    /// True if the bucket is a shadow that holds the devices of one class only.
    pub fn is_shadow(&self, id: i32) -> bool {
        id < 0 && self.names.get(&id).is_some_and(|name| name.contains(SHADOW_SEPARATOR))
    }

    /// The bucket that holds the item; shadows are passed over, except for shadows.
    pub fn parent_of(&self, item: i32) -> Option<i32> {
        let shadow = self.is_shadow(item);
        let holds = |b: &&crate::Bucket| b.items.contains(&item) && self.is_shadow(b.id) == shadow;
        self.buckets.iter().flatten().find(holds).map(|b| b.id)
    }

    /// Buckets without a parent, shadows left out, by descending id as Ceph lists them.
    pub fn roots(&self) -> Vec<i32> {
        let held: BTreeSet<i32> = self.buckets.iter().flatten().flat_map(|b| &b.items).copied().collect();
        let root = |id: &i32| !held.contains(id) && !self.is_shadow(*id);
        self.buckets.iter().flatten().map(|b| b.id).filter(root).collect()
    }

    /// The buckets around an item from the outermost in: type name and bucket name.
    pub fn location(&self, item: i32) -> Vec<(String, String)> {
        let mut out = Vec::new();
        let mut at = item;
        while let Some(parent) = self.parent_of(at) {
            out.push((self.type_name_of(parent).to_owned(), self.name(parent)));
            at = parent;
        }
        out.reverse();
        out
    }

    /// An item's name; `osd.N` or `bucketN` if it has none.
    pub fn name(&self, item: i32) -> String {
        match self.names.get(&item) {
            Some(name) => name.clone(),
            None if item >= 0 => format!("osd.{item}"),
            None => format!("bucket{item}"),
        }
    }

    /// The name of an item's type.
    pub fn type_name_of(&self, item: i32) -> &str {
        let ty = self.bucket(item).map_or(0, |b| i32::from(b.ty));
        self.types.get(&ty).map_or("", String::as_str)
    }

    /// The name of a device's class.
    pub fn class_name_of(&self, item: i32) -> Option<&str> {
        self.class_names.get(self.classes.get(&item)?).map(String::as_str)
    }

    /// The weight of an item in its parent; a root's own weight.
    pub fn weight_of(&self, item: i32) -> u32 {
        let Some(parent) = self.parent_of(item).and_then(|p| self.bucket(p)) else {
            return self.bucket(item).map_or(0, |b| b.weight);
        };
        parent.items.iter().position(|i| *i == item).map_or(0, |at| parent.item_weight(at))
    }

    /// The devices below an item, with their weights; itself if it is one.
    pub fn devices_below(&self, item: i32) -> BTreeMap<i32, u32> {
        let mut out = BTreeMap::new();
        let mut todo = vec![(item, self.weight_of(item))];
        let mut seen = BTreeSet::new();
        while let Some((item, weight)) = todo.pop() {
            if item >= 0 {
                out.insert(item, weight);
            } else if let Some(bucket) = self.bucket(item).filter(|_| seen.insert(item)) {
                todo.extend(bucket.items.iter().enumerate().map(|(at, i)| (*i, bucket.item_weight(at))));
            }
        }
        out
    }

    /// The share of a rule's data that each device gets, by weight; they sum up to 1.
    pub fn rule_shares(&self, rule: u32) -> BTreeMap<i32, f64> {
        let mut weights: BTreeMap<i32, f64> = BTreeMap::new();
        let steps = self.rule(rule).map_or(&[][..], |r| &r.steps);
        for step in steps {
            if let Step::Take(item) = step {
                for (device, weight) in self.devices_below(*item) {
                    *weights.entry(device).or_default() += f64::from(weight);
                }
            }
        }
        let sum: f64 = weights.values().sum();
        weights.retain(|_, weight| *weight > 0.0);
        weights.values_mut().for_each(|weight| *weight /= sum);
        weights
    }

    /// The rules that start from this item.
    pub fn rules_from(&self, item: i32) -> Vec<u32> {
        let takes = |r: &crate::Rule| r.steps.contains(&Step::Take(item));
        (0..).zip(&self.rules).filter(|(_, r)| r.as_ref().is_some_and(takes)).map(|(id, _)| id).collect()
    }
}

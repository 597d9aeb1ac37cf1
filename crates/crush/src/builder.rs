//! Changes of the hierarchy. Every change maintains the sums of weights, the shadow trees of device classes
//! and the sizes of weight sets.

use crate::query::SHADOW_SEPARATOR;
use crate::types::{Bucket, BucketData, CrushMap, Rule, RuleMask, Step};
use std::fmt;

/// Why a change to the hierarchy was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CrushError {
    /// No item of this name or number.
    NoItem(String),
    /// No bucket type of this name.
    NoType(String),
    /// No device class of this name, or no device of it.
    NoClass(String),
    /// The name or number is taken.
    Exists(String),
    /// Names are letters, digits, and `-_.`.
    BadName(String),
    /// Items or rules still use it.
    InUse(String),
    /// A bucket would be placed below itself, or below a bucket of a smaller type.
    Loop(String),
    /// A legacy bucket, which is mapped from and not changed.
    Legacy(String),
}

impl fmt::Display for CrushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoItem(name) => write!(f, "item '{name}' does not exist in the CRUSH map"),
            Self::NoType(name) => write!(f, "bucket type '{name}' does not exist"),
            Self::NoClass(name) => write!(f, "device class '{name}' does not exist"),
            Self::Exists(name) => write!(f, "'{name}' already exists"),
            Self::BadName(name) => write!(f, "'{name}' is not a valid name: use letters, digits and -_."),
            Self::InUse(name) => write!(f, "'{name}' is still in use"),
            Self::Loop(name) => {
                write!(f, "'{name}' cannot be put there: it would lie below itself or a smaller type")
            }
            Self::Legacy(name) => write!(f, "'{name}' is of a legacy algorithm: convert it to straw2 first"),
        }
    }
}

impl std::error::Error for CrushError {}

/// Ceph's types of buckets.
const DEFAULT_TYPES: [&str; 12] =
    ["osd", "host", "chassis", "rack", "row", "pdu", "pod", "room", "datacenter", "zone", "region", "root"];

impl CrushMap {
    /// An empty map with Ceph's types.
    pub fn new_default_types() -> Self {
        Self { types: (0..).zip(DEFAULT_TYPES.map(str::to_owned)).collect(), ..Self::default() }
    }

    /// Adds an empty straw2 bucket that lies nowhere yet.
    pub fn add_bucket(&mut self, name: &str, type_name: &str) -> Result<i32, CrushError> {
        check_name(name)?;
        if self.id_of(name).is_some() {
            return Err(CrushError::Exists(name.to_owned()));
        }
        let ty = self.type_of(type_name).filter(|ty| *ty > 0);
        let ty = ty.ok_or_else(|| CrushError::NoType(type_name.to_owned()))?;
        let id = self.new_bucket_id(|_| true);
        self.put_bucket(Bucket::straw2(id, ty as u16), name);
        self.rebuild_shadows();
        Ok(id)
    }

    /// The free bucket id next to 0 that `ok` allows.
    pub(crate) fn new_bucket_id(&self, ok: impl Fn(i32) -> bool) -> i32 {
        let free = |slot: &usize| self.buckets.get(*slot).is_none_or(Option::is_none);
        let slot = (0..).filter(free).find(|slot| ok(-1 - *slot as i32));
        -1 - slot.expect("fewer buckets than numbers") as i32
    }

    /// Puts a bucket into its slot; the slots grow by doubling, as Ceph's do.
    pub(crate) fn put_bucket(&mut self, bucket: Bucket, name: &str) {
        let slot = Self::slot(bucket.id).expect("a bucket's id is negative");
        while slot >= self.buckets.len() {
            let len = if self.buckets.is_empty() { 8 } else { self.buckets.len() * 2 };
            self.buckets.resize(len, None);
        }
        self.names.insert(bucket.id, name.to_owned());
        self.buckets[slot] = Some(bucket);
    }

    /// Puts an item (a device, or a bucket that lies nowhere) into a bucket. A device gets its name.
    pub fn insert_item(&mut self, item: i32, weight: u32, name: &str, parent: i32) -> Result<(), CrushError> {
        check_name(name)?;
        if item < 0 && self.bucket(item).is_none() {
            return Err(CrushError::NoItem(name.to_owned()));
        }
        if self.id_of(name).is_some_and(|id| id != item) || self.parent_of(item).is_some() {
            return Err(CrushError::Exists(name.to_owned()));
        }
        self.check_order(item, parent)?;
        if item >= 0 {
            self.max_devices = self.max_devices.max(item + 1);
            self.names.insert(item, name.to_owned());
        }
        self.link(item, weight, parent)?;
        self.rebuild_shadows();
        Ok(())
    }

    /// Renames a rule.
    pub fn rename_rule(&mut self, id: u32, name: &str) -> Result<(), CrushError> {
        check_name(name)?;
        if self.rule_of(name).is_some_and(|other| other != id) {
            return Err(CrushError::Exists(name.to_owned()));
        }
        self.rule_names.insert(id as i32, name.to_owned());
        Ok(())
    }

    /// Puts a device at `location`, pairs of type and bucket name in any order, and makes missing buckets. A
    /// device that is elsewhere is moved; its weight is set.
    pub fn place(&mut self, device: i32, weight: u32, location: &[(&str, &str)]) -> Result<(), CrushError> {
        let name = self.name(device);
        if let Some(parent) = self.parent_of(device) {
            self.unlink(device, parent)?;
        }
        let parent = self.make_location(location)?;
        self.insert_item(device, weight, &name, parent)
    }

    /// The innermost bucket of a location, made if missing, with those around it.
    fn make_location(&mut self, location: &[(&str, &str)]) -> Result<i32, CrushError> {
        let mut levels = Vec::new();
        for (ty, name) in location {
            levels.push((self.type_of(ty).ok_or_else(|| CrushError::NoType((*ty).to_owned()))?, *ty, *name));
        }
        levels.sort();
        let mut below = None;
        let mut innermost = None;
        for (_, ty, name) in levels {
            let existing = self.id_of(name);
            let id = match existing {
                Some(id) if id < 0 => id,
                Some(_) => return Err(CrushError::Exists(name.to_owned())),
                None => self.add_bucket(name, ty)?,
            };
            if let Some(child) = below.take() {
                let weight = self.weight_of(child);
                let child_name = self.name(child);
                self.insert_item(child, weight, &child_name, id)?;
            }
            innermost = innermost.or(Some(id));
            if existing.is_some() {
                break; // it stays where it lies
            }
            below = Some(id);
        }
        innermost.ok_or_else(|| CrushError::NoItem("an empty location".to_owned()))
    }

    /// Moves a device or bucket, with all below it, into another bucket.
    pub fn move_item(&mut self, item: i32, parent: i32) -> Result<(), CrushError> {
        if !self.names.contains_key(&item) {
            return Err(CrushError::NoItem(self.name(item)));
        }
        self.check_order(item, parent)?;
        let weight = self.weight_of(item);
        if let Some(old) = self.parent_of(item) {
            self.unlink(item, old)?;
        }
        self.link(item, weight, parent)?;
        self.rebuild_shadows();
        Ok(())
    }

    /// Takes an item, with all below it, out of the bucket that holds it; it then lies nowhere.
    pub fn detach(&mut self, item: i32) -> Result<(), CrushError> {
        let parent = self.parent_of(item).ok_or_else(|| CrushError::NoItem(self.name(item)))?;
        self.unlink(item, parent)?;
        self.rebuild_shadows();
        Ok(())
    }

    /// Moves a bucket to a location, whose missing buckets are made.
    pub fn move_to(&mut self, item: i32, location: &[(&str, &str)]) -> Result<(), CrushError> {
        let parent = self.make_location(location)?;
        self.move_item(item, parent)
    }

    /// Takes a device, or a bucket that is empty and that no rule starts from, off the map.
    pub fn remove(&mut self, item: i32) -> Result<(), CrushError> {
        let name = self.name(item);
        if self.is_shadow(item) {
            return Err(CrushError::InUse(name));
        }
        if item < 0 {
            let bucket = self.bucket(item).ok_or_else(|| CrushError::NoItem(name.clone()))?;
            let shadows = self.class_buckets.get(&item);
            let taken = |id: &i32| !self.rules_from(*id).is_empty();
            if !bucket.items.is_empty() || taken(&item) || shadows.is_some_and(|s| s.values().any(taken)) {
                return Err(CrushError::InUse(name));
            }
        }
        if let Some(parent) = self.parent_of(item) {
            self.unlink(item, parent)?;
        }
        self.names.remove(&item);
        self.classes.remove(&item);
        if let Some(slot) = Self::slot(item) {
            self.drop_bucket(slot);
        }
        self.rebuild_shadows();
        Ok(())
    }

    pub(crate) fn drop_bucket(&mut self, slot: usize) {
        self.buckets[slot] = None;
        self.choose_args.values_mut().for_each(|args| drop(args.remove(&(slot as u32))));
    }

    /// Sets the weight of a device; the sums above follow.
    pub fn reweight(&mut self, item: i32, weight: u32) -> Result<(), CrushError> {
        let parent = self.parent_of(item).ok_or_else(|| CrushError::NoItem(self.name(item)))?;
        self.set_weight(item, weight, parent)?;
        self.rebuild_shadows();
        Ok(())
    }

    /// Renames an item.
    pub fn rename(&mut self, item: i32, name: &str) -> Result<(), CrushError> {
        check_name(name)?;
        if self.id_of(name).is_some() {
            return Err(CrushError::Exists(name.to_owned()));
        }
        self.names.insert(item, name.to_owned());
        self.rebuild_shadows();
        Ok(())
    }

    /// Adds a rule for replicated pools: copies on devices of `class` below different buckets of type
    /// `failure_domain` below `root`.
    pub fn create_replicated_rule(
        &mut self,
        name: &str,
        root: &str,
        failure_domain: &str,
        class: Option<&str>,
    ) -> Result<u32, CrushError> {
        let (take, ty) = self.rule_start(root, failure_domain, class)?;
        let choose = match ty {
            0 => Step::ChooseFirstn { n: 0, ty },
            _ => Step::ChooseleafFirstn { n: 0, ty },
        };
        let mask = RuleMask { ruleset: 0, ty: 1, min_size: 1, max_size: 10 };
        self.add_rule(name, mask, vec![Step::Take(take), choose, Step::Emit])
    }

    /// Adds a rule for erasure-coded pools.
    pub fn create_erasure_rule(
        &mut self,
        name: &str,
        root: &str,
        failure_domain: &str,
        class: Option<&str>,
    ) -> Result<u32, CrushError> {
        let (take, ty) = self.rule_start(root, failure_domain, class)?;
        let choose = match ty {
            0 => Step::ChooseIndep { n: 0, ty },
            _ => Step::ChooseleafIndep { n: 0, ty },
        };
        // A hole is worse than a few more tries.
        let tries = [Step::SetChooseleafTries(5), Step::SetChooseTries(100)];
        let steps = tries.into_iter().chain([Step::Take(take), choose, Step::Emit]).collect();
        self.add_rule(name, RuleMask { ruleset: 0, ty: 3, min_size: 3, max_size: 20 }, steps)
    }

    fn rule_start(&self, root: &str, domain: &str, class: Option<&str>) -> Result<(i32, i32), CrushError> {
        let id = self.id_of(root).ok_or_else(|| CrushError::NoItem(root.to_owned()))?;
        let ty = self.type_of(domain).ok_or_else(|| CrushError::NoType(domain.to_owned()))?;
        let Some(class) = class else { return Ok((id, ty)) };
        let shadow = self.class_of(class).and_then(|class| self.class_buckets.get(&id)?.get(&class));
        Ok((*shadow.ok_or_else(|| CrushError::NoClass(class.to_owned()))?, ty))
    }

    /// Adds a rule under the first free id.
    pub fn add_rule(&mut self, name: &str, mask: RuleMask, steps: Vec<Step>) -> Result<u32, CrushError> {
        check_name(name)?;
        if self.rule_of(name).is_some() {
            return Err(CrushError::Exists(name.to_owned()));
        }
        let id = self.rules.iter().position(Option::is_none).unwrap_or(self.rules.len());
        // A pool names its rule in one byte.
        let Ok(ruleset) = u8::try_from(id) else { return Err(CrushError::InUse(name.to_owned())) };
        if id == self.rules.len() {
            self.rules.push(None);
        }
        self.rules[id] = Some(Rule { mask: RuleMask { ruleset, ..mask }, steps });
        self.rule_names.insert(id as i32, name.to_owned());
        Ok(id as u32)
    }

    /// Removes a rule. Whether a pool uses it, the caller knows.
    pub fn remove_rule(&mut self, id: u32) -> Result<(), CrushError> {
        match self.rules.get_mut(id as usize) {
            Some(slot @ Some(_)) => *slot = None,
            _ => return Err(CrushError::NoItem(format!("rule {id}"))),
        }
        self.rule_names.remove(&(id as i32));
        Ok(())
    }

    /// Refuses to put a bucket below one of a smaller type, which also rules out loops.
    fn check_order(&self, item: i32, parent: i32) -> Result<(), CrushError> {
        let bucket = self.bucket(parent).ok_or_else(|| CrushError::NoItem(self.name(parent)))?;
        let ty = match self.bucket(item) {
            Some(bucket) => bucket.ty,
            None if item >= 0 => 0,
            None => return Err(CrushError::NoItem(self.name(item))),
        };
        if ty >= bucket.ty || self.is_shadow(parent) || self.is_shadow(item) {
            Err(CrushError::Loop(self.name(item)))
        } else {
            Ok(())
        }
    }

    fn weights_mut(&mut self, bucket: i32) -> Result<(&mut Vec<i32>, &mut Vec<u32>), CrushError> {
        let name = self.name(bucket);
        match self.bucket_mut(bucket) {
            Some(Bucket { items, data: BucketData::Straw2 { item_weights }, .. }) => {
                Ok((items, item_weights))
            }
            Some(_) => Err(CrushError::Legacy(name)),
            None => Err(CrushError::NoItem(name)),
        }
    }

    pub(crate) fn link(&mut self, item: i32, weight: u32, parent: i32) -> Result<(), CrushError> {
        let (items, weights) = self.weights_mut(parent)?;
        items.push(item);
        weights.push(weight);
        self.each_choose_arg(parent, |set, ids| match set {
            Some(set) => set.push(weight),
            None => ids.push(item),
        });
        self.sum_up(parent)
    }

    fn unlink(&mut self, item: i32, parent: i32) -> Result<(), CrushError> {
        let (items, weights) = self.weights_mut(parent)?;
        let Some(at) = items.iter().position(|i| *i == item) else { return Ok(()) };
        items.remove(at);
        weights.remove(at);
        self.each_choose_arg(parent, |set, ids| match set {
            Some(set) => drop(set.remove(at)),
            None => drop(ids.remove(at)),
        });
        self.sum_up(parent)
    }

    fn set_weight(&mut self, item: i32, weight: u32, parent: i32) -> Result<(), CrushError> {
        let (items, weights) = self.weights_mut(parent)?;
        if let Some(at) = items.iter().position(|i| *i == item) {
            weights[at] = weight;
        }
        self.sum_up(parent)
    }

    /// Calls `change` for each weight set and each list of ids that replaces this bucket's own.
    fn each_choose_arg(&mut self, bucket: i32, change: impl Fn(Option<&mut Vec<u32>>, &mut Vec<i32>)) {
        let slot = Self::slot(bucket).unwrap_or(usize::MAX) as u32;
        for arg in self.choose_args.values_mut().filter_map(|args| args.get_mut(&slot)) {
            arg.weight_set.iter_mut().for_each(|set| change(Some(set), &mut Vec::new()));
            if !arg.ids.is_empty() {
                change(None, &mut arg.ids);
            }
        }
    }

    /// Sets a bucket's weight to the sum of its items', and so on upward.
    fn sum_up(&mut self, bucket: i32) -> Result<(), CrushError> {
        let (_, weights) = self.weights_mut(bucket)?;
        let sum = weights.iter().fold(0u32, |sum, w| sum.saturating_add(*w));
        let Some(entry) = self.bucket_mut(bucket) else { return Ok(()) };
        entry.weight = sum;
        match self.parent_of(bucket) {
            Some(parent) => self.set_weight(bucket, sum, parent),
            None => Ok(()),
        }
    }
}

pub(crate) fn check_name(name: &str) -> Result<(), CrushError> {
    let ok = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    debug_assert!(!ok(SHADOW_SEPARATOR));
    if name.is_empty() || !name.chars().all(ok) { Err(CrushError::BadName(name.to_owned())) } else { Ok(()) }
}

//! The map: buckets, rules, names, tunables, device classes, weight sets.

use std::collections::BTreeMap;

/// A hole in an erasure-coded mapping.
pub const ITEM_NONE: i32 = 0x7fff_ffff;
/// Not yet chosen; never leaves the mapper.
pub const ITEM_UNDEF: i32 = 0x7fff_fffe;
/// Weight 1.0.
pub const WEIGHT_ONE: u32 = 0x1_0000;
/// The key in [`CrushMap::choose_args`] that holds for pools without an entry of their own.
pub const DEFAULT_CHOOSE_ARGS: i64 = -1;

/// A CRUSH map. The default is empty with today's tunables.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CrushMap {
    /// One more than the highest device id ever added.
    pub max_devices: i32,
    /// Slot `i` holds bucket `-1 - i`. Ceph grows it by doubling, from 8.
    pub buckets: Vec<Option<Bucket>>,
    /// By rule id.
    pub rules: Vec<Option<Rule>>,
    /// Bucket types, by number; 0 is the device.
    pub types: BTreeMap<i32, String>,
    /// Names of devices and buckets.
    pub names: BTreeMap<i32, String>,
    /// Names of rules.
    pub rule_names: BTreeMap<i32, String>,
    /// Numbers of retries.
    pub tunables: Tunables,
    /// Device class of a device, or of a shadow bucket.
    pub classes: BTreeMap<i32, i32>,
    /// Names of device classes.
    pub class_names: BTreeMap<i32, String>,
    /// Bucket to class to the shadow bucket that holds only devices of this class.
    pub class_buckets: BTreeMap<i32, BTreeMap<i32, i32>>,
    /// Weight sets, by pool id or [`DEFAULT_CHOOSE_ARGS`].
    pub choose_args: BTreeMap<i64, ChooseArgMap>,
}

/// A node of the hierarchy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bucket {
    /// Negative.
    pub id: i32,
    /// Type number, not 0.
    pub ty: u16,
    /// 0, rjenkins1: the only one.
    pub hash: u8,
    /// Sum of the items' weights.
    pub weight: u32,
    /// Devices and buckets.
    pub items: Vec<i32>,
    /// Data of the bucket's algorithm for each item.
    pub data: BucketData,
}

/// The algorithm of a bucket, with its data. Only `Straw2` is ever created by us.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BucketData {
    /// All items weigh the same.
    Uniform {
        /// The weight of each.
        item_weight: u32,
    },
    /// A linked list.
    List {
        /// By item.
        item_weights: Vec<u32>,
        /// Sum of the weights from the first item to this one.
        sum_weights: Vec<u32>,
    },
    /// A binary tree.
    Tree {
        /// Item `i` is node `2i + 1`.
        node_weights: Vec<u32>,
    },
    /// Straws, first version.
    Straw {
        /// By item.
        item_weights: Vec<u32>,
        /// Length of each item's straw.
        straws: Vec<u32>,
    },
    /// Straws, second version.
    Straw2 {
        /// By item.
        item_weights: Vec<u32>,
    },
}

/// A placement rule.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rule {
    /// The pools that it is for.
    pub mask: RuleMask,
    /// Executed in order.
    pub steps: Vec<Step>,
}

/// The purpose of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RuleMask {
    /// Always the rule's id, since Luminous.
    pub ruleset: u8,
    /// Pool type: 1 replicated, 3 erasure.
    pub ty: u8,
    /// Fewest replicas.
    pub min_size: u8,
    /// Most replicas.
    pub max_size: u8,
}

/// One step of a rule, by Ceph's op numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Does nothing (0).
    Noop,
    /// Starts from an item (1).
    Take(i32),
    /// Chooses `n` items of type `ty`, holes closed (2).
    ChooseFirstn {
        /// Count; 0 is the pool's size, negative that less.
        n: i32,
        /// Bucket type.
        ty: i32,
    },
    /// Chooses `n` items of type `ty`, positions kept (3).
    ChooseIndep {
        /// Count; 0 is the pool's size, negative that less.
        n: i32,
        /// Bucket type.
        ty: i32,
    },
    /// Appends the chosen items to the result (4).
    Emit,
    /// Chooses `n` buckets of type `ty` and a device below each, holes closed (6).
    ChooseleafFirstn {
        /// Count; 0 is the pool's size, negative that less.
        n: i32,
        /// Bucket type.
        ty: i32,
    },
    /// Chooses `n` buckets of type `ty` and a device below each, positions kept (7).
    ChooseleafIndep {
        /// Count; 0 is the pool's size, negative that less.
        n: i32,
        /// Bucket type.
        ty: i32,
    },
    /// Overrides [`Tunables::choose_total_tries`] (8).
    SetChooseTries(i32),
    /// Tries below each bucket (9).
    SetChooseleafTries(i32),
    /// Overrides [`Tunables::choose_local_tries`] (10).
    SetChooseLocalTries(i32),
    /// Overrides [`Tunables::choose_local_fallback_tries`] (11).
    SetChooseLocalFallbackTries(i32),
    /// Overrides [`Tunables::chooseleaf_vary_r`] (12).
    SetChooseleafVaryR(i32),
    /// Overrides [`Tunables::chooseleaf_stable`] (13).
    SetChooseleafStable(i32),
    /// A step that this version does not know; ignored, and kept in the encoding.
    Unknown {
        /// Op number.
        op: u32,
        /// First argument.
        arg1: i32,
        /// Second argument.
        arg2: i32,
    },
}

/// The mapper's retries. The default is the profile "jewel", which is "optimal".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tunables {
    /// Retries within one bucket.
    pub choose_local_tries: u32,
    /// Retries by permutation within one bucket.
    pub choose_local_fallback_tries: u32,
    /// Tries from the top; the mapper adds one.
    pub choose_total_tries: u32,
    /// True if a failed leaf retries from the top.
    pub chooseleaf_descend_once: u32,
    /// True if the parent's attempt changes the leaf's.
    pub chooseleaf_vary_r: u8,
    /// Version of the straw computation.
    pub straw_calc_version: u8,
    /// Bit mask of algorithm numbers.
    pub allowed_bucket_algs: u32,
    /// True if a leaf's position does not depend on the replicas before it.
    pub chooseleaf_stable: u8,
}

impl Default for Tunables {
    fn default() -> Self {
        Self {
            choose_local_tries: 0,
            choose_local_fallback_tries: 0,
            choose_total_tries: 50,
            chooseleaf_descend_once: 1,
            chooseleaf_vary_r: 1,
            straw_calc_version: 1,
            allowed_bucket_algs: 54,
            chooseleaf_stable: 1,
        }
    }
}

impl Tunables {
    /// The profile of this name, of those that `ceph osd crush tunables` knows.
    pub fn profile(name: &str) -> Option<Self> {
        let legacy = Self::legacy();
        let bobtail = Self {
            choose_local_tries: 0,
            choose_local_fallback_tries: 0,
            choose_total_tries: 50,
            chooseleaf_descend_once: 1,
            straw_calc_version: 1,
            ..legacy
        };
        let firefly = Self { chooseleaf_vary_r: 1, ..bobtail };
        let hammer = Self { allowed_bucket_algs: 54, ..firefly };
        Some(match name {
            "argonaut" | "legacy" => legacy,
            "bobtail" => bobtail,
            "firefly" => firefly,
            "hammer" => hammer,
            "jewel" | "optimal" | "default" => Self { chooseleaf_stable: 1, ..hammer },
            _ => return None,
        })
    }
}

/// Replacement weights by bucket slot (`-1 - id`).
pub type ChooseArgMap = BTreeMap<u32, ChooseArg>;

/// Replacements of a bucket's own weights and ids in choices.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChooseArg {
    /// Weights by position in the result (the last holds for all further positions) and item; empty for the
    /// bucket's own.
    pub weight_set: Vec<Vec<u32>>,
    /// Ids to hash in place of the items; empty for the items themselves.
    pub ids: Vec<i32>,
}

impl BucketData {
    /// Ceph's number of the algorithm.
    pub fn alg(&self) -> u8 {
        match self {
            Self::Uniform { .. } => 1,
            Self::List { .. } => 2,
            Self::Tree { .. } => 3,
            Self::Straw { .. } => 4,
            Self::Straw2 { .. } => 5,
        }
    }

    /// Ceph's name of the algorithm.
    pub fn alg_name(&self) -> &'static str {
        ["uniform", "list", "tree", "straw", "straw2"][usize::from(self.alg()) - 1]
    }
}

impl Bucket {
    /// An empty straw2 bucket.
    pub fn straw2(id: i32, ty: u16) -> Self {
        let data = BucketData::Straw2 { item_weights: Vec::new() };
        Self { id, ty, hash: 0, weight: 0, items: Vec::new(), data }
    }

    /// The weight of the item at `index`; 0 if there is none.
    pub fn item_weight(&self, index: usize) -> u32 {
        if index >= self.items.len() {
            return 0;
        }
        match &self.data {
            BucketData::Uniform { item_weight } => *item_weight,
            BucketData::Tree { node_weights } => node_weights.get(2 * index + 1).copied().unwrap_or(0),
            BucketData::List { item_weights, .. }
            | BucketData::Straw { item_weights, .. }
            | BucketData::Straw2 { item_weights } => item_weights.get(index).copied().unwrap_or(0),
        }
    }
}

impl CrushMap {
    /// The bucket with this id; `None` for devices and free slots.
    pub fn bucket(&self, id: i32) -> Option<&Bucket> {
        self.buckets.get(Self::slot(id)?)?.as_ref()
    }

    /// The bucket with this id, to change.
    pub fn bucket_mut(&mut self, id: i32) -> Option<&mut Bucket> {
        self.buckets.get_mut(Self::slot(id)?)?.as_mut()
    }

    /// The rule with this id.
    pub fn rule(&self, id: u32) -> Option<&Rule> {
        self.rules.get(id as usize)?.as_ref()
    }

    /// The slot of a bucket id.
    pub fn slot(id: i32) -> Option<usize> {
        (id < 0).then(|| (-1 - id) as usize)
    }

    /// The id of the item with this name.
    pub fn id_of(&self, name: &str) -> Option<i32> {
        self.names.iter().find(|(_, n)| *n == name).map(|(id, _)| *id)
    }

    /// The number of the type with this name.
    pub fn type_of(&self, name: &str) -> Option<i32> {
        self.types.iter().find(|(_, n)| *n == name).map(|(ty, _)| *ty)
    }

    /// The id of the rule with this name.
    pub fn rule_of(&self, name: &str) -> Option<u32> {
        let (id, _) = self.rule_names.iter().find(|(_, n)| *n == name)?;
        u32::try_from(*id).ok()
    }

    /// The id of the device class with this name.
    pub fn class_of(&self, name: &str) -> Option<i32> {
        self.class_names.iter().find(|(_, n)| *n == name).map(|(id, _)| *id)
    }
}

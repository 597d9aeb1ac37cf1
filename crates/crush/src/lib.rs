//! CRUSH placement: pure functions of a map and a key, bit-exact with Ceph's, because clients compute it too
//! (docs/protocol.md 4.3, 4.4).
//!
//! Weights are 16.16 fixed point (0x10000 is 1.0). Items >= 0 are devices (OSD ids), items < 0 buckets;
//! bucket `-1 - i` sits in slot `i`.

mod builder;
mod choose;
mod classes;
mod codec;
mod hash;
mod ln;
mod mapper;
mod query;
mod sample;
mod straw2;
mod types;

pub use builder::CrushError;
pub use hash::{hash32, hash32_2, hash32_3, hash32_4, hash32_5};
pub use types::{
    Bucket, BucketData, ChooseArg, ChooseArgMap, CrushMap, DEFAULT_CHOOSE_ARGS, ITEM_NONE, ITEM_UNDEF, Rule,
    RuleMask, Step, Tunables, WEIGHT_ONE,
};

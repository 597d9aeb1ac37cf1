//! Data that methods of classes ask for while they run.

use std::collections::BTreeMap;
use stdx::Bufs;

/// A key and its value.
pub(crate) type OmapEntry = (Vec<u8>, Vec<u8>);

/// Data that a method asked for and that is not loaded.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Need {
    /// Values of omap keys.
    Values(Vec<Vec<u8>>),
    /// Omap entries after a key, with a prefix, at most `max`.
    Range { after: Vec<u8>, prefix: Vec<u8>, max: usize },
    /// The omap header.
    Header,
    /// Data: offset and length.
    Data(u64, u64),
}

/// Data loaded for methods.
#[derive(Clone, Debug, Default)]
pub struct Cached {
    /// Omap values by key; `None` for missing keys.
    pub values: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// Omap entries by the need, and whether more follow.
    pub ranges: BTreeMap<Need, (Vec<OmapEntry>, bool)>,
    /// The omap header.
    pub header: Option<Vec<u8>>,
    /// Data by offset and length.
    pub data: BTreeMap<(u64, u64), Bufs>,
}

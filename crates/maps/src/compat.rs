//! The features that an on-disk format needs, by which daemons too old for a file system are kept from it.

use std::collections::BTreeMap;
use stdx::Rng;
use wire::{Decode, DecodeError, Encode, Reader, Sample, Writer};

/// `CompatSet`: three sets of features, each a number with a name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CompatSet {
    /// May be unknown to anyone.
    pub compat: BTreeMap<u64, String>,
    /// Must be known to write.
    pub ro_compat: BTreeMap<u64, String>,
    /// Must be known to do anything.
    pub incompat: BTreeMap<u64, String>,
}

impl CompatSet {
    /// The features of Pacific's MDS: clients and tools print them, nothing of ours depends on them.
    pub fn mds_default() -> Self {
        let incompat = [
            (1, "base v0.20"),
            (2, "client writeable ranges"),
            (3, "default file layouts on dirs"),
            (4, "dir inode in separate object"),
            (5, "mds uses versioned encoding"),
            (6, "dirfrag is stored in omap"),
            (8, "no anchor table"),
            (9, "file layout v2"),
            (10, "snaprealm v2"),
        ];
        Self { incompat: incompat.map(|(n, name)| (n, name.to_owned())).into(), ..Self::default() }
    }

    fn sets(&self) -> [&BTreeMap<u64, String>; 3] {
        [&self.compat, &self.ro_compat, &self.incompat]
    }
}

impl Encode for CompatSet {
    fn encode(&self, w: &mut Writer) {
        for names in self.sets() {
            let mask = names.keys().filter(|n| **n < 64).fold(0u64, |mask, n| mask | 1 << n);
            w.put(&(mask & !1)); // bit 0 is set in memory and never on the wire
            w.put(names);
        }
    }
}

impl Decode for CompatSet {
    const MIN_SIZE: usize = 36;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut set = || {
            r.get::<u64>()?;
            r.get()
        };
        Ok(Self { compat: set()?, ro_compat: set()?, incompat: set()? })
    }
}

impl Sample for CompatSet {
    fn sample(rng: &mut Rng) -> Self {
        let mut set = || (0..rng.below(3)).map(|_| (rng.range(1, 64), String::sample(rng))).collect();
        Self { compat: set(), ro_compat: set(), incompat: set() }
    }
}

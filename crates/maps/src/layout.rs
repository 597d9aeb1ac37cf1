//! The striping of a file's bytes over objects.

use stdx::{ConstDefault, Rng};
use wire::{Decode, DecodeError, Encode, Reader, Sample, Writer};

wire::wire_structs! {
    /// `file_layout_t`.
    pub struct FileLayout[v 2/2] {
        /// Bytes that go to one object before the next takes over.
        pub stripe_unit: u32,
        /// Objects that take turns.
        pub stripe_count: u32,
        /// Bytes in one object.
        pub object_size: u32,
        /// Pool of the objects.
        pub pool: i64,
        /// Namespace of the objects.
        pub pool_ns: String,
    }
}

impl ConstDefault for FileLayout {
    fn const_default() -> &'static Self {
        const { &Self { stripe_unit: 0, stripe_count: 0, object_size: 0, pool: 0, pool_ns: String::new() } }
    }
}

impl FileLayout {
    /// Ceph's default: objects of 4 MiB, one after the other.
    pub fn new(pool: i64) -> Self {
        const OBJECT: u32 = 4 << 20;
        Self { stripe_unit: OBJECT, stripe_count: 1, object_size: OBJECT, pool, pool_ns: String::new() }
    }

    /// True if clients accept it: units of 64 KiB, objects of whole units, nothing 0.
    pub fn is_valid(&self) -> bool {
        const UNIT: u32 = 64 << 10;
        let whole = |n: u32, unit: u32| n > 0 && unit > 0 && n.is_multiple_of(unit);
        whole(self.stripe_unit, UNIT) && whole(self.object_size, self.stripe_unit) && self.stripe_count > 0
    }

    /// The layout as the value of Ceph's xattr, or one of its fields, named as `.pool`. `pool` is the name of
    /// its pool, empty if that is not known. `None` for a field that it does not have.
    pub fn text(&self, field: &str, pool: &str) -> Option<String> {
        let pool = || if pool.is_empty() { self.pool.to_string() } else { pool.to_owned() };
        Some(match field {
            "" => {
                let Self { stripe_unit, stripe_count, object_size, pool_ns, .. } = self;
                let ns =
                    if pool_ns.is_empty() { String::new() } else { format!(" pool_namespace={pool_ns}") };
                let pool = pool();
                format!(
                    "stripe_unit={stripe_unit} stripe_count={stripe_count} object_size={object_size} \
                     pool={pool}{ns}"
                )
            }
            ".stripe_unit" => self.stripe_unit.to_string(),
            ".stripe_count" => self.stripe_count.to_string(),
            ".object_size" => self.object_size.to_string(),
            ".pool" | ".pool_name" => pool(),
            ".pool_id" => self.pool.to_string(),
            ".pool_namespace" => self.pool_ns.clone(),
            _ => return None,
        })
    }
}

/// The layout in the file system's older messages: 7 x u32, without the namespace (`ceph_file_layout`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LegacyFileLayout {
    /// Bytes that go to one object before the next takes over.
    pub stripe_unit: u32,
    /// Objects that take turns.
    pub stripe_count: u32,
    /// Bytes in one object.
    pub object_size: u32,
    /// Pool of the objects.
    pub pool: u32,
}

impl From<&FileLayout> for LegacyFileLayout {
    fn from(l: &FileLayout) -> Self {
        // "No pool" is -1 in one form and 0 in the other.
        let pool = u32::try_from(l.pool).unwrap_or(0);
        Self { stripe_unit: l.stripe_unit, stripe_count: l.stripe_count, object_size: l.object_size, pool }
    }
}

impl LegacyFileLayout {
    /// The same layout with its namespace.
    pub fn with_ns(self, pool_ns: String) -> FileLayout {
        let pool = match (self.pool, self.stripe_unit) {
            (0, 0) => -1,
            (pool, _) => i64::from(pool),
        };
        FileLayout {
            stripe_unit: self.stripe_unit,
            stripe_count: self.stripe_count,
            object_size: self.object_size,
            pool,
            pool_ns,
        }
    }
}

impl Encode for LegacyFileLayout {
    fn encode(&self, w: &mut Writer) {
        let unused = 0;
        for word in [self.stripe_unit, self.stripe_count, self.object_size, unused, unused, unused, self.pool]
        {
            w.put(&word);
        }
    }
}

impl Decode for LegacyFileLayout {
    const MIN_SIZE: usize = 28;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (stripe_unit, stripe_count, object_size) = (r.get()?, r.get()?, r.get()?);
        r.take(12)?;
        Ok(Self { stripe_unit, stripe_count, object_size, pool: r.get()? })
    }
}

impl Sample for LegacyFileLayout {
    fn sample(rng: &mut Rng) -> Self {
        Self {
            stripe_unit: Sample::sample(rng),
            stripe_count: Sample::sample(rng),
            object_size: Sample::sample(rng),
            pool: Sample::sample(rng),
        }
    }
}

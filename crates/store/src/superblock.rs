//! The superblock: what the device is, and the root of its newest checkpoint. It lies in two places, fits one
//! sector and so is never torn.
//!
//! ```text
//! 0            8        12         16
//! | NACRESTO   | crc32c | length   | structure [v 2/2], zeros to 512
//! ```

use crate::alloc::ZONE;
use crate::config::{Identity, MkfsInfo};
use crate::page::Ptr;
use crate::table::Stats;
use crate::tree::Tree;
use stdx::{BLOCK, Buf, BufMut, Rng, crc32c};
use wire::{Reader, Uuid, Writer, wire_structs};

const MAGIC: &[u8; 8] = b"NACRESTO";
const SIZE: usize = 512;
/// The version of the structure; one less is the number of the format in `docs/format.md`.
const FORMAT: u8 = 2;
/// Bytes at which the copies lie.
pub(crate) const COPIES: [u64; 2] = [0, 128 << 10];
/// The log begins with the second zone.
const LOG_BLOCK: u64 = ZONE;
/// Smallest and largest log that is made unasked.
const LOG_BYTES: std::ops::RangeInclusive<u64> = (1 << 20)..=(64 << 20);
/// A device must have room for the log four times.
const LOG_SHARE: u64 = 4;

wire_structs! {
    pub(crate) struct Super[v 2/2] {
        /// The store's id.
        pub uuid: Uuid,
        /// Drawn when the store is made; marks its log records.
        pub salt: u64,
        /// The owner's label.
        pub label: Vec<u8>,
        /// Size of the device in blocks.
        pub blocks: u64,
        /// Size of the log in bytes.
        pub log_bytes: u64,
        /// Counts checkpoints.
        pub generation: u64,
        /// Root of the index; levels 0 if it is empty.
        pub root_block: u64,
        /// Its second block.
        pub root_second: u64,
        /// Its checksum.
        pub root_crc: u32,
        /// Levels of the index.
        pub levels: u8,
        /// Pages of the index.
        pub pages: u64,
        /// The position of the first log record that may be needed.
        pub log_pos: u64,
        /// Its number.
        pub log_seq: u64,
        /// Records before this number were durable: those from `log_seq` on must be there.
        pub log_durable: u64,
        /// True if the store was closed in order, and nothing was logged since.
        pub clean: bool,
        /// The last transaction that the index contains.
        pub applied: u64,
        /// The last id given to an object, omap or blob.
        pub next_id: u64,
        /// Objects.
        pub objects: u64,
        /// Sum of their sizes.
        pub data: u64,
        /// Bytes of omap keys and values.
        pub omap: u64,
        /// The largest omap that there has been, in bytes.
        pub largest_omap: u64,
        /// The largest object that there has been, in bytes.
        pub largest_data: u64,
    }
}

/// The content of a copy of the superblock.
pub(crate) enum Found {
    Valid(Box<Super>),
    Blank,
    Other(String),
}

impl Found {
    /// The superblock, if it is valid.
    pub fn valid(&self) -> Option<&Super> {
        if let Self::Valid(sup) = self { Some(sup) } else { None }
    }

    /// The description of other content, if it is no superblock.
    pub fn other(&self) -> Option<&str> {
        if let Self::Other(what) = self { Some(what) } else { None }
    }
}

/// The superblock of a running store, and the state of its two copies.
#[derive(Default)]
pub(crate) struct Supers {
    newest: Super,
    /// True if one copy on the device is older or damaged.
    behind: bool,
}

impl Supers {
    /// The newest superblock, in at least one copy.
    pub fn newest(&self) -> &Super {
        &self.newest
    }

    /// Takes over a superblock that both copies hold, or will hold before it matters.
    pub fn replace(&mut self, sup: Super) {
        self.adopt(sup, false);
    }

    /// Takes over the newest of two copies; `behind` if the other differs.
    pub fn adopt(&mut self, sup: Super, behind: bool) {
        (self.newest, self.behind) = (sup, behind);
    }

    /// Notes that the device has grown. Both copies are to be written.
    pub fn grow(&mut self, blocks: u64) {
        self.newest.blocks = blocks;
        self.newest.generation += 1;
    }

    /// True if no record may be logged: a copy says that the log is not needed, or needs what would be
    /// overwritten.
    pub fn forbid_log(&self) -> bool {
        self.newest.clean || self.behind
    }
}

impl Super {
    /// A new store on a device of `bytes`.
    pub fn make(info: &MkfsInfo, bytes: u64, log: Option<u64>, rng: &mut Rng) -> Result<Self, String> {
        if info.label.len() > MkfsInfo::LABEL_MAX {
            return Err(format!("a label of {} bytes", info.label.len()));
        }
        let zone = ZONE * BLOCK as u64;
        let log = log.unwrap_or((bytes / 32).clamp(*LOG_BYTES.start(), *LOG_BYTES.end()));
        let log_bytes = log.div_ceil(zone) * zone;
        if bytes < LOG_SHARE * log_bytes + zone {
            let least = LOG_SHARE * log_bytes + zone;
            return Err(format!("a device of {bytes} bytes is too small, {least} are the least"));
        }
        Ok(Self {
            uuid: info.uuid,
            salt: rng.u64(),
            label: info.label.clone(),
            blocks: bytes / BLOCK as u64,
            log_bytes,
            log_seq: 1,
            log_durable: 1,
            generation: 1,
            ..Self::default()
        })
    }

    pub fn identity(&self) -> Identity {
        Identity { uuid: self.uuid, label: self.label.clone() }
    }

    pub fn tree(&self) -> Tree {
        let root = (self.levels > 0).then_some(Ptr {
            block: self.root_block,
            second: self.root_second,
            crc: self.root_crc,
        });
        Tree { root, levels: self.levels, pages: self.pages, last_id: self.next_id }
    }

    pub fn stats(&self) -> Stats {
        Stats {
            objects: self.objects,
            data: self.data,
            omap: self.omap,
            largest_omap: self.largest_omap,
            largest_data: self.largest_data,
        }
    }

    /// Its fields by name, for people.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        vec![
            ("uuid", self.uuid.to_string()),
            ("label", String::from_utf8_lossy(&self.label).into_owned()),
            ("blocks", self.blocks.to_string()),
            ("log bytes", self.log_bytes.to_string()),
            ("generation", self.generation.to_string()),
            (
                "root",
                format!("blocks {} and {}, crc {:08x}", self.root_block, self.root_second, self.root_crc),
            ),
            ("levels", self.levels.to_string()),
            ("pages", self.pages.to_string()),
            ("log position", self.log_pos.to_string()),
            ("log record", self.log_seq.to_string()),
            ("log durable", self.log_durable.to_string()),
            ("clean", self.clean.to_string()),
            ("applied", self.applied.to_string()),
            ("next id", self.next_id.to_string()),
            ("objects", self.objects.to_string()),
            ("data bytes", self.data.to_string()),
            ("omap bytes", self.omap.to_string()),
        ]
    }

    /// Byte offset of the log.
    pub fn log_offset(&self) -> u64 {
        LOG_BLOCK * BLOCK as u64
    }

    /// The first block that is neither superblock nor log.
    pub fn first_block(&self) -> u64 {
        LOG_BLOCK + self.log_bytes / BLOCK as u64
    }

    pub fn encode_block(&self) -> Buf {
        let body = Writer::encode(self);
        assert!(16 + body.len() <= SIZE, "the superblock fits a sector");
        let mut block = BufMut::zeroed(BLOCK);
        let bytes = block.as_mut_slice();
        bytes[..8].copy_from_slice(MAGIC);
        bytes[12..16].copy_from_slice(&(body.len() as u32).to_le_bytes());
        bytes[16..16 + body.len()].copy_from_slice(&body);
        let crc = crc32c::update(!0, &bytes[..SIZE]);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        block.freeze()
    }

    pub fn parse(block: &[u8]) -> Found {
        if block.iter().all(|b| *b == 0) {
            return Found::Blank;
        }
        if block.len() < SIZE || !block.starts_with(MAGIC) {
            return Found::Other(format!("begins with {:02x?}", &block[..16.min(block.len())]));
        }
        let mut sector = block[..SIZE].to_vec();
        let crc = sector.splice(8..12, [0; 4]).rev().fold(0, |crc, byte| crc << 8 | u32::from(byte));
        if crc32c::update(!0, &sector) != crc {
            return Found::Other("a damaged superblock".to_owned());
        }
        if sector[16] < FORMAT {
            let old = sector[16] - 1;
            let text = "a store of format {old}, made by an earlier version of this program, which alone can read it";
            return Found::Other(text.replace("{old}", &old.to_string()));
        }
        if sector[17] > FORMAT {
            return Found::Other(format!("a store of format {}: {}", sector[17] - 1, wire::NEWER));
        }
        match Reader::new(&sector[12..]).sub().and_then(|mut r| r.get::<Self>()) {
            Ok(found) if found.is_sane() => Found::Valid(Box::new(found)),
            Ok(_) => Found::Other("a superblock with impossible sizes".to_owned()),
            Err(e) => Found::Other(format!("a superblock of another version: {e}")),
        }
    }

    fn is_sane(&self) -> bool {
        let zone = ZONE * BLOCK as u64;
        self.log_bytes.is_multiple_of(zone)
            && self.log_bytes > 0
            && self.log_bytes < 1 << 40
            && self.blocks > self.first_block()
            && self.blocks < 1 << 48
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_its_encoding_and_notices_damage() {
        let info = MkfsInfo { uuid: Uuid([7; 16]), label: vec![b'x'; MkfsInfo::LABEL_MAX] };
        let mut rng = Rng::from_seed(1);
        let made = Super::make(&info, 64 << 20, None, &mut rng).expect("large enough");
        let full = Super { generation: u64::MAX, data: u64::MAX, ..made };
        let block = full.encode_block();
        assert!(matches!(Super::parse(&block), Found::Valid(found) if *found == full));
        for at in 0..SIZE {
            let mut bytes = block.to_vec();
            bytes[at] ^= 1;
            assert!(matches!(Super::parse(&bytes), Found::Other(_)), "byte {at}");
        }
        assert!(matches!(Super::parse(&[0; BLOCK]), Found::Blank));
        for (version, oldest) in [(FORMAT + 1, FORMAT + 1), (FORMAT + 3, FORMAT + 1)] {
            let mut bytes = block.to_vec();
            bytes[16..18].copy_from_slice(&[version, oldest]);
            bytes[8..12].fill(0);
            let crc = crc32c::update(!0, &bytes[..SIZE]);
            bytes[8..12].copy_from_slice(&crc.to_le_bytes());
            let Found::Other(what) = Super::parse(&bytes) else { panic!("of a later version") };
            assert_eq!(what, format!("a store of format {FORMAT}: {}", wire::NEWER));
        }
        assert!(Super::make(&info, 1 << 20, None, &mut rng).is_err(), "too small");
    }
}

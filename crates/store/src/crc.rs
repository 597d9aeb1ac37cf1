//! Checksums of data blocks: raw crc32c, one for each 4 KiB block.

use stdx::{BLOCK, Buf, Bufs, crc32c};

/// The raw checksum of one block. The buffer caches it.
pub(crate) fn block_crc(content: &Buf) -> u32 {
    content.block_crcs().next().expect("a block").0
}

/// The raw checksum of each block.
pub(crate) fn block_crcs(data: &Bufs) -> Vec<u32> {
    let crc = |block: &Bufs| block.parts().iter().fold(0, |crc, part| crc32c::update(crc, part));
    match data.parts() {
        [one] => one.block_crcs().map(|(crc, _)| crc).collect(),
        _ => (0..data.len() / BLOCK).map(|i| crc(&data.slice(i * BLOCK..(i + 1) * BLOCK))).collect(),
    }
}

/// A checksum that the block does not have: a block merged with damaged data must stay damaged to its
/// readers.
pub(crate) fn poisoned(crc: u32) -> u32 {
    !crc
}

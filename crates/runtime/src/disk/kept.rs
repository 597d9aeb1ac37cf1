//! Blocks of a device in memory that the kernel takes back when it is short of it ([ADR
//! 0032](../../../../docs/adr/0032-free-memory-keeps-blocks.md)).
//!
//! The memory is marked `MADV_FREE` once it is filled: it stays as long as nobody needs it, and a page that
//! was taken reads as zeros. So blocks of zeros are not kept, and a block that is found to be one is gone.
//! What is found is copied before anybody looks at it. A page that is taken during the copy leaves a block
//! that is half zeros: whoever reads has to verify what it gets.

use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};
use stdx::{BLOCK, Buf, BufMut};

/// Places where a block may be.
const WAYS: usize = 8;
/// Blocks that follow each other on the device and in memory.
const GROUP: usize = 16;
const ZEROS: [u8; BLOCK] = [0; BLOCK];

/// What is kept of a device.
pub(super) struct Kept(Mutex<Slots>);

struct Slots {
    memory: Mapping,
    /// Number of the block in each slot, plus one; 0 if there is none.
    tags: Vec<u64>,
    /// For each group of slots, the way whose blocks are replaced next.
    hands: Vec<u8>,
}

impl Kept {
    /// Keeps at most `bytes`. None if the host can't do that, or where its pages are larger than our blocks:
    /// a page that the kernel takes has to be one block.
    pub fn new(bytes: u64) -> Option<Self> {
        let groups = usize::try_from(bytes).ok()? / (WAYS * GROUP * BLOCK);
        if groups == 0 || rustix::param::page_size() != BLOCK {
            return None;
        }
        let slots = groups * GROUP * WAYS;
        let mut memory = Mapping::new(slots * BLOCK)?;
        memory.release(0, GROUP).ok()?;
        Some(Self(Mutex::new(Slots { memory, tags: vec![0; slots], hands: vec![0; groups] })))
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes of whole blocks, if all of them are there.
    pub fn read(&self, offset: u64, len: usize) -> Option<Buf> {
        self.slots().read(offset, len)
    }

    /// Keeps blocks that were read.
    pub fn fill(&self, offset: u64, content: &[u8]) {
        self.slots().fill(offset, content, true);
    }

    /// Compares what is kept of these blocks with what the device has.
    pub fn correct(&self, offset: u64, content: &[u8]) {
        self.slots().fill(offset, content, false);
    }

    /// Forgets what changes.
    pub fn forget(&self, offset: u64, len: u64) {
        self.slots().forget(offset / BLOCK as u64, len / BLOCK as u64);
    }

    /// Does what the kernel does when it needs all of the memory.
    #[cfg(test)]
    fn take_all(&self) {
        self.slots().memory.take_all();
    }
}

impl Slots {
    /// The first slot of the group that a block belongs to, in the first way, and its place in the group.
    fn place(&self, block: u64) -> (usize, usize) {
        let group = block / GROUP as u64;
        // Fibonacci hashing: neighbours on the device are spread.
        let hash = group.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (hash as usize % self.hands.len(), block as usize % GROUP)
    }

    fn slot(&self, way: usize, (group, at): (usize, usize)) -> usize {
        (way * self.hands.len() + group) * GROUP + at
    }

    fn find(&self, block: u64) -> Option<usize> {
        let place = self.place(block);
        (0..WAYS).map(|way| self.slot(way, place)).find(|slot| self.tags[*slot] == block + 1)
    }

    fn read(&mut self, offset: u64, len: usize) -> Option<Buf> {
        let first = offset / BLOCK as u64;
        let slots: Option<Vec<usize>> = (0..(len / BLOCK) as u64).map(|i| self.find(first + i)).collect();
        let slots = slots?;
        let mut out = BufMut::uncleared(len);
        for (slot, out) in slots.into_iter().zip(out.as_mut_slice().chunks_exact_mut(BLOCK)) {
            self.memory.read(slot, out);
            if *out == ZEROS {
                self.tags[slot] = 0;
                return None;
            }
        }
        Some(out.freeze())
    }

    /// Replaces what is there of these blocks, and adds the others if so wanted.
    fn fill(&mut self, offset: u64, content: &[u8], adds: bool) {
        let first = offset / BLOCK as u64;
        let mut filled = Run::default();
        for (i, content) in content.chunks_exact(BLOCK).enumerate() {
            let block = first + i as u64;
            let found = self.find(block);
            if content == ZEROS {
                found.into_iter().for_each(|slot| self.tags[slot] = 0);
                continue;
            }
            let slot = match found {
                Some(slot) if !adds && self.memory.holds(slot, content) => continue,
                Some(slot) => slot,
                None if adds => self.choose(block),
                None => continue,
            };
            self.memory.write(slot, content);
            self.tags[slot] = block + 1;
            filled.add(slot, &mut self.memory);
        }
        filled.end(&mut self.memory);
    }

    /// A slot for a block that is in none: an empty one, or the next whose content is replaced.
    fn choose(&mut self, block: u64) -> usize {
        let place = self.place(block);
        let empty = (0..WAYS).map(|way| self.slot(way, place)).find(|slot| self.tags[*slot] == 0);
        empty.unwrap_or_else(|| {
            let hand = usize::from(self.hands[place.0]);
            if place.1 == GROUP - 1 {
                self.hands[place.0] = ((hand + 1) % WAYS) as u8;
            }
            self.slot(hand, place)
        })
    }

    fn forget(&mut self, first: u64, count: u64) {
        if count as usize > self.tags.len() {
            let gone = first + 1..first + 1 + count;
            self.tags.iter_mut().filter(|tag| gone.contains(tag)).for_each(|tag| *tag = 0);
            return;
        }
        for block in first..first + count {
            if let Some(slot) = self.find(block) {
                self.tags[slot] = 0;
            }
        }
    }
}

/// Slots that were filled one after another, to be released at once.
#[derive(Default)]
struct Run {
    first: usize,
    count: usize,
}

impl Run {
    fn add(&mut self, slot: usize, memory: &mut Mapping) {
        if self.count > 0 && self.first + self.count == slot {
            self.count += 1;
            return;
        }
        std::mem::replace(self, Self { first: slot, count: 1 }).end(memory);
    }

    fn end(self, memory: &mut Mapping) {
        if self.count > 0 {
            // It was possible for the first pages. If it is not any more they stay.
            let _ = memory.release(self.first, self.count);
        }
    }
}

/// Anonymous memory of this process, in slots of a block.
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory belongs to the mapping alone, and is only reached through `&self` and `&mut self`.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(len: usize) -> Option<Self> {
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        // SAFETY: new memory at an address that the kernel chooses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        let mapping = Self { start: NonNull::new(start.cast())?, len };
        // Huge pages would be split before a part of them can be taken. A host without them refuses.
        // SAFETY: the range is that of the mapping.
        let _ = unsafe { libc::madvise(start, len, libc::MADV_NOHUGEPAGE) };
        // SAFETY: as above.
        let _ = unsafe { libc::madvise(start, len, libc::MADV_DONTDUMP) };
        Some(mapping)
    }

    /// The address of `count` slots from `first` on.
    fn slots(&self, first: usize, count: usize) -> *mut u8 {
        assert!((first + count) * BLOCK <= self.len, "slots of the mapping");
        // SAFETY: the range is inside the mapping.
        unsafe { self.start.as_ptr().add(first * BLOCK) }
    }

    fn read(&self, slot: usize, out: &mut [u8]) {
        let from = self.slots(slot, 1);
        let len = out.len().min(BLOCK);
        // SAFETY: `from` has a block, and `out` is memory of its own. The kernel may replace the page by one
        // of zeros meanwhile, and any bytes are valid.
        unsafe { std::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), len) };
    }

    fn holds(&self, slot: usize, content: &[u8]) -> bool {
        let mut found = ZEROS;
        self.read(slot, &mut found);
        found == content
    }

    fn write(&mut self, slot: usize, content: &[u8]) {
        let to = self.slots(slot, 1);
        let len = content.len().min(BLOCK);
        // SAFETY: `to` has a block, and nobody else has a reference to it.
        unsafe { std::ptr::copy_nonoverlapping(content.as_ptr(), to, len) };
    }

    /// Lets the kernel take slots until they are written again.
    fn release(&mut self, first: usize, count: usize) -> std::io::Result<()> {
        self.advise(first, count, libc::MADV_FREE)
    }

    fn advise(&mut self, first: usize, count: usize, advice: libc::c_int) -> std::io::Result<()> {
        let at = self.slots(first, count);
        // SAFETY: the range is inside the mapping, whose content may become zeros at any time.
        match unsafe { libc::madvise(at.cast(), count * BLOCK, advice) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    }

    #[cfg(test)]
    fn take_all(&mut self) {
        self.advise(0, self.len / BLOCK, libc::MADV_DONTNEED).expect("the kernel takes it");
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: nobody has references to the mapping, which is unmapped once.
        let _ = unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use stdx::Rng;

    const GROUP_BYTES: usize = GROUP * BLOCK;

    fn kept(groups: usize) -> Kept {
        Kept::new((groups * WAYS * GROUP_BYTES) as u64).expect("this host has pages of 4 KiB")
    }

    fn at(block: u64) -> u64 {
        block * BLOCK as u64
    }

    #[test]
    fn blocks_are_there_until_the_kernel_takes_them() {
        let kept = kept(4);
        let content = Buf::pattern(5, 20 * BLOCK);
        kept.fill(at(7), &content);
        assert_eq!(kept.read(at(7), 20 * BLOCK), Some(content.clone()));
        assert_eq!(kept.read(at(9), BLOCK), Some(content.slice(2 * BLOCK..3 * BLOCK)));
        assert_eq!(kept.read(at(6), 2 * BLOCK), None, "not all of it");
        kept.forget(at(9), at(1));
        assert_eq!(kept.read(at(7), 20 * BLOCK), None);
        assert_eq!(kept.read(at(10), BLOCK), Some(content.slice(3 * BLOCK..4 * BLOCK)));
        kept.take_all();
        assert_eq!(kept.read(at(10), BLOCK), None, "it was taken");
        kept.fill(at(10), &content.slice(0..BLOCK));
        assert_eq!(kept.read(at(10), BLOCK), Some(content.slice(0..BLOCK)), "the place is used again");
    }

    #[test]
    fn what_the_device_has_corrects_what_is_kept_and_adds_nothing() {
        let kept = kept(4);
        kept.fill(at(0), &Buf::pattern(1, 2 * BLOCK));
        let now = Buf::pattern(2, 3 * BLOCK);
        kept.correct(at(1), &now);
        assert_eq!(kept.read(at(1), BLOCK), Some(now.slice(0..BLOCK)));
        assert_eq!(kept.read(at(2), BLOCK), None);
        kept.correct(at(1), &ZEROS);
        assert_eq!(kept.read(at(1), BLOCK), None);
    }

    #[test]
    fn as_much_is_kept_as_there_is_room_for() {
        let kept = kept(8);
        let slots = 8 * WAYS * GROUP;
        let content = Buf::pattern(3, GROUP_BYTES);
        for group in 0..80 {
            kept.fill(at(group * GROUP as u64), &content);
        }
        let found = (0..80 * GROUP as u64).filter(|block| kept.read(at(*block), BLOCK).is_some()).count();
        assert!((slots / 2..=slots).contains(&found), "{found} of {slots}");
        kept.forget(0, at(1 << 20));
        assert!((0..80).all(|group| kept.read(at(group * GROUP as u64), BLOCK).is_none()));
    }

    #[test]
    fn what_is_found_is_what_was_written_last() {
        let kept = kept(3);
        let (mut rng, mut hits) = (Rng::from_seed(3), 0);
        let mut device: BTreeMap<u64, (u64, bool)> = (0..410).map(|b| (b, (0, false))).collect();
        for version in 1..6_000 {
            let (block, count) = (rng.below(400), 1 + rng.below(8));
            let blocks = block..block + count;
            match rng.below(4) {
                0 => {
                    device.extend(blocks.map(|b| (b, (version, rng.chance(1, 9)))));
                    kept.forget(at(block), at(count));
                }
                _ => {
                    let content = |b: u64| match device.get(&b) {
                        Some((version, false)) => Buf::pattern(version * 1000 + b, BLOCK),
                        _ => Buf::zeros(BLOCK),
                    };
                    let there: Vec<u8> = blocks.flat_map(|b| content(b).to_vec()).collect();
                    match kept.read(at(block), there.len()) {
                        Some(found) => {
                            hits += 1;
                            assert!(found[..] == there[..], "{count} blocks from {block}");
                        }
                        None => kept.fill(at(block), &there),
                    }
                }
            }
        }
        assert!(hits > 500, "{hits}");
    }
}

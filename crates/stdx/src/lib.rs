//! Base types that every layer uses: time in nanoseconds, seeded randomness, bulk buffers that carry
//! their checksums, byte reservations. Nothing here reads a clock, draws entropy or does I/O.

mod block;
mod buf;
mod bufs;
pub mod civil;
pub mod crc32c;
mod id;
mod map;
mod memory;
pub mod mutants;
mod pages;
mod rare;
mod reserve;
mod rng;
mod seeds;
mod sorted;
mod time;

pub use block::BLOCK;
pub use buf::{Buf, BufMut};
pub use bufs::Bufs;
pub use map::{FastMap, FastSet, FoldHasher};
pub use memory::release_unused;
pub use rare::{ConstDefault, Rare, Shared};
pub use reserve::{Budget, Hold, Reservation};
pub use rng::Rng;
pub use seeds::test_seeds;
pub use sorted::SortedMap;
pub use time::{Instant, Now, Wall};

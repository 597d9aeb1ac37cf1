//! The record of a PG's scrubs, which all its members keep.

use maps::EVersion;
use wire::{Utime, wire_structs};

wire_structs! {
    /// Result of a PG's scrubs. All members have it; the later of two is right.
    #[derive(Eq)]
    pub struct Record[v 1/1] {
        /// The end of the last scrub of either kind.
        pub last: Utime,
        /// The newest update then.
        pub last_version: EVersion,
        /// The end of the last deep scrub.
        pub last_deep: Utime,
        /// The newest update then.
        pub last_deep_version: EVersion,
        /// The end of the last one that found nothing, or mended all that it found.
        pub last_clean: Utime,
        /// Errors that are left, of those that a light scrub sees.
        pub shallow_errors: u32,
        /// Errors that only a deep scrub sees.
        pub deep_errors: u32,
        /// Objects that were mended since the PG was made.
        pub repaired: u64,
        /// The last repair that was ordered has left errors.
        pub failed_repair: bool,
    }
}

impl Record {
    /// Of a PG that has become one with another: what holds of both.
    pub fn join(&mut self, other: &Self) {
        self.last = self.last.min(other.last);
        self.last_deep = self.last_deep.min(other.last_deep);
        self.last_clean = self.last_clean.min(other.last_clean);
        self.last_version = self.last_version.min(other.last_version);
        self.last_deep_version = self.last_deep_version.min(other.last_deep_version);
        self.shallow_errors += other.shallow_errors;
        self.deep_errors += other.deep_errors;
        self.repaired += other.repaired;
        self.failed_repair |= other.failed_repair;
    }

    /// Errors that are left.
    pub fn errors(&self) -> u32 {
        self.shallow_errors + self.deep_errors
    }
}

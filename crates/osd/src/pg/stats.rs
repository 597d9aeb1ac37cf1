//! The reports of a PG to the monitors: which one is due, and its number.

/// Marks a PG that must be reported, and counts its reports.
///
/// Invariant: a change stays marked until a report is made; each report has a higher number than the one
/// before.
#[derive(Debug)]
pub struct Stats {
    changed: bool,
    reported: u64,
    /// Objects and bytes that recovery has brought to where they lacked, as far as this copy led it.
    recovered: (u64, u64),
}

impl Default for Stats {
    /// Nothing has been reported.
    fn default() -> Self {
        Self { changed: true, reported: 0, recovered: (0, 0) }
    }
}

impl Stats {
    /// The PG has changed since it was last reported, or the report may be lost.
    pub fn mark_changed(&mut self) {
        self.changed = true;
    }

    /// Takes the mark that the PG has changed.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Data of an object that lacked somewhere has come there.
    pub fn data_recovered(&mut self, bytes: u64) {
        self.recovered.1 += bytes;
    }

    /// An object that lacked somewhere is whole there.
    pub fn object_recovered(&mut self) {
        self.recovered.0 += 1;
        self.changed = true;
    }

    /// Objects and bytes that were recovered.
    pub fn recovered(&self) -> (u64, u64) {
        self.recovered
    }

    /// The number of the next report.
    pub fn next_report(&mut self) -> u64 {
        self.reported += 1;
        self.reported
    }
}

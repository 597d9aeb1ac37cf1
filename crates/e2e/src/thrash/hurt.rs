//! The faults that the thrasher injects into a cluster.

use stdx::Rng;

/// One thing that is done to the cluster, and undone later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Hurt {
    /// `kill -9`, started again later.
    Kill(u32),
    /// SIGSTOP, and SIGCONT later.
    Pause(u32),
    /// Its host's link is cut.
    Cut(u32),
    /// Marked out.
    Out(u32),
    /// A weight between 0.3 and 1, in hundredths.
    Reweight(u32, u64),
    /// Killed, destroyed, and made again at once with an empty store.
    Recreate(u32),
    /// A monitor is killed.
    KillMon(String),
    /// Nothing: all is mended, and recovery ends.
    Rest,
    /// A pool gets twice as many PGs.
    Split(&'static str),
    /// A bit of a stopped OSD's device changes.
    Flip(u32),
}

impl Hurt {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Kill(_) => "kill -9",
            Self::Pause(_) => "SIGSTOP",
            Self::Cut(_) => "cut",
            Self::Out(_) => "out",
            Self::Reweight(..) => "reweight",
            Self::Recreate(_) => "store made anew",
            Self::KillMon(_) => "monitor killed",
            Self::Rest => "rest",
            Self::Split(_) => "split",
            Self::Flip(_) => "bit flipped",
        }
    }

    /// The OSD that it is about.
    pub(super) fn osd(&self) -> Option<u32> {
        match self {
            Self::Kill(osd) | Self::Pause(osd) | Self::Cut(osd) | Self::Out(osd) => Some(*osd),
            Self::Reweight(osd, _) | Self::Recreate(osd) | Self::Flip(osd) => Some(*osd),
            Self::KillMon(_) | Self::Rest | Self::Split(_) => None,
        }
    }

    /// The OSD that it takes away.
    pub(super) fn away(&self) -> Option<u32> {
        match self {
            Self::Kill(osd) | Self::Pause(osd) | Self::Cut(osd) | Self::Flip(osd) => Some(*osd),
            _ => None,
        }
    }

    /// True if it takes a copy for good, or waits for the others' sake.
    pub(super) fn needs_clean(&self) -> bool {
        matches!(self, Self::Recreate(_) | Self::Flip(_) | Self::Rest)
    }

    /// Duration of the fault, in milliseconds.
    pub(super) fn lasts_ms(&self, rng: &mut Rng) -> u64 {
        match self {
            Self::Kill(_) | Self::KillMon(_) | Self::Flip(_) => rng.below(12_000),
            // Some are over before anybody is marked down.
            Self::Pause(_) | Self::Cut(_) => 200 + rng.below(15_000),
            Self::Out(_) | Self::Reweight(..) => 2000 + rng.below(20_000),
            Self::Recreate(_) | Self::Rest | Self::Split(_) => 0,
        }
    }
}

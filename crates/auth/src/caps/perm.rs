//! Permissions as a set: `rwx` in any selection.

/// Read, write and execute, as a set.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Perm(u8);

impl Perm {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Read.
    pub const R: Self = Self(1);
    /// Write.
    pub const W: Self = Self(2);
    /// Execute: at a monitor commands that change authentication, at an OSD class methods that read or write.
    pub const X: Self = Self(4 | 8 | 16);
    /// Read and write.
    pub const RW: Self = Self(3);
    /// Class methods that read.
    pub const CLASS_READ: Self = Self(8);
    /// Class methods that write.
    pub const CLASS_WRITE: Self = Self(16);
    /// Everything, also what has no letter.
    pub const ALL: Self = Self(0xff);

    /// True if all of `other` is in it.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What a command needs whose declaration says so: `r`, `rw`, `rx` or `rwx`. Other letters need all.
    pub fn of_command(letters: &str) -> Self {
        Self::parse(letters).unwrap_or(Self::ALL)
    }

    /// `rwx` in any selection, `*` or `all`.
    pub(super) fn parse(word: &str) -> Option<Self> {
        if word == "*" || word == "all" {
            return Some(Self::ALL);
        }
        let letter = |p: Option<Self>, c| match c {
            'r' => Some(p?.and(Self::R)),
            'w' => Some(p?.and(Self::W)),
            'x' => Some(p?.and(Self::X)),
            _ => None,
        };
        word.chars().fold(Some(Self::NONE), letter).filter(|p| *p != Self::NONE)
    }
}

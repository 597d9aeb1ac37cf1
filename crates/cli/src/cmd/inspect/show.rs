//! What each of the commands about a file system is given.

use super::printer::Printer;
use super::stored::Objects;

/// The file system, and where to print.
pub(super) struct Show<'a> {
    /// Its metadata.
    pub objects: &'a dyn Objects,
    /// The rank whose journal and tables are meant.
    pub rank: u32,
    /// The output.
    pub printer: Printer<'a>,
}

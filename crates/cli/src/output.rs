//! Lines for people. A command that changes a cluster, and above all one that runs its daemons, must not end
//! because nobody reads what it prints: `println!` panics then.

use std::fmt::Arguments;
use std::io::Write;

/// Prints a line on standard output, if it has a reader.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::to_output(format_args!($($text)*)) };
}

/// Prints a line on standard error, if it has a reader.
macro_rules! complain {
    ($($text:tt)*) => { $crate::output::to_error(format_args!($($text)*)) };
}

pub(crate) fn to_output(line: Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    // Without a reader there is nobody to tell.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

pub(crate) fn to_error(line: Arguments<'_>) {
    // The same.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

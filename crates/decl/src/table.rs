//! The form of a table of commands: one line a command, from which come clients' help and validation, the
//! permission check and an exhaustive dispatch.

use crate::sig::{Word, parse};

/// The declaration of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command {
    /// Prefix and arguments, in the notation of [`crate::sig`].
    pub signature: &'static str,
    /// The service whose capability it needs.
    pub module: &'static str,
    /// `r`, `rw`, `rx`, `rwx`.
    pub perm: &'static str,
    /// True for old spellings, which help does not show.
    pub hidden: bool,
    /// One line for people.
    pub help: &'static str,
}

impl Command {
    /// The words before the first argument.
    pub fn prefix(&self) -> String {
        crate::sig::prefix(self.signature)
    }

    /// The line that reminds of the arguments.
    pub fn usage(&self) -> String {
        let mut out = Vec::new();
        for word in parse(self.signature) {
            out.push(match word {
                Word::Literal(text) => text.to_owned(),
                Word::Param(p) if p.optional => format!("[<{}>]", p.name),
                Word::Param(p) => format!("<{}>", p.name),
            });
        }
        out.join(" ")
    }
}

macro_rules! command_table {
    ($( #[$doc:meta] )* $table:ident { $(
        $name:ident = $module:literal $perm:literal $signature:literal $help:literal $(, $hidden:ident)?;
    )* }) => {
        $( #[$doc] )*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum $table { $( #[doc = $help] $name ),* }

        impl $table {
            /// All commands, in order of declaration.
            pub const ALL: &'static [Self] = &[ $( Self::$name ),* ];

            /// Declaration of the command.
            pub fn decl(self) -> &'static $crate::Command {
                match self { $( Self::$name => &$crate::Command {
                    signature: $signature,
                    module: $module,
                    perm: $perm,
                    hidden: $crate::table::command_table!(@hidden $($hidden)?),
                    help: $help,
                } ),* }
            }

            /// The words before the first argument.
            pub fn prefix(self) -> String {
                self.decl().prefix()
            }

            /// The line that reminds of the arguments.
            pub fn usage(self) -> String {
                self.decl().usage()
            }
        }
    };
    (@hidden) => { false };
    (@hidden hidden) => { true };
}

pub(crate) use command_table;

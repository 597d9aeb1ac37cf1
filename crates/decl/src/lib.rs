//! Options, commands and health codes: each declared once, with everything that is said of it anywhere
//! (validation, help, defaults, what to do).
//!
//! Entry points: [`commands::Cmd`], [`manager::MgrCmd`] and [`args::Args`] (an administrator's command line,
//! checked), [`options`] (names, types and defaults), [`health::Code`].

pub mod args;
pub mod commands;
mod conf;
pub mod describe;
pub mod health;
pub mod manager;
pub mod options;
pub mod perf;
pub mod settings;
pub mod sig;
mod table;

pub use args::{ArgError, Args};
pub use commands::Cmd;
pub use conf::{Conf, ConfError, MON_PORT, parse_host};
pub use health::{Code, Severity};
pub use manager::MgrCmd;
pub use options::{OptionDecl, OptionType};
pub use perf::Mean;
pub use settings::Settings;
pub use table::Command;

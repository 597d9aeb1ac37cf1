//! Options, commands, events and health codes, each declared once.

mod conf;

pub use conf::{Conf, ConfError, MON_PORT};

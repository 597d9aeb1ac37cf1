//! Options, commands, events and health codes, each declared once.

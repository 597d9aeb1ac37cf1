//! A msgr2.1 connection as a state machine.

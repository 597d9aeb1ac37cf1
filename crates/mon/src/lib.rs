//! The monitor role.

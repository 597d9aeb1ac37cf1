//! The metadata server role.

//! The file system client role.

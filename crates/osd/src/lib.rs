//! The object storage daemon role.

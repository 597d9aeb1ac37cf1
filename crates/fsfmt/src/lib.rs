//! The stored formats of the metadata server.

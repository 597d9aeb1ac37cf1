//! The kernel's FUSE requests, served by the client.

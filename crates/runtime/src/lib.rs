//! Sockets, files, clocks, threads and entropy.

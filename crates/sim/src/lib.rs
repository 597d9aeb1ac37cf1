//! A whole cluster in one thread: network, disks, clock, crashes, checkers.

//! Messages between our own daemons.

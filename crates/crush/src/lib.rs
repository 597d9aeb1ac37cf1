//! CRUSH placement: pure functions of a map and a key.

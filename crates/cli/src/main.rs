//! `nacre`: one binary that starts clusters, runs daemons and is their tool.

fn main() {}

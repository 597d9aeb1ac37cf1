//! The library that programs link: Cluster, Pool, Fs.

//! The cluster maps: MonMap, OsdMap, FsMap, MdsMap and what they consist of.

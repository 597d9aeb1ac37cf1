//! Structures of object classes that clients and OSDs both need: inputs and outputs of methods, numbers.

pub mod lock;
pub mod rbd;

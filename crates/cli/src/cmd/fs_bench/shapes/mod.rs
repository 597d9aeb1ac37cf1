//! The shapes of load, a file each.

mod fio;
mod ior;
mod iozone;
mod mdtest;

use super::args::Shape;
use super::round::Round;
use anyhow::Result;

/// Measures a round of one shape.
pub(super) fn measure(shape: Shape, round: &mut Round<'_>) -> Result<()> {
    match shape {
        Shape::Mdtest => mdtest::measure(round),
        Shape::Fio => fio::measure(round),
        Shape::IorShared => ior::shared(round),
        Shape::IorEach => ior::each(round),
        Shape::Iozone => iozone::measure(round),
        Shape::All => Shape::EACH.into_iter().try_for_each(|shape| measure(shape, round)),
    }
}

/// The number of phases of a shape.
pub(super) fn phases(shape: Shape, size: u64) -> u64 {
    match shape {
        Shape::Mdtest => mdtest::PHASES,
        Shape::Fio => fio::PHASES,
        Shape::IorShared => ior::PHASES_SHARED,
        Shape::IorEach => ior::PHASES_EACH,
        Shape::Iozone => iozone::phases(size),
        Shape::All => Shape::EACH.into_iter().map(|shape| phases(shape, size)).sum(),
    }
}

//! The layers of an image: itself, or a snapshot of it, and the snapshots that it shows where it has no data.

use crate::call::{Answer, Call, ObjectCall};
use crate::error::Error;
use crate::format::{ParentSpec, feature};
use crate::header::{self, Header};
use crate::script::{Cx, Flow};
use maps::SnapId;
use msgs::{Extent, Op};
use std::sync::Arc;
use stdx::{Buf, Bufs};
use striper::{Piece, assemble};
use wire::Errno;

/// The most parents on top of each other.
const MAX_DEPTH: usize = 64;

/// An image or a snapshot, as it is read.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    pub(crate) header: Arc<Header>,
    pub(crate) snap: SnapId,
    pub(crate) size: u64,
    /// Bytes that it shares with the parent.
    pub(crate) overlap: u64,
    pub(crate) parent: Option<Arc<Layer>>,
}

impl Layer {
    /// The image itself, or a snapshot of it.
    pub(crate) fn of(header: Arc<Header>, snap: SnapId, parent: Option<Arc<Self>>) -> Result<Self, Error> {
        let (size, overlap) = if snap == SnapId::HEAD {
            (header.size, header.overlap)
        } else {
            let gone = || Error::new(Errno::ENOENT, "the snapshot has been removed");
            let found = header.snaps.iter().find(|s| s.id() == snap).ok_or_else(gone)?;
            (found.info.image_size, found.overlap)
        };
        let overlap = overlap.unwrap_or(0);
        let parent = parent.filter(|_| overlap > 0);
        Ok(Self { header, snap, size, overlap: if parent.is_some() { overlap } else { 0 }, parent })
    }

    /// The ranges of the image that an object has in common with the parent, in the object's order.
    pub(crate) fn shared_extents(&self, object: u64) -> Vec<(u64, u64)> {
        let striper = &self.header.striper;
        let unit = striper.stripe_unit();
        let mut extents: Vec<(u64, u64)> = Vec::new();
        for at in (0..striper.object_len(object, self.overlap)).step_by(unit as usize) {
            let offset = striper.file_offset(object, at);
            let len = unit.min(self.overlap - offset);
            match extents.last_mut() {
                Some((from, bytes)) if *from + *bytes == offset => *bytes += len,
                _ => extents.push((offset, len)),
            }
        }
        extents
    }
}

/// Opens the snapshot that an image is a clone of, and its parents.
pub(crate) fn open_parent(cx: &mut Cx<'_>, spec: &ParentSpec, depth: usize) -> Flow<Arc<Layer>> {
    if depth > MAX_DEPTH {
        let text = format!("the image has more than {MAX_DEPTH} parents: flatten it with `rbd flatten`");
        return Err(Error::new(Errno::ELOOP, text).into());
    }
    let header = header::load(cx, &spec.place(), &spec.image)?;
    let unknown = header.features & !feature::READABLE;
    if unknown != 0 {
        return Err(refused("the parent", unknown).into());
    }
    let header = Arc::new(header);
    let layer = Layer::of(header.clone(), SnapId(spec.snap), None)?;
    let parent = match &header.parent {
        Some(spec) if layer.size > 0 => Some(open_parent(cx, spec, depth + 1)?),
        _ => None,
    };
    Ok(Arc::new(Layer::of(header, SnapId(spec.snap), parent)?))
}

/// The error about features that are not supported.
pub(crate) fn refused(whose: &str, features: u64) -> Error {
    let names = feature::names(features).join(", ");
    let help = if features & (feature::JOURNALING | feature::NON_PRIMARY) != 0 {
        "disable it with `rbd feature disable IMAGE journaling`, or map a snapshot"
    } else if features & feature::MIGRATING != 0 {
        "end the migration with `rbd migration commit` or `rbd migration abort`"
    } else {
        "use the client that enabled it"
    };
    Error::new(Errno::EOPNOTSUPP, format!("{whose} has features that are not supported ({names}): {help}"))
}

/// Reads ranges of a layer; what is beyond its end reads as zeros.
pub(crate) fn read(cx: &mut Cx<'_>, layer: &Layer, extents: &[(u64, u64)]) -> Flow<Vec<Bufs>> {
    let inside = |&(off, len): &(u64, u64)| len.min(layer.size.saturating_sub(off));
    let cut = |extent: &(u64, u64)| layer.header.striper.pieces(extent.0, inside(extent));
    let pieces: Vec<Vec<Piece>> = extents.iter().map(cut).collect();
    let header = &layer.header;
    let answers = cx.all(|| {
        let read = |piece: &Piece| {
            let op = Op::Read(Extent::new(piece.offset, piece.len));
            let object = header.data_object(piece.object_no);
            Call::Object(ObjectCall::new(&header.data, object, vec![op]).at(layer.snap))
        };
        pieces.iter().flatten().map(read).collect()
    })?;
    let mut absent = Vec::new();
    for (piece, answer) in pieces.iter().flatten().zip(answers) {
        match answer.result() {
            Ok(()) => {}
            Err(Errno::ENOENT) => absent.push(piece),
            Err(errno) => return Err(read_error(header, piece, errno).into()),
        }
    }
    let of_parent = match &layer.parent {
        Some(parent) if !absent.is_empty() => {
            // Only now, as the ranges are known by what is absent.
            let wanted = shared_parts(layer, extents, &pieces, answers);
            read(cx, parent, &wanted)?
        }
        _ => Vec::new(),
    };
    let mut of_parent = of_parent.into_iter();
    let mut out = Vec::new();
    let mut answers = answers.iter();
    for (extent, pieces) in extents.iter().zip(&pieces) {
        let reads: Vec<Bufs> = pieces
            .iter()
            .zip(&mut answers)
            .map(|(piece, answer)| match answer.result() {
                Ok(()) => answer.output(0),
                Err(_) => fill(layer, extent.0, piece, &mut of_parent),
            })
            .collect();
        let mut data = assemble(pieces, &reads, inside(extent));
        if inside(extent) < extent.1 {
            data.push(Buf::zeros((extent.1 - inside(extent)) as usize));
        }
        out.push(data);
    }
    Ok(out)
}

fn read_error(header: &Header, piece: &Piece, errno: Errno) -> Error {
    let name = String::from_utf8_lossy(&header.data_object(piece.object_no)).into_owned();
    Error::of(errno, &format!("cannot read the object {name}"))
}

/// The bytes of a part of a piece that the parent has.
fn shared(layer: &Layer, offset: u64, len: u64) -> u64 {
    len.min(layer.overlap.saturating_sub(offset))
}

/// The parts of absent pieces, as ranges of the parent.
fn shared_parts(
    layer: &Layer,
    extents: &[(u64, u64)],
    pieces: &[Vec<Piece>],
    answers: &[Answer],
) -> Vec<(u64, u64)> {
    let mut answers = answers.iter();
    let mut out = Vec::new();
    for ((from, _), pieces) in extents.iter().zip(pieces) {
        for (piece, answer) in pieces.iter().zip(&mut answers) {
            let parts = if answer.result().is_ok() { &[][..] } else { &piece.parts[..] };
            let parts = parts.iter().map(|(at, len)| (from + at, shared(layer, from + at, *len)));
            out.extend(parts.filter(|(_, len)| *len > 0));
        }
    }
    out
}

/// The data of an absent piece: the parent's, which come in the order of [`shared_parts`], and zeros.
fn fill(layer: &Layer, from: u64, piece: &Piece, parent: &mut impl Iterator<Item = Bufs>) -> Bufs {
    let mut out = Bufs::new();
    for (at, len) in &piece.parts {
        let have = shared(layer, from + at, *len);
        if have > 0 {
            out.append(parent.next().unwrap_or_default());
        }
        if have < *len {
            out.push(Buf::zeros((len - have) as usize));
        }
    }
    out
}

//! Images of format 1: a header object (`NAME.rbd`, Ceph's `rbd_obj_header_ondisk`) that clients read
//! themselves.
//!
//! ```text
//!  0          40             80          88        96            100   104          112
//! +----------+--------------+-----------+---------+-------------+-----+------------+-------+-------+
//! | text, 0  | not used     | u64 image | u64     | u32         | -   | u64 bytes  | snaps | names |
//! |          | here         | size      | seq     | snap count  |     | of names   |       |       |
//! +----------+--------------+-----------+---------+-------------+-----+------------+-------+-------+
//! ```
//! A snapshot is two u64, its id and its size; the newest is the first. Its name ends with a zero.

use super::snap::SNAP_LIMIT;
use crate::cls::class::{MethodResult, done, fail};
use crate::cls::object::{MethodStop, Object};
use crate::cls::stored::{self, Input};
use wire::{Errno, Reader, Writer};

/// Bytes before the snapshots.
const FIXED: usize = 112;
/// Bytes of a snapshot.
const SNAP: usize = 16;
/// Offsets.
const IMAGE_SIZE: usize = 80;
const SNAP_SEQ: usize = 88;

/// What the header begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Text {
    Usual,
    /// Clients that do not know migrations must not open the image.
    Migrating,
}

impl Text {
    const fn bytes(self) -> &'static [u8; 34] {
        match self {
            Self::Usual => b"<<< Rados Block Device Image >>>\n\0",
            Self::Migrating => b"<<< Migrating RBD Image      >>>\n\0",
        }
    }
}

/// The text of the header. ENXIO if it is none.
pub(super) fn text(o: &mut Object<'_, '_>) -> Result<Text, MethodStop> {
    let found = o.read(0, Text::Usual.bytes().len() as u64)?.to_vec();
    let all = [Text::Usual, Text::Migrating];
    all.into_iter().find(|text| text.bytes()[..] == found).ok_or(MethodStop::Fail(Errno::ENXIO))
}

/// Changes the text of the header.
pub(super) fn set_text(o: &mut Object<'_, '_>, text: Text) -> Result<(), MethodStop> {
    o.write(0, text.bytes()[..33].to_vec().into())
}

/// A snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Snap {
    id: u64,
    image_size: u64,
    name: Vec<u8>,
}

/// A header.
pub(super) struct Header {
    /// The bytes before the snapshots.
    fixed: Vec<u8>,
    pub(super) snaps: Vec<Snap>,
}

fn number(bytes: &[u8], at: usize) -> u64 {
    Reader::new(&bytes[at..]).get().unwrap_or(0)
}

impl Header {
    /// The header, if the object is long enough for one. EIO if it is damaged.
    pub(super) fn find(o: &mut Object<'_, '_>) -> Result<Option<Self>, MethodStop> {
        let size = o.size()?;
        if size < FIXED as u64 {
            return Ok(None);
        }
        let stored = o.read(0, size)?.to_vec();
        Self::parse(&stored).map(Some).ok_or(MethodStop::Fail(Errno::EIO))
    }

    fn load(o: &mut Object<'_, '_>) -> Result<Self, MethodStop> {
        Self::find(o)?.ok_or(MethodStop::Fail(Errno::EINVAL))
    }

    fn parse(stored: &[u8]) -> Option<Self> {
        let (fixed, mut rest) = stored.split_at_checked(FIXED)?;
        let count = u32::from_le_bytes(fixed[96..100].try_into().ok()?) as usize;
        let names_len = usize::try_from(number(fixed, 104)).ok()?;
        let ids = rest.split_off(..count.checked_mul(SNAP)?)?;
        let mut names = rest.get(..names_len)?.split_inclusive(|byte| *byte == 0);
        let snap = |stored: &[u8]| {
            let name = names.next()?.strip_suffix(&[0])?.to_vec();
            Some(Snap { id: number(stored, 0), image_size: number(stored, 8), name })
        };
        let snaps = ids.chunks(SNAP).map(snap).collect::<Option<_>>()?;
        Some(Self { fixed: fixed.to_vec(), snaps })
    }

    fn seq(&self) -> u64 {
        number(&self.fixed, SNAP_SEQ)
    }

    fn position(&self, name: &[u8]) -> Option<usize> {
        self.snaps.iter().position(|snap| snap.name == name)
    }

    fn save(&self, o: &mut Object<'_, '_>) -> MethodResult {
        let mut w = Writer::new();
        w.raw(&self.fixed[..96]);
        w.count(self.snaps.len());
        w.raw(&self.fixed[100..104]);
        w.put(&self.snaps.iter().map(|snap| snap.name.len() as u64 + 1).sum::<u64>());
        self.snaps.iter().for_each(|snap| w.put(&(snap.id, snap.image_size)));
        for snap in &self.snaps {
            w.raw(&snap.name);
            w.raw(&[0]);
        }
        o.write_full(w.into_vec())?;
        done()
    }
}

/// A name as C sees it: up to the first zero.
fn c_string(mut name: Vec<u8>) -> Vec<u8> {
    name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(name.len()));
    name
}

pub(super) fn snap_list(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    let header = Header::load(o)?;
    let mut w = Writer::new();
    w.put(&header.seq());
    w.count(header.snaps.len());
    for snap in &header.snaps {
        w.put(&((snap.id, snap.image_size), &snap.name));
    }
    Ok(w.into_vec().into())
}

pub(super) fn snap_add(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut header = Header::load(o)?;
    let mut input = Input::new(bytes);
    let (name, id): (_, u64) = (c_string(input.get()?), input.get()?);
    if header.seq() > id {
        return fail(Errno::ESTALE);
    }
    let limit: u64 = stored::find(o, SNAP_LIMIT)?.unwrap_or(u64::MAX);
    if header.snaps.len() as u64 >= limit {
        return fail(Errno::EDQUOT);
    }
    if header.position(&name).is_some() {
        return fail(Errno::EEXIST);
    }
    header.fixed[SNAP_SEQ..SNAP_SEQ + 8].copy_from_slice(&id.to_le_bytes());
    let image_size = number(&header.fixed, IMAGE_SIZE);
    header.snaps.insert(0, Snap { id, image_size, name });
    header.save(o)
}

pub(super) fn snap_remove(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut header = Header::load(o)?;
    let name = c_string(Input::new(bytes).get()?);
    let at = header.position(&name).ok_or(Errno::ENOENT)?;
    header.snaps.remove(at);
    header.save(o)
}

pub(super) fn snap_rename(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut header = Header::load(o)?;
    let mut input = Input::new(bytes);
    let (id, name): (u64, _) = (input.get()?, c_string(input.get()?));
    if header.position(&name).is_some() {
        return fail(Errno::EEXIST);
    }
    header.snaps.iter_mut().find(|snap| snap.id == id).ok_or(Errno::ENOENT)?.name = name;
    header.save(o)
}

//! Changes of one data object: writes, and ranges that become zeros. Before the data, the object map is
//! changed; where the object does not exist yet and the parent has data for it, these are copied up.

use crate::call::{Call, ObjectCall, method_of};
use crate::error::Error;
use crate::header::Header;
use crate::layer::{self, Layer};
use crate::map::{self, state};
use crate::script::{Cx, Flow};
use maps::SnapId;
use msgs::{Extent, Op};
use rados::SnapContext;
use std::sync::Arc;
use stdx::Bufs;
use wire::Errno;

/// What is done to an object.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// Bytes are written.
    Write { offset: u64, data: Bufs },
    /// Bytes become zeros; what needs no room gives it back.
    Zero { offset: u64, len: u64 },
}

/// A change, and what holds while it is made.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// The image itself.
    pub(crate) layer: Arc<Layer>,
    /// The object.
    pub(crate) object: u64,
    pub(crate) what: What,
    /// The object's state in the object map, if that is to be believed.
    pub(crate) state: Option<u8>,
    /// The image has an object map.
    pub(crate) mapped: bool,
}

/// The kind of a change, by its cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Write,
    /// The whole object goes.
    Remove,
    /// The whole object becomes empty, and hides the parent's data.
    Empty,
    /// Its end goes.
    Truncate,
    /// A range in its middle becomes zeros.
    Zero,
}

impl Change {
    fn header(&self) -> &Header {
        &self.layer.header
    }

    /// True if it is one operation on one object, whatever the object is like: such changes may be on their
    /// way together.
    pub(crate) fn is_simple(&self) -> bool {
        let mapped = !self.mapped || self.state == Some(state::EXISTS);
        mapped && self.kind() != Kind::Remove && (self.layer.parent.is_none() || !self.shares())
    }

    /// True if the parent has data for the object.
    fn shares(&self) -> bool {
        self.layer.header.striper.object_len(self.object, self.layer.overlap) > 0
    }

    /// Bytes of the object that belong to the image.
    fn object_len(&self) -> u64 {
        self.header().striper.object_len(self.object, self.layer.size)
    }

    /// True if it lies in the image.
    pub(crate) fn is_inside(&self) -> bool {
        let end = match &self.what {
            What::Write { offset, data } => offset + data.len() as u64,
            What::Zero { offset, len } => offset + len,
        };
        end <= self.object_len()
    }

    fn kind(&self) -> Kind {
        let What::Zero { offset, len } = self.what else { return Kind::Write };
        let hides = self.shares() && !stdx::mutants::is_active("block_shows_the_parent_again");
        match (offset, offset + len >= self.object_len()) {
            (0, true) if hides => Kind::Empty,
            (0, true) => Kind::Remove,
            (_, true) => Kind::Truncate,
            _ => Kind::Zero,
        }
    }

    /// True if the object's data before do not matter.
    fn is_whole(&self) -> bool {
        match &self.what {
            What::Write { offset, data } => *offset == 0 && data.len() as u64 >= self.object_len(),
            What::Zero { .. } => matches!(self.kind(), Kind::Empty | Kind::Remove),
        }
    }

    fn ops(&self) -> Vec<Op> {
        match (self.kind(), &self.what) {
            (_, What::Write { offset, data }) => {
                let extent = Extent::new(*offset, data.len() as u64);
                vec![Op::Write { extent, data: data.clone() }]
            }
            (Kind::Remove, _) => vec![Op::Delete],
            (Kind::Empty, _) => {
                vec![Op::Create { data: Bufs::new() }, Op::Truncate(Extent::new(0, 0))]
            }
            (Kind::Truncate, What::Zero { offset, .. }) => vec![Op::Truncate(Extent::new(*offset, 0))],
            (_, What::Zero { offset, len }) => vec![Op::Zero(Extent::new(*offset, *len))],
        }
    }

    fn on(&self, ops: Vec<Op>, snapc: &SnapContext) -> Call {
        let header = self.header();
        Call::Object(ObjectCall::new(&header.data, header.data_object(self.object), ops).under(snapc))
    }

    fn error(&self, errno: Errno) -> Error {
        let object = String::from_utf8_lossy(&self.header().data_object(self.object)).into_owned();
        Error::of(errno, &format!("cannot write the object {object}"))
    }
}

/// Makes a change. Returns the object's state in the object map afterwards.
pub(crate) fn run(cx: &mut Cx<'_>, change: &Change) -> Flow<u8> {
    let (header, kind) = (change.header(), change.kind());
    let snapc = header.snapc();
    // A whole object needs the parent's data only for the snapshots.
    let needs_parent = change.shares() && !(change.is_whole() && snapc.snaps.is_empty());
    let needs_parent = needs_parent && !stdx::mutants::is_active("block_copies_nothing_up");
    let is_absent = change.state == Some(state::NONEXISTENT);
    if is_absent && !change.shares() && kind != Kind::Write {
        return Ok(state::NONEXISTENT);
    }
    if is_absent && needs_parent {
        return copy_up(cx, change, &snapc);
    }
    let during = if kind == Kind::Remove { state::PENDING } else { state::EXISTS };
    let forgotten = stdx::mutants::is_active("block_maps_no_writes");
    if change.mapped && change.state != Some(during) && !forgotten {
        map::update(cx, header, SnapId::HEAD, change.object, during, None)?;
    }
    let must_exist = needs_parent || matches!(kind, Kind::Truncate | Kind::Zero);
    let answer = cx.call(|| {
        let guard = must_exist.then_some(Op::Stat);
        change.on(guard.into_iter().chain(change.ops()).collect(), &snapc)
    })?;
    match answer.result() {
        Ok(()) => {}
        Err(Errno::ENOENT) if needs_parent => return copy_up(cx, change, &snapc),
        // There is nothing to make zeros of.
        Err(Errno::ENOENT) if kind != Kind::Write => {}
        Err(errno) => return Err(change.error(errno).into()),
    }
    if kind != Kind::Remove {
        return Ok(state::EXISTS);
    }
    if change.mapped {
        let (gone, pending) = (state::NONEXISTENT, Some(state::PENDING));
        map::update(cx, header, SnapId::HEAD, change.object, gone, pending)?;
    }
    Ok(state::NONEXISTENT)
}

/// Writes the parent's data to the object, and makes the change.
///
/// Snapshots must see the parent's data too once the object exists: these are written as of before all
/// snapshots, by an empty snapshot context. The change that follows then preserves them.
fn copy_up(cx: &mut Cx<'_>, change: &Change, snapc: &SnapContext) -> Flow<u8> {
    let (header, object) = (change.header(), change.object);
    let parent = change.layer.parent.as_ref().expect("the object shares data with it");
    let data: Bufs = layer::read(cx, parent, &change.layer.shared_extents(object))?.into_iter().fold(
        Bufs::new(),
        |mut all, part| {
            all.append(part);
            all
        },
    );
    let is_zero = data.parts().iter().all(|part| part.iter().all(|byte| *byte == 0));
    if change.mapped {
        let head = (change.state != Some(state::EXISTS)).then_some(state::EXISTS);
        update_maps(cx, header, &copied_states(header, object, head, !is_zero))?;
    }
    let copy = |is_zero: bool| method_of("rbd", "copyup", if is_zero { Vec::new() } else { data.to_vec() });
    let with_change = |first: Option<Op>| first.into_iter().chain(change.ops()).collect();
    let calls = if is_zero || snapc.snaps.is_empty() {
        cx.all(|| vec![change.on(with_change(Some(copy(is_zero))), snapc)])?
    } else {
        // Both are on one object, so they are carried out in this order.
        cx.all(|| {
            let before = change.on(vec![copy(false)], &SnapContext::default());
            vec![before, change.on(with_change(None), snapc)]
        })?
    };
    for answer in calls {
        answer.result().map_err(|errno| change.error(errno))?;
    }
    Ok(state::EXISTS)
}

/// The states of an object in maps before it is copied up: it will exist, in the image itself as `head` if
/// that is to be changed, in the snapshots too if `in_snaps`; in the first as something new.
pub(crate) fn copied_states(
    header: &Header,
    object: u64,
    head: Option<u8>,
    in_snaps: bool,
) -> Vec<(SnapId, u64, u8)> {
    let later = match header.has(crate::format::feature::FAST_DIFF) {
        true => state::EXISTS_CLEAN,
        false => state::EXISTS,
    };
    let snaps = header.snaps.iter().filter(|s| in_snaps && object < header.objects(s.info.image_size));
    let of_snaps =
        snaps.enumerate().map(|(i, snap)| (snap.id(), object, if i == 0 { state::EXISTS } else { later }));
    of_snaps.chain(head.map(|state| (SnapId::HEAD, object, state))).collect()
}

/// Sets states of objects in maps.
pub(crate) fn update_maps(cx: &mut Cx<'_>, header: &Header, updates: &[(SnapId, u64, u8)]) -> Flow<()> {
    let answers = cx.all(|| {
        let call =
            |(snap, object, new): &(SnapId, u64, u8)| map::update_call(header, *snap, *object, *new, None);
        updates.iter().map(call).collect()
    })?;
    for ((snap, ..), answer) in updates.iter().zip(answers) {
        map::check(cx, header, *snap, answer)?;
    }
    Ok(())
}

//! What an image's header says, and how it is read.

use crate::call::NOTHING;
use crate::call::{Call, ObjectCall, Place, rbd};
use crate::error::Error;
use crate::format::{DIRECTORY, NOSNAP, ParentSpec, SnapInfo, feature, header_object, id_object};
use crate::script::{Cx, Flow, decode};
use maps::{FileLayout, SnapId};
use msgs::Op;
use rados::SnapContext;
use stdx::Bufs;
use striper::Striper;
use wire::Errno;

/// A snapshot of an image.
#[derive(Clone, PartialEq, Debug)]
pub struct Snap {
    /// Name, time, size.
    pub info: SnapInfo,
    /// Bytes that it shares with the image's parent; none if it is no clone.
    pub overlap: Option<u64>,
    /// `RBD_FLAG_*`.
    pub flags: u64,
    /// It must not be removed.
    pub protected: bool,
}

impl Snap {
    /// Its id.
    pub fn id(&self) -> SnapId {
        SnapId(self.info.id)
    }

    /// True for one that was removed while it had clones.
    pub fn is_trash(&self) -> bool {
        self.info.namespace.kind == crate::format::snap_kind::TRASH
    }

    /// True for a snapshot that users see.
    pub fn is_users(&self) -> bool {
        self.info.namespace.kind == crate::format::snap_kind::USER
    }
}

/// An image's header.
#[derive(Clone, PartialEq, Debug)]
pub struct Header {
    /// Pool and namespace of the header.
    pub place: Place,
    /// The image's id.
    pub id: String,
    /// Size in bytes.
    pub size: u64,
    /// The logarithm of the size of data objects.
    pub order: u8,
    /// [`feature`] bits.
    pub features: u64,
    /// `RBD_FLAG_*` of the image itself.
    pub flags: u64,
    /// Names of data objects begin with it.
    pub prefix: String,
    /// Pool and namespace of data objects.
    pub data: Place,
    /// How data are striped.
    pub striper: Striper,
    /// The newest snapshot that ever was.
    pub snap_seq: SnapId,
    /// Oldest first.
    pub snaps: Vec<Snap>,
    /// The snapshot that the image is a clone of.
    pub parent: Option<ParentSpec>,
    /// Bytes that it shares with the parent; none if only snapshots are still clones.
    pub overlap: Option<u64>,
}

impl Header {
    /// The header object.
    pub(crate) fn object(&self) -> Vec<u8> {
        header_object(&self.id)
    }

    /// A vector on the header.
    pub(crate) fn on(&self, ops: Vec<Op>) -> ObjectCall {
        ObjectCall::new(&self.place, self.object(), ops)
    }

    /// True if it has all of these features.
    pub fn has(&self, features: u64) -> bool {
        self.features & features == features
    }

    /// The snapshots that a write preserves.
    pub(crate) fn snapc(&self) -> SnapContext {
        let missed = usize::from(stdx::mutants::is_active("block_misses_the_newest_snapshot"));
        let snaps: Vec<SnapId> = self.snaps.iter().rev().map(Snap::id).skip(missed).collect();
        let seq = if missed > 0 { snaps.first().copied().unwrap_or(SnapId(0)) } else { self.snap_seq };
        SnapContext { seq, snaps }
    }

    /// The number of data objects of an image of this size.
    pub(crate) fn objects(&self, size: u64) -> u64 {
        self.striper.object_count(size)
    }

    /// The name of a data object.
    pub(crate) fn data_object(&self, n: u64) -> Vec<u8> {
        format!("{}.{n:016x}", self.prefix).into_bytes()
    }

    /// A snapshot that a user made, by name.
    pub fn snap(&self, name: &str) -> Result<&Snap, Error> {
        let found = self.snaps.iter().find(|s| s.is_users() && s.info.name == name);
        found.ok_or_else(|| {
            let names: Vec<&str> =
                self.snaps.iter().filter(|s| s.is_users()).map(|s| s.info.name.as_str()).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Error::new(
                Errno::ENOENT,
                format!("there is no snapshot `{name}` of this image (there are: {names})"),
            )
        })
    }
}

/// The id of an image.
pub(crate) fn find_id(cx: &mut Cx<'_>, place: &Place, name: &str) -> Flow<String> {
    let answers = cx.all(|| {
        let get = ObjectCall::new(place, id_object(name), vec![rbd("get_id", &NOTHING)]);
        let old = ObjectCall::new(place, format!("{name}.rbd"), vec![Op::Stat]);
        vec![Call::Object(get), Call::Object(old)]
    })?;
    match answers[0].result() {
        Ok(()) => decode("the image's id", &answers[0].output(0)),
        Err(Errno::ENOENT) if answers[1].result().is_ok() => {
            let text = format!(
                "`{name}` is an image of format 1, which is not supported: copy it with `rbd \
                 deep cp`, or with `rbd export` and `rbd import --image-format 2`"
            );
            Err(Error::new(Errno::EOPNOTSUPP, text).into())
        }
        Err(Errno::ENOENT) => {
            let text = format!("there is no image `{name}`: `nacre block ls POOL` lists them");
            Err(Error::new(Errno::ENOENT, text).into())
        }
        Err(errno) => Err(Error::of(errno, &format!("cannot find the image `{name}`")).into()),
    }
}

/// The name of an image.
pub(crate) fn find_name(cx: &mut Cx<'_>, place: &Place, id: &str) -> Flow<Option<String>> {
    let answer =
        cx.object(|| ObjectCall::new(place, DIRECTORY, vec![rbd("dir_get_name", &id.to_owned())]))?;
    match answer.result() {
        Ok(()) => decode("the image's name", &answer.output(0)).map(Some),
        Err(_) => Ok(None),
    }
}

/// Reads a header. What it says is of one moment, apart from properties of snapshots, which never change but
/// for the number of clones.
pub(crate) fn load(cx: &mut Cx<'_>, place: &Place, id: &str) -> Flow<Header> {
    loop {
        let header = load_once(cx, place, id)?;
        if let Some(header) = header {
            return Ok(header);
        }
        // A snapshot was removed in between.
    }
}

fn load_once(cx: &mut Cx<'_>, place: &Place, id: &str) -> Flow<Option<Header>> {
    const WHAT: &str = "cannot read the image's header";
    let object = header_object(id);
    let answer = cx.object_ok(WHAT, || {
        let ops = vec![
            rbd("get_size", &NOSNAP),
            rbd("get_features", &(NOSNAP, true)),
            rbd("get_object_prefix", &NOTHING),
            rbd("get_snapcontext", &NOTHING),
            rbd("get_flags", &NOSNAP),
            rbd("parent_get", &NOTHING),
            rbd("parent_overlap_get", &NOSNAP),
            rbd("get_data_pool", &NOTHING),
        ];
        ObjectCall::new(place, object.clone(), ops)
    })?;
    let get = |i: usize| answer.output(i);
    let (order, size): (u8, u64) = decode(WHAT, &get(0))?;
    let (features, _): (u64, u64) = decode(WHAT, &get(1))?;
    let (seq, mut ids): (u64, Vec<u64>) = decode(WHAT, &get(3))?;
    ids.reverse();
    let parent: ParentSpec = decode(WHAT, &get(5))?;
    let overlap: Option<u64> = decode(WHAT, &get(6))?;
    let data_pool: i64 = decode(WHAT, &get(7))?;
    let striper = striping(cx, place, &object, features, order)?;
    let Some(snaps) = load_snaps(cx, place, &object, &ids)? else { return Ok(None) };
    Ok(Some(Header {
        place: place.clone(),
        id: id.to_owned(),
        size,
        order,
        features,
        flags: decode(WHAT, &get(4))?,
        prefix: decode(WHAT, &get(2))?,
        data: Place { pool: if data_pool < 0 { place.pool } else { data_pool }, ..place.clone() },
        striper,
        snap_seq: SnapId(seq),
        snaps,
        parent: parent.exists().then_some(parent),
        overlap,
    }))
}

fn striping(cx: &mut Cx<'_>, place: &Place, object: &[u8], features: u64, order: u8) -> Flow<Striper> {
    const WHAT: &str = "cannot read the image's striping";
    let wrong = |text: String| Error::new(Errno::EINVAL, text);
    if !(12..=25).contains(&order) {
        return Err(wrong(format!("the image's objects have 2^{order} bytes, which is not supported")).into());
    }
    let size = 1u32 << order;
    let (unit, count) = match features & feature::STRIPING {
        0 => (u64::from(size), 1),
        _ => {
            let call = || ObjectCall::new(place, object, vec![rbd("get_stripe_unit_count", &NOTHING)]);
            decode(WHAT, &cx.object_ok(WHAT, call)?.output(0))?
        }
    };
    let layout = FileLayout {
        stripe_unit: u32::try_from(unit).unwrap_or(0),
        stripe_count: u32::try_from(count).unwrap_or(0),
        object_size: size,
        ..FileLayout::default()
    };
    let text = || format!("the image's striping ({count} units of {unit} bytes) makes no sense");
    Striper::new(&layout).ok_or_else(|| wrong(text()).into())
}

/// `None` if one of them is no more.
fn load_snaps(cx: &mut Cx<'_>, place: &Place, object: &[u8], ids: &[u64]) -> Flow<Option<Vec<Snap>>> {
    const WHAT: &str = "cannot read the image's snapshots";
    let answers = cx.all(|| {
        let of = |id: &u64| {
            let methods = ["snapshot_get", "parent_overlap_get", "get_flags", "get_protection_status"];
            let ops = methods.iter().map(|method| rbd(method, id)).collect();
            Call::Object(ObjectCall::new(place, object, ops))
        };
        ids.iter().map(of).collect()
    })?;
    let mut snaps = Vec::new();
    for answer in answers {
        match answer.result() {
            Err(Errno::ENOENT) => return Ok(None),
            result => result.map_err(|errno| Error::of(errno, WHAT))?,
        }
        let get = |i: usize| -> Bufs { answer.output(i) };
        let overlap: Option<u64> = decode(WHAT, &get(1))?;
        let protection: u8 = decode(WHAT, &get(3))?;
        snaps.push(Snap {
            info: decode(WHAT, &get(0))?,
            overlap,
            flags: decode(WHAT, &get(2))?,
            protected: protection != 0,
        });
    }
    Ok(Some(snaps))
}

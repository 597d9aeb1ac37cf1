//! The images of a pool: listed, described, made, cloned.

use crate::call::{Call, ObjectCall, Place, rbd};
use crate::error::Error;
use crate::format::{
    ChildSpec, DIRECTORY, OP_CLONE_CHILD, ParentSpec, feature, header_object, id_object, map_object,
};
use crate::header::{self, Header, Snap};
use crate::map::state;
use crate::notify::Message;
use crate::script::{Cx, Flow, decode};
use maps::{FileLayout, SnapId};
use msgs::Op;
use msgs::op::input::ListWatchersReply;
use std::collections::BTreeMap;
use striper::Striper;
use wire::Errno;

/// Entries of one page of the directory.
const PAGE: u64 = 1024;

/// The names and ids of the images of a namespace.
pub fn list(cx: &mut Cx<'_>, place: &Place) -> Flow<BTreeMap<String, String>> {
    const WHAT: &str = "cannot list the images";
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    loop {
        let after = all.last_key_value().map(|(name, _)| name.clone()).unwrap_or_default();
        let answer =
            cx.object(|| ObjectCall::new(place, DIRECTORY, vec![rbd("dir_list", &(after, PAGE))]))?;
        match answer.result() {
            Ok(()) => {}
            // No image was ever made here.
            Err(Errno::ENOENT) => return Ok(all),
            Err(errno) => return Err(Error::of(errno, WHAT).into()),
        }
        let page: BTreeMap<String, String> = decode(WHAT, &answer.output(0))?;
        let is_last = (page.len() as u64) < PAGE;
        all.extend(page);
        if is_last {
            return Ok(all);
        }
    }
}

/// A description of an image.
#[derive(Clone, PartialEq, Debug)]
pub struct Listed {
    /// Its header.
    pub header: Header,
    /// The names of the parent's image and snapshot, if they are known.
    pub parent_name: Option<(String, String)>,
    /// The addresses of clients that have it open.
    pub watchers: Vec<String>,
}

/// Describes an image.
pub fn info(cx: &mut Cx<'_>, place: &Place, name: &str) -> Flow<Listed> {
    let id = header::find_id(cx, place, name)?;
    let header = header::load(cx, place, &id)?;
    let parent_name = match &header.parent {
        Some(spec) => parent_name(cx, spec)?,
        None => None,
    };
    const WHAT: &str = "cannot list the image's watchers";
    let watchers = cx.object_ok(WHAT, || header.on(vec![Op::ListWatchers]))?;
    let watchers: ListWatchersReply = decode(WHAT, &watchers.output(0))?;
    let watchers = watchers.entries.iter().map(|w| w.addr.legacy_string()).collect();
    Ok(Listed { header, parent_name, watchers })
}

fn parent_name(cx: &mut Cx<'_>, spec: &ParentSpec) -> Flow<Option<(String, String)>> {
    let Some(image) = header::find_name(cx, &spec.place(), &spec.image)? else { return Ok(None) };
    let header = header::load(cx, &spec.place(), &spec.image)?;
    let found = header.snaps.iter().find(|s| s.info.id == spec.snap);
    // One in the trash has no name that users know.
    Ok(found.map(|s| (image, if s.is_users() { s.info.name.clone() } else { format!("#{}", spec.snap) })))
}

/// An image that is to be made.
#[derive(Clone, PartialEq, Debug)]
pub struct NewImage {
    /// Pool and namespace.
    pub place: Place,
    /// Name.
    pub name: String,
    /// An id that no image had before: digits and letters.
    pub id: String,
    /// Size in bytes.
    pub size: u64,
    /// The logarithm of the size of data objects.
    pub order: u8,
    /// [`feature`] bits.
    pub features: u64,
    /// The pool of the data, if that is another.
    pub data_pool: Option<i64>,
    /// Unit and count of striping, if not whole objects in turn.
    pub striping: Option<(u64, u64)>,
}

impl NewImage {
    fn features(&self) -> u64 {
        let striping = if self.striping.is_some() { feature::STRIPING } else { 0 };
        let data_pool = if self.data_pool.is_some() { feature::DATA_POOL } else { 0 };
        self.features | striping | data_pool
    }

    fn striper(&self) -> Result<Striper, Error> {
        let wrong = |text: String| Err(Error::new(Errno::EINVAL, text));
        if self.name.is_empty() || self.name.contains(['@', '/']) {
            return wrong(format!("`{}` cannot be the name of an image: it has no `@` and `/`", self.name));
        }
        if !(12..=25).contains(&self.order) {
            return wrong("objects have a size from 4K to 32M, which is a power of two".into());
        }
        let features = self.features();
        let needs =
            [(feature::OBJECT_MAP, feature::EXCLUSIVE_LOCK), (feature::FAST_DIFF, feature::OBJECT_MAP)];
        for (with, without) in needs {
            if features & with != 0 && features & without == 0 {
                let names = (feature::names(with).join(","), feature::names(without).join(","));
                return wrong(format!("the feature {} needs {}", names.0, names.1));
            }
        }
        if features & !feature::WRITABLE != 0 {
            return Err(crate::layer::refused("the new image", features & !feature::WRITABLE));
        }
        let size = 1u32 << self.order;
        let (unit, count) = self.striping.unwrap_or((size.into(), 1));
        let layout = FileLayout {
            stripe_unit: u32::try_from(unit).unwrap_or(0),
            stripe_count: u32::try_from(count).unwrap_or(0),
            object_size: size,
            ..FileLayout::default()
        };
        let text = "a stripe unit divides the size of objects, and the count is at least 1";
        Striper::new(&layout).map_or_else(|| wrong(text.into()), Ok)
    }
}

/// Makes an image.
pub fn create(cx: &mut Cx<'_>, new: &NewImage) -> Flow<()> {
    make(cx, new, None)
}

/// Steps of making an image, which are undone if a later one fails.
fn make(cx: &mut Cx<'_>, new: &NewImage, parent: Option<(&ParentSpec, u64)>) -> Flow<()> {
    let striper = new.striper()?;
    let place = &new.place;
    let named = cx.object(|| {
        let create = Op::Create { data: Default::default() };
        ObjectCall::new(place, id_object(&new.name), vec![create, rbd("set_id", &new.id)])
    })?;
    match named.result() {
        Ok(()) => {}
        Err(Errno::EEXIST) => {
            let text = format!("there is an image `{}` already", new.name);
            return Err(Error::new(Errno::EEXIST, text).into());
        }
        Err(errno) => return Err(Error::of(errno, "cannot make the image's name").into()),
    }
    let made = make_named(cx, new, &striper, parent);
    if let Err(crate::script::Stop::Fail(error)) = made {
        undo(cx, new)?;
        return Err(error.into());
    }
    made
}

fn make_named(
    cx: &mut Cx<'_>,
    new: &NewImage,
    striper: &Striper,
    parent: Option<(&ParentSpec, u64)>,
) -> Flow<()> {
    let place = &new.place;
    let names = (new.name.clone(), new.id.clone());
    cx.object_ok("cannot add the image to the directory", || {
        ObjectCall::new(place, DIRECTORY, vec![rbd("dir_add_image", &names)])
    })?;
    let prefix = match new.data_pool {
        Some(_) => format!("rbd_data.{}.{}", place.pool, new.id),
        None => format!("rbd_data.{}", new.id),
    };
    cx.object_ok("cannot make the image's header", || {
        let data_pool = new.data_pool.unwrap_or(-1);
        let input = ((new.size, new.order), (new.features(), (prefix, data_pool)));
        ObjectCall::new(place, header_object(&new.id), vec![rbd("create", &input)])
    })?;
    // Methods see the object as it was before their vector, so this is another one.
    if let Some(striping) = new.striping {
        cx.object_ok("cannot set the image's striping", || {
            ObjectCall::new(place, header_object(&new.id), vec![rbd("set_stripe_unit_count", &striping)])
        })?;
    }
    if new.features & feature::OBJECT_MAP != 0 {
        cx.object_ok("cannot make the image's object map", || {
            let input = (striper.object_count(new.size), state::NONEXISTENT);
            ObjectCall::new(place, map_object(&new.id, SnapId::HEAD), vec![rbd("object_map_resize", &input)])
        })?;
    }
    if let Some((spec, overlap)) = parent {
        attach(cx, new, spec, overlap)?;
    }
    Ok(())
}

/// Makes the new image a clone.
fn attach(cx: &mut Cx<'_>, new: &NewImage, spec: &ParentSpec, overlap: u64) -> Flow<()> {
    let object = header_object(&new.id);
    cx.object_ok("cannot make the image a clone", || {
        let input = ((spec.clone(), overlap), false);
        ObjectCall::new(&new.place, object.clone(), vec![rbd("parent_attach", &input)])
    })?;
    cx.object_ok("cannot mark the image as a clone", || {
        let input = (OP_CLONE_CHILD, OP_CLONE_CHILD);
        ObjectCall::new(&new.place, object, vec![rbd("op_features_set", &input)])
    })?;
    let child = ChildSpec {
        pool: new.place.pool,
        image: new.id.clone(),
        namespace: String::from_utf8_lossy(&new.place.namespace).into_owned(),
    };
    let parent = header_object(&spec.image);
    cx.object_ok("cannot record the clone in its parent", || {
        ObjectCall::new(&spec.place(), parent.clone(), vec![rbd("child_attach", &(spec.snap, child))])
    })?;
    cx.call(|| Call::Notify {
        place: spec.place(),
        object: parent,
        payload: Message::HeaderUpdate.encode(),
        timeout: crate::lock::NOTIFY_TIMEOUT,
    })?;
    Ok(())
}

/// Removes what was made of an image.
fn undo(cx: &mut Cx<'_>, new: &NewImage) -> Flow<()> {
    cx.all(|| {
        let on = |object: Vec<u8>, op| Call::Object(ObjectCall::new(&new.place, object, vec![op]));
        let names = (new.name.clone(), new.id.clone());
        vec![
            on(map_object(&new.id, SnapId::HEAD), Op::Delete),
            on(header_object(&new.id), Op::Delete),
            on(DIRECTORY.to_vec(), rbd("dir_remove_image", &names)),
        ]
    })?;
    cx.object(|| ObjectCall::new(&new.place, id_object(&new.name), vec![Op::Delete]))?;
    Ok(())
}

/// Makes an image of a snapshot, with which it shares what it does not change. `new.size` is ignored.
pub fn clone(cx: &mut Cx<'_>, place: &Place, name: &str, snap: &str, new: &NewImage) -> Flow<()> {
    let id = header::find_id(cx, place, name)?;
    let header = header::load(cx, place, &id)?;
    if !header.has(feature::LAYERING) {
        let text = format!("`{name}` lacks the feature layering, without which it cannot be cloned");
        return Err(Error::new(Errno::EINVAL, text).into());
    }
    let unknown = header.features & !feature::READABLE;
    if unknown != 0 {
        return Err(crate::layer::refused("the parent", unknown).into());
    }
    let snap: &Snap = header.snap(snap)?;
    let spec = ParentSpec {
        pool: place.pool,
        namespace: String::from_utf8_lossy(&place.namespace).into_owned(),
        image: id,
        snap: snap.info.id,
    };
    let size = snap.info.image_size;
    let new = NewImage { size, features: new.features | feature::LAYERING, ..new.clone() };
    let parent = (size > 0).then_some((&spec, size));
    make(cx, &new, parent)
}

//! Opening an image, and reading its header again when it has changed.

use super::api::{Access, Opened, Output};
use super::tasks::{Done, Loaded, Purpose};
use super::{Image, Stage};
use crate::call::{Answer, Call, Place};
use crate::error::Error;
use crate::format::{feature, header_object};
use crate::header::{self, Header};
use crate::layer::{self, Layer};
use crate::map;
use crate::script::{Cx, Flow, Stop};
use maps::SnapId;
use std::sync::Arc;
use stdx::Instant;
use wire::Errno;

impl Image {
    pub(super) fn header(&self) -> Arc<Header> {
        self.layer.as_ref().expect("the image is open").header.clone()
    }

    /// True if the header is watched: a snapshot never changes.
    pub(super) fn is_watching(&self) -> bool {
        self.me.gid != 0
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.spec.access == Access::Read || self.spec.snap.is_some()
    }

    pub(super) fn start_open(&mut self, now: Instant, out: &mut Vec<Output>) {
        let (place, name, cookie) = (self.spec.place.clone(), self.spec.name.clone(), self.me.handle);
        let (watch, access, read_only) = (self.spec.snap.is_none(), self.spec.access, self.is_read_only());
        let open = move |cx: &mut Cx<'_>| -> Flow<Done> {
            let id = header::find_id(cx, &place, &name)?;
            // A client that cannot have the image leaves nothing behind.
            check_features(&header::load(cx, &place, &id)?, read_only)?;
            let client = if watch { begin_watch(cx, &place, &id, cookie, read_only)? } else { None };
            let loaded = load_all(cx, &place, &id, access, read_only);
            if let (Err(Stop::Fail(_)), Some(_)) = (&loaded, client) {
                cx.call(|| Call::Unwatch { cookie })?;
            }
            let (header, parent) = loaded?;
            Ok(Done::Loaded(Box::new(Loaded { header, parent, map: None, client })))
        };
        self.start(now, Purpose::Open, open, out);
    }

    pub(super) fn opened(&mut self, _: Instant, result: Result<Done, Error>, out: &mut Vec<Output>) {
        let opened = result.and_then(|done| match done {
            Done::Loaded(loaded) => self.take(*loaded),
            _ => unreachable!("an image is loaded"),
        });
        match opened {
            Ok(()) => {
                let needed = !self.is_read_only() && self.header().has(feature::EXCLUSIVE_LOCK);
                self.lock.is_needed(needed);
                self.stage = Stage::Open;
                let opened = self.what_is_open();
                out.push(Output::Opened(Box::new(Ok(opened))));
            }
            Err(error) => {
                self.stage = Stage::Lost(error.clone());
                out.push(Output::Opened(Box::new(Err(error))));
            }
        }
    }

    fn what_is_open(&self) -> Opened {
        let layer = self.layer.as_ref().expect("it has just been opened");
        Opened {
            header: (*layer.header).clone(),
            snap: layer.snap,
            size: layer.size,
            read_only: self.is_read_only(),
        }
    }

    /// Takes what was read.
    fn take(&mut self, loaded: Loaded) -> Result<(), Error> {
        let header = Arc::new(loaded.header);
        let snap = match &self.spec.snap {
            Some(name) => header.snap(name)?.id(),
            None => SnapId::HEAD,
        };
        self.layer = Some(Arc::new(Layer::of(header, snap, loaded.parent)?));
        self.map = loaded.map;
        self.me.gid = loaded.client.unwrap_or(self.me.gid);
        Ok(())
    }

    /// Reads the header again, if it has changed and nothing is in the way.
    pub(super) fn load_again(&mut self, now: Instant, out: &mut Vec<Output>) {
        let busy = self.is_maintaining() || self.loading;
        if !self.stale || busy || self.spec.snap.is_some() || self.removed {
            return;
        }
        // Changes tell the map what they did when they end.
        if !self.queue.is_quiet() {
            return;
        }
        let (old, with_map) = (self.layer.clone().expect("it is open"), self.lock.is_held());
        let (access, read_only) = (self.spec.access, self.is_read_only());
        (self.stale, self.loading) = (false, true);
        self.start(now, Purpose::Load, move |cx| load(cx, &old, with_map, access, read_only), out);
    }

    pub(super) fn loaded(&mut self, result: Result<Done, Error>, out: &mut Vec<Output>) {
        let before = self.layer.as_ref().map_or(0, |layer| layer.size);
        let taken = result.and_then(|done| match done {
            Done::Loaded(loaded) => self.take(*loaded),
            _ => unreachable!("an image is loaded"),
        });
        self.loading = false;
        match taken {
            Ok(()) => {
                let size = self.layer.as_ref().map_or(0, |layer| layer.size);
                if size != before {
                    out.push(Output::Resized(size));
                }
            }
            Err(error) => self.lose(error, out),
        }
    }
}

fn check_features(header: &Header, read_only: bool) -> Result<(), Error> {
    let known = if read_only { feature::READABLE } else { feature::WRITABLE };
    let unknown = header.features & !known;
    if unknown != 0 { Err(layer::refused("the image", unknown)) } else { Ok(()) }
}

/// Watches the header. Returns the number by which other clients know this one; none if it may only read.
fn begin_watch(cx: &mut Cx<'_>, place: &Place, id: &str, cookie: u64, read_only: bool) -> Flow<Option<u64>> {
    match cx.call(|| Call::Watch { place: place.clone(), object: header_object(id), cookie })? {
        Answer::Watching(Ok(gid)) => Ok(Some(*gid)),
        // A key that may only read does not follow changes of the header.
        answer if answer.result() == Err(Errno::EPERM) && read_only => Ok(None),
        answer => {
            let errno = answer.result().err().unwrap_or(Errno::EIO);
            Err(Error::of(errno, "cannot watch the image").into())
        }
    }
}

/// Reads the header, of which all changes are notified from now on, and the parent.
fn load_all(
    cx: &mut Cx<'_>,
    place: &Place,
    id: &str,
    access: Access,
    read_only: bool,
) -> Flow<(Header, Option<Arc<Layer>>)> {
    let header = header::load(cx, place, id)?;
    check_features(&header, read_only)?;
    let parent = find_parent(cx, &header, access)?;
    Ok((header, parent))
}

/// Reads the header, the parent if it is another than before, and the object map if the lock is held.
fn load(cx: &mut Cx<'_>, old: &Layer, with_map: bool, access: Access, read_only: bool) -> Flow<Done> {
    let header = header::load(cx, &old.header.place, &old.header.id).map_err(|stop| match stop {
        Stop::Fail(error) if error.errno == Errno::ENOENT => {
            Error::new(Errno::ENOENT, "the image has been removed").into()
        }
        stop => stop,
    })?;
    check_features(&header, read_only)?;
    let parent = match &header.parent {
        Some(spec) if Some(spec) == old.header.parent.as_ref() && old.parent.is_some() => old.parent.clone(),
        _ => find_parent(cx, &header, access)?,
    };
    let map = if with_map { map::open(cx, &header)? } else { None };
    Ok(Done::Loaded(Box::new(Loaded { header, parent, map, client: None })))
}

/// Opens the snapshot that the image is a clone of, if that is needed.
fn find_parent(cx: &mut Cx<'_>, header: &Header, access: Access) -> Flow<Option<Arc<Layer>>> {
    let Some(spec) = header.parent.as_ref().filter(|_| access != Access::Remove) else { return Ok(None) };
    match layer::open_parent(cx, spec, 0) {
        Err(Stop::Fail(error)) if error.errno == Errno::ENOENT => match access {
            Access::FlattenOrphan => Ok(None),
            _ => Err(Error::new(Errno::ENOENT, orphan_text(&error)).into()),
        },
        parent => parent.map(Some),
    }
}

fn orphan_text(why: &Error) -> String {
    format!(
        "the image is a clone, and its parent has gone ({why}): if flattening it was interrupted before, it \
         has all its data, and `nacre block flatten --parent-is-gone IMAGE` ends that"
    )
}

//! Making and removing subvolumes.

use crate::access;
use crate::attributes::{Attributes, DEFAULT_MODE, layout};
use crate::cluster::FileSystem;
use crate::failure::{Done, Failure};
use crate::meta::{GLOBAL, Meta, USER};
use crate::place::Place;
use crate::subvolume::{Op, State, Subvolume, open_group};
use crate::trash;
use crate::tree::{Tree, join};
use decl::Args;
use wire::Errno;

/// Makes a subvolume. One that exists gets the attributes.
pub(crate) fn create(tree: &Tree, fs: &FileSystem, place: &Place, args: &Args) -> Done<()> {
    let owner = open_group(tree, place.group())?;
    let isolated = |attributes: Attributes| match args.flag("namespace_isolated") {
        true => attributes.isolated(place.namespace()),
        false => attributes,
    };
    match Subvolume::load(tree, place) {
        Err(failure) if failure.errno == Errno::ENOENT => {
            let attributes = isolated(Attributes::of_command(args, owner)?);
            make(tree, fs, place, None, ("subvolume", State::Complete), attributes).map(drop)
        }
        Err(failure) => Err(failure),
        Ok(sub) if sub.state() == Some(State::Retained) => {
            let attributes = isolated(Attributes::of_command(args, owner)?);
            make(tree, fs, place, Some(sub), ("subvolume", State::Complete), attributes).map(drop)
        }
        Ok(_) => {
            let sub = Subvolume::open(tree, place, Op::CREATE)?;
            let node = sub.data(tree)?;
            let kept = crate::subvolume::Owner { uid: node.attr().uid, gid: node.attr().gid };
            isolated(Attributes::of_command(args, kept)?).apply(tree, &node)
        }
    }
}

/// Makes a subvolume, or a new incarnation of one of which only snapshots are left.
pub(crate) fn make(
    tree: &Tree,
    fs: &FileSystem,
    place: &Place,
    retained: Option<Subvolume>,
    (kind, state): (&str, State),
    mut attributes: Attributes,
) -> Done<Subvolume> {
    if let Some(old) = &retained
        && old.has_pending_purges(tree)?
    {
        return Err(Failure::new(Errno::EAGAIN, "asynchronous purge of subvolume in progress"));
    }
    access::check_names(place)?;
    tree.mkdirs(&place.group().path(), DEFAULT_MODE)?;
    if attributes.pool.is_none() && attributes.namespace.is_none() {
        // Its data stay where they are if the layout above changes.
        attributes.pool = Some(layout(tree, &place.group().path(), fs.usual_pool())?.0);
    }
    let path = join(&place.base(), &trash::unique());
    let node = tree.mkdirs(&path, attributes.mode.unwrap_or(DEFAULT_MODE))?;
    let is_new = retained.is_none();
    let made = attributes.apply(tree, &node).and_then(|()| {
        let sub = match retained {
            Some(mut old) => {
                old.meta.set(GLOBAL, "type", kind);
                old.meta.set(GLOBAL, "path", path.as_str());
                old.set_state(state);
                old
            }
            None => Subvolume::new(place.clone(), kind, &path, state),
        };
        sub.store(tree)?;
        Ok(sub)
    });
    if made.is_err() {
        // What can't be tidied up here is found by the next try.
        let _ = if is_new { trash::dump(tree, &place.base()) } else { Ok(tree.rmdir(&path)?) };
    }
    made
}

/// Removes a subvolume. Returns true if there is work for the trash.
pub(crate) fn remove(tree: &Tree, place: &Place, force: bool, retain: bool) -> Done<bool> {
    match try_remove(tree, place, force, retain) {
        Err(failure) if failure.errno == Errno::ENOENT && force => Ok(false),
        Err(failure) if failure.errno == Errno::EAGAIN && !force => {
            Err(Failure::new(failure.errno, format!("{} (use --force to override)", failure.text)))
        }
        other => other,
    }
}

fn try_remove(tree: &Tree, place: &Place, force: bool, retain: bool) -> Done<bool> {
    let name = place.name();
    let mut sub = match Subvolume::open(tree, place, if force { Op::REMOVE_FORCE } else { Op::REMOVE }) {
        // Its data are gone: what is left of it can be removed.
        Err(failure) if failure.errno == Errno::ENOENT && force => Subvolume::load(tree, place)?,
        opened => opened?,
    };
    if sub.snapshots(tree)?.is_empty() {
        if matches!(sub.state(), Some(State::Pending | State::InProgress)) {
            let text = format!("{name} clone in-progress -- please cancel the clone and retry");
            return Err(Failure::new(Errno::EAGAIN, text));
        }
        if !sub.has_pending_purges(tree)? {
            trash::dump(tree, &place.base())?;
            access::forget(tree, place)?;
            return Ok(true);
        }
    } else if !retain {
        return Err(Failure::new(Errno::ENOTEMPTY, format!("subvolume '{name}' has snapshots")));
    } else if sub.is_of_first_version() {
        let text = format!("subvolume '{name}' does not support snapshot retention on delete");
        return Err(Failure::new(Errno::EINVAL, text));
    }
    if sub.state() == Some(State::Retained) {
        return Ok(false);
    }
    let path = sub.path().to_owned();
    let old: Meta = sub.meta.clone();
    sub.meta.set(GLOBAL, "path", "");
    sub.set_state(State::Retained);
    sub.meta.remove_section(USER);
    sub.store(tree)?;
    if let Err(failure) = trash::dump_incarnation(tree, place, &path) {
        Subvolume { place: place.clone(), meta: old }.store(tree)?;
        return Err(failure);
    }
    access::forget(tree, place)?;
    Ok(true)
}

//! A subvolume as it is stored: its state, and which operations the state admits.

use crate::failure::{Done, Failure, if_missing, invalid, missing};
use crate::meta::{CLONES, GLOBAL, Meta, SOURCE};
use crate::place::{Group, Place, SNAPDIR};
use crate::tree::{Node, Tree, join};
use wire::{Errno, Uuid};

/// The version of the form in which subvolumes are made.
const VERSION: &str = "2";
/// Permission bits of `.meta` files.
const META_MODE: u32 = 0o640;

/// The state of a subvolume, by Ceph's names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Can be used.
    Complete,
    /// A clone that waits for its turn.
    Pending,
    /// A clone that is being copied.
    InProgress,
    /// A clone that could not be copied.
    Failed,
    /// A clone that was ended by a command.
    Canceled,
    /// Removed, but its snapshots are kept.
    Retained,
}

const STATES: [(State, &str); 6] = [
    (State::Complete, "complete"),
    (State::Pending, "pending"),
    (State::InProgress, "in-progress"),
    (State::Failed, "failed"),
    (State::Canceled, "canceled"),
    (State::Retained, "snapshot-retained"),
];

impl State {
    /// Its name in `.meta` and in output.
    pub fn name(self) -> &'static str {
        STATES.iter().find(|(state, _)| *state == self).map_or("", |(_, name)| name)
    }
}

/// An operation on a subvolume, by Ceph's names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Op(&'static str);

impl Op {
    pub const CREATE: Self = Self("create");
    pub const REMOVE: Self = Self("rm");
    pub const REMOVE_FORCE: Self = Self("rm-force");
    pub const PIN: Self = Self("pin");
    pub const RESIZE: Self = Self("resize");
    pub const GETPATH: Self = Self("getpath");
    pub const INFO: Self = Self("info");
    pub const SNAP_CREATE: Self = Self("snap-create");
    pub const SNAP_REMOVE: Self = Self("snap-rm");
    pub const SNAP_LIST: Self = Self("snap-ls");
    pub const SNAP_INFO: Self = Self("snap-info");
    pub const SNAP_PROTECT: Self = Self("snap-protect");
    pub const SNAP_UNPROTECT: Self = Self("snap-unprotect");
    pub const SNAP_METADATA: Self = Self("snap-metadata");
    pub const USER_METADATA: Self = Self("user-metadata");
    pub const CLONE_SOURCE: Self = Self("clone-source");
    pub const CLONE_CREATE: Self = Self("clone-create");
    pub const CLONE_STATUS: Self = Self("clone-status");
    pub const CLONE_CANCEL: Self = Self("clone-cancel");
    pub const CLONE_INTERNAL: Self = Self("clone_internal");
    pub const ALLOW_ACCESS: Self = Self("allow-access");
    pub const DENY_ACCESS: Self = Self("deny-access");
    pub const AUTH_LIST: Self = Self("auth-list");
    pub const EVICT: Self = Self("evict");

    /// True if it concerns a subvolume of which only snapshots are left.
    fn fits_retained(self) -> bool {
        [
            Self::REMOVE,
            Self::REMOVE_FORCE,
            Self::INFO,
            Self::SNAP_REMOVE,
            Self::SNAP_LIST,
            Self::SNAP_INFO,
            Self::SNAP_PROTECT,
            Self::SNAP_UNPROTECT,
            Self::CLONE_SOURCE,
        ]
        .contains(&self)
    }

    /// True if it concerns a clone that is not complete.
    fn fits_unfinished(self) -> bool {
        [
            Self::REMOVE_FORCE,
            Self::CLONE_CREATE,
            Self::CLONE_STATUS,
            Self::CLONE_CANCEL,
            Self::CLONE_INTERNAL,
            Self::CLONE_SOURCE,
        ]
        .contains(&self)
    }

    /// True if only clones have it.
    fn is_of_clones(self) -> bool {
        [Self::CLONE_STATUS, Self::CLONE_CANCEL, Self::CLONE_INTERNAL].contains(&self)
    }
}

/// Owner and group of new trees.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Owner {
    pub uid: u32,
    pub gid: u32,
}

/// Opens a group. Subvolumes without a name for it need no directory yet.
pub(crate) fn open_group(tree: &Tree, group: &Group) -> Done<Owner> {
    match (tree.find(&group.path()), group.name()) {
        (Ok(node), _) => Ok(Owner { uid: node.attr().uid, gid: node.attr().gid }),
        (Err(Errno::ENOENT), None) => Ok(Owner::default()),
        (Err(errno), name) => {
            let text = format!("subvolume group '{}' does not exist", name.unwrap_or_default());
            Err(if_missing(text)(errno))
        }
    }
}

/// A subvolume. [`Self::store`] writes what was changed in [`Self::meta`].
pub(crate) struct Subvolume {
    pub place: Place,
    pub meta: Meta,
}

impl Subvolume {
    /// A new one with the data in `path`.
    pub fn new(place: Place, kind: &str, path: &str, state: State) -> Self {
        let mut meta = Meta::default();
        for (key, value) in [("version", VERSION), ("type", kind), ("path", path), ("state", state.name())] {
            meta.set(GLOBAL, key, value);
        }
        Self { place, meta }
    }

    /// Reads a subvolume, whatever its state.
    pub fn load(tree: &Tree, place: &Place) -> Done<Self> {
        let text = format!("subvolume '{}' does not exist", place.name());
        let read = tree.read(&place.meta()).map_err(if_missing(text))?;
        let meta = String::from_utf8(read).ok().and_then(|text| Meta::parse(&text));
        let found = meta.map(|meta| Self { place: place.clone(), meta });
        let sound = found.filter(|found| {
            let is_inside = found.path().starts_with(&join(&place.base(), ""));
            found.state().is_some() && (is_inside || found.state() == Some(State::Retained))
        });
        match sound {
            Some(found) => Ok(found),
            None => invalid(format!("the metadata of subvolume '{}' is damaged", place.name())),
        }
    }

    /// Opens a subvolume for an operation.
    pub fn open(tree: &Tree, place: &Place, op: Op) -> Done<Self> {
        open_group(tree, place.group())?;
        let found = Self::load(tree, place)?;
        let (name, kind) = (place.name(), found.kind().to_owned());
        if op.is_of_clones() && kind != "clone" {
            let text = format!("operation '{}' is not allowed on subvolume '{name}' of type {kind}", op.0);
            return Err(Failure::new(Errno::EOPNOTSUPP, text));
        }
        match found.state() {
            Some(State::Complete) => {}
            Some(State::Retained) if op.fits_retained() => return Ok(found),
            Some(State::Retained) => {
                return missing(format!("subvolume '{name}' is removed and has only snapshots retained"));
            }
            _ if op.fits_unfinished() => {}
            _ => {
                let text = format!("subvolume '{name}' is not ready for operation {}", op.0);
                return Err(Failure::new(Errno::EAGAIN, text));
            }
        }
        found.data(tree)?;
        Ok(found)
    }

    /// The directory of its data.
    pub fn data(&self, tree: &Tree) -> Done<Node> {
        let text = format!("mount path missing for subvolume '{}'", self.place.name());
        tree.find(self.path()).map_err(if_missing(text))
    }

    /// The path of its data; empty if it was removed.
    pub fn path(&self) -> &str {
        self.meta.get(GLOBAL, "path").unwrap_or_default()
    }

    /// `subvolume` or `clone`.
    pub fn kind(&self) -> &str {
        self.meta.get(GLOBAL, "type").unwrap_or_default()
    }

    /// Its state, if that has a name that we know.
    pub fn state(&self) -> Option<State> {
        let name = self.meta.get(GLOBAL, "state")?;
        STATES.iter().find(|(_, known)| *known == name).map(|(state, _)| *state)
    }

    /// Changes its state.
    pub fn set_state(&mut self, state: State) {
        self.meta.set(GLOBAL, "state", state.name());
    }

    /// The version of its form: in the first, snapshots are below the data, and cannot outlive it.
    pub fn is_of_first_version(&self) -> bool {
        self.meta.get(GLOBAL, "version") == Some("1")
    }

    /// The features that Ceph's clients ask for.
    pub fn features(&self) -> Vec<&'static str> {
        let mut out = vec!["snapshot-clone", "snapshot-autoprotect"];
        if !self.is_of_first_version() {
            out.push("snapshot-retention");
        }
        out
    }

    /// The directory of its snapshots.
    pub fn snapdir(&self) -> String {
        match self.is_of_first_version() {
            true => join(self.path(), SNAPDIR),
            false => join(&self.place.base(), SNAPDIR),
        }
    }

    /// Its snapshots, without those of directories above.
    pub fn snapshots(&self, tree: &Tree) -> Done<Vec<String>> {
        Ok(tree.snapshots(&self.snapdir())?)
    }

    /// Refuses a snapshot that does not exist.
    pub fn check_snapshot(&self, tree: &Tree, snap: &str) -> Done<()> {
        match self.snapshots(tree)?.iter().any(|name| name == snap) {
            true => Ok(()),
            false => missing(format!("snapshot '{snap}' does not exist")),
        }
    }

    /// The data of a snapshot.
    pub fn snapshot_data(&self, tree: &Tree, snap: &str) -> Done<String> {
        let path = join(&self.snapdir(), snap);
        if self.is_of_first_version() {
            return Ok(path);
        }
        let text = format!("snapshot '{snap}' does not exist");
        let dirs = tree.dirs(&path).map_err(if_missing(text.clone()))?;
        match dirs.into_iter().find(|name| Uuid::parse(name).is_some()) {
            Some(data) => Ok(join(&path, &data)),
            None => missing(text),
        }
    }

    /// True if a clone of a snapshot is being made.
    pub fn has_pending_clones(&self, snap: &str) -> bool {
        self.meta.items(CLONES).iter().any(|(_, of)| of == snap)
    }

    /// True if removed incarnations of it are still to be deleted.
    pub fn has_pending_purges(&self, tree: &Tree) -> Done<bool> {
        match tree.names(&self.place.trash()) {
            Ok(names) => Ok(!names.is_empty()),
            Err(Errno::ENOENT) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The snapshot that it is a clone of: volume, group, subvolume and snapshot.
    pub fn source(&self) -> Option<(Place, String)> {
        let get = |key| self.meta.get(SOURCE, key);
        let group = Group::new(get("group")).ok()?;
        Some((Place::new(group, get("subvolume")?).ok()?, get("snapshot")?.to_owned()))
    }

    /// Stores `.meta`.
    pub fn store(&self, tree: &Tree) -> Done<()> {
        Ok(tree.replace(&self.place.meta(), self.meta.to_string().as_bytes(), META_MODE)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_subvolume_has_cephs_metadata() {
        let place = Place::new(Group::new(Some("g")).expect("a group"), "s").expect("a name");
        let sub = Subvolume::new(place, "subvolume", "/volumes/g/s/u", State::Complete);
        let text = "[GLOBAL]\nversion = 2\ntype = subvolume\npath = /volumes/g/s/u\nstate = complete\n\n";
        assert_eq!(sub.meta.to_string(), text);
        assert_eq!((sub.state(), sub.snapdir().as_str()), (Some(State::Complete), "/volumes/g/s/.snap"));
        assert_eq!(sub.features().len(), 3);
    }

    #[test]
    fn states_admit_the_operations_that_ceph_admits() {
        for op in [Op::REMOVE, Op::INFO, Op::SNAP_REMOVE, Op::CLONE_SOURCE] {
            assert!(op.fits_retained(), "{op:?}");
        }
        for op in [Op::CREATE, Op::GETPATH, Op::RESIZE, Op::SNAP_CREATE] {
            assert!(!op.fits_retained() && !op.fits_unfinished(), "{op:?}");
        }
        assert!(Op::REMOVE_FORCE.fits_unfinished() && !Op::REMOVE.fits_unfinished());
    }
}

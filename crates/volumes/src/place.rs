//! Names of groups and subvolumes, and the paths that follow from them.

use crate::failure::{Done, Failure, invalid};
use crate::tree::join;
use wire::Errno;

/// The directory of everything here.
pub(crate) const BASE: &str = "/volumes";
/// The directory of subvolumes without a group.
const NO_GROUP: &str = "_nogroup";
/// Removed trees.
pub(crate) const TRASH: &str = "/volumes/_deleting";
/// Clones that are not complete.
pub(crate) const CLONE_INDEX: &str = "/volumes/_index/clone";
/// Names below [`BASE`] that are no groups.
pub(crate) const INTERNAL: [&str; 4] = [NO_GROUP, "_deleting", "_index", "_legacy"];
/// The name of the directory of snapshots.
pub(crate) const SNAPDIR: &str = ".snap";

/// Refuses what is no single name.
fn check(what: &str, name: &str) -> Done<()> {
    match name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
        true => invalid(format!("'{name}' is no name of a {what}")),
        false => Ok(()),
    }
}

/// A snapshot's name, checked.
pub(crate) fn snapshot_name(name: &str) -> Done<&str> {
    check("snapshot", name)?;
    match name.starts_with('_') {
        true => invalid(format!("snapshot name '{name}' is invalid")),
        false => Ok(name),
    }
}

/// A group of subvolumes; without a name that of the others.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Group(Option<String>);

impl Group {
    /// The group of this name.
    pub fn new(name: Option<&str>) -> Done<Self> {
        let Some(name) = name.filter(|name| !name.is_empty()) else { return Ok(Self(None)) };
        check("subvolume group", name)?;
        match INTERNAL.contains(&name) {
            true => Err(Failure::new(
                Errno::EPERM,
                format!("Operation not permitted for group '{name}' as it is an internal group."),
            )),
            false => Ok(Self(Some(name.to_owned()))),
        }
    }

    /// Its name, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// Its directory.
    pub fn path(&self) -> String {
        join(BASE, self.name().unwrap_or(NO_GROUP))
    }

    /// Its name in Ceph's files about authorizations: empty without one.
    pub fn short(&self) -> &str {
        self.name().unwrap_or_default()
    }
}

/// The place of a subvolume.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Place {
    group: Group,
    name: String,
}

impl Place {
    /// The subvolume `name` of a group.
    pub fn new(group: Group, name: &str) -> Done<Self> {
        check("subvolume", name)?;
        Ok(Self { group, name: name.to_owned() })
    }

    /// The subvolume whose directory this is.
    pub fn of_path(path: &str) -> Option<Self> {
        let (group, name) = path.strip_prefix(BASE)?.strip_prefix('/')?.split_once('/')?;
        let group = if group == NO_GROUP { Group(None) } else { Group(Some(group.to_owned())) };
        (!name.is_empty() && !name.contains('/')).then(|| Self { group, name: name.to_owned() })
    }

    /// Its group.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its directory, which holds the incarnations and [`Self::meta`].
    pub fn base(&self) -> String {
        join(&self.group.path(), &self.name)
    }

    /// The namespace of its data, if they are isolated.
    pub fn namespace(&self) -> String {
        format!("fsvolumens__{}_{}", self.group.name().unwrap_or(NO_GROUP), self.name)
    }

    /// The file that describes it.
    pub fn meta(&self) -> String {
        join(&self.base(), ".meta")
    }

    /// The directory of its removed incarnations.
    pub fn trash(&self) -> String {
        join(&self.base(), ".trash")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_ceph_and_names_stay_in_their_place() {
        let place = |group, name| Place::new(Group::new(group)?, name).map(|place| place.base());
        assert_eq!(place(None, "a"), Ok("/volumes/_nogroup/a".into()));
        assert_eq!(place(Some("g"), "a"), Ok("/volumes/g/a".into()));
        for bad in ["", ".", "..", "a/b", "a\0"] {
            assert!(place(None, bad).is_err(), "{bad:?}");
        }
        for bad in ["..", "a/b", "_nogroup", "_deleting", "_index"] {
            assert!(place(Some(bad), "a").is_err(), "{bad:?}");
        }
        for path in ["/volumes/_nogroup/a", "/volumes/g/a"] {
            assert_eq!(Place::of_path(path).map(|place| place.base()).as_deref(), Some(path));
        }
        assert_eq!(Place::of_path("/volumes/g/a/uuid"), None);
    }
}

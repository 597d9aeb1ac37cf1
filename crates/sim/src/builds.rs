//! The builds that daemons are: one for all, and others for some, each from its next start on.

use peer::level::Build;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What is installed on the hosts of a cluster. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Builds(Rc<RefCell<Installed>>);

#[derive(Debug, Default)]
struct Installed {
    everywhere: Build,
    single: BTreeMap<String, Build>,
}

impl Builds {
    /// Installs a build on all hosts.
    pub fn install(&self, build: Build) {
        *self.0.borrow_mut() = Installed { everywhere: build, single: BTreeMap::new() };
    }

    /// Installs a build for one daemon, such as `osd.0`.
    pub fn install_for(&self, daemon: &str, build: Build) {
        self.0.borrow_mut().single.insert(daemon.to_owned(), build);
    }

    /// The build that a daemon is from its next start on.
    pub fn of(&self, daemon: &str) -> Build {
        let installed = self.0.borrow();
        installed.single.get(daemon).unwrap_or(&installed.everywhere).clone()
    }
}

/// Adds a build's version to what a daemon says of itself.
pub(crate) fn name_version(metadata: &mut BTreeMap<String, String>, build: &Build) {
    metadata.insert("ceph_version".to_owned(), format!("nacre version {}", build.version));
    metadata.insert("ceph_version_short".to_owned(), build.version.clone());
}

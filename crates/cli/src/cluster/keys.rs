//! Keys of daemons and of the administrator: what they allow, and the files that hold them.

use super::files;
use super::layout::advise;
use anyhow::{Context, Result};
use auth::{Key, Keyring, KeyringEntry};
use std::path::Path;
use wire::{EntityName, EntityType};

/// Services, each with what a key allows there.
pub(crate) type Caps = [(&'static str, &'static str)];

/// The administrator's capabilities.
pub(crate) const ADMIN_CAPS: [(&str, &str); 4] =
    [("mon", "allow *"), ("osd", "allow *"), ("mds", "allow *"), ("mgr", "allow *")];

/// The capabilities of a daemon.
pub(crate) fn daemon_caps(ty: EntityType) -> &'static Caps {
    match ty {
        EntityType::OSD => &[("mon", "allow profile osd"), ("osd", "allow *"), ("mgr", "allow profile osd")],
        EntityType::MDS => &[
            // The second is for the manager in its process.
            ("mon", "allow profile mds, allow profile mgr"),
            ("osd", "allow rwx"),
            ("mds", "allow *"),
            ("mgr", "allow profile mds"),
        ],
        _ => &[("mon", "allow *")],
    }
}

/// A new secret.
pub(crate) fn new_key() -> Key {
    Key::generate(runtime::now().wall, &mut runtime::rng())
}

/// A keyring of one entity.
pub(crate) fn keyring_of(name: EntityName, key: Key, caps: &Caps) -> Keyring {
    let caps = caps.iter().map(|(s, c)| ((*s).to_owned(), (*c).to_owned())).collect();
    Keyring([(name, KeyringEntry { key, caps })].into())
}

/// Reads the key of `name` from the file, or makes both; adds it to `all`.
pub(crate) fn take_key(path: &Path, name: EntityName, caps: &Caps, all: &mut Keyring) -> Result<()> {
    let ring = match std::fs::read_to_string(path) {
        Ok(text) => Keyring::parse(&text).with_context(|| path.display().to_string())?,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let ring = keyring_of(name.clone(), new_key(), caps);
            files::write(path, &ring.to_string(), 0o600)?;
            ring
        }
        Err(e) => return Err(advise("read", path, e)),
    };
    let entry = ring.0.get(&name).with_context(|| format!("{} has no key for {name}", path.display()))?;
    all.0.insert(name, entry.clone());
    Ok(())
}

//! Migration of an image to another pool or layout: both ends' headers say from where and to where.

use super::features::{FEATURES, MIGRATING};
use super::old_format;
use crate::cls::class::{MethodResult, done, fail, output};
use crate::cls::object::{MethodStop, Object};
use crate::cls::stored::{self, Input, find, load, save};
use wire::{Decode, DecodeError, Encode, Errno, Reader, Writer};

/// Key of the migration.
const MIGRATION: &[u8] = b"migration";

/// Which end an image is.
mod end {
    pub const SOURCE: u8 = 1;
    pub const DESTINATION: u8 = 2;
}

/// A migration (`cls::rbd::MigrationSpec`); what nobody looks at here is kept as the client gave it.
#[derive(Clone, Debug)]
struct Migration {
    version: u8,
    compat: u8,
    /// One of [`end`].
    end: u8,
    /// Pool, namespace, image, snapshots, overlap, two flags.
    what: Vec<u8>,
    state: u8,
    state_description: Vec<u8>,
    /// Mode of mirroring, and what newer clients append.
    more: Vec<u8>,
}

/// Reads over the fields between the end and the state.
fn skip_what(r: &mut Reader<'_>) -> Result<(), DecodeError> {
    let _pool: i64 = r.get()?;
    for _namespace_name_and_id in 0..3 {
        r.blob()?;
    }
    let _snap_seqs: std::collections::BTreeMap<u64, u64> = r.get()?;
    let _overlap: u64 = r.get()?;
    let _flatten_and_mirroring: (bool, bool) = r.get()?;
    Ok(())
}

impl Encode for Migration {
    fn encode(&self, w: &mut Writer) {
        w.versioned(self.version, self.compat, |w| {
            w.put(&self.end);
            w.raw(&self.what);
            w.put(&self.state);
            w.put(&self.state_description);
            w.raw(&self.more);
        });
    }
}

impl Decode for Migration {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let compat = r.clone().get::<(u8, u8)>()?.1;
        r.versioned(3, |version, r| {
            let end = r.get()?;
            let mut after = r.clone();
            skip_what(&mut after)?;
            let what = r.take(r.remaining() - after.remaining())?.to_vec();
            let (state, state_description) = (r.get()?, r.get()?);
            Ok(Self { version, compat, end, what, state, state_description, more: r.rest().to_vec() })
        })
    }
}

/// Begins a migration of this image. EEXIST if there is one.
pub(super) fn migration_set(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let migration: Migration = Input::new(bytes).get()?;
    if o.omap_value(MIGRATION)?.is_some() {
        return fail(Errno::EEXIST);
    }
    match find::<u64>(o, FEATURES)? {
        None if old_format::text(o)? == old_format::Text::Migrating => return fail(Errno::EEXIST),
        None if migration.end != end::SOURCE => return fail(Errno::EINVAL),
        None => old_format::set_text(o, old_format::Text::Migrating)?,
        Some(features) if features & MIGRATING == 0 => save(o, FEATURES, &(features | MIGRATING))?,
        Some(_) if migration.end != end::DESTINATION => return fail(Errno::EEXIST),
        Some(_) => {}
    }
    save(o, MIGRATION, &migration)?;
    done()
}

/// The migration of this image. EINVAL if there is none.
fn current(o: &mut Object<'_, '_>) -> Result<Migration, MethodStop> {
    let is_migrating = match find::<u64>(o, FEATURES)? {
        None => old_format::text(o)? == old_format::Text::Migrating,
        Some(features) => features & MIGRATING != 0,
    };
    if is_migrating { load(o, MIGRATION) } else { fail(Errno::EINVAL) }
}

pub(super) fn migration_set_state(o: &mut Object<'_, '_>, bytes: &[u8]) -> MethodResult {
    let mut input = Input::new(bytes);
    let (state, state_description) = (input.get()?, input.get()?);
    let migration = current(o)?;
    save(o, MIGRATION, &Migration { state, state_description, ..migration })?;
    done()
}

pub(super) fn migration_get(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    output(&current(o)?)
}

pub(super) fn migration_remove(o: &mut Object<'_, '_>, _: &[u8]) -> MethodResult {
    if o.exists() {
        stored::remove(o, MIGRATION)?;
    }
    match find::<u64>(o, FEATURES)? {
        None if old_format::text(o)? == old_format::Text::Usual => return fail(Errno::EINVAL),
        None => old_format::set_text(o, old_format::Text::Usual)?,
        Some(features) if features & MIGRATING != 0 => save(o, FEATURES, &(features & !MIGRATING))?,
        Some(_) => {}
    }
    done()
}

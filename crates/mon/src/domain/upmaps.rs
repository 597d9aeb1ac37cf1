//! Exceptions to CRUSH's placement.

use crate::edit::Edit;
use maps::UpmapChange;

/// Sets and removes exceptions, and logs the reason.
pub(crate) fn change_upmaps(edit: &mut Edit<'_>, changes: Vec<UpmapChange>, text: String) {
    for UpmapChange { pg, items } in changes {
        match items.is_empty() {
            true => drop(edit.osd().old_pg_upmap_items.insert(pg)),
            false => drop(edit.osd().new_pg_upmap_items.insert(pg, items)),
        }
    }
    edit.notes.push(text);
}

//! STORE_DATA: the asking client is about to look into the objects of a file whose data may be in the journal
//! only. The answer waits until they are stored.

use super::context::Cx;
use super::plan::{Plan, Reply};
use crate::types::{Need, Stop};

pub(super) fn prepare(cx: &Cx<'_>) -> Result<Plan, Stop> {
    let ino = cx.resolve(&cx.request.path)?.ino;
    if cx.inode(ino)?.data.packed.is_some() {
        return Err(Need::Stored(ino).into());
    }
    Ok(Plan { reply: Reply { target: Some(ino), ..Reply::default() }, ..Plan::default() })
}

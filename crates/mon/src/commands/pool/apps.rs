//! Commands on the applications that use a pool.

use crate::commands::pool::change::id_of;
use crate::commands::reply::{Outcome, said};
use crate::edit::Edit;
use crate::failure::{Failure, invalid, missing};
use decl::Args;
use wire::Errno;

/// Most applications of a pool.
const MAX_APPS: usize = 4;

pub fn app_enable(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let id = id_of(edit, args, "pool")?;
    let (name, app) = (args.str("pool"), args.str("app"));
    if app.is_empty() {
        return invalid("application name must be provided");
    }
    let apps = &edit.osdmap().pools[&id].application_metadata;
    if !apps.is_empty() && !apps.contains_key(app) && !args.flag("yes_i_really_mean_it") {
        let text =
            format!("pool '{name}' has an application already: add --yes-i-really-mean-it to enable another");
        return Err(Failure::new(Errno::EPERM, text));
    }
    if apps.len() >= MAX_APPS && !apps.contains_key(app) {
        return invalid(format!("pool '{name}' has {MAX_APPS} applications already"));
    }
    edit.pool(id).application_metadata.entry(app.to_owned()).or_default();
    said(format!("enabled application '{app}' on pool '{name}'"))
}

pub fn app_disable(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let id = id_of(edit, args, "pool")?;
    let (name, app) = (args.str("pool"), args.str("app"));
    if !args.flag("yes_i_really_mean_it") {
        let text = "clients of the application may not find the pool any more: add --yes-i-really-mean-it";
        return Err(Failure::new(Errno::EPERM, text));
    }
    edit.pool(id).application_metadata.remove(app);
    said(format!("disable application '{app}' on pool '{name}'"))
}

pub fn app_set(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let id = id_of(edit, args, "pool")?;
    let (name, app) = (args.str("pool"), args.str("app"));
    if !edit.osdmap().pools[&id].application_metadata.contains_key(app) {
        return missing(format!("application '{app}' is not enabled on pool '{name}'"));
    }
    let (key, value) = (args.str("key").to_owned(), args.str("value").to_owned());
    let text = format!("set application '{app}' key '{key}' to '{value}' on pool '{name}'");
    edit.pool(id).application_metadata.entry(app.to_owned()).or_default().insert(key, value);
    said(text)
}

pub fn app_rm(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let id = id_of(edit, args, "pool")?;
    let (name, app, key) = (args.str("pool"), args.str("app"), args.str("key"));
    if let Some(values) = edit.pool(id).application_metadata.get_mut(app) {
        values.remove(key);
    }
    said(format!("removed application '{app}' key '{key}' on pool '{name}'"))
}

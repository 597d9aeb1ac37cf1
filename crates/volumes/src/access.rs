//! Clients' access to single subvolumes: their keys, and the files in which Ceph notes which subvolumes a key
//! is for.

use crate::attributes::layout;
use crate::cluster::{Cluster, FileSystem};
use crate::failure::{Done, Failure, invalid, missing};
use crate::output;
use crate::place::{BASE, Place};
use crate::subvolume::{Op, Subvolume};
use crate::tree::{Tree, join};
use decl::Args;
use serde_json::{Map, Value, json};
use wire::Errno;

/// Permission bits of these files.
const MODE: u32 = 0o755;
/// The version of their form, and the oldest that readers must know.
const VERSION: u64 = 6;
/// Longest name of a file.
const MAX_NAME: usize = 255;

/// The file that names the keys of a subvolume.
fn file_of_subvolume(place: &Place) -> String {
    join(BASE, &format!("_{}:{}.meta", place.group().short(), place.name()))
}

/// The file that names the subvolumes of a key.
fn file_of_key(id: &str) -> String {
    join(BASE, &format!("${id}.meta"))
}

/// A subvolume's name in [`file_of_key`].
fn label(place: &Place) -> String {
    format!("{}/{}", place.group().name().unwrap_or("None"), place.name())
}

/// Refuses names with which no file could name a subvolume's keys.
pub(crate) fn check_names(place: &Place) -> Done<()> {
    let (_, name) = file_of_subvolume(place)
        .rsplit_once('/')
        .map_or_else(Default::default, |(a, b)| (a.to_owned(), b.to_owned()));
    match name.len() > MAX_NAME {
        true => Err(Failure::new(
            Errno::ENAMETOOLONG,
            "use shorter group or subvol name, combination of both should be less than 249 characters",
        )),
        false => Ok(()),
    }
}

/// Forgets who may access a subvolume that is removed.
pub(crate) fn forget(tree: &Tree, place: &Place) -> Done<()> {
    match tree.unlink(&file_of_subvolume(place)) {
        Err(Errno::ENOENT) => Ok(()),
        other => Ok(other?),
    }
}

fn load(tree: &Tree, path: &str) -> Done<Option<Value>> {
    match tree.read(path) {
        Ok(content) => Ok(serde_json::from_slice(&content).ok().filter(Value::is_object)),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

fn store(tree: &Tree, path: &str, mut value: Value, compat: u64) -> Done<()> {
    value["version"] = VERSION.into();
    value["compat_version"] = compat.into();
    Ok(tree.replace(path, value.to_string().as_bytes(), MODE)?)
}

fn entity(id: &str) -> String {
    format!("client.{id}")
}

/// The key of a client, if there is one: its secret and capabilities.
fn key(cluster: &Cluster, id: &str) -> Done<Option<Value>> {
    match cluster.ask(&json!({ "prefix": "auth get", "entity": entity(id) })) {
        Ok(found) => Ok(Some(found[0].clone())),
        Err(failure) if failure.errno == Errno::ENOENT => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// The capabilities that access at a level needs: for metadata servers and OSDs.
fn wanted(tree: &Tree, fs: &FileSystem, sub: &Subvolume, level: &str) -> Done<[String; 2]> {
    let (pool, namespace) = layout(tree, sub.path(), fs.usual_pool())?;
    let namespace = if namespace.is_empty() { String::new() } else { format!(" namespace={namespace}") };
    Ok([format!("allow {level} path={}", sub.path()), format!("allow {level} pool={pool}{namespace}")])
}

/// Capabilities as a list, without those in `without` and with those in `with`.
fn changed(caps: &str, without: &[String], with: Option<&String>) -> String {
    let mut out: Vec<&str> = caps.split(',').map(str::trim).filter(|cap| !cap.is_empty()).collect();
    out.retain(|cap| !without.iter().any(|other| other == cap));
    if let Some(with) = with
        && !out.contains(&with.as_str())
    {
        out.push(with);
    }
    out.join(", ")
}

/// Gives a key access to a subvolume, and makes the key if there is none. Returns its secret if a tenant is
/// named.
pub(crate) fn authorize(
    cluster: &Cluster,
    tree: &Tree,
    fs: &FileSystem,
    place: &Place,
    args: &Args,
) -> Done<String> {
    let sub = Subvolume::open(tree, place, Op::ALLOW_ACCESS)?;
    let (id, tenant) = (args.str("auth_id"), args.opt_str("tenant_id"));
    let level = args.opt_str("access_level").unwrap_or("rw");
    if !matches!(level, "r" | "rw") {
        return invalid(format!("invalid access level '{level}': r or rw"));
    }
    if id.is_empty() || id.contains('/') {
        return invalid(format!("'{id}' is no name of a key"));
    }
    let existing = key(cluster, id)?;
    let mut of_key = match load(tree, &file_of_key(id))? {
        Some(found) => {
            if found["tenant_id"].as_str() != tenant {
                return Err(Failure::new(Errno::EPERM, format!("auth ID: {id} is already in use")));
            }
            found
        }
        None if existing.is_some() && !args.flag("allow_existing_id") => {
            let text = format!("auth ID: {id} exists and not created by mgr plugin. Not allowed to modify");
            return Err(Failure::new(Errno::EPERM, text));
        }
        None => json!({ "dirty": false, "tenant_id": tenant, "subvolumes": {} }),
    };
    let other = if level == "rw" { "r" } else { "rw" };
    let (want, unwanted) = (wanted(tree, fs, &sub, level)?, wanted(tree, fs, &sub, other)?);
    let secret = give(cluster, id, existing.as_ref(), &want, &unwanted)?;
    let granted = json!({ "access_level": level, "dirty": false });
    of_key["subvolumes"][label(place)] = granted.clone();
    store(tree, &file_of_key(id), of_key, VERSION)?;
    let mut of_subvolume = load(tree, &file_of_subvolume(place))?.unwrap_or_else(|| json!({ "auths": {} }));
    of_subvolume["auths"][id] = granted;
    store(tree, &file_of_subvolume(place), of_subvolume, 1)?;
    Ok(if tenant.is_some() { secret } else { String::new() })
}

/// Makes a key with capabilities, or adds them to those of an existing one. Returns the secret.
fn give(
    cluster: &Cluster,
    id: &str,
    existing: Option<&Value>,
    [mds, osd]: &[String; 2],
    unwanted: &[String; 2],
) -> Done<String> {
    let secret = |key: &Value| key["key"].as_str().unwrap_or_default().to_owned();
    let Some(existing) = existing else {
        let caps = json!(["mds", mds, "osd", osd, "mon", "allow r"]);
        let make = json!({ "prefix": "auth get-or-create", "entity": entity(id), "caps": caps });
        return Ok(secret(&cluster.ask(&make)?[0]));
    };
    let old = |service: &str| existing["caps"][service].as_str().unwrap_or_default().to_owned();
    let had_mds = old("mds").split(',').any(|cap| cap.trim() == unwanted[0]);
    let without: &[String] = if had_mds { unwanted } else { &[] };
    let mut caps: Map<String, Value> = existing["caps"].as_object().cloned().unwrap_or_default();
    caps.insert("mds".into(), changed(&old("mds"), without, Some(mds)).into());
    caps.insert("osd".into(), changed(&old("osd"), without, Some(osd)).into());
    caps.entry("mon").or_insert_with(|| "allow r".into());
    set_caps(cluster, id, &caps)?;
    Ok(secret(existing))
}

fn set_caps(cluster: &Cluster, id: &str, caps: &Map<String, Value>) -> Done<()> {
    let list: Vec<Value> =
        caps.iter().flat_map(|(service, cap)| [service.as_str().into(), cap.clone()]).collect();
    let set = json!({ "prefix": "auth caps", "entity": entity(id), "caps": list });
    cluster.command(&set).map(drop)
}

/// Takes a key's access to a subvolume away. A key that has access to nothing any more is removed.
pub(crate) fn deauthorize(
    cluster: &Cluster,
    tree: &Tree,
    fs: &FileSystem,
    place: &Place,
    id: &str,
) -> Done<()> {
    let sub = Subvolume::open(tree, place, Op::DENY_ACCESS)?;
    let Some(mut of_key) = load(tree, &file_of_key(id))? else {
        return missing(format!("auth ID: {id} doesn't exist"));
    };
    let label = label(place);
    if of_key["subvolumes"].get(&label).is_some()
        && let Some(existing) = key(cluster, id)?
    {
        let (r, rw) = (wanted(tree, fs, &sub, "r")?, wanted(tree, fs, &sub, "rw")?);
        take(cluster, id, &existing, &[r, rw])?;
    }
    if let Some(subvolumes) = of_key["subvolumes"].as_object_mut() {
        subvolumes.remove(&label);
        match subvolumes.is_empty() {
            true => tree.unlink(&file_of_key(id))?,
            false => store(tree, &file_of_key(id), of_key, VERSION)?,
        }
    }
    if let Some(mut of_subvolume) = load(tree, &file_of_subvolume(place))?
        && let Some(auths) = of_subvolume["auths"].as_object_mut()
    {
        auths.remove(id);
        store(tree, &file_of_subvolume(place), of_subvolume, 1)?;
    }
    Ok(())
}

fn take(cluster: &Cluster, id: &str, existing: &Value, levels: &[[String; 2]; 2]) -> Done<()> {
    let mut caps: Map<String, Value> = existing["caps"].as_object().cloned().unwrap_or_default();
    for (at, service) in ["mds", "osd"].into_iter().enumerate() {
        let without: Vec<String> = levels.iter().map(|caps| caps[at].clone()).collect();
        let old = caps.get(service).and_then(Value::as_str).unwrap_or_default();
        let new = changed(old, &without, None);
        match new.is_empty() {
            true => drop(caps.remove(service)),
            false => drop(caps.insert(service.into(), new.into())),
        }
    }
    let is_idle = !caps.contains_key("mds") && !caps.contains_key("osd");
    if is_idle && caps.get("mon").and_then(Value::as_str) == Some("allow r") {
        caps.remove("mon");
    }
    match caps.is_empty() {
        true => cluster.command(&json!({ "prefix": "auth rm", "entity": entity(id) })).map(drop),
        false => set_caps(cluster, id, &caps),
    }
}

/// The keys with access to a subvolume, with the level of each.
pub(crate) fn list(tree: &Tree, place: &Place) -> Done<String> {
    Subvolume::open(tree, place, Op::AUTH_LIST)?;
    let found = load(tree, &file_of_subvolume(place))?;
    let auths = found.as_ref().and_then(|found| found["auths"].as_object());
    let one = |(id, access): (&String, &Value)| json!({ id: access["access_level"] });
    let list: Value = auths.into_iter().flatten().filter(|(_, a)| a["dirty"] != true).map(one).collect();
    Ok(output::json(&list))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_added_once_and_taken_away() {
        let (r, rw) = ("allow r path=/a".to_owned(), "allow rw path=/a".to_owned());
        let one = changed("", &[], Some(&rw));
        assert_eq!(one, "allow rw path=/a");
        assert_eq!(changed(&one, &[], Some(&rw)), one);
        let both = changed(&one, &[], Some(&"allow rw path=/b".to_owned()));
        assert_eq!(both, "allow rw path=/a, allow rw path=/b");
        assert_eq!(changed(&both, std::slice::from_ref(&rw), Some(&r)), "allow rw path=/b, allow r path=/a");
        assert_eq!(changed(&one, &[r, rw], None), "");
    }
}

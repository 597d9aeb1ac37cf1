//! Keys and what they allow.

use crate::commands::reply::{Outcome, Reply, answer, said};
use crate::edit::Edit;
use crate::entry::Change;
use crate::failure::{Failure, invalid, missing};
use crate::view::View;
use auth::{EntityAuth, Key, KeyType, Keyring, KeyringEntry};
use decl::Args;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use wire::{EntityName, Errno};

type Caps = BTreeMap<String, String>;

fn entity(args: &Args) -> Result<EntityName, Failure> {
    let text = args.str("entity");
    match EntityName::parse(text).filter(|n| !n.id.is_empty() || text == "mon.") {
        Some(name) => Ok(name),
        None => invalid(format!("bad entity name `{text}`: write TYPE.ID, as client.admin")),
    }
}

/// The type of a key that is to be made: the one that clients of every release can read, if none is named.
fn key_type(args: &Args) -> Result<KeyType, Failure> {
    match args.opt_str("key_type") {
        None => Ok(KeyType::Aes),
        Some(text) => KeyType::parse(text)
            .map_or_else(|| invalid(format!("unknown key type `{text}`: aes and aes256k are known")), Ok),
    }
}

/// Parses capabilities from a list `service capability …`. Each must be known and enforced: a grant that
/// nobody would check is refused and not stored.
fn parse_caps(list: &[String]) -> Result<Caps, Failure> {
    if !list.len().is_multiple_of(2) {
        return invalid("capabilities come in pairs: SERVICE 'CAPABILITY', as mon 'allow r'");
    }
    let mut out = Caps::new();
    for pair in list.chunks_exact(2) {
        let (service, text) = (&pair[0], &pair[1]);
        if let Err(error) = auth::check_caps(service, text) {
            let rest = text.get(error.at..).unwrap_or_default();
            return invalid(format!(
                "{service} capability parse failed, stopped at '{rest}' of '{text}': expected {}",
                error.expected
            ));
        }
        out.insert(service.clone(), text.clone());
    }
    Ok(out)
}

fn keyring(name: &EntityName, auth: &EntityAuth) -> Keyring {
    let entry = KeyringEntry { key: auth.key.clone(), caps: auth.caps.clone() };
    Keyring(BTreeMap::from([(name.clone(), entry)]))
}

fn entity_json(name: &EntityName, auth: &EntityAuth) -> Value {
    json!({ "entity": name.to_string(), "key": auth.key.to_base64(), "caps": auth.caps })
}

fn find<'a>(view: &View<'a>, args: &Args) -> Result<(EntityName, &'a EntityAuth), Failure> {
    let name = entity(args)?;
    match view.state.auth.get(&name) {
        Some(auth) => Ok((name, auth)),
        None => missing(format!("failed to find {name} in keyring")),
    }
}

pub fn ls(view: &View<'_>, args: &Args) -> Outcome {
    let all = &view.state.auth;
    let json = || json!({ "auth_dump": all.iter().map(|(n, a)| entity_json(n, a)).collect::<Vec<_>>() });
    let plain = || {
        let mut out = String::new();
        for (name, auth) in all.iter() {
            out.push_str(&format!("{name}\n\tkey: {}\n", auth.key.to_base64()));
            auth.caps.iter().for_each(|(s, c)| out.push_str(&format!("\tcaps: [{s}] {c}\n")));
        }
        out
    };
    let reply = answer(args, json, plain)?;
    Ok(Reply { status: "installed auth entries:\n".into(), ..reply })
}

pub fn get(view: &View<'_>, args: &Args) -> Outcome {
    let (name, auth) = find(view, args)?;
    let reply = answer(args, || json!([entity_json(&name, auth)]), || keyring(&name, auth).to_string())?;
    Ok(Reply { status: format!("exported keyring for {name}"), ..reply })
}

pub fn print_key(view: &View<'_>, args: &Args) -> Outcome {
    let (_, auth) = find(view, args)?;
    let key = auth.key.to_base64();
    answer(args, || json!({ "key": key }), || key.clone())
}

pub fn export(view: &View<'_>, args: &Args) -> Outcome {
    if args.opt_str("entity").is_some() {
        let (name, auth) = find(view, args)?;
        let reply = answer(args, || json!([entity_json(&name, auth)]), || keyring(&name, auth).to_string())?;
        // The original prints the key here as well; secrets do not belong on a status line.
        return Ok(Reply { status: format!("export {name}"), ..reply });
    }
    let all = &view.state.auth;
    let json = || all.iter().map(|(n, a)| entity_json(n, a)).collect::<Vec<_>>().into();
    let plain = || all.iter().map(|(n, a)| keyring(n, a).to_string()).collect();
    let reply = answer(args, json, plain)?;
    Ok(Reply { status: "exported master keyring".into(), ..reply })
}

fn read_keyring(input: &[u8]) -> Result<Keyring, Failure> {
    let text = std::str::from_utf8(input).or_else(|_| invalid("the keyring is not a text file"))?;
    Keyring::parse(text).or_else(|e| invalid(e.to_string()))
}

pub fn import(edit: &mut Edit<'_>, _: &Args, input: &[u8]) -> Outcome {
    if input.is_empty() {
        return invalid("auth import: give a keyring file with -i");
    }
    let ring = read_keyring(input)?;
    for (name, entry) in ring.0 {
        if entry.key.is_none() {
            return invalid(format!("{name}: the keyring has no key for it"));
        }
        let list: Vec<String> = entry.caps.iter().flat_map(|(s, c)| [s.clone(), c.clone()]).collect();
        let caps = parse_caps(&list)?;
        edit.push(Change::Auth(name, Some(EntityAuth { key: entry.key, caps })));
    }
    said("imported keyring")
}

pub fn add(edit: &mut Edit<'_>, args: &Args, input: &[u8]) -> Outcome {
    let name = entity(args)?;
    let mut caps = parse_caps(&args.list("caps"))?;
    let given = match input.is_empty() {
        true => None,
        false => {
            let ring = read_keyring(input)?;
            let Some(entry) = ring.0.get(&name) else {
                return missing(format!("the keyring has no entry for {name}"));
            };
            let list: Vec<String> = entry.caps.iter().flat_map(|(s, c)| [s.clone(), c.clone()]).collect();
            if caps.is_empty() {
                caps = parse_caps(&list)?;
            }
            Some(entry.key.clone()).filter(|k| !k.is_none())
        }
    };
    if let Some(old) = edit.base.auth.get(&name) {
        if let Some(service) = mismatch(&old.caps, &caps) {
            return invalid(format!("entity {name} exists but cap {service} does not match"));
        }
        if given.as_ref().is_some_and(|key| *key != old.key) {
            return invalid(format!("entity {name} exists but key does not match"));
        }
        return said(format!("added key for {name}"));
    }
    let kind = key_type(args)?;
    let key = given.unwrap_or_else(|| Key::generate_as(kind, edit.now.wall, edit.rng));
    edit.push(Change::Auth(name.clone(), Some(EntityAuth { key, caps })));
    said(format!("added key for {name}"))
}

/// The service for which an existing key has other capabilities than requested.
fn mismatch(old: &Caps, wanted: &Caps) -> Option<String> {
    let services = old.keys().chain(wanted.keys());
    services.into_iter().find(|s| old.get(*s) != wanted.get(*s)).cloned()
}

/// Returns the entity's key, creating it if there is none.
fn make(edit: &mut Edit<'_>, args: &Args, name: &EntityName, caps: Caps) -> Result<EntityAuth, Failure> {
    let kind = key_type(args)?;
    if let Some(old) = edit.base.auth.get(name) {
        // Asked without capabilities, an existing key is simply shown.
        if let Some(service) = mismatch(&old.caps, &caps).filter(|_| !caps.is_empty()) {
            return invalid(format!("key for {name} exists but cap {service} does not match"));
        }
        return Ok(old.clone());
    }
    let auth = EntityAuth { key: Key::generate_as(kind, edit.now.wall, edit.rng), caps };
    edit.push(Change::Auth(name.clone(), Some(auth.clone())));
    Ok(auth)
}

/// Key and name alone, as `get-or-create` prints it.
fn short_keyring(name: &EntityName, auth: &EntityAuth) -> String {
    keyring(name, &EntityAuth { key: auth.key.clone(), caps: Caps::new() }).to_string()
}

pub fn get_or_create(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let name = entity(args)?;
    let auth = make(edit, args, &name, parse_caps(&args.list("caps"))?)?;
    answer(args, || json!([entity_json(&name, &auth)]), || short_keyring(&name, &auth))
}

pub fn get_or_create_key(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let name = entity(args)?;
    let auth = make(edit, args, &name, parse_caps(&args.list("caps"))?)?;
    let key = auth.key.to_base64();
    answer(args, || json!({ "key": key }), || key.clone())
}

pub fn caps(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let name = entity(args)?;
    let caps = parse_caps(&args.list("caps"))?;
    let Some(old) = edit.base.auth.get(&name) else { return missing(format!("couldn't find entry {name}")) };
    edit.push(Change::Auth(name.clone(), Some(EntityAuth { key: old.key.clone(), caps })));
    said(format!("updated caps for {name}"))
}

pub fn rm(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let name = entity(args)?;
    if !edit.base.auth.contains_key(&name) {
        return said(format!("entity {name} does not exist"));
    }
    if args.str("entity") == "mon." {
        return Err(Failure::new(Errno::EPERM, "the monitors' own key can't be removed"));
    }
    edit.push(Change::Auth(name, None));
    said("updated")
}

/// One `PATH PERMISSION [root_squash]` of `fs authorize`.
struct PathGrant<'a> {
    path: &'a str,
    perm: &'a str,
    root_squash: bool,
}

fn path_grants(words: &[String]) -> Result<Vec<PathGrant<'_>>, Failure> {
    let mut out = Vec::new();
    let mut words = words.iter().map(String::as_str).peekable();
    while let Some(path) = words.next() {
        let Some(perm) = words.next() else { return invalid("give pairs of path and permission, as / rw") };
        check_permission(perm)?;
        let root_squash = words.next_if_eq(&"root_squash").is_some();
        out.push(PathGrant { path, perm, root_squash });
    }
    if out.is_empty() { invalid("give pairs of path and permission, as / rw") } else { Ok(out) }
}

fn check_permission(perm: &str) -> Result<(), Failure> {
    let flags = match (perm.strip_prefix("rw"), perm) {
        (Some(flags), _) => flags,
        (None, "r") => "",
        _ => return invalid("Permission flags must start with 'r' or 'rw'."),
    };
    let mut last = '\0';
    for flag in flags.chars() {
        if last >= flag {
            return invalid("Permission flags (except 'rw') must be specified in alphabetical order.");
        }
        if !matches!(flag, 'p' | 's') {
            return invalid(format!("Unknown permission flag '{flag}'."));
        }
        last = flag;
    }
    Ok(())
}

pub fn fs_authorize(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let fs = args.str("filesystem");
    let name = entity(args)?;
    let all = matches!(fs, "*" | "all");
    if !all && edit.fsmap_now().by_name(fs).is_none() {
        return invalid(format!("filesystem {fs} does not exist."));
    }
    let only = if all { String::new() } else { format!(" fsname={fs}") };
    let words = args.list("caps");
    let grants = path_grants(&words)?;
    let one = |g: &PathGrant<'_>| {
        let path = if g.path == "/" { String::new() } else { format!(" path={}", g.path) };
        let squash = if g.root_squash { " root_squash" } else { "" };
        format!("allow {}{only}{path}{squash}", g.perm)
    };
    let mds: Vec<String> = grants.iter().map(one).collect();
    let access = if grants.iter().any(|g| g.perm.starts_with("rw")) { "rw" } else { "r" };
    let data = if all { "*" } else { fs };
    let list = [
        "mds",
        &mds.join(", "),
        "mon",
        &format!("allow r{only}"),
        "osd",
        &format!("allow {access} tag cephfs data={data}"),
    ];
    let caps = parse_caps(&list.map(str::to_owned))?;
    // A key with other capabilities is neither widened nor narrowed by this.
    if let Some(old) = edit.base.auth.get(&name)
        && caps.iter().any(|(service, text)| old.caps.get(service) != Some(text))
    {
        return invalid(format!(
            "{name} already has fs capabilities that differ from those supplied. To generate a new auth key for {name}, \
             first remove {name} from configuration files, execute 'ceph auth rm {name}', then execute this command again."
        ));
    }
    let auth = match edit.base.auth.get(&name) {
        Some(old) => old.clone(),
        None => make(edit, args, &name, caps)?,
    };
    answer(args, || json!([entity_json(&name, &auth)]), || short_keyring(&name, &auth))
}

//! `dashboard …`: the users and the certificate of the dashboard. They are stored under Ceph's keys, and each
//! monitor's process reads them there.

use crate::commands::reply::{Outcome, said, structured};
use crate::domain::modules::{CERTIFICATE, CERTIFICATE_KEY, USERS};
use crate::edit::Edit;
use crate::entry::Change;
use crate::failure::{Failure, invalid, missing};
use crate::view::View;
use auth::hash_password;
use decl::Args;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use wire::Errno;

/// What a user may do: everything, or look.
const ROLES: [&str; 2] = ["administrator", "read-only"];
/// Shortest password, unless `--force-password` is given.
const MIN_PASSWORD: usize = 8;
/// Longest password: the log-in page sends no more.
const MAX_PASSWORD: usize = 1024;
/// The most users: all of them are one value of the store.
const MAX_USERS: usize = 100;
/// The longest certificate chain, in bytes.
const MAX_PEM: usize = 60_000;

fn users(kv: &BTreeMap<String, Vec<u8>>) -> serde_json::Map<String, Value> {
    let stored: Value =
        kv.get(USERS).and_then(|bytes| serde_json::from_slice(bytes).ok()).unwrap_or_default();
    stored["users"].as_object().cloned().unwrap_or_default()
}

fn store(edit: &mut Edit<'_>, users: serde_json::Map<String, Value>) {
    let json = json!({ "users": users, "roles": {}, "version": 2 });
    edit.push(Change::Kv(USERS.to_owned(), Some(json.to_string().into_bytes())));
}

/// A user without what nobody needs to see.
fn shown(user: &Value) -> Value {
    let mut user = user.clone();
    if let Some(fields) = user.as_object_mut() {
        fields.remove("password");
    }
    user
}

fn no_user(name: &str) -> Failure {
    Failure::new(Errno::ENOENT, format!("User '{name}' does not exist"))
}

/// The password in the file given with `-i`.
fn password(args: &Args, input: &[u8]) -> Result<String, Failure> {
    let text =
        std::str::from_utf8(input).map_err(|_| Failure::new(Errno::EINVAL, "the password is not UTF-8"))?;
    let password = text.trim_end_matches(['\n', '\r']);
    let (length, forced) = (password.chars().count(), args.flag("force_password"));
    match length {
        0 => invalid("no password: write it into a file and give that with -i"),
        _ if password.len() > MAX_PASSWORD => invalid(format!("the password has over {MAX_PASSWORD} bytes")),
        _ if length < MIN_PASSWORD && !forced => invalid(format!(
            "the password has {length} characters, fewer than {MIN_PASSWORD}: choose a longer one or add \
             --force-password"
        )),
        _ => Ok(password.to_owned()),
    }
}

fn check_role(role: &str) -> Result<(), Failure> {
    match ROLES.contains(&role) {
        true => Ok(()),
        false => missing(format!("Role '{role}' does not exist: there are {}", ROLES.join(" and "))),
    }
}

pub fn user_create(edit: &mut Edit<'_>, args: &Args, input: &[u8]) -> Outcome {
    let (name, mut all) = (args.str("username"), users(&edit.base.kv));
    if name.is_empty() || name.len() > 64 || name.chars().any(char::is_control) {
        return invalid("a user's name has 1 to 64 printable characters");
    }
    if all.contains_key(name) {
        return Err(Failure::new(Errno::EEXIST, format!("User '{name}' already exists")));
    }
    if all.len() >= MAX_USERS {
        return invalid(format!("there are {MAX_USERS} users, which is the most"));
    }
    let roles: Vec<&str> = args.opt_str("rolename").into_iter().collect();
    roles.iter().try_for_each(|role| check_role(role))?;
    let password = hash_password(&password(args, input)?, edit.rng);
    let user = json!({
        "username": name, "roles": roles, "password": password, "name": null, "email": null,
        "lastUpdate": edit.stamp().sec, "enabled": true, "pwdExpirationDate": null,
        "pwdUpdateRequired": false,
    });
    all.insert(name.to_owned(), user.clone());
    store(edit, all);
    structured(args, &shown(&user))
}

/// Changes a user, and answers with it.
fn change(edit: &mut Edit<'_>, args: &Args, change: impl FnOnce(&mut Value)) -> Outcome {
    let (name, mut all) = (args.str("username"), users(&edit.base.kv));
    let Some(user) = all.get_mut(name) else { return Err(no_user(name)) };
    change(user);
    user["lastUpdate"] = edit.stamp().sec.into();
    let user = shown(user);
    store(edit, all);
    structured(args, &user)
}

pub fn user_set_password(edit: &mut Edit<'_>, args: &Args, input: &[u8]) -> Outcome {
    let password = hash_password(&password(args, input)?, edit.rng);
    change(edit, args, |user| user["password"] = password.into())
}

pub fn user_set_roles(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let roles = args.list("roles");
    roles.iter().try_for_each(|role| check_role(role))?;
    change(edit, args, |user| user["roles"] = json!(roles))
}

pub fn user_enable(edit: &mut Edit<'_>, args: &Args, enabled: bool) -> Outcome {
    change(edit, args, |user| user["enabled"] = enabled.into())
}

pub fn user_delete(edit: &mut Edit<'_>, args: &Args, _: &[u8]) -> Outcome {
    let (name, mut all) = (args.str("username"), users(&edit.base.kv));
    if all.remove(name).is_none() {
        return Err(no_user(name));
    }
    store(edit, all);
    said(format!("User '{name}' deleted"))
}

pub fn user_show(view: &View<'_>, args: &Args) -> Outcome {
    let all = users(&view.state.kv);
    match args.opt_str("username") {
        None => structured(args, &all.keys().cloned().collect()),
        Some(name) => match all.get(name) {
            Some(user) => structured(args, &shown(user)),
            None => Err(no_user(name)),
        },
    }
}

fn set_pem(edit: &mut Edit<'_>, input: &[u8], key: &str, what: &str, done: &str) -> Outcome {
    let text = std::str::from_utf8(input).unwrap_or_default();
    if !text.contains("-----BEGIN ") || !text.contains(what) {
        return invalid(format!("no PEM file with a {what}: give one with -i"));
    }
    if input.len() > MAX_PEM {
        return invalid(format!("the file has over {MAX_PEM} bytes"));
    }
    edit.push(Change::Kv(key.to_owned(), Some(input.to_vec())));
    said(done)
}

pub fn set_certificate(edit: &mut Edit<'_>, _: &Args, input: &[u8]) -> Outcome {
    set_pem(edit, input, CERTIFICATE, "CERTIFICATE", "SSL certificate updated")
}

pub fn set_certificate_key(edit: &mut Edit<'_>, _: &Args, input: &[u8]) -> Outcome {
    set_pem(edit, input, CERTIFICATE_KEY, "PRIVATE KEY", "SSL certificate key updated")
}

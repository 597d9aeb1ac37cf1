//! The named sets of `mon` capabilities.

use super::mon_grant::{Constraint, MonGrant};
use super::perm::Perm;

/// The grants of a profile; `None` if it is unknown: a grant that we would not enforce is refused, not
/// stored.
pub(super) fn expand(name: &str) -> Option<Vec<MonGrant>> {
    let rwx = Perm::RW.and(Perm::X);
    let (r, w, rw) = (Perm::R, Perm::W, Perm::RW);
    let reader = [("mon", r), ("osd", r), ("pg", r)];
    let everywhere = |perm| vec![MonGrant::Service { service: None, perm }];
    let mut grants = match name {
        "read-only" => everywhere(r),
        "read-write" => everywhere(rw),
        "mon" => services(&[("mon", rwx), ("log", rwx)]),
        "osd" => services(&[("osd", rwx), ("mon", r), ("pg", rw), ("log", w)]),
        "mds" => {
            let mut grants = services(&[("mds", rwx), ("mon", r), ("osd", r), ("log", w)]);
            let commands = ["osd pool rmsnap", "osd blocklist", "osd blacklist"];
            grants.extend(commands.map(|prefix| command(prefix, &[])));
            grants
        }
        "mgr" => services(&[
            ("mgr", rwx),
            ("log", rw),
            ("mon", rw),
            ("mds", rw),
            ("fs", rw),
            ("osd", rw),
            ("pg", rw),
            ("auth", rwx),
            ("config-key", rw),
            ("config", rw),
        ]),
        "rbd" | "rbd-mirror" => {
            let mut grants = services(&reader);
            grants.extend(blocklist());
            if name == "rbd-mirror" {
                grants.push(key_command("config-key get", Constraint::Prefix("rbd/mirror/".into())));
            }
            grants
        }
        "simple-rados-client-with-blocklist" => services(&reader).into_iter().chain(blocklist()).collect(),
        "rbd-read-only" | "simple-rados-client" => services(&reader),
        "fs-client" => services(&[("mon", r), ("mds", r), ("osd", r), ("pg", r)]),
        // Reports of crashes go to the manager elsewhere; here monitors keep them.
        "crash" => services(&[("mon", r)]).into_iter().chain([command("crash post", &[])]).collect(),
        "role-definer" => services(&[("mon", r), ("auth", rwx)]),
        bootstrap => bootstrap.strip_prefix("bootstrap-").and_then(bootstrap_of)?,
    };
    if matches!(name, "osd" | "mds") {
        // A host files reports of its daemons' crashes with a key that it has.
        grants.push(command("crash post", &[]));
    }
    if matches!(name, "osd" | "mds" | "mon" | "mgr") {
        let commands =
            ["config-key get", "config-key put", "config-key set", "config-key exists", "config-key delete"];
        grants.extend(commands.map(|prefix| key_command(prefix, Constraint::Private)));
    }
    Some(grants)
}

/// The commands that create a daemon or client of one kind.
fn bootstrap_of(kind: &str) -> Option<Vec<MonGrant>> {
    let equals = |text: &str| Constraint::Equals(text.to_owned());
    let prefix = |text: &str| Constraint::Prefix(text.to_owned());
    let create = match kind {
        "osd" => return Some(bootstrap(&[("osd new", &[]), ("osd purge-new", &[])])),
        "mds" => vec![
            ("entity", prefix("mds.")),
            ("caps_mon", equals("allow profile mds")),
            ("caps_osd", equals("allow rwx")),
            ("caps_mds", equals("allow")),
        ],
        "mgr" => vec![("entity", prefix("mgr.")), ("caps_mon", equals("allow profile mgr"))],
        "rgw" => vec![
            ("entity", prefix("client.rgw.")),
            ("caps_mon", equals("allow rw")),
            ("caps_osd", equals("allow rwx")),
        ],
        "rbd" | "rbd-mirror" => vec![
            ("entity", prefix("client.")),
            ("caps_mon", equals(if kind == "rbd" { "profile rbd" } else { "profile rbd-mirror" })),
            ("caps_osd", Constraint::RbdProfiles),
        ],
        _ => return None,
    };
    Some(bootstrap(&[("auth get-or-create", &create)]))
}

fn bootstrap(commands: &[(&str, &[(&str, Constraint)])]) -> Vec<MonGrant> {
    let mut grants = services(&[("mon", Perm::R), ("osd", Perm::R)]);
    grants.push(command("mon getmap", &[]));
    grants.extend(commands.iter().map(|(prefix, args)| command(prefix, args)));
    grants
}

fn services(list: &[(&str, Perm)]) -> Vec<MonGrant> {
    let grant =
        |&(service, perm): &(&str, Perm)| MonGrant::Service { service: Some(service.to_owned()), perm };
    list.iter().map(grant).collect()
}

fn command(prefix: &str, args: &[(&str, Constraint)]) -> MonGrant {
    let args = args.iter().map(|(name, c)| ((*name).to_owned(), c.clone())).collect();
    MonGrant::Command { prefix: prefix.to_owned(), args }
}

fn key_command(prefix: &str, key: Constraint) -> MonGrant {
    command(prefix, &[("key", key)])
}

/// A client that is gone and holds a lock may be shut out, but no more than that one.
fn blocklist() -> [MonGrant; 2] {
    [("osd blocklist", "blocklistop"), ("osd blacklist", "blacklistop")].map(|(prefix, op)| {
        command(prefix, &[(op, Constraint::Equals("add".into())), ("addr", Constraint::OneClient)])
    })
}

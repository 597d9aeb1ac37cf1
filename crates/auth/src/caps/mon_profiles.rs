//! The named sets of `mon` capabilities.

use super::Perm;
use super::mon::{Constraint, MonGrant};

/// The grants of a profile; `None` where it is not known: a grant that we would not enforce is refused, not stored.
pub(super) fn expand(name: &str) -> Option<Vec<MonGrant>> {
    let rwx = Perm::RW.and(Perm::X);
    let w = Perm::W;
    let r = Perm::R;
    let reader = [("mon", r), ("osd", r), ("pg", r)];
    Some(match name {
        "admin" => vec![MonGrant::Service { service: None, perm: Perm::ALL }],
        "mon" => services(&[
            ("mon", Perm::ALL),
            ("osd", rwx),
            ("mds", rwx),
            ("auth", rwx),
            ("log", w),
            ("config", rwx),
            ("pg", rwx),
        ]),
        "osd" => services(&[("mon", r), ("osd", rwx), ("auth", r), ("log", w), ("pg", rwx), ("config", r)]),
        "mds" => services(&[
            ("mon", r),
            ("mds", rwx),
            ("fs", r),
            ("osd", r),
            ("auth", r),
            ("log", w),
            ("pg", r),
            ("config", r),
        ])
        .into_iter()
        .chain([
            command("osd blocklist", &[("blocklistop", "add")]),
            command("osd blacklist", &[("blacklistop", "add")]),
        ])
        .collect(),
        "mgr" => services(&[
            ("mon", Perm::ALL),
            ("osd", Perm::ALL),
            ("mds", Perm::ALL),
            ("fs", Perm::ALL),
            ("mgr", Perm::ALL),
            ("pg", Perm::ALL),
            ("auth", r),
            ("log", Perm::RW),
            ("config", rwx),
            ("config-key", rwx),
        ]),
        "rbd" | "rbd-mirror" | "simple-rados-client-with-blocklist" => services(&reader)
            .into_iter()
            .chain([
                command("osd blocklist", &[("blocklistop", "add")]),
                command("osd blacklist", &[("blacklistop", "add")]),
            ])
            .collect(),
        "rbd-read-only" | "simple-rados-client" | "crash" => services(&reader),
        "fs-client" => services(&[("mon", r), ("mds", r), ("fs", r), ("osd", r), ("pg", r)]),
        "role-definer" => services(&[("mon", r), ("auth", Perm::ALL)]),
        "bootstrap-osd" => vec![
            MonGrant::Service { service: Some("mon".into()), perm: r },
            MonGrant::Command { prefix: "osd new".into(), args: Default::default() },
            MonGrant::Command { prefix: "osd purge-new".into(), args: Default::default() },
            MonGrant::Command { prefix: "mon getmap".into(), args: Default::default() },
        ],
        "bootstrap-mds" => bootstrap(
            "mds.",
            &[("caps_mon", "allow profile mds"), ("caps_osd", "allow rwx"), ("caps_mds", "allow")],
        ),
        "bootstrap-mgr" => bootstrap("mgr.", &[("caps_mon", "allow profile mgr")]),
        "bootstrap-rgw" => bootstrap("client.rgw.", &[("caps_mon", "allow rw"), ("caps_osd", "allow rwx")]),
        "bootstrap-rbd" | "bootstrap-rbd-mirror" => bootstrap("client.", &[("caps_mon", "profile rbd")]),
        _ => return None,
    })
}

fn services(list: &[(&str, Perm)]) -> Vec<MonGrant> {
    let grant =
        |&(service, perm): &(&str, Perm)| MonGrant::Service { service: Some(service.to_owned()), perm };
    list.iter().map(grant).collect()
}

fn command(prefix: &str, args: &[(&str, &str)]) -> MonGrant {
    let equals = |&(k, v): &(&str, &str)| (k.to_owned(), Constraint::Equals(v.to_owned()));
    MonGrant::Command { prefix: prefix.to_owned(), args: args.iter().map(equals).collect() }
}

/// May create one kind of principal, with exactly these capabilities.
fn bootstrap(entity: &str, caps: &[(&str, &str)]) -> Vec<MonGrant> {
    let create = |prefix: &str| {
        let MonGrant::Command { prefix, mut args } = command(prefix, caps) else {
            unreachable!("command() makes commands")
        };
        args.insert("entity".to_owned(), Constraint::Prefix(entity.to_owned()));
        MonGrant::Command { prefix, args }
    };
    let read = MonGrant::Service { service: Some("mon".into()), perm: Perm::R };
    vec![read, create("auth get-or-create"), create("auth add")]
}

//! What an administrator can do on the page: each action is one command of the monitors or of a metadata
//! server, shown before it runs.

use crate::files::address_of;
use crate::monitors::{Monitors, Refused};
use crate::value::text;
use serde_json::{Map, Value, json};

/// Flags of the OSD map, with what each of them does.
const FLAGS: &[(&str, &str)] = &[
    (
        "noout",
        "OSDs that are down stay in: their data is not copied elsewhere while a host is being serviced",
    ),
    ("nodown", "OSDs that others can't reach are not marked down: requests to dead ones wait"),
    ("noup", "OSDs that start are not marked up: their data stays unused"),
    ("noin", "OSDs that start are not marked in: no data moves to them"),
    ("nobackfill", "copies that are too old for the log are not made up for"),
    ("norebalance", "copies that only lie in the wrong place are not moved"),
    ("norecover", "lacking copies of objects are not made: the cluster stays degraded"),
    ("noscrub", "copies are not compared"),
    ("nodeep-scrub", "the data of copies is not compared"),
];

/// A command to be run, and what it will do.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Plan {
    /// As the monitors get it, or a metadata server.
    pub command: Value,
    /// The metadata server that gets it, by name; `None` for the monitors.
    pub server: Option<String>,
    /// As somebody would type it.
    pub text: String,
    /// What it does, one or two sentences.
    pub effect: String,
}

/// An action and its arguments, in the order in which they are typed.
struct Action {
    name: &'static str,
    title: &'static str,
    args: &'static [&'static str],
    plan: fn(&[&str]) -> Result<Plan, String>,
}

const ACTIONS: &[Action] = &[
    Action {
        name: "osd-out",
        title: "Mark an OSD out",
        args: &["osd"],
        plan: |a| {
            let effect = "Its data is copied to other OSDs. It can be marked in again at any time.";
            osd(a[0], "out", effect)
        },
    },
    Action {
        name: "osd-in",
        title: "Mark an OSD in",
        args: &["osd"],
        plan: |a| {
            let effect = "Data moves to it again, as its weight says.";
            osd(a[0], "in", effect)
        },
    },
    Action {
        name: "osd-scrub",
        title: "Scrub an OSD",
        args: &["osd"],
        plan: |a| {
            let effect =
                "The PGs whose primary it is compare their copies: objects, sizes and xattrs. Reads little.";
            scrub(a[0], "scrub", effect)
        },
    },
    Action {
        name: "osd-deep-scrub",
        title: "Deep-scrub an OSD",
        args: &["osd"],
        plan: |a| {
            let effect =
                "The PGs whose primary it is compare all data of their copies. Reads everything once.";
            scrub(a[0], "deep-scrub", effect)
        },
    },
    Action {
        name: "flag-set",
        title: "Set a flag of all OSDs",
        args: &["flag"],
        plan: |a| {
            let (name, does) = flag(a[0])?;
            let effect = format!("While it is set, {does}. Health shows OSDMAP_FLAGS until it is unset.");
            Ok(plan(json!({ "prefix": "osd set", "key": name }), &["osd", "set", name], effect))
        },
    },
    Action {
        name: "flag-unset",
        title: "Unset a flag of all OSDs",
        args: &["flag"],
        plan: |a| {
            let (name, does) = flag(a[0])?;
            let effect = format!("Ends this: {does}.");
            Ok(plan(json!({ "prefix": "osd unset", "key": name }), &["osd", "unset", name], effect))
        },
    },
    Action {
        name: "mds-fail",
        title: "Let another metadata server take over",
        args: &["mds"],
        plan: |a| {
            let who = word(a[0])?;
            let effect = "Its rank goes to a standby, which takes some seconds: mounts wait. Without a \
                          standby the rank stays empty until one starts.";
            Ok(plan(
                json!({ "prefix": "mds fail", "role_or_gid": who }),
                &["mds", "fail", who],
                effect.into(),
            ))
        },
    },
    Action {
        name: "client-evict",
        title: "Evict a client",
        args: &["mds", "client"],
        plan: |a| {
            let (server, id) = (word(a[0])?, client_id(a[1])?);
            let effect = "Its sessions with all ranks end, and OSDs refuse its address for an hour: what \
                          it has not written back is lost, its locks and capabilities are free. `nacre \
                          mount` comes back by itself with another address; Linux' mount fails until it is \
                          mounted again, unless it was with recover_session=clean.";
            let filter = format!("id={id}");
            let command = json!({ "prefix": "client evict", "filters": [filter] });
            let tell = ["tell", &format!("mds.{server}"), "client", "evict", &filter];
            Ok(Plan { server: Some(server.to_owned()), ..plan(command, &tell, effect.to_owned()) })
        },
    },
    Action {
        name: "health-mute",
        title: "Mute a health code",
        args: &["code", "ttl"],
        plan: |a| {
            let (code, ttl) = (word(a[0])?, word(a[1])?);
            let effect =
                format!("It no longer counts for the status, for {ttl}, until it is gone or gets worse.");
            Ok(plan(
                json!({ "prefix": "health mute", "code": code, "ttl": ttl }),
                &["health", "mute", code, ttl],
                effect,
            ))
        },
    },
    Action {
        name: "health-unmute",
        title: "Unmute a health code",
        args: &["code"],
        plan: |a| {
            let code = word(a[0])?;
            let effect = "It counts for the status again.".to_owned();
            Ok(plan(json!({ "prefix": "health unmute", "code": code }), &["health", "unmute", code], effect))
        },
    },
    Action {
        name: "crash-archive-all",
        title: "Archive all crash reports",
        args: &[],
        plan: |_| {
            let effect = "They are kept, and RECENT_CRASH ends.".to_owned();
            Ok(plan(json!({ "prefix": "crash archive-all" }), &["crash", "archive-all"], effect))
        },
    },
];

fn plan(command: Value, words: &[&str], effect: String) -> Plan {
    Plan { command, server: None, text: format!("ceph {}", words.join(" ")), effect }
}

/// A name that needs no quotes in a shell.
fn word(text: &str) -> Result<&str, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    match !text.is_empty() && text.len() <= 128 && text.chars().all(plain) {
        true => Ok(text),
        false => Err(format!("`{}` is no name", text.chars().take(40).collect::<String>())),
    }
}

fn flag(name: &str) -> Result<(&'static str, &'static str), String> {
    let known = FLAGS.iter().find(|(flag, _)| *flag == name).copied();
    known.ok_or_else(|| {
        format!("no such flag: there are {}", FLAGS.iter().map(|f| f.0).collect::<Vec<_>>().join(", "))
    })
}

fn osd_id(text: &str) -> Result<u32, String> {
    let id = text.strip_prefix("osd.").unwrap_or(text).parse();
    id.map_err(|_| format!("`{}` is no OSD: give its number", text.chars().take(40).collect::<String>()))
}

fn client_id(text: &str) -> Result<u64, String> {
    let id = text.strip_prefix("client.").unwrap_or(text).parse();
    id.map_err(|_| format!("`{}` is no client: give its number", text.chars().take(40).collect::<String>()))
}

fn osd(id: &str, verb: &str, effect: &str) -> Result<Plan, String> {
    let id = osd_id(id)?.to_string();
    let command = json!({ "prefix": format!("osd {verb}"), "ids": [id] });
    Ok(plan(command, &["osd", verb, &id], effect.to_owned()))
}

fn scrub(id: &str, verb: &str, effect: &str) -> Result<Plan, String> {
    let id = osd_id(id)?.to_string();
    let command = json!({ "prefix": format!("osd {verb}"), "who": id });
    Ok(plan(command, &["osd", verb, &id], effect.to_owned()))
}

/// All actions, for the page.
pub(crate) fn list() -> Value {
    let one = |action: &Action| json!({ "name": action.name, "title": action.title, "args": action.args });
    let flags: Map<String, Value> =
        FLAGS.iter().map(|(name, does)| ((*name).to_owned(), (*does).into())).collect();
    json!({ "actions": ACTIONS.iter().map(one).collect::<Vec<_>>(), "flags": flags })
}

/// What an action with these arguments would do.
pub(crate) fn plan_of(name: &str, args: &Value) -> Result<Plan, String> {
    let action = ACTIONS.iter().find(|action| action.name == name).ok_or("there is no such action")?;
    let args: Vec<&str> = action.args.iter().map(|arg| text(&args[arg])).collect();
    (action.plan)(&args)
}

fn tell(monitors: &dyn Monitors, server: &str, command: &Value) -> Result<Vec<u8>, Refused> {
    let none = || Refused { code: -2, text: format!("mds.{server} holds no rank any more") };
    let fsmap = monitors.ask(json!({ "prefix": "fs dump" }))?;
    let addr = address_of(&fsmap, server).ok_or_else(none)?;
    let answer = monitors.tell(&[(addr, command.clone())]).into_iter().next();
    answer.unwrap_or_else(|| Err(none()))
}

/// Runs a plan for a user. The cluster log has who did what before it is done.
pub(crate) fn run(monitors: &dyn Monitors, plan: &Plan, user: &str) -> Result<String, Refused> {
    let line = format!("dashboard: {user} runs `{}`", plan.text);
    monitors.command(&json!({ "prefix": "log", "logtext": [line] }))?;
    let output = match &plan.server {
        None => monitors.command(&plan.command)?,
        Some(server) => tell(monitors, server, &plan.command)?,
    };
    Ok(String::from_utf8_lossy(&output).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_says_its_command_and_what_it_does() {
        let args = json!({
            "osd": "3", "flag": "noout", "mds": "a", "client": "4123", "code": "OSD_DOWN", "ttl": "1h",
        });
        for action in ACTIONS {
            let plan = plan_of(action.name, &args).expect(action.name);
            assert!(plan.text.starts_with("ceph ") && plan.effect.len() > 20, "{plan:?}");
            if let Some(server) = &plan.server {
                assert!(plan.text.starts_with(&format!("ceph tell mds.{server} ")), "{plan:?}");
                continue;
            }
            let (cmd, _) = decl::Args::parse(&plan.command.to_string()).expect("the monitors know it");
            let typed = plan.text.trim_start_matches("ceph ");
            assert!(typed.starts_with(&cmd.prefix()), "{typed}");
        }
    }

    #[test]
    fn arguments_that_are_none_are_refused() {
        for (name, args) in [
            ("osd-out", json!({ "osd": "all; rm" })),
            ("osd-out", json!({})),
            ("flag-set", json!({ "flag": "pause" })),
            ("mds-fail", json!({ "mds": "a b" })),
            ("client-evict", json!({ "mds": "a", "client": "*" })),
            ("health-mute", json!({ "code": "OSD_DOWN", "ttl": "" })),
            ("reboot", json!({})),
        ] {
            assert!(plan_of(name, &args).is_err(), "{name}");
        }
    }
}

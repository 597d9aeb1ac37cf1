//! Who carries a command out, and whether its sender may give it.

use auth::{MgrCap, Perm};
use decl::{Args, Cmd, Command, MgrCmd};
use wire::Errno;

/// What is to be done with a command.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Decision {
    /// The worker carries it out.
    Run(MgrCmd, Args),
    /// The monitors carry it out.
    PassOn,
    /// Its output is known.
    Answer(String),
    /// It is refused.
    Refuse(Errno, String),
}

/// Commands of monitors that Ceph's manager carries out, besides those of the services `mgr` and `pg`.
const MANAGERS: [&str; 12] = [
    "fs status",
    "osd blocked-by",
    "osd deep-scrub",
    "osd df",
    "osd ok-to-stop",
    "osd perf",
    "osd pool stats",
    "osd repair",
    "osd safe-to-destroy",
    "osd scrub",
    "osd status",
    "version",
];

/// True if the manager passes a command on to the monitors. Others are not passed on: with the manager's own
/// key they might do what their sender may not.
fn passes_on(cmd: Cmd) -> bool {
    matches!(cmd.decl().module, "mgr" | "pg") || MANAGERS.contains(&cmd.prefix().as_str())
}

/// Decides about the command `text` of a session with these capabilities.
pub(crate) fn decide(text: &str, caps: &MgrCap) -> Decision {
    match Args::parse_for_manager(text) {
        Err(error) => return Decision::Refuse(Errno::EINVAL, error.0),
        Ok(Some((cmd, args))) => {
            return match may_run(caps, cmd.decl(), &args) {
                Ok(()) => Decision::Run(cmd, args),
                Err(why) => Decision::Refuse(Errno::EACCES, why),
            };
        }
        Ok(None) => {}
    }
    match Args::parse(text) {
        Err(error) => Decision::Refuse(Errno::EINVAL, error.0),
        Ok((Cmd::Descriptions, _)) => {
            Decision::Answer(decl::describe::manager_descriptions(passes_on).to_string())
        }
        Ok((cmd, _)) if !passes_on(cmd) => {
            Decision::Refuse(Errno::EINVAL, format!("`{}` is a command for monitors", cmd.prefix()))
        }
        Ok((cmd, args)) => match may_run(caps, cmd.decl(), &args) {
            Ok(()) => Decision::PassOn,
            Err(why) => Decision::Refuse(Errno::EACCES, why),
        },
    }
}

fn may_run(caps: &MgrCap, command: &Command, args: &Args) -> Result<(), String> {
    let perm = Perm::of_command(command.perm);
    match caps.allows_command(command.module, perm, &command.prefix(), &args.texts()) {
        true => Ok(()),
        false => Err(format!(
            "access denied: does your client key have mgr caps? `{}` needs `{}`",
            command.prefix(),
            command.perm
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(text: &str, caps: &str) -> String {
        let text = format!(
            "{{\"prefix\":\"{text}\",\"vol_name\":\"a\",\"sub_name\":\"b\",\"entity\":\"client.x\"}}"
        );
        match decide(&text, &MgrCap::parse(caps).expect("capabilities")) {
            Decision::Run(cmd, _) => format!("run {cmd:?}"),
            Decision::PassOn => "pass on".into(),
            Decision::Answer(_) => "answer".into(),
            Decision::Refuse(errno, _) => format!("{errno}"),
        }
    }

    #[test]
    fn what_a_key_may_depends_on_its_capabilities_and_the_command() {
        assert_eq!(decided("fs subvolume create", "allow rw"), "run SubvolumeCreate");
        assert_eq!(decided("fs subvolume create", "allow r"), "EACCES");
        assert_eq!(decided("fs subvolume ls", "allow r"), "run SubvolumeLs");
        assert_eq!(decided("fs subvolume ls", "allow command \"fs subvolume ls\""), "run SubvolumeLs");
        assert_eq!(decided("fs subvolume ls", ""), "EACCES");
        assert_eq!(decided("fs subvolume ls", "profile rbd pool=x"), "EACCES", "only for pools");
        assert_eq!(decided("pg dump", "allow r"), "pass on");
        assert_eq!(decided("balancer off", "allow r"), "EACCES");
        assert_eq!(decided("get_command_descriptions", ""), "answer");
        assert_eq!(decided("nosuch", "allow *"), "EINVAL");
    }

    #[test]
    fn the_managers_own_key_serves_nobody_to_change_what_monitors_keep() {
        for text in ["auth get", "auth ls", "config-key ls", "config dump", "osd tree", "fs ls"] {
            assert_eq!(decided(text, "allow *"), "EINVAL", "{text}");
        }
    }
}

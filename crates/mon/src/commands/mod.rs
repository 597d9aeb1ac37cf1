//! Administrators' commands. A command either reads the committed state and is answered at once, or decides a change on
//! the proposed state and is answered when that is committed.

pub(crate) mod auth_cmds;
pub(crate) mod autoscale_cmds;
pub(crate) mod balancer_cmds;
pub(crate) mod config_cmds;
pub(crate) mod crash;
pub(crate) mod crush_change;
pub(crate) mod crush_cmds;
pub(crate) mod device;
pub(crate) mod df;
pub(crate) mod format;
pub(crate) mod fs_cmds;
pub(crate) mod fs_dump;
pub(crate) mod mds_cmds;
pub(crate) mod mon_cmds;
pub(crate) mod osd_change;
pub(crate) mod osd_df;
pub(crate) mod osd_dump;
pub(crate) mod osd_read;
pub(crate) mod osd_state;
pub(crate) mod osd_tree;
pub(crate) mod pg_cmds;
pub(crate) mod pg_json;
pub(crate) mod pool;
pub(crate) mod pool_change;
pub(crate) mod pool_opts;
pub(crate) mod pool_read;
pub(crate) mod quorum;
pub(crate) mod scrub;
pub(crate) mod status;
mod table;
mod weight_set;

use crate::config::MonConfig;
use crate::edit::Edit;
use crate::mon::{Mon, Origin, Out};
use crate::session::Sessions;
use crate::soft::Soft;
use crate::state::State;
use crate::storage::Storage;
use auth::Perm;
use decl::{Args, Cmd};
use msgs::errno;
use node::ConnId;
use std::collections::BTreeMap;
use stdx::{Bufs, Now};

/// What reading commands see.
pub(crate) struct View<'a> {
    /// Committed.
    pub state: &'a State,
    /// Statistics.
    pub soft: &'a Soft,
    /// Who is connected.
    pub sessions: &'a Sessions,
    /// Of this monitor.
    pub config: &'a MonConfig,
    /// Now.
    pub now: Now,
}

impl View<'_> {
    /// An option as monitors see it.
    pub fn option<T: crate::config::FromOption>(&self, name: &str) -> T {
        crate::edit::option(self.config, self.state, name)
    }

    /// An option of Ceph's manager, whose work the leader does.
    pub fn mgr_option<T: crate::config::FromOption>(&self, name: &str) -> T {
        crate::edit::mgr_option(self.config, self.state, name)
    }
}

/// What a command answers.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Reply {
    /// Status text, shown on standard error.
    pub status: String,
    /// Output.
    pub data: Vec<u8>,
}

/// Why it did not do it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    /// Positive.
    pub errno: i32,
    /// One sentence.
    pub text: String,
}

/// The outcome of a command.
pub(crate) type Outcome = Result<Reply, Failure>;

impl Failure {
    pub fn new(errno: i32, text: impl Into<String>) -> Self {
        Self { errno, text: text.into() }
    }
}

/// `EINVAL`.
pub(crate) fn invalid<T>(text: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::new(errno::EINVAL, text))
}

/// `ENOENT`.
pub(crate) fn missing<T>(text: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::new(errno::ENOENT, text))
}

/// A status text alone.
pub(crate) fn said(status: impl Into<String>) -> Outcome {
    Ok(Reply { status: status.into(), data: Vec::new() })
}

/// Output alone.
pub(crate) fn output(data: impl Into<Vec<u8>>) -> Outcome {
    Ok(Reply { status: String::new(), data: data.into() })
}

/// Commands of the admin socket beside those on options.
const ADMIN: &[(&str, &str)] = &[
    ("help", "Lists these commands"),
    ("mon_status", "Shows this monitor's place in the quorum"),
    ("ops", "Shows the commands that wait to be committed"),
    ("quorum_status", "Shows which monitors agree"),
    ("status", "Shows the state of the cluster"),
    ("version", "Prints this monitor's version"),
];

/// All commands of the admin socket.
fn admin_commands() -> Vec<(&'static str, &'static str)> {
    ADMIN.iter().chain(decl::settings::COMMANDS).copied().collect()
}

/// Whether a command, as JSON, is one of the admin socket: told to this monitor it is meant for its process, also where the
/// monitors' table has one of the same name.
pub(crate) fn is_local(text: &str) -> bool {
    let parsed: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let prefix = parsed["prefix"].as_str().unwrap_or_default();
    admin_commands().into_iter().any(|(signature, _)| decl::describe::prefix(signature) == prefix)
}

/// How a command is carried out.
pub(crate) enum Handler {
    /// Reads.
    Read(fn(&View<'_>, &Args) -> Outcome),
    /// Changes; the last argument is the input given with `-i`.
    Change(fn(&mut Edit<'_>, &Args, &[u8]) -> Outcome),
    /// Needs the whole monitor: writes to the cluster log.
    Log,
    /// Tells OSDs to scrub.
    Scrub,
}

impl<S: Storage> Mon<S> {
    pub(crate) fn view(&self, now: Now) -> View<'_> {
        View {
            state: self.log.state(),
            soft: &self.soft,
            sessions: &self.sessions,
            config: &self.config,
            now,
        }
    }

    /// A view for what has no use for the time.
    pub(crate) fn view_now(&self) -> View<'_> {
        self.view(Now { mono: self.ticker.next(), wall: stdx::Wall(0) })
    }

    pub(crate) fn mon_command(
        &mut self,
        now: Now,
        conn: ConnId,
        tid: u64,
        m: msgs::MonCommand,
        out: &mut Vec<Out>,
    ) {
        let text = m.cmd.join(" ");
        let outcome = Args::parse(&text).map_err(|e| Failure::new(errno::EINVAL, e.0));
        let (outcome, index) = match outcome {
            Err(failure) => (Err(failure), 0),
            Ok((cmd, args)) => match self.may_run(conn, cmd, &args) {
                true => self.run(now, conn, cmd, &args, &m.data.to_vec()),
                false => (Err(self.denied(conn, cmd, out)), 0),
            },
        };
        let again = self.origin.is_some_and(|o| o.is_again);
        let (r, rs, data) = match outcome {
            Ok(reply) => (0, reply.status, reply.data),
            // It was done, which is why it can't be done again.
            Err(_) if again => (0, String::new(), Vec::new()),
            Err(failure) => (-failure.errno, failure.text, Vec::new()),
        };
        let ack = msgs::MonCommandAck {
            r,
            rs,
            cmd: m.cmd,
            data: Bufs::from(data),
            ..msgs::MonCommandAck::default()
        };
        self.send_orders(out);
        self.after(index, Self::send(conn, tid, msgs::Body::from(ack)), out);
    }

    /// `ceph tell mon.NAME …`: a command for this monitor itself, or any other command.
    pub(crate) fn tell(&mut self, now: Now, conn: ConnId, tid: u64, m: msgs::Command, out: &mut Vec<Out>) {
        let text = m.cmd.join(" ");
        let is_own = self.sessions.get(conn).is_some_and(|s| s.caps.is_allow_all());
        let parsed = if is_own && is_local(&text) { None } else { Some(Args::parse(&text)) };
        let ((r, rs, data), index) = match parsed.unwrap_or_else(|| Err(decl::ArgError(String::new()))) {
            Ok((Cmd::Descriptions, _)) => {
                let all = decl::describe::local_descriptions(&admin_commands(), "mon", true).to_string();
                ((0, String::new(), all.into_bytes()), 0)
            }
            Ok((cmd, args)) if self.may_run(conn, cmd, &args) => {
                let (outcome, index) = self.run(now, conn, cmd, &args, &m.data.to_vec());
                let answer = match outcome {
                    Ok(reply) => (0, reply.status, reply.data),
                    Err(failure) => (-failure.errno, failure.text, Vec::new()),
                };
                (answer, index)
            }
            Ok((cmd, _)) => {
                let failure = self.denied(conn, cmd, out);
                ((-failure.errno, failure.text, Vec::new()), 0)
            }
            Err(_) if is_own => self.tell_admin(now, &text),
            Err(error) => ((-errno::EINVAL, error.0, Vec::new()), 0),
        };
        self.send_orders(out);
        let reply = msgs::CommandReply { r, rs, data: Bufs::from(data) };
        self.after(index, Self::send(conn, tid, msgs::Body::from(reply)), out);
    }

    fn tell_admin(&mut self, now: Now, text: &str) -> ((i32, String, Vec<u8>), u64) {
        let (code, output) = self.admin_command(now, text);
        let answer =
            if code < 0 { (code, output, Vec::new()) } else { (code, String::new(), output.into_bytes()) };
        (answer, 0)
    }

    /// Answers that wait for the log, by the index that they wait for.
    fn ops_json(&self) -> serde_json::Value {
        let one = |(index, _): &(u64, Out)| serde_json::json!({ "description": "an answer that waits to be committed", "index": index });
        let ops: Vec<_> = self.waiting.iter().map(one).collect();
        serde_json::json!({ "num_ops": ops.len(), "ops": ops })
    }

    /// Runs a command; its answer may go out once the index is committed.
    fn run(&mut self, now: Now, conn: ConnId, cmd: Cmd, args: &Args, input: &[u8]) -> (Outcome, u64) {
        match handler(cmd) {
            Handler::Read(read) => {
                let visible = self.visible_state(conn);
                let state = visible.as_ref().unwrap_or(self.log.state());
                (read(&View { state, ..self.view(now) }, args), 0)
            }
            Handler::Change(change) => {
                if let Some(failure) = self.refused_before() {
                    return (Err(failure), self.log.proposed());
                }
                let may_change = self.may_change_fs(conn, cmd, args);
                // A refusal may rest on what is not committed yet: it waits like everything else.
                self.edit(now, |edit| {
                    let outcome = may_change.and_then(|()| change(edit, args, input));
                    let outcome = outcome.and_then(|reply| match edit.too_long_name() {
                        Some(name) => {
                            let text = format!("a name of {} bytes, which is too long", name.len());
                            Err(Failure::new(errno::ENAMETOOLONG, text))
                        }
                        None => Ok(reply),
                    });
                    if outcome.is_err() {
                        edit.discard();
                    }
                    edit.came_to = Some(outcome.as_ref().map(|_| ()).map_err(Failure::clone));
                    outcome
                })
            }
            Handler::Scrub => (self.order_scrub(now, cmd, args), 0),
            Handler::Log => {
                let line = self.log_of(now, conn, args.list("logtext").join(" "));
                self.edit(now, |edit| {
                    line.into_iter().for_each(|line| edit.push(line));
                    said("")
                })
            }
        }
    }

    /// How the command that is being looked at was refused, where this is not the first time that it comes. The client has heard of that, and may
    /// have gone on to what would let it be carried out.
    fn refused_before(&self) -> Option<Failure> {
        let Origin { client, tid, .. } = self.origin?;
        let refused = &self.log.tail().refused;
        let (_, (errno, text)) = refused.iter().find(|(command, _)| *command == (client, tid))?;
        Some(Failure::new(*errno, text.clone()))
    }

    /// The state with the file systems alone that the session may see, where that is not all of it.
    fn visible_state(&self, conn: ConnId) -> Option<State> {
        let session = self.sessions.get(conn).filter(|s| s.caps.hides_fs())?;
        let state = self.log.state();
        Some(State { fsmap: session.fsmap(&state.fsmap), ..state.clone() })
    }

    /// Where a key names file systems, others are not changed with it.
    fn may_change_fs(&self, conn: ConnId, cmd: Cmd, args: &Args) -> Result<(), Failure> {
        let session = self.sessions.get(conn).filter(|s| s.caps.names_fs());
        let (Some(session), Some(name)) = (session, args.opt_str("fs_name").filter(|_| cmd != Cmd::FsNew))
        else {
            return Ok(());
        };
        let exists = self.log.tail().fsmap.by_name(name).is_some();
        if exists && !session.sees_fs(name) {
            return missing(format!("Filesystem not found: '{name}'"));
        }
        if exists && !session.caps.allows_fs(name, Perm::W) {
            return Err(Failure::new(errno::EPERM, format!("Permission denied: '{name}'")));
        }
        Ok(())
    }

    /// What is said of a command that the session may not give.
    fn denied(&self, conn: ConnId, cmd: Cmd, out: &mut Vec<Out>) -> Failure {
        let (prefix, decl) = (cmd.prefix(), cmd.decl());
        let text = format!("`{prefix}` of {}", self.who(conn));
        out.push(node::Output::Event(node::Event::refusal("command_denied", text)));
        let needs = format!("needs mon caps `{}` on {}", decl.perm, decl.module);
        Failure::new(errno::EACCES, format!("access denied: `{prefix}` {needs}"))
    }

    fn may_run(&self, conn: ConnId, cmd: Cmd, args: &Args) -> bool {
        let Some(session) = self.sessions.get(conn) else { return false };
        let decl = cmd.decl();
        // Everyone who is in may ask which commands there are.
        if cmd == Cmd::Descriptions {
            return true;
        }
        let perm = decl.perm.chars().fold(Perm::NONE, |p, c| {
            p.and(match c {
                'r' => Perm::R,
                'w' => Perm::W,
                _ => Perm::X,
            })
        });
        let texts: BTreeMap<String, String> = args.texts();
        session.caps.allows_command(decl.module, perm, &cmd.prefix(), &texts)
    }

    /// A command of the admin socket.
    pub(crate) fn admin_command(&mut self, now: Now, command: &str) -> (i32, String) {
        let parsed: serde_json::Value = serde_json::from_str(command).unwrap_or_default();
        let text = |value: serde_json::Value| (0, format::pretty(&value));
        if let Some(answer) = self.settings_command(&parsed) {
            return answer.map_or_else(|(errno, why)| (-errno, why), text);
        }
        match parsed["prefix"].as_str().unwrap_or_default() {
            "mon_status" => text(self.mon_status_json()),
            "quorum_status" => text(quorum::quorum_json(&self.view(now))),
            "status" => text(status::status_json(&self.view(now))),
            "version" => text(
                serde_json::json!({ "version": status::version(), "release": "pacific", "release_type": "dev" }),
            ),
            "ops" => text(self.ops_json()),
            "help" => text(decl::describe::local_help(&admin_commands())),
            "get_command_descriptions" => {
                (0, decl::describe::local_descriptions(&admin_commands(), "mon", false).to_string())
            }
            other => (-errno::EINVAL, format!("unknown command `{other}` (try `help`)")),
        }
    }
}

#[expect(clippy::too_many_lines, reason = "one line a command: the table from declaration to code")]
fn handler(cmd: Cmd) -> Handler {
    use Handler::{Change, Log, Read};
    match cmd {
        Cmd::Descriptions => Read(mon_cmds::descriptions),
        Cmd::Status => Read(status::status),
        Cmd::Health => Read(status::health),
        Cmd::HealthMute => Change(status::mute),
        Cmd::HealthUnmute => Change(status::unmute),
        Cmd::Df => Read(df::df),
        Cmd::Fsid => Read(mon_cmds::fsid),
        Cmd::Version => Read(status::version_cmd),
        Cmd::Versions => Read(status::versions),
        Cmd::Features => Read(status::features),
        Cmd::QuorumStatus => Read(quorum::quorum_status),
        Cmd::MonStat => Read(quorum::stat),
        Cmd::MonAdd => Change(quorum::add),
        Cmd::MonRm | Cmd::MonRemove => Change(quorum::rm),
        Cmd::MonDump => Read(mon_cmds::dump),
        Cmd::MonGetmap => Read(mon_cmds::getmap),
        Cmd::MonMetadata => Read(mon_cmds::metadata),
        Cmd::MonVersions => Read(|v, a| status::versions_of(v, a, "mon")),
        Cmd::MonCountMetadata => Read(mon_cmds::count_metadata),
        Cmd::MonFeatureLs => Read(mon_cmds::feature_ls),
        Cmd::MgrStat => Read(mon_cmds::mgr_stat),
        Cmd::MgrDump => Read(mon_cmds::mgr_dump),
        Cmd::MgrVersions => Read(mon_cmds::mgr_services),
        Cmd::MgrMetadata => Read(mon_cmds::mgr_metadata),
        Cmd::MgrModuleLs => Read(mon_cmds::mgr_module_ls),
        Cmd::MgrServices => Read(mon_cmds::mgr_services),
        Cmd::TimeSyncStatus => Read(quorum::time_sync_status),
        Cmd::NodeLs => Read(mon_cmds::node_ls),
        Cmd::Log => Log,
        Cmd::LogLast => Read(mon_cmds::log_last),
        Cmd::OsdStat => Read(osd_read::stat),
        Cmd::OsdInfo => Read(osd_read::info),
        Cmd::OsdDump => Read(osd_dump::dump),
        Cmd::OsdTree => Read(osd_tree::tree),
        Cmd::OsdTreeFrom => Read(osd_tree::tree_from),
        Cmd::OsdLs => Read(osd_read::ls),
        Cmd::OsdLsTree => Read(osd_read::ls_tree),
        Cmd::OsdGetmap => Read(osd_read::getmap),
        Cmd::OsdGetcrushmap => Read(osd_read::getcrushmap),
        Cmd::OsdGetmaxosd => Read(osd_read::getmaxosd),
        Cmd::OsdFind => Read(osd_read::find),
        Cmd::OsdMetadata => Read(osd_read::metadata),
        Cmd::OsdVersions => Read(|v, a| status::versions_of(v, a, "osd")),
        Cmd::OsdCountMetadata => Read(osd_read::count_metadata),
        Cmd::OsdNumaStatus => Read(osd_read::numa_status),
        Cmd::OsdLastStatSeq => Read(osd_read::last_stat_seq),
        Cmd::OsdMap => Read(osd_read::map_object),
        Cmd::OsdDf => Read(osd_df::df),
        Cmd::OsdPerf => Read(osd_read::perf),
        Cmd::OsdBlockedBy => Read(osd_read::blocked_by),
        Cmd::OsdUtilization => Read(osd_df::utilization_cmd),
        Cmd::OsdLspools => Read(pool_read::lspools),
        Cmd::OsdOkToStop => Read(osd_read::ok_to_stop),
        Cmd::OsdSafeToDestroy => Read(osd_read::safe_to_destroy),
        Cmd::OsdGetRequireMinCompatClient => Read(osd_read::min_compat_client),
        Cmd::OsdBlocklistLs | Cmd::OsdBlacklistLs => Read(osd_read::blocklist_ls),
        Cmd::OsdNew => Change(osd_change::new),
        Cmd::OsdCreate => Change(osd_change::create),
        Cmd::OsdDestroy => Change(osd_state::destroy),
        Cmd::OsdSetmaxosd => Change(osd_state::setmaxosd),
        Cmd::OsdOut => Change(osd_change::out),
        Cmd::OsdIn => Change(osd_change::r#in),
        Cmd::OsdDown => Change(osd_change::down),
        Cmd::OsdLost => Change(osd_change::lost),
        Cmd::OsdPurge => Change(osd_change::purge),
        Cmd::OsdPurgeNew => Change(osd_state::purge_new),
        Cmd::OsdRm => Change(osd_change::rm),
        Cmd::OsdSet => Change(|e, a, _| osd_change::flag(e, a, true)),
        Cmd::OsdUnset => Change(|e, a, _| osd_change::flag(e, a, false)),
        Cmd::OsdPause => Change(|e, _, _| osd_state::pause(e, true)),
        Cmd::OsdUnpause => Change(|e, _, _| osd_state::pause(e, false)),
        Cmd::OsdSetGroup => Change(|e, a, _| osd_state::group(e, a, true)),
        Cmd::OsdUnsetGroup => Change(|e, a, _| osd_state::group(e, a, false)),
        Cmd::OsdAddNoup => Change(|e, a, _| osd_state::one_flag(e, a, maps::osd_state::NOUP, true)),
        Cmd::OsdAddNodown => Change(|e, a, _| osd_state::one_flag(e, a, maps::osd_state::NODOWN, true)),
        Cmd::OsdAddNoin => Change(|e, a, _| osd_state::one_flag(e, a, maps::osd_state::NOIN, true)),
        Cmd::OsdAddNoout => Change(|e, a, _| osd_state::one_flag(e, a, maps::osd_state::NOOUT, true)),
        Cmd::OsdRmNoup => Change(|e, a, _| osd_state::one_flag(e, a, maps::osd_state::NOUP, false)),
        Cmd::OsdRmNodown => Change(|e, a, _| osd_state::one_flag(e, a, maps::osd_state::NODOWN, false)),
        Cmd::OsdRmNoin => Change(|e, a, _| osd_state::one_flag(e, a, maps::osd_state::NOIN, false)),
        Cmd::OsdRmNoout => Change(|e, a, _| osd_state::one_flag(e, a, maps::osd_state::NOOUT, false)),
        Cmd::OsdRequireRelease => Change(osd_state::require_release),
        Cmd::OsdSetRequireMinCompatClient => Change(osd_state::min_compat_client),
        Cmd::OsdReweight => Change(osd_change::reweight),
        Cmd::OsdReweightn => Change(osd_state::reweightn),
        Cmd::OsdPrimaryAffinity => Change(osd_change::primary_affinity),
        Cmd::OsdSetFullRatio => Change(|e, a, _| osd_change::ratio(e, a, "full_ratio")),
        Cmd::OsdSetNearfullRatio => Change(|e, a, _| osd_change::ratio(e, a, "nearfull_ratio")),
        Cmd::OsdSetBackfillfullRatio => Change(|e, a, _| osd_change::ratio(e, a, "backfillfull_ratio")),
        Cmd::OsdBlocklist => Change(|e, a, _| osd_change::blocklist(e, a, "blocklistop")),
        Cmd::OsdBlacklist => Change(|e, a, _| osd_change::blocklist(e, a, "blacklistop")),
        Cmd::OsdBlocklistClear => Change(osd_change::blocklist_clear),
        Cmd::OsdPgUpmapItems => Change(osd_state::upmap_items),
        Cmd::OsdPgUpmap => Change(osd_state::pg_upmap),
        Cmd::OsdRmPgUpmap => Change(osd_state::rm_pg_upmap),
        Cmd::OsdPgTemp => Change(osd_state::pg_temp),
        Cmd::OsdPrimaryTemp => Change(osd_state::primary_temp),
        Cmd::OsdRmPgUpmapItems => Change(osd_state::rm_upmap_items),
        Cmd::OsdPoolAutoscaleStatus => Read(autoscale_cmds::status),
        Cmd::OsdPoolSetThreshold => Change(autoscale_cmds::threshold),
        Cmd::OsdPoolSetNoautoscale => Change(|edit, _, _| autoscale_cmds::switch(edit, false)),
        Cmd::OsdPoolUnsetNoautoscale => Change(|edit, _, _| autoscale_cmds::switch(edit, true)),
        Cmd::OsdPoolGetNoautoscale => Read(autoscale_cmds::noautoscale),
        Cmd::OsdPoolCreate => Change(pool_change::create),
        Cmd::OsdPoolLs => Read(pool_read::ls),
        Cmd::OsdPoolRm | Cmd::OsdPoolDelete => Change(pool_change::rm),
        Cmd::OsdPoolRename => Change(pool_change::rename),
        Cmd::OsdPoolGet => Read(pool_read::get),
        Cmd::OsdPoolSet => Change(pool_change::set),
        Cmd::OsdPoolSetQuota => Change(pool_change::set_quota),
        Cmd::OsdPoolGetQuota => Read(pool_read::get_quota),
        Cmd::OsdPoolStats => Read(pool_read::stats),
        Cmd::OsdPoolAppEnable => Change(pool_change::app_enable),
        Cmd::OsdPoolAppDisable => Change(pool_change::app_disable),
        Cmd::OsdPoolAppSet => Change(pool_change::app_set),
        Cmd::OsdPoolAppRm => Change(pool_change::app_rm),
        Cmd::OsdPoolAppGet => Read(pool_read::app_get),
        Cmd::OsdPoolMksnap => Change(pool_change::mksnap),
        Cmd::OsdPoolRmsnap => Change(pool_change::rmsnap),
        Cmd::OsdCrushDump => Read(crush_cmds::dump),
        Cmd::OsdCrushTree => Read(osd_tree::crush_tree),
        Cmd::OsdCrushRuleLs => Read(crush_cmds::rule_ls),
        Cmd::OsdCrushRuleDump => Read(crush_cmds::rule_dump),
        Cmd::OsdCrushClassLs => Read(crush_cmds::class_ls),
        Cmd::OsdCrushClassLsOsd => Read(crush_cmds::class_ls_osd),
        Cmd::OsdCrushGetDeviceClass => Read(crush_cmds::get_device_class),
        Cmd::OsdCrushLs => Read(crush_cmds::ls),
        Cmd::OsdCrushRuleLsByClass => Read(crush_cmds::rule_ls_by_class),
        Cmd::OsdCrushGetTunable => Read(crush_cmds::get_tunable),
        Cmd::OsdCrushWeightSetLs => Read(crush_cmds::weight_set_ls),
        Cmd::OsdCrushWeightSetDump => Read(crush_cmds::weight_set_dump),
        Cmd::OsdCrushWeightSetCreateCompat => Change(weight_set::create_compat),
        Cmd::OsdCrushWeightSetCreate => Change(weight_set::create),
        Cmd::OsdCrushWeightSetRm => Change(weight_set::rm),
        Cmd::OsdCrushWeightSetRmCompat => Change(weight_set::rm_compat),
        Cmd::OsdCrushWeightSetReweight => Change(weight_set::reweight),
        Cmd::OsdCrushWeightSetReweightCompat => Change(weight_set::reweight_compat),
        Cmd::OsdCrushSetMap | Cmd::OsdCrushSetMapOld => Change(crush_change::set_map),
        Cmd::OsdCrushSet | Cmd::OsdCrushAdd => Change(crush_change::set),
        Cmd::OsdCrushCreateOrMove => Change(crush_change::create_or_move),
        Cmd::OsdCrushMove => Change(crush_change::r#move),
        Cmd::OsdCrushAddBucket => Change(crush_change::add_bucket),
        Cmd::OsdCrushRenameBucket => Change(crush_change::rename_bucket),
        Cmd::OsdCrushRm | Cmd::OsdCrushRemove => Change(crush_change::rm),
        Cmd::OsdCrushUnlink => Change(crush_change::unlink),
        Cmd::OsdCrushReweight => Change(crush_change::reweight),
        Cmd::OsdCrushReweightSubtree => Change(crush_change::reweight_subtree),
        Cmd::OsdCrushReweightAll => Change(crush_change::reweight_all),
        Cmd::OsdCrushSetDeviceClass => Change(crush_change::set_device_class),
        Cmd::OsdCrushRmDeviceClass => Change(crush_change::rm_device_class),
        Cmd::OsdCrushClassRename => Change(crush_change::class_rename),
        Cmd::OsdCrushRuleSimple => Change(crush_change::rule_simple),
        Cmd::OsdCrushRuleReplicated => Change(crush_change::rule_replicated),
        Cmd::OsdCrushRuleErasure => Change(crush_change::rule_erasure),
        Cmd::OsdCrushRuleRm => Change(crush_change::rule_rm),
        Cmd::OsdCrushRuleRename => Change(crush_change::rule_rename),
        Cmd::OsdCrushSetTunables => Change(crush_change::tunables),
        Cmd::OsdCrushSetTunable => Change(crush_change::set_tunable),
        Cmd::OsdCrushStraw2 => Change(crush_change::straw_to_straw2),
        Cmd::OsdCrushTunables => Read(crush_cmds::tunables),
        Cmd::OsdEcProfileLs => Read(crush_cmds::ec_profile_ls),
        Cmd::OsdEcProfileGet => Read(crush_cmds::ec_profile_get),
        Cmd::OsdEcProfileSet => Change(crush_change::ec_profile_set),
        Cmd::OsdEcProfileRm => Change(crush_change::ec_profile_rm),
        Cmd::PgStat => Read(pg_cmds::stat),
        Cmd::PgDump => Read(pg_cmds::dump),
        Cmd::PgDumpJson => Read(pg_cmds::dump_json_cmd),
        Cmd::PgDumpPoolsJson => Read(pg_cmds::dump_pools_json),
        Cmd::PgDebug => Read(pg_cmds::debug),
        Cmd::PgLs => Read(pg_cmds::ls),
        Cmd::PgLsByPool => Read(pg_cmds::ls_by_pool),
        Cmd::PgLsByOsd => Read(pg_cmds::ls_by_osd),
        Cmd::PgLsByPrimary => Read(pg_cmds::ls_by_primary),
        Cmd::PgDumpStuck => Read(pg_cmds::dump_stuck),
        Cmd::PgMap => Read(pg_cmds::map),
        Cmd::PgScrub
        | Cmd::PgDeepScrub
        | Cmd::PgRepair
        | Cmd::OsdScrub
        | Cmd::OsdDeepScrub
        | Cmd::OsdRepair => Handler::Scrub,
        Cmd::FsLs => Read(fs_dump::ls),
        Cmd::FsNew => Change(fs_cmds::new),
        Cmd::FsRm => Change(fs_cmds::rm),
        Cmd::FsFail => Change(fs_cmds::fail),
        Cmd::FsReset => Change(fs_cmds::reset),
        Cmd::FsSetDefault | Cmd::FsSetDefaultOld => Change(fs_cmds::set_default),
        Cmd::FsFlagSet => Change(fs_cmds::flag_set),
        Cmd::FsAddDataPool => Change(fs_cmds::add_data_pool),
        Cmd::FsRmDataPool => Change(fs_cmds::rm_data_pool),
        Cmd::FsRequiredClientFeatures => Change(fs_cmds::required_client_features),
        Cmd::FsCompatShow => Read(fs_dump::compat_show),
        Cmd::FsFeatureLs => Read(fs_dump::feature_ls),
        Cmd::FsGet => Read(fs_dump::get),
        Cmd::FsDump => Read(fs_dump::dump),
        Cmd::FsSet => Change(fs_cmds::set),
        Cmd::FsStatus => Read(mds_cmds::fs_status),
        Cmd::FsAuthorize => Change(auth_cmds::fs_authorize),
        Cmd::MdsStat => Read(fs_dump::mds_stat),
        Cmd::MdsMetadata => Read(mds_cmds::metadata),
        Cmd::MdsVersions => Read(|v, a| status::versions_of(v, a, "mds")),
        Cmd::MdsCountMetadata => Read(mds_cmds::count_metadata),
        Cmd::MdsRepaired => Change(fs_cmds::repaired),
        Cmd::MdsFail => Change(mds_cmds::fail),
        Cmd::MdsOkToStop => Read(mds_cmds::ok_to_stop),
        Cmd::MdsCompatShow => Read(mds_cmds::compat_show),
        Cmd::AuthLs | Cmd::AuthList => Read(auth_cmds::ls),
        Cmd::AuthGet => Read(auth_cmds::get),
        Cmd::AuthGetKey | Cmd::AuthPrintKey | Cmd::AuthPrintKeyOld => Read(auth_cmds::print_key),
        Cmd::AuthExport => Read(auth_cmds::export),
        Cmd::AuthImport => Change(auth_cmds::import),
        Cmd::AuthAdd => Change(auth_cmds::add),
        Cmd::AuthGetOrCreate => Change(auth_cmds::get_or_create),
        Cmd::AuthGetOrCreateKey => Change(auth_cmds::get_or_create_key),
        Cmd::BalancerStatus => Read(balancer_cmds::status),
        Cmd::BalancerMode => Change(balancer_cmds::mode),
        Cmd::BalancerOn => Change(|edit, _, _| balancer_cmds::switch(edit, true)),
        Cmd::BalancerOff => Change(|edit, _, _| balancer_cmds::switch(edit, false)),
        Cmd::BalancerEval => Read(|view, args| balancer_cmds::eval(view, args, false)),
        Cmd::BalancerEvalVerbose => Read(|view, args| balancer_cmds::eval(view, args, true)),
        Cmd::BalancerLs => Read(|_, args| format::structured(args, &serde_json::json!([]))),
        Cmd::AuthCaps => Change(auth_cmds::caps),
        Cmd::AuthRm | Cmd::AuthDel => Change(auth_cmds::rm),
        Cmd::ConfigSet => Change(config_cmds::set),
        Cmd::ConfigRm => Change(config_cmds::rm),
        Cmd::ConfigGet => Read(config_cmds::get),
        Cmd::ConfigDump => Read(config_cmds::dump),
        Cmd::ConfigLs => Read(config_cmds::ls),
        Cmd::ConfigHelp => Read(config_cmds::help),
        Cmd::ConfigLog => Read(config_cmds::log),
        Cmd::ConfigReset => Change(config_cmds::reset),
        Cmd::ConfigAssimilate => Change(config_cmds::assimilate),
        Cmd::ConfigMinimal => Read(config_cmds::minimal_conf),
        Cmd::ConfigShow => Read(config_cmds::show_daemon),
        Cmd::ConfigShowDefaults => Read(config_cmds::show_defaults),
        Cmd::ConfigKeyGet => Read(config_cmds::key_get),
        Cmd::ConfigKeySet | Cmd::ConfigKeyPut => Change(config_cmds::key_set),
        Cmd::ConfigKeyRm | Cmd::ConfigKeyDel => Change(config_cmds::key_rm),
        Cmd::ConfigKeyExists => Read(config_cmds::key_exists),
        Cmd::ConfigKeyLs | Cmd::ConfigKeyList => Read(config_cmds::key_ls),
        Cmd::ConfigKeyDump => Read(config_cmds::key_dump),
        Cmd::CrashLs => Read(crash::ls),
        Cmd::CrashLsNew => Read(crash::ls_new),
        Cmd::CrashInfo => Read(crash::info),
        Cmd::CrashStat => Read(crash::stat),
        Cmd::CrashPost => Change(crash::post),
        Cmd::CrashArchive => Change(crash::archive),
        Cmd::CrashArchiveAll => Change(crash::archive_all),
        Cmd::CrashRm => Change(crash::rm),
        Cmd::CrashPrune => Change(crash::prune),
        Cmd::DeviceLs => Read(device::ls),
        Cmd::DeviceLsByDaemon => Read(device::ls_by_daemon),
        Cmd::DeviceLsByHost => Read(device::ls_by_host),
        Cmd::DeviceInfo => Read(device::info),
    }
}

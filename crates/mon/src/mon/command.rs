//! Runs administrators' commands: checks the capabilities, finds the handler, answers when the change is
//! committed.

use crate::commands::reply::{Outcome, said};
use crate::commands::{Handler, Orders, handler, order_scrub};
use crate::edit::Edit;
use crate::entry::Change;
use crate::failure::{Failure, missing};
use crate::mon::admin::{admin_commands, is_admin_command};
use crate::mon::request::{Origin, Request};
use crate::mon::{Mon, Out};
use crate::state::State;
use crate::storage::Storage;
use crate::text::cut;
use crate::view::View;
use auth::Perm;
use decl::{Args, Cmd};
use node::ConnId;
use std::collections::BTreeMap;
use stdx::{Bufs, Now};
use wire::{EntityType, Errno};

/// Maximum bytes of a recorded refusal's text: all refusals share one row of the store.
const MAX_REFUSAL_BYTES: usize = 1024;

impl<S: Storage> Mon<S> {
    pub(super) fn mon_command(
        &mut self,
        now: Now,
        request: Request,
        m: msgs::MonCommand,
        out: &mut Vec<Out>,
    ) {
        let Request { conn, tid, origin } = request;
        let text = m.cmd.join(" ");
        let outcome = Args::parse(&text).map_err(|e| Failure::new(Errno::EINVAL, e.0));
        let (outcome, index) = match outcome {
            Err(failure) => (Err(failure), 0),
            Ok((cmd, args)) => match self.may_run(conn, cmd, &args) {
                true => self.run(now, request, cmd, &args, &m.data.to_vec(), out),
                false => (Err(self.denied(conn, cmd, out)), 0),
            },
        };
        let is_duplicate = origin.is_some_and(|o| o.is_duplicate);
        let (r, rs, data) = match outcome {
            Ok(reply) => (0, reply.status, reply.data),
            // The duplicate fails because the command has already succeeded.
            Err(_) if is_duplicate => (0, String::new(), Vec::new()),
            Err(failure) => (failure.errno.to_result_code(), failure.text, Vec::new()),
        };
        let ack = msgs::MonCommandAck {
            r,
            rs,
            cmd: m.cmd,
            data: Bufs::from(data),
            ..msgs::MonCommandAck::default()
        };
        self.after(index, Self::send(conn, tid, msgs::Body::from(ack)), out);
    }

    /// `ceph tell mon.NAME …`: a command for this monitor itself, or any other command.
    pub(super) fn tell(&mut self, now: Now, request: Request, m: msgs::Command, out: &mut Vec<Out>) {
        let Request { conn, tid, .. } = request;
        let text = m.cmd.join(" ");
        let is_own = self.sessions.get(conn).is_some_and(|s| s.caps.is_allow_all());
        let parsed = if is_own && is_admin_command(&text) { None } else { Some(Args::parse(&text)) };
        let ((r, rs, data), index) = match parsed.unwrap_or_else(|| Err(decl::ArgError(String::new()))) {
            Ok((Cmd::Descriptions, _)) => {
                let all = decl::describe::local_descriptions(&admin_commands(), "mon", true).to_string();
                ((0, String::new(), all.into_bytes()), 0)
            }
            Ok((cmd, args)) if self.may_run(conn, cmd, &args) => {
                let (outcome, index) = self.run(now, request, cmd, &args, &m.data.to_vec(), out);
                let answer = match outcome {
                    Ok(reply) => (0, reply.status, reply.data),
                    Err(failure) => (failure.errno.to_result_code(), failure.text, Vec::new()),
                };
                (answer, index)
            }
            Ok((cmd, _)) => {
                let failure = self.denied(conn, cmd, out);
                ((failure.errno.to_result_code(), failure.text, Vec::new()), 0)
            }
            Err(_) if is_own => self.tell_admin(now, &text),
            Err(error) => ((Errno::EINVAL.to_result_code(), error.0, Vec::new()), 0),
        };
        let reply = msgs::CommandReply { r, rs, data: Bufs::from(data) };
        self.after(index, Self::send(conn, tid, msgs::Body::from(reply)), out);
    }

    /// Runs a command. Its answer may go out once the index is committed.
    fn run(
        &mut self,
        now: Now,
        request: Request,
        cmd: Cmd,
        args: &Args,
        input: &[u8],
        out: &mut Vec<Out>,
    ) -> (Outcome, u64) {
        let conn = request.conn;
        match handler(cmd) {
            Handler::Read(read) => {
                let visible = self.visible_state(conn);
                let state = visible.as_ref().unwrap_or(self.log.state());
                (read(&View { state, ..self.view(now) }, args), 0)
            }
            Handler::Change(change) => {
                if let Some(failure) = self.recorded_refusal(request.origin) {
                    return (Err(failure), self.log.proposed());
                }
                let may_change = self.may_change_fs(conn, cmd, args);
                // A refusal may depend on uncommitted state, so it waits like every other answer.
                self.decide(now, request.origin, |edit| may_change.and_then(|()| change(edit, args, input)))
            }
            Handler::Scrub => {
                let ordered = order_scrub(&self.view(now), cmd, args);
                let outcome = ordered.map(|(reply, orders)| {
                    self.send_scrubs(orders, out);
                    reply
                });
                (outcome, 0)
            }
            Handler::Log => {
                let line = self.log_of(now, conn, args.list("logtext").join(" "));
                self.decide(now, request.origin, |edit| {
                    line.into_iter().for_each(|line| edit.push(line));
                    said("")
                })
            }
        }
    }

    /// Proposes what a command decides, together with its outcome, "no change" and refusals included: if the
    /// command comes again it is not carried out.
    fn decide(
        &mut self,
        now: Now,
        origin: Option<Origin>,
        decide: impl FnOnce(&mut Edit<'_>) -> Outcome,
    ) -> (Outcome, u64) {
        let done = self.edit_if_fits(now, |edit| {
            let outcome = decide(edit).and_then(|reply| match edit.too_long_name() {
                Some(name) => {
                    let text = format!("a name of {} bytes, which is too long", name.len());
                    Err(Failure::new(Errno::ENAMETOOLONG, text))
                }
                None => Ok(reply),
            });
            record(edit, origin, &outcome);
            outcome
        });
        done.unwrap_or_else(|failure| {
            self.edit(now, |edit| {
                let outcome = Err(failure);
                record(edit, origin, &outcome);
                outcome
            })
        })
    }

    /// The recorded refusal, if this command is a duplicate of a refused one. The client has heard of the
    /// refusal, and may have removed its cause since.
    fn recorded_refusal(&self, origin: Option<Origin>) -> Option<Failure> {
        let Origin { client, tid, .. } = origin?;
        let refused = &self.log.tail().refused;
        let (_, (errno, text)) = refused.iter().find(|(command, _)| *command == (client, tid))?;
        Some(Failure::new(*errno, text.clone()))
    }

    /// Tells OSDs to scrub, each on its newest session.
    fn send_scrubs(&self, orders: Orders, out: &mut Vec<Out>) {
        for (osd, order) in orders {
            let is_osd = |conn: &ConnId| {
                let session = self.sessions.get(*conn);
                session.is_some_and(|s| s.is(EntityType::OSD) && s.name().id.parse() == Ok(osd.0))
            };
            if let Some(conn) = self.sessions.conns().into_iter().rfind(is_osd) {
                out.push(Self::send(conn, 0, peer::Body::from(order)));
            }
        }
    }

    /// The state reduced to the file systems that the session may see; `None` if it may see all.
    fn visible_state(&self, conn: ConnId) -> Option<State> {
        let session = self.sessions.get(conn).filter(|s| s.caps.hides_fs())?;
        let state = self.log.state();
        Some(State { fsmap: session.fsmap(&state.fsmap), ..state.clone() })
    }

    /// Checks that a key restricted to certain file systems changes no other.
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
            return Err(Failure::new(Errno::EPERM, format!("Permission denied: '{name}'")));
        }
        Ok(())
    }

    /// Refuses a command that the session may not give, and logs it.
    fn denied(&self, conn: ConnId, cmd: Cmd, out: &mut Vec<Out>) -> Failure {
        let (prefix, decl) = (cmd.prefix(), cmd.decl());
        let text = format!("`{prefix}` of {}", self.who(conn));
        out.push(node::Output::Event(node::Event::refusal("command_denied", text)));
        let needs = format!("needs mon caps `{}` on {}", decl.perm, decl.module);
        Failure::new(Errno::EACCES, format!("access denied: `{prefix}` {needs}"))
    }

    fn may_run(&self, conn: ConnId, cmd: Cmd, args: &Args) -> bool {
        let Some(session) = self.sessions.get(conn) else { return false };
        let decl = cmd.decl();
        // Everyone with a session may list the commands.
        if cmd == Cmd::Descriptions {
            return true;
        }
        let perm = Perm::of_command(decl.perm);
        let texts: BTreeMap<String, String> = args.texts();
        session.caps.allows_command(decl.module, perm, &cmd.prefix(), &texts)
    }
}

/// Notes the outcome of a command beside its changes. One that was refused or carried out before has none.
fn record(edit: &mut Edit<'_>, origin: Option<Origin>, outcome: &Outcome) {
    if outcome.is_err() {
        edit.discard();
    }
    match origin {
        Some(origin) if origin.is_duplicate => edit.discard(),
        Some(Origin { client, tid, .. }) => edit.push(match outcome {
            Ok(_) => Change::Done(client, tid),
            Err(Failure { errno, text }) => {
                Change::Refused(client, tid, *errno, cut(text.clone(), MAX_REFUSAL_BYTES))
            }
        }),
        None => {}
    }
}

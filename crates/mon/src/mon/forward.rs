//! Clients and daemons at a monitor that does not lead. The monitor answers requests about their own session,
//! and sends maps as they are committed. It forwards everything else to the leader, and passes the leader's
//! answer on once it has applied the log entry that the answer refers to. Unanswered requests are kept for
//! the next leader, so a command may be executed twice, as with clients that lose their monitor.

use crate::mon::admin::is_admin_command;
use crate::mon::{Mon, Out};
use crate::quorum::proxies::is_proxy;
use crate::quorum::requests::is_request;
use crate::storage::Storage;
use msgs::Body as Client;
use node::{Body, ConnId, Event, Level, Msg, Output, Peer};
use stdx::{Instant, Now};
use wire::{EntityName, RawMsg};

/// True if this monitor answers by itself, leader or not: the message concerns the session or this process.
/// `is_own` says that the session may do everything.
fn is_local(body: &Body, is_own: bool) -> bool {
    match body {
        Body::Client(Client::MonCommand(m)) => is_static(&m.cmd),
        Body::Client(Client::Command(m)) => {
            let text = m.cmd.join(" ");
            let unknown = decl::Args::parse(&text).is_err();
            unknown || is_static(&m.cmd) || is_own && is_admin_command(&text)
        }
        Body::Client(body) => matches!(
            body,
            Client::MonSubscribe(_)
                | Client::MonGetMap(_)
                | Client::Auth(_)
                | Client::GetConfig(_)
                | Client::Ping(_)
        ),
        Body::Peer(peer::Body::Hello(_)) => true,
        Body::Peer(_) => false,
    }
}

fn is_static(cmd: &[String]) -> bool {
    decl::Args::parse(&cmd.join(" ")).is_ok_and(|(cmd, _)| cmd == decl::Cmd::Descriptions)
}

impl<S: Storage> Mon<S> {
    /// A message of a session, here or at another monitor.
    pub(super) fn dispatch(&mut self, now: Now, conn: ConnId, msg: Msg, out: &mut Vec<Out>) {
        let is_own = self.sessions.get(conn).is_some_and(|s| s.caps.is_allow_all());
        if is_local(&msg.body, is_own) {
            return self.serve(now, conn, msg, out);
        }
        if !is_request(&msg.body) {
            // Reports are sent again to a new leader.
            match self.log.leads() {
                true => self.serve(now, conn, msg, out),
                false => drop(self.forward_to_leader(now.mono, conn, &msg, out)),
            }
            return;
        }
        if !self.may_ask(conn, &msg.body) {
            // It gets no answer, as with Ceph's monitors.
            let text = format!("a question on space by {}: its key does not allow `r` on pg", self.who(conn));
            return out.push(Output::Event(Event::refusal("request_denied", text)));
        }
        self.requests.add(conn, msg);
        self.hand_out_requests(now, out);
    }

    /// Hands waiting requests to whoever can answer them now.
    pub(super) fn hand_out_requests(&mut self, now: Now, out: &mut Vec<Out>) {
        let here = self.log.may_read(now.mono);
        if !here && (self.log.leads() || self.standing.leader().is_none()) {
            return;
        }
        for id in self.requests.to_hand_out() {
            let Some((conn, msg)) = self.requests.hand_out(id) else { continue };
            if here && !self.must_wait(&msg) {
                self.serve(now, conn, msg, out);
            } else if here || !self.forward_to_leader(now.mono, conn, &msg, out) {
                self.requests.put_back(id);
            }
        }
    }

    /// True if the message must wait: voters change one at a time.
    fn must_wait(&self, msg: &Msg) -> bool {
        let Body::Client(Client::MonCommand(m)) = &msg.body else { return false };
        let removes = |cmd| matches!(cmd, decl::Cmd::MonRm | decl::Cmd::MonRemove);
        decl::Args::parse(&m.cmd.join(" ")).is_ok_and(|(cmd, _)| removes(cmd))
            && !self.log.raft().is_some_and(|r| r.may_change_voters())
    }

    /// Sends a session's message to the leader; `false` if the leader can't be reached.
    fn forward_to_leader(&mut self, now: Instant, conn: ConnId, msg: &Msg, out: &mut Vec<Out>) -> bool {
        let Some(session) = self.sessions.get(conn).filter(|_| !is_proxy(conn)) else { return false };
        let peer = &session.peer;
        let body = peer::MonForward {
            session: conn.0,
            from: peer.id,
            global_id: peer.global_id,
            name: peer.name.to_string(),
            caps: peer.caps.clone(),
            addrs: peer.addrs.clone(),
            socket_addr: peer.socket_addr.into(),
            features: peer.features,
            msg: msg.to_raw().into(),
        };
        let Some(leader) = self.leader_name() else { return false };
        let sent = self.tell_mon(now, &leader, body, out);
        if sent {
            self.requests.note_known_to_leader(conn);
        }
        sent
    }

    /// Name of the leader if it is another monitor.
    pub(super) fn leader_name(&self) -> Option<String> {
        let (store, _) = self.standing.leader().filter(|(store, _)| *store != self.own_store())?;
        let voters = self.log.raft()?.voters();
        self.links.name_of(store).or_else(|| voters.get(&store).map(String::as_str)).map(str::to_owned)
    }

    /// A message from a session at another monitor.
    pub(super) fn forwarded(&mut self, now: Now, conn: ConnId, m: peer::MonForward, out: &mut Vec<Out>) {
        self.heard(conn);
        if !self.log.leads() {
            // The sender will notice the leader and send it again.
            return;
        }
        let raw: RawMsg = m.msg.clone().into();
        let msg = match Msg::from_raw(raw) {
            Ok(msg) => msg,
            Err(error) => {
                let text = format!("from {} through {}: {error}", m.name, self.who(conn));
                return out.push(Output::Event(Event::new(Level::Warn, "mon_message_undecodable", text)));
            }
        };
        let Some(proxy) = self.proxy(conn, m) else { return };
        self.dispatch(now, proxy, msg, out);
    }

    /// The proxy of a session at another monitor.
    fn proxy(&mut self, conn: ConnId, m: peer::MonForward) -> Option<ConnId> {
        if let Some(known) = self.proxies.of((conn, m.session)) {
            return Some(known);
        }
        let peer = Peer {
            name: EntityName::parse(&m.name)?,
            id: m.from,
            global_id: m.global_id,
            addrs: m.addrs,
            socket_addr: m.socket_addr.front(),
            ours: wire::EntityAddr::default(),
            features: m.features,
            caps: m.caps,
            tickets: None,
        };
        let proxy = self.proxies.add((conn, m.session));
        self.sessions.add(proxy, Box::new(peer));
        Some(proxy)
    }

    /// A session at another monitor has ended.
    pub(super) fn forward_ended(&mut self, now: Instant, conn: ConnId, m: &peer::MonForwardEnd) {
        if let Some(proxy) = self.proxies.of((conn, m.session)) {
            self.end_proxy(now, proxy);
        }
    }

    fn end_proxy(&mut self, now: Instant, proxy: ConnId) {
        if self.proxies.remove(proxy) {
            self.closed(now, proxy);
        }
    }

    /// Ends the proxies of one monitor's sessions, or of all.
    pub(super) fn end_proxies(&mut self, now: Instant, of: Option<ConnId>) {
        for proxy in self.proxies.list(of) {
            self.end_proxy(now, proxy);
        }
    }

    /// Drops a session's outstanding requests, here and at the leader.
    pub(super) fn forget_requests(&mut self, now: Instant, conn: ConnId, out: &mut Vec<Out>) {
        if self.requests.forget(conn)
            && let Some(leader) = self.leader_name()
        {
            self.tell_mon(now, &leader, peer::MonForwardEnd { session: conn.0 }, out);
        }
    }

    /// Puts requests back that a monitor may not have received.
    pub(super) fn requests_lost(&mut self, name: &str) {
        if self.leader_name().as_deref() == Some(name) {
            self.requests.put_back_all();
        }
    }

    /// The leader's answer to a session here.
    pub(super) fn forward_answered(&mut self, conn: ConnId, m: peer::MonForwardReply, out: &mut Vec<Out>) {
        self.heard(conn);
        let session = ConnId(m.session);
        let raw: RawMsg = m.msg.into();
        match Msg::from_raw(raw) {
            Ok(msg) if self.sessions.get(session).is_some() && !is_proxy(session) => {
                self.after(m.version, Output::Send { conn: session, msg }, out);
            }
            Ok(_) => {}
            Err(error) => {
                let text = format!("{}: {error}", self.who(conn));
                out.push(Output::Event(Event::new(Level::Warn, "mon_message_undecodable", text)));
            }
        }
    }

    /// Examines the outputs from `start` on: answered requests are dropped, and answers to proxied sessions
    /// are sent to their monitor.
    pub(super) fn route_answers(&mut self, now: Instant, start: usize, out: &mut Vec<Out>) {
        let version = self.log.state().version;
        let fresh = out.split_off(start);
        for output in fresh {
            let Output::Send { conn, msg } = output else {
                if !matches!(&output, Output::Close { conn } if is_proxy(*conn)) {
                    out.push(output);
                }
                continue;
            };
            self.requests.answered(conn, &msg);
            if !is_proxy(conn) {
                out.push(Output::Send { conn, msg });
                continue;
            }
            let Some((speaker, session)) = self.proxies.session(conn) else { continue };
            if let Some(name) = self.links.speaker(speaker).map(|h| h.name.clone()) {
                let body = peer::MonForwardReply { session, version, msg: msg.to_raw().into() };
                self.tell_mon(now, &name, body, out);
            }
        }
    }
}

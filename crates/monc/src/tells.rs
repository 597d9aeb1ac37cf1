//! Commands to metadata servers (`ceph tell`), each on a connection of its own. The owner passes on what it
//! hears of these connections and its timer.

use crate::{ConnSpace, Monc};
use msgs::{Body, Command, CommandReply};
use node::{ConnId, Msg, Output, RequestId, Target};
use std::collections::BTreeMap;
use stdx::Instant;
use wire::{EntityAddr, EntityType, Errno};

/// Commands without an answer.
///
/// Invariant: each request is answered once, by its deadline.
#[derive(Debug)]
pub struct Tells {
    conns: ConnSpace,
    waiting: BTreeMap<ConnId, (RequestId, Instant)>,
}

/// A request and its answer.
pub type Told = (RequestId, CommandReply);

impl Tells {
    /// Uses the connection numbers of `space`.
    pub fn new(space: u8) -> Self {
        Self { conns: ConnSpace::new(space), waiting: BTreeMap::new() }
    }

    /// True if inputs about `conn` are for this.
    pub fn owns(&self, conn: ConnId) -> bool {
        self.conns.owns(conn)
    }

    /// Sends a command, which fails if it is not answered by `until`.
    pub fn send<R>(
        &mut self,
        (request, until): (RequestId, Instant),
        addr: EntityAddr,
        command: String,
        monc: &Monc,
        out: &mut Vec<Output<R>>,
    ) {
        let conn = self.conns.next_id();
        let (service, auth) = (EntityType::MDS, monc.service_auth(EntityType::MDS));
        out.push(Output::Connect { conn, to: Box::new(Target { service, addr, lossless: true, auth }) });
        let body = Command { fsid: monc.fsid(), cmd: vec![command], ..Command::default() };
        out.push(Output::Send { conn, msg: Msg::new(1, Body::from(body)) });
        self.waiting.insert(conn, (request, until));
    }

    /// A message on one of the connections.
    pub fn message<R>(&mut self, conn: ConnId, msg: Msg, out: &mut Vec<Output<R>>) -> Option<Told> {
        out.push(Output::Close { conn });
        let node::Body::Client(Body::CommandReply(reply)) = msg.body else { return self.closed(conn) };
        self.waiting.remove(&conn).map(|(request, _)| (request, *reply))
    }

    /// One of the connections has ended.
    pub fn closed(&mut self, conn: ConnId) -> Option<Told> {
        self.waiting.remove(&conn).map(|(request, _)| (request, unanswered()))
    }

    /// Ends what has waited for too long.
    pub fn expire<R>(&mut self, now: Instant, out: &mut Vec<Output<R>>) -> Vec<Told> {
        let late = self.waiting.extract_if(.., |_, (_, until)| *until <= now);
        let end = |(conn, (request, _))| {
            out.push(Output::Close { conn });
            (request, unanswered())
        };
        late.map(end).collect()
    }

    /// The time of the next [`Self::expire`].
    pub fn deadline(&self) -> Option<Instant> {
        self.waiting.values().map(|(_, until)| *until).min()
    }
}

fn unanswered() -> CommandReply {
    let r = Errno::ETIMEDOUT.to_result_code();
    CommandReply { r, rs: "the metadata server does not answer".to_owned(), ..CommandReply::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use auth::Credentials;
    use node::Never;
    use stdx::Rng;
    use wire::EntityName;

    fn monc() -> Monc {
        let config = crate::MoncConfig {
            credentials: Credentials { name: EntityName::new(EntityType::MON, ""), key: None },
            mons: Vec::new(),
            services: vec![EntityType::MDS],
            rotating_keys: None,
            space: 1,
            hostname: String::new(),
        };
        Monc::new(config, Rng::from_seed(1))
    }

    #[test]
    fn each_command_is_answered_once_by_its_server_or_by_time() {
        let (mut tells, monc, mut out) = (Tells::new(4), monc(), Vec::<Output<Never>>::new());
        let addr = EntityAddr::msgr2(([127, 0, 0, 1], 6800).into(), 7);
        for (id, until) in [(1, 30), (2, 20), (3, 10)] {
            tells.send((RequestId(id), Instant(until)), addr, "{}".into(), &monc, &mut out);
        }
        let conns: Vec<ConnId> = out
            .drain(..)
            .filter_map(|o| match o {
                Output::Connect { conn, .. } => Some(conn),
                _ => None,
            })
            .collect();
        assert!(conns.iter().all(|conn| tells.owns(*conn)) && tells.deadline() == Some(Instant(10)));
        let reply = CommandReply { rs: "done".into(), ..CommandReply::default() };
        let msg = Msg::new(1, Body::from(reply.clone()));
        assert_eq!(tells.message(conns[0], msg, &mut out), Some((RequestId(1), reply)));
        assert!(matches!(out.pop(), Some(Output::Close { conn }) if conn == conns[0]));
        assert_eq!(tells.closed(conns[0]), None);
        let failed = |id| (RequestId(id), unanswered());
        assert_eq!(tells.expire(Instant(9), &mut out), []);
        assert_eq!(tells.expire(Instant(15), &mut out), [failed(3)]);
        assert!(matches!(out.pop(), Some(Output::Close { conn }) if conn == conns[2]));
        assert_eq!(tells.closed(conns[1]), Some(failed(2)));
        assert_eq!(tells.deadline(), None);
    }
}

//! Commands to metadata servers, each on a connection of its own.

use crate::Outcome;
use monc::{ConnSpace, Monc};
use msgs::Body;
use node::{ConnId, Msg, Output, RequestId, Target};
use std::collections::BTreeMap;
use wire::{EntityAddr, EntityType, Errno};

/// Commands without an answer.
#[derive(Debug)]
pub(crate) struct Tells {
    conns: ConnSpace,
    waiting: BTreeMap<ConnId, RequestId>,
}

impl Tells {
    /// Uses the connection numbers of `space`.
    pub fn new(space: u8) -> Self {
        Self { conns: ConnSpace::new(space), waiting: BTreeMap::new() }
    }

    /// True if inputs about `conn` are for this.
    pub fn owns(&self, conn: ConnId) -> bool {
        self.conns.owns(conn)
    }

    /// Sends a command.
    pub fn send<R>(
        &mut self,
        request: RequestId,
        addr: EntityAddr,
        command: String,
        monc: &Monc,
        out: &mut Vec<Output<R>>,
    ) {
        let conn = self.conns.next_id();
        let (service, auth) = (EntityType::MDS, monc.service_auth(EntityType::MDS));
        out.push(Output::Connect { conn, to: Box::new(Target { service, addr, lossless: true, auth }) });
        let body = msgs::Command { fsid: monc.fsid(), cmd: vec![command], ..msgs::Command::default() };
        out.push(Output::Send { conn, msg: Msg::new(1, Body::from(body)) });
        self.waiting.insert(conn, request);
    }

    /// A message on one of the connections. Returns the request and its outcome.
    pub fn answered(&mut self, conn: ConnId, msg: Msg) -> Option<(RequestId, Outcome)> {
        let node::Body::Client(Body::CommandReply(reply)) = msg.body else { return None };
        let outcome = Outcome { code: reply.r, status: reply.rs, output: reply.data };
        self.waiting.remove(&conn).map(|request| (request, outcome))
    }

    /// One of the connections has ended. Returns the request that fails.
    pub fn closed(&mut self, conn: ConnId) -> Option<(RequestId, Outcome)> {
        let request = self.waiting.remove(&conn)?;
        let status = "the metadata server does not answer".to_owned();
        Some((request, Outcome { code: Errno::ETIMEDOUT.to_result_code(), status, ..Outcome::default() }))
    }
}

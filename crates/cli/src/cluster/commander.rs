//! An administrator's session: a small node that sends commands to the monitors.

use auth::Credentials;
use monc::{Monc, MoncConfig, MoncOut, Told};
use node::{Input, Node, Output, RequestId};
use stdx::{Bufs, FastMap, Instant, Now, Rng};
use wire::{EntityAddr, EntityName, Uuid};

/// What a command gives.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct CommandReply {
    /// 0 or a negative errno.
    pub(crate) code: i32,
    /// What went wrong, or what was done.
    pub(crate) status: String,
    /// Output.
    pub(crate) data: Bufs,
}

/// The node. A request is a command as one JSON object.
pub(crate) struct Commander {
    monc: Monc,
    waiting: FastMap<u64, RequestId>,
    outs: Vec<MoncOut>,
    name: EntityName,
    fsid: Option<Uuid>,
    /// Why nothing can be asked.
    refused: Option<CommandReply>,
}

const EACCES: i32 = 13;
const EINVAL: i32 = 22;

impl Commander {
    /// `fsid` is that of the cluster which the caller means.
    pub(crate) fn new(credentials: Credentials, mons: Vec<EntityAddr>, fsid: Option<Uuid>, rng: Rng) -> Self {
        let name = credentials.name.clone();
        let config = MoncConfig {
            credentials,
            mons,
            services: Vec::new(),
            rotating_keys: false,
            space: 0,
            hostname: super::hostname(),
        };
        Self {
            monc: Monc::new(config, rng),
            waiting: FastMap::default(),
            outs: Vec::new(),
            name,
            fsid,
            refused: None,
        }
    }

    fn told(&mut self, told: Told, out: &mut Vec<Output<CommandReply>>) {
        match told {
            Told::Session { .. } => out.push(Output::Ready),
            Told::Denied => {
                let status = format!(
                    "the monitors do not accept the key of {}: check --name and --keyring",
                    self.name
                );
                self.refuse(EACCES, status, out);
            }
            Told::MonMap(map) if self.fsid.is_some_and(|fsid| fsid != map.fsid) => {
                let status =
                    format!("the monitors serve cluster {}, the configuration says another fsid", map.fsid);
                self.refuse(EINVAL, status, out);
            }
            Told::Reply { token, body: msgs::Body::MonCommandAck(ack) } => {
                self.answer(token, CommandReply { code: ack.r, status: ack.rs, data: ack.data }, out);
            }
            _ => {}
        }
    }

    /// Nothing can be asked of these monitors.
    fn refuse(&mut self, errno: i32, status: String, out: &mut Vec<Output<CommandReply>>) {
        let reply = CommandReply { code: -errno, status, data: Bufs::new() };
        let ids: Vec<u64> = self.waiting.keys().copied().collect();
        for id in ids {
            self.monc.cancel(id);
            self.answer(id, reply.clone(), out);
        }
        self.refused = Some(reply);
    }

    fn answer(&mut self, token: u64, reply: CommandReply, out: &mut Vec<Output<CommandReply>>) {
        if let Some(id) = self.waiting.remove(&token) {
            out.push(Output::Reply { id, reply });
        }
    }
}

impl Node for Commander {
    type Request = String;
    type Reply = CommandReply;

    fn handle(&mut self, now: Now, input: Input<String>, out: &mut Vec<Output<CommandReply>>) {
        let mut outs = std::mem::take(&mut self.outs);
        match input {
            Input::Start => self.monc.start(now, &mut outs),
            Input::Timer => self.monc.timer(now, &mut outs),
            Input::Connected { conn, peer } => self.monc.connected(now, conn, &peer, &mut outs),
            Input::Closed { conn, reason } => self.monc.closed(now, conn, reason, &mut outs),
            Input::Message { conn, msg } => self.monc.message(now, conn, msg, &mut outs),
            Input::Request { id, .. } if self.refused.is_some() => {
                out.extend(self.refused.clone().map(|reply| Output::Reply { id, reply }));
            }
            Input::Request { id, request } => {
                self.waiting.insert(id.0, id);
                self.monc.command(id.0, request, Bufs::new(), &mut outs);
            }
            Input::Disk { .. } | Input::Admin { .. } => {}
        }
        for o in outs.drain(..) {
            match o {
                MoncOut::Net(net) => out.push(net.into()),
                MoncOut::Told(told) => self.told(told, out),
            }
        }
        self.outs = outs;
    }

    fn deadline(&self) -> Option<Instant> {
        self.monc.deadline()
    }
}

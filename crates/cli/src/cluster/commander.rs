//! An administrator's session: a small node that sends commands to the monitors.

use auth::Credentials;
use monc::{Monc, MoncConfig, MoncOut, Told};
use node::{Input, Node, Output, RequestId};
use stdx::{Bufs, FastMap, Instant, Now, Rng};
use wire::EntityAddr;

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
    denied: bool,
}

/// EACCES: the monitors do not accept our key.
const DENIED: i32 = -13;

impl Commander {
    pub(crate) fn new(credentials: Credentials, mons: Vec<EntityAddr>, rng: Rng) -> Self {
        let config = MoncConfig {
            credentials,
            mons,
            services: Vec::new(),
            rotating_keys: false,
            space: 0,
            hostname: super::hostname(),
        };
        Self { monc: Monc::new(config, rng), waiting: FastMap::default(), outs: Vec::new(), denied: false }
    }

    fn told(&mut self, told: Told, out: &mut Vec<Output<CommandReply>>) {
        match told {
            Told::Session { .. } => {
                self.denied = false;
                out.push(Output::Ready);
            }
            Told::Denied => {
                self.denied = true;
                let ids: Vec<u64> = self.waiting.keys().copied().collect();
                for id in ids {
                    self.monc.cancel(id);
                    self.answer(id, denied(), out);
                }
            }
            Told::Reply { token, body: msgs::Body::MonCommandAck(ack) } => {
                self.answer(token, CommandReply { code: ack.r, status: ack.rs, data: ack.data }, out);
            }
            _ => {}
        }
    }

    fn answer(&mut self, token: u64, reply: CommandReply, out: &mut Vec<Output<CommandReply>>) {
        if let Some(id) = self.waiting.remove(&token) {
            out.push(Output::Reply { id, reply });
        }
    }
}

fn denied() -> CommandReply {
    let status = "the monitors do not accept this key: check the name and the keyring".to_owned();
    CommandReply { code: DENIED, status, data: Bufs::new() }
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
            Input::Request { id, .. } if self.denied => out.push(Output::Reply { id, reply: denied() }),
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

//! Those who give this daemon commands.

use msgs::Body;
use node::{AdminId, ConnId, Msg, Never, Output};

/// Who asked for a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asker {
    /// `ceph tell`: the connection, and the request's tid.
    Tell(ConnId, u64),
    /// The admin socket.
    Admin(AdminId),
}

impl Asker {
    /// Answers with a result code and output, or with what is wrong.
    pub fn answer(self, (code, output): (i32, String), out: &mut Vec<Output<Never>>) {
        match self {
            Self::Admin(id) => out.push(Output::AdminReply { id, code, output }),
            Self::Tell(conn, tid) => {
                let mut reply = msgs::CommandReply { r: code, ..Default::default() };
                match code < 0 {
                    true => reply.rs = output,
                    false => reply.data = output.into_bytes().into(),
                }
                out.push(Output::Send { conn, msg: Msg::new(tid, Body::from(reply)) });
            }
        }
    }
}

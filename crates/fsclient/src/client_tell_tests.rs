//! Commands to metadata servers.

use super::tests::Rig;
use super::*;
use msgs::CommandReply;
use std::time::Duration;
use wire::EntityAddr;

const ASKED: RequestId = RequestId(77);

/// Gives a command. Returns the connection on which it goes out.
fn tell(rig: &mut Rig) -> node::ConnId {
    let addr = EntityAddr::msgr2(([127, 0, 0, 1], 6800).into(), 7);
    let request = Request::Tell { addr, command: "{}".into(), patience: Duration::from_secs(3) };
    let out = rig.input(Input::Request { id: ASKED, request });
    let target = out.iter().find_map(|o| match o {
        Output::Connect { conn, to } if to.addr == addr && to.service == EntityType::MDS => Some(*conn),
        _ => None,
    });
    target.expect("a connection to the server")
}

fn reply(out: Outs) -> Reply {
    let found = out.into_iter().find_map(|o| match o {
        Output::Reply { id: ASKED, reply } => Some(reply),
        _ => None,
    });
    found.expect("an answer")
}

#[test]
fn a_command_is_answered_by_the_server_that_got_it() {
    let mut rig = Rig::new();
    let conn = tell(&mut rig);
    let said = CommandReply { r: -22, rs: "no such command".into(), data: vec![b'x'].into() };
    let out = rig.input(Input::Message { conn, msg: Msg::new(1, msgs::Body::from(said)) });
    assert!(out.iter().any(|o| matches!(o, Output::Close { conn: closed } if *closed == conn)));
    let (status, output) = ("no such command".to_owned(), vec![b'x'].into());
    assert_eq!(reply(out), Ok(Answer::Command { result: Err(Errno::EINVAL), status, output }));
}

#[test]
fn a_server_that_hangs_or_goes_is_no_reason_to_wait() {
    let mut rig = Rig::new();
    let is_late =
        |reply| matches!(reply, Ok(Answer::Command { result: Err(e), .. }) if e == Errno::ETIMEDOUT);
    tell(&mut rig);
    rig.now.mono = rig.now.mono + Duration::from_secs(3);
    assert!(rig.client.deadline().is_some_and(|at| at <= rig.now.mono));
    assert!(is_late(reply(rig.input(Input::Timer))));
    let conn = tell(&mut rig);
    assert!(is_late(reply(rig.input(Input::Closed { conn, reason: CloseReason::Lost }))));
}

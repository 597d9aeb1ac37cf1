//! A small cluster map and readable outputs.
#![allow(dead_code, reason = "each test uses its part")]

use maps::{Epoch, OsdId, OsdMap, Pool, WEIGHT_IN, osd_state};
use monc::Net;
use msgs::{Body, Op, OsdOp};
use node::{ConnId, Msg};
use rados::{Rados, RadosConfig, RadosOut, RadosTold, Request};
use std::sync::Arc;
use stdx::{Now, Rng, Wall};
use wire::{EntityAddr, EntityName, EntityType, Errno, Utime, Uuid, Writer};

/// The pool of the tests: 8 PGs, two copies.
pub const POOL: i64 = 1;

pub fn at(ms: u64) -> Now {
    Now { mono: stdx::Instant(ms * 1_000_000), wall: Wall(1_700_000_000_000_000_000 + ms * 1_000_000) }
}

pub fn credentials() -> auth::Credentials {
    auth::Credentials { name: EntityName::new(EntityType::CLIENT, "a"), key: None }
}

pub fn engine() -> Rados {
    Rados::new(RadosConfig::new(credentials(), 2), Rng::from_seed(1))
}

/// Three OSDs, up and in, OSD n at port 6800 + n.
pub fn map(epoch: u32) -> OsdMap {
    let mut crush = crush::CrushMap::new_default_types();
    for osd in 0..3 {
        crush.place(osd, WEIGHT_IN, &[("root", "default"), ("host", &format!("h{osd}"))]).expect("places");
    }
    crush.create_replicated_rule("r", "default", "host", None).expect("makes a rule");
    let mut map =
        OsdMap { epoch: Epoch(epoch), fsid: Uuid([7; 16]), crush: Arc::new(crush), ..OsdMap::default() };
    for osd in 0..3u16 {
        map.osds.push(maps::OsdEntry {
            state: osd_state::EXISTS | osd_state::UP,
            weight: WEIGHT_IN,
            client_addrs: osd_addr(osd, 0).into(),
            ..Default::default()
        });
    }
    map.pools.insert(POOL, Pool::replicated(2, 1, 0, 8, Utime::default()));
    map.pool_names.insert(POOL, "p".to_owned());
    map.pool_max = 1;
    map
}

pub fn osd_addr(osd: u16, nonce: u32) -> EntityAddr {
    EntityAddr::msgr2(([127, 0, 0, 1], 6800 + osd).into(), nonce)
}

/// The map as a monitor sends it.
pub fn full(map: &OsdMap) -> msgs::OsdMap {
    fulls([map])
}

/// Several full maps in one message, the newest last.
pub fn fulls<const N: usize>(maps: [&OsdMap; N]) -> msgs::OsdMap {
    let newest = maps[N - 1];
    let fulls = maps.map(|map| (map.epoch, Writer::encode(map).into())).into();
    msgs::OsdMap { fsid: newest.fsid, fulls, newest: newest.epoch, ..Default::default() }
}

pub fn primary(map: &OsdMap, oid: &str) -> OsdId {
    let pg = map.object_pg(&maps::ObjectLocator::new(POOL, ""), oid.as_bytes()).expect("the pool is there");
    map.pg_up_acting(pg).acting_primary.expect("has a primary")
}

pub fn write(oid: &str) -> Request {
    let data = stdx::Bufs::from(vec![1, 2, 3]);
    Request::write(POOL, b"", oid, vec![Op::WriteFull { extent: msgs::Extent::new(0, 3), data }])
}

pub fn read(oid: &str) -> Request {
    Request::read(POOL, b"", oid, vec![Op::Read(msgs::Extent::new(0, 0))])
}

/// An output in one line; connections by their number in their space.
pub fn show(out: &mut Vec<RadosOut>) -> Vec<String> {
    let line = |o: RadosOut| match o {
        RadosOut::Net(net) => show_net(&net),
        RadosOut::Told(told) => show_told(&told),
    };
    out.drain(..).map(line).collect()
}

pub fn show_net(net: &Net) -> String {
    match net {
        Net::Connect { conn, to } => {
            format!("connect {} osd.{}", conn.0 & 0xff, to.addr.addr.expect("has an address").port() - 6800)
        }
        Net::Send { conn, msg: Msg { tid, body: node::Body::Client(body), .. } } => match body {
            Body::OsdOp(m) => format!(
                "send {} op {tid} {} e{}{}",
                conn.0 & 0xff,
                String::from_utf8_lossy(&m.oid),
                m.epoch,
                if m.retry_attempt > 0 { format!(" retry {}", m.retry_attempt) } else { String::new() }
            ),
            other => format!("send {} {}", conn.0 & 0xff, other.name()),
        },
        Net::Send { .. } => "send to a daemon".to_owned(),
        Net::Close { conn } => format!("close {}", conn.0 & 0xff),
    }
}

/// As the wire has it.
fn code(result: Result<u32, Errno>) -> i64 {
    result.map_or_else(|errno| errno.to_result_code().into(), i64::from)
}

pub fn show_told(told: &RadosTold) -> String {
    match told {
        RadosTold::Map(map) => format!("map {}", map.epoch),
        RadosTold::Done { token, completion } => format!("done {token} r={}", code(completion.result)),
        RadosTold::WantMap(epoch) => format!("want map {epoch}"),
        RadosTold::GotMap(epoch) => format!("got map {epoch}"),
        RadosTold::WantNewestEpoch => "want newest epoch".to_owned(),
        RadosTold::Listed { token, result: Ok(l) } => {
            let names = l.entries.iter().map(|e| String::from_utf8_lossy(&e.oid).into_owned());
            format!(
                "listed {token} {:?}{}",
                names.collect::<Vec<_>>(),
                if l.next.is_some() { " more" } else { "" }
            )
        }
        RadosTold::Watched { cookie, result } => format!("watched {cookie} r={}", code(result.map(|()| 0))),
        RadosTold::Notified { cookie, notify_id, payload, .. } => {
            format!("notified {cookie} {notify_id} {:?}", String::from_utf8_lossy(payload))
        }
        RadosTold::WatchBroken { cookie, errno, alive_at } => {
            format!("watch {cookie} of {} broken r={}", alive_at.0 / 1_000_000, code(Err(*errno)))
        }
        RadosTold::NotifyEnded { token, result, attempts, .. } => {
            format!("notify {token} ended r={} after {attempts}", code(result.map(|()| 0)))
        }
        RadosTold::Listed { token, result: Err(e) } => format!("listed {token} r={}", code(Err(*e))),
    }
}

pub fn conn(n: u64) -> ConnId {
    ConnId(2 << 56 | n)
}

/// All operations sent, as (connection, tid, message).
pub fn sent(out: &[RadosOut]) -> Vec<(ConnId, u64, OsdOp)> {
    let op = |o: &RadosOut| match o {
        RadosOut::Net(Net::Send { conn, msg: Msg { tid, body: node::Body::Client(Body::OsdOp(m)), .. } }) => {
            Some((*conn, *tid, (**m).clone()))
        }
        _ => None,
    };
    out.iter().filter_map(op).collect()
}

/// An OSD's answer to an operation.
pub fn answer(tid: u64, op: &OsdOp, result: i32) -> Msg {
    Msg::new(tid, Body::from(msgs::OsdOpReply::to(op, result, op.epoch)))
}

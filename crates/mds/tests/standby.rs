//! The daemon between standby and rank: when it begins to touch a rank's objects, when it has to stop, and
//! when it must not tell clients anything.

use maps::{Epoch, Gid, MdsInfo, MdsMap, MdsRank, MdsState, OsdMap, Pool, WEIGHT_IN, osd_state};
use mds::{Mds, MdsConfig, MdsOptions};
use node::{ConnId, Input, Msg, Never, Node, Output, Peer};
use std::sync::Arc;
use stdx::{Now, Rng, Wall};
use wire::{EntityAddr, EntityId, EntityName, EntityType, Utime, Uuid, Writer};

const FSID: Uuid = Uuid([7; 16]);
const GID: Gid = Gid(4100);
const METADATA: i64 = 1;

fn at(ms: u64) -> Now {
    Now { mono: stdx::Instant(ms * 1_000_000), wall: Wall(1_700_000_000_000_000_000 + ms * 1_000_000) }
}

fn addr(port: u16) -> EntityAddr {
    EntityAddr::msgr2(([127, 0, 0, 1], port).into(), 0)
}

/// A client's connection.
const CLIENT: ConnId = ConnId(1 << 63);

/// A daemon and the time. It has a session to a monitor, whose number it chose.
struct Rig {
    mds: Mds,
    mon: ConnId,
    ms: u64,
    /// The last beacon that it has sent.
    beacon: u64,
}

impl Rig {
    fn new() -> Self {
        let name = EntityName::new(EntityType::MDS, "b");
        let config = MdsConfig {
            name: "b".to_owned(),
            addrs: addr(7001).into(),
            credentials: auth::Credentials { name, key: None },
            methods: vec![auth::Method::None],
            monitors: vec![addr(3300)],
            hostname: String::new(),
            metadata: Default::default(),
            levels: Default::default(),
            options: MdsOptions::default(),
        };
        let mut rig = Self { mds: Mds::new(config, Rng::from_seed(1)), mon: ConnId(0), ms: 0, beacon: 0 };
        let dialled = rig.input(Input::Start).into_iter().find_map(|o| match o {
            Output::Connect { conn, to } if to.service == EntityType::MON => Some(conn),
            _ => None,
        });
        rig.mon = dialled.expect("it looks for a monitor");
        let peer = Box::new(peer());
        rig.input(Input::Connected { conn: rig.mon, peer });
        let mons = [("a".to_owned(), ([127, 0, 0, 1], 3300).into())];
        let map = Writer::encode(&maps::MonMap::new(FSID, Utime::default(), &mons));
        rig.tell(msgs::Body::from(msgs::MonMap { map }));
        rig
    }

    fn input(&mut self, input: Input<Never>) -> Vec<Output<Never>> {
        self.ms += 1;
        let mut out = Vec::new();
        self.mds.handle(at(self.ms), input, &mut out);
        for o in &out {
            if let Output::Send {
                msg: Msg { body: node::Body::Peer(peer::Body::MdsBeacon(m)), .. }, ..
            } = o
            {
                self.beacon = m.seq;
            }
        }
        out
    }

    /// An input, and all that an OSD does about it, which stores everything. Returns what the client is told:
    /// operations of session messages.
    fn settle(&mut self, input: Input<Never>) -> Vec<u32> {
        let (mut todo, mut told) = (vec![input], Vec::new());
        while let Some(input) = todo.pop() {
            for o in self.input(input) {
                match o {
                    Output::Connect { conn, .. } => {
                        todo.push(Input::Connected { conn, peer: Box::new(peer()) });
                    }
                    Output::Send {
                        conn,
                        msg: Msg { body: node::Body::Client(msgs::Body::OsdOp(m)), tid, .. },
                    } => {
                        let reply = msgs::Body::from(msgs::OsdOpReply::to(&m, 0, Epoch(6)));
                        todo.push(Input::Message { conn, msg: Msg::new(tid, reply) });
                    }
                    Output::Send { conn: CLIENT, msg } => match msg.body {
                        node::Body::Client(msgs::Body::ClientSession(m)) => told.push(m.head.op),
                        other => panic!("{other:?}"),
                    },
                    _ => {}
                }
            }
        }
        told
    }

    /// The client says something about its session. Returns what it is told.
    fn client_says(&mut self, op: u32) -> Vec<u32> {
        let body = msgs::Body::from(msgs::ClientSession::of(op, 0));
        self.settle(Input::Message { conn: CLIENT, msg: Msg::new(0, body) })
    }

    /// The monitor acknowledges a beacon. Returns what the client is told.
    fn acknowledge(&mut self, seq: u64) -> Vec<u32> {
        let beacon = peer::Body::from(peer::MdsBeacon { gid: GID, seq, ..peer::MdsBeacon::default() });
        self.settle(Input::Message { conn: self.mon, msg: Msg::new(0, beacon) })
    }

    /// A message of the monitor.
    fn tell(&mut self, body: impl Into<node::Body>) -> Vec<Output<Never>> {
        self.input(Input::Message { conn: self.mon, msg: Msg::new(0, body) })
    }

    fn tell_osdmap(&mut self, epoch: u32) -> Vec<Output<Never>> {
        self.tell_map(&osdmap(epoch))
    }

    fn tell_map(&mut self, map: &OsdMap) -> Vec<Output<Never>> {
        let fulls = [(map.epoch, Writer::encode(map).into())].into();
        let body = msgs::OsdMap { fsid: FSID, fulls, newest: map.epoch, ..msgs::OsdMap::default() };
        self.tell(msgs::Body::from(body))
    }

    fn tell_mdsmap(&mut self, map: &MdsMap) -> Vec<Output<Never>> {
        self.tell(message_of(map))
    }
}

/// The message that carries a map.
fn message_of(map: &MdsMap) -> msgs::Body {
    let (epoch, fs_name) = (map.epoch, map.fs_name.clone());
    msgs::Body::from(msgs::MdsMap { fsid: FSID, epoch, map: Writer::encode(map), fs_name })
}

fn peer() -> Peer {
    let mut tickets = auth::Tickets::default();
    tickets.global_id = GID.0;
    Peer {
        name: EntityName::new(EntityType::MON, ""),
        id: EntityId::new(EntityType::MON, 0),
        global_id: GID.0,
        addrs: Default::default(),
        socket_addr: EntityAddr::default(),
        ours: EntityAddr::default(),
        features: 0,
        caps: String::new(),
        tickets: Some(Box::new(tickets)),
    }
}

/// One OSD, which has everything.
fn osdmap(epoch: u32) -> OsdMap {
    let mut crush = crush::CrushMap::new_default_types();
    crush.place(0, WEIGHT_IN, &[("root", "default"), ("host", "h")]).expect("places");
    crush.create_replicated_rule("r", "default", "osd", None).expect("makes a rule");
    let mut map = OsdMap { epoch: Epoch(epoch), fsid: FSID, crush: Arc::new(crush), ..OsdMap::default() };
    map.osds.push(maps::OsdEntry {
        state: osd_state::EXISTS | osd_state::UP,
        weight: WEIGHT_IN,
        client_addrs: addr(6800).into(),
        ..Default::default()
    });
    for (id, name) in [(METADATA, "meta"), (2, "data")] {
        map.pools.insert(id, Pool::replicated(1, 1, 0, 8, Utime::default()));
        map.pool_names.insert(id, name.to_owned());
    }
    map.pool_max = 2;
    map
}

/// The daemon's place in a map. With a rank, the rank's last holder is blocklisted from OSD map 6 on.
fn mdsmap(epoch: u32, rank: MdsRank, state: MdsState) -> MdsMap {
    let info = MdsInfo { gid: GID, name: "b".to_owned(), rank, state, ..MdsInfo::default() };
    MdsMap {
        epoch: Epoch(epoch),
        fs_name: "cephfs".to_owned(),
        metadata_pool: METADATA,
        data_pools: vec![2],
        last_failure_osd_epoch: Epoch(6),
        mds_info: [(GID, info)].into(),
        up: if rank == MdsRank::NONE { Default::default() } else { [(rank, GID)].into() },
        ..MdsMap::default()
    }
}

/// What concerns others than the monitor.
fn beyond_the_monitor(out: &[Output<Never>]) -> Vec<String> {
    let one = |o: &Output<Never>| match o {
        Output::Connect { to, .. } => Some(format!("connect {}", to.addr)),
        Output::Send { msg: Msg { body: node::Body::Client(msgs::Body::OsdOp(m)), .. }, .. } => {
            Some(format!("{} e{}", String::from_utf8_lossy(&m.oid), m.epoch))
        }
        Output::Ready => Some("ready".to_owned()),
        Output::Restart(_) => Some("restart".to_owned()),
        _ => None,
    };
    out.iter().filter_map(one).collect()
}

#[test]
fn a_standby_that_gets_a_rank_waits_for_the_map_that_blocklists_its_predecessor() {
    let mut rig = Rig::new();
    assert_eq!(beyond_the_monitor(&rig.tell_osdmap(5)), [""; 0]);
    let standby = rig.tell_mdsmap(&mdsmap(10, MdsRank::NONE, MdsState::STANDBY));
    assert_eq!(beyond_the_monitor(&standby), ["ready"]);
    // The map of the OSDs is late: an OSD that it reached now might still take writes of the predecessor.
    let replay = rig.tell_mdsmap(&mdsmap(11, MdsRank(0), MdsState::REPLAY));
    assert_eq!(beyond_the_monitor(&replay), [""; 0]);
    let (mut out, mut ops) = (beyond_the_monitor(&rig.tell_osdmap(6)), Vec::new());
    out.retain(|what| {
        what.starts_with("connect")
            || !{
                ops.push(what.clone());
                true
            }
    });
    ops.sort();
    assert_eq!(out, ["connect v2:127.0.0.1:6800/0"]);
    let tables = ["1.00000000.inode e6", "100.00000000.inode e6", "200.00000000 e6", "600.00000000.inode e6"];
    let shared = ["mds0_inotable e6", "mds0_sessionmap e6", "mds_partition e6", "mds_snaptable e6"];
    assert_eq!(ops, [&tables[..], &shared].concat());
}

#[test]
fn a_server_that_learns_of_its_replacement_begins_anew_and_does_nothing_else() {
    let mut rig = Rig::new();
    rig.tell_osdmap(6);
    rig.tell_mdsmap(&mdsmap(11, MdsRank(0), MdsState::REPLAY));
    let gone = MdsMap { mds_info: Default::default(), ..mdsmap(12, MdsRank::NONE, MdsState::STANDBY) };
    assert_eq!(beyond_the_monitor(&rig.tell_mdsmap(&gone)), ["restart"]);
    assert_eq!(rig.tell_osdmap(7).len(), 0, "it has ended");
    assert_eq!(rig.input(Input::Timer).len(), 0);
}

#[test]
fn a_server_that_may_have_been_replaced_tells_clients_nothing() {
    use msgs::session_op::{OPEN, RENEWCAPS, REQUEST_OPEN, REQUEST_RENEWCAPS};
    let mut rig = Rig::new();
    rig.tell_osdmap(6);
    let creating = message_of(&mdsmap(11, MdsRank(0), MdsState::CREATING));
    rig.settle(Input::Message { conn: rig.mon, msg: Msg::new(0, creating) });
    let active = rig.tell_mdsmap(&mdsmap(12, MdsRank(0), MdsState::ACTIVE));
    assert_eq!(beyond_the_monitor(&active), ["ready"]);
    let client = Peer { name: EntityName::new(EntityType::CLIENT, "c"), global_id: 4200, ..peer() };
    rig.input(Input::Connected { conn: CLIENT, peer: Box::new(client) });

    assert_eq!(rig.client_says(REQUEST_OPEN), [0; 0], "no beacon was acknowledged yet");
    assert_eq!(rig.acknowledge(rig.beacon), [OPEN]);
    assert_eq!(rig.client_says(REQUEST_RENEWCAPS), [RENEWCAPS]);

    // The server is stopped for a while; the monitors may have given its rank to another.
    let before = rig.beacon;
    rig.ms += 10_000;
    assert_eq!(rig.client_says(REQUEST_RENEWCAPS), [0; 0]);
    assert_eq!(rig.acknowledge(before), [0; 0], "an answer from before");
    assert_eq!(rig.settle(Input::Timer), [0; 0]);
    assert!(rig.beacon > before, "it reports itself");
    assert_eq!(rig.client_says(REQUEST_RENEWCAPS), [0; 0]);
    assert_eq!(rig.acknowledge(before), [0; 0]);
    assert_eq!(rig.acknowledge(rig.beacon), [RENEWCAPS, RENEWCAPS], "it is still its rank");
    assert_eq!(rig.client_says(REQUEST_RENEWCAPS), [RENEWCAPS]);
}

impl Rig {
    /// An active server with the session of a client, whose address it returns.
    fn with_client() -> (Self, EntityAddr) {
        use msgs::session_op::{OPEN, REQUEST_OPEN};
        let mut rig = Self::new();
        rig.tell_osdmap(6);
        let creating = message_of(&mdsmap(11, MdsRank(0), MdsState::CREATING));
        rig.settle(Input::Message { conn: rig.mon, msg: Msg::new(0, creating) });
        rig.tell_mdsmap(&mdsmap(12, MdsRank(0), MdsState::ACTIVE));
        rig.acknowledge(rig.beacon);
        let addr = EntityAddr::parse("any:10.0.0.9:0/77").expect("an address");
        rig.client_connects(CLIENT, addr);
        assert_eq!(rig.client_says(REQUEST_OPEN), [OPEN]);
        (rig, addr)
    }

    fn client_connects(&mut self, conn: ConnId, addr: EntityAddr) {
        let client = Peer {
            name: EntityName::new(EntityType::CLIENT, "c"),
            global_id: 4200,
            addrs: addr.into(),
            ..peer()
        };
        self.input(Input::Connected { conn, peer: Box::new(client) });
    }
}

fn closes(out: &[Output<Never>]) -> bool {
    out.iter().any(|o| matches!(o, Output::Close { conn: CLIENT }))
}

#[test]
fn a_client_on_the_blocklist_loses_its_session_and_gets_no_other() {
    use msgs::session_op::{REJECT, REQUEST_OPEN};
    let (mut rig, addr) = Rig::with_client();
    let mut map = osdmap(7);
    // All of its host.
    map.blocklist.insert(EntityAddr { nonce: 0, ..addr }, Utime::default());
    assert!(closes(&rig.tell_map(&map)));
    rig.client_connects(CLIENT, addr);
    assert_eq!(rig.client_says(REQUEST_OPEN), [REJECT]);
}

#[test]
fn an_administrator_evicts_the_clients_that_it_names() {
    let (mut rig, addr) = Rig::with_client();
    let evict = |rig: &mut Rig, filters: &str| {
        let command = format!(r#"{{"prefix":"client evict","filters":[{filters}]}}"#);
        let out = rig.input(Input::Admin { id: node::AdminId(1), command });
        let code = out.iter().find_map(|o| match o {
            Output::AdminReply { code, .. } => Some(*code),
            _ => None,
        });
        (code.expect("answered"), out)
    };
    for nobody in ["", r#""name=c""#] {
        assert_eq!(evict(&mut rig, nobody).0, wire::Errno::EINVAL.to_result_code());
    }
    let (code, out) = evict(&mut rig, r#""id=4200""#);
    assert_eq!(code, 0);
    let asked = out.iter().find_map(|o| match o {
        Output::Send { msg: Msg { body: node::Body::Client(msgs::Body::MonCommand(m)), .. }, .. } => {
            Some(m.cmd.concat())
        }
        _ => None,
    });
    assert!(asked.is_some_and(|cmd| cmd.contains("osd blocklist") && cmd.contains("10.0.0.9:0/77")));
    assert!(!closes(&out), "the OSDs may still take its writes");
    let mut map = osdmap(7);
    map.blocklist.insert(addr, Utime::default());
    assert!(closes(&rig.tell_map(&map)));
}

/// A map without this daemon, in which another one has its name.
fn replaced(epoch: u32, laggy_since: Utime) -> MdsMap {
    let gid = Gid(GID.0 + 1);
    let addrs = addr(7009).into();
    let info = MdsInfo { gid, name: "b".to_owned(), addrs, laggy_since, ..MdsInfo::default() };
    MdsMap { epoch: Epoch(epoch), mds_info: [(gid, info)].into(), ..MdsMap::default() }
}

/// The complaints about another daemon of the same name.
fn complaints(out: &[Output<Never>]) -> Vec<&str> {
    let events = out.iter().filter_map(|o| if let Output::Event(event) = o { Some(event) } else { None });
    events.filter(|e| e.name == "replaced_by_namesake").map(|e| e.detail.as_str()).collect()
}

#[test]
fn a_daemon_does_not_come_back_while_another_has_its_name() {
    let mut rig = Rig::new();
    rig.tell_osdmap(6);
    rig.tell_mdsmap(&mdsmap(11, MdsRank(0), MdsState::REPLAY));
    let out = rig.tell_mdsmap(&replaced(12, Utime::default()));
    assert_eq!(beyond_the_monitor(&out), [""; 0], "it would replace the other one");
    assert!(complaints(&out)[0].contains("127.0.0.1:7009"), "{:?}", complaints(&out));
    let sent = rig.beacon;
    rig.ms += 60_000;
    rig.input(Input::Timer);
    assert_eq!((rig.beacon, rig.acknowledge(sent).len()), (sent, 0), "it says nothing more");
    let again = rig.tell_mdsmap(&replaced(13, Utime::default()));
    assert_eq!((beyond_the_monitor(&again).len(), complaints(&again).len()), (0, 0));
    // Nobody has heard of the other one for a while.
    let laggy = rig.tell_mdsmap(&replaced(14, Utime { sec: 1, nsec: 0 }));
    assert_eq!(beyond_the_monitor(&laggy), ["restart"]);
}

#[test]
fn a_daemon_that_osds_refuse_waits_for_the_map_that_says_why() {
    for (map, comes_back) in [(Some(replaced(12, Utime::default())), false), (None, true)] {
        let mut rig = Rig::new();
        rig.tell_osdmap(6);
        let mut out = rig.tell_mdsmap(&mdsmap(11, MdsRank(0), MdsState::REPLAY));
        let conn =
            out.iter().find_map(|o| if let Output::Connect { conn, .. } = o { Some(*conn) } else { None });
        let conn = conn.expect("it dials the OSD");
        out.extend(rig.input(Input::Connected { conn, peer: Box::new(peer()) }));
        let asked = out.iter().find_map(|o| match o {
            Output::Send { msg: Msg { body: node::Body::Client(msgs::Body::OsdOp(m)), tid, .. }, .. } => {
                Some((*tid, m.clone()))
            }
            _ => None,
        });
        let (tid, op) = asked.expect("it reads the journal");
        let refusal = msgs::OsdOpReply::to(&op, wire::Errno::EBLOCKLISTED.to_result_code(), Epoch(6));
        let out = rig.input(Input::Message { conn, msg: Msg::new(tid, msgs::Body::from(refusal)) });
        assert_eq!(beyond_the_monitor(&out), [""; 0]);
        if let Some(map) = map {
            assert_eq!(complaints(&rig.tell_mdsmap(&map)).len(), 1);
        }
        rig.ms += 6_000;
        assert_eq!(beyond_the_monitor(&rig.input(Input::Timer)).contains(&"restart".to_owned()), comes_back);
    }
}

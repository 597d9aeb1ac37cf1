//! A monitor on a store in memory, driven input by input, and a small language for scenarios.

#![allow(dead_code, reason = "each test file uses its part")]

mod store;
pub mod world;

use mon::{Mon, MonConfig};
use node::{CloseReason, ConnId, Input, Msg, Node, Output, Peer};
use peer::level::Build;
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::{Bufs, Instant, Now, Rng, Wall};
pub use store::{Disk, FakeStore};
use wire::{EntityAddr, EntityId, EntityName, EntityType, Uuid};

pub type Out = Output<node::Never>;

/// 2026-01-01.
const EPOCH: u64 = 1_767_225_600_000_000_000;

/// The monitor and its surroundings.
pub struct Rig {
    pub mon: Mon<FakeStore>,
    pub disk: Disk,
    pub options: BTreeMap<String, String>,
    now: u64,
    next_conn: u64,
    next_tid: u64,
    /// Everything put out and not yet taken.
    pub outs: Vec<Out>,
    starts: u64,
    /// What the next beacons say of processor time: used by the server, left on its host.
    pub mds_load: (u32, u32),
    /// The build that is installed.
    pub build: Build,
}

/// Makes a file system with its pools.
pub const FS: [&str; 3] = [
    r#"{"prefix":"osd pool create","pool":"meta","pg_num":8}"#,
    r#"{"prefix":"osd pool create","pool":"data","pg_num":8}"#,
    r#"{"prefix":"fs new","fs_name":"cephfs","metadata":"meta","data":"data"}"#,
];

/// What a command answered.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    pub code: i32,
    pub status: String,
    pub data: String,
}

pub fn name(text: &str) -> EntityName {
    EntityName::parse(text).expect("TYPE.ID")
}

/// Who is at the other end of a connection from `addr`.
fn peer(who: EntityName, global_id: u64, addr: &str, caps: &str) -> Box<Peer> {
    let addr = EntityAddr::parse(addr).expect("an address");
    Box::new(Peer {
        id: EntityId::new(who.ty, global_id as i64),
        name: who,
        global_id,
        addrs: addr.into(),
        socket_addr: addr,
        ours: EntityAddr::default(),
        features: wire::FEATURES,
        caps: caps.to_owned(),
        tickets: None,
    })
}

/// An administrator's client with this global id.
pub fn admin_peer(global_id: u64) -> Box<Peer> {
    peer(name("client.admin"), global_id, &format!("v2:127.0.0.1:7001/{global_id}"), "allow *")
}

pub fn fsid() -> Uuid {
    Uuid::parse("11111111-2222-4333-8444-555555555555").expect("a uuid")
}

pub fn config(options: &BTreeMap<String, String>) -> MonConfig {
    let mut rng = Rng::from_seed(77);
    let mut ring = auth::Keyring::default();
    for (who, caps) in [
        ("mon.", "allow *"),
        ("client.admin", "allow *"),
        ("osd.0", "allow profile osd"),
        ("osd.1", "allow profile osd"),
        ("osd.2", "allow profile osd"),
        ("mds.a", "allow profile mds"),
        ("mds.b", "allow profile mds"),
    ] {
        let key = auth::Key::generate(Wall(EPOCH), &mut rng);
        let caps = BTreeMap::from([("mon".to_owned(), caps.to_owned())]);
        ring.0.insert(name(who), auth::KeyringEntry { key, caps });
    }
    let addr = "127.0.0.1:3300".parse().expect("an address");
    MonConfig {
        name: "a".into(),
        monmap: maps::MonMap::new(fsid(), Wall(EPOCH).into(), &[("a".into(), addr)]),
        keyring: ring,
        methods: vec![auth::Method::Cephx],
        options: options.clone(),
        hostname: "host1".into(),
        disk: node::DiskInfo { id: node::DiskId(0), size: 1 << 30, sector: 512 },
        store_path: "/var/lib/nacre/mon.a/block".into(),
        joined: None,
        build: Default::default(),
    }
}

impl Rig {
    /// A new cluster, up and running.
    pub fn new() -> Self {
        Self::with(&[])
    }

    pub fn with(options: &[(&str, &str)]) -> Self {
        // Pools keep the numbers of PGs that tests give them.
        let all = [("osd_pool_default_pg_autoscale_mode", "off")].into_iter().chain(options.iter().copied());
        let options = all.map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        Self::of_build(options, Build::default())
    }

    /// A new cluster of another build, up and running.
    pub fn of_build(options: BTreeMap<String, String>, build: Build) -> Self {
        let mut rig = Self { build, ..Self::unstarted(options) };
        rig.mon = rig.monitor();
        rig.start();
        assert!(rig.outs.iter().any(|o| matches!(o, Output::Ready)), "ready at once: {:?}", rig.outs);
        rig
    }

    pub fn unstarted(options: BTreeMap<String, String>) -> Self {
        let disk = Disk::default();
        let mon = Mon::new(config(&options), FakeStore::new(disk.clone()), Rng::from_seed(1));
        Self {
            mon,
            disk,
            options,
            now: 1_000_000_000,
            next_conn: 0,
            next_tid: 100,
            outs: Vec::new(),
            starts: 1,
            mds_load: (0, 0),
            build: Build::default(),
        }
    }

    /// The monitor's next process, on the same disk.
    fn monitor(&self) -> Mon<FakeStore> {
        let config = MonConfig { build: self.build.clone(), ..config(&self.options) };
        Mon::new(config, FakeStore::new(self.disk.clone()), Rng::from_seed(self.starts))
    }

    pub fn now(&self) -> Now {
        Now { mono: Instant(self.now), wall: Wall(EPOCH + self.now) }
    }

    pub fn start(&mut self) {
        self.input(Input::Start);
    }

    pub fn input(&mut self, input: Input<node::Never>) {
        let now = self.now();
        self.mon.handle(now, input, &mut self.outs);
    }

    /// The clock is set forward, at once.
    pub fn jump(&mut self, time: Duration) {
        self.now += time.as_nanos() as u64;
        self.input(Input::Timer);
    }

    /// Lets time pass in steps that the monitor's timer asks for.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time.as_nanos() as u64;
        while self.now < end {
            let next = self.mon.deadline().map_or(end, |d| d.0).clamp(self.now + 1, end);
            self.now = next;
            self.input(Input::Timer);
        }
    }

    /// The process dies; what was not durable is lost. A new one starts on the same disk.
    pub fn crash_and_restart(&mut self) {
        self.disk.crash();
        self.starts += 1;
        self.outs.clear();
        self.mon = self.monitor();
        self.start();
    }

    /// What was held back becomes durable.
    pub fn commit(&mut self) {
        self.disk.commit();
        // Any disk input makes the log look at its store.
        self.input(Input::Disk { id: node::DiskOpId(0), result: Ok(stdx::Buf::empty()) });
    }

    pub fn connect(&mut self, who: &str, caps: &str, global_id: u64) -> ConnId {
        self.connect_as(name(who).ty, who, caps, global_id)
    }

    /// A session of somebody who acts in another role than his name says.
    pub fn connect_as(&mut self, role: EntityType, who: &str, caps: &str, global_id: u64) -> ConnId {
        self.next_conn += 1;
        let conn = ConnId(ConnId::ACCEPTED | self.next_conn);
        let addr = format!("v2:127.0.0.1:7{:03}/{global_id}", self.next_conn % 1000);
        let mut peer = peer(name(who), global_id, &addr, caps);
        peer.id.ty = role;
        self.input(Input::Connected { conn, peer });
        conn
    }

    pub fn admin(&mut self) -> ConnId {
        // Another client each time: a tid of one client is a command of its own.
        self.connect("client.admin", "allow *", 5000 + self.next_conn)
    }

    pub fn close(&mut self, conn: ConnId) {
        self.input(Input::Closed { conn, reason: CloseReason::Lost });
    }

    pub fn send(&mut self, conn: ConnId, tid: u64, body: impl Into<node::Body>) {
        self.input(Input::Message { conn, msg: Msg::new(tid, body) });
    }

    /// Takes the messages that were sent to a connection.
    pub fn sent(&mut self, to: ConnId) -> Vec<Msg> {
        let mut mine = Vec::new();
        let mut rest = Vec::new();
        for out in self.outs.drain(..) {
            match out {
                Output::Send { conn, msg } if conn == to => mine.push(msg),
                other => rest.push(other),
            }
        }
        self.outs = rest;
        mine
    }

    pub fn send_command(&mut self, conn: ConnId, tid: u64, json: &str, input: &[u8]) {
        let command = msgs::MonCommand {
            fsid: fsid(),
            cmd: vec![json.to_owned()],
            data: Bufs::from(input.to_vec()),
            ..msgs::MonCommand::default()
        };
        self.send(conn, tid, msgs::Body::from(command));
    }

    /// The answer to a command, if it has come.
    pub fn answer(&mut self, conn: ConnId) -> Option<Answer> {
        let sent = self.sent(conn);
        let mut answer = None;
        for msg in sent {
            match msg.body {
                node::Body::Client(msgs::Body::MonCommandAck(ack)) => {
                    let data = String::from_utf8_lossy(&ack.data.to_vec()).into_owned();
                    answer = Some(Answer { code: ack.r, status: ack.rs.clone(), data });
                }
                _ => self.outs.push(Output::Send { conn, msg }),
            }
        }
        answer
    }

    /// Runs a command to its end.
    pub fn command(&mut self, json: &str) -> Answer {
        let conn = self.admin();
        self.command_on(conn, json)
    }

    pub fn command_on(&mut self, conn: ConnId, json: &str) -> Answer {
        self.next_tid += 1;
        self.send_command(conn, self.next_tid, json, b"");
        self.answer(conn).unwrap_or_else(|| panic!("no answer to {json}"))
    }

    /// Runs a command that must succeed; its output.
    pub fn ok(&mut self, json: &str) -> String {
        let answer = self.command(json);
        assert_eq!(answer.code, 0, "{json}: {}", answer.status);
        answer.data
    }

    /// Runs a command that must succeed; its output as JSON.
    pub fn json(&mut self, json: &str) -> serde_json::Value {
        let with_format = json.trim_end().trim_end_matches('}').to_owned() + r#","format":"json"}"#;
        let text = self.ok(&with_format);
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{json}: {e} in {text}"))
    }

    /// Brings up an OSD of host `host1` on its own connection.
    pub fn boot_osd(&mut self, id: i32, nonce: u32) -> ConnId {
        let conn = self.connect(&format!("osd.{id}"), "allow profile osd", 6000 + id as u64);
        self.send(conn, 0, peer::Body::from(boot(id, nonce)));
        conn
    }

    pub fn boot_mds(&mut self, daemon: &str, gid: u64) -> ConnId {
        let conn = self.connect(&format!("mds.{daemon}"), "allow profile mds", gid);
        self.beacon(conn, daemon, gid, 1, maps::MdsState::BOOT);
        conn
    }

    pub fn beacon(&mut self, conn: ConnId, daemon: &str, gid: u64, seq: u64, state: maps::MdsState) {
        let epoch = self.fsmap_epoch();
        self.beacon_at(epoch, conn, daemon, gid, seq, state);
    }

    /// The epoch of the map of file systems.
    pub fn fsmap_epoch(&mut self) -> maps::Epoch {
        let epoch = self.json(r#"{"prefix":"fs dump"}"#)["epoch"].as_u64().expect("a number");
        maps::Epoch(epoch as u32)
    }

    /// The beacon of a metadata server that has this map.
    pub fn beacon_at(
        &mut self,
        epoch: maps::Epoch,
        conn: ConnId,
        daemon: &str,
        gid: u64,
        seq: u64,
        state: maps::MdsState,
    ) {
        let beacon = peer::MdsBeacon {
            epoch,
            fsid: fsid(),
            gid: maps::Gid(gid),
            name: daemon.to_owned(),
            seq,
            state,
            addrs: osd_addrs(900, gid as u32),
            rank: maps::MdsRank::NONE,
            join_fs: maps::Fscid::NONE,
            metadata: BTreeMap::from([("hostname".to_owned(), "host1".to_owned())]),
            feature_level: self.build.levels.newest,
            busy: self.mds_load.0,
            idle: self.mds_load.1,
            ..peer::MdsBeacon::default()
        };
        self.send(conn, 0, peer::Body::from(beacon));
    }
}

/// The other end of a connection that the monitor opened to a metadata server.
pub fn peer_of_probe() -> Box<node::Peer> {
    peer(name("mds."), 0, "v2:127.0.0.1:6900/7001", "")
}

pub fn osd_addrs(port: u16, nonce: u32) -> wire::AddrVec {
    EntityAddr::parse(&format!("v2:127.0.0.1:{}/{nonce}", 6000 + port)).expect("addr").into()
}

pub fn boot(id: i32, nonce: u32) -> peer::OsdBoot {
    let port = 10 * id as u16;
    let mut uuid = [id as u8; 16];
    uuid[0] = 0xaa;
    peer::OsdBoot {
        osd: maps::OsdId(id),
        uuid: Uuid(uuid),
        fsid: fsid(),
        addrs: osd_addrs(port, nonce),
        cluster_addrs: osd_addrs(port + 1, nonce),
        heartbeat_addrs: osd_addrs(port + 2, nonce),
        crush_weight: 0x500,
        feature_level: peer::level::Levels::default().newest,
        device_class: "ssd".into(),
        crush_location: [("host", "host1"), ("root", "default")].map(|(a, b)| (a.into(), b.into())).into(),
        metadata: BTreeMap::from([("hostname".to_owned(), "host1".to_owned())]),
        ..peer::OsdBoot::default()
    }
}

/// All PGs of the map active and clean, reported by their primaries.
pub fn report_clean(rig: &mut Rig, conns: &[ConnId], map: &maps::OsdMap) {
    report_bytes(rig, conns, map, &|_| 0);
}

/// As [`report_clean`], with so many bytes in each PG of a pool.
pub fn report_bytes(rig: &mut Rig, conns: &[ConnId], map: &maps::OsdMap, bytes: &dyn Fn(i64) -> i64) {
    for (i, conn) in conns.iter().enumerate() {
        let osd = maps::OsdId(i as i32);
        let mut pgs = Vec::new();
        for (id, pool) in &map.pools {
            for pg in pool.pgs(*id) {
                let at = map.pg_up_acting(pg);
                if at.acting_primary == Some(osd) {
                    pgs.push(peer::PgStat {
                        pgid: pg,
                        state: clean_state(pool, pg),
                        version: maps::EVersion::new(maps::Epoch(1), 100 + u64::from(pg.seed)),
                        reported_epoch: map.epoch,
                        up: at.up,
                        acting: at.acting,
                        stats: maps::ObjectStatSum { num_bytes: bytes(*id), ..Default::default() },
                        // They trim at once what was removed.
                        purged_snaps: map.removed_snaps_queue.get(id).cloned().unwrap_or_default(),
                        ..peer::PgStat::default()
                    });
                }
            }
        }
        let store =
            maps::StoreStatfs { total: 20 << 30, available: 19 << 30, ..maps::StoreStatfs::default() };
        let pools = vec![peer::OsdPoolStat { pool: 1, store: store.clone() }];
        let heartbeat_peers = vec![maps::OsdId(9)];
        let stats = peer::PgStats {
            osd,
            epoch: map.epoch,
            pgs,
            store,
            pools,
            heartbeat_peers,
            ..peer::PgStats::default()
        };
        rig.send(*conn, 0, peer::Body::from(stats));
    }
}

fn clean_state(pool: &maps::Pool, pg: maps::PgId) -> u64 {
    use peer::pg_state::{ACTIVE, CLEAN, PEERED, PREMERGE};
    CLEAN | if pool.is_premerge(pg.seed) { PREMERGE | PEERED } else { ACTIVE }
}

/// The newest OSD map.
pub fn osdmap(rig: &mut Rig) -> maps::OsdMap {
    let conn = rig.admin();
    rig.send_command(conn, 1, r#"{"prefix":"osd getmap"}"#, b"");
    for msg in rig.sent(conn) {
        if let node::Body::Client(msgs::Body::MonCommandAck(ack)) = msg.body {
            return wire::Reader::new(&ack.data.to_vec()).get().expect("a map");
        }
    }
    panic!("no map");
}

/// A running cluster of three OSDs.
pub fn three_osds() -> (Rig, Vec<ConnId>) {
    let mut rig = Rig::new();
    let conns = (0..3).map(|id| rig.boot_osd(id, 100 + id as u32)).collect();
    (rig, conns)
}

pub fn is_osd(ty: EntityType) -> bool {
    ty == EntityType::OSD
}

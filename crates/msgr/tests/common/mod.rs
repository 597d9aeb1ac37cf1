//! Two connections joined by byte queues, in one thread.

#![allow(dead_code, reason = "each test binary uses a part")]

use auth::{
    Authenticator, ConMode, Credentials, EntityAuth, GlobalIds, Initiator, Key, Method, MonAuthenticator,
    RotatingKeys, ServerKeys, ServiceAuthenticator, Tickets,
};
use msgr::{AcceptConfig, Auth, Common, Conn, ConnectConfig, Event, Ready, Reason, Resume, Session, Want};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use stdx::{Buf, Bufs, Now, Rng};
use wire::{EntityAddr, EntityName, EntityType, RawMsg};

/// A cluster's secrets.
pub struct World {
    pub rng: Rng,
    pub now: Now,
    pub name: EntityName,
    pub key: Key,
    pub mon: Arc<ServerKeys>,
    pub service: Arc<ServerKeys>,
    pub ids: Arc<GlobalIds>,
    pub method: Method,
    pub service_type: EntityType,
}

impl World {
    pub fn new(seed: u64, method: Method) -> Self {
        let mut rng = Rng::from_seed(seed);
        let now = Now { mono: stdx::Instant(1 << 40), wall: stdx::Wall(1_700_000_000_000_000_000) };
        let name = EntityName::parse("client.admin").expect("a name");
        let key = Key::generate(now.wall, &mut rng);
        let caps = [("mon", "allow *"), ("osd", "allow rw pool=p"), ("mds", "allow r")];
        let caps = caps.map(|(k, v)| (k.to_owned(), v.to_owned()));
        let mut mon = ServerKeys::new(EntityType::MON, vec![method]);
        mon.entities.insert(name.clone(), EntityAuth { key: key.clone(), caps: BTreeMap::from(caps) });
        for service in [EntityType::AUTH, EntityType::MON, EntityType::MDS, EntityType::OSD] {
            let keys = RotatingKeys::default().rotated(now.wall, Duration::from_secs(3600), &mut rng);
            mon.rotating.insert(service, keys);
        }
        let service_type = EntityType::MDS;
        let mut service = ServerKeys::new(service_type, vec![method]);
        service.rotating.insert(service_type, mon.rotating[&service_type].clone());
        let ids = Arc::new(GlobalIds::new());
        assert!(ids.push(4200..5000));
        Self {
            rng,
            now,
            name,
            key,
            mon: Arc::new(mon),
            service: Arc::new(service),
            ids,
            method,
            service_type,
        }
    }

    pub fn credentials(&self) -> Credentials {
        let key = (self.method == Method::Cephx).then(|| self.key.clone());
        Credentials { name: self.name.clone(), key }
    }

    pub fn server_addr() -> EntityAddr {
        EntityAddr::parse("v2:127.0.0.1:6800/77").expect("an address")
    }

    fn common(&self, ty: EntityType, modes: &[ConMode], server: bool) -> Common {
        let client = EntityAddr::parse("any:127.0.0.1:0/555").expect("an address");
        let (mine, peer) = if server { (Self::server_addr(), client) } else { (client, Self::server_addr()) };
        let num = if server { 0 } else { -1 };
        Common { con_modes: modes.to_vec(), ..Common::new(ty, num, mine.into(), peer) }
    }

    pub fn accept_mon(&mut self, modes: &[ConMode]) -> Conn {
        let machine = Authenticator::Mon(MonAuthenticator::new(self.mon.clone(), self.ids.clone()));
        let auth = Auth { machine, methods: self.mon.method_numbers() };
        let common = self.common(EntityType::MON, modes, true);
        Conn::accept(AcceptConfig { common, auth, lossy: true }, self.now, self.rng.fork())
    }

    pub fn accept_service(&mut self, modes: &[ConMode], lossy: bool) -> Conn {
        let machine = Authenticator::Service(ServiceAuthenticator::new(self.service.clone()));
        let auth = Auth { machine, methods: self.service.method_numbers() };
        let common = self.common(self.service_type, modes, true);
        Conn::accept(AcceptConfig { common, auth, lossy }, self.now, self.rng.fork())
    }

    pub fn connect_mon(&mut self, modes: &[ConMode], credentials: Credentials, tickets: Tickets) -> Conn {
        let wanted = vec![EntityType::MDS, EntityType::OSD];
        let config = ConnectConfig {
            common: self.common(EntityType::CLIENT, modes, false),
            auth: Initiator::mon(credentials, tickets, wanted),
            peer_type: EntityType::MON,
            target: Self::server_addr(),
            lossy: true,
        };
        Conn::connect(config, None, self.now, self.rng.fork())
    }

    pub fn connect_service(
        &mut self,
        modes: &[ConMode],
        tickets: &Tickets,
        lossy: bool,
        session: Option<Session>,
        global_seq: u64,
    ) -> Conn {
        let mut common = self.common(EntityType::CLIENT, modes, false);
        common.global_seq = global_seq;
        let config = ConnectConfig {
            common,
            auth: Initiator::service(self.credentials(), tickets.clone(), self.service_type),
            peer_type: self.service_type,
            target: Self::server_addr(),
            lossy,
        };
        Conn::connect(config, session, self.now, self.rng.fork())
    }

    pub fn connect_service_with_idle(&mut self, tickets: &Tickets, idle: Duration) -> Conn {
        let mut common = self.common(EntityType::CLIENT, &[ConMode::Crc], false);
        common.idle_timeout = Some(idle);
        let auth = Initiator::service(self.credentials(), tickets.clone(), self.service_type);
        let target = Self::server_addr();
        let config = ConnectConfig { common, auth, peer_type: self.service_type, target, lossy: true };
        Conn::connect(config, None, self.now, self.rng.fork())
    }

    /// A service that was restarted, with another nonce.
    pub fn accept_service_as(&mut self, nonce: u32) -> Conn {
        let machine = Authenticator::Service(ServiceAuthenticator::new(self.service.clone()));
        let mut common = self.common(self.service_type, &[ConMode::Crc], true);
        common.addrs.0[0].nonce = nonce;
        let auth = Auth { machine, methods: self.service.method_numbers() };
        Conn::accept(AcceptConfig { common, auth, lossy: true }, self.now, self.rng.fork())
    }

    /// Tickets from a handshake with the monitor.
    pub fn tickets(&mut self) -> Tickets {
        let modes = [ConMode::Crc];
        let credentials = self.credentials();
        let mut pair =
            Pair::new(self.connect_mon(&modes, credentials, Tickets::default()), self.accept_mon(&modes));
        pair.run(&mut self.rng.fork(), self.now);
        pair.a.ready().tickets.clone().expect("tickets")
    }
}

/// One end and what it reported.
pub struct End {
    pub conn: Conn,
    pub events: Vec<Event>,
    /// Bytes on their way to it.
    pub inbox: VecDeque<u8>,
}

impl End {
    pub fn new(conn: Conn) -> Self {
        Self { conn, events: Vec::new(), inbox: VecDeque::new() }
    }

    pub fn ready(&self) -> &Ready {
        let ready = self.events.iter().find_map(|e| if let Event::Ready(r) = e { Some(&**r) } else { None });
        ready.unwrap_or_else(|| panic!("not ready: {:?}", self.events))
    }

    pub fn closed(&self) -> Option<&Reason> {
        self.events.iter().find_map(|e| if let Event::Closed(r) = e { Some(r) } else { None })
    }

    pub fn messages(&self) -> Vec<&RawMsg> {
        self.events
            .iter()
            .filter_map(|e| if let Event::Message { msg, .. } = e { Some(msg) } else { None })
            .collect()
    }

    pub fn resume(&self) -> Option<&Resume> {
        self.events.iter().find_map(|e| if let Event::Resume(r) = e { Some(r) } else { None })
    }

    /// Reads at most `n` bytes of its inbox. Whether it took any.
    pub fn read(&mut self, n: usize, now: Now) -> bool {
        let took = match self.conn.want() {
            Want::Nothing => false,
            Want::Budget(_) => {
                self.conn.grant(None, now);
                true
            }
            Want::Read(memory) => {
                assert!(!memory.is_empty());
                let n = n.min(memory.len()).min(self.inbox.len());
                memory[..n].iter_mut().for_each(|b| *b = self.inbox.pop_front().expect("counted"));
                if n > 0 {
                    self.conn.filled(n, now);
                }
                n > 0
            }
        };
        while let Some(event) = self.conn.poll_event() {
            self.events.push(event);
        }
        took
    }
}

/// A client (`a`) and a server (`b`).
pub struct Pair {
    pub a: End,
    pub b: End,
    /// Bytes moved so far, both ways.
    pub moved: usize,
    /// Number of bytes after which to stop.
    pub cut: usize,
}

impl Pair {
    pub fn new(a: Conn, b: Conn) -> Self {
        Self { a: End::new(a), b: End::new(b), moved: 0, cut: usize::MAX }
    }

    fn pass(&mut self, to_b: bool) -> bool {
        let (from, to) = if to_b { (&mut self.a, &mut self.b) } else { (&mut self.b, &mut self.a) };
        let mut any = false;
        while let Some(bytes) = from.conn.poll_write() {
            let bytes = bytes.to_vec();
            let n = bytes.len().min(self.cut - self.moved);
            self.moved += n;
            to.inbox.extend(&bytes[..n]);
            any |= n > 0;
        }
        any
    }

    /// Moves bytes in random pieces until nothing moves any more.
    pub fn run(&mut self, rng: &mut Rng, now: Now) {
        let mut again = true;
        while again {
            again = self.pass(true) | self.pass(false);
            for _ in 0..8 {
                let most = *rng.pick(&[1, 7, 40, 100, 5000, 100_000]);
                let n = 1 + rng.below(most) as usize;
                again |= self.a.read(n, now);
                again |= self.b.read(n, now);
            }
        }
    }
}

/// A message of arbitrary shape, recognisable by `tid`.
pub fn message(tid: u64, rng: &mut Rng) -> RawMsg {
    let mut bytes = |most: u64| {
        let mut v = vec![0; if rng.chance(1, 3) { 0 } else { rng.below(most) as usize }];
        rng.fill(&mut v);
        v
    };
    let (front, middle, data) = (bytes(300), bytes(40), bytes(20_000));
    let cut = data.len() / 3;
    let mut parts = Bufs::from(Buf::copy_from(&data[..cut]));
    parts.push(Buf::copy_from(&data[cut..]));
    RawMsg { kind: 42, version: 8, compat: 3, tid, priority: 63, front, middle, data: parts }
}

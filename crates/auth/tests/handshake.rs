//! Both ends against each other, renewals, and what must be refused.

use auth::{
    AuthDone, AuthStep, ConMode, Credentials, EntityAuth, GlobalIds, Initiator, InitiatorDone, InitiatorStep,
    Key, KeyType, Keyring, Method, MonAuthenticator, MonCap, RotatingKeys, ServerKeys, ServiceAuthenticator,
    Tickets, check_caps,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use stdx::{Now, Rng, Wall};
use wire::{EntityName, EntityType, Errno};

const HOUR: Duration = Duration::from_secs(3600);
const KINDS: [KeyType; 2] = [KeyType::Aes, KeyType::Aes256k];

struct World {
    rng: Rng,
    now: Now,
    name: EntityName,
    key: Key,
    mon: ServerKeys,
    ids: Arc<GlobalIds>,
}

impl World {
    fn new() -> Self {
        Self::of(KeyType::Aes)
    }

    /// The principal has a key of type `kind`.
    fn of(kind: KeyType) -> Self {
        let mut rng = Rng::from_seed(7);
        let now = Now { wall: Wall(1_700_000_000_000_000_000), ..Now::default() };
        let name = EntityName::parse("client.a").expect("a name");
        let key = Key::generate_as(kind, now.wall, &mut rng);
        let mut mon = ServerKeys::new(EntityType::MON, vec![Method::Cephx]);
        let caps = [("mon", "allow r"), ("osd", "allow rw")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        mon.entities.insert(name.clone(), EntityAuth { key: key.clone(), caps: BTreeMap::from(caps) });
        for service in [EntityType::AUTH, EntityType::OSD] {
            mon.rotating.insert(service, RotatingKeys::default().rotated(now.wall, HOUR, &mut rng));
        }
        let ids = Arc::new(GlobalIds::new());
        assert!(ids.push(5000..6000));
        Self { rng, now, name, key, mon, ids }
    }

    fn credentials(&self) -> Credentials {
        Credentials { name: self.name.clone(), key: Some(self.key.clone()) }
    }

    /// A handshake with a monitor.
    fn login(&mut self, tickets: Tickets, mode: ConMode) -> Result<(AuthDone, InitiatorDone), Box<AuthStep>> {
        let (now, rng) = (self.now, &mut self.rng);
        let mut client = Initiator::mon(
            Credentials { name: self.name.clone(), key: Some(self.key.clone()) },
            tickets,
            vec![EntityType::OSD, EntityType::MDS],
        );
        let mut server = MonAuthenticator::new(Arc::new(self.mon.clone()), self.ids.clone());
        let (method, payload) = client.start(now, rng).expect("starts");
        let AuthStep::More(challenge) = server.request(method, mode, &payload, now, rng) else {
            panic!("a challenge comes first")
        };
        let InitiatorStep::More(answer) = client.reply_more(&challenge, now, rng).expect("answers") else {
            panic!("an answer")
        };
        match server.more(&answer, now, rng) {
            AuthStep::Done(done) => {
                let own = client.done(done.global_id, mode, &done.blob, now).expect("opens");
                Ok((done, own))
            }
            other => Err(Box::new(other)),
        }
    }

    fn tickets(&mut self) -> Tickets {
        self.login(Tickets::default(), ConMode::Crc).expect("authenticated").1.tickets.expect("tickets")
    }

    fn osd(&self) -> Arc<ServerKeys> {
        let mut keys = ServerKeys::new(EntityType::OSD, vec![Method::Cephx]);
        keys.rotating.insert(EntityType::OSD, self.mon.rotating[&EntityType::OSD].clone());
        Arc::new(keys)
    }
}

/// A handshake with an OSD.
fn visit(
    world: &mut World,
    tickets: &Tickets,
    mode: ConMode,
) -> Result<(AuthDone, InitiatorDone), Box<AuthStep>> {
    let (osd, now) = (world.osd(), world.now);
    let mut client = Initiator::service(world.credentials(), tickets.clone(), EntityType::OSD);
    let mut server = ServiceAuthenticator::new(osd);
    let rng = &mut world.rng;
    let (method, payload) = client.start(now, rng).expect("a ticket");
    let challenge = match server.request(method, mode, &payload, now, rng) {
        AuthStep::More(challenge) => challenge,
        other => return Err(Box::new(other)),
    };
    let InitiatorStep::More(answer) = client.reply_more(&challenge, now, rng).expect("answers") else {
        panic!("an answer")
    };
    // An eavesdropper can't use the answer on another connection: its challenge differs.
    let mut other = ServiceAuthenticator::new(world.mon_as_osd());
    let rng = &mut world.rng;
    assert!(matches!(other.request(method, mode, &answer, now, rng), AuthStep::More(_)), "challenged again");
    assert!(matches!(other.more(&answer, now, rng), AuthStep::Fail { errno: Errno::EACCES, .. }), "a replay");
    match server.more(&answer, now, rng) {
        AuthStep::Done(done) => {
            let own = client.done(done.global_id, mode, &done.blob, now).expect("opens");
            Ok((done, own))
        }
        other => Err(Box::new(other)),
    }
}

impl World {
    fn mon_as_osd(&self) -> Arc<ServerKeys> {
        self.osd()
    }
}

#[test]
fn both_ends_agree_on_keys_and_caps() {
    let both = |kind| [(kind, ConMode::Crc), (kind, ConMode::Secure)];
    for (kind, mode) in KINDS.into_iter().flat_map(both) {
        let mut world = World::of(kind);
        let (server, client) = world.login(Tickets::default(), mode).expect("authenticated");
        assert_eq!((server.global_id, server.caps.as_str()), (5000, "allow r"));
        assert_eq!((&server.session_key, server.session_key.kind()), (&client.session_key, kind));
        assert_eq!(server.connection_secret, client.connection_secret);
        assert_eq!(server.connection_secret.0.len(), if mode == ConMode::Secure { 64 } else { 0 });
        let tickets = client.tickets.expect("tickets");
        assert!(tickets.get(EntityType::OSD).is_some() && tickets.get(EntityType::AUTH).is_some());
        assert!(tickets.get(EntityType::MDS).is_none(), "no keys for that service, no ticket");
        let (server, client) = visit(&mut world, &tickets, mode).expect("authenticated");
        assert_eq!((server.global_id, server.caps.as_str()), (5000, "allow rw"));
        assert_eq!((&server.session_key, server.session_key.kind()), (&client.session_key, kind));
        assert_eq!(server.connection_secret, client.connection_secret);
        assert_eq!(server.entity, world.name);
    }
}

#[test]
fn tickets_are_renewed_and_old_ones_end() {
    KINDS.into_iter().for_each(tickets_of_one_type_are_renewed);
}

fn tickets_of_one_type_are_renewed(kind: KeyType) {
    let mut world = World::of(kind);
    let mut tickets = world.tickets();
    let first = tickets.get(EntityType::OSD).cloned().expect("a ticket");
    assert_eq!(first.expires, world.now.wall + HOUR);
    assert_eq!(tickets.due(&[EntityType::OSD], world.now.wall), vec![]);
    world.now.wall = first.renew_after;
    assert_eq!(tickets.due(&[EntityType::OSD], world.now.wall), vec![EntityType::OSD]);
    let request = tickets.renewal_request(&[EntityType::OSD], world.now.wall, &mut world.rng).expect("valid");
    let id = tickets.global_id;
    let reply =
        world.mon.answer_request(&world.name, id, &request, world.now, &mut world.rng).expect("granted");
    assert_eq!(tickets.apply_renewal(&reply, world.now.wall), Ok(()));
    assert!(tickets.get(EntityType::OSD).expect("renewed").expires > first.expires);
    assert!(world.mon.answer_request(&world.name, id, &[0, 1], world.now, &mut world.rng).is_err());
    // Of another principal on that connection, and of another session of this one.
    let other = EntityName::parse("client.b").expect("a name");
    assert!(world.mon.answer_request(&other, id, &request, world.now, &mut world.rng).is_err());
    assert!(world.mon.answer_request(&world.name, id + 1, &request, world.now, &mut world.rng).is_err());
    let old = {
        let mut world = World::of(kind);
        world.tickets()
    };
    world.now.wall = first.expires + Duration::from_secs(1);
    assert!(visit(&mut world, &old, ConMode::Crc).is_err(), "expired");
    assert!(visit(&mut world, &tickets, ConMode::Crc).is_ok(), "renewed");
}

#[test]
fn a_ticket_survives_one_rotation_but_not_all() {
    let mut world = World::new();
    let tickets = world.tickets();
    let rotate = |world: &mut World| {
        let keys = &world.mon.rotating[&EntityType::OSD];
        let when = Wall::from(keys.current().expect("some").1.expiration);
        let next = keys.rotated(when, HOUR, &mut Rng::from_seed(1));
        world.mon.rotating.insert(EntityType::OSD, next);
    };
    rotate(&mut world);
    assert!(visit(&mut world, &tickets, ConMode::Crc).is_ok(), "the previous key is still held");
    rotate(&mut world);
    rotate(&mut world);
    let refused = visit(&mut world, &tickets, ConMode::Crc).expect_err("no key opens it");
    assert!(matches!(*refused, AuthStep::Fail { errno: Errno::EACCES, .. }));
}

#[test]
fn a_lost_auth_ticket_means_a_new_global_id() {
    let mut world = World::new();
    let tickets = world.tickets();
    world.now.wall = world.now.wall + HOUR * 1000;
    let keys = RotatingKeys::default().rotated(world.now.wall, HOUR, &mut world.rng);
    world.mon.rotating.insert(EntityType::AUTH, keys);
    let (done, _) = world.login(tickets, ConMode::Crc).expect("authenticated");
    assert_eq!(done.global_id, 5001);
}

#[test]
fn a_principal_without_mon_caps_or_unknown_is_refused() {
    let mut world = World::new();
    world.mon.entities.values_mut().for_each(|e| drop(e.caps.remove("mon")));
    let refused = world.login(Tickets::default(), ConMode::Crc).expect_err("no caps");
    assert!(matches!(*refused, AuthStep::Fail { errno: Errno::EACCES, .. }));
    world.mon.entities.clear();
    let refused = world.login(Tickets::default(), ConMode::Crc).expect_err("unknown");
    assert!(matches!(*refused, AuthStep::Fail { errno: Errno::EACCES, .. }));
    assert_eq!(world.ids.left(), 1000, "refusals cost no ids");
}

#[test]
fn daemons_fetch_the_rotating_keys_of_their_own_role() {
    KINDS.into_iter().for_each(a_daemon_fetches_its_rotating_keys);
}

fn a_daemon_fetches_its_rotating_keys(kind: KeyType) {
    let mut world = World::of(kind);
    let osd = EntityName::parse("osd.0").expect("a name");
    let key = Key::generate_as(kind, world.now.wall, &mut world.rng);
    world.mon.entities.insert(osd.clone(), EntityAuth { key: key.clone(), caps: BTreeMap::new() });
    let request = Tickets::rotating_request(None);
    let reply = world.mon.answer_request(&osd, 7, &request, world.now, &mut world.rng).expect("granted");
    let keys = Tickets::open_rotating(&reply, &key).expect("opens");
    assert_eq!(Some(&keys), world.mon.rotating_for(EntityType::OSD));
    assert!(Tickets::open_rotating(&reply, &world.key).is_err(), "only with the daemon's own key");
    assert!(
        world.mon.answer_request(&world.name, 7, &request, world.now, &mut world.rng).is_err(),
        "not for clients"
    );
}

#[test]
fn a_metadata_server_fetches_the_keys_of_the_manager_that_it_hosts_and_nobody_else_does() {
    let mut world = World::new();
    let mut ask = |name: &str, hosted| {
        let name = EntityName::parse(name).expect("a name");
        let key = Key::generate(world.now.wall, &mut world.rng);
        world.mon.entities.insert(name.clone(), EntityAuth { key: key.clone(), caps: BTreeMap::new() });
        let request = Tickets::rotating_request(Some(hosted));
        let reply = world.mon.answer_request(&name, 7, &request, world.now, &mut world.rng).ok()?;
        Some(Tickets::open_rotating(&reply, &key).expect("opens"))
    };
    let keys = ask("mds.a", EntityType::MGR);
    assert!(ask("mds.a", EntityType::OSD).is_none() && ask("mds.a", EntityType::AUTH).is_none());
    assert!(ask("osd.0", EntityType::MGR).is_none() && ask("client.x", EntityType::MGR).is_none());
    assert_eq!(keys.as_ref(), world.mon.rotating_for(EntityType::MGR));
}

/// Arbitrary and damaged payloads everywhere: refused, never a panic.
#[test]
fn noise_is_refused_everywhere() {
    KINDS.into_iter().for_each(noise_is_refused);
}

fn noise_is_refused(kind: KeyType) {
    let mut world = World::of(kind);
    let tickets = world.tickets();
    let mut rng = Rng::from_seed(9);
    let request = tickets.renewal_request(&[EntityType::OSD], world.now.wall, &mut rng).expect("valid");
    let osd = world.osd();
    let (now, name) = (world.now, world.name.clone());
    let mut granted = 0;
    for round in 0..3000 {
        let mut noise = if round % 2 == 0 { request.clone() } else { vec![0; rng.below(200) as usize] };
        if round % 2 == 0 {
            let at = rng.below(noise.len() as u64) as usize;
            noise[at] ^= 1 << rng.below(8);
            noise.truncate(rng.range(1, 1 + noise.len() as u64 * 3 / 2) as usize);
        } else {
            rng.fill(&mut noise);
        }
        let id = tickets.global_id;
        granted += usize::from(world.mon.answer_request(&name, id, &noise, now, &mut rng).is_ok());
        assert!(tickets.clone().apply_renewal(&noise, now.wall).is_err());
        for method in [Method::None, Method::Cephx] {
            let mut mon = MonAuthenticator::new(Arc::new(world.mon.clone()), world.ids.clone());
            assert!(!matches!(mon.request(method, ConMode::Crc, &noise, now, &mut rng), AuthStep::Done(_)));
            assert!(!matches!(mon.more(&noise, now, &mut rng), AuthStep::Done(_)));
            let mut service = ServiceAuthenticator::new(osd.clone());
            assert!(!matches!(
                service.request(method, ConMode::Crc, &noise, now, &mut rng),
                AuthStep::Done(_)
            ));
            assert!(!matches!(service.more(&noise, now, &mut rng), AuthStep::Done(_)));
        }
        let text = String::from_utf8_lossy(&noise);
        let _ = Keyring::parse(&text);
        for service in ["mon", "osd", "mds"] {
            let _ = check_caps(service, &text);
            let _ = check_caps(service, &format!("allow {text}"));
        }
    }
    // Only the nonce and the mask of wanted services may be changed without notice.
    assert!(granted < 150, "{granted}");
    assert!(!MonCap::default().is_allow_all());
}

impl World {
    /// The leader's tick.
    fn rotate(&mut self) {
        let now = self.now.wall;
        for keys in self.mon.rotating.values_mut().filter(|keys| keys.needs_rotation(now)) {
            *keys = keys.rotated(now, HOUR, &mut self.rng);
        }
    }

    /// A client session's renewal.
    fn renew(&mut self, tickets: &mut Tickets) {
        let (now, services) = (self.now, [EntityType::OSD]);
        if tickets.is_session_due(now.wall) {
            let request = tickets.session_renewal_request(&self.key, &services, &mut self.rng);
            let id = tickets.global_id;
            let reply = self.mon.answer_request(&self.name, id, &request, now, &mut self.rng);
            let reply = reply.expect("granted");
            assert_eq!(tickets.apply_session_renewal(&reply, &self.key, now.wall), Ok(()));
        }
        let due = tickets.due(&services, now.wall);
        if !due.is_empty() {
            let request = tickets.renewal_request(&due, now.wall, &mut self.rng).expect("a session");
            let id = tickets.global_id;
            let reply = self.mon.answer_request(&self.name, id, &request, now, &mut self.rng);
            assert_eq!(tickets.apply_renewal(&reply.expect("granted"), now.wall), Ok(()));
        }
    }
}

/// Ten days with keys that last an hour, on one session: always welcome at OSDs, always the same global id.
#[test]
fn a_client_outlives_many_rotations_on_one_session() {
    KINDS.into_iter().for_each(a_client_outlives_many_rotations);
}

fn a_client_outlives_many_rotations(kind: KeyType) {
    let mut world = World::of(kind);
    world.mon.auth_ticket_ttl = HOUR * 2;
    let mut tickets = world.tickets();
    let (id, mut last) = (tickets.global_id, world.mon.rotating[&EntityType::OSD].max_ver);
    let mut rotations = 0;
    for _ in 0..10 * 24 * 6 {
        world.now.wall = world.now.wall + HOUR / 6;
        world.rotate();
        let newest = world.mon.rotating[&EntityType::OSD].max_ver;
        rotations += newest - last;
        last = newest;
        world.renew(&mut tickets);
        let (server, _) = visit(&mut world, &tickets, ConMode::Secure).expect("welcome");
        assert_eq!(server.global_id, id);
    }
    assert!(rotations > 200, "{rotations}");
    assert_eq!(world.login(tickets, ConMode::Crc).expect("welcome").0.global_id, id);
    assert_eq!(world.ids.left(), 999, "one id was enough");
}

#[test]
fn a_session_is_renewed_for_whom_it_is() {
    let mut world = World::new();
    let mut tickets = world.tickets();
    let (id, mut rng) = (tickets.global_id, Rng::from_seed(4));
    let request = tickets.session_renewal_request(&world.key, &[EntityType::OSD], &mut rng);
    let mut ask = |name: &str, id: u64| {
        let name = EntityName::parse(name).expect("a name");
        world.mon.answer_request(&name, id, &request, world.now, &mut world.rng)
    };
    assert!(ask("client.b", id).is_err(), "unknown");
    assert!(ask("client.a", 0).is_err(), "a session without a global id");
    let reply = ask("client.a", id).expect("granted");
    let other = Key::generate(world.now.wall, &mut rng);
    let before = tickets.clone();
    assert!(tickets.apply_session_renewal(&reply, &other, world.now.wall).is_err(), "sealed for one key");
    assert_eq!(tickets, before);
    // The ticket of another session of the same principal: its owner lacks the key that seals this one.
    let mut second =
        world.login(Tickets::default(), ConMode::Crc).expect("welcome").1.tickets.expect("tickets");
    assert!(second.apply_session_renewal(&reply, &world.key.clone(), world.now.wall).is_err());
    assert_eq!(tickets.apply_session_renewal(&reply, &world.key.clone(), world.now.wall), Ok(()));
    assert_ne!(tickets, before);
    world.mon.entities.values_mut().for_each(|e| e.caps.clear());
    let refused = world.mon.answer_request(&world.name, id, &request, world.now, &mut world.rng);
    assert!(refused.is_err(), "it may not come to monitors any more");
}

#[test]
fn a_global_id_is_given_back_only_to_whom_it_was_given() {
    let mut world = World::new();
    let mine = world.tickets();
    assert_eq!(world.login(mine.clone(), ConMode::Crc).expect("reclaimed").0.global_id, mine.global_id);
    // Another one's number, with an own ticket or with none.
    let theirs = world.tickets();
    let mut stolen = mine.clone();
    stolen.global_id = theirs.global_id;
    let refused = world.login(stolen, ConMode::Crc).expect_err("not its own");
    assert!(matches!(*refused, AuthStep::Fail { errno: Errno::EACCES, .. }));
    let (now, name) = (world.now, world.name.clone());
    let mut w = wire::Writer::new();
    w.put(&10u8);
    w.put(&name);
    w.put(&theirs.global_id);
    let mut server = MonAuthenticator::new(Arc::new(world.mon.clone()), world.ids.clone());
    let first = server.request(Method::Cephx, ConMode::Crc, w.as_slice(), now, &mut world.rng);
    let AuthStep::More(challenge) = first else { panic!("a challenge comes first") };
    let mut client = Initiator::mon(world.credentials(), Tickets::default(), vec![]);
    client.start(now, &mut world.rng).expect("starts");
    let InitiatorStep::More(answer) = client.reply_more(&challenge, now, &mut world.rng).expect("answers")
    else {
        panic!("an answer")
    };
    assert!(matches!(server.more(&answer, now, &mut world.rng), AuthStep::Fail { errno: Errno::EACCES, .. }));
}

/// An OSD that was cut off while keys rotated does not refuse tickets that it can't check: it makes their
/// holders come again.
#[test]
fn a_daemon_whose_keys_are_old_is_not_ready() {
    let mut world = World::new();
    let old = world.osd();
    for _ in 0..8 {
        world.now.wall = world.now.wall + HOUR / 2;
        world.rotate();
    }
    let tickets = world.tickets();
    let knock = |world: &mut World, keys: &Arc<ServerKeys>| {
        let mut client = Initiator::service(world.credentials(), tickets.clone(), EntityType::OSD);
        let (method, payload) = client.start(world.now, &mut world.rng).expect("a ticket");
        let mut server = ServiceAuthenticator::new(keys.clone());
        server.request(method, ConMode::Crc, &payload, world.now, &mut world.rng)
    };
    assert!(matches!(knock(&mut world, &old), AuthStep::NotReady(_)));
    let new = world.osd();
    assert!(matches!(knock(&mut world, &new), AuthStep::More(_)));
    // A ticket under a key that has gone is refused for good.
    for _ in 0..12 {
        world.now.wall = world.now.wall + HOUR / 2;
        world.rotate();
    }
    let newest = world.osd();
    assert!(matches!(knock(&mut world, &newest), AuthStep::Fail { errno: Errno::EACCES, .. }));
}

/// The key of a principal is replaced by one of the other type while it holds tickets.
#[test]
fn a_key_may_change_its_type_between_two_sessions() {
    for (from, to) in [(KeyType::Aes, KeyType::Aes256k), (KeyType::Aes256k, KeyType::Aes)] {
        let mut world = World::of(from);
        let tickets = world.tickets();
        assert!(visit(&mut world, &tickets, ConMode::Secure).is_ok());
        let old = world.key.clone();
        world.key = Key::generate_as(to, world.now.wall, &mut world.rng);
        let refused = world.login(tickets.clone(), ConMode::Crc).expect_err("the monitor knows the old one");
        assert!(matches!(*refused, AuthStep::Fail { errno: Errno::EACCES, .. }));
        world.mon.entities.values_mut().for_each(|e| e.key = world.key.clone());
        let (server, client) = world.login(tickets.clone(), ConMode::Crc).expect("welcome");
        assert_eq!((server.global_id, server.session_key.kind()), (tickets.global_id, to));
        let tickets = client.tickets.expect("tickets");
        let (server, _) = visit(&mut world, &tickets, ConMode::Secure).expect("welcome");
        assert_eq!(server.session_key.kind(), to);
        world.key = old;
        assert!(world.login(Tickets::default(), ConMode::Crc).is_err(), "the old one ended");
    }
}

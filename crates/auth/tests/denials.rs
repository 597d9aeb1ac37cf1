//! Refused peers: each attack on a handshake, with the errno, the counter and the name in the log.

use auth::{
    AuthStep, ConMode, Credentials, DenialKind, EntityAuth, GlobalIds, Initiator, InitiatorStep, Key,
    Keyring, Method, MonAuthenticator, RotatingKeys, ServerKeys, ServiceAuthenticator, Tickets,
};
use std::sync::Arc;
use std::time::Duration;
use stdx::{Now, Rng, Wall};
use wire::{EntityName, EntityType, Errno, Writer};

const HOUR: Duration = Duration::from_secs(3600);
/// Offsets in an authorizer of the ticket's ciphertext and of its length.
const TICKET: usize = 26;

struct World {
    rng: Rng,
    now: Now,
    mon: ServerKeys,
    ids: Arc<GlobalIds>,
}

fn name(text: &str) -> EntityName {
    EntityName::parse(text).expect("a name")
}

impl World {
    /// `client.a` and `client.b`, who may both talk to OSDs, and `client.c`, who may not even talk to
    /// monitors.
    fn new() -> Self {
        let mut rng = Rng::from_seed(7);
        let now = Now { wall: Wall(1_700_000_000_000_000_000), ..Now::default() };
        let mut mon = ServerKeys::new(EntityType::MON, vec![Method::Cephx]);
        for who in ["client.a", "client.b", "client.c"] {
            let caps = [("mon", "allow r"), ("osd", "allow rw")].map(|(k, v)| (k.to_owned(), v.to_owned()));
            let caps = if who == "client.c" { Default::default() } else { caps.into() };
            mon.entities.insert(name(who), EntityAuth { key: Key::generate(now.wall, &mut rng), caps });
        }
        for service in [EntityType::AUTH, EntityType::OSD, EntityType::MDS] {
            mon.rotating.insert(service, RotatingKeys::default().rotated(now.wall, HOUR, &mut rng));
        }
        let ids = Arc::new(GlobalIds::new());
        assert!(ids.push(5000..6000));
        Self { rng, now, mon, ids }
    }

    fn credentials(&self, who: &str) -> Credentials {
        Credentials { name: name(who), key: self.mon.entities.get(&name(who)).map(|e| e.key.clone()) }
    }

    /// A handshake with a monitor, its first message changed by `forge`.
    fn login(
        &mut self,
        credentials: Credentials,
        forge: impl Fn(&mut Vec<u8>),
    ) -> Result<Tickets, Box<AuthStep>> {
        let (now, rng) = (self.now, &mut self.rng);
        let mut client =
            Initiator::mon(credentials, Tickets::default(), vec![EntityType::OSD, EntityType::MDS]);
        let mut server = MonAuthenticator::new(Arc::new(self.mon.clone()), self.ids.clone());
        let (method, mut payload) = client.start(now, rng).expect("starts");
        forge(&mut payload);
        let challenge = match server.request(method, ConMode::Crc, &payload, now, rng) {
            AuthStep::More(challenge) => challenge,
            other => return Err(Box::new(other)),
        };
        let Ok(InitiatorStep::More(answer)) = client.reply_more(&challenge, now, rng) else {
            panic!("an answer")
        };
        match server.more(&answer, now, rng) {
            AuthStep::Done(done) => {
                let opened = client.done(done.global_id, ConMode::Crc, &done.blob, now).expect("opens");
                Ok(opened.tickets.expect("tickets"))
            }
            other => Err(Box::new(other)),
        }
    }

    fn tickets(&mut self, who: &str) -> Tickets {
        let credentials = self.credentials(who);
        self.login(credentials, |_| {}).expect("authenticated")
    }

    fn osd(&self) -> ServiceAuthenticator {
        let mut keys = ServerKeys::new(EntityType::OSD, vec![Method::Cephx]);
        keys.rotating.insert(EntityType::OSD, self.mon.rotating[&EntityType::OSD].clone());
        ServiceAuthenticator::new(Arc::new(keys))
    }

    fn knock(&mut self, osd: &mut ServiceAuthenticator, payload: &[u8]) -> AuthStep {
        osd.request(Method::Cephx, ConMode::Crc, payload, self.now, &mut self.rng)
    }

    /// A client's half towards an OSD and its authorizer.
    fn authorizer(&mut self, who: &str, tickets: &Tickets, service: EntityType) -> (Initiator, Vec<u8>) {
        let mut client = Initiator::service(self.credentials(who), tickets.clone(), service);
        let payload = client.start(self.now, &mut self.rng).expect("a ticket").1;
        (client, payload)
    }

    /// The answer to the challenge that `osd` sends for an authorizer.
    fn answer(&mut self, client: &mut Initiator, osd: &mut ServiceAuthenticator, payload: &[u8]) -> Vec<u8> {
        let AuthStep::More(challenge) = self.knock(osd, payload) else { panic!("a challenge comes first") };
        match client.reply_more(&challenge, self.now, &mut self.rng) {
            Ok(InitiatorStep::More(answer)) => answer,
            other => panic!("{other:?}"),
        }
    }
}

fn denied(step: AuthStep, kind: DenialKind, who: Option<&str>) {
    match step {
        AuthStep::Fail { errno: Errno::EACCES, denial } => {
            assert_eq!((denial.kind, denial.entity.clone()), (kind, who.map(name)), "{denial}");
        }
        other => panic!("{kind:?}: {other:?}"),
    }
}

#[test]
fn at_a_monitor_a_wrong_key_an_unknown_name_and_a_key_without_caps() {
    let mut w = World::new();
    let wrong = Credentials { key: w.credentials("client.b").key, ..w.credentials("client.a") };
    denied(*w.login(wrong, |_| {}).expect_err("no"), DenialKind::WrongKey, Some("client.a"));
    let nobody = Credentials { name: name("client.nobody"), ..w.credentials("client.a") };
    denied(*w.login(nobody, |_| {}).expect_err("no"), DenialKind::UnknownEntity, Some("client.nobody"));
    let poor = w.credentials("client.c");
    denied(*w.login(poor, |_| {}).expect_err("no"), DenialKind::NoMonCaps, Some("client.c"));
}

#[test]
fn at_a_monitor_the_global_id_of_somebody_else() {
    let mut w = World::new();
    let victim = w.tickets("client.b").global_id;
    let credentials = w.credentials("client.a");
    let steal = |payload: &mut Vec<u8>| {
        let at = payload.len() - 8;
        payload[at..].copy_from_slice(&victim.to_le_bytes());
    };
    denied(*w.login(credentials, steal).expect_err("no"), DenialKind::GlobalId, Some("client.a"));
}

#[test]
fn an_expired_ticket() {
    let mut w = World::new();
    let tickets = w.tickets("client.a");
    let (_, payload) = w.authorizer("client.a", &tickets, EntityType::OSD);
    w.now.wall = w.now.wall + HOUR + Duration::from_secs(1);
    let mut osd = w.osd();
    let step = w.knock(&mut osd, &payload);
    denied(step, DenialKind::ExpiredTicket, Some("client.a"));
    // One that ends between the two halves of the handshake.
    let mut w = World::new();
    let (mut client, payload) = w.authorizer("client.a", &tickets, EntityType::OSD);
    let mut osd = w.osd();
    let answer = w.answer(&mut client, &mut osd, &payload);
    w.now.wall = w.now.wall + HOUR + Duration::from_secs(1);
    denied(osd.more(&answer, w.now, &mut w.rng), DenialKind::ExpiredTicket, Some("client.a"));
}

#[test]
fn a_ticket_under_a_key_that_has_rotated_away() {
    let mut w = World::new();
    let tickets = w.tickets("client.a");
    let (_, payload) = w.authorizer("client.a", &tickets, EntityType::OSD);
    for _ in 0..3 {
        w.now.wall = w.now.wall + HOUR;
        let keys = &w.mon.rotating[&EntityType::OSD];
        let next = keys.rotated(w.now.wall, HOUR, &mut w.rng);
        w.mon.rotating.insert(EntityType::OSD, next);
    }
    let mut osd = w.osd();
    denied(w.knock(&mut osd, &payload), DenialKind::UnknownTicketKey, None);
}

#[test]
fn an_authorizer_that_was_heard_on_another_connection() {
    let mut w = World::new();
    let tickets = w.tickets("client.a");
    let (mut client, payload) = w.authorizer("client.a", &tickets, EntityType::OSD);
    let mut osd = w.osd();
    let answer = w.answer(&mut client, &mut osd, &payload);
    assert!(matches!(osd.more(&answer, w.now, &mut w.rng), AuthStep::Done(_)), "its owner gets in");
    // The same answer once more on its own connection: the challenge was used up.
    denied(osd.more(&answer, w.now, &mut w.rng), DenialKind::Replay, None);
    // Both messages on another connection, which asks something else.
    let mut other = w.osd();
    assert!(matches!(w.knock(&mut other, &payload), AuthStep::More(_)));
    denied(other.more(&answer, w.now, &mut w.rng), DenialKind::Replay, Some("client.a"));
    // The authorizer that carries the answer, as the first message: it is challenged like any other.
    assert!(matches!(w.knock(&mut other, &answer), AuthStep::More(_)));
    denied(other.more(&answer, w.now, &mut w.rng), DenialKind::Replay, Some("client.a"));
    // The authorizer without an answer, twice: what was enough before CVE-2018-1128.
    assert!(matches!(w.knock(&mut other, &payload), AuthStep::More(_)));
    denied(other.more(&payload, w.now, &mut w.rng), DenialKind::Replay, Some("client.a"));
}

#[test]
fn a_forged_ticket() {
    let mut w = World::new();
    let (a, b) = (w.tickets("client.a"), w.tickets("client.b"));
    let (_, good) = w.authorizer("client.a", &a, EntityType::OSD);
    let mut osd = w.osd();
    assert!(matches!(w.knock(&mut osd, &good), AuthStep::More(_)));
    // Any bit of the ticket.
    let len = u32::from_le_bytes(good[TICKET - 4..TICKET].try_into().expect("4 bytes")) as usize;
    for bit in 0..len * 8 {
        let mut forged = good.clone();
        forged[TICKET + bit / 8] ^= 1 << (bit % 8);
        denied(w.knock(&mut osd, &forged), DenialKind::ForgedTicket, None);
    }
    // Another's ticket without its session key: the proof of one's own behind it.
    let (_, own) = w.authorizer("client.b", &b, EntityType::OSD);
    let stolen = [&good[..TICKET + len], &own[own.len() - (good.len() - TICKET - len)..]].concat();
    denied(w.knock(&mut osd, &stolen), DenialKind::ForgedTicket, Some("client.a"));
    // One's own ticket under another's global id.
    let mut renamed = own.clone();
    renamed[1..9].copy_from_slice(&a.global_id.to_le_bytes());
    denied(w.knock(&mut osd, &renamed), DenialKind::ForgedTicket, Some("client.b"));
    // A ticket for another service.
    let (_, for_mds) = w.authorizer("client.a", &a, EntityType::MDS);
    denied(w.knock(&mut osd, &for_mds), DenialKind::ForgedTicket, None);
    let mut relabelled = for_mds;
    relabelled[9..13].copy_from_slice(&u32::from(EntityType::OSD.0).to_le_bytes());
    denied(w.knock(&mut osd, &relabelled), DenialKind::ForgedTicket, None);
}

#[test]
fn half_an_authorizer_and_one_with_a_damaged_proof() {
    let mut w = World::new();
    let tickets = w.tickets("client.a");
    let (_, good) = w.authorizer("client.a", &tickets, EntityType::OSD);
    let mut osd = w.osd();
    for len in 0..good.len() {
        let step = w.knock(&mut osd, &good[..len]);
        assert!(matches!(step, AuthStep::Fail { errno: Errno::EACCES, .. }), "{len} bytes: {step:?}");
    }
    let last = good.len() - 1;
    let mut damaged = good;
    damaged[last] ^= 1;
    denied(w.knock(&mut osd, &damaged), DenialKind::ForgedTicket, Some("client.a"));
}

/// Whatever holds a key can be printed for people, and shows nothing of it.
#[test]
fn no_key_is_ever_printed() {
    let mut w = World::new();
    let credentials = w.credentials("client.a");
    let tickets = w.tickets("client.a");
    let (mut client, payload) = w.authorizer("client.a", &tickets, EntityType::OSD);
    let mut osd = w.osd();
    let answer = w.answer(&mut client, &mut osd, &payload);
    let done = osd.more(&answer, w.now, &mut w.rng);
    let ring = Keyring::parse(&format!(
        "[client.a]\nkey = {}\n",
        credentials.key.as_ref().expect("a key").to_base64()
    ))
    .expect("parses");
    let printed = [
        format!("{credentials:?}"),
        format!("{:?}", w.mon),
        format!("{:?}", w.mon.entities),
        format!("{:?}", w.mon.rotating),
        format!("{tickets:?}"),
        format!("{client:?}"),
        format!("{osd:?}"),
        format!("{done:?}"),
        format!("{ring:?}"),
    ]
    .join("\n");
    let rotating = w.mon.rotating.values().flat_map(|r| r.secrets.values().map(|k| &k.key));
    let keys: Vec<&Key> = w.mon.entities.values().map(|e| &e.key).chain(rotating).collect();
    for key in keys {
        let bytes = Writer::encode(key);
        let secret = &bytes[bytes.len() - 16..];
        let hex: String = secret.iter().map(|b| format!("{b:02x}")).collect();
        let spaced: Vec<String> = secret.iter().map(|b| b.to_string()).collect();
        for leak in [key.to_base64(), hex, spaced.join(", ")] {
            assert!(!printed.contains(&leak), "a key is printed");
        }
    }
    assert!(printed.contains("Key(***)"));
}

/// What people get wrong in a keyring is told without showing what is in it.
#[test]
fn an_error_in_a_keyring_shows_no_key() {
    let key = World::new().credentials("client.a").key.expect("a key").to_base64();
    let bare = key.trim_end_matches('=');
    for text in [
        format!("[client.a]\nkey {bare}\n"),
        format!("[client.a]\nkey = {}\n", &key[1..]),
        format!("[client.a]\nkey: {bare}"),
        format!("key = {key}\n"),
        format!("[client.a]\n{bare}\n"),
    ] {
        let error = Keyring::parse(&text).expect_err("wrong").to_string();
        assert!(!error.contains(&key[1..20]), "{error}");
    }
}

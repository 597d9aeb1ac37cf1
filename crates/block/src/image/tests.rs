//! Machines with a cluster in memory: `fake.rs`. Answers come in any order, drawn from a seed.

use super::*;
use crate::call::{Answer, Call, Place};
use crate::fake::{Fake, FakeHeader, ORDER, ack_of};
use crate::format::{ParentSpec, feature};
use crate::map::{ObjectMap, state};
use crate::operation::Operation;
use maps::SnapId;
use msgs::Op;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::{Buf, Bufs};

mod clones;
mod flatten;
mod races;

const OBJECT: u64 = 1 << ORDER;
const OBJECTS: u64 = 8;
const SIZE: u64 = OBJECTS * OBJECT - 700;

/// A notification that waits for its watchers.
struct Notifying {
    client: usize,
    token: u64,
    left: BTreeSet<u64>,
    acks: Vec<Vec<u8>>,
}

/// Clients of one cluster, each with the image open.
struct Rig {
    fake: Fake,
    rng: Rng,
    now: Instant,
    clients: Vec<Option<Image>>,
    /// Answers that have not been delivered: client, token, answer.
    answers: Vec<(usize, u64, Answer)>,
    /// Calls of clients that change data and are unanswered.
    writing: BTreeSet<(usize, u64)>,
    notifying: BTreeMap<u64, Notifying>,
    next: u64,
    replies: BTreeMap<(usize, u64), Result<Reply, Error>>,
    opened: Vec<Option<Result<Opened, Error>>>,
    lost: Vec<Error>,
    /// Notices of progress, and of snapshots that nobody needs.
    progress: u32,
    unused: u32,
}

fn cluster(features: u64) -> Fake {
    let mut fake = Fake::default();
    fake.headers.insert("1".into(), FakeHeader { size: SIZE, features, ..FakeHeader::default() });
    if features & feature::OBJECT_MAP != 0 {
        let mut map = ObjectMap::default();
        map.resize(OBJECTS);
        fake.maps.insert("rbd_object_map.1".into(), map);
    }
    fake
}

impl Rig {
    fn new(seed: u64, fake: Fake) -> Self {
        Self {
            fake,
            rng: Rng::from_seed(seed),
            now: Instant(0),
            clients: Vec::new(),
            answers: Vec::new(),
            writing: BTreeSet::new(),
            notifying: BTreeMap::new(),
            next: 0,
            replies: BTreeMap::new(),
            opened: Vec::new(),
            lost: Vec::new(),
            progress: 0,
            unused: 0,
        }
    }

    /// A client that opens the image, or a snapshot of it.
    fn open(&mut self, snap: Option<&str>) -> usize {
        self.open_for(Access::Write, snap)
    }

    fn open_for(&mut self, access: Access, snap: Option<&str>) -> usize {
        let client = self.clients.len();
        let spec = Spec {
            place: Place { pool: 1, namespace: Vec::new() },
            name: "i".into(),
            snap: snap.map(Into::into),
            access,
            rng: self.rng.fork(),
        };
        self.clients.push(Some(Image::new(spec)));
        self.opened.push(None);
        self.give(client, Input::Start);
        self.run();
        client
    }

    fn give(&mut self, client: usize, input: Input) {
        let Some(image) = &mut self.clients[client] else { return };
        let mut out = Vec::new();
        image.handle(self.now, input, &mut out);
        for output in out {
            match output {
                Output::Call { token, call } => self.send(client, token, &call),
                Output::Reply { id, reply } => {
                    assert!(
                        self.replies.insert((client, id), reply).is_none(),
                        "one answer for each request"
                    );
                }
                Output::Opened(opened) => self.opened[client] = Some(*opened),
                Output::Lost(error) => self.lost.push(error),
                Output::Unused(_) => self.unused += 1,
                Output::Progress { id, done, total } => {
                    assert!(done <= total, "{id}: {done} of {total}");
                    self.progress += 1;
                }
                Output::Resized(_) | Output::Event(_) => {}
            }
        }
    }

    /// Nothing that a client wrote is unanswered when it gives the lock back.
    fn check_unlock(&self, client: usize, call: &Call) {
        let Call::Object(call) = call else { return };
        let unlocks = call.ops.iter().any(|op| matches!(op, Op::Call { method, .. } if method == "unlock"));
        if unlocks && call.object.starts_with(b"rbd_header.") {
            let of_client = self.writing.iter().filter(|(of, _)| *of == client);
            assert_eq!(of_client.count(), 0, "writes are on their way");
        }
    }

    fn send(&mut self, client: usize, token: u64, call: &Call) {
        self.check_unlock(client, call);
        if let Call::Object(call) = call
            && call.writes()
            && call.object.starts_with(b"rbd_data.")
        {
            self.writing.insert((client, token));
        }
        // Clients are known by numbers from 100 on.
        if let Some(answer) = self.fake.carry_out(100 + client as u64, call) {
            self.answers.push((client, token, answer));
        }
        if let Call::Unwatch { cookie } = call {
            // It is not waited for any more.
            self.notifying.values_mut().for_each(|notifying| {
                notifying.left.remove(cookie);
            });
            let ids: Vec<u64> = self.notifying.keys().copied().collect();
            ids.into_iter().for_each(|id| self.end_notification(id));
        }
        if let Some((id, cookie, reply)) = ack_of(call)
            && let Some(notifying) = self.notifying.get_mut(&id)
        {
            notifying.acks.extend(Some(reply).filter(|reply| !reply.is_empty()));
            notifying.left.remove(&cookie);
            self.end_notification(id);
        }
        if let Call::Notify { object, payload, .. } = call {
            self.next += 1;
            let id = self.next;
            let name = String::from_utf8_lossy(object).into_owned();
            let watches: Vec<(u64, u64)> = self
                .fake
                .watches
                .iter()
                .filter(|(_, (_, o))| *o == name)
                .map(|(k, (c, _))| (*k, *c))
                .collect();
            let living = |(_, c): &&(u64, u64)| self.clients[(*c - 100) as usize].is_some();
            let left = watches.iter().filter(living).map(|(cookie, _)| *cookie).collect();
            self.notifying.insert(id, Notifying { client, token, left, acks: Vec::new() });
            for (cookie, to) in watches {
                let payload = payload.clone();
                self.give((to - 100) as usize, Input::Notified { cookie, notify_id: id, payload });
            }
            self.end_notification(id);
        }
    }

    fn end_notification(&mut self, id: u64) {
        if self.notifying.get(&id).is_some_and(|n| n.left.is_empty()) {
            let Notifying { client, token, acks, .. } = self.notifying.remove(&id).expect("just seen");
            self.answers.push((client, token, Answer::Notified { result: Ok(()), acks }));
        }
    }

    /// Delivers one answer, any.
    fn step(&mut self) -> bool {
        if self.answers.is_empty() {
            return false;
        }
        let i = self.rng.below(self.answers.len() as u64) as usize;
        let (client, token, answer) = self.answers.swap_remove(i);
        self.writing.remove(&(client, token));
        self.give(client, Input::Answer { token, answer });
        true
    }

    /// Delivers everything, and lets time pass while a machine waits for it.
    fn run(&mut self) {
        for _ in 0..100_000 {
            if self.step() {
                continue;
            }
            let at = self.clients.iter().flatten().filter_map(Image::deadline).min();
            let Some(at) = at else { return };
            self.now = Instant(self.now.0.max(at.0));
            (0..self.clients.len()).for_each(|client| self.give(client, Input::Timer));
        }
        panic!("it does not come to rest");
    }

    fn request(&mut self, client: usize, request: Request) -> u64 {
        self.next += 1;
        let id = self.next;
        self.give(client, Input::Request { id, request });
        id
    }

    fn call(&mut self, client: usize, request: Request) -> Result<Reply, Error> {
        let id = self.request(client, request);
        self.run();
        self.replies.remove(&(client, id)).expect("it is answered")
    }

    fn read(&mut self, client: usize) -> Vec<u8> {
        match self.call(client, Request::Read { offset: 0, len: SIZE }) {
            Ok(Reply::Data(data)) => data.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    fn write(&mut self, client: usize, offset: u64, byte: u8, len: usize) {
        self.call(client, Request::Write { offset, data: bytes(byte, len) }).expect("it is written");
    }

    /// The stored object map says that exactly the objects that exist do.
    fn check_map(&self) {
        let map = &self.fake.maps["rbd_object_map.1"];
        for n in 0..OBJECTS {
            let data = self.fake.data.get(&format!("rbd_data.1.{n:016x}"));
            let exists = data.is_some_and(|data| data.head.is_some());
            assert_eq!(map.get(n) != state::NONEXISTENT, exists, "object {n} is {}", map.get(n));
        }
    }
}

fn bytes(byte: u8, len: usize) -> Bufs {
    Buf::copy_from(&vec![byte; len]).into()
}

/// Requests many changes at once that overlap. Returns what the image is then.
fn change_at_random(rig: &mut Rig, client: usize, mut model: Vec<u8>, count: u32) -> Vec<u8> {
    let mut ids = Vec::new();
    for i in 0..count {
        let offset = rig.rng.below(SIZE);
        let len = rig.rng.range(1, (SIZE - offset).min(3 * OBJECT) + 1);
        let (offset, len) = if rig.rng.chance(1, 3) {
            let from = offset / OBJECT * OBJECT;
            (from, (2 * OBJECT).min(SIZE - from))
        } else {
            (offset, len)
        };
        let part = &mut model[offset as usize..(offset + len) as usize];
        let request = if rig.rng.chance(1, 3) {
            part.fill(0);
            Request::Zero { offset, len }
        } else {
            part.fill(i as u8 | 1);
            Request::Write { offset, data: bytes(i as u8 | 1, len as usize) }
        };
        ids.push(rig.request(client, request));
        while rig.rng.chance(1, 2) && rig.step() {}
    }
    let flush = rig.request(client, Request::Flush);
    rig.run();
    ids.push(flush);
    for id in ids {
        assert_eq!(rig.replies.remove(&(client, id)), Some(Ok(Reply::Done)));
    }
    model
}

#[test]
fn overlapping_changes_are_made_in_their_order_and_the_map_follows() {
    for seed in 0..200 {
        let features = if seed % 2 == 0 { feature::DEFAULT } else { feature::LAYERING };
        let mut rig = Rig::new(seed, cluster(features));
        let client = rig.open(None);
        let model = change_at_random(&mut rig, client, vec![0; SIZE as usize], 40);
        assert!(rig.read(client) == model, "seed {seed}");
        assert!(rig.fake.stored("1") == model, "seed {seed}");
        if seed % 2 == 0 {
            rig.check_map();
        }
        assert_eq!(rig.call(client, Request::Close), Ok(Reply::Done));
        assert!(rig.fake.headers["1"].lock.is_none() && rig.fake.watches.is_empty());
    }
}

#[test]
fn a_clone_shows_its_parent_and_snapshots_keep_what_they_saw() {
    for seed in 0..200 {
        let mut fake = cluster(feature::DEFAULT);
        // The parent is longer than what is shared, and has holes.
        let parent = FakeHeader { size: 9 * OBJECT, features: 1, snap_seq: 1, ..FakeHeader::default() };
        let snaps = BTreeMap::from([(1, ("s".to_owned(), 9 * OBJECT))]);
        fake.headers.insert("2".into(), FakeHeader { snaps, ..parent });
        let spec = ParentSpec { pool: 1, namespace: String::new(), image: "2".into(), snap: 1 };
        let overlap = 5 * OBJECT + 1234;
        fake.headers.get_mut("1").expect("it is there").parent = Some((spec, overlap));
        fake.last_snap = 1;
        let mut model = vec![0; SIZE as usize];
        for n in [0u64, 1, 3, 4, 5, 6] {
            let data = fake.data.entry(format!("rbd_data.2.{n:016x}")).or_default();
            data.head = Some(vec![100 + n as u8; OBJECT as usize]);
            let from = n * OBJECT;
            let to = (from + OBJECT).min(overlap);
            model.get_mut(from as usize..to as usize).into_iter().for_each(|part| part.fill(100 + n as u8));
        }
        let mut rig = Rig::new(seed, fake);
        let client = rig.open(None);
        assert!(rig.read(client) == model, "seed {seed}: the parent's data");
        let first = change_at_random(&mut rig, client, model.clone(), 5);
        let snap = Operation::SnapCreate { name: "t".into() };
        assert_eq!(rig.call(client, Request::Maintain(snap)), Ok(Reply::Done));
        let second = change_at_random(&mut rig, client, first.clone(), 12);
        assert!(rig.read(client) == second, "seed {seed}");
        rig.check_map();
        let old = rig.open(Some("t"));
        assert!(rig.read(old) == first, "seed {seed}: the snapshot");
        let denied = rig.call(old, Request::Write { offset: 0, data: bytes(1, 1) });
        assert_eq!(denied.map_err(|error| error.errno), Err(Errno::EPERM));
        // The snapshot's map has the objects that are there in it: a flattened image keeps only these.
        let map = &rig.fake.maps["rbd_object_map.1.0000000000000002"];
        for n in 0..OBJECTS {
            let data = rig.fake.data.get(&format!("rbd_data.1.{n:016x}"));
            let there = data.is_some_and(|data| data.at(SnapId(2)).is_some());
            assert_eq!(map.get(n) != state::NONEXISTENT, there, "seed {seed}: object {n}");
        }
    }
}

#[test]
fn the_lock_goes_back_and_forth_and_nothing_is_lost() {
    for seed in 0..100 {
        let mut rig = Rig::new(seed, cluster(feature::DEFAULT));
        let (a, b) = (rig.open(None), rig.open(None));
        let mut model = vec![0; SIZE as usize];
        for i in 0..6u8 {
            let client = if i % 2 == 0 { a } else { b };
            let at = usize::from(i) * 5000;
            rig.write(client, at as u64, i + 1, 3000);
            model[at..at + 3000].fill(i + 1);
        }
        assert!(rig.read(a) == model && rig.read(b) == model, "seed {seed}");
        rig.check_map();
        assert!(rig.fake.blocklist.is_empty() && rig.lost.is_empty());
    }
}

#[test]
fn two_clients_that_write_at_once_take_turns() {
    for seed in 0..100 {
        let mut rig = Rig::new(seed, cluster(feature::DEFAULT));
        let clients = [rig.open(None), rig.open(None)];
        let mut model = vec![0; SIZE as usize];
        let mut ids = Vec::new();
        for i in 1..40u8 {
            // Each has a half of every object.
            let which = rig.rng.below(2) as usize;
            let object = rig.rng.below(OBJECTS - 1);
            let offset = object * OBJECT + which as u64 * OBJECT / 2;
            let len = OBJECT as usize / 2;
            model[offset as usize..offset as usize + len].fill(i);
            let write = Request::Write { offset, data: bytes(i, len) };
            ids.push((clients[which], rig.request(clients[which], write)));
            while rig.rng.chance(2, 3) && rig.step() {}
        }
        rig.run();
        for id in ids {
            assert_eq!(rig.replies.remove(&id), Some(Ok(Reply::Done)));
        }
        assert!(rig.read(clients[0]) == model && rig.fake.stored("1") == model, "seed {seed}");
        rig.check_map();
        assert!(rig.fake.blocklist.is_empty() && rig.lost.is_empty());
    }
}

#[test]
fn a_dead_owner_is_put_on_the_blocklist_before_its_lock_is_broken() {
    let mut rig = Rig::new(1, cluster(feature::DEFAULT));
    let (a, b) = (rig.open(None), rig.open(None));
    rig.write(a, 0, 1, 10);
    rig.clients[a] = None;
    let id = rig.request(b, Request::Write { offset: 0, data: bytes(2, 10) });
    // While its watch lives, it is asked, and nothing is taken from it.
    for _ in 0..20 {
        while rig.step() {}
        rig.now = rig.now + Duration::from_secs(1);
        rig.give(b, Input::Timer);
    }
    assert!(rig.fake.blocklist.is_empty() && !rig.replies.contains_key(&(b, id)));
    rig.fake.watches.retain(|_, (client, _)| *client != 100 + a as u64);
    rig.run();
    assert_eq!(rig.replies.remove(&(b, id)), Some(Ok(Reply::Done)));
    assert!(rig.fake.blocklist[0].contains("10.0.0.1:0/100"), "{:?}", rig.fake.blocklist);
    rig.check_map();
}

#[test]
fn a_flush_waits_for_what_came_before_it_only() {
    let mut rig = Rig::new(1, cluster(feature::LAYERING));
    let client = rig.open(None);
    let before = rig.request(client, Request::Write { offset: 0, data: bytes(1, 10) });
    let flush = rig.request(client, Request::Flush);
    assert!(rig.replies.is_empty());
    let after = rig.request(client, Request::Write { offset: OBJECT, data: bytes(1, 10) });
    let (_, token, answer) = rig.answers.remove(0);
    rig.give(client, Input::Answer { token, answer });
    let answered: Vec<u64> = rig.replies.keys().map(|(_, id)| *id).collect();
    assert_eq!(answered, [before, flush]);
    rig.run();
    assert!(rig.replies.contains_key(&(client, after)));
}

#[test]
fn a_map_that_cannot_be_changed_is_flagged_and_the_data_are_written() {
    let mut rig = Rig::new(1, cluster(feature::DEFAULT));
    let client = rig.open(None);
    rig.fake.breaks_maps = true;
    rig.write(client, 0, 7, 100);
    assert_eq!(rig.fake.headers["1"].flags, 3);
    assert_eq!(rig.fake.stored("1")[..100], [7; 100]);
}

#[test]
fn a_lost_watch_is_begun_again_and_the_lock_follows_it() {
    let mut rig = Rig::new(1, cluster(feature::DEFAULT));
    let client = rig.open(None);
    rig.write(client, 0, 1, 10);
    let old = *rig.fake.watches.keys().next().expect("it watches");
    rig.fake.watches.clear();
    rig.give(client, Input::WatchBroken { cookie: old });
    rig.run();
    let new = *rig.fake.watches.keys().next().expect("it watches again");
    let cookie = rig.fake.headers["1"].lock.as_ref().map(|(_, cookie)| cookie.clone());
    assert_eq!(cookie, Some(format!("auto {new}").into_bytes()));
    rig.write(client, 0, 2, 10);
    assert!(rig.lost.is_empty());
}

#[test]
fn shrinking_removes_data_and_growing_shows_zeros() {
    let mut rig = Rig::new(3, cluster(feature::DEFAULT));
    let client = rig.open(None);
    rig.write(client, 0, 9, SIZE as usize);
    let resize = |size, allow_shrink| Request::Maintain(Operation::Resize { size, allow_shrink });
    let refused = rig.call(client, resize(OBJECT, false)).expect_err("it would lose data");
    assert!(refused.text.contains("--allow-shrink"));
    assert_eq!(rig.call(client, resize(2 * OBJECT + 5, true)), Ok(Reply::Done));
    let beyond = rig.call(client, Request::Read { offset: 2 * OBJECT + 5, len: 1 });
    assert_eq!(beyond.map_err(|error| error.errno), Err(Errno::EINVAL));
    assert_eq!(rig.call(client, resize(SIZE, false)), Ok(Reply::Done));
    let mut model = vec![0; SIZE as usize];
    model[..2 * OBJECT as usize + 5].fill(9);
    assert!(rig.read(client) == model);
    rig.check_map();
}

#[test]
fn features_that_are_not_supported_are_named() {
    let mut rig = Rig::new(1, cluster(feature::DEFAULT | feature::JOURNALING));
    let client = rig.open(None);
    let error = rig.opened[client].clone().expect("an answer").expect_err("it is refused");
    assert!(error.text.contains("journaling"), "{error}");
    assert!(rig.fake.watches.is_empty(), "nothing is left behind");
    assert_eq!(SnapId::HEAD.0, crate::format::NOSNAP);
}

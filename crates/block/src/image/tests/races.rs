//! What several clients do at the same time, and what a client leaves that dies in between.

use super::*;

fn snap(name: String) -> Request {
    Request::Maintain(Operation::SnapCreate { name })
}

fn resize(size: u64) -> Request {
    Request::Maintain(Operation::Resize { size, allow_shrink: true })
}

impl Rig {
    fn some_steps(&mut self) {
        while self.rng.chance(2, 3) && self.step() {}
    }

    fn answer_of(&mut self, (client, id): (usize, u64)) -> Result<Reply, Error> {
        self.replies.remove(&(client, id)).expect("it is answered")
    }

    fn map_state(&self, n: u64) -> u8 {
        self.fake.maps["rbd_object_map.1"].get(n)
    }
}

#[test]
fn many_clients_that_write_at_once_take_turns() {
    for seed in 0..50 {
        let mut rig = Rig::new(seed, cluster(feature::DEFAULT));
        let clients = [rig.open(None), rig.open(None), rig.open(None), rig.open(None)];
        let mut ids = Vec::new();
        for i in 1..30u8 {
            let client = clients[usize::from(i) % 4];
            let offset = rig.rng.below(OBJECTS - 1) * OBJECT;
            ids.push((client, rig.request(client, Request::Write { offset, data: bytes(i, 100) })));
            rig.some_steps();
        }
        rig.run();
        ids.into_iter().for_each(|id| assert_eq!(rig.answer_of(id), Ok(Reply::Done), "seed {seed}"));
        rig.check_map();
    }
}

#[test]
fn who_closes_an_image_takes_nothing_from_its_next_owner() {
    for seed in 0..100 {
        let mut rig = Rig::new(seed, cluster(feature::DEFAULT));
        let (a, b) = (rig.open(None), rig.open(None));
        rig.write(a, 0, 1, 10);
        let closed = (a, rig.request(a, Request::Close));
        let taken = (b, rig.request(b, snap("s".into())));
        rig.some_steps();
        let written = (b, rig.request(b, Request::Write { offset: OBJECT, data: bytes(2, 10) }));
        rig.run();
        for id in [closed, taken, written] {
            assert_eq!(rig.answer_of(id), Ok(Reply::Done), "seed {seed}");
        }
        rig.write(b, 2 * OBJECT, 3, 10);
        rig.check_map();
    }
}

#[test]
fn a_header_that_changes_while_it_is_read_is_read_again() {
    for seed in 0..100 {
        let mut rig = Rig::new(seed, cluster(feature::DEFAULT));
        let (a, b) = (rig.open(None), rig.open(None));
        let mut ids = Vec::new();
        for i in 0..8u8 {
            ids.push((a, rig.request(a, snap(format!("s{i}")))));
            rig.some_steps();
            let offset = u64::from(i % 4) * OBJECT;
            ids.push((b, rig.request(b, Request::Write { offset, data: bytes(i + 1, 10) })));
            rig.some_steps();
        }
        rig.run();
        ids.into_iter().for_each(|id| assert_eq!(rig.answer_of(id), Ok(Reply::Done), "seed {seed}"));
        rig.check_map();
        // A write under an old snapshot context would show in the newest snapshot.
        let newest = rig.open(Some("s7"));
        let then = rig.read(newest);
        for n in 0..4 {
            rig.write(b, n * OBJECT, 99, 10);
        }
        assert!(rig.read(newest) == then, "seed {seed}");
    }
}

#[test]
fn a_change_that_waits_while_the_image_shrinks_leaves_nothing_behind_its_end() {
    for seed in 0..100 {
        let mut rig = Rig::new(seed, cluster(feature::DEFAULT));
        let (a, b) = (rig.open(None), rig.open(None));
        rig.write(a, 0, 1, 10);
        let waits = (b, rig.request(b, Request::Write { offset: 6 * OBJECT, data: bytes(2, 10) }));
        rig.some_steps();
        let shrinks = (a, rig.request(a, resize(2 * OBJECT)));
        rig.run();
        assert_eq!(rig.answer_of(shrinks), Ok(Reply::Done));
        let written = rig.answer_of(waits).map_err(|error| error.errno);
        assert!(matches!(written, Ok(_) | Err(Errno::EINVAL)), "seed {seed}: {written:?}");
        let behind = rig.fake.data.get(&format!("rbd_data.1.{:016x}", 6));
        assert!(behind.is_none_or(|data| data.head.is_none()), "seed {seed}");
    }
}

#[test]
fn an_object_that_a_resize_cuts_has_changed() {
    let mut rig = Rig::new(1, cluster(feature::DEFAULT));
    let client = rig.open(None);
    rig.write(client, 0, 9, SIZE as usize);
    assert_eq!(rig.call(client, snap("s".into())), Ok(Reply::Done));
    assert_eq!(rig.map_state(2), state::EXISTS_CLEAN);
    assert_eq!(rig.call(client, resize(2 * OBJECT + 5)), Ok(Reply::Done));
    assert_eq!((rig.map_state(1), rig.map_state(2)), (state::EXISTS_CLEAN, state::EXISTS));
}

#[test]
fn what_changed_in_a_snapshot_is_known_when_the_snapshot_goes() {
    let mut rig = Rig::new(1, cluster(feature::DEFAULT));
    let client = rig.open(None);
    assert_eq!(rig.call(client, snap("s".into())), Ok(Reply::Done));
    rig.write(client, OBJECT, 1, 10);
    assert_eq!(rig.call(client, snap("t".into())), Ok(Reply::Done));
    assert_eq!(rig.map_state(1), state::EXISTS_CLEAN);
    rig.request(client, Request::Maintain(Operation::SnapRemove { name: "t".into() }));
    // The client may die at this moment.
    while rig.fake.headers["1"].snaps.len() == 2 {
        assert!(rig.step(), "the snapshot is removed");
    }
    assert_eq!(rig.map_state(1), state::EXISTS);
    assert_eq!(rig.fake.maps.len(), 2, "its map has gone before it");
    rig.run();
}

#[test]
fn a_map_that_an_interrupted_resize_has_left_too_long_is_cut() {
    let mut fake = cluster(feature::DEFAULT);
    let map = fake.maps.get_mut("rbd_object_map.1").expect("it has one");
    map.resize(OBJECTS + 3);
    map.set(OBJECTS + 1, state::PENDING);
    let mut rig = Rig::new(1, fake);
    let client = rig.open(None);
    rig.write(client, 0, 1, 10);
    assert_eq!(rig.fake.maps["rbd_object_map.1"].len(), OBJECTS);
    assert_eq!(rig.fake.headers["1"].flags, 0);
}

#[test]
fn a_client_that_is_excluded_while_it_closes_answers_once() {
    let mut rig = Rig::new(1, cluster(feature::DEFAULT));
    let client = rig.open(None);
    rig.write(client, 0, 1, 10);
    let id = rig.request(client, Request::Close);
    let (_, token, _) = rig.answers.remove(0);
    let answer = Answer::Object { result: Err(Errno::EBLOCKLISTED), outputs: Vec::new() };
    rig.give(client, Input::Answer { token, answer });
    rig.run();
    // The rig finds a second answer. Giving the map's lock back may fail.
    assert!(rig.replies.contains_key(&(client, id)));
}

#[test]
fn a_snapshot_that_is_cloned_while_it_is_removed_stays_for_the_clone() {
    for seed in 0..50 {
        let mut rig = Rig::new(seed, cluster(feature::DEFAULT));
        let client = rig.open(None);
        assert_eq!(rig.call(client, snap("s".into())), Ok(Reply::Done));
        let id = *rig.fake.headers["1"].snaps.first_key_value().expect("it is there").0;
        let remove = Request::Maintain(Operation::SnapRemove { name: "s".into() });
        let removed = (client, rig.request(client, remove));
        for _ in 0..rig.rng.below(8) {
            rig.step();
        }
        let header = rig.fake.headers.get_mut("1").expect("it is there");
        let is_cloned = header.snaps.contains_key(&id);
        if is_cloned {
            header.children.insert(id, 1);
        }
        rig.run();
        let wanted = if is_cloned { Reply::KeptForClones(1) } else { Reply::Done };
        assert_eq!(rig.answer_of(removed), Ok(wanted), "seed {seed}");
        assert_eq!(rig.fake.headers["1"].snaps.contains_key(&id), is_cloned);
        assert_eq!(rig.fake.headers["1"].trash.contains(&id), is_cloned);
    }
}

#[test]
fn who_loses_its_watch_while_another_wants_the_lock_keeps_the_image() {
    let mut kept = 0;
    for seed in 0..100 {
        let mut rig = Rig::new(seed, cluster(feature::DEFAULT));
        let (a, b) = (rig.open(None), rig.open(None));
        rig.write(a, 0, 1, 10);
        let cookie =
            *rig.fake.watches.iter().find(|(_, (of, _))| *of == 100 + a as u64).expect("it is there").0;
        let request = Request::Write { offset: 0, data: bytes(2, 10) };
        let written = [(a, rig.request(a, request.clone())), (b, rig.request(b, request))];
        rig.some_steps();
        rig.give(a, Input::WatchBroken { cookie });
        rig.run();
        // Without a watch for a moment it may be taken for dead.
        if !rig.fake.blocklist.is_empty() {
            continue;
        }
        kept += 1;
        for id in written {
            assert_eq!(rig.answer_of(id), Ok(Reply::Done), "seed {seed}");
        }
        assert_eq!(rig.lost, [], "seed {seed}");
    }
    assert!(kept > 50, "{kept}");
}

#[test]
fn a_rollback_that_is_cut_short_leaves_nothing_behind_the_end() {
    let mut rig = Rig::new(1, cluster(feature::LAYERING | feature::EXCLUSIVE_LOCK));
    let client = rig.open(None);
    rig.write(client, 0, 9, SIZE as usize);
    assert_eq!(rig.call(client, snap("s".into())), Ok(Reply::Done));
    assert_eq!(rig.call(client, resize(OBJECT)), Ok(Reply::Done));
    let id = rig.request(client, Request::Maintain(Operation::Rollback { name: "s".into() }));
    while !rig.replies.contains_key(&(client, id)) {
        // The client may die at each of these moments.
        assert!(rig.step(), "it ends");
        for n in rig.fake.headers["1"].size.div_ceil(OBJECT)..OBJECTS {
            let data = rig.fake.data.get(&format!("rbd_data.1.{n:016x}"));
            assert!(data.is_none_or(|data| data.head.is_none()), "object {n}");
        }
    }
    assert!(rig.read(client) == vec![9; SIZE as usize]);
}

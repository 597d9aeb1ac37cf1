//! Clones that are flattened while they are used, by whoever has the lock.

use super::clones::{clone, maintain, named};
use super::*;

type Asked = (usize, u64);

impl Rig {
    fn ask_to_flatten(&mut self, client: usize) -> Asked {
        (client, self.request(client, maintain(Operation::Flatten)))
    }

    fn steps(&mut self, most: u64) {
        for _ in 0..self.rng.below(most) {
            self.step();
        }
    }

    fn ended(&mut self, asked: Asked) -> Result<Reply, Errno> {
        self.run();
        self.replies.remove(&asked).expect("it is answered").map_err(|error| error.errno)
    }

    /// The image shows this, without any data of its parent.
    fn check_flat(&mut self, client: usize, model: &[u8]) {
        assert!(self.fake.headers["1"].parent.is_none() && self.fake.detached == 1);
        self.fake.data.retain(|name, _| !name.starts_with("rbd_data.2."));
        assert!(self.read(client) == model);
        self.check_map();
    }

    fn owner(&self) -> Option<u64> {
        self.fake.headers["1"].lock.as_ref().map(|(client, _)| *client - 100)
    }

    /// A client is gone, and its watch with it.
    fn kill(&mut self, client: usize) {
        self.clients[client] = None;
        self.answers.retain(|(of, ..)| *of != client);
        self.fake.watches.retain(|_, (of, _)| *of != client as u64 + 100);
    }
}

#[test]
fn changes_and_snapshots_go_on_while_a_clone_is_flattened() {
    for seed in 0..200 {
        let (fake, model) = clone(feature::DEFAULT);
        let mut rig = Rig::new(seed, fake);
        let client = rig.open(None);
        // Only a client with the lock flattens without asking.
        rig.write(client, 0, 100, 1);
        let asked = rig.ask_to_flatten(client);
        rig.steps(10);
        let snap = (client, rig.request(client, maintain(Operation::SnapCreate { name: named("t") })));
        let model = change_at_random(&mut rig, client, model, 10);
        assert_eq!((rig.ended(asked), rig.ended(snap)), (Ok(Reply::Done), Ok(Reply::Done)), "seed {seed}");
        let old = rig.open(Some("t"));
        let then = rig.read(old);
        rig.check_flat(client, &model);
        assert!(rig.read(old) == then, "seed {seed}: the snapshot needs no parent either");
        let model = change_at_random(&mut rig, client, model, 10);
        assert!(rig.read(client) == model, "seed {seed}");
    }
}

#[test]
fn flattening_is_no_change_since_the_last_snapshot() {
    let (fake, _) = clone(feature::DEFAULT);
    let mut rig = Rig::new(1, fake);
    let client = rig.open(None);
    let done = |rig: &mut Rig, operation| assert_eq!(rig.call(client, maintain(operation)), Ok(Reply::Done));
    done(&mut rig, Operation::SnapCreate { name: named("t") });
    done(&mut rig, Operation::Flatten);
    let states = |rig: &Rig, map: &str| [3, 4].map(|n| rig.fake.maps[map].get(n));
    assert_eq!(states(&rig, "rbd_object_map.1"), [state::EXISTS_CLEAN; 2]);
    assert_eq!(states(&rig, "rbd_object_map.1.0000000000000002"), [state::EXISTS; 2]);
    // What changes now is known to have changed.
    rig.write(client, 4 * OBJECT, 7, 10);
    assert_eq!(states(&rig, "rbd_object_map.1"), [state::EXISTS_CLEAN, state::EXISTS]);
}

#[test]
fn who_has_the_lock_flattens_for_others_and_keeps_it() {
    for seed in 0..100 {
        let (fake, model) = clone(feature::DEFAULT);
        let mut rig = Rig::new(seed, fake);
        let (owner, other) = (rig.open(None), rig.open(None));
        rig.write(owner, 0, 100, 1);
        let asked = rig.ask_to_flatten(other);
        let model = change_at_random(&mut rig, owner, model, 5);
        assert_eq!(rig.ended(asked), Ok(Reply::Done), "seed {seed}");
        assert_eq!((rig.owner(), rig.progress), (Some(owner as u64), 1), "seed {seed}");
        rig.check_flat(other, &model);
        let again = rig.ask_to_flatten(other);
        assert_eq!(rig.ended(again), Err(Errno::EINVAL), "it is no clone any more");
    }
}

#[test]
fn a_clone_is_flattened_by_another_if_the_owner_leaves_or_dies() {
    for seed in 0..200 {
        let (fake, model) = clone(feature::DEFAULT);
        let mut rig = Rig::new(seed, fake);
        let (owner, other) = (rig.open(None), rig.open(None));
        rig.write(owner, 0, 100, 1);
        let asked = rig.ask_to_flatten(other);
        rig.steps(12);
        if seed % 2 == 0 {
            rig.request(owner, Request::Close);
        } else {
            rig.kill(owner);
        }
        // Whoever has died may have ended it before.
        let ended = rig.ended(asked);
        assert!(matches!(ended, Ok(Reply::Done) | Err(Errno::EINVAL)), "seed {seed}: {ended:?}");
        assert!(rig.fake.headers["1"].parent.is_none(), "seed {seed}");
        rig.fake.data.retain(|name, _| !name.starts_with("rbd_data.2."));
        assert!(rig.read(other) == model, "seed {seed}");
    }
}

/// A clone whose flattening ended where its parent has forgotten it, and it has not forgotten its parent.
fn cut_short(seed: u64) -> (Rig, Vec<u8>) {
    let (fake, model) = clone(feature::DEFAULT);
    let mut rig = Rig::new(seed, fake);
    let client = rig.open(None);
    rig.ask_to_flatten(client);
    while rig.fake.detached == 0 {
        assert!(rig.step(), "seed {seed}: it goes on");
    }
    rig.kill(client);
    assert!(rig.fake.headers["1"].parent.is_some(), "seed {seed}");
    (rig, model)
}

#[test]
fn a_clone_that_its_parent_has_forgotten_is_flattened_though_the_parent_is_gone() {
    for seed in 0..50 {
        let (mut rig, model) = cut_short(seed);
        if seed % 2 == 0 {
            rig.fake.headers.get_mut("2").expect("it is there").snaps.clear();
        } else {
            rig.fake.headers.remove("2");
        }
        rig.fake.data.retain(|name, _| !name.starts_with("rbd_data.2."));
        let client = rig.open(None);
        let Some(Err(error)) = &rig.opened[client] else { panic!("seed {seed}: it has no parent") };
        assert!(error.errno == Errno::ENOENT && error.text.contains("--parent-is-gone"), "{error}");
        rig.lost.clear();

        let client = rig.open_for(Access::FlattenOrphan, None);
        let denied = rig.call(client, Request::Read { offset: 0, len: 1 });
        assert_eq!(denied.map_err(|error| error.errno), Err(Errno::EPERM));
        assert_eq!(rig.call(client, maintain(Operation::Flatten)), Ok(Reply::Done), "seed {seed}");
        let client = rig.open(None);
        rig.fake.detached = 1;
        rig.check_flat(client, &model);
    }
}

#[test]
fn a_clone_whose_parent_is_there_after_all_gets_its_data() {
    let (fake, model) = clone(feature::DEFAULT);
    let mut rig = Rig::new(1, fake);
    let client = rig.open_for(Access::FlattenOrphan, None);
    assert_eq!(rig.call(client, maintain(Operation::Flatten)), Ok(Reply::Done));
    let client = rig.open(None);
    rig.check_flat(client, &model);
}

#[test]
fn clients_that_flatten_and_write_at_once_take_turns() {
    for seed in 0..100 {
        let (fake, mut model) = clone(feature::DEFAULT);
        let mut rig = Rig::new(seed, fake);
        let clients = [rig.open(None), rig.open(None), rig.open(None)];
        let asked = [rig.ask_to_flatten(clients[0]), rig.ask_to_flatten(clients[1])];
        let mut ids = Vec::new();
        for n in 0..OBJECTS - 1 {
            let client = *rig.rng.pick(&clients);
            let write = Request::Write { offset: n * OBJECT, data: bytes(9, 100) };
            ids.push((client, rig.request(client, write)));
            model[(n * OBJECT) as usize..][..100].fill(9);
            rig.steps(8);
        }
        for id in ids {
            assert_eq!(rig.ended(id), Ok(Reply::Done), "seed {seed}");
        }
        let ends = asked.map(|asked| rig.ended(asked));
        assert!(ends.contains(&Ok(Reply::Done)), "seed {seed}: {ends:?}");
        rig.check_flat(clients[2], &model);
    }
}

#[test]
fn nobody_reads_the_parent_where_a_flattened_image_is_trimmed() {
    for seed in 0..200 {
        let (fake, model) = clone(feature::DEFAULT);
        let mut rig = Rig::new(seed, fake);
        let (owner, other) = (rig.open(None), rig.open(None));
        // The parent has 104 here.
        rig.write(owner, 4 * OBJECT, 7, OBJECT as usize);
        let asked = rig.ask_to_flatten(owner);
        let trim = Request::Zero { offset: 4 * OBJECT, len: OBJECT };
        let mut trims = Vec::new();
        let mut reads = Vec::new();
        while !rig.replies.contains_key(&asked) {
            reads.push((other, rig.request(other, Request::Read { offset: 4 * OBJECT, len: 100 })));
            trims.push((owner, rig.request(owner, trim.clone())));
            for _ in 0..4 {
                rig.step();
            }
        }
        rig.run();
        for read in reads {
            let Some(Ok(Reply::Data(data))) = rig.replies.remove(&read) else { panic!("it is answered") };
            let data = data.to_vec();
            let known = [[7; 100], [0; 100]].iter().any(|all| data == all);
            assert!(known, "seed {seed}: {data:?}");
        }
        assert!(rig.read(other)[..OBJECT as usize] == model[..OBJECT as usize]);
    }
}

//! Clones that shrink, are flattened, and lose their snapshots; and what is left of images.

use super::*;
use crate::script::{Progress, Script};

/// Bytes that image 1 shares with its parent, image 2.
pub(super) const SHARED: u64 = 5 * OBJECT + 1234;

/// A cluster in which the image is a clone. Returns what it shows too.
pub(super) fn clone(features: u64) -> (Fake, Vec<u8>) {
    let mut fake = cluster(features);
    let snaps = BTreeMap::from([(1, ("s".to_owned(), SIZE))]);
    let parent = FakeHeader { size: SIZE, features: 1, snap_seq: 1, snaps, ..FakeHeader::default() };
    fake.headers.insert("2".into(), parent);
    let spec = ParentSpec { pool: 1, namespace: String::new(), image: "2".into(), snap: 1 };
    fake.headers.get_mut("1").expect("it is there").parent = Some((spec, SHARED));
    fake.last_snap = 1;
    let mut model = vec![0; SIZE as usize];
    for n in [0u64, 1, 3, 4, 5] {
        let data = fake.data.entry(format!("rbd_data.2.{n:016x}")).or_default();
        data.head = Some(vec![100 + n as u8; OBJECT as usize]);
        let to = ((n + 1) * OBJECT).min(SHARED);
        model[(n * OBJECT) as usize..to as usize].fill(100 + n as u8);
    }
    (fake, model)
}

pub(super) fn maintain(operation: Operation) -> Request {
    Request::Maintain(operation)
}

pub(super) fn named(name: &str) -> String {
    name.to_owned()
}

#[test]
fn snapshots_of_a_clone_that_shrinks_keep_the_parents_data() {
    for seed in 0..50 {
        let (fake, model) = clone(feature::DEFAULT);
        let mut rig = Rig::new(seed, fake);
        let client = rig.open(None);
        let taken = rig.call(client, maintain(Operation::SnapCreate { name: named("t") }));
        assert_eq!(taken, Ok(Reply::Done));
        for size in [OBJECT + 100, SIZE] {
            let resized = maintain(Operation::Resize { size, allow_shrink: true });
            assert_eq!(rig.call(client, resized), Ok(Reply::Done));
        }
        rig.write(client, OBJECT, 7, 10);
        rig.write(client, 4 * OBJECT, 7, 10);
        let mut now = model.clone();
        now[OBJECT as usize + 100..].fill(0);
        for n in [1, 4] {
            now[n * OBJECT as usize..][..10].fill(7);
        }
        assert!(rig.read(client) == now, "seed {seed}");
        rig.check_map();
        let old = rig.open(Some("t"));
        assert!(rig.read(old) == model, "seed {seed}: the snapshot");
        let flat = rig.call(client, maintain(Operation::Flatten));
        assert_eq!((flat, rig.fake.headers["1"].parent.is_none()), (Ok(Reply::Done), true));
        let old = rig.open(Some("t"));
        assert!(rig.read(old) == model && rig.read(client) == now, "seed {seed}: flattened");
    }
}

#[test]
fn a_flattened_image_needs_no_parent() {
    for seed in 0..50 {
        let (fake, model) = clone(feature::DEFAULT);
        let mut rig = Rig::new(seed, fake);
        let client = rig.open(None);
        let mut model = change_at_random(&mut rig, client, model, 3);
        assert_eq!(rig.call(client, maintain(Operation::Flatten)), Ok(Reply::Done));
        assert!(rig.fake.headers["1"].parent.is_none() && rig.fake.detached == 1);
        rig.fake.data.retain(|name, _| !name.starts_with("rbd_data.2."));
        assert!(rig.read(client) == model, "seed {seed}");
        model = change_at_random(&mut rig, client, model, 10);
        assert!(rig.read(client) == model, "seed {seed}");
        rig.check_map();
        let again = rig.call(client, maintain(Operation::Flatten));
        assert_eq!(again.map_err(|error| error.errno), Err(Errno::EINVAL));
    }
}

#[test]
fn the_parent_forgets_a_flattened_image_with_its_last_snapshot() {
    let (fake, _) = clone(feature::DEFAULT & !feature::DEEP_FLATTEN);
    let mut rig = Rig::new(1, fake);
    let client = rig.open(None);
    let done = |rig: &mut Rig, operation| assert_eq!(rig.call(client, maintain(operation)), Ok(Reply::Done));
    done(&mut rig, Operation::SnapCreate { name: named("t") });
    done(&mut rig, Operation::SnapCreate { name: named("u") });
    done(&mut rig, Operation::Flatten);
    done(&mut rig, Operation::SnapRemove { name: named("t") });
    assert_eq!(rig.fake.detached, 0);
    done(&mut rig, Operation::SnapRemove { name: named("u") });
    assert_eq!(rig.fake.detached, 1);
}

#[test]
fn what_an_interrupted_removal_has_left_can_be_removed() {
    let run = |fake: &mut Fake| {
        let place = Place { pool: 1, namespace: Vec::new() };
        let mut script = Script::new(move |cx| crate::remove_remains(cx, &place, "i"));
        let mut progress = script.start();
        loop {
            match progress {
                Progress::Ended(result) => return result.map_err(|error| error.errno),
                Progress::Waits => panic!("all calls are answered"),
                Progress::Calls(calls) => {
                    let answers: Vec<Answer> =
                        calls.iter().filter_map(|call| fake.carry_out(100, call)).collect();
                    progress = Progress::Waits;
                    for (i, answer) in answers.into_iter().enumerate() {
                        progress = script.answer(i, answer);
                    }
                }
            }
        }
    };
    let mut fake = cluster(feature::DEFAULT);
    assert_eq!(run(&mut fake), Err(Errno::EBUSY), "it is whole");
    fake.headers.clear();
    assert_eq!(run(&mut fake), Ok(true));
    assert!(fake.maps.is_empty());
}

#[test]
fn after_an_image_has_become_smaller_nobody_reads_its_parent_behind_the_end() {
    for seed in 0..100 {
        let (fake, _) = clone(feature::DEFAULT);
        let mut rig = Rig::new(seed, fake);
        let clients = [rig.open(None), rig.open(None)];
        let id = rig.request(clients[0], maintain(Operation::Resize { size: OBJECT, allow_shrink: true }));
        while !rig.replies.contains_key(&(clients[0], id)) {
            assert!(rig.step(), "it is answered");
        }
        for client in clients {
            let read = rig.call(client, Request::Read { offset: 4 * OBJECT, len: 10 });
            assert_eq!(read.map_err(|error| error.errno), Err(Errno::EINVAL), "seed {seed}");
        }
    }
}

#[test]
fn while_a_clone_shrinks_nobody_reads_its_parent_under_what_goes() {
    for seed in 0..200 {
        let (fake, _) = clone(feature::DEFAULT);
        let mut rig = Rig::new(seed, fake);
        let clients = [rig.open(None), rig.open(None)];
        // The parent has 104 here.
        rig.write(clients[0], 4 * OBJECT, 7, OBJECT as usize);
        let resize = Operation::Resize { size: OBJECT, allow_shrink: true };
        let shrinks = rig.request(clients[0], maintain(resize));
        let mut reads = Vec::new();
        while !rig.replies.contains_key(&(clients[0], shrinks)) {
            let client = *rig.rng.pick(&clients);
            reads.push((client, rig.request(client, Request::Read { offset: 4 * OBJECT, len: 100 })));
            for _ in 0..4 {
                rig.step();
            }
        }
        rig.run();
        for read in reads {
            match rig.replies.remove(&read).expect("it is answered") {
                Ok(Reply::Data(data)) => {
                    let data = data.to_vec();
                    let known = [[7; 100], [0; 100]].iter().any(|all| data == all);
                    assert!(known, "seed {seed}: {data:?}");
                }
                Err(error) => assert_eq!(error.errno, Errno::EINVAL, "seed {seed}: it is behind the end"),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_clone_whose_parent_has_gone_can_be_removed_and_nothing_else() {
    let (mut fake, _) = clone(feature::DEFAULT);
    fake.headers.remove("2");
    let mut rig = Rig::new(1, fake);
    let client = rig.open(None);
    assert!(rig.opened[client].as_ref().is_some_and(Result::is_err));
    let client = rig.open_for(Access::Remove, None);
    let read = rig.call(client, Request::Read { offset: 0, len: 10 });
    assert_eq!(read.map_err(|error| error.errno), Err(Errno::EPERM));
    assert_eq!(rig.call(client, maintain(Operation::Remove)), Ok(Reply::Done));
    assert_eq!(rig.fake.detached, 1);
}

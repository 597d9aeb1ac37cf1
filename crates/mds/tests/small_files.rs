//! Small new files whose data go through the journal: whoever looks into their objects finds the data there.

mod world;

use mds::{ClientId, MdsOptions, ObjectId};
use msgs::{MdsOp, cap};
use std::collections::BTreeMap;
use std::time::Duration;
use world::client::{create, open, request, setattr_size, two};
use world::pair::{A, B, caps, ino, ok, stat, two_clients};
use world::{ROOMY, TINY, World};

const OBJECT_BITS: u32 = cap::FILE_RD | cap::FILE_WR | cap::FILE_CACHE | cap::FILE_BUFFER;

fn object(w: &World, ino: u64) -> Option<Vec<u8>> {
    let name = format!("{ino:x}.00000000");
    let id = ObjectId { pool: w.cfg.data_pool, ns: String::new(), name };
    w.objects.get(&id).map(|object| object.data.clone())
}

/// A sends the content of a file with its flush; true if the rank has taken it.
fn sync(w: &mut World, ino: u64, content: &[u8]) -> bool {
    let (tid, flush) = w.clients.get_mut(&A).expect("a").sync_small(ino, content);
    w.send(A, tid, flush);
    w.quiet();
    assert!(w.clients[&A].flush_acks.contains(&tid), "it is acknowledged");
    w.clients[&A].data_taken.contains(&tid)
}

/// A makes a file of which only the journal has the content.
fn synced(w: &mut World, path: &str, content: &[u8]) -> u64 {
    let file = ino(&w.call(A, create(path, 2)));
    assert!(sync(w, file, content), "the content of {path} is taken");
    assert_eq!(object(w, file), None, "nobody has looked for it yet");
    file
}

/// Runs until what came into the journal is stored.
fn a_while(w: &mut World) {
    for _ in 0..3 {
        w.advance(Duration::from_secs(1));
        w.quiet();
    }
}

#[test]
fn the_content_is_stored_after_a_while() {
    let mut w = two_clients(1);
    let file = synced(&mut w, "f", b"content");
    assert_eq!(stat(&mut w, A, "f").size, 7);
    a_while(&mut w);
    assert_eq!(object(&w, file), Some(b"content".to_vec()));
}

/// A client that has dropped the file since it claimed it has to see that the rank believes otherwise: it
/// asks for what the rank takes to be known to it.
#[test]
fn a_claimed_capability_does_not_look_new_when_it_is_given_again() {
    let mut w = two_clients(8);
    let file = synced(&mut w, "f", b"content");
    let given = |w: &mut World| w.call(A, open("f", 0)).trace.target.expect("the file").cap.seq;
    w.restart(&[A, B]);
    assert!(w.clients[&A].held.contains_key(&file), "it was claimed");
    assert_eq!((given(&mut w), given(&mut w)), (2, 3));
    let new = w.call(B, create("g", 2)).trace.target.expect("a new file");
    assert_eq!(new.cap.seq, 1);
}

#[test]
fn another_client_gets_what_it_needs_for_objects_once_the_content_is_there() {
    let mut w = two_clients(2);
    let file = synced(&mut w, "f", b"content");
    let tid = w.start(B, open("f", 0));
    while !w.clients[&B].replies.contains_key(&tid) || caps(&w, B, file) & cap::FILE_RD == 0 {
        assert_eq!(caps(&w, B, file) & OBJECT_BITS, 0, "it can't read yet");
        assert!(w.io_step(), "it is stored at once");
    }
    assert_eq!(object(&w, file), Some(b"content".to_vec()));
}

#[test]
fn a_client_that_asks_is_answered_when_the_content_is_stored() {
    let mut w = two_clients(3);
    let file = synced(&mut w, "f", b"content");
    ok(&mut w, request(MdsOp::STORE_DATA, "f"));
    assert_eq!(object(&w, file), Some(b"content".to_vec()));
    let before = w.io_count;
    ok(&mut w, request(MdsOp::STORE_DATA, "f"));
    assert_eq!(w.io_count, before, "it is stored already");
}

#[test]
fn the_content_survives_a_crash_and_is_given_to_others_then() {
    for seed in 10..30 {
        let mut w = two_clients(seed);
        let file = synced(&mut w, "f", b"content");
        if seed % 2 == 0 {
            w.start(B, open("f", 0));
            for _ in 0..seed % 5 {
                w.io_step();
            }
        }
        w.crash(if seed % 3 == 0 { &[B] } else { &[A, B] });
        w.call(B, open("f", 0));
        assert_eq!(object(&w, file), Some(b"content".to_vec()), "seed {seed}");
        assert_ne!(caps(&w, B, file) & cap::FILE_RD, 0, "seed {seed}");
    }
}

#[test]
fn what_a_client_writes_after_it_asked_is_not_written_over() {
    for seed in 30..60 {
        let mut w = two_clients(seed);
        let file = synced(&mut w, "f", b"content");
        ok(&mut w, request(MdsOp::STORE_DATA, "f"));
        let name = format!("{file:x}.00000000");
        let id = ObjectId { pool: w.cfg.data_pool, ns: String::new(), name };
        w.objects.get_mut(&id).expect("it is stored").data = b"newer".to_vec();
        w.crash(&[A, B]);
        a_while(&mut w);
        assert_eq!(object(&w, file), Some(b"newer".to_vec()), "seed {seed}");
    }
}

#[test]
fn only_new_small_files_go_through_the_journal() {
    let mut w = two_clients(4);
    let file = ino(&w.call(A, create("old", 2)));
    assert!(sync(&mut w, file, b"content"));
    ok(&mut w, request(MdsOp::STORE_DATA, "old"));
    assert!(!sync(&mut w, file, b"other content"), "an object has the old one");

    let file = ino(&w.call(A, create("large", 2)));
    assert!(!sync(&mut w, file, &vec![1; 16 * 1024 + 1]));

    let file = ino(&w.call(A, create("cut", 2)));
    ok(&mut w, setattr_size("cut", 100));
    ok(&mut w, setattr_size("cut", 0));
    assert!(!sync(&mut w, file, b"content"), "objects may have been made");

    let file = ino(&w.call(A, create("shared", 2)));
    w.call(B, open("shared", 0));
    assert!(!sync(&mut w, file, b"content"), "another client looks into objects");

    w.rank.set_full(true);
    let file = w.clients[&A].held.keys().next_back().copied().expect("a file");
    assert!(!sync(&mut w, file, b"content"), "there may be no space for the object");
}

#[test]
fn a_newer_content_takes_the_place_of_the_one_in_the_journal_even_while_that_is_being_stored() {
    for seed in 60..90 {
        let mut w = two_clients(seed);
        let file = synced(&mut w, "f", b"content");
        if seed % 2 == 0 {
            w.advance(Duration::from_secs(1));
            w.advance(Duration::from_secs(1));
            for _ in 0..seed % 4 {
                w.io_step();
            }
        }
        let is_taken = sync(&mut w, file, b"a newer content");
        assert!(is_taken || object(&w, file) == Some(b"content".to_vec()), "seed {seed}: it is in one place");
        if seed % 3 == 0 {
            w.crash(&[A, B]);
        }
        w.call(B, open("f", 0));
        let expected: &[u8] = if is_taken { b"a newer content" } else { b"content" };
        assert_eq!(object(&w, file).as_deref(), Some(expected), "seed {seed}");
    }
}

#[test]
fn a_newer_content_is_taken_although_there_is_no_room_for_another() {
    let mut w = World::new(6, MdsOptions { cache_inodes: 400, ..ROOMY });
    w.connect(A);
    let first = synced(&mut w, "first", b"old");
    let mut n = 0;
    loop {
        let file = ino(&w.call(A, create(&format!("f{n}"), 2)));
        if !sync(&mut w, file, b"content") {
            break;
        }
        n += 1;
    }
    assert!(n > 0 && object(&w, first).is_none(), "{n} files fit, and the first is not stored yet");
    assert!(sync(&mut w, first, b"newer"));
    a_while(&mut w);
    assert_eq!(object(&w, first), Some(b"newer".to_vec()));
}

#[test]
fn a_truncation_comes_after_the_content() {
    let mut w = two_clients(5);
    let file = synced(&mut w, "f", b"content");
    ok(&mut w, setattr_size("f", 3));
    a_while(&mut w);
    assert_eq!((stat(&mut w, B, "f").size, object(&w, file)), (3, Some(b"con".to_vec())));
}

#[test]
fn a_removed_file_is_never_stored() {
    let mut w = two_clients(6);
    let file = synced(&mut w, "f", b"content");
    ok(&mut w, request(MdsOp::UNLINK, "f"));
    w.release(A, file);
    w.quiet();
    a_while(&mut w);
    assert_eq!(object(&w, file), None);
    assert!(w.data_snaps.contains_key(&format!("{file:x}.00000000")), "it was purged");
}

#[test]
fn a_file_that_was_renamed_keeps_its_content() {
    let mut w = two_clients(7);
    let file = synced(&mut w, "f.tmp", b"content");
    ok(&mut w, two(MdsOp::RENAME, "f", "f.tmp"));
    w.crash(&[A, B]);
    w.call(B, open("f", 0));
    assert_eq!(object(&w, file), Some(b"content".to_vec()));
}

#[test]
fn a_snapshot_contains_the_content() {
    let mut w = two_clients(8);
    ok(&mut w, world::client::mkdir("d"));
    let below = synced(&mut w, "d/f", b"below");
    let beside = synced(&mut w, "g", b"beside");
    let dir = stat(&mut w, A, "d").ino;
    let mut make = request(MdsOp::MKSNAP, "s");
    make.path.ino = dir;
    ok(&mut w, make);
    assert_eq!(object(&w, below), Some(b"below".to_vec()), "it is there before the snapshot");
    assert_eq!(object(&w, beside), None, "the snapshot does not contain it");
    assert_eq!(w.data_snaps[&format!("{below:x}.00000000")], Vec::<u64>::new());
}

/// The journal's segments expire although the data pool answers nothing.
#[test]
fn metadata_go_on_while_data_cannot_be_stored() {
    let mut w = World::new(9, MdsOptions { journal_bytes: 256 << 10, ..ROOMY });
    w.connect(A);
    let file = synced(&mut w, "f", &[7; 4096]);
    let mut held = Vec::new();
    for n in 0..2000 {
        let tid = w.start(A, create(&format!("x{n}"), 2));
        loop {
            let pool = w.cfg.data_pool;
            held.extend(w.in_flight.extract_if(.., |io| io.object.pool == pool));
            if !w.io_step() && w.clients[&A].replies.contains_key(&tid) {
                break;
            }
            let due = w.rank.journal_deadline().map(|due| due.since(w.now.mono));
            w.advance(due.unwrap_or(Duration::from_millis(1)));
        }
        assert_eq!(w.reply(A, tid).result, 0);
        assert!(w.rank.journal_bytes() < 300 << 10, "{} bytes of journal", w.rank.journal_bytes());
    }
    assert!(!held.is_empty(), "it was to be stored");
    w.restart(&[A]);
    a_while(&mut w);
    assert_eq!(object(&w, file), Some(vec![7; 4096]));
}

/// What a random run knows of its files: the content that was taken.
struct Run {
    w: World,
    files: BTreeMap<String, (u64, Vec<u8>)>,
    made: usize,
}

impl Run {
    fn step(&mut self) {
        let names: Vec<String> = self.files.keys().cloned().collect();
        let some = (!names.is_empty()).then(|| self.w.rng.pick(&names).clone());
        match (self.w.rng.below(9), some) {
            (0..=2, _) => {
                self.made += 1;
                let path = format!("f{}", self.made);
                let file = ino(&self.w.call(A, create(&path, 2)));
                let content = vec![self.made as u8; 1 + self.w.rng.below(3000) as usize];
                if sync(&mut self.w, file, &content) {
                    self.files.insert(path, (file, content));
                }
            }
            (3, Some(path)) => {
                self.w.call(B, open(&path, 0));
                self.check(&path);
            }
            (4, Some(path)) => {
                ok(&mut self.w, request(MdsOp::UNLINK, &path));
                self.files.remove(&path);
            }
            (5, Some(path)) => {
                self.made += 1;
                let to = format!("r{}", self.made);
                ok(&mut self.w, two(MdsOp::RENAME, &to, &path));
                let file = self.files.remove(&path).expect("it is there");
                self.files.insert(to, file);
            }
            (6, Some(path)) => {
                ok(&mut self.w, request(MdsOp::STORE_DATA, &path));
                self.check(&path);
            }
            (7, _) => {
                for _ in 0..self.w.rng.below(4) {
                    self.w.advance(Duration::from_millis(500));
                    self.w.io_step();
                }
            }
            _ => {
                for _ in 0..self.w.rng.below(10) {
                    self.w.io_step();
                }
                self.w.crash(&[A, B]);
            }
        }
    }

    fn check(&self, path: &str) {
        let (file, content) = &self.files[path];
        assert_eq!(object(&self.w, *file).as_ref(), Some(content), "{path}");
    }
}

#[test]
fn whoever_opens_a_file_finds_its_content_after_any_crash() {
    for seed in 100..160 {
        let mut run = Run {
            w: World::new(seed, if seed % 2 == 0 { ROOMY } else { TINY }),
            files: BTreeMap::new(),
            made: 0,
        };
        run.w.connect(A);
        run.w.connect(B);
        for _ in 0..120 {
            run.step();
        }
        a_while(&mut run.w);
        let paths: Vec<String> = run.files.keys().cloned().collect();
        for path in paths {
            run.w.call(B, open(&path, 0));
            run.check(&path);
        }
        run.w.rank.evict(ClientId(A));
        run.w.finish_evictions();
    }
}

//! Copies of PGs move between the stores of simulated OSDs, and programs die meanwhile.

use super::*;
use maps::{PgId, Spg};
use msgs::Op;
use sim::cluster::{Cluster, Spec};
use sim::objects::OBJECTS;
use sim::{Crash, Faults, SimDisk};
use std::os::unix::fs::FileExt;
use store::TxnOp;

const DISK: u64 = 128 << 20;
/// The only PG of the only pool.
const PG: Spg = Spg { pgid: PgId { pool: 1, seed: 0 }, shard: Spg::NO_SHARD };
/// The mark of objects that are only partly there (`docs/format.md`).
const TEMP_POOL: i64 = -3;

/// Two stopped OSDs, of which the first has the PG.
struct Stopped {
    dir: tempfile::TempDir,
    cluster: Cluster,
    /// The OSD that has the PG, and the other.
    has: usize,
    lacks: usize,
}

impl Stopped {
    fn new(objects: u32) -> Self {
        let options = [
            ("osd_pool_default_size", "1"),
            ("osd_pool_default_min_size", "1"),
            ("mon_allow_pool_size_one", "true"),
            ("mon_warn_on_pool_no_redundancy", "false"),
        ];
        let options = options.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let spec = Spec { osds: 2, clients: 1, pgs: 1, osd_disk: DISK, options, ..Spec::default() };
        let mut cluster = Cluster::new(3, Faults::none(), &spec);
        cluster.bring_up().expect("comes up");
        for i in 0..objects {
            cluster.client(0).write(&format!("o{i}"), &vec![i as u8; 100 + 997 * (i as usize % 9)]);
        }
        let entries =
            |from: u32| (from..from + 40).map(|i| (format!("k{i}").into_bytes(), vec![7; 5000])).collect();
        for part in 0..5 {
            let data =
                msgs::op::input::write(&msgs::op::input::OmapValues::from_iter::<Vec<_>>(entries(40 * part)));
            let (result, _) = cluster.client(0).object("large-omap", vec![Op::OmapSetVals { data }]);
            assert_eq!(result, Ok(0));
        }
        cluster.world.run_for(std::time::Duration::from_secs(1));
        let slots = cluster.osds.clone();
        slots.iter().for_each(|slot| cluster.world.crash(*slot, Crash::Process));
        let mut this = Self { dir: tempfile::tempdir().expect("a directory"), cluster, has: 0, lacks: 1 };
        (0..2).for_each(|osd| this.save(osd));
        let mut first = Local::open(&this.path(0)).expect("opens");
        if !first.pgs().expect("lists").contains(&PG) {
            (this.has, this.lacks) = (1, 0);
        }
        this
    }

    fn path(&self, osd: usize) -> PathBuf {
        self.dir.path().join(format!("osd.{osd}"))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes an OSD's disk into a file.
    fn save(&mut self, osd: usize) {
        let slot = self.cluster.osds[osd];
        let file = File::create(self.path(osd)).expect("creates");
        file.set_len(DISK).expect("grows");
        for at in (0..DISK).step_by(1 << 20) {
            let bytes = self.cluster.world.disk(slot, 0).read(at, 1 << 20);
            if bytes.iter().any(|byte| *byte != 0) {
                file.write_all_at(&bytes, at).expect("writes");
            }
        }
    }

    /// Reads an OSD's disk from a file.
    fn load(&mut self, osd: usize) {
        let mut disk = SimDisk::new(DISK);
        let file = File::open(self.path(osd)).expect("opens");
        let mut bytes = vec![0; 1 << 20];
        for at in (0..DISK).step_by(1 << 20) {
            file.read_exact_at(&mut bytes, at).expect("reads");
            if bytes.iter().any(|byte| *byte != 0) {
                let (id, data) = (node::DiskOpId(1), bytes.clone().into());
                disk.issue(
                    id,
                    node::DiskOp::Write { disk: node::DiskId(0), offset: at, data, through: true },
                );
                disk.end(id).expect("is written");
            }
        }
        let slot = self.cluster.osds[osd];
        *self.cluster.world.disk(slot, 0) = disk;
    }

    /// Starts the OSD that lacked the PG. Returns its error if it does not stay up.
    fn start_the_other(&mut self) -> Result<(), String> {
        self.load(self.lacks);
        let slot = self.cluster.osds[self.lacks];
        self.cluster.world.start(slot);
        self.cluster.world.run_for(std::time::Duration::from_secs(20));
        let stopped = self.cluster.world.stopped(slot).cloned();
        self.cluster.world.complaints.clear();
        self.cluster.world.crash(slot, Crash::Process);
        self.save(self.lacks);
        stopped.unwrap_or(Ok(()))
    }

    fn export(&self, osd: usize, name: &str) -> Result<()> {
        let file = self.file(name);
        let pg = Some(PG.to_string());
        super::export(&ExportArgs { target: self.path(osd), pg, pool: None, file, format: Format::Plain })
    }

    fn import(&self, name: &str) -> Result<()> {
        let (target, file) = (self.path(self.lacks), self.file(name));
        super::import(&ImportArgs { target, file, format: Format::Json })
    }

    /// An import whose program dies after it has read a number of bytes.
    fn import_and_die(&self, name: &str, after: u64) {
        let file = File::open(self.file(name)).expect("opens");
        let mut local = Local::open(&self.path(self.lacks)).expect("opens");
        let mut input = PgReader::new(BufReader::new(file.take(after))).expect("begins");
        let import = Import::begin(&mut local, &mut input).expect("may be done");
        import.fill(&mut local, &mut input).expect_err("it ends too early");
    }
}

/// The content of an export without its origin and the OSD's epoch.
fn objects(path: &Path) -> Vec<Item> {
    let mut input = reader(path, &ProgressBar::hidden()).expect("opens");
    let mut out = Vec::new();
    while let Some(item) = input.next().expect("is whole") {
        out.push(item);
    }
    out.drain(..2);
    out
}

fn says(result: Result<(), impl std::fmt::Display>, words: &[&str]) {
    let text = format!("{:#}", result.expect_err("is refused"));
    assert!(words.iter().all(|word| text.contains(word)), "{words:?} in: {text}");
}

#[test]
fn an_import_that_died_is_noticed_and_begun_anew() {
    let mut s = Stopped::new(60);
    s.export(s.has, "pg").expect("exports");
    let all = objects(&s.file("pg"));
    assert!(all.len() > 120, "objects, data and a large omap: {}", all.len());
    let bytes = std::fs::metadata(s.file("pg")).expect("is there").len();
    let untouched = std::fs::read(s.path(s.lacks)).expect("reads");
    for (n, after) in [bytes / 40, bytes / 3, bytes - 30, bytes - 1].into_iter().enumerate() {
        std::fs::write(s.path(s.lacks), &untouched).expect("writes");
        s.import_and_die("pg", after);
        says(s.export(s.lacks, "part"), &["only a part of PG 1.0"]);
        says(
            s.start_the_other(),
            &["pg 1.0 is only partly here", "nacre store import", "nacre store remove"],
        );
        // A second attempt dies too, earlier.
        s.import_and_die("pg", after / 2);
        let back = format!("back{n}");
        s.import("pg").expect("what is left is removed, and all comes");
        says(s.import("pg"), &["has a copy of PG 1.0 already"]);
        s.export(s.lacks, &back).expect("exports");
        assert!(objects(&s.file(&back)) == all, "the same objects");
        s.start_the_other().expect("the OSD starts");
    }
}

#[test]
fn what_an_import_has_left_is_removed() {
    let mut s = Stopped::new(30);
    s.export(s.has, "pg").expect("exports");
    s.import_and_die("pg", std::fs::metadata(s.file("pg")).expect("is there").len() / 2);
    let remove = |osd: usize| RemoveArgs { target: s.path(osd), pg: PG.to_string() };
    says(remove_copy(&remove(s.has)), &["whole copy"]);
    remove_copy(&remove(s.lacks)).expect("removes");
    says(remove_copy(&remove(s.lacks)), &["no PG 1.0"]);
    s.start_the_other().expect("the OSD starts");
    let mut local = Local::open(&s.path(s.lacks)).expect("opens");
    let newest = local.owner().expect("has one").newest;
    assert_eq!(local.count(PG, newest).expect("lists"), 0);
}

fn remove_copy(args: &RemoveArgs) -> Result<()> {
    super::remove(args)
}

/// More objects than fit into one transaction.
#[test]
fn many_objects_are_imported_and_what_fails_leaves_nothing() {
    const MANY: u32 = 20_000;
    let s = Stopped::new(1);
    s.export(s.has, "pg").expect("exports");
    let mut input = reader(&s.file("pg"), &ProgressBar::hidden()).expect("opens");
    let [head, records] = [(); 2].map(|()| input.next().expect("is whole").expect("is there"));
    let write = |name: &str, data: usize| {
        let mut out =
            PgWriter::new(BufWriter::new(File::create(s.file(name)).expect("creates"))).expect("begins");
        let head = match &head {
            Item::Head(head) => Item::Head(head.clone()),
            other => panic!("{other:?}"),
        };
        let known = match &records {
            Item::Records(pairs) => Item::Records(pairs.clone()),
            other => panic!("{other:?}"),
        };
        [head, known].iter().for_each(|item| out.put(item).expect("is written"));
        let attrs = vec![(b"_".to_vec(), vec![3; 60])];
        for i in 0..MANY {
            let name = format!("object-{i}");
            let hash = i.wrapping_mul(0x9e37_79b9);
            let key = ObjectKey::head(PG.pgid.pool, hash, b"", b"", name.as_bytes());
            let size = data as u64;
            out.put(&Item::Object(Object { key, size, attrs: attrs.clone(), header: Vec::new() }))
                .expect("is written");
            if data > 0 {
                out.put(&Item::Data(0, vec![i as u8 | 1; data])).expect("is written");
            }
        }
        out.finish().expect("ends");
    };
    write("full", 8000);
    says(s.import("full"), &["nothing of it is left", "the device is full"]);
    let mut local = Local::open(&s.path(s.lacks)).expect("opens");
    let newest = local.owner().expect("has one").newest;
    assert_eq!(local.count(PG, newest).expect("lists"), 0);
    assert!(!local.pgs().expect("lists").contains(&PG));
    drop(local);
    write("many", 0);
    s.import("many").expect("imports");
    let mut local = Local::open(&s.path(s.lacks)).expect("opens");
    assert_eq!(local.count(PG, newest).expect("lists"), u64::from(MANY));
}

/// More objects than an OSD lists at once when it starts.
#[test]
fn an_osd_that_starts_finds_all_pgs_and_all_that_is_only_partly_there() {
    const MANY: u32 = 5000;
    let mut s = Stopped::new(1);
    let left = |s: &Stopped| {
        let mut local = Local::open(&s.path(s.lacks)).expect("opens");
        let pool = |pool| ObjectKey::first_at(pool, i8::MIN, 0);
        let temporary = local.list(pool(TEMP_POOL), pool(TEMP_POOL + 1), usize::MAX).expect("lists");
        (local.pgs().expect("lists").len(), temporary.len())
    };
    let mut local = Local::open(&s.path(s.lacks)).expect("opens");
    for first in (0..MANY).step_by(100) {
        let touched = (first..first + 100).flat_map(|i| {
            let name = format!("1//{i}");
            let key = ObjectKey::head(TEMP_POOL, i.wrapping_mul(0x9e37_79b9), b"", b"", name.as_bytes());
            // There is no such pool, so the OSD removes its PGs.
            [TxnOp::Touch(key), TxnOp::Touch(offline::records_of(Spg::replicated(PgId::new(99, i))))]
        });
        local.submit(touched.collect()).expect("submits");
    }
    local.close().expect("closes");
    drop(local);
    assert_eq!(left(&s), (MANY as usize, MANY as usize));
    s.start_the_other().expect("the OSD starts");
    assert_eq!(left(&s), (0, 0));
}

#[test]
fn all_pgs_of_a_pool_go_into_a_directory_and_out_of_it() {
    let s = Stopped::new(10);
    let export = |osd: usize, pool: &str, name: &str| {
        let (target, file, pool) = (s.path(osd), s.file(name), Some(pool.to_owned()));
        super::export(&ExportArgs { target, pg: None, pool, file, format: Format::Json })
    };
    says(export(s.lacks, OBJECTS, "none"), &["has no PG of pool"]);
    says(export(s.has, "other", "none"), &["knows no pool other", OBJECTS]);
    export(s.has, OBJECTS, "pool").expect("by name");
    export(s.has, "1", "by-number").expect("by number");
    says(export(s.has, "1", "pool"), &["cannot create", "there already"]);
    let files = exports_at(&s.file("pool")).expect("lists");
    assert_eq!(files, [s.file("pool").join("1.0.pg")]);
    assert!(objects(&files[0]) == objects(&s.file("by-number").join("1.0.pg")), "the same copy");
    assert!(!s.file("pool.part").exists() && !s.file("none").exists());
    s.import("pool").expect("imports");
    s.import("pool").expect("what is there is left as it is");
    // Of several files, those before the one that fails stay imported.
    std::fs::copy(&files[0], s.file("pool").join("1.1.pg")).expect("copies");
    s.import("pool").expect("the same PG twice");
    let mut bytes = std::fs::read(&files[0]).expect("reads");
    *bytes.last_mut().expect("has bytes") ^= 1;
    std::fs::write(s.file("pool").join("1.1.pg"), bytes).expect("writes");
    says(s.import("pool"), &["1.1.pg", "damaged"]);
    std::fs::create_dir(s.file("empty")).expect("creates");
    says(s.import("empty"), &["no export in it"]);
}

//! Xattrs by which Ceph's clients show and set layouts, and show statistics.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests with real files")]

use e2e::{Cluster, Mount, Options, nacre_bin, run};
use rustix::fs::{XattrFlags, getxattr, removexattr, setxattr};
use rustix::io::Errno;
use std::fs;
use std::io::Write;
use std::path::Path;

fn get(path: &Path, name: &str) -> Result<String, Errno> {
    let mut buffer = [0; 1 << 12];
    let len = getxattr(path, name, &mut buffer)?;
    Ok(String::from_utf8(buffer[..len].to_vec()).expect("text"))
}

fn set(path: &Path, name: &str, value: &str) -> Result<(), Errno> {
    setxattr(path, name, value.as_bytes(), XattrFlags::empty())
}

#[test]
fn layouts_are_set_on_empty_files_and_directories_and_data_go_where_they_say() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let (one, two) = (Mount::new(&cluster, "one"), Mount::new(&cluster, "two"));
    let (dir, seen) = (one.point().join("d"), two.point().join("d"));
    fs::create_dir_all(dir.join("e")).expect("makes directories");
    // Each mount works alone in a directory, and may know the layout of its files.
    for n in 0..3 {
        fs::write(dir.join(format!("e/before{n}")), "x").expect("writes");
    }
    assert_eq!(get(&dir, "ceph.dir.layout"), Err(Errno::NODATA));
    assert_eq!(set(&seen, "ceph.dir.layout", "stripe_unit=65536 stripe_count=3 object_size=131072"), Ok(()));
    assert_eq!(set(&seen, "ceph.dir.layout.pool_namespace", "ns"), Ok(()));
    let pool = get(&dir, "ceph.dir.layout.pool").expect("the pool's name");
    let text = format!("stripe_unit=65536 stripe_count=3 object_size=131072 pool={pool} pool_namespace=ns");
    assert_eq!(get(&dir, "ceph.dir.layout"), Ok(text.clone()));
    // More than two sets of objects, written by one mount and read by both.
    let content: Vec<u8> = (0..1_000_000_u32).map(|n| (n / 7) as u8).collect();
    for name in ["f", "e/f"] {
        fs::write(dir.join(name), &content).expect("writes");
        assert_eq!(get(&seen.join(name), "ceph.file.layout"), Ok(text.clone()), "{name}");
        assert!(fs::read(seen.join(name)).expect("reads") == content, "{name}");
    }
    let json = |path: &Path, kind: &str| -> serde_json::Value {
        let text = get(path, &format!("ceph.{kind}.layout.json")).expect("JSON");
        serde_json::from_str(&text).expect("JSON")
    };
    let top = json(one.point(), "dir");
    assert_eq!((&top["stripe_unit"], &top["inheritance"]), (&(4 << 20).into(), &"@default".into()));
    let own = json(&seen, "dir");
    let fields = ["stripe_unit", "stripe_count", "object_size", "pool_name", "pool_namespace", "inheritance"];
    let wanted: Vec<serde_json::Value> =
        vec![65536.into(), 3.into(), 131_072.into(), pool.clone().into(), "ns".into(), "@set".into()];
    assert_eq!(fields.map(|field| own[field].clone()).to_vec(), wanted);
    assert_eq!((&own["pool_id"], own.as_object().map(|o| o.len())), (&top["pool_id"], Some(7)));
    for path in [dir.join("e"), seen.join("e")] {
        let inherited = json(&path, "dir");
        assert_eq!(
            (&inherited["stripe_unit"], &inherited["inheritance"]),
            (&65536.into(), &"@inherited".into())
        );
    }
    assert_eq!(json(&seen.join("e/f"), "file"), own, "a file has one of its own");
    assert_eq!(set(&dir.join("f"), "ceph.file.layout.stripe_count", "1"), Err(Errno::NOTEMPTY));
    assert_eq!(set(&dir, "ceph.dir.layout.pool", "none of these"), Err(Errno::INVAL));
    assert_eq!(set(&dir, "ceph.dir.layout.stripe_unit", "5"), Err(Errno::INVAL));
    assert_eq!(set(&dir, "ceph.dir.rbytes", "5"), Err(Errno::OPNOTSUPP));
    removexattr(&dir, "ceph.dir.layout").expect("removes");
    assert_eq!(get(&seen, "ceph.dir.layout"), Err(Errno::NODATA));
    assert_eq!(json(&seen.join("e"), "dir"), top, "it hears of changes above");
    // A file that both have open changes its layout before anybody writes.
    let path = dir.join("g");
    let mut file = fs::File::create(&path).expect("makes a file");
    let also = fs::File::open(seen.join("g")).expect("opens");
    assert_eq!(set(&seen.join("g"), "ceph.file.layout", "stripe_unit=65536 stripe_count=2"), Ok(()));
    file.write_all(&content).expect("writes");
    file.sync_all().expect("syncs");
    drop((file, also));
    assert_eq!(get(&path, "ceph.file.layout.stripe_count"), Ok("2".into()));
    assert!(fs::read(seen.join("g")).expect("reads") == content);
    let objects =
        run(cluster.command(nacre_bin()).args(["rados", "-c"]).arg(cluster.conf()).args(["-p", &pool, "ls"]))
            .ok();
    let ino = std::os::unix::fs::MetadataExt::ino(&fs::metadata(&path).expect("is there"));
    assert!(objects.contains(&format!("{ino:x}.00000001")), "the second stripe is in a second object");
}

#[test]
fn statistics_of_a_tree_follow_what_is_in_it() {
    if !Mount::is_possible() {
        return;
    }
    let cluster = Cluster::start(Options::default());
    let (one, two) = (Mount::new(&cluster, "one"), Mount::new(&cluster, "two"));
    let (dir, seen) = (one.point().join("d"), two.point().join("d"));
    fs::create_dir_all(dir.join("e")).expect("makes directories");
    assert_eq!(get(&seen, "ceph.dir.rfiles"), Ok("0".into()));
    let file = fs::File::create(dir.join("e/f")).expect("makes a file");
    (&file).write_all(&[1; 5000]).expect("writes");
    file.sync_all().expect("syncs");
    let until = |name: &str, value: &str| {
        // They reach the directories above some seconds later.
        let began = std::time::Instant::now();
        while get(&seen, name).as_deref() != Ok(value) {
            assert!(began.elapsed().as_secs() < 60, "{name} is {:?}", get(&seen, name));
        }
    };
    for (name, value) in [
        ("ceph.dir.rbytes", "5000"),
        ("ceph.dir.rfiles", "1"),
        ("ceph.dir.rsubdirs", "2"),
        ("ceph.dir.rentries", "3"),
        ("ceph.dir.entries", "1"),
        ("ceph.dir.files", "0"),
        ("ceph.dir.subdirs", "1"),
    ] {
        until(name, value);
    }
    let time = get(&seen, "ceph.dir.rctime").expect("a time");
    assert!(time.split_once('.').is_some_and(|(_, nanos)| nanos.len() == 9), "{time}");
    assert!(get(&dir, "ceph.caps").expect("bits").starts_with("pAs"));
}

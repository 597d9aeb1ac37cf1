//! Objects of a golden cluster, written and listed by our own library.

use super::common::text;
use crate::cluster::Cluster;
use client::Pool;
use msgs::Op;
use msgs::op::input::{self, OmapValues};
use stdx::{Bufs, crc32c};

/// Objects with data, xattrs, omap, in a namespace, and with a clone for a snapshot of the pool.
pub(super) fn write_objects(pool: &Pool, cluster: &Cluster, name: &str) {
    let object = |what: &str| format!("{name}-{what}").into_bytes();
    let put = |pool: &Pool, what: &str, len: usize| {
        pool.write_full(&object(what), &Bufs::from(text(what, len))).expect("writes");
    };
    put(pool, "plain", 100_000);
    put(pool, "empty", 0);
    put(pool, "changed", 70_000);
    put(pool, "gone", 5000);
    put(&pool.in_namespace(b"ns"), "plain", 3000);
    let values: OmapValues =
        (0..300).map(|n| (format!("key-{n:04}").into_bytes(), text(name, n % 50))).collect();
    let xattr =
        |n: usize| Op::SetXattr { name: format!("x{n}").into_bytes(), value: text("x", n * 90).into() };
    let mut ops = vec![
        Op::OmapSetHeader { data: b"the header".to_vec().into() },
        Op::OmapSetVals { data: input::write(&values) },
    ];
    ops.extend((0..9).map(xattr));
    pool.operate(&object("omap"), ops).expect("writes");

    cluster.client("ceph", &["osd", "pool", "mksnap", "golden", name]).ok();
    // Our library learns of the snapshot with the next map; a reply of the monitor's is no sign of that.
    cluster.client("rados", &["-p", "golden", "rm", &format!("{name}-gone")]).ok();
    let file = cluster.dir().join("changed");
    std::fs::write(&file, text("after the snapshot", 90_000)).expect("writes");
    let path = file.to_str().expect("UTF-8");
    cluster.client("rados", &["-p", "golden", "put", &format!("{name}-changed"), path]).ok();
    std::fs::remove_file(&file).expect("removes");
}

/// A line for each object: its size, and checksums of what it has.
pub(super) fn list_objects(of: &str, pool: &Pool, lines: &mut Vec<String>) {
    list_more_objects(of, pool, Vec::new(), lines);
}

/// The same, and for objects that no listing shows because only a snapshot has them.
pub(super) fn list_more_objects(of: &str, pool: &Pool, mut names: Vec<Vec<u8>>, lines: &mut Vec<String>) {
    pool.list(|name| names.push(name.to_vec())).expect("lists");
    for name in names {
        // A deleted object with clones is listed for them.
        if let Some(line) = one(pool, &name) {
            lines.push(format!("object {of}/{} {line}", String::from_utf8_lossy(&name)));
        }
    }
}

fn one(pool: &Pool, name: &[u8]) -> Option<String> {
    let size = pool.stat(name).ok()?.size;
    let mut crc = !0;
    pool.read_all(name, |data| {
        crc = crc32c::update(crc, &data.to_vec());
        Ok(())
    })
    .expect("reads");
    let xattrs = pool.operate(name, vec![Op::GetXattrs]).expect("reads xattrs");
    let xattrs = crc32c::update(!0, &xattrs[0].1.to_vec());
    let header = crc32c::update(!0, &pool.omap_header(name).expect("reads a header"));
    let (mut keys, mut omap, mut after) = (0, !0, Vec::new());
    loop {
        let (values, more) = pool.omap_page(name, &after, 100).expect("reads omap");
        // `rbd export` itself changes the time of an image's last read.
        for (key, value) in values.iter().filter(|(key, _)| *key != b"access_timestamp") {
            keys += 1;
            omap = crc32c::update(crc32c::update(omap, key), value);
        }
        after = values.into_keys().next_back().unwrap_or(after);
        if !more {
            break;
        }
    }
    Some(format!("{size} data {crc:08x} xattrs {xattrs:08x} header {header:08x} omap {keys} {omap:08x}"))
}

//! Vectors of operations on the wire: those that librados hides from programs in C, and arguments that it
//! never sends.

use client::{Cluster, Options, Pool};
use e2e::recorded::Case;
use maps::{ObjectLocator, SnapId};
use msgs::op::input::{self, ListSnapsReply, ListWatchersReply};
use msgs::op::{RawOp, cmp_op, watch_op};
use msgs::{Extent, Op, OpCode, osd_flag};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use wire::{Decode, Errno, Reader, Utime};

/// A length of bytes that fits a line.
const SHOWN: usize = 60;

struct Session {
    pool: Pool,
    pool_id: i64,
    case: &'static str,
    results: Vec<Case>,
}

/// One case after another.
type Run = fn(&mut Session);

/// A cluster's results.
pub fn results(conf: &Path, pool: &str) -> Vec<Case> {
    let cluster = Cluster::connect(&Options::new(conf), Duration::from_secs(30)).expect("connects");
    let pools = cluster
        .command(r#"{"prefix":"osd lspools","format":"json"}"#, Default::default())
        .expect("an answer");
    let pools: serde_json::Value = serde_json::from_slice(&pools.output.to_vec()).expect("JSON");
    let ours = pools.as_array().and_then(|all| all.iter().find(|p| p["poolname"] == pool)).expect("the pool");
    let pool_id = ours["poolnum"].as_i64().expect("a number");
    let mut s = Session { pool: cluster.pool(pool), pool_id, case: "", results: Vec::new() };
    let cases: [(&str, Run); 14] = [
        ("absent", absent),
        ("extents", extents),
        ("map-extents", map_extents),
        ("truncations", truncations),
        ("omap-header", omap_header),
        ("omap-limits", omap_limits),
        ("numbers", numbers),
        ("bad-arguments", bad_arguments),
        ("not-here", not_here),
        ("watch", watch),
        ("copy", copy),
        ("copy-versions", copy_versions),
        ("copy-large", copy_large),
        ("any-member", any_member),
    ];
    for (name, case) in cases {
        s.case = name;
        case(&mut s);
    }
    drop(s.pool);
    let results = s.results;
    cluster.shut_down().expect("ends");
    results
}

fn number(result: Result<u32, Errno>) -> String {
    match result {
        Ok(number) => number.to_string(),
        Err(errno) => errno.name().map_or(errno.to_result_code().to_string(), |name| format!("-{name}")),
    }
}

fn bytes(data: &[u8]) -> String {
    if data.len() > SHOWN {
        return format!("{} bytes, crc32c {:08x}", data.len(), stdx::crc32c::update(!0, data));
    }
    data.escape_ascii().to_string()
}

impl Session {
    fn say(&mut self, text: String) {
        let n = self
            .results
            .iter()
            .filter(|(name, _)| name.rsplit_once('.').is_some_and(|(c, _)| c == self.case))
            .count();
        if e2e::recorded::reference().is_some() {
            // If a reference cluster ends at a case, this shows which.
            eprintln!("{}.{}: {text}", self.case, n + 1);
        }
        self.results.push((format!("{}.{}", self.case, n + 1), text));
    }

    /// Runs a vector, and records its result and each operation's output, formatted by `show`.
    fn shown(&mut self, pool: &Pool, object: &str, ops: Vec<Op>, show: impl Fn(&[u8]) -> String) {
        let (result, ops) = pool.vector(object.as_bytes(), ops).expect("an answer");
        let each = ops.iter().map(|(rval, data)| {
            let data = data.to_vec();
            if data.is_empty() { number(*rval) } else { format!("{} {:?}", number(*rval), show(&data)) }
        });
        let each: Vec<String> = each.collect();
        self.say(format!("{} [{}]", number(result), each.join(", ")));
    }

    fn run(&mut self, object: &str, ops: Vec<Op>) {
        // The output of STAT contains a time.
        let stats: Vec<bool> = ops.iter().map(|op| matches!(op, Op::Stat)).collect();
        if stats.iter().any(|stat| *stat) {
            let (result, ops) = self.pool.vector(object.as_bytes(), ops).expect("an answer");
            let each = ops.iter().zip(stats).map(|((rval, data), stat)| {
                let data = data.to_vec();
                number(*rval)
                    + " "
                    + &if stat && !data.is_empty() { decoded(&data, sized) } else { bytes(&data) }
            });
            let each: Vec<String> = each.collect();
            return self.say(format!("{} {each:?}", number(result)));
        }
        self.shown(&self.pool.clone(), object, ops, bytes);
    }

    fn put(&mut self, object: &str, data: &[u8]) {
        self.pool.write_full(object.as_bytes(), &data.to_vec().into()).expect("writes");
    }

    fn set_up(&mut self, object: &str, ops: Vec<Op>) {
        self.pool.operate(object.as_bytes(), ops).expect("is set up");
    }

    fn read(&mut self, object: &str) {
        self.run(object, vec![read(0, 0)]);
    }
}

fn read(off: u64, len: u64) -> Op {
    Op::Read(Extent::new(off, len))
}

fn write(off: u64, data: &[u8]) -> Op {
    Op::Write { extent: Extent::new(off, data.len() as u64), data: data.to_vec().into() }
}

fn raw(code: OpCode, args: [u8; 28], data: &[u8]) -> Op {
    Op::Other { raw: RawOp { code, flags: 0, args }, data: data.to_vec().into() }
}

fn set_xattr(name: &str, value: &[u8]) -> Op {
    Op::SetXattr { name: name.into(), value: value.to_vec().into() }
}

fn omap_set(entries: &[(&str, &[u8])]) -> Op {
    let values: input::OmapValues =
        entries.iter().map(|(k, v)| (k.as_bytes().to_vec(), v.to_vec())).collect();
    Op::OmapSetVals { data: input::write(&values) }
}

fn omap_values(after: &str, max: u64) -> Op {
    let args = input::OmapGetVals { start_after: after.into(), max, prefix: Vec::new() };
    Op::OmapGetVals { data: input::write(&args) }
}

fn decoded<T: Decode>(data: &[u8], show: impl Fn(T, &[u8]) -> String) -> String {
    let mut r = Reader::new(data);
    match r.get() {
        Ok(value) => show(value, &data[data.len() - r.remaining()..]),
        Err(error) => format!("undecodable: {error}"),
    }
}

fn sized((size, _): (u64, Utime), _: &[u8]) -> String {
    format!("size {size}")
}

/// The output of SPARSE_READ and MAPEXT.
fn extents_shown(data: &[u8]) -> String {
    decoded(data, |extents: BTreeMap<u64, u64>, rest| {
        let payload =
            if rest.is_empty() { String::new() } else { format!(" {}", bytes(&rest[4.min(rest.len())..])) };
        format!("{extents:?}{payload}")
    })
}

fn absent(s: &mut Session) {
    let o = "absent";
    for op in [
        Op::SyncRead(Extent::new(0, 10)),
        Op::SparseRead(Extent::new(0, 10)),
        Op::MapExt(Extent::new(0, 10)),
        Op::OmapGetHeader,
        Op::ListWatchers,
        Op::ListSnaps,
        Op::AssertVer { ver: 5 },
        Op::GetXattr { name: b"a".to_vec() },
        Op::TrimTrunc(Extent { truncate_size: 3, truncate_seq: 2, ..Extent::default() }),
        Op::Watch { cookie: 1, ver: 0, op: watch_op::WATCH, generation: 0, timeout: 0 },
        Op::Rollback { snap: SnapId(5) },
    ] {
        s.run(o, vec![op]);
    }
    s.run(o, vec![Op::Stat]);
}

fn extents(s: &mut Session) {
    let o = "extents";
    s.put(o, b"0123456789");
    let look = |s: &mut Session, off, len| {
        s.run(o, vec![Op::SyncRead(Extent::new(off, len))]);
        s.shown(&s.pool.clone(), o, vec![Op::SparseRead(Extent::new(off, len))], extents_shown);
    };
    for (off, len) in [(0, 10), (0, 0), (3, 4), (8, 100), (10, 5), (1 << 40, 5)] {
        look(s, off, len);
    }
    // A hole that no store's unit of allocation hides.
    s.set_up(o, vec![write(1 << 20, &[b'z'; 65536])]);
    s.set_up(o, vec![Op::Truncate(Extent::new(2 << 20, 0))]);
    for (off, len) in
        [(1 << 20, 65536), ((1 << 20) - 5, 10), ((1 << 20) + 65530, 10), (3 << 19, 100), (0, 20)]
    {
        look(s, off, len);
    }
    // A zeroed range reads as zeros, stored or not.
    s.set_up(o, vec![Op::Zero(Extent::new(1 << 20, 65536))]);
    s.run(o, vec![read(1 << 20, 65536)]);
    s.run(o, vec![Op::Stat, Op::SyncRead(Extent::new(2, 3)), read(4, 2)]);
}

fn map_extents(s: &mut Session) {
    let o = "map-extents";
    s.put(o, &[b'a'; 65536]);
    s.set_up(o, vec![write(1 << 20, &[b'z'; 65536])]);
    for (off, len) in
        [(0, 2 << 20), (0, 65536), (4096, 4096), (1 << 19, 4096), (1 << 20, 65536), (4 << 20, 100)]
    {
        s.shown(&s.pool.clone(), o, vec![Op::MapExt(Extent::new(off, len))], extents_shown);
    }
}

/// Truncations of CephFS: they come with other operations.
fn truncations(s: &mut Session) {
    let o = "truncations";
    let at = |off, len, truncate_seq, truncate_size| Extent { off, len, truncate_size, truncate_seq };
    let write = |off, data: &[u8], seq, size| Op::Write {
        extent: at(off, data.len() as u64, seq, size),
        data: data.to_vec().into(),
    };
    s.run(o, vec![write(0, b"0123456789", 1, u64::MAX)]);
    s.read(o);
    s.run(o, vec![Op::Read(at(0, 0, 2, 4))]);
    s.run(o, vec![Op::Read(at(0, 20, 2, 4))]);
    s.run(o, vec![Op::Read(at(6, 2, 2, 4))]);
    s.run(o, vec![write(8, b"XY", 3, 4)]);
    s.read(o);
    // From before the truncation.
    s.run(o, vec![write(0, b"ab", 2, 10)]);
    s.run(o, vec![write(9, b"late", 2, 10)]);
    s.run(o, vec![write(20, b"late", 2, 10)]);
    s.read(o);
    s.run(o, vec![Op::Truncate(at(6, 0, 4, 6))]);
    s.run(o, vec![Op::Truncate(at(2, 0, 4, 2))]);
    s.run(o, vec![Op::TrimTrunc(at(0, 0, 6, 5))]);
    s.read(o);
    s.run(o, vec![Op::TrimTrunc(at(0, 0, 5, 1))]);
    s.read(o);
    s.run(o, vec![Op::TrimTrunc(at(0, 0, 7, 8))]);
    s.read(o);
    s.run(o, vec![Op::Zero(at(1, 2, 8, 4))]);
    s.read(o);
    s.run(o, vec![Op::WriteFull { extent: at(0, 3, 9, 2), data: b"all".to_vec().into() }]);
    s.read(o);
    s.run(o, vec![Op::Append { extent: at(0, 3, 10, 1), data: b"end".to_vec().into() }]);
    s.read(o);
    s.shown(&s.pool.clone(), o, vec![Op::SparseRead(at(0, 10, 12, 2))], extents_shown);
    s.run(o, vec![Op::CmpExt { extent: Extent::new(0, 2), data: b"al".to_vec().into() }]);
}

fn omap_header(s: &mut Session) {
    let o = "omap-header";
    let set = |data: &[u8]| Op::OmapSetHeader { data: data.to_vec().into() };
    s.run(o, vec![set(b"made")]);
    s.run(o, vec![Op::OmapGetHeader, Op::Stat]);
    s.run(o, vec![omap_set(&[("k", b"v")])]);
    s.run(o, vec![Op::OmapGetHeader, omap_values("", 10)]);
    s.run(o, vec![set(b"")]);
    s.run(o, vec![Op::OmapGetHeader]);
    s.run(o, vec![set(&[b'h'; 70_000])]);
    s.run(o, vec![Op::OmapGetHeader]);
    s.run(o, vec![set(b"x"), Op::OmapGetHeader]);
    s.run(o, vec![Op::OmapClear]);
    s.run(o, vec![Op::OmapGetHeader, omap_values("", 10)]);
    s.run(o, vec![set(b"again"), Op::Delete]);
    s.run(o, vec![set(b"new"), write(0, b"d")]);
    s.run(o, vec![Op::OmapGetHeader, read(0, 0)]);
    s.put("omap-header-none", b"x");
    s.run("omap-header-none", vec![Op::OmapGetHeader]);
}

fn omap_limits(s: &mut Session) {
    let o = "omap-limits";
    let keys: Vec<String> = (0..1100).map(|i| format!("k{i:04}")).collect();
    let entries: Vec<(&str, &[u8])> = keys.iter().map(|k| (k.as_str(), k.as_bytes())).collect();
    s.run(o, vec![omap_set(&entries)]);
    let counted = |data: &[u8]| {
        decoded(data, |(values, more): (BTreeMap<Vec<u8>, Vec<u8>>, bool), _| {
            format!("{} {more}", values.len())
        })
    };
    for (after, max) in
        [("", 2000), ("", u64::MAX), ("", 1024), ("k1023", 10), ("k1098", 10), ("z", 5), ("", 0)]
    {
        s.shown(&s.pool.clone(), o, vec![omap_values(after, max)], counted);
    }
    s.run(o, vec![omap_set(&[(&"K".repeat(10_000), b"long key")])]);
    s.run(o, vec![omap_set(&[("long value", &[b'v'; 1 << 20])])]);
    s.run(o, vec![omap_values("k1099", 10)]);
    let range = |a: &[u8], z: &[u8]| Op::OmapRmKeyRange { data: input::write(&(a.to_vec(), z.to_vec())) };
    s.run(o, vec![range(b"k0000", b"k0000")]);
    s.run(o, vec![range(b"k1", b"k0")]);
    s.run(o, vec![range(b"", b"k1098")]);
    s.shown(&s.pool.clone(), o, vec![omap_values("", 2000)], counted);
}

/// CMPXATTR of numbers.
fn numbers(s: &mut Session) {
    let o = "numbers";
    for text in ["5", "", "18446744073709551615", "18446744073709551616", "-1", " 5", "5x", "+5", "0x5", "05"]
    {
        s.set_up(o, vec![set_xattr("n", text.as_bytes())]);
        let each = [0u64, 5, u64::MAX].map(|want| {
            [cmp_op::EQ, cmp_op::GT, cmp_op::LTE].map(|op| {
                let value = want.to_le_bytes().to_vec().into();
                let guard = Op::CmpXattr { name: b"n".to_vec(), value, op, mode: cmp_op::MODE_U64 };
                number(s.pool.vector(o.as_bytes(), vec![guard]).expect("an answer").0)
            })
        });
        let each: Vec<String> = each.iter().map(|e| e.join(" ")).collect();
        s.say(format!("{text:?} {}", each.join(", ")));
    }
    let guard = |name: &str, value: &[u8], op, mode| Op::CmpXattr {
        name: name.into(),
        value: value.to_vec().into(),
        op,
        mode,
    };
    s.run(o, vec![guard("none", &0u64.to_le_bytes(), cmp_op::EQ, cmp_op::MODE_U64)]);
    s.run(o, vec![guard("none", &1u64.to_le_bytes(), cmp_op::EQ, cmp_op::MODE_U64)]);
    s.run(o, vec![guard("n", b"short", cmp_op::EQ, cmp_op::MODE_U64)]);
    s.run(o, vec![guard("n", &[5, 0, 0, 0, 0, 0, 0, 0, 9], cmp_op::EQ, cmp_op::MODE_U64)]);
    s.run(o, vec![guard("n", b"05", cmp_op::EQ, 3)]);
    s.run(o, vec![guard("n", b"05", 9, cmp_op::MODE_STRING)]);
}

fn bad_arguments(s: &mut Session) {
    let o = "bad-arguments";
    s.put(o, b"whole");
    for data in [&b""[..], b"\x05\0\0\0ab", b"\xff\xff\xff\xff"] {
        for op in [
            Op::OmapGetKeys { data: data.to_vec().into() },
            Op::OmapGetVals { data: data.to_vec().into() },
            Op::OmapGetValsByKeys { data: data.to_vec().into() },
            Op::OmapCmp { data: data.to_vec().into() },
            Op::OmapSetVals { data: data.to_vec().into() },
            Op::OmapRmKeys { data: data.to_vec().into() },
            Op::OmapRmKeyRange { data: data.to_vec().into() },
            Op::CopyFrom {
                snap: SnapId::HEAD,
                src_version: 0,
                flags: 0,
                src_fadvise: 0,
                data: data.to_vec().into(),
            },
        ] {
            s.run(o, vec![op]);
        }
    }
    let extent = |off: u64, len: u64| {
        let mut args = [0; 28];
        args[..8].copy_from_slice(&off.to_le_bytes());
        args[8..16].copy_from_slice(&len.to_le_bytes());
        args
    };
    let same = |len: u64, unit: u64| {
        let mut args = extent(0, len);
        args[16..24].copy_from_slice(&unit.to_le_bytes());
        args
    };
    s.run(o, vec![raw(OpCode::WRITE, extent(0, 3), b"ab")]);
    s.run(o, vec![raw(OpCode::WRITE, extent(0, 1), b"ab")]);
    s.run(o, vec![raw(OpCode::WRITEFULL, extent(0, 3), b"ab")]);
    s.run(o, vec![raw(OpCode::APPEND, extent(0, 3), b"ab")]);
    s.run(o, vec![raw(OpCode::WRITESAME, same(4, 4), b"ab")]);
    s.run(o, vec![raw(OpCode::WRITESAME, same(4, 0), b"")]);
    s.run(o, vec![raw(OpCode::WRITESAME, same(3, 2), b"ab")]);
    s.run(o, vec![raw(OpCode::WRITE, extent(u64::MAX, 2), b"ab")]);
    s.run(o, vec![raw(OpCode::TRUNCATE, extent(u64::MAX, 0), b"")]);
    s.run(o, vec![raw(OpCode::READ, extent(u64::MAX, 2), b"")]);
    s.run(o, vec![Op::Checksum { off: 0, len: 5, chunk_size: 0, kind: 9, data: vec![0; 8].into() }]);
    s.run(o, vec![Op::Checksum { off: 0, len: 5, chunk_size: 0, kind: 2, data: b"".to_vec().into() }]);
    s.run(o, vec![Op::SetAllocHint { object_size: u64::MAX, write_size: u64::MAX, flags: u32::MAX }]);
    s.run(o, vec![Op::Call { class: String::new(), method: String::new(), input: b"".to_vec().into() }]);
    s.run(o, vec![Op::Rollback { snap: SnapId(12345) }]);
    s.read(o);
}

/// Operations that are old, or of cache tiers and deduplication.
fn not_here(s: &mut Session) {
    let o = "not-here";
    s.put(o, b"whole");
    let bare = |code: u16| raw(OpCode(code), [0; 28], b"");
    for code in [OpCode::MASKTRUNC, OpCode::STARTSYNC, OpCode::SETTRUNC] {
        s.run(o, vec![bare(code.0)]);
    }
    for code in [0x12f0, 0x22f0, 0x13f0, 0x23f0, 0x2302, 0x2303] {
        s.run(o, vec![bare(code)]);
    }
    s.run(o, vec![bare(0x22f0), write(0, b"not")]);
    s.run(o, vec![write(0, b"not"), bare(0x22f0)]);
    s.read(o);
}

fn watch(s: &mut Session) {
    let o = "watch";
    s.put(o, b"x");
    let watch = |cookie, op, timeout| Op::Watch { cookie, ver: 0, op, generation: 0, timeout };
    let listed = |data: &[u8]| {
        decoded(data, |all: ListWatchersReply, _| {
            let mut all: Vec<_> = all.entries.iter().map(|w| (w.cookie, w.timeout)).collect();
            all.sort_unstable();
            format!("{all:?}")
        })
    };
    let list = |s: &mut Session| s.shown(&s.pool.clone(), o, vec![Op::ListWatchers], listed);
    list(s);
    s.run(o, vec![watch(1, watch_op::PING, 0)]);
    s.run(o, vec![watch(1, watch_op::RECONNECT, 0)]);
    s.run(o, vec![watch(1, watch_op::UNWATCH, 0)]);
    s.run(o, vec![watch(1, 9, 0)]);
    s.run(o, vec![watch(1, watch_op::WATCH, 0)]);
    s.run(o, vec![watch(2, watch_op::WATCH, 77)]);
    list(s);
    s.run(o, vec![watch(1, watch_op::WATCH, 55)]);
    s.run(o, vec![watch(1, watch_op::PING, 0)]);
    s.run(o, vec![watch(2, watch_op::RECONNECT, 0)]);
    list(s);
    s.run(o, vec![watch(1, watch_op::UNWATCH, 0)]);
    list(s);
    s.run(o, vec![watch(3, watch_op::LEGACY_WATCH, 0)]);
    list(s);
    s.run(o, vec![watch(3, watch_op::UNWATCH, 0), watch(2, watch_op::UNWATCH, 0)]);
    list(s);
    // Of a notification that there is not.
    let ack = input::write(&input::NotifyAckInput { notify_id: 999, watch_cookie: 1, reply: Vec::new() });
    s.run(o, vec![Op::NotifyAck { cookie: 1, data: ack }]);
}

/// COPY_FROM of an object of this pool.
fn copy_of(s: &Session, from: &str, version: u64, flags: u8) -> Op {
    copy_at(s, from, SnapId::HEAD, version, flags, None)
}

fn copy_at(
    s: &Session,
    from: &str,
    snap: SnapId,
    src_version: u64,
    flags: u8,
    cut: Option<(u32, u64)>,
) -> Op {
    let locator = ObjectLocator::new(s.pool_id, b"");
    let mut data = input::write(&(from.as_bytes().to_vec(), locator)).to_vec();
    match cut {
        None => Op::CopyFrom { snap, src_version, flags, src_fadvise: 0, data: data.into() },
        Some(cut) => {
            data.extend(input::write(&cut).to_vec());
            Op::CopyFrom2 { snap, src_version, flags, src_fadvise: 0, data: data.into() }
        }
    }
}

fn everything() -> Vec<Op> {
    vec![read(0, 0), Op::GetXattrs, Op::OmapGetHeader, omap_values("", 10)]
}

fn copy(s: &mut Session) {
    let (from, to) = ("copy-source", "copy");
    s.run(to, vec![copy_of(s, "copy-absent", 0, 0)]);
    s.run(to, vec![Op::Stat]);
    let header = Op::OmapSetHeader { data: b"header".to_vec().into() };
    s.set_up(from, vec![write(0, b"content"), set_xattr("x", b"1"), omap_set(&[("k", b"v")]), header]);
    s.run(to, vec![copy_of(s, from, 0, 0)]);
    s.run(to, everything());
    // The old content goes.
    s.set_up(
        to,
        vec![write(0, b"longer than the source"), set_xattr("own", b"2"), omap_set(&[("own", b"2")])],
    );
    s.run(to, vec![copy_of(s, from, 0, 0)]);
    s.run(to, everything());
    s.run(to, vec![copy_of(s, to, 0, 0)]);
    s.run(to, vec![copy_of(s, from, 0, 0x40)]);
    s.run(to, vec![copy_of(s, "copy-absent", 0, 0)]);
    s.run(to, everything());
    // Together with other operations.
    s.run(to, vec![copy_of(s, from, 0, 0), set_xattr("more", b"3")]);
    s.run(to, everything());
    let guard = Op::CmpXattr {
        name: b"x".to_vec(),
        value: b"2".to_vec().into(),
        op: cmp_op::EQ,
        mode: cmp_op::MODE_STRING,
    };
    s.run(to, vec![guard, copy_of(s, from, 0, 0)]);
    s.run(to, vec![copy_at(s, from, SnapId::HEAD, 0, 0x20, Some((3, 2)))]);
    s.run(to, vec![read(0, 0), Op::Read(Extent { off: 0, len: 0, truncate_size: 2, truncate_seq: 3 })]);
    s.run(to, vec![copy_at(s, from, SnapId::HEAD, 0, 0, Some((3, 2)))]);
    s.read(to);
    s.run("copy-new", vec![Op::Create { data: Default::default() }, copy_of(s, from, 0, 0)]);
    s.read("copy-new");
    s.set_up("copy-empty", vec![Op::Create { data: Default::default() }]);
    s.run(to, vec![copy_of(s, "copy-empty", 0, 0)]);
    s.run(to, everything());
}

fn copy_versions(s: &mut Session) {
    let (from, to) = ("copy-versions-source", "copy-versions");
    s.put(from, b"one");
    // Versions are the PG's: this one is behind any that a new pool has.
    s.run(to, vec![copy_of(s, from, 1 << 40, 0)]);
    s.set_up(from, vec![write(0, b"two")]);
    s.set_up(from, vec![write(0, b"six")]);
    s.run(to, vec![copy_of(s, from, 1, 0)]);
    s.run(to, vec![Op::Stat]);
}

/// Larger than what an OSD copies at a time.
fn copy_large(s: &mut Session) {
    let (from, to) = ("copy-large-source", "copy-large");
    let data: Vec<u8> = (0..20u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    s.put(from, &data);
    s.run(to, vec![copy_of(s, from, 0, 0)]);
    for at in [0u64, 8 << 20, 19 << 20] {
        s.run(to, vec![read(at, 1 << 20)]);
    }
    s.shown(&s.pool.clone(), to, vec![Op::Stat], |data| {
        decoded(data, |(size, _): (u64, Utime), _| size.to_string())
    });
    let keys: Vec<String> = (0..3000).map(|i| format!("k{i:04}")).collect();
    for part in keys.chunks(1000) {
        let entries: Vec<(&str, &[u8])> = part.iter().map(|k| (k.as_str(), k.as_bytes())).collect();
        s.set_up(from, vec![omap_set(&entries)]);
    }
    s.run(to, vec![copy_of(s, from, 0, 0)]);
    for after in ["", "k1023", "k2047"] {
        s.run(to, vec![omap_values(after, 1024)]);
    }
}

/// Reads that any member of the PG may answer, or leave to the primary.
fn any_member(s: &mut Session) {
    for flag in [osd_flag::BALANCE_READS, osd_flag::LOCALIZE_READS] {
        let any = s.pool.with_flags(flag);
        for i in 0..6 {
            let o = format!("any-member-{i}");
            s.put(&o, format!("{flag:x} {i}").as_bytes());
            // At once, and when it is old.
            s.shown(&any, &o, vec![read(0, 0)], bytes);
        }
        for i in 0..6 {
            let o = format!("any-member-{i}");
            s.shown(&any, &o, vec![read(0, 0), Op::GetXattrs], bytes);
        }
        s.shown(&any, "any-member-absent", vec![Op::Stat], bytes);
        let hello =
            Op::Call { class: "hello".into(), method: "say_hello".into(), input: b"you".to_vec().into() };
        s.shown(&any, "any-member-0", vec![hello], bytes);
        let listed =
            |data: &[u8]| decoded(data, |all: ListSnapsReply, _| format!("{} states", all.clones.len()));
        s.shown(&any.at_snap(SnapId::DIR), "any-member-0", vec![Op::ListSnaps], listed);
        s.shown(&any, "any-member-0", vec![Op::ListWatchers], |data| format!("{} bytes", data.len()));
    }
}

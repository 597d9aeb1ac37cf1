//! Small measurements in a temporary directory.

use super::*;
use clap::Parser;
use std::collections::BTreeMap;

const THREADS: u64 = 2;
const FILES: u64 = 3;
const SIZE: u64 = 64 << 10;
const OPS: u64 = 5;
const ROUNDS: u64 = 2;

fn parse(dir: &Path, more: &[&str]) -> Result<BenchArgs, String> {
    let mut line = vec!["nacre", "fs", "bench", dir.to_str().expect("text")];
    let usual = [("--threads", "2"), ("--size", "64K"), ("--ops", "5"), ("--rounds", "2"), ("--files", "3")];
    usual
        .iter()
        .filter(|(name, _)| !more.contains(name))
        .for_each(|(name, value)| line.extend([name, value]));
    line.extend(more);
    let parsed = crate::cmd::Args::try_parse_from(line).map_err(|e| e.to_string())?;
    match parsed.command {
        crate::cmd::Command::Fs(FsArgs { command: FsCommand::Bench(args) }) => Ok(args),
        _ => Err("another command".into()),
    }
}

fn measured(more: &[&str]) -> (BenchArgs, Vec<Measured>) {
    let dir = tempfile::tempdir().expect("a directory");
    let args = parse(dir.path(), more).expect("arguments");
    let results = measure(&args, &AtomicBool::new(false)).expect("measures");
    assert_eq!(std::fs::read_dir(dir.path()).expect("is there").count(), 0, "nothing is left");
    (args, results)
}

/// Measures a shape, and checks the operations of each measurement in a round of a worker.
fn check(shape: Shape, operations: &[(&str, u64)]) {
    let (_, results) = measured(&["--shape", shape.name()]);
    let found: Vec<(&str, u64)> =
        results.iter().map(|m| (m.name.as_str(), m.latencies.total() / (THREADS * ROUNDS))).collect();
    assert_eq!(found, operations);
    assert_eq!(results.len() as u64, shapes::phases(shape, SIZE), "the progress bar knows");
    for m in &results {
        assert_eq!((m.shape, m.rates.len() as u64), (shape, ROUNDS), "{}", m.name);
        assert!(m.rates.iter().all(|rate| rate.is_finite() && *rate > 0.0), "{}: {:?}", m.name, m.rates);
        assert!(m.min() <= m.median() && m.median() <= m.max(), "{}", m.name);
        let percentiles = [0.5, 0.99, 0.999].map(|part| m.latencies.percentile(part));
        assert!(percentiles.is_sorted() && percentiles[2] <= m.latencies.longest(), "{}", m.name);
    }
}

#[test]
fn mdtest_counts_every_name() {
    let mut wanted = Vec::new();
    for place in ["one directory", "private"] {
        for what in [
            "mkdir",
            "stat of directories",
            "rename of directories",
            "rmdir",
            "create",
            "stat",
            "write 4 KiB",
            "read 4 KiB",
            "rename",
            "unlink",
        ] {
            wanted.push(format!("{what}, {place}"));
        }
    }
    check(Shape::Mdtest, &wanted.iter().map(|name| (name.as_str(), FILES)).collect::<Vec<_>>());
}

#[test]
fn fio_counts_blocks_and_random_operations() {
    check(
        Shape::Fio,
        &[
            ("sequential write", 1),
            ("sequential write, fsync at the end", 1),
            ("random write 4 KiB", OPS),
            ("random write 4 KiB, fsync each", OPS),
            ("random write 4 KiB, fdatasync each", OPS),
            ("sequential read", 1),
            ("random read 4 KiB", OPS),
        ],
    );
}

#[test]
fn ior_counts_transfers() {
    check(
        Shape::IorShared,
        &[("write", 1), ("read", 1), ("write 47008 bytes in turn", 1), ("read 47008 bytes in turn", 1)],
    );
    check(Shape::IorEach, &[("write", 1), ("read", 1)]);
}

#[test]
fn iozone_counts_records() {
    let mut wanted = Vec::new();
    for (record, count) in [("4 KiB", 16), ("16 KiB", 4)] {
        for what in ["write", "rewrite", "read", "reread"] {
            wanted.push((format!("{what} {record}"), count));
        }
    }
    check(Shape::Iozone, &wanted.iter().map(|(name, count)| (name.as_str(), *count)).collect::<Vec<_>>());
}

#[test]
fn bytes_are_those_that_were_asked_for() {
    let (_, results) = measured(&["--shape", "fio", "--shape", "ior-each"]);
    let bytes: BTreeMap<String, u64> =
        results.iter().map(|m| (format!("{} {}", m.shape.name(), m.name), m.bytes)).collect();
    assert_eq!(bytes["fio sequential write"], THREADS * ROUNDS * SIZE);
    assert_eq!(bytes["fio random read 4 KiB"], THREADS * ROUNDS * OPS * 4096);
    assert_eq!(bytes["ior-each read"], THREADS * ROUNDS * SIZE);
}

#[test]
fn json_has_all_that_is_known() {
    let (args, results) = measured(&["--shape", "fio", "--seed", "7"]);
    let json = summary::json(&args, "ext4", &results);
    for (key, value) in [
        ("threads", THREADS),
        ("files", FILES),
        ("size", SIZE),
        ("ops", OPS),
        ("seed", 7),
        ("rounds", ROUNDS),
    ] {
        assert_eq!(json[key], value, "{key}");
    }
    assert_eq!(json["file_system"], "ext4");
    assert!(json["caches"].as_str().is_some_and(|text| text.contains("DONTNEED")));
    let results = json["results"].as_array().expect("a list");
    assert_eq!(results.len() as u64, shapes::phases(Shape::Fio, SIZE));
    for result in results {
        let keys: Vec<&str> = result.as_object().expect("an object").keys().map(String::as_str).collect();
        let wanted = [
            "shape",
            "name",
            "unit",
            "median",
            "min",
            "max",
            "median_absolute_deviation",
            "rounds",
            "operations",
            "bytes",
            "latency_us",
        ];
        assert_eq!(keys, wanted);
        let latency: Vec<&str> =
            result["latency_us"].as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(latency, ["p50", "p99", "p99.9", "max"]);
    }
}

#[test]
fn the_table_names_every_measurement() {
    let (args, results) = measured(&["--shape", "ior-each"]);
    let text = table::results(&args, "ext4", &results);
    for part in ["(ext4), 2 threads, 2 rounds, seed 1", "ior-each", "write", "read", "MiB/s", "p99.9 ms"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// Panics unless a text is well-formed XML, of what the chart uses: no comments, no sections of data.
fn assert_well_formed(text: &str) -> usize {
    let body = text.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>").expect("a declaration");
    let (mut open, mut count) = (Vec::new(), 0);
    let is_escaped = |text: &str| {
        let entities = ["amp;", "lt;", "gt;", "quot;"];
        text.split('&').skip(1).all(|rest| entities.iter().any(|entity| rest.starts_with(entity)))
    };
    for part in body.trim().split('<').skip(1) {
        let (tag, between) = part.split_once('>').expect("a tag ends");
        assert!(is_escaped(tag) && is_escaped(between) && !between.contains('>'), "{part}");
        count += 1;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name.to_owned()));
            assert!(!open.is_empty() || between.is_empty(), "one element holds all");
            continue;
        }
        let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        assert!(!name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase()), "{tag}");
        let mut pieces = attributes.split('"');
        while let Some(key) = pieces.next().map(str::trim).filter(|key| !key.is_empty()) {
            assert!(key.ends_with('=') && pieces.next().is_some(), "{tag}");
        }
        if !is_empty {
            open.push(name.to_owned());
        }
    }
    assert!(open.is_empty(), "{open:?}");
    count
}

#[test]
fn the_chart_is_xml_whatever_the_directory_is_called() {
    let (_, results) = measured(&["--shape", "fio"]);
    let plain = svg::chart("title", &results);
    assert!(assert_well_formed(&plain) > 3 * results.len());
    let odd = svg::chart("<a> & \"b\" \u{1} \u{ffff} ü", &results);
    assert_well_formed(&odd);
    assert!(odd.contains("&lt;a&gt; &amp; &quot;b&quot; \u{fffd} \u{fffd} ü"), "{odd}");
    assert_well_formed(&svg::chart("nothing", &[]));
}

#[test]
fn the_same_seed_gives_the_same_offsets() {
    let draw = |seed, round, shape| seeded(seed, round, shape).u64();
    assert_eq!(draw(1, 2, Shape::Fio), draw(1, 2, Shape::Fio));
    let others = [draw(2, 2, Shape::Fio), draw(1, 3, Shape::Fio), draw(1, 2, Shape::Mdtest)];
    assert!(others.iter().all(|other| *other != draw(1, 2, Shape::Fio)));
}

#[test]
fn what_cannot_be_measured_says_why() {
    let dir = tempfile::tempdir().expect("a directory");
    let fails = |path: &Path, stop: bool| {
        let args = parse(path, &["--files", "1", "--shape", "mdtest"]).expect("arguments");
        format!("{:#}", measure(&args, &AtomicBool::new(stop)).expect_err("fails"))
    };
    let missing = fails(&dir.path().join("nosuch"), false);
    assert!(missing.contains("nosuch is no directory"), "{missing}");
    let file = dir.path().join("file");
    std::fs::write(&file, "").expect("writes");
    assert!(fails(&file, false).contains("is no directory"));
    // Nobody can make directories there, not even root.
    let refused = fails(Path::new("/proc/self"), false);
    assert!(refused.contains("cannot make a directory in /proc/self"), "{refused}");
    // As after Ctrl-C: nothing stays.
    assert!(fails(dir.path(), true).contains("interrupted"));
    assert_eq!(std::fs::read_dir(dir.path()).expect("is there").count(), 1);
}

#[test]
fn arguments_that_measure_nothing_are_refused() {
    let dir = Path::new("/tmp");
    for line in [
        ["--files", "0"],
        ["--threads", "0"],
        ["--rounds", "0"],
        ["--size", "4095"],
        ["--ops", "0"],
        ["--shape", "nosuch"],
    ] {
        let said = parse(dir, &line).err().unwrap_or_default();
        assert!(said.contains(line[0]) && said.contains(line[1]), "{line:?}: {said}");
    }
    assert_eq!(parse(dir, &[]).expect("fine").shapes(), Shape::EACH);
}

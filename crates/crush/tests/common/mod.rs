//! The reference mapper: crushtool of Ceph 16.2.

use crush::*;
use std::process::Command;
use stdx::Rng;
use tempfile::TempDir;
use wire::{Reader, Writer};

/// A question to a mapper: all rules of a map for some inputs and a number of copies.
#[derive(Clone, Debug)]
pub struct Case {
    pub size: u32,
    pub weights: Vec<u32>,
    pub first: u32,
    pub inputs: u32,
}

impl Case {
    /// A number of copies and device weights, of which most are 1 and some 0, drawn at random.
    pub fn random(rng: &mut Rng, map: &CrushMap, inputs: u32) -> Self {
        let weight = |rng: &mut Rng| match rng.below(6) {
            0 => rng.below(0x101) as u32 * 0x100,
            _ => WEIGHT_ONE,
        };
        let held = |device: &i32| map.buckets.iter().flatten().any(|b| b.items.contains(device));
        let odds = rng.chance(1, 2);
        let weights = (0..map.max_devices)
            .map(|device| match held(&device) {
                true if odds => weight(rng),
                true => WEIGHT_ONE,
                false => 0, // as crushtool has it
            })
            .collect();
        let first = if rng.chance(1, 2) { 0 } else { rng.below(1 << 31) as u32 - inputs.min(1 << 20) };
        Self { size: rng.range(1, 9) as u32, weights, first: first.min((1 << 31) - 1 - inputs), inputs }
    }
}

/// One line: rule, input, devices.
pub type Mapping = (u32, u32, Vec<i32>);

/// Our mapper's results.
pub fn ours(map: &CrushMap, case: &Case) -> Vec<Mapping> {
    let args = map.choose_args_for(0);
    let rules = (0..map.rules.len() as u32).filter(|rule| map.rule(*rule).is_some());
    let inputs = || case.first..case.first + case.inputs;
    let pairs = rules.flat_map(|rule| inputs().map(move |x| (rule, x)));
    pairs.map(|(rule, x)| (rule, x, map.do_rule(rule, x, case.size as usize, &case.weights, args))).collect()
}

/// True if Ceph's tools are installed, which they must be where `CI` is set.
pub fn have_crushtool() -> bool {
    let installed = Command::new("crushtool").arg("--version").output().is_ok();
    assert!(installed || std::env::var_os("CI").is_none(), "crushtool is missing: install ceph-base");
    installed
}

/// Runs crushtool on a map that it finds in a file.
pub struct Crushtool {
    dir: TempDir,
}

impl Crushtool {
    pub fn new(map: &CrushMap) -> Self {
        let tool = Self { dir: tempfile::tempdir().expect("a temporary directory") };
        std::fs::write(tool.path("map"), Writer::encode(map)).expect("written");
        tool
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().expect("text").to_owned()
    }

    fn run(&self, args: &[&str]) -> String {
        let out = Command::new("crushtool").args(args).output().expect("crushtool runs");
        let text = String::from_utf8([out.stdout, out.stderr].concat()).expect("text");
        assert!(out.status.success(), "crushtool {args:?}: {text}");
        text
    }

    /// The text that crushtool makes of the map.
    pub fn decompiled(&self) -> String {
        self.run(&["-d", &self.path("map")])
    }

    /// crushtool's mappings, and the map as it writes it, from one run.
    pub fn mappings(&self, map: &CrushMap, case: &Case) -> (Vec<Mapping>, Vec<u8>) {
        let (infile, outfile) = (self.path("map"), self.path("again"));
        let (first, last) = (case.first.to_string(), (case.first + case.inputs - 1).to_string());
        let size = case.size.to_string();
        let mut args = vec!["-i", &infile, "-o", &outfile, "--test", "--show-mappings"];
        args.extend(["--min-x", &first, "--max-x", &last, "--num-rep", &size]);
        // A change that changes nothing makes it write the map.
        let tries = map.tunables.choose_total_tries.to_string();
        args.extend(["--set-choose-total-tries", &tries]);
        let weights: Vec<_> = (case.weights.iter().enumerate().filter(|(_, w)| **w != WEIGHT_ONE))
            .map(|(device, weight)| (device.to_string(), (f64::from(*weight) / 65536.0).to_string()))
            .collect();
        weights.iter().for_each(|(device, weight)| args.extend(["--weight", device, weight]));
        let text = self.run(&args);
        (text.lines().filter_map(parse).collect(), std::fs::read(outfile).expect("written"))
    }

    /// The bytes of the map that crushtool compiles from the text that it makes of ours. `None` if it does
    /// not accept its own text: it gives up on some empty buckets of legacy algorithms.
    pub fn recompiled(&self) -> Option<Vec<u8>> {
        let (text, out) = (self.path("text"), self.path("compiled"));
        std::fs::write(&text, self.decompiled()).expect("written");
        let args = ["--enable-unsafe-tunables", "-c", &text, "-o", &out];
        let done = Command::new("crushtool").args(args).output().expect("crushtool runs");
        done.status.success().then(|| std::fs::read(out).expect("written"))
    }
}

/// `CRUSH rule 0 x 17 [3,1,2]`.
fn parse(line: &str) -> Option<Mapping> {
    let (head, list) = line.strip_prefix("CRUSH rule ")?.strip_suffix(']')?.split_once(" [")?;
    let (rule, x) = head.split_once(" x ")?;
    let number = |n: &str| n.parse().expect("a number");
    let devices = list.split(',').filter(|n| !n.is_empty()).map(number).collect();
    Some((rule.parse().ok()?, x.parse().ok()?, devices))
}

/// A map from its bytes, all of them.
pub fn decode(bytes: &[u8]) -> CrushMap {
    let mut r = Reader::new(bytes);
    let map = r.get().expect("decodes");
    r.finish().expect("nothing is left");
    map
}

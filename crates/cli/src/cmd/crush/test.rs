//! `nacre crush test`: the output of `crushtool --test` of Ceph 16.2, to the byte.

use anyhow::{Result, bail};
use clap::Args;
use crush::{CrushMap, ITEM_NONE, WEIGHT_ONE};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct TestArgs {
    /// The map, in binary form.
    #[arg(long, short = 'i', value_name = "FILE")]
    pub(super) infile: PathBuf,
    /// The rule, by number; all without it.
    #[arg(long)]
    rule: Option<u32>,
    /// Copies; as many as each rule is meant for without it.
    #[arg(long)]
    num_rep: Option<u32>,
    /// The first input.
    #[arg(long, requires = "max_x")]
    min_x: Option<u32>,
    /// The last input; 0 to 1023 without both.
    #[arg(long, requires = "min_x")]
    max_x: Option<u32>,
    /// The only input.
    #[arg(long, conflicts_with_all = ["min_x", "max_x"])]
    x: Option<u32>,
    /// Maps the PGs of this pool instead of plain numbers.
    #[arg(long)]
    pool_id: Option<u32>,
    /// How much of its data a device takes, from 0 to 1.
    #[arg(long, short = 'w', num_args = 2, value_names = ["DEVICE", "WEIGHT"])]
    weight: Vec<f32>,
    /// Print where each input goes.
    #[arg(long)]
    show_mappings: bool,
    /// Print the inputs that get fewer copies.
    #[arg(long)]
    show_bad_mappings: bool,
    /// Print how many inputs get how many copies.
    #[arg(long)]
    show_statistics: bool,
    /// Print what each device gets, with the statistics.
    #[arg(long)]
    show_utilization: bool,
}

impl TestArgs {
    fn statistics(&self) -> bool {
        self.show_statistics || self.show_utilization
    }

    fn inputs(&self) -> std::ops::RangeInclusive<u32> {
        match (self.x, self.min_x, self.max_x) {
            (Some(x), ..) => x..=x,
            (None, Some(first), Some(last)) => first..=last,
            _ => 0..=1023,
        }
    }

    /// What is hashed for an input.
    fn seed(&self, x: u32) -> u32 {
        self.pool_id.map_or(x, |pool| crush::hash32_2(x, pool))
    }
}

/// Tests a map and prints what was asked for.
pub(super) fn test(map: &CrushMap, args: &TestArgs, out: &mut impl Write) -> Result<()> {
    if !(args.show_mappings || args.show_bad_mappings || args.statistics()) {
        bail!(
            "nothing to print: give --show-mappings, --show-bad-mappings, --show-statistics or \
             --show-utilization"
        );
    }
    let weights = device_weights(map, &args.weight);
    let rules = match args.rule {
        Some(rule) => rule..rule + 1,
        None => 0..map.rules.len() as u32,
    };
    for id in rules {
        let Some(rule) = map.rule(id) else {
            if args.statistics() {
                writeln!(out, "rule {id} dne")?;
            }
            continue;
        };
        let (least, most) = match args.num_rep {
            Some(n) => (n, n),
            None => (u32::from(rule.mask.min_size), u32::from(rule.mask.max_size)),
        };
        if args.statistics() {
            let (first, last) = args.inputs().into_inner();
            let name = rule_name(map, id);
            writeln!(out, "rule {id} ({name}), x = {first}..{last}, numrep = {least}..{most}")?;
        }
        if weights.iter().any(|weight| *weight > 0) {
            for size in least..=most {
                test_rule(map, args, &weights, (id, size), out)?;
            }
        }
    }
    Ok(())
}

fn rule_name(map: &CrushMap, rule: u32) -> &str {
    map.rule_names.get(&(rule as i32)).map_or("", String::as_str)
}

/// 1 for the devices in the hierarchy, or what was asked for, in 16.16.
fn device_weights(map: &CrushMap, given: &[f32]) -> Vec<u32> {
    let mut weights = vec![0; map.max_devices.max(0) as usize];
    for item in map.buckets.iter().flatten().flat_map(|bucket| &bucket.items) {
        if let Some(weight) = usize::try_from(*item).ok().and_then(|device| weights.get_mut(device)) {
            *weight = WEIGHT_ONE;
        }
    }
    for pair in given.chunks_exact(2) {
        if let Some(weight) = weights.get_mut(pair[0] as usize) {
            *weight = ((pair[1] * 65536.0) as u32).min(WEIGHT_ONE);
        }
    }
    weights
}

/// Maps all inputs by one rule for one number of copies.
fn test_rule(
    map: &CrushMap,
    args: &TestArgs,
    weights: &[u32],
    (id, size): (u32, u32),
    out: &mut impl Write,
) -> Result<()> {
    let choose_args = map.choose_args_for(0);
    let mut stored = vec![0u32; weights.len()];
    let mut sizes: BTreeMap<usize, u32> = BTreeMap::new();
    let mut text = String::new();
    for x in args.inputs() {
        let devices = map.do_rule(id, args.seed(x), size as usize, weights, choose_args);
        for device in devices.iter().filter(|device| **device != ITEM_NONE) {
            stored[*device as usize] += 1;
        }
        *sizes.entry(devices.len()).or_default() += 1;
        list(&devices, &mut text);
        if args.show_mappings {
            writeln!(out, "CRUSH rule {id} x {x} {text}")?;
        }
        if args.show_bad_mappings && (devices.len() != size as usize || devices.contains(&ITEM_NONE)) {
            writeln!(out, "bad mapping rule {id} x {x} num_rep {size} result {text}")?;
        }
    }
    if args.statistics() {
        let (name, inputs) = (rule_name(map, id), args.inputs().count());
        for (len, count) in sizes {
            writeln!(out, "rule {id} ({name}) num_rep {size} result size == {len}:\t{count}/{inputs}")?;
        }
        if args.show_utilization {
            utilization(map, args, weights, (id, size), &stored, out)?;
        }
    }
    Ok(())
}

/// `[1,2,3]`.
fn list(devices: &[i32], text: &mut String) {
    use std::fmt::Write;
    text.clear();
    text.push('[');
    for (at, device) in devices.iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        write!(text, "{comma}{device}").expect("a string takes everything");
    }
    text.push(']');
}

/// What each device got, and its share by weight, in the single precision of the original.
fn utilization(
    map: &CrushMap,
    args: &TestArgs,
    weights: &[u32],
    (id, size): (u32, u32),
    stored: &[u32],
    out: &mut impl Write,
) -> Result<()> {
    let copies = size.min(max_affected(map, id)) as f32 * args.inputs().count() as f32;
    // The original adds up in 32 bits.
    let total = weights.iter().fold(0u32, |sum, weight| sum.wrapping_add(*weight)) as i32;
    for (device, (count, weight)) in stored.iter().zip(weights).enumerate() {
        let expected = *weight as f32 / total as f32 * copies;
        if expected > 0.0 && *count > 0 {
            writeln!(out, "  device {device}:\t\t stored : {count}\t expected : {}", general(expected))?;
        }
    }
    Ok(())
}

/// How many copies the original believes that a rule can place: the smallest number of buckets of a type that
/// it chooses, counted once for each step that does, or the number that it asks for.
fn max_affected(map: &CrushMap, rule: u32) -> u32 {
    let steps = map.rule(rule).map_or(&[][..], |rule| &rule.steps);
    let choosing = || steps.iter().map(|step| step.parts()).filter(|(op, ..)| *op >= 2 && *op != 4);
    let mut wanted: BTreeMap<i32, i32> = BTreeMap::new();
    let mut found: BTreeMap<i32, i32> = BTreeMap::new();
    for (_, count, ty) in choosing() {
        wanted.insert(ty, count);
        let named = map.names.keys().filter_map(|id| map.bucket(*id));
        *found.entry(ty).or_default() += named.filter(|bucket| i32::from(bucket.ty) == ty).count() as i32;
    }
    for (ty, count) in &mut found {
        if wanted[ty] > 0 && wanted[ty] < *count {
            *count = wanted[ty];
        }
    }
    let all = (map.buckets.len() as i32).max(map.max_devices);
    found.into_values().filter(|count| *count > 0).fold(all, i32::min) as u32
}

/// A number with six significant digits, as C's `%g` prints it.
fn general(number: f32) -> String {
    let exponent = format!("{number:.5e}");
    let (digits, exponent) = exponent.split_once('e').expect("an exponent");
    let exponent: i32 = exponent.parse().expect("a number");
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if !(-4..6).contains(&exponent) {
        return format!("{}e{}{:02}", trim(digits), if exponent < 0 { '-' } else { '+' }, exponent.abs());
    }
    trim(&format!("{number:.*}", (5 - exponent) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::process::Command;
    use stdx::Rng;
    use wire::{Sample, Writer};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: TestArgs,
    }

    fn printed(map: &CrushMap, line: &[String]) -> String {
        let args = Line::try_parse_from(["test".to_owned()].iter().chain(line)).expect("parses").args;
        let mut out = Vec::new();
        test(map, &args, &mut out).expect("written");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn prints_what_crushtool_prints_where_that_is_installed() {
        let installed = Command::new("crushtool").arg("--version").output().is_ok();
        assert!(installed || std::env::var_os("CI").is_none(), "crushtool is missing: install ceph-base");
        let dir = tempfile::tempdir().expect("a temporary directory");
        let file = dir.path().join("map").to_str().expect("text").to_owned();
        for seed in 0..12 {
            let mut rng = Rng::from_seed(seed);
            let map = CrushMap::sample(&mut rng);
            std::fs::write(&file, Writer::encode(&map)).expect("written");
            let mut line = vec!["-i".to_owned(), file.clone()];
            line.extend(["--min-x", "5", "--max-x", "40", "--show-statistics"].map(str::to_owned));
            for option in ["--show-mappings", "--show-bad-mappings", "--show-utilization"] {
                if rng.chance(2, 3) {
                    line.push(option.to_owned());
                }
            }
            if rng.chance(2, 3) {
                line.extend(["--num-rep".to_owned(), rng.range(1, 7).to_string()]);
            }
            if rng.chance(1, 2) {
                line.extend(["--rule", "1", "--pool-id", "3", "--weight", "0", "0.5"].map(str::to_owned));
            }
            let ours = printed(&map, &line);
            if installed {
                let out = Command::new("crushtool").arg("--test").args(&line).output().expect("runs");
                let theirs = String::from_utf8(out.stdout).expect("text");
                assert_eq!(ours, theirs, "seed {seed}: {line:?}");
            }
        }
    }

    #[test]
    fn numbers_look_like_those_of_c() {
        for (number, text) in [
            (6.666_667, "6.66667"),
            (0.0, "0"),
            (10.0, "10"),
            (1_234_567.0, "1.23457e+06"),
            (0.000_012_345, "1.2345e-05"),
            (123_456.0, "123456"),
            (0.5, "0.5"),
        ] {
            assert_eq!(general(number), text);
        }
    }
}

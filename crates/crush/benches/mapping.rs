//! Mappings a second on one core for a cluster of 10,000 OSDs, compared with crushtool's in the same run:
//! `cargo bench -p crush`.
use crush::{CrushMap, WEIGHT_ONE};
use std::hint::black_box;
use std::process::{Command, Stdio};
use std::time::Duration;
use wire::Writer;

const RACKS: i32 = 20;
const HOSTS: i32 = 25;
const OSDS: i32 = 20;
const INPUTS: u32 = 400_000;
const ROUNDS: u32 = 3;

/// 20 racks of 25 hosts of 20 OSDs, with disks of different sizes if `mixed`.
fn map(mixed: bool) -> CrushMap {
    let mut map = CrushMap::new_default_types();
    let add = |map: &mut CrushMap, name: &str, ty: &str, parent: i32, weight: u32| {
        let id = map.add_bucket(name, ty).expect("added");
        map.insert_item(id, weight, name, parent).expect("placed");
        id
    };
    let root = map.add_bucket("default", "root").expect("added");
    for rack in 0..RACKS {
        let rack_id = add(&mut map, &format!("rack{rack}"), "rack", root, 0);
        for host in rack * HOSTS..(rack + 1) * HOSTS {
            let host_id = add(&mut map, &format!("host{host}"), "host", rack_id, 0);
            for osd in host * OSDS..(host + 1) * OSDS {
                let weight =
                    if mixed { WEIGHT_ONE * (1 + osd as u32 % 7) / 2 + osd as u32 } else { WEIGHT_ONE };
                map.insert_item(osd, weight, &format!("osd.{osd}"), host_id).expect("placed");
            }
        }
    }
    map.create_replicated_rule("replicated", "default", "host", None).expect("added");
    map.create_replicated_rule("racks", "default", "rack", None).expect("added");
    map.create_erasure_rule("coded", "default", "host", None).expect("added");
    map
}

/// The processor time of this process, or of its children that have ended: other load does not count.
fn cpu_time(children: bool) -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux has it");
    let (_, fields) = stat.rsplit_once(") ").expect("the name is in parentheses");
    let fields: Vec<&str> = fields.split(' ').collect();
    // User and system time in hundredths of a second; two fields later the children's.
    let at = if children { 13 } else { 11 };
    let ticks = |at: usize| fields[at].parse::<u64>().expect("a number");
    Duration::from_millis((ticks(at) + ticks(at + 1)) * 10)
}

fn ours(map: &CrushMap, rule: u32, size: usize) -> Duration {
    let weights = vec![WEIGHT_ONE; map.max_devices as usize];
    let began = cpu_time(false);
    for x in 0..INPUTS {
        black_box(map.do_rule(rule, black_box(x), size, &weights, None));
    }
    cpu_time(false) - began
}

/// crushtool on the same inputs, less what it takes for a single one: reading the map.
fn theirs(file: &str, rule: u32, size: usize) -> Option<Duration> {
    let run = |inputs: u32| {
        let mut tool = Command::new("crushtool");
        tool.args(["-i", file, "--test", "--show-bad-mappings", "--rule", &rule.to_string()]);
        tool.args(["--num-rep", &size.to_string(), "--min-x", "0", "--max-x", &(inputs - 1).to_string()]);
        let began = cpu_time(true);
        let status = tool.stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
        status.success().then(|| cpu_time(true) - began)
    };
    let start = run(1)?;
    Some(run(INPUTS)?.saturating_sub(start))
}

fn main() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("map");
    let file = file.to_str().expect("text");
    println!("{INPUTS} inputs, best of {ROUNDS} rounds, thousand mappings a second on one core");
    println!(
        "{:<10} {:<12} {:>4} {:>8} {:>10} {:>6}",
        "disks", "rule", "size", "nacre", "crushtool", "ratio"
    );
    for mixed in [false, true] {
        let map = map(mixed);
        std::fs::write(file, Writer::encode(&map)).expect("written");
        for (rule, size) in [(0, 3), (1, 3), (2, 6)] {
            let name = &map.rule_names[&(rule as i32)];
            let best = (0..ROUNDS).map(|_| ours(&map, rule, size)).min().expect("a round");
            let other = (0..ROUNDS).filter_map(|_| theirs(file, rule, size)).min();
            let rate = |time: Duration| f64::from(INPUTS) / time.as_secs_f64() / 1e3;
            print!("{:<10} {name:<12} {size:>4} {:>8.0}", if mixed { "mixed" } else { "equal" }, rate(best));
            match other {
                Some(other) => println!(" {:>10.0} {:>6.2}", rate(other), rate(best) / rate(other)),
                None => println!(" {:>10} {:>6}", "absent", "-"),
            }
        }
    }
}

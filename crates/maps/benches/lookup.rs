//! A client's cost of finding an object's primary with a table per PG: `cargo bench -p maps --bench lookup`.

use maps::*;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;
use wire::Utime;

const OSDS: i32 = 10_000;
const PG_NUM: u32 = 1 << 16;
const LOOKUPS: usize = 40_000_000;

fn map() -> OsdMap {
    let mut crush = crush::CrushMap::new_default_types();
    let root = crush.add_bucket("default", "root").expect("added");
    let mut map = OsdMap { epoch: Epoch(9), pool_max: 1, ..OsdMap::default() };
    for host in 0..OSDS / 20 {
        let name = format!("h{host}");
        let id = crush.add_bucket(&name, "host").expect("added");
        crush.insert_item(id, 0, &name, root).expect("placed");
        for osd in host * 20..(host + 1) * 20 {
            crush.insert_item(osd, crush::WEIGHT_ONE, &format!("osd.{osd}"), id).expect("placed");
            let state = osd_state::EXISTS | osd_state::UP;
            map.osds.push(OsdEntry { state, weight: WEIGHT_IN, ..OsdEntry::default() });
        }
    }
    crush.create_replicated_rule("replicated", "default", "host", None).expect("added");
    map.crush = Arc::new(crush);
    map.pools.insert(1, Pool::replicated(3, 2, 0, PG_NUM, Utime::default()));
    map
}

/// The processor time of this process: what others run meanwhile does not count.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux has it");
    let (_, fields) = stat.rsplit_once(") ").expect("the name is in parentheses");
    let fields: Vec<&str> = fields.split(' ').collect();
    let ticks = |at: usize| fields[at].parse::<u64>().expect("a number");
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

/// Nanoseconds for each of `LOOKUPS` lookups of names that are all different in turn.
fn measure(map: &OsdMap, table: &mut PrimaryTable, names: &[String]) -> f64 {
    let locator = ObjectLocator::new(1, "");
    let began = cpu_time();
    for name in names.iter().cycle().take(LOOKUPS) {
        let pool = &map.pools[&locator.pool];
        let raw = PgId { pool: locator.pool, seed: locator.hash_of(black_box(name.as_bytes())) };
        black_box(table.primary(map, pool, pool.raw_pg_to_pg(raw)));
    }
    (cpu_time() - began).as_nanos() as f64 / LOOKUPS as f64
}

fn main() {
    let map = map();
    // Names as the file system makes them.
    let names: Vec<String> =
        (0..1 << 14).map(|n: u64| format!("{:x}.{:08x}", 0x100_0000_0000 + n * 77, n % 50)).collect();
    let mut table = PrimaryTable::default();
    let began = cpu_time();
    for pg in map.pools[&1].pgs(1) {
        black_box(table.primary(&map, &map.pools[&1], pg));
    }
    let fill = (cpu_time() - began).as_nanos() as f64 / f64::from(PG_NUM);
    println!("{OSDS} OSDs, {PG_NUM} PGs: filling the table {fill:.0} ns a PG");
    let best = (0..3).map(|_| measure(&map, &mut table, &names)).fold(f64::INFINITY, f64::min);
    println!("a lookup from an object's name to its primary: {best:.1} ns, best of 3 rounds of {LOOKUPS}");
}

//! Which scheduled snapshots are kept.

use super::calendar::Date;
use super::spec::{PERIODS, Retention};

/// The beginning of the names of scheduled snapshots.
const PREFIX: &str = "scheduled-";
/// Most snapshots of a directory that are kept.
const MAX_KEPT: usize = 50;

/// The name of a snapshot that is taken at a moment.
pub(super) fn name(at: u64) -> String {
    let Date { year, month, day, hour, minute, second } = Date::of(at);
    format!("{PREFIX}{year:04}-{month:02}-{day:02}-{hour:02}_{minute:02}_{second:02}_UTC")
}

/// The moment in a snapshot's name, if it is that of a scheduled one.
fn taken_at(name: &str) -> Option<u64> {
    let text = name.strip_prefix(PREFIX)?.get(..19)?;
    let (date, time) = (text.get(..10)?, text.get(10..)?.strip_prefix('-')?);
    Date::parse(&format!("{date}T{}", time.replace('_', ":")))
}

/// The snapshots among `names` that are to be removed. Of each period, the newest snapshot is kept, for as
/// many of the last periods as the retention says; without retention, the newest 50. Others' snapshots
/// stay.
pub(super) fn superfluous(names: &[String], retention: &Retention) -> Vec<String> {
    let mut all: Vec<(u64, &String)> =
        names.iter().filter_map(|name| Some((taken_at(name)?, name))).collect();
    all.sort_unstable();
    all.reverse();
    let usual = Retention::from([('n', MAX_KEPT as u32)]);
    let retention = if retention.is_empty() { &usual } else { retention };
    let mut kept: Vec<&String> = Vec::new();
    for period in PERIODS {
        let count = retention.get(&period).copied().unwrap_or(0);
        let (mut last, mut found) = (None, 0);
        for (at, name) in &all {
            if found == count {
                break;
            }
            let label = label(period, *at);
            if last == Some(label) {
                continue;
            }
            last = Some(label);
            if !kept.contains(name) {
                kept.push(name);
                found += 1;
            }
        }
    }
    kept.truncate(MAX_KEPT);
    all.into_iter().filter(|(_, name)| !kept.contains(name)).map(|(_, name)| name.clone()).collect()
}

/// What snapshots of one period have in common.
fn label(period: char, at: u64) -> (i64, i64) {
    let date = Date::of(at);
    match period {
        'n' => (at as i64, 0),
        'm' => ((at / 60) as i64, 0),
        'h' => ((at / 3600) as i64, 0),
        'd' => ((at / 86_400) as i64, 0),
        'w' => date.week(),
        'M' => (date.year, i64::from(date.month)),
        _ => (date.year, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3600;
    /// 2023-11-14 22:00:00.
    const START: u64 = 1_699_999_200;

    fn kept(names: &[String], retention: &[(char, u32)]) -> Vec<String> {
        let gone = superfluous(names, &retention.iter().copied().collect());
        names.iter().filter(|name| !gone.contains(name)).cloned().collect()
    }

    #[test]
    fn a_snapshots_name_tells_its_time() {
        assert_eq!(name(START + 1), "scheduled-2023-11-14-22_00_01_UTC");
        assert_eq!(taken_at(&name(START + 1)), Some(START + 1));
        assert_eq!(taken_at("scheduled-2023-11-14-22_00_01"), Some(START + 1), "an older release's");
        for other in ["mine", "scheduled-", "scheduled-x023-11-14-22_00_01", "scheduled-2023-11-14-22_00"] {
            assert_eq!(taken_at(other), None);
        }
    }

    #[test]
    fn the_newest_of_each_period_is_kept() {
        // One every half hour of two days.
        let names: Vec<String> = (0..96).map(|i| name(START + i * HOUR / 2)).collect();
        let last = |i: usize| names[95 - i].clone();
        assert_eq!(kept(&names, &[('n', 3)]), [last(2), last(1), last(0)]);
        assert_eq!(kept(&names, &[('h', 2)]), [last(2), last(0)]);
        let days = kept(&names, &[('d', 9)]);
        assert_eq!(days, [name(START + 7 * HOUR / 2 - HOUR * 2), last(44), last(0)]);
        assert_eq!(kept(&names, &[('h', 2), ('n', 1)]).len(), 3, "each letter counts for itself");
        assert_eq!(kept(&names, &[]).len(), MAX_KEPT);
    }

    #[test]
    fn others_snapshots_stay() {
        let names = ["mine".to_owned(), name(START), name(START + 1)];
        assert_eq!(superfluous(&names, &Retention::from([('n', 1)])), [name(START)]);
    }
}

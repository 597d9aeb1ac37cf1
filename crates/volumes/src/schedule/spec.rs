//! Repeat intervals (`1h`) and retention (`24h4w`), with the letters of Ceph 18 to 20: `m` for minutes, `M`
//! for months. Ceph 16 has them the other way round.

use std::collections::BTreeMap;

/// Letters of retention, the finest first: numbers of snapshots, minutes, hours, days, weeks, months, years.
pub(super) const PERIODS: [char; 7] = ['n', 'm', 'h', 'd', 'w', 'M', 'y'];

/// How many snapshots are kept: by letter.
pub(crate) type Retention = BTreeMap<char, u32>;

/// The seconds of a repeat interval: `15m`, `1h`, `1d`, `1w`, `1M` (30 days), `1y` (365 days).
pub(super) fn interval(text: &str) -> Option<u64> {
    let unit = text.chars().next_back()?;
    let seconds = match unit {
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        'M' => 30 * 86_400,
        'y' => 365 * 86_400,
        _ => return None,
    };
    let count: u64 = text[..text.len() - 1].parse().ok().filter(|count| (1..=100_000).contains(count))?;
    Some(count * seconds)
}

/// Reads retention. `None` if it has another form.
pub(super) fn retention(text: &str) -> Option<Retention> {
    let (mut out, mut digits) = (Retention::new(), String::new());
    for c in text.chars() {
        if c.is_ascii_digit() {
            digits.push(c);
        } else if PERIODS.contains(&c) {
            out.insert(c, digits.parse().ok()?);
            digits.clear();
        } else {
            return None;
        }
    }
    (digits.is_empty() && !out.is_empty()).then_some(out)
}

/// Retention as it is written.
pub(super) fn shown(retention: &Retention) -> String {
    PERIODS.iter().filter_map(|c| Some(format!("{}{c}", retention.get(c)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_and_retention_are_read() {
        let found = ["15m", "1h", "2d", "1w", "1M"].map(interval);
        assert_eq!(found, [900, 3600, 172_800, 604_800, 2_592_000].map(Some));
        for text in ["", "h", "0h", "1x", "-1h", "1", "１h"] {
            assert_eq!(interval(text), None, "{text}");
        }
        let found = retention("24h4w10n").expect("is read");
        assert_eq!(shown(&found), "10n24h4w");
        for text in ["", "h", "24", "24x", "h24", "99999999999h"] {
            assert_eq!(retention(text), None, "{text}");
        }
    }
}

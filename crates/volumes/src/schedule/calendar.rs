//! Dates in UTC, as schedules and the names of their snapshots have them.

use stdx::civil;

/// Seconds of a day.
const DAY: u64 = 86_400;

/// A moment in parts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Date {
    pub year: i64,
    pub month: u32,
    pub day: u32,
    pub hour: u32,
    pub minute: u32,
    pub second: u32,
}

impl Date {
    /// The parts of a moment.
    pub fn of(at: u64) -> Self {
        let (days, rest) = ((at / DAY) as i64, at % DAY);
        let (year, month, day) = civil::date_of_day(days);
        Self {
            year,
            month,
            day,
            hour: (rest / 3600) as u32,
            minute: (rest / 60 % 60) as u32,
            second: (rest % 60) as u32,
        }
    }

    /// The moment; `None` before 1970.
    pub fn at(self) -> Option<u64> {
        let days = u64::try_from(self.day_number()).ok()?;
        Some(days * DAY + u64::from(self.hour) * 3600 + u64::from(self.minute) * 60 + u64::from(self.second))
    }

    /// Days since 1970.
    fn day_number(self) -> i64 {
        civil::day_of_date(self.year, self.month.into(), self.day.into())
    }

    /// The ISO week: its year and number.
    pub fn week(self) -> (i64, i64) {
        let today = self.day_number();
        // 1970-01-01 was a Thursday; a week belongs to the year that its Thursday is in.
        let thursday = today - (today + 3).rem_euclid(7) + 3;
        let year = Self::of(thursday.unsigned_abs() * DAY).year;
        (year, (thursday - civil::day_of_date(year, 1, 1)) / 7 + 1)
    }

    /// `2026-11-26T10:48:41`.
    pub fn iso(self) -> String {
        let Self { year, month, day, hour, minute, second } = self;
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
    }

    /// Reads a date, optionally with a time, a fraction and a zone (`Z` or `+01:00`).
    pub fn parse(text: &str) -> Option<u64> {
        let (date, rest) = match text.len() {
            10 => (text, "00:00:00"),
            _ => (text.get(..10)?, text.get(10..)?.strip_prefix(['T', ' '])?),
        };
        let mut parts = date.split('-');
        let (year, month, day) =
            (number(parts.next()?, 4)?, number(parts.next()?, 2)?, number(parts.next()?, 2)?);
        let (time, zone) = match rest.find(['Z', '+', '-']) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let mut parts = time.split('.').next()?.split(':');
        let (hour, minute) = (number(parts.next()?, 2)?, parts.next().map_or(Some(0), |m| number(m, 2))?);
        let second = parts.next().map_or(Some(0), |s| number(s, 2))?;
        let valid = (1..=12).contains(&month) && (1..=31).contains(&day);
        if !valid || hour > 23 || minute > 59 || second > 59 || Self::of(0).year > i64::from(year) {
            return None;
        }
        let date = Self { year: i64::from(year), month, day, hour, minute, second };
        let local = date.at()?;
        // No 31st of February.
        if Self::of(local) != date {
            return None;
        }
        let offset = offset(zone)?;
        u64::try_from(i64::try_from(local).ok()? - offset).ok()
    }
}

fn number(text: &str, digits: usize) -> Option<u32> {
    let is_number = text.len() == digits && text.bytes().all(|b| b.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// Seconds by which a zone is ahead of UTC.
fn offset(zone: &str) -> Option<i64> {
    let ahead = match zone.get(..1) {
        None | Some("Z") => return if zone.len() <= 1 { Some(0) } else { None },
        Some("+") => 1,
        Some(_) => -1,
    };
    let digits: String = zone[1..].chars().filter(|c| *c != ':').collect();
    let digits = number(&digits, 4)?;
    Some(ahead * i64::from(digits / 100 * 3600 + digits % 100 * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_survive_both_ways() {
        for at in [0, 951_782_400, 1_700_000_000, 1_709_164_799, 1_709_164_800, 4_102_444_799] {
            assert_eq!(Date::of(at).at(), Some(at));
            assert_eq!(Date::parse(&Date::of(at).iso()), Some(at));
        }
        assert_eq!(Date::of(1_700_000_000).iso(), "2023-11-14T22:13:20");
    }

    #[test]
    fn zones_and_fractions_are_read_and_nonsense_is_not() {
        let at = Some(1_700_000_000);
        for text in ["2023-11-14T22:13:20Z", "2023-11-14 22:13:20.5", "2023-11-14T23:13:20+01:00"] {
            assert_eq!(Date::parse(text), at, "{text}");
        }
        assert_eq!(Date::parse("2023-11-14T17:13:20-0500"), at);
        assert_eq!(Date::parse("1970-01-02"), Some(DAY));
        for text in
            ["", "2023-02-31", "2023-13-01", "2023-11-14T25:00", "2023-11-14Tx", "yesterday", "１２３４"]
        {
            assert_eq!(Date::parse(text), None, "{text}");
        }
    }

    #[test]
    fn weeks_are_those_of_iso() {
        let week = |text| Date::of(Date::parse(text).expect("a date")).week();
        assert_eq!(week("2021-01-03"), (2020, 53));
        assert_eq!(week("2021-01-04"), (2021, 1));
        assert_eq!(week("2024-12-30"), (2025, 1));
        assert_eq!(week("2026-11-26"), (2026, 48));
    }
}

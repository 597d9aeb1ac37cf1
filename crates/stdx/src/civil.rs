//! The civil calendar (proleptic Gregorian, UTC), in days since 1970-01-01.

/// The date of a day: year, month from 1, day from 1 (H. Hinnant's algorithm).
pub fn date_of_day(day: i64) -> (i64, u32, u32) {
    let z = day + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (yoe + era * 400 + i64::from(month <= 2), month as u32, (doy - (153 * mp + 2) / 5 + 1) as u32)
}

/// The day of a date. Years are counted from March here, so that a leap day is the last of its year.
pub fn day_of_date(year: i64, month: i64, day: i64) -> i64 {
    let shifted = if month > 2 { year } else { year - 1 };
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    365 * shifted + shifted / 4 - shifted / 100 + shifted / 400 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_are_each_other_s() {
        assert_eq!((date_of_day(0), date_of_day(19_675)), ((1970, 1, 1), (2023, 11, 14)));
        for day in (-200_000..200_000).step_by(13) {
            let (year, month, of_month) = date_of_day(day);
            assert_eq!(day_of_date(year, i64::from(month), i64::from(of_month)), day);
        }
        assert_eq!(day_of_date(2024, 2, 29) + 1, day_of_date(2024, 3, 1));
    }
}

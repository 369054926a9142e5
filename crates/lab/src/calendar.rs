//! Dates as manifests write them: ISO 8601 instants and durations.

use freshet_base::clock::UnixMillis;

/// When live timelines begin: 2025-01-01T00:00:00Z, the start of segment 0 of each live channel.
///
/// A fixed instant instead of the start of the process makes segment numbers, and with them paths
/// and bytes, the same after a restart. It is midnight, so a time on the timeline is also a time of
/// day. It is not 1970 because players take a zero `availabilityStartTime` for a missing one.
pub const TIMELINE_START: UnixMillis = UnixMillis(1_735_689_600_000);

/// `time` in UTC to the millisecond: `2025-01-01T00:00:00.000Z`.
pub fn iso_instant(time: UnixMillis) -> String {
    let seconds = time.0 / 1000;
    let (year, month, day) = civil_date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let millis = time.0 % 1000;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// A duration of `millis` as XML Schema has it: `PT6S`, `PT0.5S`.
pub fn iso_duration(millis: u64) -> String {
    if millis.is_multiple_of(1000) {
        return format!("PT{}S", millis / 1000);
    }
    format!("PT{}.{:03}S", millis / 1000, millis % 1000)
}

/// Year, month and day of the day `days` after 1970-01-01, in the Gregorian calendar. Counted in
/// years that begin in March, so that the leap day is the last of its year.
fn civil_date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_media::mpd::time;
    use proptest::prelude::*;

    #[test]
    fn instants_are_written_in_utc() {
        assert_eq!(iso_instant(UnixMillis(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso_instant(TIMELINE_START), "2025-01-01T00:00:00.000Z");
        assert_eq!(iso_instant(UnixMillis(1_709_210_096_789)), "2024-02-29T12:34:56.789Z");
    }

    #[test]
    fn durations_read_as_written() {
        assert_eq!(iso_duration(6000), "PT6S");
        assert_eq!(iso_duration(500), "PT0.500S");
        assert_eq!(time::duration_ms(&iso_duration(3_723_500)), Some(3_723_500));
    }

    proptest! {
        #[test]
        fn instants_survive_a_round_trip(millis in 0_u64..200_000_000_000_000) {
            let written = iso_instant(UnixMillis(millis));
            prop_assert_eq!(time::instant(&written), Some(UnixMillis(millis)));
        }
    }
}

//! Times of the lab's manifests.

use freshet_base::clock::UnixMillis;

/// When live timelines begin: 2025-01-01T00:00:00Z, the start of segment 0 of each live channel.
///
/// A fixed instant instead of the start of the process makes segment numbers, and with them paths
/// and bytes, the same after a restart. It is midnight, so a time on the timeline is also a time of
/// day. It is not 1970 because players take a zero `availabilityStartTime` for a missing one.
pub const TIMELINE_START: UnixMillis = UnixMillis(1_735_689_600_000);

/// A duration of `millis` as XML Schema has it: `PT6S`, `PT0.5S`.
pub fn iso_duration(millis: u64) -> String {
    if millis.is_multiple_of(1000) {
        return format!("PT{}S", millis / 1000);
    }
    format!("PT{}.{:03}S", millis / 1000, millis % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_media::mpd::time;

    #[test]
    fn durations_read_as_written() {
        assert_eq!(iso_duration(6000), "PT6S");
        assert_eq!(iso_duration(500), "PT0.500S");
        assert_eq!(time::duration_ms(&iso_duration(3_723_500)), Some(3_723_500));
    }
}

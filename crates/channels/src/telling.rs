//! What players are told of the way to them (CTA-5006).

use freshet_http::fields::Fields;
use freshet_media::cmsd::{self, Dynamic};
use freshet_net::controls::Controls;
use std::time::Duration;

/// The least length of a body for which the kernel is asked about the connection: how fast a playlist
/// comes says nothing of the next segment.
const LARGE_BYTES_MIN: u64 = 64 << 10;

/// Adds what is known of a response that is about to be sent, of so many bytes where that is known, and of
/// its connection where that can be asked.
/// What servers before said of their way to here is true of a response that has just come, and of a
/// stored one no more.
pub fn tell(
    fields: &mut Fields,
    server: &str,
    controls: Option<&Controls>,
    delay: Duration,
    is_stored: bool,
    bytes: Option<u64>,
) {
    if is_stored {
        fields.remove(cmsd::NAME);
    }
    let response_delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
    let mut told = Dynamic { server, response_delay_ms, ..Dynamic::default() };
    let is_large = bytes.is_none_or(|bytes| bytes >= LARGE_BYTES_MIN);
    let controls = controls.filter(|_| is_large);
    if let Some(info) = controls.and_then(|controls| controls.info().ok()) {
        let round_trip_us = u64::from(info.round_trip_us).max(1);
        told.round_trip_ms = Some(round_trip_us.div_ceil(1000));
        // A window each round trip is what the connection may send now.
        let window_bits = u64::from(info.window_segments) * u64::from(info.send_segment_bytes) * 8;
        told.throughput_kbps = Some(window_bits.saturating_mul(1000) / round_trip_us);
    }
    told.append(fields);
}

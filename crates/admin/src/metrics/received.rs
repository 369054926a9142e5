//! Metrics of what players say of responses, for all sites together and for each.

use super::writer::Row;
use freshet_node::received::ReceivedSums;

/// What players say of responses they got, for all sites together and for each.
pub(super) const RECEIVED_COUNTERS: [Row<ReceivedSums, u64>; 2] = [
    ("cmcd_responses", "Reports of players about responses.", |sums| sums.responses),
    (
        "cmcd_responses_failed",
        "Of these, about those that did not come, or came with an error.",
        |sums| sums.failed,
    ),
];
/// The same.
pub(super) const RECEIVED_MEANS: [Row<ReceivedSums, f64>; 2] = [
    (
        "cmcd_first_byte_seconds",
        "Mean time from a player's request to the first byte, as it says.",
        ReceivedSums::first_byte_s,
    ),
    (
        "cmcd_last_byte_seconds",
        "Mean time from a player's request to the last byte, as it says.",
        ReceivedSums::last_byte_s,
    ),
];

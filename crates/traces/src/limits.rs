//! The bounds of this room, with their reasons.

use std::time::Duration;

/// Spans that wait to be sent; beyond, they are dropped: some 8 MiB.
pub const QUEUE_SPANS_MAX: usize = 4096;
/// Spans of one message.
pub const BATCH_SPANS_MAX: usize = 512;
/// How long a span waits for others of its message.
pub const BATCH_WITHIN: Duration = Duration::from_secs(2);
/// How long the collector may take to answer.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How often a message is sent that the collector could not take just then (OTLP §Failures).
pub const TRIES_MAX: u32 = 3;
/// How long it waits before that, at most.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);
/// Transactions whose place in a trace is known at a time, so that what is done for them has its
/// place too. The oldest go first.
pub const KNOWN_MAX: usize = 16_384;
/// Parts of that, each behind a lock of its own.
pub const SHARDS: usize = 16;
/// Bytes of one text in a span: targets and fields of requests may be as long as heads are.
pub const TEXT_BYTES_MAX: usize = 1024;
/// Points in time of one span.
pub const EVENTS_MAX: usize = 32;
/// Bytes of a file with fields for the collector.
pub const FIELDS_BYTES_MAX: u64 = 64 << 10;

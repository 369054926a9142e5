//! The named maximums of QUIC, each with its reason.

use std::time::Duration;

/// The least a datagram with an Initial packet has (RFC 9000 §14.1), and the largest we send before
/// the path has shown that it takes more.
pub const DATAGRAM_BYTES_MIN: usize = 1200;

/// The largest datagram we send: what IPv6 leaves of an Ethernet frame of 1,500 bytes.
pub const DATAGRAM_BYTES_MAX: usize = 1452;

/// Bytes of a batch of datagrams: what one `sendmsg` with `UDP_SEGMENT` takes.
pub const BATCH_BYTES_MAX: usize = 64_000;

/// Datagrams of a batch: the kernel's `UDP_MAX_SEGMENTS` was 64 before Linux 6.9.
pub const BATCH_DATAGRAMS_MAX: usize = 54;

/// Bytes of the connection ids we choose.
pub const OWN_ID_BYTES: usize = 8;

/// Connection ids of its own that a client may have us hold, the one in use included: the least
/// that may be announced would be two; more are of use to a client that moves often.
pub const PEER_IDS_MAX: usize = 4;

/// Our connection ids that a client may hold at a time.
pub const OWN_IDS_MAX: u64 = 4;

/// Connection ids that a client may have us retire in one round trip before it is told to go.
pub const RETIRED_IDS_MAX: usize = 16;

/// What a client that is not known to be where it says gets for each byte it sends (RFC 9000 §8.1).
pub const AMPLIFICATION_FACTOR: u64 = 3;

/// Bytes of a handshake that may have arrived out of order or be incomplete (RFC 9000 §7.5 asks for
/// 4,096 at least).
pub const CRYPTO_BYTES_MAX: u64 = 16 << 10;

/// Gaps in what arrived of one stream: two for every three packets of the largest window lost.
pub const GAPS_MAX: usize = 512;

/// Ranges of packet numbers that are remembered and acknowledged. What is below the lowest of them
/// counts as seen.
pub const RANGES_MAX: usize = 64;

/// ACK frames in one packet that are looked at: each costs a walk over what is in flight.
pub const ACKS_PER_PACKET_MAX: usize = 4;

/// Packets that a client is asked to take before it acknowledges, at most: about a batch, which makes room
/// for the next one.
pub const PACKETS_PER_ACK_MAX: u64 = 64;

/// How long a client may have an acknowledgement held back: what its own may say of itself (RFC 9000 §18.2).
pub const ASKED_DELAY_MAX: Duration = Duration::from_millis(1 << 14);

/// Packet numbers between the oldest one in flight and the next. A client that lets it grow above
/// that acknowledges nothing on purpose.
pub const SENT_SPAN_MAX: u64 = 64 << 10;

/// Runs of packets that were taken for lost, and whose acknowledgements are looked for after all: more than a round trip
/// has of them where packets only overtake one another. Of the oldest none are once there are more.
pub const LOST_RUNS_MAX: usize = 64;

/// Packets that only acknowledge, until one asks to be acknowledged itself (RFC 9000 §13.2.4).
pub const SILENT_PACKETS_MAX: u32 = 32;

/// Packet numbers are left out this often on average, so that a client that acknowledges what it has
/// not received is seen (RFC 9000 §21.4).
pub const SKIPPED_NUMBERS_EVERY: u64 = 512;

/// Bytes of packets kept that came before the keys for them.
pub const EARLY_BYTES_MAX: usize = 8 << 10;

/// The congestion window's upper end: what one client's round trip can keep of the cache in place.
pub const WINDOW_BYTES_MAX: u64 = 8 << 20;

/// Silence after which a connection gives memory back that it can make again: longer than a page takes
/// between two requests, and than most players between two segments.
pub const REST_AFTER: Duration = Duration::from_secs(5);

/// The least that looks like a packet, and so the least of a datagram that says that nothing is known of its connection
/// (RFC 9000 §10.3).
pub const RESET_BYTES_MIN: usize = 21;

/// Frames that bring nothing, at once: PING, PATH_CHALLENGE, empty STREAM frames, frames for streams
/// that are over, repeated limits.
pub const IDLE_FRAMES_MAX: u32 = 1024;

/// Of those, how many are forgiven in a second, besides one for each frame that brings something.
pub const IDLE_FRAMES_PER_SECOND: u32 = 128;

/// PATH_CHALLENGE frames that are answered at a time; others are dropped.
pub const CHALLENGES_MAX: usize = 4;

/// Packets in one datagram that are looked at: one of each kind, and one to spare.
pub const PACKETS_PER_DATAGRAM_MAX: usize = 5;

/// Packets that are not ours or broken which a connection takes before it ends; less than what the
/// ciphers allow (RFC 9001 §6.6: 2^36 and 2^52).
pub const FORGED_PACKETS_MAX: u64 = 1 << 32;

/// How long what is left of a closed connection answers what still comes, at most: three probe timeouts of a
/// way of which nothing is known take 3 s, and a client that acknowledges late makes them as long as it likes.
pub const CLOSED_MAX: Duration = Duration::from_secs(10);

/// How often the time until the next probe is doubled while there is no answer.
pub const BACKOFFS_MAX: u32 = 8;

//! The named maximums of HTTP/3, each with its reason.

pub use crate::h2::limits::{
    BLOCK_FACTOR, IDLE_FRAMES_MAX, IDLE_FRAMES_PER_SECOND, RESETS_MAX, RESETS_PER_SECOND,
};

/// Payload of a DATA frame we send: a batch of datagrams. A larger one would hold up nothing, but what
/// is in it is no longer the session's to take back.
pub const DATA_BYTES_MAX: usize = 64 << 10;

/// Bytes that were given to the streams of a connection and not sent, beyond which no more of bodies
/// are: two batches, so that the second is there when the first is sent.
pub const FED_BYTES_MAX: u64 = 128 << 10;

/// The same beyond which no more heads are: a client that asks and does not listen waits for itself.
pub const HEADS_BYTES_MAX: u64 = FED_BYTES_MAX + (64 << 10);

/// Bytes of a connection's streams that may be there until the client acknowledges them, whoever else
/// needs the memory. More has to be [allowed](super::Connection::set_kept_max).
pub const KEPT_BYTES_FREE: u64 = 192 << 10;

/// What heads may add to that.
pub const KEPT_HEADS_BYTES_MAX: u64 = 64 << 10;

/// The most that is of use: the largest congestion window, and what is written ahead of it.
pub const KEPT_BYTES_MAX: u64 = freshet_quic::limits::WINDOW_BYTES_MAX + FED_BYTES_MAX;

/// Bytes of the table of fields that a client may fill here, and of the one that is filled there: what
/// HTTP/2 has by default.
pub const TABLE_BYTES_MAX: usize = 4096;

/// Streams whose heads may wait for what is told in advance, where nobody says otherwise. None: a client refers to what it was told is
/// here, and no stream ever waits for another.
pub const BLOCKED_STREAMS_MAX: u64 = 0;

/// Changes of its table that a client may make at once, how many more in a second, and for each head.
pub const TABLE_CHANGES_MAX: u32 = 1024;
/// See [`TABLE_CHANGES_MAX`].
pub const TABLE_CHANGES_PER_SECOND: u32 = 256;
/// See [`TABLE_CHANGES_MAX`].
pub const TABLE_CHANGES_PER_REQUEST: u32 = 32;

/// Bytes of what we say of tables that a client may leave unread.
pub const TABLE_STREAM_BYTES_MAX: u64 = 4096;

/// Payload of a frame on the client's control stream. Those that are known have some 16 bytes, but
/// for settings, of which there may be some that are not.
pub const CONTROL_FRAME_BYTES_MAX: usize = 4096;

/// Streams of which a priority is remembered before they begin.
pub const FORETOLD_MAX: usize = 128;

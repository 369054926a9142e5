//! The named maximums of HTTP/2, each with its reason.

/// Payload of a frame we take: the least a peer may be told (RFC 9113 §6.5.2). A frame is handled
/// when all of it is there, so this is also what a connection holds of one that is not.
pub const FRAME_BYTES_MAX: u32 = 16_384;

/// Payload of a DATA frame we send, however large a frame the client takes: one record of TLS. A
/// larger one would hold up streams that are more urgent.
pub const DATA_BYTES_MAX: usize = 16_384;

/// Bytes of compressed fields of one head, as a multiple of the limit for the head: a head somewhat
/// over its limit is answered with 431, one far over it ends the connection.
pub const BLOCK_FACTOR: usize = 4;

/// Frames of one head. A client that fills them needs 8 for the largest block; one that sends a few
/// bytes in each only makes work (the CONTINUATION flood, VU#421644).
pub const BLOCK_FRAMES_MAX: u32 = 32;

/// The table of fields a client may build here and we build there (RFC 7541 §4.2): the default of
/// the protocol. Its entries and their overhead are within it.
pub const HEADER_TABLE_BYTES: usize = 4096;

/// Streams that were ended before they were done, at once: a page with all its pictures, left twice.
/// More of them is the rapid reset attack (CVE-2023-44487), also where the client makes us end them.
pub const RESETS_MAX: u32 = 256;

/// Of those, how many are forgiven in a second, besides one for each response sent whole.
pub const RESETS_PER_SECOND: u32 = 32;

/// Frames that bring nothing, at once: PING, SETTINGS, PRIORITY, PRIORITY_UPDATE, empty DATA, frames
/// for closed streams and of unknown types. Each costs some work and up to 17 bytes of answer
/// (CVE-2019-9512, 9513, 9515, 9518).
pub const IDLE_FRAMES_MAX: u32 = 1024;

/// Of those, how many are forgiven in a second, besides one for each frame that brings something.
pub const IDLE_FRAMES_PER_SECOND: u32 = 128;

/// Bytes of our own frames that may wait for the client to read them before no more of its frames
/// are read. A client that asks and does not listen waits for itself.
pub const CONTROL_BYTES_MAX: usize = 64 << 10;

/// Closed streams of which it is remembered how they were closed: those a client may still send to
/// without being wrong.
pub const CLOSED_STREAMS_KEPT: usize = 256;

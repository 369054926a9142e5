//! Where servers of HTTP/2 part from one another.

use super::limits::FRAME_BYTES_MAX;

/// What a connection does where others do otherwise. Two mixtures exist: [`RFC_9113`] and [`VARNISH`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Conduct {
    /// Windows open as bytes come, the connection's with each frame and a stream's with each piece
    /// that is taken, and the connection's is never announced larger than the protocol has it.
    /// Otherwise each opens when half of it is used and nobody holds what it let in.
    pub opens_windows_at_once: bool,
    /// A client may begin with any frame; otherwise with SETTINGS (RFC 9113 §3.4).
    pub takes_any_frame_first: bool,
    /// An answer to a PING that was not sent ends the connection; otherwise it is one of the frames
    /// that bring nothing.
    pub refuses_unasked_pongs: bool,
    /// Trailers that do not end their stream end the connection; otherwise the stream alone (RFC 9113
    /// §8.1).
    pub fails_on_open_trailers: bool,
    /// A head that announces a body and ends its stream ends the connection; otherwise the stream alone
    /// (RFC 9113 §8.1.1).
    pub fails_on_missing_body: bool,
    /// What is wrong with a frame's stream is said before what is wrong with its length, which of SETTINGS is
    /// a mistake in the protocol like others, and no frame that is known may be of a stream that only a
    /// server opens. Otherwise lengths go first (RFC 9113 §4.2), and priorities may be of any stream.
    pub looks_at_streams_first: bool,
    /// The smallest frame a client may ask for, bytes of payload (RFC 9113 §6.5.2 has 16,384).
    pub frame_bytes_min: u32,
}

/// As the protocol asks.
pub const RFC_9113: Conduct = Conduct {
    opens_windows_at_once: false,
    takes_any_frame_first: false,
    refuses_unasked_pongs: false,
    fails_on_open_trailers: false,
    fails_on_missing_body: false,
    looks_at_streams_first: false,
    frame_bytes_min: FRAME_BYTES_MAX,
};

/// As Varnish does. Those who test it ask for small frames to see them split.
pub const VARNISH: Conduct = Conduct {
    opens_windows_at_once: true,
    takes_any_frame_first: true,
    refuses_unasked_pongs: true,
    fails_on_open_trailers: true,
    fails_on_missing_body: true,
    looks_at_streams_first: true,
    frame_bytes_min: 64,
};

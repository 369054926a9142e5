//! What a player says of itself with its requests: CMCD (CTA-5004), in fields.

use super::Format;
use std::time::Duration;

/// What there is to say with a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words<'a> {
    pub(super) session: u64,
    pub(super) format: Format,
    pub(super) is_live: bool,
    pub(super) is_video: bool,
    /// Bits a second of what is played.
    pub(super) bandwidth: u64,
    /// What there is to play.
    pub(super) buffer: Duration,
    /// Whether nothing has been played yet.
    pub(super) is_start_up: bool,
    /// Whether playback stood still since the last request.
    pub(super) is_starved: bool,
    /// The reference of what is asked for next.
    pub(super) next: Option<&'a str>,
}

/// The fields of a request: their names and values.
pub(super) type Fields = Vec<(&'static str, String)>;

impl Words<'_> {
    pub(super) fn fields(&self) -> Fields {
        let (format, stream) = match (self.format, self.is_live) {
            (Format::Hls, true) => ('h', 'l'),
            (Format::Hls, false) => ('h', 'v'),
            (Format::Dash, true) => ('d', 'l'),
            (Format::Dash, false) => ('d', 'v'),
        };
        let object = if self.is_video { 'v' } else { 'a' };
        // Lengths of buffers are rounded to 100 ms.
        let mut request = format!("bl={}", (self.buffer.as_millis() + 50) / 100 * 100);
        // Ours are names of files beside each other, which need no encoding.
        let is_plain =
            |name: &&str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
        if let Some(next) = self.next.filter(is_plain) {
            request.push_str(&format!(",nor=\"{next}\""));
        }
        if self.is_start_up {
            request.push_str(",su");
        }
        let mut fields = vec![
            ("CMCD-Object", format!("br={},ot={object}", self.bandwidth / 1000)),
            ("CMCD-Request", request),
            ("CMCD-Session", format!("sf={format},sid=\"{:016x}\",st={stream}", self.session)),
        ];
        if self.is_starved {
            fields.push(("CMCD-Status", "bs".to_owned()));
        }
        fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_media::cmcd::{Cmcd, Stream, read};

    #[test]
    fn what_is_said_reads_as_meant() {
        let words = Words {
            session: 7,
            format: Format::Dash,
            is_live: true,
            is_video: true,
            bandwidth: 2_500_000,
            buffer: Duration::from_millis(1234),
            is_start_up: false,
            is_starved: true,
            next: Some("12.m4s"),
        };
        let fields = words.fields();
        let text: Vec<_> = fields.iter().map(|(_, value)| value.as_str()).collect();
        let (text, mut said) = (text.join(","), Cmcd::default());
        read(&text, &mut said);
        assert_eq!((said.buffer_ms, said.bitrate_kbps), (Some(1200), Some(2500)));
        assert_eq!((said.next, said.session), (Some("12.m4s"), Some("0000000000000007")));
        assert_eq!((said.stream, said.format), (Some(Stream::Live), Some(b'd')));
        assert!(said.is_starved && !said.is_start_up);
        let begins = Words { is_start_up: true, is_starved: false, next: Some("a/b\"c"), ..words };
        let fields = begins.fields();
        assert_eq!((fields[1].1.as_str(), fields.len()), ("bl=1200,su", 3));
    }
}

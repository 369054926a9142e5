//! The client's streams one way: control and QPACK's, each of which may be there once (RFC 9114 §6.2).

use super::Code;
use super::frame::{Head, Settings, kind, read_settings};
use super::limits::CONTROL_FRAME_BYTES_MAX;
use freshet_http::priority::Priority;
use freshet_quic::varint::Reader;

/// What a stream is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Purpose {
    Control,
    Encoder,
    Decoder,
    /// Something we do not know; nothing of it is read.
    Unknown,
}

impl Purpose {
    /// Reads the type a stream begins with and says how many bytes it took; `None` when not all of it
    /// is there.
    ///
    /// # Errors
    /// The code: a stream that no client opens.
    pub(super) fn read(input: &[u8]) -> Result<Option<(Self, usize)>, Code> {
        let mut reader = Reader::new(input);
        let Some(number) = reader.varint() else { return Ok(None) };
        let purpose = match number {
            0 => Self::Control,
            1 => return Err(Code::StreamCreationError),
            2 => Self::Encoder,
            3 => Self::Decoder,
            _ => Self::Unknown,
        };
        Ok(Some((purpose, input.len() - reader.rest().len())))
    }
}

/// What a frame on the control stream says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Said {
    Settings(Settings),
    /// No pushes from this one on are taken, and no requests follow.
    Goaway(u64),
    /// The priority of a request.
    Priority(u64, Priority),
    /// How many pushes may come, of which there are none.
    MaxPush(u64),
    Nothing,
}

/// Reads a frame of the control stream and says how many bytes it took; `None` when not all of it is
/// there. `has_settings` tells whether it is not the first.
///
/// # Errors
/// The code that the connection ends with.
pub(super) fn control_frame(
    input: &[u8],
    has_settings: bool,
) -> Result<Option<(Said, usize)>, Code> {
    let Some(head) = Head::read(input) else { return Ok(None) };
    match head.kind {
        kind::SETTINGS if has_settings => return Err(Code::FrameUnexpected),
        kind::SETTINGS => {}
        _ if !has_settings => return Err(Code::MissingSettings),
        kind::DATA | kind::HEADERS | kind::PUSH_PROMISE => return Err(Code::FrameUnexpected),
        _ if head.is_of_http2() => return Err(Code::FrameUnexpected),
        _ => {}
    }
    if head.len > CONTROL_FRAME_BYTES_MAX as u64 {
        return Err(Code::ExcessiveLoad);
    }
    let end = head.bytes + head.len as usize;
    let Some(payload) = input.get(head.bytes..end) else { return Ok(None) };
    let number = || {
        let mut reader = Reader::new(payload);
        reader.varint().filter(|_| reader.is_empty()).ok_or(Code::FrameError)
    };
    let said = match head.kind {
        kind::SETTINGS => read_settings(payload).map(Said::Settings)?,
        kind::GOAWAY => Said::Goaway(number()?),
        kind::MAX_PUSH_ID => Said::MaxPush(number()?),
        // None was promised.
        kind::CANCEL_PUSH => number().and(Err(Code::IdError))?,
        kind::PRIORITY_UPDATE => {
            let mut reader = Reader::new(payload);
            let stream = reader.varint().ok_or(Code::FrameError)?;
            // Only the client's requests have one (RFC 9218 §7.2).
            if stream & 3 != 0 {
                return Err(Code::IdError);
            }
            Said::Priority(stream, Priority::parse(reader.rest()))
        }
        kind::PRIORITY_UPDATE_PUSH => return Err(Code::IdError),
        _ => Said::Nothing,
    };
    Ok(Some((said, end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_first_and_once() {
        assert_eq!(
            control_frame(&[4, 0], false),
            Ok(Some((Said::Settings(Settings::default()), 2)))
        );
        assert_eq!(control_frame(&[4, 0], true), Err(Code::FrameUnexpected));
        assert_eq!(control_frame(&[7, 1, 0], false), Err(Code::MissingSettings));
        assert_eq!(control_frame(&[4, 2, 2, 0], false), Err(Code::SettingsError));
        assert_eq!(control_frame(&[7, 1, 0], true), Ok(Some((Said::Goaway(0), 3))));
        assert_eq!(control_frame(&[7, 1], true), Ok(None));
        assert_eq!(control_frame(&[7, 2, 0, 0], true), Err(Code::FrameError));
        for unexpected in [0, 1, 2, 5, 6, 8, 9] {
            assert_eq!(control_frame(&[unexpected, 0], true), Err(Code::FrameUnexpected));
        }
        assert_eq!(control_frame(&[0x21, 0x50, 1], true), Err(Code::ExcessiveLoad));
        let update = [0x80, 0x0f, 0x07, 0, 4, 8, b'u', b'=', b'1'];
        let priority = Priority { urgency: 1, incremental: false };
        assert_eq!(control_frame(&update, true), Ok(Some((Said::Priority(8, priority), 9))));
    }
}

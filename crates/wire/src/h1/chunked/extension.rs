//! Chunk extensions (RFC 9112 §7.1.1): read for their syntax, then ignored.
//!
//! Skipping to the end of the line would be shorter. It is also how proxies and servers came to
//! disagree on where a chunk starts, so a line that is not made of extensions is refused.

use super::ChunkError;
use crate::h1::scan;

/// Where in `*( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] )` the reader is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Extension {
    /// Behind the size or a complete extension and whitespace: a semicolon must come.
    Before,
    /// Behind a semicolon.
    NameStart,
    Name,
    AfterName,
    /// Behind an equals sign.
    ValueStart,
    Token,
    Quoted,
    Escaped,
    AfterQuoted,
}

impl Extension {
    /// Whether the line may end here.
    pub(super) fn may_end(self) -> bool {
        matches!(self, Self::Name | Self::Token | Self::AfterQuoted)
    }

    pub(super) fn step(self, byte: u8) -> Result<Self, ChunkError> {
        let is_blank = matches!(byte, b' ' | b'\t');
        let is_text = byte == b'\t' || (byte >= 0x20 && byte != 0x7f);
        let next = match (self, byte) {
            (Self::Quoted, b'"') => Self::AfterQuoted,
            (Self::Quoted, b'\\') => Self::Escaped,
            (Self::Quoted | Self::Escaped, _) if is_text => Self::Quoted,
            (Self::Quoted | Self::Escaped, _) => return Err(ChunkError::ExtensionInvalid),
            (Self::NameStart, _) if scan::is_token(byte) => Self::Name,
            (Self::Name, _) if scan::is_token(byte) => Self::Name,
            (Self::ValueStart | Self::Token, _) if scan::is_token(byte) => Self::Token,
            (Self::ValueStart, b'"') => Self::Quoted,
            (Self::Name | Self::AfterName, b'=') => Self::ValueStart,
            (Self::NameStart | Self::ValueStart, b';') => return Err(ChunkError::ExtensionInvalid),
            (_, b';') => Self::NameStart,
            (Self::Name | Self::AfterName, _) if is_blank => Self::AfterName,
            (Self::NameStart | Self::ValueStart, _) if is_blank => self,
            (_, _) if is_blank => Self::Before,
            _ => return Err(ChunkError::ExtensionInvalid),
        };
        Ok(next)
    }
}

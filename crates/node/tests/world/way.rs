//! Where an origin's response goes: into a connection of HTTP/1.1, or into a stream of HTTP/2.

use crate::http2;
use crate::message::Reader;
use std::fmt::Write as _;
use std::io;

/// The way of one response.
#[derive(Debug)]
pub(crate) enum Way<'a> {
    Http1 { reader: &'a mut Reader, is_chunked: bool },
    Http2(http2::Reply),
}

impl<'a> Way<'a> {
    pub(crate) const fn http1(reader: &'a mut Reader) -> Self {
        Self::Http1 { reader, is_chunked: false }
    }

    /// Sends the head. What has a body and no `Content-Length` ends when it says so.
    pub(crate) async fn head(
        &mut self,
        status: u16,
        fields: &[(&'static str, String)],
        has_body: bool,
    ) -> io::Result<()> {
        match self {
            Self::Http1 { reader, is_chunked } => {
                *is_chunked = has_body && fields.iter().all(|(name, _)| *name != "Content-Length");
                let mut head = format!("HTTP/1.1 {status} Said\r\n");
                for (name, value) in fields {
                    let _ = write!(head, "{name}: {value}\r\n");
                }
                let coding = if *is_chunked { "Transfer-Encoding: chunked\r\n" } else { "" };
                reader.stream.write(format!("{head}{coding}\r\n").as_bytes()).await
            }
            Self::Http2(reply) => reply.head(status, fields, has_body),
        }
    }

    /// Sends a piece of the body that is not empty.
    pub(crate) async fn data(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Http1 { reader, is_chunked: true } => {
                reader.stream.write(format!("{:x}\r\n", bytes.len()).as_bytes()).await?;
                reader.stream.write(bytes).await?;
                reader.stream.write(b"\r\n").await
            }
            Self::Http1 { reader, .. } => reader.stream.write(bytes).await,
            Self::Http2(reply) => reply.data(bytes).await,
        }
    }

    /// Says that this was all of the body.
    pub(crate) async fn end(&mut self) -> io::Result<()> {
        match self {
            Self::Http1 { reader, is_chunked: true } => reader.stream.write(b"0\r\n\r\n").await,
            Self::Http1 { .. } => Ok(()),
            Self::Http2(reply) => reply.end(),
        }
    }

    /// Ends in the middle. A connection of HTTP/1.1 is of no use then, and is closed by whoever has it.
    pub(crate) async fn break_off(&mut self) {
        if let Self::Http2(reply) = self {
            reply.reset().await;
        }
    }
}

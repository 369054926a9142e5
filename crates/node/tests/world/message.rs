//! HTTP/1.1 as the world's origins and clients read it: a peer of the node's own parser, strict, and
//! written from the specification alone.

use freshet_net::stream::Stream;
use std::fmt::Write as _;
use std::io;

/// Longest head anybody reads.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// The head of a message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    /// Request or status line.
    pub(crate) first: String,
    pub(crate) fields: Vec<(String, String)>,
}

impl Head {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.field(name)?.parse().ok()
    }

    pub(crate) fn status(&self) -> u16 {
        self.first.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
    }
}

/// A request, whatever it is spoken in.
#[derive(Debug)]
pub(crate) struct Words {
    pub(crate) method: &'static str,
    pub(crate) host: &'static str,
    pub(crate) target: String,
    pub(crate) fields: Vec<(&'static str, String)>,
    pub(crate) body: &'static str,
}

impl Words {
    /// In HTTP/1.1.
    pub(crate) fn text(&self) -> String {
        let Self { method, host, target, fields, body } = self;
        let mut text = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n");
        for (name, value) in fields {
            let _ = write!(text, "{name}: {value}\r\n");
        }
        if !body.is_empty() {
            let _ = write!(text, "Content-Length: {}\r\n", body.len());
        }
        text + "\r\n" + body
    }
}

/// A connection with what was read of it and not used yet.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) stream: Stream,
    ahead: Vec<u8>,
}

/// How the body of a response ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ended {
    Whole,
    Broken,
}

impl Reader {
    pub(crate) const fn new(stream: Stream) -> Self {
        Self { stream, ahead: Vec::new() }
    }

    /// The next head; none where the connection ends before its first byte.
    ///
    /// # Errors
    /// Those of the stream, an end within a head, and what is no head.
    pub(crate) async fn head(&mut self) -> io::Result<Option<Head>> {
        loop {
            if let Some(end) = self.ahead.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = self.ahead.drain(..end + 4).collect::<Vec<_>>();
                return parse(&head[..end]).map(Some);
            }
            if self.ahead.len() > HEAD_BYTES_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
            if self.fill().await? == 0 {
                return match self.ahead.is_empty() {
                    true => Ok(None),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
        }
    }

    /// Reads a response's body behind its head, at most `bytes_max` of it; the connection is of no use
    /// afterwards unless it ended whole.
    pub(crate) async fn body(
        &mut self,
        head: &Head,
        is_head: bool,
        bytes_max: u64,
    ) -> (Vec<u8>, Ended) {
        let mut body = Vec::new();
        let ended = self.body_into(head, is_head, bytes_max, &mut body).await;
        (body, if ended.is_ok() { Ended::Whole } else { Ended::Broken })
    }

    async fn body_into(
        &mut self,
        head: &Head,
        is_head: bool,
        bytes_max: u64,
        body: &mut Vec<u8>,
    ) -> io::Result<()> {
        let status = head.status();
        if is_head || status == 204 || status == 304 {
            return Ok(());
        }
        if head.field("transfer-encoding").is_some_and(|coding| coding == "chunked") {
            if head.field("content-length").is_some() {
                return Err(io::ErrorKind::InvalidData.into());
            }
            loop {
                let line = self.line().await?;
                let size = line.split(';').next().unwrap_or("");
                let size = usize::from_str_radix(size, 16)
                    .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
                if size == 0 {
                    while !self.line().await?.is_empty() {}
                    return Ok(());
                }
                self.exactly(size as u64, bytes_max, body).await?;
                if !self.line().await?.is_empty() {
                    return Err(io::ErrorKind::InvalidData.into());
                }
            }
        }
        let length = head.number("content-length").ok_or(io::ErrorKind::InvalidData)?;
        self.exactly(length, bytes_max, body).await
    }

    async fn exactly(&mut self, mut count: u64, most: u64, body: &mut Vec<u8>) -> io::Result<()> {
        while count > 0 {
            if self.ahead.is_empty() && self.fill().await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let taken = self.ahead.len().min(usize::try_from(count).unwrap_or(usize::MAX));
            body.extend(self.ahead.drain(..taken));
            count -= taken as u64;
            if body.len() as u64 > most {
                return Err(io::ErrorKind::Interrupted.into());
            }
        }
        Ok(())
    }

    async fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = self.ahead.windows(2).position(|two| two == b"\r\n") {
                let line = self.ahead.drain(..end + 2).take(end).collect();
                return String::from_utf8(line).map_err(|_| io::ErrorKind::InvalidData.into());
            }
            if self.ahead.len() > HEAD_BYTES_MAX || self.fill().await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    async fn fill(&mut self) -> io::Result<usize> {
        let mut buffer = [0; 16 << 10];
        let count = self.stream.read(&mut buffer).await?;
        self.ahead.extend_from_slice(&buffer[..count]);
        Ok(count)
    }
}

fn parse(bytes: &[u8]) -> io::Result<Head> {
    let wrong = || io::Error::from(io::ErrorKind::InvalidData);
    let text = std::str::from_utf8(bytes).map_err(|_| wrong())?;
    let mut lines = text.split("\r\n");
    let first = lines.next().ok_or_else(wrong)?.to_owned();
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_owned(), value.trim().to_owned()))
    };
    let fields = lines.map(|line| field(line).ok_or_else(wrong)).collect::<Result<_, _>>()?;
    Ok(Head { first, fields })
}

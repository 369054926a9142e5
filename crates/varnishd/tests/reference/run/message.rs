//! Messages on a connection, as far as to find their ends.

use std::io::{self, Read};

/// A message, as it came.
pub(super) struct Message {
    /// Up to its empty line.
    pub(super) head: String,
    /// Without chunks.
    pub(super) body: Vec<u8>,
    /// How it ended: `whole`, or why not.
    pub(super) end: &'static str,
}

impl Message {
    /// The value of a field, in small letters.
    pub(super) fn field(&self, name: &str) -> Option<String> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim().to_ascii_lowercase())
        })
    }

    /// The same without a field.
    pub(super) fn without(mut self, name: &str) -> Self {
        let is_it = |line: &str| line.to_ascii_lowercase().starts_with(&format!("{name}:"));
        self.head =
            self.head.split("\r\n").filter(|line| !is_it(line)).collect::<Vec<_>>().join("\r\n");
        self
    }

    fn status(&self) -> Option<u16> {
        let rest = self.head.strip_prefix("HTTP/1.")?;
        rest.split(' ').nth(1)?.parse().ok()
    }
}

/// Reads a message; `method` is that of the request it answers, `None` where it is a request.
/// `bytes` is what was read too much.
pub(super) fn read(
    from: &mut impl Read,
    bytes: &mut Vec<u8>,
    method: Option<&str>,
) -> io::Result<Message> {
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        more(from, bytes)?;
    };
    let head = bytes.drain(..end).map(char::from).collect();
    let mut message = Message { head, body: Vec::new(), end: "whole" };
    let has_none = method == Some("HEAD")
        || message.status().is_some_and(|status| status < 200 || matches!(status, 204 | 304));
    if has_none {
        return Ok(message);
    }
    let coding = message.field("transfer-encoding");
    let length = message.field("content-length").and_then(|length| length.parse().ok());
    let ended = match (coding.as_deref(), length) {
        (Some("chunked"), _) => chunks(from, bytes, &mut message.body),
        (_, Some(length)) => exactly(from, bytes, length, &mut message.body),
        _ if method.is_none() => Ok(()),
        _ => {
            while more(from, bytes).is_ok() {}
            message.body.append(bytes);
            Ok(())
        }
    };
    if let Err(error) = ended {
        message.end = match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => "broken off",
            io::ErrorKind::InvalidData => "not chunks",
            _ => "never ends",
        };
    }
    Ok(message)
}

fn more(from: &mut impl Read, bytes: &mut Vec<u8>) -> io::Result<()> {
    let mut piece = [0; 8192];
    match from.read(&mut piece)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        read => {
            bytes.extend_from_slice(&piece[..read]);
            Ok(())
        }
    }
}

fn exactly(
    from: &mut impl Read,
    bytes: &mut Vec<u8>,
    length: usize,
    body: &mut Vec<u8>,
) -> io::Result<()> {
    while bytes.len() < length {
        if let Err(error) = more(from, bytes) {
            body.append(bytes);
            return Err(error);
        }
    }
    body.extend(bytes.drain(..length));
    Ok(())
}

fn chunks(from: &mut impl Read, bytes: &mut Vec<u8>, body: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let end = loop {
            if let Some(at) = bytes.windows(2).position(|two| two == b"\r\n") {
                break at;
            }
            more(from, bytes)?;
        };
        let line: String = bytes.drain(..end + 2).map(char::from).collect();
        let size = usize::from_str_radix(line.trim(), 16)
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        exactly(from, bytes, size, body)?;
        exactly(from, bytes, 2, &mut Vec::new())?;
        if size == 0 {
            return Ok(());
        }
    }
}

//! A response as it arrives: its status, its body and how long that is.

use crate::head::Signs;
use freshet_wire::h3::frame::{Head, kind};
use freshet_wire::h3::qpack;

/// Bytes of a head that are taken.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// A part of a response.
pub(crate) enum Part<'a> {
    /// What its head says, and of how many bytes that was.
    Head { status: u16, signs: Signs, bytes: usize },
    /// Some of its body.
    Body(&'a [u8]),
}

/// What came of one response.
#[derive(Debug, Default)]
pub(super) struct Response {
    /// The beginning of what is not whole yet.
    pending: Vec<u8>,
    /// Bytes that are left of a frame, and whether they are of the body.
    left: u64,
    is_body: bool,
    status: Option<u16>,
    length: Option<u64>,
    pub(super) body_bytes: u64,
}

impl Response {
    /// Bytes of its stream came.
    pub(super) fn receive(
        &mut self,
        mut bytes: &[u8],
        each: &mut impl FnMut(Part<'_>),
    ) -> Result<(), &'static str> {
        while !bytes.is_empty() {
            if self.left > 0 {
                let count = self.left.min(bytes.len() as u64);
                let (now, rest) = bytes.split_at(count as usize);
                self.left -= count;
                if self.is_body {
                    self.body_bytes += count;
                    each(Part::Body(now));
                }
                bytes = rest;
                continue;
            }
            self.pending.extend_from_slice(bytes);
            let pending = std::mem::take(&mut self.pending);
            let used = self.frame(&pending, each)?;
            let Some(used) = used else {
                self.pending = pending;
                return match self.pending.len() {
                    0..=HEAD_BYTES_MAX => Ok(()),
                    _ => Err("a head is too long"),
                };
            };
            // What is behind it came with these bytes, as what was there before was no frame.
            let behind = pending.len() - used;
            bytes = bytes.get(bytes.len() - behind.min(bytes.len())..).unwrap_or(&[]);
        }
        Ok(())
    }

    /// Takes the beginning of a frame; `None` where there is not enough of it.
    fn frame(
        &mut self,
        input: &[u8],
        each: &mut impl FnMut(Part<'_>),
    ) -> Result<Option<usize>, &'static str> {
        let Some(head) = Head::read(input) else { return Ok(None) };
        if head.kind == kind::DATA && self.status.is_none() {
            return Err("data before a head");
        }
        if head.kind != kind::HEADERS {
            (self.left, self.is_body) = (head.len, head.kind == kind::DATA);
            return Ok(Some(head.bytes));
        }
        let len = usize::try_from(head.len).map_err(|_| "a head is too long")?;
        let Some(block) = input.get(head.bytes..head.bytes + len) else { return Ok(None) };
        let (mut status, mut length, mut signs) = (None, None, Signs::default());
        qpack::decode(block, |name, value| {
            let number = || std::str::from_utf8(value).ok()?.parse::<u64>().ok();
            match name {
                b":status" => status = number(),
                b"content-length" => length = number(),
                _ => signs.note(name, value),
            }
        })
        .map_err(|_| "a head cannot be read")?;
        if let Some(status) = status.and_then(|status| u16::try_from(status).ok())
            && status >= 200
        {
            (self.status, self.length) = (Some(status), length);
            each(Part::Head { status, signs, bytes: len });
        }
        Ok(Some(head.bytes + len))
    }

    /// Its status, where it ended as it should.
    pub(super) fn end(&self) -> Result<u16, &'static str> {
        match (self.status, self.length) {
            (None, _) => Err("there was no head"),
            (Some(_), _) if self.left > 0 || !self.pending.is_empty() => Err("a frame was cut off"),
            // What did not change says how long it is, and has no body.
            (Some(status), Some(length)) if length != self.body_bytes && status != 304 => {
                Err("a body of another length than its head says")
            }
            (Some(status), _) => Ok(status),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_wire::h3::frame::write_head;

    fn message() -> Vec<u8> {
        let mut out = Vec::new();
        for fields in [&[(":status", "103")][..], &[(":status", "200"), ("content-length", "700")]]
        {
            let mut block = Vec::new();
            qpack::begin(&mut block);
            for (name, value) in fields {
                qpack::encode(name.as_bytes(), value.as_bytes(), false, &mut block);
            }
            write_head(kind::HEADERS, block.len(), &mut out);
            out.extend_from_slice(&block);
        }
        for bytes in [300, 0, 400] {
            write_head(kind::DATA, bytes, &mut out);
            out.resize(out.len() + bytes, 7);
            // A frame that means nothing.
            out.extend([0x21, 2, 1, 1]);
        }
        out
    }

    #[test]
    fn it_is_read_however_it_is_cut() {
        let message = message();
        for size in [1, 2, 3, 7, 64, message.len()] {
            let mut response = Response::default();
            let (mut heads, mut body) = (Vec::new(), Vec::new());
            let mut each = |part: Part<'_>| match part {
                Part::Head { status, .. } => heads.push(status),
                Part::Body(bytes) => body.extend_from_slice(bytes),
            };
            message.chunks(size).for_each(|part| response.receive(part, &mut each).unwrap());
            assert_eq!((heads, body), (vec![200], vec![7; 700]));
            assert_eq!((response.end(), response.body_bytes), (Ok(200), 700));
        }
        for len in 0..message.len() - 4 {
            let mut response = Response::default();
            response.receive(&message[..len], &mut |_| {}).unwrap();
            assert!(response.end().is_err(), "{len}");
        }
        let mut response = Response::default();
        assert!(response.receive(&[0, 1, 7], &mut |_| {}).is_err(), "a body without a head");
    }
}

//! A response as it arrives: its status and how long its body is.

use freshet_wire::h3::frame::{Head, kind};
use freshet_wire::h3::qpack;

/// Bytes of a head that are taken.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// What came of one response.
#[derive(Debug, Default)]
pub(super) struct Response {
    /// The beginning of what is not whole yet.
    pending: Vec<u8>,
    /// Bytes that are left of a frame, and whether they are of the body.
    left: u64,
    is_body: bool,
    pub(super) status: Option<u16>,
    length: Option<u64>,
    pub(super) body_bytes: u64,
}

impl Response {
    /// Bytes of its stream came.
    pub(super) fn receive(&mut self, mut bytes: &[u8]) -> Result<(), &'static str> {
        while !bytes.is_empty() {
            if self.left > 0 {
                let count = self.left.min(bytes.len() as u64);
                self.left -= count;
                self.body_bytes += if self.is_body { count } else { 0 };
                bytes = bytes.get(count as usize..).unwrap_or(&[]);
                continue;
            }
            self.pending.extend_from_slice(bytes);
            let pending = std::mem::take(&mut self.pending);
            let used = self.frame(&pending)?;
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
    fn frame(&mut self, input: &[u8]) -> Result<Option<usize>, &'static str> {
        let Some(head) = Head::read(input) else { return Ok(None) };
        if head.kind != kind::HEADERS {
            (self.left, self.is_body) = (head.len, head.kind == kind::DATA);
            return Ok(Some(head.bytes));
        }
        let len = usize::try_from(head.len).map_err(|_| "a head is too long")?;
        let Some(block) = input.get(head.bytes..head.bytes + len) else { return Ok(None) };
        let (mut status, mut length) = (None, None);
        qpack::decode(block, |name, value| {
            let number = || std::str::from_utf8(value).ok()?.parse::<u64>().ok();
            match name {
                b":status" => status = number(),
                b"content-length" => length = number(),
                _ => {}
            }
        })
        .map_err(|_| "a head cannot be read")?;
        if let Some(status) = status.and_then(|status| u16::try_from(status).ok())
            && status >= 200
        {
            (self.status, self.length) = (Some(status), length);
        }
        Ok(Some(head.bytes + len))
    }

    /// Whether it ended as it should.
    pub(super) fn check(&self) -> Result<(), String> {
        match (self.status, self.length) {
            (Some(200), Some(length)) if length != self.body_bytes => {
                Err(format!("{} of {length} bytes came", self.body_bytes))
            }
            (Some(200), _) if self.left == 0 && self.pending.is_empty() => Ok(()),
            (Some(200), _) => Err("a frame was cut off".to_owned()),
            (Some(status), _) => Err(format!("status {status}")),
            (None, _) => Err("there was no head".to_owned()),
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
            message.chunks(size).for_each(|part| response.receive(part).unwrap());
            assert_eq!((response.status, response.body_bytes), (Some(200), 700));
            assert_eq!(response.check(), Ok(()));
        }
        for len in 0..message.len() - 4 {
            let mut response = Response::default();
            response.receive(&message[..len]).unwrap();
            assert!(response.check().is_err(), "{len}");
        }
    }
}

//! Fields of HEADERS frames into heads of responses (RFC 9113 §8.3.2), and into trailers.

use crate::h1::Limits;
use crate::head::{
    FIELD_OVERHEAD_BYTES, is_field, is_forbidden_in_trailers, is_of_connection, length,
};
use freshet_http::fields::Fields;
use freshet_http::message::{ResponseHead, Version};
use thiserror::Error;

/// A response, final or interim, without its body.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Answer {
    /// Its head.
    pub head: ResponseHead,
    /// Bytes of the body, where the origin told; of the body there would have been in answers to
    /// HEAD and in 304.
    pub length: Option<u64>,
    /// Whether neither a body nor trailers follow.
    pub ends: bool,
}

/// Why a response is not taken. Its stream is reset.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum AnswerError {
    /// The fields are no response (RFC 9113 §8.1.1).
    #[error("{0}")]
    OriginMalformed(&'static str),
    /// More fields, or larger ones, than are taken.
    #[error("its fields are more than {0}")]
    OriginTooLarge(&'static str),
}

/// A head of which the fields come one by one. Fields over the limits are not kept.
pub(crate) struct AnswerBuilder<'a> {
    limits: &'a Limits,
    is_trailers: bool,
    status: Option<u16>,
    fields: Fields,
    length: Option<u64>,
    list_bytes: usize,
    count: usize,
    wrong: Option<AnswerError>,
}

impl<'a> AnswerBuilder<'a> {
    /// For a response's head, or for its trailers.
    pub(crate) fn new(limits: &'a Limits, is_trailers: bool) -> Self {
        let fields = Fields::new();
        let (status, length, wrong) = (None, None, None);
        Self { limits, is_trailers, status, fields, length, list_bytes: 0, count: 0, wrong }
    }

    /// Takes the next field.
    pub(crate) fn field(&mut self, name: &[u8], value: &[u8]) {
        if self.wrong.is_some() {
            return;
        }
        // Counted before any of it is kept.
        self.list_bytes += name.len() + value.len() + FIELD_OVERHEAD_BYTES;
        let taken = match name.strip_prefix(b":") {
            _ if self.list_bytes > self.limits.head_bytes_max => {
                Err(AnswerError::OriginTooLarge("the bytes that are taken"))
            }
            Some(pseudo) => self.pseudo(pseudo, value),
            None => self.regular(name, value),
        };
        self.wrong = taken.err();
    }

    fn pseudo(&mut self, name: &[u8], value: &[u8]) -> Result<(), AnswerError> {
        let malformed = |what| Err(AnswerError::OriginMalformed(what));
        if self.is_trailers {
            return malformed("a pseudo-header field is among its trailers");
        }
        if name != b"status" {
            return malformed("it has a pseudo-header field that is no response's");
        }
        if self.status.is_some() || self.count > 0 {
            return malformed("its status is not the first field, or there twice");
        }
        match value {
            [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9'] => {
                self.status = Some(value.iter().fold(0, |sum, d| sum * 10 + u16::from(d - b'0')));
                Ok(())
            }
            _ => malformed("its status is not three digits from 100 to 999"),
        }
    }

    fn regular(&mut self, name: &[u8], value: &[u8]) -> Result<(), AnswerError> {
        let malformed = |what| Err(AnswerError::OriginMalformed(what));
        self.count += 1;
        if self.count > self.limits.fields_max {
            return Err(AnswerError::OriginTooLarge("the fields that are taken"));
        }
        if !is_field(name, value) {
            return malformed("a field has signs that it may not have");
        }
        if is_of_connection(name) {
            return malformed("a field is about a connection of HTTP/1");
        }
        if self.is_trailers && is_forbidden_in_trailers(name) {
            return Ok(());
        }
        if name == b"content-length" {
            let Some(length) = length(value) else {
                return malformed("its Content-Length is not a number");
            };
            match self.length.replace(length) {
                Some(other) if other != length => {
                    return malformed("it has different values of Content-Length");
                }
                Some(_) => return Ok(()),
                None => {}
            }
        }
        self.fields.append(name, value);
        Ok(())
    }

    /// The trailers.
    pub(crate) fn finish_trailers(self) -> Result<Fields, AnswerError> {
        self.wrong.map_or(Ok(self.fields), Err)
    }

    /// The response. `ends` says that nothing follows it.
    pub(crate) fn finish(self, ends: bool) -> Result<Answer, AnswerError> {
        let malformed = |what| Err(AnswerError::OriginMalformed(what));
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        let Some(status) = self.status else { return malformed("it has no status") };
        if status == 101 {
            return malformed("it switches protocols, which HTTP/2 does not (RFC 9113 §8.6)");
        }
        if status < 200 && ends {
            return malformed("an interim response ends its stream");
        }
        let head =
            ResponseHead { status, reason: None, version: Version::Http2, fields: self.fields };
        Ok(Answer { head, length: self.length, ends })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fields: &[(&str, &str)], ends: bool) -> Result<Answer, AnswerError> {
        let limits = Limits { head_bytes_max: 400, fields_max: 4, ..Limits::default() };
        let mut builder = AnswerBuilder::new(&limits, false);
        for (name, value) in fields {
            builder.field(name.as_bytes(), value.as_bytes());
        }
        builder.finish(ends)
    }

    #[test]
    fn a_response_is_its_status_and_fields() {
        let fields = [(":status", "206"), ("content-length", "7"), ("set-cookie", "a=1")];
        let answer = read(&fields, false).unwrap();
        assert_eq!((answer.head.status, answer.length, answer.ends), (206, Some(7), false));
        assert_eq!(answer.head.fields.get("Set-Cookie"), Some(&b"a=1"[..]));
        let twice = [(":status", "200"), ("content-length", "7"), ("content-length", "7")];
        assert_eq!(read(&twice, false).unwrap().head.fields.get_all("content-length").count(), 1);
    }

    #[test]
    fn trailers_have_nothing_that_frames_a_message() {
        let limits = Limits::default();
        let mut builder = AnswerBuilder::new(&limits, true);
        for (name, value) in [("content-length", "3"), ("host", "a"), ("grpc-status", "0")] {
            builder.field(name.as_bytes(), value.as_bytes());
        }
        let fields = builder.finish_trailers().unwrap();
        assert_eq!(fields, [("grpc-status", "0")].into_iter().collect());
    }

    #[test]
    fn what_is_no_response_is_malformed() {
        let ok = (":status", "200");
        for fields in [
            &[][..],
            &[("a", "b")],
            &[ok, ok],
            &[("a", "b"), ok],
            &[(":status", "20")],
            &[(":status", "099")],
            &[(":status", "+20")],
            &[(":status", "101")],
            &[ok, (":path", "/")],
            &[ok, ("Upper", "case")],
            &[ok, ("", "nameless")],
            &[ok, ("a", "line\r\nend")],
            &[ok, ("a", " space")],
            &[ok, ("connection", "close")],
            &[ok, ("transfer-encoding", "chunked")],
            &[ok, ("content-length", "-1")],
            &[ok, ("content-length", "1"), ("content-length", "2")],
        ] {
            let read = read(fields, false);
            assert!(matches!(read, Err(AnswerError::OriginMalformed(_))), "{fields:?}: {read:?}");
        }
        let early = [(":status", "103")];
        assert!(read(&early, true).is_err() && read(&early, false).is_ok());
    }

    #[test]
    fn what_is_over_a_limit_is_too_large() {
        let ok = (":status", "200");
        let long = "x".repeat(400);
        let many = [ok, ("a", "1"), ("b", "1"), ("c", "1"), ("d", "1"), ("e", "1")];
        for fields in [&[ok, ("a", long.as_str())][..], &many] {
            assert!(matches!(read(fields, false), Err(AnswerError::OriginTooLarge(_))));
        }
        assert!(read(&many[..5], false).is_ok());
    }
}

//! One line of the access log, as workers hand it to the writer: plain bytes, no formatting.

use freshet_base::clock::UnixMillis;
use freshet_http::reason::Reason;
use std::net::IpAddr;

/// Facts of one request, borrowed from where they are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record<'a> {
    /// When the request's head was complete.
    pub time: UnixMillis,
    /// Microseconds to the first byte of the response.
    pub first_byte_us: u64,
    /// Microseconds to the last.
    pub total_us: u64,
    /// Status sent.
    pub status: u16,
    /// Body bytes sent.
    pub body_bytes: u64,
    /// Head bytes sent.
    pub head_bytes: u64,
    /// The client, where it has an address.
    pub client: Option<IpAddr>,
    /// Index into [`Reason::ALL`] of why the response came about as it did.
    pub reason: u16,
    /// Whether the body came from the cache.
    pub hit: bool,
    /// Whether the response was broken off.
    pub aborted: bool,
    /// Whether the connection was TLS.
    pub tls: bool,
    /// Number of the request on this node.
    pub id: u64,
    /// Method.
    pub method: &'a str,
    /// Authority.
    pub authority: &'a str,
    /// Target as sent.
    pub target: &'a str,
    /// Protocol version.
    pub version: &'a str,
    /// `User-Agent`.
    pub user_agent: &'a str,
    /// `Referer`.
    pub referer: &'a str,
    /// What its player said of itself (CTA-5004), where it did and its site looks at that.
    pub cmcd: &'a str,
    /// Name of the origin asked, if any.
    pub origin: &'a str,
    /// Name of the site, where there are several.
    pub site: &'a str,
    /// First name in the client's certificate, where it showed one that proves something.
    pub client_name: &'a str,
    /// Whom that is for (RFC 4514).
    pub client_subject: &'a str,
    /// Who signed it.
    pub client_issuer: &'a str,
    /// Its serial number, in hexadecimal digits.
    pub client_serial: &'a str,
    /// Its SHA-256, in hexadecimal digits.
    pub client_fingerprint: &'a str,
    /// Whose password or token let the request in, where it says whose it is.
    pub user: &'a str,
    /// The token's own name or number.
    pub token_id: &'a str,
    /// The trace it is a part of, where one is sent to a collector.
    pub trace_id: &'a str,
    /// Fields of the request that its site has logged, a line each: `Name: value`.
    pub request_fields: &'a str,
    /// Those of the response, likewise.
    pub response_fields: &'a str,
}

impl Record<'_> {
    /// The reason itself.
    pub fn reason(&self) -> Option<&'static Reason> {
        Reason::ALL.get(usize::from(self.reason))
    }

    /// Appends the record to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for number in [
            self.time.0,
            self.first_byte_us,
            self.total_us,
            self.body_bytes,
            self.head_bytes,
            self.id,
        ] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.status.to_le_bytes());
        out.extend_from_slice(&self.reason.to_le_bytes());
        // Few clients show one, and each text costs every record.
        let has_shown = !self.client_name.is_empty() || !self.client_fingerprint.is_empty();
        let has_said = !self.cmcd.is_empty();
        let is_known = !self.user.is_empty() || !self.token_id.is_empty();
        let is_traced = !self.trace_id.is_empty();
        let has_fields = !self.request_fields.is_empty() || !self.response_fields.is_empty();
        let flags = [
            self.hit,
            self.aborted,
            self.tls,
            has_shown,
            has_said,
            is_known,
            is_traced,
            has_fields,
        ];
        out.push(flags.iter().rev().fold(0, |all, flag| all << 1 | u8::from(*flag)));
        match self.client {
            None => out.push(0),
            Some(IpAddr::V4(address)) => {
                out.push(4);
                out.extend_from_slice(&address.octets());
            }
            Some(IpAddr::V6(address)) => {
                out.push(16);
                out.extend_from_slice(&address.octets());
            }
        }
        let of_request = [
            self.method,
            self.authority,
            self.target,
            self.version,
            self.user_agent,
            self.referer,
            self.origin,
            self.site,
        ];
        let of_shown = [
            self.client_name,
            self.client_subject,
            self.client_issuer,
            self.client_serial,
            self.client_fingerprint,
        ];
        let of_shown = of_shown.into_iter().filter(|_| has_shown);
        let of_player = Some(self.cmcd).filter(|_| has_said);
        let of_known = [self.user, self.token_id].into_iter().filter(|_| is_known);
        let of_trace = Some(self.trace_id).filter(|_| is_traced);
        let of_site = [self.request_fields, self.response_fields];
        let of_site = of_site.into_iter().filter(|_| has_fields);
        let of_some = of_shown.chain(of_player).chain(of_known).chain(of_trace).chain(of_site);
        for text in of_request.into_iter().chain(of_some) {
            let text = cut(text);
            out.extend_from_slice(&(text.len() as u16).to_le_bytes());
            out.extend_from_slice(text.as_bytes());
        }
    }
}

/// Texts are limited by the head's own limit; this bound keeps their length in 16 bits.
const TEXT_BYTES_MAX: usize = u16::MAX as usize;

fn cut(text: &str) -> &str {
    if text.len() <= TEXT_BYTES_MAX {
        return text;
    }
    let end = (0..=TEXT_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}

/// Reads the record at the start of `input` and moves `input` behind it; `None` at its end.
pub fn decode<'a>(input: &mut &'a [u8]) -> Option<Record<'a>> {
    let time = UnixMillis(number(input)?);
    let first_byte_us = number(input)?;
    let total_us = number(input)?;
    let body_bytes = number(input)?;
    let head_bytes = number(input)?;
    let id = number(input)?;
    let status = short(input)?;
    let reason = short(input)?;
    let flags = take(input, 1)?[0];
    let client = match take(input, 1)?[0] {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(take(input, 4)?).ok()?)),
        16 => Some(IpAddr::from(<[u8; 16]>::try_from(take(input, 16)?).ok()?)),
        _ => None,
    };
    let mut text = |is_there: bool| {
        if !is_there {
            return Some("");
        }
        let len = usize::from(short(input)?);
        std::str::from_utf8(take(input, len)?).ok()
    };
    let (has_shown, has_said, is_known) = (flags & 8 != 0, flags & 16 != 0, flags & 32 != 0);
    Some(Record {
        method: text(true)?,
        authority: text(true)?,
        target: text(true)?,
        version: text(true)?,
        user_agent: text(true)?,
        referer: text(true)?,
        origin: text(true)?,
        site: text(true)?,
        client_name: text(has_shown)?,
        client_subject: text(has_shown)?,
        client_issuer: text(has_shown)?,
        client_serial: text(has_shown)?,
        client_fingerprint: text(has_shown)?,
        cmcd: text(has_said)?,
        user: text(is_known)?,
        token_id: text(is_known)?,
        trace_id: text(flags & 64 != 0)?,
        request_fields: text(flags & 128 != 0)?,
        response_fields: text(flags & 128 != 0)?,
        time,
        first_byte_us,
        total_us,
        status,
        body_bytes,
        head_bytes,
        client,
        reason,
        hit: flags & 1 != 0,
        aborted: flags & 2 != 0,
        tls: flags & 4 != 0,
        id,
    })
}

fn take<'a>(input: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (head, rest) = input.split_at_checked(len)?;
    *input = rest;
    Some(head)
}

fn number(input: &mut &[u8]) -> Option<u64> {
    take(input, 8)?.try_into().ok().map(u64::from_le_bytes)
}

fn short(input: &mut &[u8]) -> Option<u16> {
    take(input, 2)?.try_into().ok().map(u16::from_le_bytes)
}

#[cfg(test)]
pub(super) fn sample() -> Record<'static> {
    Record {
        time: UnixMillis(1_795_165_628_630),
        first_byte_us: 312,
        total_us: 1_250,
        status: 200,
        body_bytes: 5_120,
        head_bytes: 301,
        client: Some(IpAddr::from([192, 0, 2, 7])),
        reason: 0,
        hit: true,
        aborted: false,
        tls: true,
        id: 42,
        method: "GET",
        authority: "tv.example",
        target: "/live/1/\"seg\".m4s",
        version: "HTTP/2",
        user_agent: "curl/8\u{1}",
        referer: "",
        cmcd: "",
        origin: "a",
        site: "",
        client_name: "",
        client_subject: "",
        client_issuer: "",
        client_serial: "",
        client_fingerprint: "",
        user: "",
        token_id: "",
        trace_id: "",
        request_fields: "",
        response_fields: "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_as_they_went_in() {
        let mut bytes = Vec::new();
        let first = sample();
        let second = Record { client: None, aborted: true, ..sample() };
        let third = Record {
            client_name: "anna.example",
            client_fingerprint: "00ff",
            user: "ann",
            token_id: "j1",
            trace_id: "4bf92f3577b34da6a3ce929d0e0e4736",
            client: Some("2001:db8::1".parse().unwrap()),
            ..sample()
        };
        let fourth =
            Record { cmcd: "bl=1,sid=\"a\"", response_fields: "ETag: \"a\"\n", ..sample() };
        for record in [&first, &second, &third, &fourth] {
            record.encode(&mut bytes);
        }
        let mut input = &bytes[..];
        assert_eq!(decode(&mut input), Some(first));
        assert_eq!(decode(&mut input), Some(second));
        assert_eq!(decode(&mut input), Some(third));
        assert_eq!(decode(&mut input), Some(fourth));
        assert_eq!(decode(&mut input), None);
    }

    #[test]
    fn a_cut_record_is_none() {
        let mut bytes = Vec::new();
        sample().encode(&mut bytes);
        for end in 0..bytes.len() {
            assert_eq!(decode(&mut &bytes[..end]), None);
        }
    }
}

//! Version 1: one line of text.

use super::{Error, Header, starts_with};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes of the line, its end included: one more than the protocol has, as Varnish counts them.
const LINE_BYTES_MAX: usize = 108;

const START: &[u8] = b"PROXY ";

pub(super) fn parse(buffer: &[u8]) -> Result<Option<(Header, usize)>, Error> {
    if !starts_with(buffer, START).ok_or(Error::ClientNoHeader)? {
        return Ok(None);
    }
    let window = &buffer[..buffer.len().min(LINE_BYTES_MAX)];
    let Some(end) = window.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
        let is_full = window.len() == LINE_BYTES_MAX;
        return if is_full { Err(Error::ClientHeaderTooLarge) } else { Ok(None) };
    };
    match &window[end..] {
        [b'\r', b'\n', ..] => {}
        [b'\r'] if window.len() < LINE_BYTES_MAX => return Ok(None),
        _ => return Err(Error::ClientLineInvalid),
    }
    let text = str::from_utf8(&window[START.len()..end]).map_err(|_| Error::ClientLineInvalid)?;
    Ok(Some((line(text)?, end + 2)))
}

fn line(text: &str) -> Result<Header, Error> {
    let mut words = text.split(' ');
    let family = words.next().unwrap_or_default();
    if family == "UNKNOWN" {
        // Whatever follows is to be ignored.
        return Ok(Header::default());
    }
    let (Some(source), Some(destination), Some(source_port), Some(destination_port)) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Error::ClientFieldsTooFew);
    };
    if words.next().is_some() {
        return Err(Error::ClientFieldsTooMany);
    }
    let ip = |text: &str| match family {
        "TCP4" => Ok(text.parse::<Ipv4Addr>().ok().map(IpAddr::V4)),
        "TCP6" => Ok(text.parse::<Ipv6Addr>().ok().map(IpAddr::V6)),
        _ => Err(Error::ClientFamilyUnknown),
    };
    let end = |address: &str, number: &str, error: Error| {
        let (ip, port) = (ip(address)?.ok_or(error)?, port(number).ok_or(error)?);
        Ok(Some(SocketAddr::new(ip, port)))
    };
    Ok(Header {
        source: end(source, source_port, Error::ClientSourceInvalid)?,
        destination: end(destination, destination_port, Error::ClientDestinationInvalid)?,
        ..Header::default()
    })
}

/// A decimal without sign and leading zeros.
fn port(text: &str) -> Option<u16> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit())
        && (text.len() == 1 || !text.starts_with('0'));
    text.parse().ok().filter(|_| plain)
}

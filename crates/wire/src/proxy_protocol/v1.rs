//! Version 1: one line of text.

use super::{Error, Header, starts_with};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes of the line, its end included; the number is the protocol's own.
const LINE_BYTES_MAX: usize = 107;

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
    let (Some(source), Some(destination), Some(source_port), Some(destination_port), None) =
        (words.next(), words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Error::ClientLineInvalid);
    };
    let address = |text: &str| -> Result<IpAddr, Error> {
        let address = match family {
            "TCP4" => text.parse::<Ipv4Addr>().map(IpAddr::V4),
            "TCP6" => text.parse::<Ipv6Addr>().map(IpAddr::V6),
            _ => return Err(Error::ClientFamilyUnknown),
        };
        address.map_err(|_| Error::ClientAddressInvalid)
    };
    Ok(Header {
        source: Some(SocketAddr::new(address(source)?, port(source_port)?)),
        destination: Some(SocketAddr::new(address(destination)?, port(destination_port)?)),
        ..Header::default()
    })
}

/// A decimal without sign and leading zeros.
fn port(text: &str) -> Result<u16, Error> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit())
        && (text.len() == 1 || !text.starts_with('0'));
    text.parse().ok().filter(|_| plain).ok_or(Error::ClientPortInvalid)
}

//! Version 2: binary, with type-length-values.

use super::crc32c::crc32c;
use super::{Conduct, Error, Family, Header, Ignored, Ssl, Tlvs, starts_with};
use std::net::{IpAddr, SocketAddr};

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// The family and protocol of what says no addresses.
const UNSPECIFIED: u8 = 0x00;

/// Two paths of Unix sockets.
const UNIX_ADDRESSES_BYTES: usize = 216;

/// Signature, version and command, family, length.
const FIXED_BYTES: usize = 16;

/// The protocol's own maximum for the unique identifier.
const UNIQUE_ID_BYTES_MAX: usize = 128;

const TLV_ALPN: u8 = 0x01;
const TLV_AUTHORITY: u8 = 0x02;
const TLV_CRC32C: u8 = 0x03;
const TLV_UNIQUE_ID: u8 = 0x05;
const TLV_SSL: u8 = 0x20;

pub(super) fn parse(conduct: Conduct, buffer: &[u8]) -> Result<Option<(Header, usize)>, Error> {
    if !starts_with(buffer, SIGNATURE).ok_or(Error::ClientNoHeader)? {
        return Ok(None);
    }
    let local = match buffer.get(12) {
        None => return Ok(None),
        Some(0x20) => true,
        Some(0x21) => false,
        Some(_) => return Err(Error::ClientVersionUnsupported),
    };
    let Some((fixed, rest)) = buffer.split_first_chunk::<FIXED_BYTES>() else { return Ok(None) };
    let len = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if len > conduct.variable_bytes_max {
        return Err(Error::ClientHeaderTooLarge);
    }
    let Some(variable) = rest.get(..len) else { return Ok(None) };
    let head = &buffer[..FIXED_BYTES + len];
    let mut header = Header { local, is_binary: true, ..Header::default() };
    let text = match addresses(fixed[13], variable) {
        Ok((Some((source, destination)), rest)) => {
            if !local {
                (header.source, header.destination) = (Some(source), Some(destination));
            }
            rest
        }
        Ok((None, rest)) => {
            header.ignored = Some(match fixed[13] {
                UNSPECIFIED => Ignored::Unspecified,
                family => Ignored::Family(family),
            });
            rest
        }
        // The length still says where the header ends, and nothing in it can be read.
        Err(why @ Ignored::Family(_)) if local || conduct.ignores_unknown => {
            header.ignored = Some(why);
            &[]
        }
        Err(why @ Ignored::Short(..)) if conduct.ignores_unknown => {
            header.ignored = Some(why);
            &[]
        }
        Err(Ignored::Short(..) | Ignored::Family(0x31 | 0x32)) => {
            return Err(Error::ClientTruncated);
        }
        Err(_) => return Err(Error::ClientFamilyUnknown),
    };
    header.tlvs = tlvs(text, head)?;
    Ok(Some((header, head.len())))
}

/// Source and destination.
type Addresses = (SocketAddr, SocketAddr);

/// The addresses, where they are of IP, and what follows them; or why they cannot be told apart from that.
fn addresses(family: u8, variable: &[u8]) -> Result<(Option<Addresses>, &[u8]), Ignored> {
    let short = |family| Ignored::Short(family, variable.len());
    match family {
        UNSPECIFIED => Ok((None, variable)),
        0x11 | 0x12 => pair::<4>(variable).ok_or_else(|| short(Family::Ipv4)),
        0x21 | 0x22 => pair::<16>(variable).ok_or_else(|| short(Family::Ipv6)),
        0x31 | 0x32 => match variable.get(UNIX_ADDRESSES_BYTES..) {
            Some(rest) => Ok((None, rest)),
            None => Err(Ignored::Family(family)),
        },
        _ => Err(Ignored::Family(family)),
    }
}

fn pair<const N: usize>(variable: &[u8]) -> Option<(Option<Addresses>, &[u8])>
where
    IpAddr: From<[u8; N]>,
{
    let (source, rest) = variable.split_first_chunk::<N>()?;
    let (destination, rest) = rest.split_first_chunk::<N>()?;
    let (ports, rest) = rest.split_first_chunk::<4>()?;
    let source_port = u16::from_be_bytes([ports[0], ports[1]]);
    let destination_port = u16::from_be_bytes([ports[2], ports[3]]);
    let source = SocketAddr::new(IpAddr::from(*source), source_port);
    let destination = SocketAddr::new(IpAddr::from(*destination), destination_port);
    Some((Some((source, destination)), rest))
}

/// Kind, value and what follows.
type Tlv<'a> = (u8, &'a [u8], &'a [u8]);

/// Splits the first type-length-value off.
fn next_tlv(text: &[u8]) -> Result<Option<Tlv<'_>>, Error> {
    if text.is_empty() {
        return Ok(None);
    }
    let (head, rest) = text.split_first_chunk::<3>().ok_or(Error::ClientTlvTruncated)?;
    let len = usize::from(u16::from_be_bytes([head[1], head[2]]));
    let (value, rest) = rest.split_at_checked(len).ok_or(Error::ClientTlvTooLong)?;
    Ok(Some((head[0], value, rest)))
}

/// Reads `text`, the end of the header `head`. What is said twice is what it was the first time.
fn tlvs(mut text: &[u8], head: &[u8]) -> Result<Tlvs, Error> {
    let mut out = Tlvs::default();
    while let Some((kind, value, rest)) = next_tlv(text)? {
        match kind {
            TLV_ALPN => first(&mut out.alpn, value.into()),
            TLV_AUTHORITY => first(&mut out.authority, utf8(value)?),
            TLV_CRC32C => {
                let value_at = head.len() - rest.len() - value.len();
                check(value, head, value_at)?;
            }
            TLV_UNIQUE_ID if value.len() > UNIQUE_ID_BYTES_MAX => {
                return Err(Error::ClientTlvInvalid);
            }
            TLV_UNIQUE_ID => first(&mut out.unique_id, value.into()),
            TLV_SSL => first(&mut out.ssl, ssl(value)?),
            _ => {}
        }
        text = rest;
    }
    Ok(out)
}

fn first<T>(place: &mut Option<T>, value: T) {
    place.get_or_insert(value);
}

/// The checksum is over the whole header with its own four bytes as zeros.
fn check(value: &[u8], head: &[u8], value_at: usize) -> Result<(), Error> {
    let want: [u8; 4] = value.try_into().map_err(|_| Error::ClientTlvInvalid)?;
    let (before, after) = (&head[..value_at], &head[value_at + 4..]);
    if crc32c([before, &[0; 4], after]) == u32::from_be_bytes(want) {
        return Ok(());
    }
    Err(Error::ClientChecksum)
}

fn ssl(value: &[u8]) -> Result<Ssl, Error> {
    let (fixed, mut text) = value.split_first_chunk::<5>().ok_or(Error::ClientTlvTooLong)?;
    let [client, verify @ ..] = *fixed;
    let mut out = Ssl {
        over_tls: client & 0x01 != 0,
        certificate_on_connection: client & 0x02 != 0,
        certificate_in_session: client & 0x04 != 0,
        verify_result: u32::from_be_bytes(verify),
        ..Ssl::default()
    };
    while let Some((kind, value, rest)) = next_tlv(text)? {
        let place = match kind {
            0x21 => Some(&mut out.version),
            0x22 => Some(&mut out.common_name),
            0x23 => Some(&mut out.cipher),
            0x24 => Some(&mut out.signature_algorithm),
            0x25 => Some(&mut out.key_algorithm),
            _ => None,
        };
        if let Some(place) = place {
            first(place, utf8(value)?);
        }
        text = rest;
    }
    Ok(out)
}

/// Text without controls: it ends up in logs and fields.
fn utf8(value: &[u8]) -> Result<Box<str>, Error> {
    let text = str::from_utf8(value).ok().filter(|text| !text.chars().any(char::is_control));
    text.map(Into::into).ok_or(Error::ClientTlvInvalid)
}

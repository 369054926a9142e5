//! Addresses to listen on, as `-a` writes them.

use crate::accounts;
use freshet_net::address::Address;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use thiserror::Error;

/// Bytes of a Unix socket's path: what `sockaddr_un` has room for, less the end.
const SOCKET_PATH_BYTES_MAX: usize = 107;
/// The port where none is given.
const PORT: u16 = 80;

/// What is wrong with an address.
#[derive(Debug, Eq, Error, PartialEq)]
#[error("-a {text}: {why}")]
pub(crate) struct EndpointError {
    text: String,
    why: String,
}

/// One address to listen on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Endpoint {
    /// Its name in logs and policies.
    pub(crate) name: String,
    /// Which `-a` it is of, from 0.
    pub(crate) option: usize,
    /// The address.
    pub(crate) address: Address,
    /// Whether a PROXY header comes first.
    pub(crate) proxy: bool,
    /// Permissions of a Unix socket.
    pub(crate) mode: Option<u32>,
    /// Owner of a Unix socket.
    pub(crate) user: Option<String>,
    /// Group of a Unix socket.
    pub(crate) group: Option<String>,
}

impl Endpoint {
    /// Reads `[name=]address[:port][,PROXY|HTTP][,user=u][,group=g][,mode=m]`. `number` makes the
    /// name where there is none. A host name may have several addresses.
    pub(crate) fn parse(text: &str, number: usize) -> Result<Vec<Self>, EndpointError> {
        let wrong = |why: String| EndpointError { text: text.into(), why };
        let mut parts = text.split(',');
        let place = parts.next().unwrap_or_default();
        let (name, place) = match place.split_once('=') {
            Some((name, place)) => {
                if !is_name(name) {
                    return Err(wrong(format!("invalid listen address name \"{name}\"")));
                }
                (name.to_owned(), place)
            }
            None => (format!("a{number}"), place),
        };
        let mut endpoint = Self {
            name,
            option: number,
            address: Address::Tcp(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))),
            proxy: false,
            mode: None,
            user: None,
            group: None,
        };
        let is_unix = place.starts_with('/') || place.starts_with('@');
        if !is_unix && place.contains('/') {
            return Err(wrong("Unix domain socket addresses must be absolute paths".into()));
        }
        let (mut has_protocol, twice) =
            (false, |what: &str| wrong(format!("Too many {what} sub-args")));
        for part in parts {
            if !part.contains('=') && std::mem::replace(&mut has_protocol, true) {
                return Err(twice("protocol"));
            }
            match part.split_once('=') {
                None if part.eq_ignore_ascii_case("PROXY") => endpoint.proxy = true,
                None if part.eq_ignore_ascii_case("HTTP") => endpoint.proxy = false,
                None => return Err(wrong(format!("Unknown protocol \"{part}\""))),
                Some(_) if !is_unix => {
                    return Err(wrong(format!("Invalid sub-arg {part} for IP addresses")));
                }
                Some(("mode", _)) if endpoint.mode.is_some() => return Err(twice("mode")),
                Some(("user", _)) if endpoint.user.is_some() => return Err(twice("user")),
                Some(("group", _)) if endpoint.group.is_some() => return Err(twice("group")),
                Some(("mode", mode)) => endpoint.mode = Some(parse_mode(mode).map_err(wrong)?),
                Some(("user", user)) => {
                    accounts::user(user).ok_or_else(|| wrong(format!("Unknown user {user}")))?;
                    endpoint.user = Some(user.into());
                }
                Some(("group", group)) => {
                    accounts::group(group)
                        .ok_or_else(|| wrong(format!("Unknown group {group}")))?;
                    endpoint.group = Some(group.into());
                }
                Some(_) => return Err(wrong(format!("Invalid sub-arg {part}"))),
            }
        }
        if is_unix {
            if place.starts_with('@') {
                return Err(wrong("abstract sockets are not supported".into()));
            }
            if place.len() > SOCKET_PATH_BYTES_MAX {
                return Err(wrong(format!("Got no socket(s) for {place}: its path is too long")));
            }
            endpoint.address = Address::Unix(PathBuf::from(place));
            return Ok(vec![endpoint]);
        }
        let addresses = resolve(place).map_err(wrong)?;
        let at = |address| Self { address: Address::Tcp(address), ..endpoint.clone() };
        Ok(addresses.into_iter().map(at).collect())
    }
}

/// Permissions in octal digits, as strtol(3) reads them: what is behind the digits is a mistake.
fn parse_mode(text: &str) -> Result<u32, String> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if text.is_empty() {
        return Err("Empty mode sub-arg".into());
    }
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(8)) {
        return Err(format!("Invalid mode sub-arg {text}"));
    }
    let mode = i64::from_str_radix(text, 8)
        .map_err(|_| format!("Cannot parse mode sub-arg {text}: out of range"))?;
    match u32::try_from(mode) {
        Ok(mode) if (1..=0o777).contains(&mode) => Ok(mode),
        _ => Err(format!("Mode sub-arg {text} out of range")),
    }
}

/// Whether it can be the name of an address, or of a storage.
pub(crate) fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

/// Addresses of `host`, `host:port`, `[v6]:port`, `host port` and `:port`; the last is every
/// interface in both families.
fn resolve(place: &str) -> Result<Vec<SocketAddr>, String> {
    let (host, port) = if let Some(rest) = place.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or("missing ]")?;
        (host, rest.trim_start_matches([':', ' ']))
    } else {
        match place.rsplit_once([':', ' ']) {
            Some((host, port)) if !host.contains(':') => (host, port),
            _ => (place, ""),
        }
    };
    let port = match port.trim() {
        "" => PORT,
        "http" => 80,
        port => port.parse().map_err(|_| format!("invalid port \"{port}\""))?,
    };
    if host.is_empty() || host == "*" {
        return Ok(vec![(Ipv6Addr::UNSPECIFIED, port).into()]);
    }
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![(ip, port).into()]);
    }
    let resolved = (host, port).to_socket_addrs().map_err(|error| error.to_string())?;
    let mut addresses: Vec<SocketAddr> = resolved.collect();
    addresses.dedup();
    if addresses.is_empty() {
        return Err("the name has no address".into());
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_names_protocols_and_permissions() {
        let parse = |text: &str| Endpoint::parse(text, 2).expect(text).remove(0);
        assert_eq!(parse("127.0.0.1:0").name, "a2");
        let named = parse("foo=[::1]:81,PROXY");
        assert_eq!((named.name.as_str(), named.proxy), ("foo", true));
        assert_eq!(named.address.to_string(), "[::1]:81");
        assert_eq!(parse(":81").address.to_string(), "[::]:81");
        assert_eq!(parse("127.0.0.1").address.port(), Some(80));
        let socket = parse("uds=/tmp/x.sock,PROXY,mode=0777");
        assert_eq!((socket.mode, socket.proxy), (Some(0o777), true));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, why) in [
            ("127.0.0.1:0,FOO", "Unknown protocol"),
            ("127.0.0.1:x", "invalid port"),
            ("0x=:80", "invalid listen address name"),
            (":80,mode=777", "Invalid sub-arg mode=777 for IP addresses"),
            (":80,PROXY,HTTP", "Too many protocol sub-args"),
            ("/x,mode=9", "Invalid mode sub-arg 9"),
            ("/x,mode=", "Empty mode sub-arg"),
            ("/x,mode=777777777777777777777777777777", "Cannot parse mode sub-arg 7"),
            ("/x,mode=-1", "Mode sub-arg -1 out of range"),
            ("/x,mode=1666", "Mode sub-arg 1666 out of range"),
            ("/x,mode=6,mode=6", "Too many mode sub-args"),
            ("/x,user=no such user", "Unknown user"),
            ("/x,foo=bar", "Invalid sub-arg foo=bar"),
            ("x/y", "must be absolute paths"),
            ("@x", "abstract"),
        ] {
            let error = Endpoint::parse(text, 0).expect_err(text).to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}

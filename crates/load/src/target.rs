//! Where a load goes, and whether it may.

use crate::error::LabError;
use rustls_pki_types::ServerName;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// A server, as its user named it.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Where to connect.
    pub address: SocketAddr,
    /// What requests say in `Host` and `:authority`.
    pub authority: String,
    /// The name to ask for under TLS; `None` is clear text.
    pub tls: Option<ServerName<'static>>,
}

impl Target {
    /// Reads `http://host[:port]` or `https://host[:port]` and looks the host up.
    ///
    /// # Errors
    /// [`LabError::ConfigTarget`] says what is wrong with it. [`LabError::ConfigForeignTarget`] when the
    /// address is neither loopback nor private, and nobody said that it is their own.
    pub fn parse(url: &str, is_own: bool) -> Result<Self, LabError> {
        let refuse =
            |why: &str| LabError::ConfigTarget { url: url.to_owned(), why: why.to_owned() };
        let (is_tls, rest) = if let Some(rest) = url.strip_prefix("http://") {
            (false, rest)
        } else if let Some(rest) = url.strip_prefix("https://") {
            (true, rest)
        } else {
            return Err(refuse("it begins with http:// or https://"));
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.is_empty() || authority.contains(['/', '?', '#', '@', ' ']) {
            return Err(refuse("it is a scheme, a host and a port, as http://127.0.0.1:8000"));
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !host.ends_with(':') && !port.ends_with(']') => {
                let port = port.parse().ok().filter(|port| *port > 0);
                (host, port.ok_or_else(|| refuse("its port is a number from 1 to 65535"))?)
            }
            _ => (authority, if is_tls { 443 } else { 80 }),
        };
        let name = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let found = (name, port).to_socket_addrs().map_err(|error| refuse(&error.to_string()))?;
        let found: Vec<SocketAddr> = found.collect();
        // Names such as localhost have both; most servers here listen on the older.
        let address = found.iter().find(|address| address.is_ipv4()).or_else(|| found.first());
        let address = *address.ok_or_else(|| refuse("its host has no address"))?;
        if !is_own && !is_near(address.ip()) {
            return Err(LabError::ConfigForeignTarget { url: url.to_owned(), ip: address.ip() });
        }
        let tls = match is_tls {
            true => Some(
                ServerName::try_from(name.to_owned())
                    .map_err(|_| refuse("its host is neither a name nor an address"))?,
            ),
            false => None,
        };
        Ok(Self { address, authority: authority.to_owned(), tls })
    }

    /// Whether it speaks TLS.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The target as a URL.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.is_tls() { "https" } else { "http" }, self.authority)
    }
}

/// Whether an address is this machine's or of a private network, where a load cannot hit strangers.
fn is_near(ip: IpAddr) -> bool {
    match ip {
        // Who connects to no address in particular comes to this machine.
        ip if ip.is_unspecified() => true,
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_private() || ip.is_link_local(),
        IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
            Some(ip) => is_near(IpAddr::V4(ip)),
            None => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        let target = Target::parse("http://127.0.0.1:8000/", false).unwrap();
        assert_eq!((target.address.port(), target.is_tls()), (8000, false));
        assert_eq!(target.authority, "127.0.0.1:8000");
        let target = Target::parse("https://[::1]", false).unwrap();
        assert_eq!((target.address.port(), target.is_tls()), (443, true));
        assert_eq!(Target::parse("http://[::1]:81", false).unwrap().address.port(), 81);
        assert_eq!(Target::parse("https://10.1.2.3:9", false).unwrap().url(), "https://10.1.2.3:9");
    }

    #[test]
    fn what_is_no_url_of_a_server_is_refused() {
        for url in [
            "",
            "127.0.0.1",
            "ftp://x",
            "http://",
            "http://127.0.0.1:0",
            "http://127.0.0.1:x",
            "http://127.0.0.1/path",
            "http://a@127.0.0.1",
        ] {
            let error = Target::parse(url, false).unwrap_err();
            assert!(matches!(error, LabError::ConfigTarget { .. }), "{url}: {error}");
        }
    }

    #[test]
    fn strangers_are_not_loaded_unasked() {
        for url in ["http://192.0.2.1", "https://[2001:db8::1]:443", "http://[::ffff:198.51.100.7]"]
        {
            let error = Target::parse(url, false).unwrap_err();
            assert!(matches!(error, LabError::ConfigForeignTarget { .. }), "{url}: {error}");
            assert!(error.to_string().contains("--i-own-this-target"), "{error}");
            assert!(Target::parse(url, true).is_ok());
        }
        for url in [
            "http://192.168.1.1",
            "http://172.16.0.1",
            "http://[fd00::1]",
            "http://[fe80::1]",
            "http://0.0.0.0:80",
            "http://[::]",
        ] {
            assert!(Target::parse(url, false).is_ok(), "{url}");
        }
    }
}

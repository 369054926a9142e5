//! The hosts a site is for.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// Longest name of a host (RFC 1035 §2.3.4).
pub const HOST_BYTES_MAX: usize = 255;

/// Hosts a site is for, in lower case.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum HostPattern {
    /// This one.
    Exact(Box<str>),
    /// `*.` and this: all below it, not itself.
    Below(Box<str>),
    /// `*`: those no site names.
    Any,
}

impl FromStr for HostPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Any);
        }
        let lower = text.to_ascii_lowercase();
        let (host, is_below) = match lower.strip_prefix("*.") {
            Some(host) => (host, true),
            None => (lower.as_str(), false),
        };
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if let Some(address) = ipv6(host).filter(|_| !is_below) {
            // As requests have it (RFC 5952).
            return Ok(Self::Exact(format!("[{address}]").into()));
        }
        let is_host = !host.is_empty()
            && host.len() <= HOST_BYTES_MAX
            && !host.starts_with('.')
            && !host.ends_with('.')
            && host.bytes().all(is_name);
        if !is_host {
            return Err(format!(
                "`{text}` is no host: write `www.example`, `*.example` or `*`, without port, \
                 names beyond ASCII as `xn--`"
            ));
        }
        Ok(if is_below { Self::Below(host.into()) } else { Self::Exact(host.into()) })
    }
}

impl HostPattern {
    /// Whether it is for this name, which is in lower case.
    pub fn covers(&self, name: &str) -> bool {
        match self {
            Self::Exact(host) => **host == *name,
            Self::Below(host) => {
                name.strip_suffix(&**host).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            }
            Self::Any => true,
        }
    }
}

fn ipv6(host: &str) -> Option<Ipv6Addr> {
    host.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(host) => f.write_str(host),
            Self::Below(host) => write!(f, "*.{host}"),
            Self::Any => f.write_str("*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_host_however_it_is_written() {
        for text in ["[2001:db8:0::1]", "[2001:DB8::1]", "[2001:db8:0:0:0:0:0:1]"] {
            let pattern: HostPattern = text.parse().expect(text);
            assert!(pattern.covers("[2001:db8::1]"), "{text}: {pattern}");
        }
        for text in ["2001:db8::1", "[2001:db8::1", "*.[2001:db8::1]", "[::1]:80", "[a]"] {
            assert!(text.parse::<HostPattern>().is_err(), "{text}");
        }
    }
}

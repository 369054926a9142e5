//! Where notifications may go. A client that could aim them at this machine, or at what only this
//! machine reaches, would have the platform ask in its place (server-side request forgery).

use freshet_documents::problem::Problem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Which addresses are not asked, besides those that no callback should have.
#[derive(Clone, Debug)]
pub struct CallbackPolicy {
    /// This machine's own addresses. They are asked for at each look: each app that is run here, and each lease,
    /// may bring others.
    pub own: fn() -> Vec<IpAddr>,
    /// The network of apps: its first address, and its length. Of each four addresses the second is the host's,
    /// today or once an app has these four.
    pub apps: Option<(Ipv4Addr, u8)>,
    /// Addresses that are allowed all the same, for demonstrations and tests.
    pub allowed: Vec<IpAddr>,
}

impl Default for CallbackPolicy {
    fn default() -> Self {
        Self { own: Vec::new, apps: None, allowed: Vec::new() }
    }
}

/// Where a callback goes.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Target {
    /// Whether it is under TLS.
    pub is_secure: bool,
    /// A name, or an address without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Path and query.
    pub path: String,
}

impl Target {
    /// `Host` of a request to it.
    pub fn authority(&self) -> String {
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        format!("{host}:{}", self.port)
    }

    /// Reads an absolute URI of `http` or `https`, without user and fragment; `None` for others.
    pub fn read(uri: &str) -> Option<Self> {
        let (scheme, rest) = uri.split_once("://")?;
        let is_secure = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        if !uri.bytes().all(|byte| byte.is_ascii_graphic()) || rest.contains(['#', '\\']) {
            return None;
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']')?;
                host.parse::<Ipv6Addr>().ok()?;
                (host, port)
            }
            None => {
                let at = authority.find(':').unwrap_or(authority.len());
                authority.split_at(at)
            }
        };
        let default = if is_secure { 443 } else { 80 };
        let port = match port.strip_prefix(':') {
            Some(port) => port.parse().ok().filter(|port| *port != 0)?,
            None if port.is_empty() => default,
            None => return None,
        };
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let fits = !host.is_empty() && (host.contains(':') || host.bytes().all(is_name));
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        fits.then(|| Self { is_secure, host: host.to_ascii_lowercase(), port, path })
    }
}

impl CallbackPolicy {
    /// Reads a callback and looks whether it may be one, as far as its text says. Names are looked at
    /// again when they were resolved: [`CallbackPolicy::allows`].
    pub(crate) fn check(&self, uri: &str) -> Result<Target, Problem> {
        let wrong = |why: &str| Problem::bad_request(format!("the callback `{uri}` {why}"));
        let target = Target::read(uri).ok_or_else(|| wrong("is no absolute http or https URI"))?;
        let is_local = target.host == "localhost" || target.host.ends_with(".localhost");
        let address = match target.host.parse::<IpAddr>() {
            Ok(address) => Some(address),
            // Numbers that resolvers read as addresses, such as 2130706433 and 127.1.
            Err(_)
                if target.host.rsplit('.').next().is_none_or(|last| {
                    last.is_empty() || last.starts_with(|first: char| first.is_ascii_digit())
                }) =>
            {
                return Err(wrong("names no host"));
            }
            Err(_) => is_local.then_some(Ipv4Addr::LOCALHOST.into()),
        };
        if address.is_some_and(|address| !self.allows(address)) {
            return Err(wrong("leads to an address that callbacks may not have"));
        }
        Ok(target)
    }

    /// Whether a callback may go to this address.
    pub fn allows(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        if self.allowed.contains(&address) {
            return true;
        }
        let is_forbidden = match address {
            IpAddr::V4(one) => is_forbidden(one),
            IpAddr::V6(one) => {
                // An IPv4 address within: 6to4, and the well-known prefix of NAT64.
                let within = match one.segments() {
                    [0x2002, high, low, ..] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
                        Some(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)))
                    }
                    _ => None,
                };
                one.is_loopback()
                    || one.is_unspecified()
                    || one.is_multicast()
                    || one.is_unicast_link_local()
                    || one == OF_CLOUDS_V6
                    || within.is_some_and(is_forbidden)
            }
        };
        let is_beside_app = match (self.apps, address) {
            (Some(apps), IpAddr::V4(one)) => is_host(apps, one),
            _ => false,
        };
        !is_forbidden && !is_beside_app && !(self.own)().contains(&address)
    }
}

/// Where clouds tell a machine its secrets, besides link-local addresses: Alibaba's and Azure's.
const OF_CLOUDS: [Ipv4Addr; 2] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16)];
/// And that of Amazon's.
const OF_CLOUDS_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

/// Whether an address is a host's in a network of apps.
fn is_host((first, length): (Ipv4Addr, u8), one: Ipv4Addr) -> bool {
    let place = u32::from(one).wrapping_sub(u32::from(first));
    u64::from(place) < 1 << (32 - u32::from(length.min(32))) && place % 4 == 1
}

fn is_forbidden(one: Ipv4Addr) -> bool {
    one.is_loopback()
        || one.octets()[0] == 0
        || one.is_link_local()
        || OF_CLOUDS.contains(&one)
        || one.is_broadcast()
        || one.is_multicast()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    #[test]
    fn callbacks_to_this_machine_are_refused() {
        let own = || vec!["192.0.2.1".parse().unwrap()];
        let policy = CallbackPolicy { own, ..CallbackPolicy::default() };
        for uri in [
            "http://127.0.0.1/",
            "http://127.9.9.9:80/x",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://169.254.169.254/latest",
            "http://[fe80::1]/",
            "http://[fd00:ec2::254]/latest",
            "http://100.100.100.200/",
            "http://168.63.129.16/",
            "http://0.0.0.0/",
            "http://0/",
            "http://localhost/",
            "http://LOCALHOST:80/",
            "http://a.localhost/",
            "http://2130706433/",
            "http://127.1/",
            "http://0x7f.1/",
            "http://0177.0.0.1/",
            "http://192.0.2.1:8080/",
            "http://[64:ff9b::7f00:1]/",
            "http://[2002:7f00:1::]/",
            "http://224.0.0.1/",
            "http://[ff02::1]/",
            "ftp://192.0.2.9/",
            "file:///etc/passwd",
            "/relative",
            "http://user@192.0.2.9/",
            "http://",
            "http://192.0.2.9:0/",
            "http://192.0.2.9:99999/",
            "http://192.0.2.9\\@x/",
            "http://a b/",
            "http://a/#b",
            "http://example.1./",
            "gopher://192.0.2.9/",
        ] {
            assert_eq!(policy.check(uri).map_err(|problem| problem.status), Err(400), "{uri}");
        }
        assert!(policy.check("http://[2001:db8::1]:8080/a?b").is_ok());
        let target = policy.check("https://App.example/a?b").unwrap();
        assert_eq!((target.authority(), target.path), ("app.example:443".into(), "/a?b".into()));
        assert_eq!(policy.check("http://192.0.2.9?x").unwrap().path, "/?x");
        let demo = CallbackPolicy { allowed: vec![Ipv4Addr::LOCALHOST.into()], ..policy };
        assert!(
            demo.check("http://localhost:9/").is_ok() && demo.check("http://127.0.0.2/").is_err()
        );
    }

    #[test]
    fn addresses_that_this_machine_gets_later_are_refused() {
        static HAS_LEASE: AtomicBool = AtomicBool::new(false);
        let own = || match HAS_LEASE.load(Relaxed) {
            true => vec!["192.0.2.1".parse().unwrap()],
            false => Vec::new(),
        };
        let apps = Some(("10.99.0.0".parse().unwrap(), 24));
        let policy = CallbackPolicy { own, apps, allowed: Vec::new() };
        assert!(policy.check("http://192.0.2.1/").is_ok());
        HAS_LEASE.store(true, Relaxed);
        assert!(policy.check("http://192.0.2.1/").is_err());
        // The host's addresses beside apps, also of those that are not run yet; not the apps' own.
        for (address, is_ok) in [
            ("10.99.0.1", false),
            ("10.99.0.2", true),
            ("10.99.0.5", false),
            ("[::ffff:10.99.0.253]", false),
            ("10.99.0.254", true),
            ("10.99.1.1", true),
            ("10.98.255.253", true),
        ] {
            assert_eq!(policy.check(&format!("http://{address}/")).is_ok(), is_ok, "{address}");
        }
    }
}

//! Origins that a policy makes while it runs (`dynamic`): one for each host and port that its requests
//! lead to, with their connections and their health.

use super::{host, span};
use freshet_base::clock::UnixMillis;
use freshet_net::address::Address;
use freshet_origin::definition::OriginAddress;
use freshet_origin::resolve::Resolver;
use freshet_origin::{Origin, OriginSettings};
use freshet_vcl::{Acl, Making, Timeouts};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};

/// Origins of one policy. With as many the one that was not used for longest makes room, which is looked up and
/// connected to again if it is asked for: hosts may be what clients write.
const MADE_MAX: usize = 1000;

/// The origins.
#[derive(Debug, Default)]
pub(super) struct MadeOrigins(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    numbers: HashMap<Place, u32>,
    made: HashMap<u32, Entry>,
    /// No number comes twice: a request may hold one of an origin that is gone.
    next: u32,
}

/// Which director's, at which host and port.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Place {
    director: u32,
    host: Box<str>,
    port: u16,
}

#[derive(Debug)]
struct Entry {
    place: Place,
    made: MadeOrigin,
    used: UnixMillis,
}

/// An origin that was made, and how.
#[derive(Clone, Debug)]
pub(super) struct MadeOrigin {
    pub(super) name: Arc<str>,
    pub(super) origin: Arc<Origin>,
    pub(super) making: Arc<Making>,
    host: Arc<str>,
    since: UnixMillis,
}

impl MadeOrigin {
    /// What a request for no host is sent with.
    pub(super) fn host(&self) -> &str {
        self.making.host_header.as_deref().unwrap_or(&self.host)
    }

    /// Whether it is healthy, and since when.
    pub(super) fn health(&self, now: UnixMillis) -> (bool, f64) {
        host::origin_health(&self.origin, self.since, now)
    }
}

impl MadeOrigins {
    /// The number of the origin at a place, which is made where there is none.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn make(
        &self,
        director: u32,
        making: &Arc<Making>,
        (host, port): (&str, u16),
        timeouts: Timeouts,
        now: UnixMillis,
    ) -> Result<u32, String> {
        let place = Place { director, host: host.into(), port };
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = &mut *kept;
        if let Some(number) = kept.numbers.get(&place)
            && let Some(entry) = kept.made.get_mut(number)
        {
            entry.used = now;
            return Ok(*number);
        }
        let made = make_origin(making, host, port, timeouts, now)?;
        kept.make_room();
        kept.next = kept.next.wrapping_add(1);
        kept.numbers.insert(place.clone(), kept.next);
        kept.made.insert(kept.next, Entry { place, made, used: now });
        Ok(kept.next)
    }

    /// The origin of a number, while it is kept.
    pub(super) fn get(&self, number: u32) -> Option<MadeOrigin> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.made.get(&number).map(|entry| entry.made.clone())
    }
}

impl Kept {
    /// Drops what was not used for longest, where there are as many as may be.
    fn make_room(&mut self) {
        if self.made.len() < MADE_MAX {
            return;
        }
        let oldest = self.made.iter().min_by_key(|(_, entry)| entry.used);
        if let Some(number) = oldest.map(|(number, _)| *number)
            && let Some(entry) = self.made.remove(&number)
        {
            self.numbers.remove(&entry.place);
        }
    }
}

fn make_origin(
    making: &Arc<Making>,
    host: &str,
    port: u16,
    timeouts: Timeouts,
    now: UnixMillis,
) -> Result<MadeOrigin, String> {
    let fixed = host.parse::<IpAddr>().ok();
    if fixed.is_some_and(|address| !is_allowed(making.allowed.as_ref(), address)) {
        return Err(format!("{host}:{port} whitelist mismatch"));
    }
    let (address, resolver) = match fixed {
        Some(ip) => (OriginAddress::Fixed(Address::Tcp(SocketAddr::new(ip, port))), None),
        None => {
            let making = Arc::clone(making);
            let lookup = move |host: &str, port: u16| look_up(&making, host, port);
            let resolver = Resolver::new(host, port, Box::new(lookup));
            (OriginAddress::Name { host: host.to_owned(), port }, Some(resolver))
        }
    };
    let name: Arc<str> = format!("{}({host}:{port})", making.name).into();
    let mut settings = OriginSettings::new(address);
    settings.name = name.to_string();
    settings.proxy_header = making.proxy_header;
    // A name that a client made up is nothing to tell the operator of.
    settings.logs_outages = false;
    let out = &mut settings.timeouts;
    out.connect = span(making.connect_timeout.unwrap_or(timeouts.connect));
    out.first_byte = span(making.first_byte_timeout.unwrap_or(timeouts.first_byte));
    out.between_bytes = span(making.between_bytes_timeout.unwrap_or(timeouts.between_bytes));
    out.idle = span(timeouts.idle);
    if making.connections_max > 0 {
        settings.connections_max = making.connections_max;
        settings.connection_waiters_max = 0;
    }
    let origin = Origin::with_resolver(settings, resolver).map_err(|error| error.to_string())?;
    Ok(MadeOrigin { name, origin, making: Arc::clone(making), host: host.into(), since: now })
}

/// What a name stands for, as far as it is allowed. Asks the system, on a thread that may wait.
fn look_up(making: &Making, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let found: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
    let is_any = !found.is_empty();
    let allowed = |address: &SocketAddr| is_allowed(making.allowed.as_ref(), address.ip());
    let found: Vec<_> = found.into_iter().filter(allowed).collect();
    if found.is_empty() && is_any {
        return Err(io::Error::other("whitelist mismatch"));
    }
    Ok(found)
}

fn is_allowed(allowed: Option<&Acl>, address: IpAddr) -> bool {
    allowed.is_none_or(|allowed| allowed.contains(address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_vcl::Span;

    fn make(
        origins: &MadeOrigins,
        making: &Arc<Making>,
        host: &str,
        at: u64,
    ) -> Result<u32, String> {
        origins.make(0, making, (host, 80), Timeouts::default(), UnixMillis(at))
    }

    #[test]
    fn one_origin_is_made_for_a_place_and_the_longest_unused_makes_room() {
        let (origins, making) = (MadeOrigins::default(), Arc::new(Making::default()));
        let first = make(&origins, &making, "a.example", 0).unwrap();
        for number in 1..MADE_MAX {
            make(&origins, &making, &format!("{number}.example"), 1).unwrap();
        }
        assert_eq!(make(&origins, &making, "a.example", 2), Ok(first));
        // Others go before what was used last, and no number leads to another's origin.
        let second = make(&origins, &making, "b.example", 3).unwrap();
        assert_eq!(&*origins.get(first).unwrap().name, "(a.example:80)");
        assert_eq!(&*origins.get(second).unwrap().name, "(b.example:80)");
        let kept = origins.0.lock().unwrap();
        assert_eq!((kept.made.len(), kept.numbers.len()), (MADE_MAX, MADE_MAX));
    }

    #[test]
    fn addresses_that_a_list_leaves_out_are_not_asked() {
        let mut list = Acl::new("own".into(), Span::default());
        list.entries.push(freshet_vcl::Entry {
            address: "192.0.2.0".parse().unwrap(),
            bits: 24,
            negated: false,
            text: "192.0.2.0/24".into(),
            span: Span::default(),
        });
        list.arrange();
        let making = Arc::new(Making { allowed: Some(list), ..Making::default() });
        let origins = MadeOrigins::default();
        assert!(make(&origins, &making, "192.0.2.1", 0).is_ok());
        for host in ["192.0.3.1", "::1"] {
            let why = make(&origins, &making, host, 0).unwrap_err();
            assert!(why.contains("whitelist mismatch"), "{why}");
        }
        let why = look_up(&making, "127.0.0.1", 80).unwrap_err();
        assert_eq!(why.to_string(), "whitelist mismatch");
    }
}

//! One database in memory.

use crate::error::GeoError;
use crate::places::Code;
use crate::value::Scalar;
use maxminddb::PathElement::{self, Index, IndexFromEnd, Key};
use maxminddb::{LookupResult, Reader, WithinOptions};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// Longest file: the largest that are sold have some 500 MB.
pub const BYTES_MAX: u64 = 1 << 30;

/// Deepest path into a record; real ones have four parts.
const DEPTH_MAX: usize = 16;

/// Records that are read before a database counts as good, of each version of IP. They are spread over
/// all addresses, so a file whose tree or data is damaged in more than a small part fails.
const TRIED: u32 = 1024;

/// Where an address is, as far as a database knows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Location {
    /// Latitude and longitude, degrees.
    pub coordinates: Option<(f64, f64)>,
    /// The country.
    pub country: Option<Code>,
    /// Length of the prefix around the address for which the same holds, also where nothing is known.
    pub network_bits: u8,
}

/// Networks that are looked through for something.
const NETWORKS_MAX: usize = 10_000;

/// A database, whole in memory.
#[derive(Debug)]
pub struct Database {
    reader: Reader<Box<[u8]>>,
}

impl Database {
    /// A database of these bytes, which are what was at `path`. Some thousand records are read on
    /// trial.
    ///
    /// # Errors
    /// [`GeoError::ConfigContent`].
    pub fn new(bytes: Vec<u8>, path: &Path) -> Result<Self, GeoError> {
        let refuse = |error: maxminddb::MaxMindDbError| GeoError::ConfigContent {
            path: path.into(),
            why: error.to_string(),
        };
        let reader = Reader::from_source(bytes.into_boxed_slice()).map_err(refuse)?;
        let database = Self { reader };
        database.try_records().map_err(refuse)?;
        Ok(database)
    }

    /// What is at a path into an address's record, as `country/iso_code` or
    /// `subdivisions/0/names/en`: a text, or a number or truth as one. A number counts through a list,
    /// `-1` being its last, and is a name in a map. `None` where there is no such thing, or a whole map or
    /// list.
    pub fn text(&self, address: IpAddr, path: &str) -> Option<String> {
        let names: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        if names.len() > DEPTH_MAX {
            return None;
        }
        let at = |parts: &[PathElement<'_>]| self.value::<Scalar>(address, parts)?.0;
        let parts: Vec<_> = names.iter().map(|name| place(name).unwrap_or(Key(name))).collect();
        let has_places = parts.iter().any(|part| !matches!(part, Key(_)));
        at(&parts).or_else(|| {
            let keys: Vec<_> = names.iter().map(|name| Key(name)).collect();
            has_places.then(|| at(&keys))?
        })
    }

    /// A value of a known kind. Damage in a file that shows with one record only is as if that had
    /// nothing.
    pub(crate) fn value<'a, T: Deserialize<'a>>(
        &'a self,
        address: IpAddr,
        path: &[PathElement<'_>],
    ) -> Option<T> {
        self.reader.lookup(address.to_canonical()).ok()?.decode_path(path).ok()?
    }

    /// Whether it says of anybody what is at this path: the records of its first networks are looked
    /// through, at most 10 000 of them.
    pub fn tells(&self, path: &[&str]) -> bool {
        let path: Vec<_> = path.iter().map(|part| Key(part)).collect();
        let has = |found: LookupResult<'_, _>| {
            found.decode_path::<IgnoredAny>(&path).is_ok_and(|value| value.is_some())
        };
        let networks = self.reader.networks(WithinOptions::default());
        networks.is_ok_and(|networks| networks.take(NETWORKS_MAX).flatten().any(has))
    }

    /// Where an address is, with the network around it for which that holds. Damage that shows with
    /// this address only is as if nobody knew where it is.
    pub fn location(&self, address: IpAddr) -> Location {
        let address = address.to_canonical();
        let Ok(found) = self.reader.lookup(address) else { return Location::default() };
        let number = |key| found.decode_path(&[Key("location"), Key(key)]).ok()?;
        let code: Option<&str> =
            found.decode_path(&[Key("country"), Key("iso_code")]).ok().flatten();
        Location {
            coordinates: number("latitude").zip(number("longitude")),
            country: code.and_then(Code::parse),
            network_bits: match found.network() {
                // All of IPv4 is one network where a database has none of it.
                Ok(network) if network.is_ipv4() == address.is_ipv4() => network.prefix(),
                _ => 0,
            },
        }
    }

    /// What its maker calls it, as `GeoLite2-Country`.
    pub fn kind(&self) -> &str {
        &self.reader.metadata().database_type
    }

    /// When it was made, seconds since 1970.
    pub fn built_s(&self) -> u64 {
        self.reader.metadata().build_epoch
    }

    fn try_records(&self) -> Result<(), maxminddb::MaxMindDbError> {
        let has_v6 = self.reader.metadata().ip_version == 6;
        for at in 0..TRIED {
            let v4 = Ipv4Addr::from_bits(at * (u32::MAX / TRIED));
            self.reader.lookup(v4.into())?.decode::<IgnoredAny>()?;
            if has_v6 {
                // 2000::/3, which is what is given to networks (RFC 4291 §2.4).
                let v6 = Ipv6Addr::from_bits((0x2000_0000 + u128::from(at) * 0x8_0000) << 96);
                self.reader.lookup(v6.into())?.decode::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// A place in a list, from its beginning or with a minus from its end, as libmaxminddb takes it.
fn place(text: &str) -> Option<PathElement<'static>> {
    match text.strip_prefix('-') {
        Some(from_end) => Some(IndexFromEnd(from_end.parse::<usize>().ok()?.checked_sub(1)?)),
        None => text.parse().ok().map(Index),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writer::{Value, Writer, country, map};
    use proptest::prelude::*;

    fn open(bytes: Vec<u8>) -> Result<Database, GeoError> {
        Database::new(bytes, "test.mmdb".as_ref())
    }

    /// One with every kind of value.
    fn full() -> Writer {
        let record = map([
            ("text", "Köln".into()),
            ("long", "x".repeat(300).as_str().into()),
            ("double", Value::Double(50.9413)),
            ("bytes", Value::Bytes(vec![1, 2])),
            ("number", 64_496.into()),
            ("short", Value::U16(443)),
            ("zero", Value::U64(0)),
            ("large", Value::U128(u128::MAX)),
            ("negative", Value::I32(-7)),
            ("truth", Value::Bool(true)),
            ("list", Value::List(vec![map([("name", "first".into())]), "second".into()])),
            ("years", map([("2026", "this".into())])),
        ]);
        Writer::new("Full")
            .with("0.0.0.0/1", &country("EU", "DE"))
            .with("192.0.2.0/24", &record)
            .with("2000::/3", &country("AS", "JP"))
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn values_are_shown_as_text() {
        let database = open(full().bytes()).unwrap();
        let text = |path: &str| database.text(ip("192.0.2.7"), path);
        let long = "x".repeat(300);
        for (path, is) in [
            ("text", "Köln"),
            ("long", &long),
            ("double", "50.941300"),
            ("number", "64496"),
            ("short", "443"),
            ("zero", "0"),
            ("large", "340282366920938463463374607431768211455"),
            ("negative", "-7"),
            ("truth", "true"),
            ("list/0/name", "first"),
            ("/list/1", "second"),
            ("list/-1", "second"),
            ("list/-2/name", "first"),
            ("years/2026", "this"),
        ] {
            assert_eq!(text(path).as_deref(), Some(is), "{path}");
        }
        let deep = "a/".repeat(1000);
        for path in [
            "", "none", "bytes", "list", "list/2", "list/-3", "list/-0", "list/x", "text/x",
            "text/0", "0", &deep,
        ] {
            assert_eq!(text(path), None, "{path}");
        }
        assert_eq!(database.text(ip("200.0.0.1"), "country/iso_code"), None);
        assert_eq!(database.text(ip("::ffff:10.0.0.1"), "country/iso_code").unwrap(), "DE");
        assert_eq!((database.kind(), database.built_s()), ("Full", 1_700_000_000));
    }

    #[test]
    fn a_database_tells_what_is_in_some_record_of_it() {
        let one = Writer::new("Country").with("198.51.100.7/32", &country("EU", "AT"));
        let database = open(one.bytes()).unwrap();
        assert!(database.tells(&["country", "iso_code"]) && database.tells(&["continent", "code"]));
        assert!(!database.tells(&["city", "names"]) && !database.tells(&["country", "names"]));
        assert!(!open(Writer::new("Empty").bytes()).unwrap().tells(&["country", "iso_code"]));
    }

    #[test]
    fn a_place_holds_for_a_network() {
        let graz = map([
            ("country", map([("iso_code", "AT".into())])),
            (
                "location",
                map([("latitude", Value::Double(47.07)), ("longitude", Value::Double(15.44))]),
            ),
        ]);
        let writer = Writer::new("City")
            .with("192.0.2.0/25", &graz)
            .with("198.51.100.0/24", &country("EU", "DE"))
            .with("2001:db8::/32", &graz);
        let database = open(writer.bytes()).unwrap();
        let here = database.location(ip("::ffff:192.0.2.7"));
        assert_eq!((here.coordinates, here.network_bits), (Some((47.07, 15.44)), 25));
        assert_eq!(here.country, Code::parse("AT"));
        let six = database.location(ip("2001:db8::7"));
        assert_eq!((six.coordinates, six.network_bits), (Some((47.07, 15.44)), 32));
        let land = database.location(ip("198.51.100.9"));
        assert_eq!((land.coordinates, land.country), (None, Code::parse("DE")));
        // What is unknown is so for no more than the hole around it.
        let beside = database.location(ip("192.0.2.200"));
        assert_eq!((beside.coordinates, beside.country, beside.network_bits), (None, None, 25));
        let v4 = open(Writer::new("V4").v4_only().with("10.0.0.0/8", &graz).bytes()).unwrap();
        assert_eq!(v4.location(ip("2001:db8::1")), Location::default());
        assert_eq!(v4.location(ip("10.1.2.3")).network_bits, 8);
    }

    #[test]
    fn each_size_of_record_and_version_of_ip_is_read() {
        for bits in [24, 28, 32] {
            let both = open(full().record_bits(bits).bytes()).unwrap();
            assert_eq!(both.text(ip("2001:db8::1"), "country/iso_code").as_deref(), Some("JP"));
            let v4 = Writer::new("V4").v4_only().record_bits(bits);
            let v4 = open(v4.with("10.0.0.0/8", &country("EU", "FR")).bytes()).unwrap();
            assert_eq!(v4.text(ip("10.1.2.3"), "country/iso_code").as_deref(), Some("FR"));
            assert_eq!(v4.text(ip("2001:db8::1"), "country/iso_code"), None);
        }
    }

    /// Asks all that can be asked.
    fn ask(database: &Database) {
        let _ = database.tells(&["country", "iso_code"]);
        for address in ["0.0.0.0", "10.1.2.3", "192.0.2.7", "255.255.255.255", "::", "2001:db8::1"]
        {
            for path in ["", "country/iso_code", "text", "list/0/name", "list/1", "large", "long"] {
                let _ = database.text(ip(address), path);
            }
            let _ = database.location(ip(address));
        }
    }

    #[test]
    fn a_file_that_is_cut_is_refused() {
        let whole = full().bytes();
        for length in 0..whole.len() {
            if let Ok(database) = open(whole[..length].to_vec()) {
                // Only where no more than the end of its description is missing.
                ask(&database);
            }
        }
        for half in [&whole[..whole.len() / 2], b"", b"\xab\xcd\xefMaxMind.com", b"text"] {
            let error = open(half.to_vec()).unwrap_err();
            assert!(matches!(error, GeoError::ConfigContent { .. }), "{error}");
        }
    }

    #[test]
    fn damage_to_data_that_many_share_is_found_when_the_file_is_opened() {
        let mut bytes = full().bytes();
        let at = bytes.windows(9).position(|part| part == b"continent").unwrap();
        // Its kind and length stand before the text: this is a map of very many.
        bytes[at - 1] = 0xff;
        let error = open(bytes).unwrap_err();
        assert!(error.to_string().starts_with("test.mmdb is no MaxMind database"), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn nothing_in_a_file_makes_it_panic(
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
            cut in any::<prop::sample::Index>(),
            cuts in any::<bool>(),
        ) {
            let mut bytes = full().bytes();
            for (at, byte) in damage {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if cuts {
                bytes.remove(cut.index(bytes.len()));
            }
            if let Ok(database) = open(bytes) {
                ask(&database);
            }
        }
    }

    #[test]
    fn each_byte_may_be_another() {
        let whole = full().bytes();
        for at in 0..whole.len() {
            for byte in [0x1f, 0xe1] {
                let mut bytes = whole.clone();
                bytes[at] ^= byte;
                if let Ok(database) = open(bytes) {
                    ask(&database);
                }
            }
        }
    }
}

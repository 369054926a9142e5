//! What a node asks of the databases it has.

use crate::file::File;
use crate::value::Scalar;
use maxminddb::PathElement::{Index, Key};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// The databases of a node. A country is looked for in that of countries, or where there is none in
/// that of cities.
#[derive(Clone, Debug, Default)]
pub struct Geo {
    /// Countries and continents.
    pub country: Option<Arc<File>>,
    /// Cities, with their countries and continents.
    pub city: Option<Arc<File>>,
    /// Autonomous systems.
    pub asn: Option<Arc<File>>,
}

/// Two letters: a country (ISO 3166-1) or a continent.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Code([u8; 2]);

impl Code {
    /// From two letters, small or capital.
    pub fn parse(text: &str) -> Option<Self> {
        let letters: [u8; 2] = text.as_bytes().try_into().ok()?;
        let is_code = letters.iter().all(u8::is_ascii_alphabetic);
        is_code.then(|| Self(letters.map(|letter| letter.to_ascii_uppercase())))
    }

    /// In capitals.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Geo {
    /// Whether there is no database.
    pub fn is_empty(&self) -> bool {
        self.country.is_none() && self.city.is_none() && self.asn.is_none()
    }

    /// The files there are.
    pub fn files(&self) -> impl Iterator<Item = &Arc<File>> {
        [&self.country, &self.city, &self.asn].into_iter().flatten()
    }

    /// The country an address is in.
    pub fn country(&self, address: IpAddr) -> Option<Code> {
        self.code(address, ["country", "iso_code"])
    }

    /// The continent: AF, AN, AS, EU, NA, OC or SA.
    pub fn continent(&self, address: IpAddr) -> Option<Code> {
        self.code(address, ["continent", "code"])
    }

    /// The city, in English.
    pub fn city(&self, address: IpAddr) -> Option<String> {
        let path = [Key("city"), Key("names"), Key("en")];
        self.city
            .as_ref()?
            .with(|database| database.value::<&str>(address, &path).map(str::to_owned))
    }

    /// Its latitude and longitude, in degrees.
    pub fn coordinates(&self, address: IpAddr) -> Option<(f64, f64)> {
        self.city.as_ref()?.with(|database| database.location(address).coordinates)
    }

    /// The part of its country, as ISO 3166-2 has it behind the country (`6` of `AT-6`): the first that
    /// the database of cities names.
    pub fn subdivision(&self, address: IpAddr) -> Option<String> {
        let path = [Key("subdivisions"), Index(0), Key("iso_code")];
        self.city
            .as_ref()?
            .with(|database| database.value::<&str>(address, &path).map(str::to_owned))
    }

    /// The number of the autonomous system that announces an address.
    pub fn asn(&self, address: IpAddr) -> Option<u32> {
        let path = [Key("autonomous_system_number")];
        self.asn.as_ref()?.with(|database| {
            // Not all makers give it the same width.
            database.value::<Scalar>(address, &path)?.0?.parse().ok()
        })
    }

    fn code(&self, address: IpAddr, [of, key]: [&str; 2]) -> Option<Code> {
        let file = self.country.as_ref().or(self.city.as_ref())?;
        let path = [Key(of), Key(key)];
        file.with(|database| Code::parse(database.value::<&str>(address, &path)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writer::{Value, Writer, asn, country, map};

    fn file(folder: &tempfile::TempDir, name: &str, bytes: &[u8]) -> Option<Arc<File>> {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        Some(File::open(&path).unwrap())
    }

    #[test]
    fn codes_are_two_letters() {
        assert_eq!(Code::parse("at"), Code::parse("AT"));
        assert_eq!(Code::parse("at").unwrap().to_string(), "AT");
        assert!(["", "A", "AUT", "A1", "ö"].iter().all(|text| Code::parse(text).is_none()));
    }

    #[test]
    fn each_question_goes_to_the_database_that_answers_it() {
        let folder = tempfile::tempdir().unwrap();
        let graz = map([
            ("city", map([("names", map([("en", "Graz".into())]))])),
            ("continent", map([("code", "EU".into())])),
            ("country", map([("iso_code", "AT".into())])),
            (
                "location",
                map([("latitude", Value::Double(47.07)), ("longitude", Value::Double(15.44))]),
            ),
        ]);
        let cities = Writer::new("City").with("192.0.2.0/24", &graz).bytes();
        let countries = Writer::new("Country")
            .with("192.0.2.0/24", &country("EU", "DE"))
            .with("2001:db8::/32", &country("AS", "JP"))
            .bytes();
        let systems = Writer::new("ASN").with("192.0.2.0/25", &asn(64_496, "Example")).bytes();
        let mut geo = Geo { city: file(&folder, "city", &cities), ..Geo::default() };
        let here: IpAddr = "192.0.2.7".parse().unwrap();
        let mapped: IpAddr = "::ffff:192.0.2.7".parse().unwrap();
        let there: IpAddr = "2001:db8::1".parse().unwrap();
        let nowhere: IpAddr = "203.0.113.1".parse().unwrap();
        assert_eq!(geo.country(here), Code::parse("AT"));
        assert_eq!(geo.city(mapped).as_deref(), Some("Graz"));
        assert_eq!((geo.coordinates(here), geo.coordinates(nowhere)), (Some((47.07, 15.44)), None));
        assert_eq!((geo.asn(here), geo.country(there)), (None, None));
        geo.country = file(&folder, "country", &countries);
        geo.asn = file(&folder, "asn", &systems);
        assert_eq!(geo.country(mapped), Code::parse("DE"));
        assert_eq!(
            (geo.country(there), geo.continent(there)),
            (Code::parse("JP"), Code::parse("AS"))
        );
        assert_eq!(
            (geo.asn(here), geo.asn(nowhere), geo.country(nowhere)),
            (Some(64_496), None, None)
        );
        assert_eq!(geo.files().count(), 3);
        // A database of the wrong kind knows nothing, and that is all.
        let wrong = Geo { country: geo.asn.clone(), asn: geo.country, ..Geo::default() };
        assert_eq!((wrong.country(here), wrong.asn(here)), (None, None));
    }
}

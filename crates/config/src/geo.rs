//! `[geo]`: the databases that say where addresses are, and clients by that.

use super::country_codes;
use super::document::{Document, Row};
use super::key::{Key, Kind, key};
use super::mistake::{Mistake, Place};
use super::values::optional;
use freshet_geo::Code;
use freshet_net::trust::Network;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

/// Their part of the table.
pub(super) const KEYS: &[Key] = &[
    key(
        "geo.country",
        Kind::File,
        "",
        "MaxMind database of countries, as `GeoLite2-Country.mmdb`. A new file is taken in by itself, \
         as with those below; each is held in memory, besides `memory`.",
    ),
    key(
        "geo.city",
        Kind::File,
        "",
        "MaxMind database of cities, which also says countries where `country` is not given.",
    ),
    key("geo.asn", Kind::File, "", "MaxMind database of autonomous systems."),
];

/// `[geo]`
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct GeoFiles {
    /// Countries.
    pub country: Option<GeoFile>,
    /// Cities.
    pub city: Option<GeoFile>,
    /// Autonomous systems.
    pub asn: Option<GeoFile>,
}

/// One of its files.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GeoFile {
    /// The file.
    pub path: PathBuf,
    /// Where it is written.
    pub place: Place,
}

/// Clients by where they are, as rules name them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Clients {
    /// Of a network: `192.0.2.0/24`.
    Network(Network),
    /// In a country: `country:DE` (ISO 3166-1).
    Country(Code),
    /// On a continent: `continent:EU`.
    Continent(Code),
    /// Of an autonomous system: `as:64496`.
    System(u32),
}

/// Continents as the databases name them.
const CONTINENTS: [&str; 7] = ["AF", "AN", "AS", "EU", "NA", "OC", "SA"];

impl Clients {
    /// Whether a client at this address is one of them.
    pub fn has(self, address: IpAddr, geo: &freshet_geo::Geo) -> bool {
        match self {
            Self::Network(network) => network.contains(address),
            Self::Country(code) => geo.country(address) == Some(code),
            Self::Continent(code) => geo.continent(address) == Some(code),
            Self::System(number) => geo.asn(address) == Some(number),
        }
    }

    /// # Errors
    /// What is wrong with it.
    fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("country", code)) => match Code::parse(code) {
                None => Err(format!("`{text}` names a country by two letters, as `country:DE`")),
                Some(code) => match country_codes::instead_of(code.as_str()) {
                    None => Ok(Self::Country(code)),
                    Some(help) => Err(format!("`{text}` is no country of ISO 3166-1{help}")),
                },
            },
            Some(("continent", code)) => Code::parse(code)
                .filter(|code| CONTINENTS.contains(&code.as_str()))
                .map(Self::Continent)
                .ok_or_else(|| format!("`{text}` is none of {}", CONTINENTS.join(", "))),
            Some(("as", number)) => number.parse().map(Self::System).map_err(|_| {
                format!("`{text}` names an autonomous system by its number, as `as:64496`")
            }),
            _ => text.parse().map(Self::Network).map_err(|error: freshet_net::NetError| {
                format!("{error}, nor `country:DE`, `continent:EU` or `as:64496`")
            }),
        }
    }
}

impl fmt::Display for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(network) => write!(f, "{network}"),
            Self::Country(code) => write!(f, "country:{code}"),
            Self::Continent(code) => write!(f, "continent:{code}"),
            Self::System(number) => write!(f, "as:{number}"),
        }
    }
}

/// What a document says of `[geo]`.
pub(super) fn geo(document: &Document) -> GeoFiles {
    let file = |path: &str| {
        let place = document.at(path);
        optional(document.value(path).text()).map(|text| GeoFile { path: text.into(), place })
    };
    GeoFiles { country: file("geo.country"), city: file("geo.city"), asn: file("geo.asn") }
}

/// The clients a rule lists; what is wrong, or cannot be known without a database, is listed.
pub(super) fn clients(
    document: &Document,
    row: &Row<'_>,
    path: &str,
    wrong: &mut Vec<Mistake>,
) -> Vec<Clients> {
    let files = geo(document);
    let shown = path.replace("[]", "");
    let mut out = Vec::new();
    for text in row.value(path).list() {
        let clients = match Clients::parse(&text) {
            Ok(clients) => clients,
            Err(why) => {
                wrong.push(Mistake::error(row.at(path), format!("{shown}: {why}")));
                continue;
            }
        };
        let (is_known, needs) = match clients {
            Clients::Network(_) => (true, ""),
            Clients::System(_) => (files.asn.is_some(), "asn"),
            _ => (files.country.is_some() || files.city.is_some(), "country"),
        };
        if !is_known {
            let message = format!("{shown}: nothing says who is in `{text}`");
            let help = format!("name a database in `[geo] {needs}`");
            wrong.push(Mistake::error(row.at(path), message).help(help));
        }
        out.push(clients);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_shown_as_they_are_written() {
        for text in ["192.0.2.0/24", "2001:db8::/32", "country:DE", "continent:EU", "as:64496"] {
            assert_eq!(Clients::parse(text).map(|one| one.to_string()).as_deref(), Ok(text));
        }
        assert_eq!(Clients::parse("country:de"), Clients::parse("country:DE"));
        // Of Kosovo, by no standard; of nobody's but whose database it is.
        assert!(Clients::parse("country:XK").is_ok() && Clients::parse("country:QQ").is_ok());
        for (text, says) in [
            ("country:Germany", "two letters"),
            ("country:UK", "`country:GB`"),
            ("country:EU", "`continent:EU`"),
            ("country:ZY", "no country"),
            ("country:uk", "`country:GB`"),
            ("continent:XX", "is none of AF"),
            ("as:AS3320", "by its number"),
            ("as:4294967296", "by its number"),
            ("planet:earth", "nor `country:DE`"),
        ] {
            let why = Clients::parse(text).unwrap_err();
            assert!(why.contains(says), "{text}: {why}");
        }
    }

    #[test]
    fn a_rule_by_country_needs_a_database() {
        let rules = "[[access]]\nallow = [\"country:DE\", \"10.0.0.0/8\"]\ndeny = [\"as:1\"]\n";
        let wrong = |files: &str| {
            let document = Document::parse(&format!("{files}{rules}")).unwrap();
            let mut wrong = Vec::new();
            crate::access::access(&document, &mut wrong);
            wrong
        };
        let all = wrong("");
        assert_eq!(all.len(), 2, "{all:?}");
        assert_eq!(all[0].message, "access.allow: nothing says who is in `country:DE`");
        assert_eq!(all[1].help.as_deref(), Some("name a database in `[geo] asn`"));
        assert!(wrong("[geo]\ncity = \"a\"\nasn = \"b\"\n").is_empty());
    }
}

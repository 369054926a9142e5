//! `[dns]` and `[[record]]`: what the router answers as a name server.

use super::{Reader, optional};
use crate::decision::table::Node;
use crate::dns::Dns;
use crate::redirect::host_of;
use freshet_config::document::Row;
use freshet_config::mistake::{Mistake, Place};
use freshet_limits::Rate;
use freshet_net::trust::Network;
use hickory_proto::rr::rdata::{A, AAAA, CNAME, TXT};
use hickory_proto::rr::{Name, RData};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Where DNS is answered, and with what.
#[derive(Clone, Debug, Default)]
pub struct DnsSettings {
    /// Addresses for UDP and TCP.
    pub listen: Vec<SocketAddr>,
    /// What is answered besides sites.
    pub dns: Dns,
}

/// How DNS answers for the hosts of a site.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct DnsOfSite {
    /// Whether with the routers' addresses, for clients that are to be redirected.
    pub is_to_routers: bool,
    /// Protocols in HTTPS records; there are none where it is empty.
    pub alpn: Vec<String>,
}

impl Reader<'_> {
    pub(super) fn dns(&mut self, nodes: &[Node]) -> DnsSettings {
        let list = |path: &str| (self.document.value(path).list(), self.document.at(path));
        let [listen, zones, servers, routers, believed] =
            ["listen", "zones", "name_servers", "routers", "client_subnet"]
                .map(|key| list(&format!("dns.{key}")));
        let rate = self.document.value("dns.rate").number();
        let contact = self.document.value("dns.contact").text();
        let mut out = DnsSettings {
            listen: self.all("dns.listen", listen, |text| {
                let whole =
                    if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.into() };
                whole
                    .parse::<SocketAddr>()
                    .map_err(|_| format!("`{text}` is no address: write 192.0.2.53:53"))
            }),
            dns: Dns {
                zones: self.all("dns.zones", zones, name),
                name_servers: self.all("dns.name_servers", servers, name),
                contact: Name::root(),
                ttl: self.document.value("dns.ttl").span(),
                negative_ttl: self.document.value("dns.negative_ttl").span(),
                routers: self.all("dns.routers", routers, |text| {
                    text.parse::<IpAddr>().map_err(|_| format!("`{text}` is no IP address"))
                }),
                believed: self.all("dns.client_subnet", believed, str::parse::<Network>),
                rate: Rate::of(rate, Duration::from_secs(1)).ok(),
                records: HashMap::new(),
            },
        };
        let mailbox = name(&contact.replacen('@', ".", 1));
        let place = self.document.at("dns.contact");
        out.dns.contact = self.checked(mailbox, "dns.contact", place).unwrap_or_default();
        if !out.listen.is_empty() && out.dns.zones.is_empty() {
            let message = "dns.zones has the domains that are answered for; there are none";
            self.wrong.push(Mistake::error(self.document.at("dns.listen"), message));
        }
        for row in self.document.rows("record") {
            if let Some((owner, data)) = self.record(&row, &out.dns.zones) {
                out.dns.records.entry(owner).or_default().push(data);
            }
        }
        self.warn_of_servers(&out.dns, nodes);
        out
    }

    /// A name server of ours that has no address here is found by nobody.
    fn warn_of_servers(&mut self, dns: &Dns, nodes: &[Node]) {
        let is_found = |name: &str| {
            let of_name = dns.records.get(name).is_some_and(|all| {
                all.iter().any(|data| matches!(data, RData::A(_) | RData::AAAA(_)))
            });
            of_name || nodes.iter().any(|node| host_of(&node.host) == name)
        };
        let ours = |name: &&Name| dns.zones.iter().any(|zone| zone.zone_of(name));
        for server in dns.name_servers.iter().filter(ours) {
            let name = server.to_lowercase().to_ascii();
            let name = name.trim_end_matches('.');
            if !is_found(name) {
                let place = self.document.at("dns.name_servers");
                let message = format!("dns.name_servers: `{name}` has no address in its zone");
                let help = format!(
                    "give it one: [[record]] with name = \"{name}\", type = \"A\", value = \"192.0.2.53\""
                );
                self.wrong.push(Mistake::warning(place, message).help(help));
            }
        }
    }

    fn record(&mut self, row: &Row<'_>, zones: &[Name]) -> Option<(String, RData)> {
        let owner = row.value("record[].name").text();
        let owner = self.checked(name(&owner), "record.name", row.at("record[].name"))?;
        if !zones.iter().any(|zone| zone.zone_of(&owner)) {
            self.error(row, "record[].name", format!("`{owner}` is in none of dns.zones"));
        }
        let value = row.value("record[].value").text();
        let data = match row.value("record[].type").text().as_str() {
            "A" => value.parse().map(|one| RData::A(A(one))).map_err(|_| "an IPv4 address"),
            "AAAA" => {
                value.parse().map(|one| RData::AAAA(AAAA(one))).map_err(|_| "an IPv6 address")
            }
            "CNAME" => name(&value).map(|one| RData::CNAME(CNAME(one))).map_err(|_| "a name"),
            // Strings of a TXT record have 255 bytes each (RFC 1035 §3.3).
            _ if value.len() <= 255 => Ok(RData::TXT(TXT::new(vec![value.clone()]))),
            _ => Err("at most 255 bytes"),
        };
        let wrong = |what: &str| format!("`{value}` is not {what}");
        let data = data.map_err(wrong);
        let data = self.checked(data, "record.value", row.at("record[].value"))?;
        let owner = owner.to_lowercase().to_ascii();
        Some((owner.trim_end_matches('.').to_owned(), data))
    }

    pub(super) fn dns_of_site(&mut self, row: &Row<'_>) -> DnsOfSite {
        DnsOfSite {
            is_to_routers: row.value("site[].dns").text() == "routers",
            alpn: self.list_of(row, "site[].alpn", |text| match text.len() {
                1..=32 => Ok(text.to_owned()),
                _ => Err(format!("`{text}` is no protocol, such as h2 or h3")),
            }),
        }
    }

    fn all<T, E: ToString>(
        &mut self,
        key: &str,
        (texts, place): (Vec<String>, Place),
        read: impl Fn(&str) -> Result<T, E>,
    ) -> Vec<T> {
        texts.iter().filter_map(|text| self.checked(read(text), key, place)).collect()
    }
}

/// A name from the root on, in lower case.
fn name(text: &str) -> Result<Name, String> {
    let whole = format!("{}.", text.trim_end_matches('.'));
    let name = optional(text.to_owned()).and_then(|_| Name::from_ascii(whole).ok());
    name.map(|name| name.to_lowercase()).ok_or_else(|| format!("`{text}` is no name of DNS"))
}

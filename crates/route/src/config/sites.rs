//! `[[site]]`: how requests for some hosts are routed, and what clients are told.

use super::{DnsOfSite, Reader, is_authority, optional};
use crate::decision::table::{Draft, KeyPart, Site};
use freshet_config::document::Row;
use freshet_config::hosts::HostPattern;
use freshet_geo::Code;
use std::time::Duration;

/// What becomes of a site's decisions over HTTP.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Redirects {
    /// Status for GET and HEAD.
    pub status: u16,
    /// Scheme of URLs.
    pub scheme: Scheme,
    /// Host of URLs, with `{node}` and `{host}` in it; the node's own where it is empty.
    pub node_host: String,
    /// How long a client's cookie keeps it with its node; zero for no cookie.
    pub sticky: Duration,
    /// Where those that are refused go.
    pub refused_to: Option<String>,
    /// Host for those that no node can take.
    pub bypass: Option<String>,
    /// Path at which players ask which node to take.
    pub steering: Option<String>,
    /// The pathway of manifests that nodes are clones of.
    pub steering_base: String,
}

/// Scheme of URLs clients are sent to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scheme {
    /// That of the request.
    Same,
    /// `http`
    Http,
    /// `https`
    Https,
}

impl Reader<'_> {
    /// Adds sites to the draft; what is said of each over HTTP and DNS is in the same order.
    pub(super) fn sites(&mut self, draft: &mut Draft) -> (Vec<Redirects>, Vec<DnsOfSite>) {
        let (mut out, mut of_dns) = (Vec::new(), Vec::new());
        let rows = self.document.rows("site");
        for row in &rows {
            let mut hosts = self.list_of(row, "site[].hosts", str::parse::<HostPattern>);
            if hosts.is_empty() {
                self.error(row, "site[].name", "a site has site.hosts");
                hosts.push(HostPattern::Any);
            }
            let twice = hosts
                .iter()
                .find(|host| draft.sites.iter().any(|other: &Site| other.hosts.contains(host)));
            if let Some(twice) = twice {
                self.error(row, "site[].hosts", format!("two sites have the host `{twice}`"));
            }
            let name = optional(row.value("site[].name").text());
            let name =
                name.unwrap_or_else(|| hosts.first().map(ToString::to_string).unwrap_or_default());
            let place = row.at("site[].regions");
            let regions = row.value("site[].regions").list();
            let regions = regions
                .iter()
                .filter_map(|name| self.region(&draft.regions, name, "site.regions", place))
                .collect();
            let number = |key: &str| row.value(&format!("site[].{key}")).number();
            draft.sites.push(Site {
                hosts,
                regions,
                key: self.list_of(row, "site[].key", key_part),
                spread: usize::try_from(number("spread")).unwrap_or(1),
                load_bound_percent: u32::try_from(number("load_bound")).unwrap_or(0),
                zones_only: row.value("site[].zones_only").bool(),
                countries: self.countries(row, draft.locator.is_some()),
                answers: usize::try_from(number("answers")).unwrap_or(1),
                ttl: row.value("site[].ttl").span(),
                ..Site::new(&name)
            });
            out.push(self.redirects(row));
            of_dns.push(self.dns_of_site(row));
        }
        if rows.is_empty() {
            // Everything is one site.
            draft.sites.push(Site { hosts: vec![HostPattern::Any], ..Site::new("all") });
            out.push(Redirects::default());
            of_dns.push(DnsOfSite::default());
        }
        (out, of_dns)
    }

    fn countries(&mut self, row: &Row<'_>, has_database: bool) -> Vec<Code> {
        let countries = self.list_of(row, "site[].countries", |text| {
            Code::parse(text).ok_or_else(|| format!("`{text}` is no country, such as DE or AT"))
        });
        if !countries.is_empty() && !has_database {
            let message = "site.countries needs geo.city, a database that knows where clients are";
            self.error(row, "site[].countries", message);
        }
        countries
    }

    fn redirects(&mut self, row: &Row<'_>) -> Redirects {
        let text = |key: &str| row.value(&format!("site[].{key}")).text();
        let node_host = text("node_host");
        if !node_host.is_empty()
            && !is_authority(&node_host.replace("{node}", "n").replace("{host}", "h"))
        {
            let message = format!(
                "site.node_host: `{node_host}` is no host, such as {{node}}.{{host}} or \
                 {{node}}.cdn.example:8080"
            );
            self.error(row, "site[].node_host", message);
        }
        let bypass = optional(text("bypass"));
        if let Some(wrong) = bypass.as_deref().filter(|host| !is_authority(host)) {
            self.error(row, "site[].bypass", format!("site.bypass: `{wrong}` is no host"));
        }
        let refused_to = optional(text("refused_to"));
        let is_url = |url: &&str| {
            ["http://", "https://"].iter().any(|scheme| url.starts_with(scheme))
                && url.bytes().all(|byte| byte.is_ascii_graphic())
        };
        if let Some(wrong) = refused_to.as_deref().filter(|url| !is_url(url)) {
            self.error(row, "site[].refused_to", format!("site.refused_to: `{wrong}` is no URL"));
        }
        let steering = optional(text("steering"));
        if let Some(wrong) = steering.as_deref().filter(|path| !path.starts_with('/')) {
            self.error(
                row,
                "site[].steering",
                format!("site.steering begins with `/`, not `{wrong}`"),
            );
        }
        Redirects {
            status: if text("status") == "307" { 307 } else { 302 },
            scheme: match text("scheme").as_str() {
                "http" => Scheme::Http,
                "https" => Scheme::Https,
                _ => Scheme::Same,
            },
            node_host,
            sticky: row.value("site[].sticky").span(),
            refused_to,
            bypass,
            steering,
            steering_base: text("steering_base"),
        }
    }
}

impl Default for Redirects {
    fn default() -> Self {
        Self {
            status: 302,
            scheme: Scheme::Same,
            node_host: String::new(),
            sticky: Duration::ZERO,
            refused_to: None,
            bypass: None,
            steering: None,
            steering_base: ".".to_owned(),
        }
    }
}

fn key_part(text: &str) -> Result<KeyPart, String> {
    match text.split_once(' ') {
        Some(("parameter", name)) if !name.trim().is_empty() => {
            Ok(KeyPart::Parameter(name.trim().to_owned()))
        }
        _ => match text {
            "path" => Ok(KeyPart::Path),
            "folder" => Ok(KeyPart::Folder),
            "query" => Ok(KeyPart::Query),
            "host" => Ok(KeyPart::Host),
            "client" => Ok(KeyPart::Client),
            _ => Err(format!(
                "`{text}` is none of path, folder, query, parameter NAME, host and client"
            )),
        },
    }
}

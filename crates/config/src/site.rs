//! `[[site]]`: what is served under which hosts, and by what rules.
//!
//! A site is read from its own keys over those of the top level, so each site is complete. Where the
//! file has none, the top level is the one site, for every host.

use super::access::{AccessRule, ErrorPage, Maintenance, access, error_pages, maintenance};
use super::alike::Alike;
use super::bandwidth::{BandwidthRule, bandwidth};
use super::cache::{Cache, cache};
use super::circles;
use super::document::Document;
use super::limits::{SiteLimits, site_limits};
use super::listeners::{Certificate, certificate};
use super::log_fields::{LogFields, log_fields};
use super::media::{Media, media};
use super::mistake::{Mistake, Place};
use super::origins::{
    Director, Health, Origin, OriginTimeouts, director, health, origins, timeouts,
};
use super::parents::{Parents, parents};
use super::rate_limits::{RateLimit, rate_limits};
use super::rules::{Rules, rules};
use super::settings::Settings;
use super::stores::{StorageRule, storage_rule};
use super::tokens::{TokenRule, tokens};
use super::values::{optional, size};
use crate::esi::EsiSettings;
use crate::hosts::HostPattern;
use crate::storage::Storage;
use freshet_cache::Objective;
use freshet_media::Class;
use freshet_net::tls::client_auth::ClientAuth;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Longest name of a site: it is a label of metrics and a part of every key.
pub const NAME_BYTES_MAX: usize = 64;

/// What one site says, and the top level. What several of them have alike is kept once.
#[derive(Clone, Debug)]
pub struct SiteSettings {
    /// Name in logs, metrics and keys; empty for the top level.
    pub name: String,
    /// Where its name is written, or its hosts.
    pub place: Place,
    /// Hosts it is for.
    pub hosts: Vec<HostPattern>,
    /// Memory that what it keeps may have, in bytes, where there is a bound.
    pub memory_bytes_max: Option<u64>,
    /// The same of all stores.
    pub disk_bytes_max: Option<u64>,
    /// File with a token that changes and shows what it has, where there is one.
    pub admin_token_file: Option<PathBuf>,
    /// Where that is written.
    pub admin_token_place: Place,
    /// Fields of messages that the access log has.
    pub log_fields: Arc<LogFields>,
    /// File with a policy in VCL.
    pub vcl: Option<PathBuf>,
    /// Where that is written.
    pub vcl_place: Place,
    /// Its own certificates.
    pub certificates: Vec<Certificate>,
    /// Shortest lifetime of what goes to a disk.
    pub store_ttl_min: Duration,
    /// Where responses may be kept; the first that fits counts.
    pub storage_rules: Vec<StorageRule>,
    /// Origins, at least one where there is neither VCL nor a parent.
    pub origins: Vec<Origin>,
    /// Caches that are asked before them.
    pub parents: Arc<Parents>,
    /// How an origin is chosen.
    pub director: Director,
    /// Timeouts towards origins.
    pub origin_timeouts: Arc<OriginTimeouts>,
    /// Protocols clients may change to.
    pub upgrades: Arc<[String]>,
    /// How long nothing may move in the tunnel that follows.
    pub upgrade_idle: Duration,
    /// Active checks, where asked for.
    pub health: Option<Arc<Health>>,
    /// Caching.
    pub cache: Arc<Cache>,
    /// How pages with includes are read.
    pub esi: Arc<EsiSettings>,
    /// Playlists and manifests.
    pub media: Arc<Media>,
    /// Limits.
    pub limits: SiteLimits,
    /// What becomes of requests and responses, where no VCL decides that.
    pub rules: Arc<Rules>,
    /// How much clients may ask for.
    pub rate_limits: Arc<[RateLimit]>,
    /// How fast responses are sent.
    pub bandwidth: Arc<[BandwidthRule]>,
    /// Who may have what.
    pub tokens: Arc<[TokenRule]>,
    /// Whose certificates clients are asked for.
    pub client_auth: Option<ClientAuth>,
    /// Where that is written.
    pub client_auth_place: Place,
    /// Who is let in at all.
    pub access: Arc<[AccessRule]>,
    /// Whether nobody is served.
    pub maintenance: Arc<Maintenance>,
    /// What those are told who get nothing.
    pub error_pages: Arc<[ErrorPage]>,
}

/// What a document says of content, for a node with so much memory; what is wrong is listed. What it has as
/// sites before it do is theirs too.
pub(super) fn site_of(
    document: &Document,
    memory_bytes: u64,
    alike: &mut Alike,
    wrong: &mut Vec<Mistake>,
) -> SiteSettings {
    let storage = document.rows("storage");
    let storage_rules = storage.iter().filter_map(|row| storage_rule(row, wrong)).collect();
    let origins = origins(document, wrong);
    let cache = alike.cache.of(cache(document, memory_bytes, wrong));
    let parents = parents(document, &origins, cache.loop_id.as_deref(), wrong);
    let maintenance = maintenance(document, wrong);
    SiteSettings {
        name: String::new(),
        place: Place::default(),
        hosts: Vec::new(),
        memory_bytes_max: None,
        disk_bytes_max: None,
        admin_token_file: None,
        admin_token_place: Place::default(),
        log_fields: alike.log_fields.of(log_fields(document, wrong)),
        vcl_place: document.at("vcl"),
        vcl: optional(document.value("vcl").text()).map(Into::into),
        certificates: document.own_rows("certificate").iter().map(certificate).collect(),
        store_ttl_min: document.value("stores.ttl_min").span(),
        storage_rules,
        // Who is named, and which file, is told of with the place where this site has it.
        parents: if parents.all().next().is_none() {
            alike.parents.of(parents)
        } else {
            parents.into()
        },
        origins,
        director: director(document),
        origin_timeouts: alike.origin_timeouts.of(timeouts(document)),
        upgrades: alike.upgrades.of(document.value("origins.upgrades").list()),
        upgrade_idle: document.value("origins.upgrade_idle").span(),
        health: health(document, wrong).map(|health| alike.health.of(health)),
        cache,
        esi: alike.esi.of(EsiSettings {
            includes_max: u32::try_from(document.value("esi.includes_max").number())
                .unwrap_or(u32::MAX),
            bytes_max: document.value("esi.bytes_max").number(),
            timeout: document.value("esi.timeout").span(),
            ..EsiSettings::default()
        }),
        media: alike.media.of(media(document, wrong)),
        limits: site_limits(document),
        rules: alike.rules.of(rules(document, wrong)),
        rate_limits: rate_limits(document, wrong),
        bandwidth: bandwidth(document, wrong),
        tokens: tokens(document, wrong),
        client_auth: optional(document.value("client_ca").text()).map(|ca| ClientAuth {
            ca: ca.into(),
            required: document.value("client_certificates").text() == "required",
        }),
        client_auth_place: document.at("client_ca"),
        access: access(document, wrong),
        maintenance: if maintenance.page.is_none() {
            alike.maintenance.of(maintenance)
        } else {
            maintenance.into()
        },
        error_pages: error_pages(document, wrong),
    }
}

/// That certificates are wanted and nobody is said who signs them.
pub(super) fn certificates_of_nobody(place: Place) -> Mistake {
    let message = "client_certificates is without `client_ca`: nobody would be asked for any";
    Mistake::error(place, message).help("name the file of the authorities in client_ca")
}

/// The rows of `[[site]]`; what is wrong is listed under the site's name.
pub(super) fn sites(
    document: &Document,
    memory_bytes: u64,
    alike: &mut Alike,
    wrong: &mut Vec<Mistake>,
) -> Vec<Arc<SiteSettings>> {
    let mut sites = Vec::new();
    let of_all = wrong.clone();
    for (index, own) in document.sites().enumerate() {
        let mut of_site = Vec::new();
        let name = own.value("site[].name").text();
        let name = optional(name).or_else(|| own.value("site[].hosts").list().into_iter().next());
        let name = name.unwrap_or_default();
        let mut site = site_of(&own, memory_bytes, alike, &mut of_site);
        let hosts = own.value("site[].hosts").list();
        site.hosts.reserve_exact(hosts.len());
        for host in hosts {
            match host.parse() {
                Ok(pattern) => site.hosts.push(pattern),
                Err(error) => {
                    let place = own.at("site[].hosts");
                    of_site.push(Mistake::error(place, format!("hosts: {error}")));
                }
            }
        }
        site.memory_bytes_max = bound(&own, "site[].memory_max", &mut of_site);
        site.disk_bytes_max = bound(&own, "site[].disk_max", &mut of_site);
        site.admin_token_file =
            optional(own.value("site[].admin_token_file").text()).map(Into::into);
        site.admin_token_place = own.at("site[].admin_token_file");
        if own.has("client_certificates") && site.client_auth.is_none() {
            of_site.push(certificates_of_nobody(own.at("client_certificates")));
        }
        site.name.clone_from(&name);
        if site.hosts.is_empty() && of_site.is_empty() {
            let message = "hosts is missing: give `hosts = [\"www.example\"]`";
            of_site.push(Mistake::error(own.at("site[].hosts"), message));
        }
        if name.len() > NAME_BYTES_MAX || name.bytes().any(|byte| !byte.is_ascii_graphic()) {
            let message = format!("name is 1 to {NAME_BYTES_MAX} letters, digits and signs");
            of_site.push(Mistake::error(own.at("site[].name"), message));
        }
        let title = if name.is_empty() { format!("site {}", index + 1) } else { name };
        site.place = own.at("site[].name").or(own.at("site[].hosts"));
        let is_read = of_site.is_empty();
        // What the top level has wrong is told once.
        of_site.retain(|one| !of_all.iter().any(|other| other.is_same(one)));
        wrong.extend(of_site.into_iter().map(|mistake| Mistake {
            message: format!("site `{title}`: {}", mistake.message),
            ..mistake
        }));
        if is_read {
            site.check(wrong);
        }
        sites.push(Arc::new(site));
    }
    sites
}

/// What a site may have of something that all share, in bytes, where it has a bound.
fn bound(own: &Document, path: &str, wrong: &mut Vec<Mistake>) -> Option<u64> {
    optional(own.value(path).text())?;
    let before = wrong.len();
    let bytes = size(own, path, wrong);
    if bytes == 0 && wrong.len() == before {
        let key = path.trim_start_matches("site[].");
        let message = format!("{key} is 0: nothing could be kept; `[site.cache]` says what is");
        wrong.push(Mistake::error(own.at(path), message));
    }
    Some(bytes)
}

impl SiteSettings {
    /// Where a response to a request for this target may be kept, by the rules of the
    /// configuration.
    pub fn storage_of(&self, target: &str) -> Storage {
        self.storage_rule(target, None).map_or_else(Storage::default, |rule| rule.storage.clone())
    }

    /// The same for what is of such a presentation, where a rule says something of these.
    pub fn storage_of_media(&self, target: &str, class: Class) -> Option<&Storage> {
        let rule = self.storage_rule(target, Some(class))?;
        rule.media.map(|_| &rule.storage)
    }

    /// Whether a rule says something of presentations of some kind.
    pub fn stores_by_media(&self) -> bool {
        self.storage_rules.iter().any(|rule| rule.media.is_some())
    }

    /// What memory is to have the most of of responses to requests for this target, where a rule
    /// says so.
    pub fn objective_of(&self, target: &str) -> Option<Objective> {
        self.storage_rule(target, None).and_then(|rule| rule.objective)
    }

    fn storage_rule(&self, target: &str, class: Option<Class>) -> Option<&StorageRule> {
        let fits = |rule: &&StorageRule| {
            target.starts_with(&rule.path) && (rule.media.is_none() || rule.media == class)
        };
        self.storage_rules.iter().find(fits)
    }

    /// What one site cannot be without.
    pub(super) fn check(&self, wrong: &mut Vec<Mistake>) {
        let site = match self.name.as_str() {
            "" => String::new(),
            name => format!("site `{name}`: "),
        };
        if self.vcl.is_none() {
            let has_parents = !self.parents.groups.is_empty();
            if self.origins.is_empty() && !has_parents && !self.rules.redirect_everything() {
                let message = match self.name.as_str() {
                    "" => "no origin: give --origin URL, --vcl FILE, or [[origin]] with url in \
                           the file"
                        .to_owned(),
                    name => format!("site `{name}`: no origin: give [[site.origin]] with url"),
                };
                wrong.push(Mistake::error(self.place, message));
            }
            let is_for_all = |origin: &Origin| origin.paths.is_empty();
            if let Some(first) = self.origins.first()
                && !self.origins.iter().any(is_for_all)
                && !has_parents
            {
                let message = format!(
                    "{site}each origin is for some paths, and none for the others: give one \
                     [[origin]] without `paths`"
                );
                wrong.push(Mistake::error(first.place, message));
            }
            return;
        }
        if let Some(parent) = self.parents.all().next() {
            let message = format!(
                "{site}[[parent]] and [[sibling]] are for sites without VCL; the policy in vcl names its backends \
                 itself"
            );
            wrong.push(Mistake::error(parent.place, message));
        }
        if !self.rules.is_empty() {
            let message = format!(
                "{site}header, path, redirect, cors and cache_rule are for sites without VCL; the policy in \
                 vcl does that itself"
            );
            wrong.push(Mistake::error(self.vcl_place, message));
        }
    }
}

impl Settings {
    pub(super) fn check_sites(&self, wrong: &mut Vec<Mistake>) {
        let asks_nobody = self.served().iter().all(|site| site.client_auth.is_none());
        if asks_nobody && self.document.has("client_certificates") {
            wrong.push(certificates_of_nobody(self.document.at("client_certificates")));
        }
        if !self.listeners.iter().any(|listener| listener.tls) {
            let asking = |site: &&Arc<SiteSettings>| site.client_auth.is_some();
            for site in self.served().iter().filter(asking) {
                let message = "client_ca is for clients with TLS: no [[listen]] has `tls = true`";
                wrong.push(Mistake::error(site.client_auth_place, message));
            }
        }
        let schemes = [("http", false), ("https", true)].map(|(scheme, tls)| {
            Some(scheme).filter(|_| self.listeners.iter().any(|listener| listener.tls == tls))
        });
        let sites = self.served();
        let redirects = sites.iter().map(|site| &site.rules.redirects);
        let with_before = redirects.flat_map(|all| {
            all.iter().enumerate().map(|(at, rule)| (rule, all.get(..at).unwrap_or_default()))
        });
        for (rule, before) in with_before {
            let leads_to_itself = |scheme: &&&str| rule.leads_to_itself(scheme, before);
            let looped = schemes.iter().flatten().find(leads_to_itself);
            if let Some(scheme) = looped {
                let message = format!(
                    "redirect.to `{}` leads what comes over {scheme} to where it leads on, so it \
                     would never arrive",
                    rule.to
                );
                let help = "from HTTP to HTTPS it is `scheme = \"http\"` and \
                            `to = \"https://{host}/{rest}\"`";
                wrong.push(Mistake::error(rule.place, message).help(help));
            }
        }
        if wrong.is_empty() {
            check_circles(&sites, &schemes.into_iter().flatten().collect::<Vec<_>>(), wrong);
        }
        let (mut names, mut hosts) = (HashMap::new(), HashMap::new());
        for site in &self.sites {
            if names.insert(&site.name, ()).is_some() {
                let message =
                    format!("two sites are named `{}`: give them different names", site.name);
                wrong.push(Mistake::error(site.place, message));
            }
            for host in &site.hosts {
                if let Some(other) = hosts.insert(host, &site.name) {
                    let message = format!(
                        "`{host}` is in the hosts of `{other}` and of `{}`: it is one site's",
                        site.name
                    );
                    wrong.push(Mistake::error(site.place, message));
                }
            }
        }
    }
}

/// Says which redirects lead back, where it is not the first step that does.
fn check_circles(sites: &[Arc<SiteSettings>], schemes: &[&str], wrong: &mut Vec<Mistake>) {
    for site in sites {
        let is_exact = |one: &HostPattern, name: &str| matches!(one, HostPattern::Exact(host) if **host == *name);
        let of = |site: &SiteSettings, name: &str| site.hosts.iter().any(|one| is_exact(one, name));
        let is_ours = |name: &str| {
            let is_below =
                site.hosts.iter().any(|one| *one != HostPattern::Any && one.covers(name));
            of(site, name) || (is_below && !sites.iter().any(|other| of(other, name)))
        };
        if let Some(rule) = circles::first(&site.rules.redirects, &site.hosts, schemes, is_ours) {
            let message = format!(
                "redirect.to `{}` leads back to where requests of this site came from, so they would \
                 never arrive",
                rule.to
            );
            let help =
                "what is to move to another host is a [[site]] of its own, without that host";
            wrong.push(Mistake::error(rule.place, message).help(help));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: &str = "[[site.origin]]\nurl = \"http://a\"\n";

    fn settings(text: &str) -> Result<Settings, Vec<Mistake>> {
        Settings::from_document(&Document::parse(text).expect("the text is well-formed"))
    }

    #[test]
    fn a_site_is_complete_by_the_top_level() {
        let text = format!(
            "[cache]\ngrace = \"1m\"\nesi = true\n[[header]]\nname = \"X-A\"\nvalue = \"top\"\n\
             [[site]]\nhosts = [\"A.example\", \"*.a.example\"]\n[site.cache]\nesi = false\n{ORIGIN}\
             [[site]]\nname = \"b\"\nhosts = [\"*\"]\n{ORIGIN}[[site.header]]\nname = \"X-B\"\nvalue = \"b\"\n"
        );
        let settings = settings(&text).unwrap();
        let [first, second] = &settings.sites[..] else { panic!("two sites") };
        assert_eq!((first.name.as_str(), second.name.as_str()), ("A.example", "b"));
        assert_eq!(first.cache.grace, Duration::from_secs(60));
        assert_eq!((first.cache.esi, second.cache.esi), (false, true));
        assert_eq!(first.hosts[0], HostPattern::Exact("a.example".into()));
        assert_eq!(first.rules.response_fields[0].name, "X-A");
        assert_eq!(second.rules.response_fields.len(), 1);
        assert_eq!(second.rules.response_fields[0].name, "X-B");
        assert_eq!(settings.served().len(), 2);
    }

    #[test]
    fn what_sites_have_alike_is_kept_once() {
        let site =
            |host: &str, more: &str| format!("[[site]]\nhosts = [\"{host}\"]\n{more}{ORIGIN}");
        let negative = "[site.cache]\nnegative = \"9s\"\n";
        let named = "[[site.parent]]\nurl = \"http://p\"\n";
        let text = "[[header]]\nname = \"X-A\"\nvalue = \"a\"\n".to_owned()
            + &site("a", negative)
            + &site("b", "")
            + &site("c", &format!("{negative}{named}"))
            + &site("d", named);
        let settings = settings(&text).unwrap();
        let [a, b, c, d] = &settings.sites[..] else { panic!("four sites") };
        assert!(Arc::ptr_eq(&a.cache, &c.cache) && Arc::ptr_eq(&b.cache, &d.cache));
        assert!(Arc::ptr_eq(&b.cache, &settings.site.cache) && a.cache != b.cache);
        for site in [a, b, c, d] {
            assert!(Arc::ptr_eq(&site.rules, &settings.site.rules));
            assert!(Arc::ptr_eq(&site.media, &settings.site.media));
            assert!(Arc::ptr_eq(&site.upgrades, &settings.site.upgrades));
        }
        // Where one is named, it is told of as this site's.
        assert!(Arc::ptr_eq(&a.parents, &b.parents) && !Arc::ptr_eq(&c.parents, &d.parents));
        let places = [c, d].map(|site| site.parents.groups[0][0].place.span());
        assert_ne!(places[0], places[1]);
    }

    #[test]
    fn a_site_that_leads_everything_elsewhere_needs_no_origin() {
        let of = |rule: &str| {
            settings(&format!("[[site]]\nhosts = [\"a.example\"]\n[[site.redirect]]\n{rule}"))
        };
        assert!(of("to = \"https://www.a.example/{rest}\"\n").is_ok());
        assert!(of("scheme = \"http\"\nto = \"https://{host}/{rest}\"\n").is_err());
        assert!(of("from = \"/a\"\nto = \"/b\"\n").is_err());
    }

    #[test]
    fn a_redirect_that_never_arrives_is_refused_where_there_is_such_a_request() {
        let of = |listen: &str, rule: &str| {
            let text = format!("{listen}[[origin]]\nurl = \"http://a\"\n[[redirect]]\n{rule}");
            let wrong = settings(&text).err().unwrap_or_default();
            wrong.iter().any(|mistake| mistake.message.contains("never arrive"))
        };
        let clear = "[[listen]]\naddress = \":80\"\n";
        let both = "[[listen]]\naddress = \":80\"\n[[listen]]\naddress = \":443\"\ntls = true\n";
        let to_https = "to = \"https://{host}/{rest}\"\n";
        assert!(of(both, to_https));
        assert!(!of(clear, to_https));
        assert!(!of(both, &format!("scheme = \"http\"\n{to_https}")));
        assert!(of(both, &format!("scheme = \"https\"\n{to_https}")));
        assert!(of(clear, "to = \"/{rest}\"\n"));
        assert!(of(clear, "from = \"/a\"\nto = \"http://{host}/a\"\n"));
        assert!(!of(clear, "from = \"/a/*\"\nto = \"/b/{rest}\"\n"));
        assert!(!of(clear, "from = \"/a/*\"\nto = \"https://b.example/a/{rest}\"\n"));
        // All to one page of its own, or ever further down.
        assert!(of(clear, "to = \"/new\"\n"));
        assert!(of(clear, "to = \"http://{host}/new?a=b\"\n"));
        assert!(of(clear, "from = \"/a*\"\nto = \"/a/x\"\n"));
        assert!(of(clear, "from = \"/a/*\"\nto = \"/a/b/{rest}\"\n"));
        assert!(of(clear, "from = \"/a\"\nto = \"/a?b=c\"\n"));
        assert!(!of(clear, "from = \"/a/*\"\nto = \"/a\"\n"));
        assert!(!of(clear, "from = \"/*\"\nscheme = \"http\"\nto = \"https://{host}/new\"\n"));
        assert!(!of(clear, "to = \"http://b.example/new\"\n"));
        // One before it leads on from there.
        let first = "from = \"/new\"\nto = \"https://b.example/\"\n[[redirect]]\n";
        assert!(!of(clear, &format!("{first}to = \"/new\"\n")));
        assert!(of(clear, &format!("{first}to = \"/newer\"\n")));
    }

    #[test]
    fn redirects_that_lead_in_a_circle_are_refused_where_that_can_be_seen() {
        let of = |listen: &str, hosts: &str, rules: &[(&str, &str)]| {
            let rules = rules
                .iter()
                .map(|(from, to)| format!("[[site.redirect]]\nfrom = \"{from}\"\nto = \"{to}\"\n"));
            let rules = rules.collect::<String>();
            let text = format!("{listen}[[site]]\nhosts = [{hosts}]\n{rules}{ORIGIN}");
            let wrong = settings(&text).err().unwrap_or_default();
            wrong.iter().any(|mistake| mistake.message.contains("never arrive"))
        };
        let clear = "[[listen]]\naddress = \":80\"\n";
        let both = "[[listen]]\naddress = \":80\"\n[[listen]]\naddress = \":443\"\ntls = true\n";
        let hosts = "\"a.example\", \"www.a.example\"";
        // To the one host of two, of both.
        for (scheme, listen) in [("http", clear), ("https", both)] {
            let all = ("/*", &*format!("{scheme}://WWW.a.example/{{rest}}"));
            assert!(of(listen, hosts, &[all]), "{scheme}");
            assert!(of(listen, "\"a.example\", \"*.a.example\"", &[all]), "{scheme}");
            assert!(!of(listen, "\"a.example\"", &[all]), "{scheme}");
            assert!(!of(listen, "\"*\"", &[all]), "{scheme}");
            let other = format!("{listen}[[site]]\nhosts = [\"www.a.example\"]\n{ORIGIN}");
            assert!(!of(&other, "\"a.example\", \"*.a.example\"", &[all]), "{scheme}");
        }
        // What ends the TLS before it may know another way.
        assert!(!of(clear, hosts, &[("/*", "https://www.a.example/{rest}")]));
        assert!(!of(both, hosts, &[("/*", "https://www.a.example:8443/{rest}")]));
        // By way of another rule, and of another host.
        assert!(of(clear, hosts, &[("/a", "/b"), ("/b", "/a")]));
        assert!(of(clear, hosts, &[("/a/*", "/b/{rest}"), ("/b/*", "http://a.example/a/{rest}")]));
        assert!(of(clear, hosts, &[("/a", "http://www.a.example/a?b=c")]));
        assert!(!of(clear, hosts, &[("/a", "/b"), ("/b", "/c"), ("/c", "http://b.example/a")]));
        assert!(!of(clear, hosts, &[("/a/*", "/{rest}"), ("/b/*", "/a/{rest}")]));
    }

    #[test]
    fn what_is_wrong_with_a_site_names_it() {
        for (text, says) in [
            ("[[site]]\nname = \"x\"\nhosts = [\"a\"]\n".to_owned(), "site `x`: no origin"),
            (format!("[[site]]\nname = \"x\"\n{ORIGIN}"), "site `x`: hosts is missing"),
            (format!("[[site]]\nhosts = [\"a:80\"]\n{ORIGIN}"), "`a:80` is no host"),
            (format!("[[site]]\nhosts = [\"*.*\"]\n{ORIGIN}"), "is no host"),
            (format!("[[site]]\nname = \"a b\"\nhosts = [\"a\"]\n{ORIGIN}"), "name is 1 to"),
            (format!("[[site]]\nhosts = [\"a\"]\n{ORIGIN}").repeat(2), "two sites are named `a`"),
            (
                format!(
                    "[[site]]\nname = \"x\"\nhosts = [\"a\"]\n{ORIGIN}\
                     [[site]]\nname = \"y\"\nhosts = [\"A\"]\n{ORIGIN}"
                ),
                "`a` is in the hosts of `x` and of `y`",
            ),
            (
                "[[site]]\nhosts = [\"a\"]\n[[site.origin]]\nurl = \"http://b\"\npaths = [\"/a/\"]\n"
                    .into(),
                "none for the others",
            ),
            (
                "[[site]]\nhosts = [\"a\"]\nvcl = \"a.vcl\"\n[site.cors]\norigins = [\"*\"]\n"
                    .into(),
                "site `a`: header, path, redirect, cors and cache_rule",
            ),
        ] {
            let wrong = settings(&text).expect_err(&text);
            assert!(wrong.iter().any(|line| line.message.contains(says)), "{wrong:?}");
        }
    }

    #[test]
    fn what_holds_for_the_node_cannot_stand_in_a_site() {
        let text = format!("[[site]]\nhosts = [\"a\"]\nworkers = 2\n{ORIGIN}");
        let wrong = Document::parse(&text).unwrap_err();
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert_eq!(wrong[0].message, "`workers` holds for the whole node");
        let text = format!("[[site]]\nhosts = [\"a\"]\n[site.cache]\nname = \"x\"\n{ORIGIN}");
        assert!(Document::parse(&text).unwrap_err()[0].message.contains("whole node"));
        let text = format!("[[site]]\nhots = [\"a\"]\n{ORIGIN}");
        let wrong = Document::parse(&text).unwrap_err();
        assert_eq!(wrong[0].help.as_deref(), Some("did you mean `hosts`?"));
    }
}

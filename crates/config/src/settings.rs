//! The configuration as the node uses it: typed, complete, checked.

use super::acme::{Acme, acme};
use super::alike::Alike;
use super::document::Document;
use super::fleet::{Fleet, fleet};
use super::forwarded::{Forwarded, forwarded};
use super::geo::{GeoFiles, geo};
use super::limits::{Limits, limits};
use super::listeners::{Listener, listener};
use super::lower::{LowerMemory, lower_memory};
use super::mistake::Mistake;
use super::site::{SiteSettings, site_of, sites};
use super::stores::{Store, means_other, store};
use super::traces::{Tracing, tracing};
use super::values::{MEMORY_BYTES_MIN, count, memory, parse_address};
use crate::bans::BanSettings;
use crate::storage::Storage;
use freshet_base::units::format_bytes;
use freshet_net::address::Address;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Everything `freshet.toml` and the flags decide. Field names are the keys; see
/// [`super::keys::KEYS`] for what each means.
#[derive(Clone, Debug)]
pub struct Settings {
    /// 0 is one for each usable core.
    pub workers: usize,
    /// Groups of workers; `None` is one for each NUMA node.
    pub numa_groups: Option<usize>,
    /// Bytes, `auto` resolved.
    pub memory_bytes: u64,
    /// Bytes of it that are kept ready before they are needed.
    pub memory_ahead_bytes: u64,
    /// Time for open requests at an end.
    pub drain: Duration,
    /// Where clients connect.
    pub listeners: Vec<Listener>,
    /// Certificates that are got by themselves.
    pub acme: Option<Acme>,
    /// Oldest version is 1.3.
    pub tls13_only: bool,
    /// Files with keys of session tickets; none where the node draws its own.
    pub ticket_keys: Vec<PathBuf>,
    /// Time for a TLS handshake.
    pub handshake_timeout: Duration,
    /// Disks.
    pub stores: Vec<Store>,
    /// `[lower_memory]`
    pub lower_memory: Option<LowerMemory>,
    /// `[fleet]`
    pub fleet: Option<Fleet>,
    /// `[forwarded]`
    pub forwarded: Forwarded,
    /// `[geo]`
    pub geo: GeoFiles,
    /// `[tracing]`
    pub tracing: Option<Tracing>,
    /// How clients speak HTTP/2.
    pub http2: Http2,
    /// How bans are worked off.
    pub bans: BanSettings,
    /// Limits on clients.
    pub limits: Limits,
    /// Access log.
    pub log: Log,
    /// Admin interface address.
    pub admin_listen: Option<Address>,
    /// Names the admin interface answers to, besides addresses and the machine's own.
    pub admin_hosts: Vec<String>,
    /// File with the admin token; `None` is one in the runtime directory.
    pub admin_token_file: Option<PathBuf>,
    /// What is said of content outside `[[site]]`: the only site where there is no other, and what
    /// holds for each that does not say otherwise.
    pub site: SiteSettings,
    /// `[[site]]`
    pub sites: Vec<Arc<SiteSettings>>,
    /// What all this was read from.
    pub document: Arc<Document>,
}

/// What clients are told about HTTP/2. No keys: the defaults suit all networks we know of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Http2 {
    /// Bytes of a request's body that may wait for the origin to take them.
    pub stream_window_bytes: u32,
    /// The same of all requests of a connection.
    pub connection_window_bytes: u32,
    /// Bytes of the table for compressed fields.
    pub header_table_bytes: u32,
}

impl Default for Http2 {
    /// 1 MiB fills a 100 Mbit/s path of 80 ms, and four such bodies may wait before one that does
    /// not has to.
    fn default() -> Self {
        Self {
            stream_window_bytes: 1 << 20,
            connection_window_bytes: 4 << 20,
            header_table_bytes: 4096,
        }
    }
}

/// `[log]`
#[derive(Clone, Debug)]
pub struct Log {
    /// Where to.
    pub access: LogTarget,
    /// Format text.
    pub format: String,
}

/// `log.access`
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LogTarget {
    /// Nowhere.
    Off,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A file, appended to and opened again on reload.
    File(PathBuf),
}

/// The most that is kept ready unless all is.
const MEMORY_AHEAD_BYTES_MAX: u64 = 512 << 20;

/// What is kept ready of so much memory unless all is.
pub fn memory_ahead_bytes(memory_bytes: u64) -> u64 {
    (memory_bytes / 8).min(MEMORY_AHEAD_BYTES_MAX)
}

impl Settings {
    /// Settings from a document; all that is wrong is listed.
    ///
    /// # Errors
    /// What says which key is wrong and what it takes, at its place.
    pub fn from_document(document: &Document) -> Result<Self, Vec<Mistake>> {
        let (settings, wrong) = Self::read(document, true);
        if wrong.is_empty() { Ok(settings) } else { Err(wrong) }
    }

    /// What a document says, with defaults where it is wrong, and all that is. Where it is not all of a text, as some of
    /// that could not be read, tables are not held against one another.
    pub fn read(document: &Document, is_whole: bool) -> (Self, Vec<Mistake>) {
        let mut wrong = Vec::new();
        let text = |path: &str| document.value(path).text();
        let memory_bytes = memory(document, &mut wrong);
        let mut alike = Alike::default();
        let before = wrong.len();
        let site = site_of(document, memory_bytes, &mut alike, &mut wrong);
        if document.sites().next().is_none() && wrong.len() == before {
            site.check(&mut wrong);
        }
        let sites = sites(document, memory_bytes, &mut alike, &mut wrong);
        let rows = |table: &str| document.rows(table);
        let settings = Self {
            workers: count(document.value("workers").number()),
            numa_groups: Some(count(document.value("numa_groups").number()))
                .filter(|groups| *groups > 0),
            memory_bytes,
            memory_ahead_bytes: match text("memory_ahead").as_str() {
                "all" => u64::MAX,
                "none" => 0,
                _ => memory_ahead_bytes(memory_bytes),
            },
            drain: document.value("drain").span(),
            listeners: rows("listen").iter().filter_map(|row| listener(row, &mut wrong)).collect(),
            acme: acme(document, &mut wrong),
            tls13_only: text("tls.min_version") == "1.3",
            ticket_keys: document
                .value("tls.ticket_keys")
                .list()
                .into_iter()
                .map(Into::into)
                .collect(),
            handshake_timeout: document.value("tls.handshake_timeout").span(),
            stores: rows("store").iter().filter_map(|row| store(row, &mut wrong)).collect(),
            lower_memory: lower_memory(document, &mut wrong),
            fleet: fleet(document, &mut wrong),
            forwarded: forwarded(document, &mut wrong),
            geo: geo(document),
            tracing: tracing(document, &mut wrong),
            http2: Http2::default(),
            bans: BanSettings::default(),
            limits: limits(document, memory_bytes, &mut wrong),
            log: Log { access: log_target(document, &mut wrong), format: text("log.format") },
            admin_listen: match text("admin.listen").as_str() {
                "off" => None,
                _ => parse_address(document, "admin.listen", &mut wrong),
            },
            admin_hosts: document.value("admin.hosts").list(),
            admin_token_file: Some(text("admin.token_file"))
                .filter(|f| f != "auto")
                .map(Into::into),
            site,
            sites,
            document: Arc::new(document.clone()),
        };
        if is_whole {
            settings.check_addresses(&mut wrong);
            settings.check_files(&mut wrong);
            settings.check_groups(&mut wrong);
            settings.check_classes(&mut wrong);
            settings.check_sites(&mut wrong);
        }
        (settings, wrong)
    }

    /// All that may have certificates of its own: the top level, whose are for whatever they name, then the sites.
    pub fn certified(&self) -> impl Iterator<Item = &SiteSettings> {
        std::iter::once(&self.site).chain(self.sites.iter().map(|site| &**site))
    }

    /// What is served: the sites, or the one of the top level where there are none.
    pub fn served(&self) -> Vec<Arc<SiteSettings>> {
        if self.sites.is_empty() { vec![Arc::new(self.site.clone())] } else { self.sites.clone() }
    }

    /// The classes of the stores, each once for every store that has it, and that of memory of a
    /// lower class.
    pub fn store_classes(&self) -> impl Iterator<Item = &str> {
        let lower = self.lower_memory.iter().map(|lower| lower.class.as_str());
        self.stores.iter().map(|store| store.class.as_str()).chain(lower)
    }

    /// Two listeners of one address would share its connections by chance.
    fn check_addresses(&self, wrong: &mut Vec<Mistake>) {
        let listeners = self.listeners.iter().map(|listener| (&listener.address, listener.place));
        let admin = self.admin_listen.iter().map(|admin| (admin, self.document.at("admin.listen")));
        let mut known: Vec<&Address> = Vec::new();
        for (address, place) in listeners.chain(admin).filter(|(each, _)| each.port() != Some(0)) {
            let other = known.iter().find(|other| address.is_in_way_of(other));
            if let Some(other) = other {
                let message = match *other == address {
                    true => format!("the address {address} is given twice"),
                    false => format!("the addresses {other} and {address} have clients in common"),
                };
                wrong.push(Mistake::error(place, message).help("change or remove one of them"));
            }
            known.push(address);
        }
    }

    /// What two write to is of use to neither.
    fn check_files(&self, wrong: &mut Vec<Mistake>) {
        let mut known: Vec<&Path> = match &self.log.access {
            LogTarget::File(path) => vec![path],
            _ => Vec::new(),
        };
        for store in &self.stores {
            // By components, so that `./` makes no difference.
            if known.iter().any(|other| other.components().eq(store.path.components())) {
                let message = format!("store.path: {} is given twice", store.path.display());
                wrong
                    .push(Mistake::error(store.place, message).help("give each a file of its own"));
            }
            known.push(&store.path);
        }
    }

    /// Memory has to be enough for the groups that were asked for, and to be divisible.
    fn check_groups(&self, wrong: &mut Vec<Mistake>) {
        let Some(groups) = self.numa_groups.filter(|groups| *groups > 1) else { return };
        let place = self.document.at("numa_groups");
        if self.memory_bytes / (groups as u64) < MEMORY_BYTES_MIN {
            let (all, least) = (format_bytes(self.memory_bytes), format_bytes(MEMORY_BYTES_MIN));
            let message =
                format!("numa_groups is {groups}, and memory {all}: each has {least} at least");
            wrong.push(Mistake::error(place, message).help("give fewer groups, or more memory"));
        }
        if self.lower_memory.as_ref().is_some_and(|lower| !lower.placement.is_divisible()) {
            let message = "lower_memory.path is one file, which groups cannot divide";
            let help = "give numa_groups = 1, or lower_memory.numa_node";
            wrong.push(Mistake::error(place, message).help(help));
        }
    }

    fn check_classes(&self, wrong: &mut Vec<Mistake>) {
        if let Some(lower) = &self.lower_memory
            && (means_other(&lower.class).is_some()
                || self.stores.iter().any(|store| store.class == lower.class))
        {
            let message = format!(
                "lower_memory.class is `{}`, which is something else's name: give another",
                lower.class
            );
            wrong.push(Mistake::error(self.document.at("lower_memory.class"), message));
        }
        let served = self.served();
        let rules = || served.iter().flat_map(|site| &site.storage_rules);
        for rule in rules().filter(|rule| rule.media.is_some()) {
            if rule.storage == Storage::Configured || rule.objective.is_some() {
                let message = "storage.media goes with a `class` that is not `any`, and without \
                               `objective`: that is by path only";
                wrong.push(Mistake::error(rule.place, message));
            }
        }
        for (class, place) in rules().filter_map(|rule| Some((rule.storage.class()?, rule.place))) {
            if !self.store_classes().any(|known| known == class) {
                let message = format!(
                    "storage.class names `{class}`, which nothing has: give a `[[store]]` \
                     class = \"{class}\", or \"ram\" for memory only"
                );
                wrong.push(Mistake::error(place, message));
            }
        }
    }
}

/// Where the access log goes. What is no file in any case, as other servers' words for other places, is refused: a
/// file of that name would be made wherever the node happens to run.
fn log_target(document: &Document, wrong: &mut Vec<Mistake>) -> LogTarget {
    let value = document.value("log.access").text();
    match value.as_str() {
        "off" | "" => return LogTarget::Off,
        "stdout" => return LogTarget::Stdout,
        "stderr" => return LogTarget::Stderr,
        _ => {}
    }
    let is_word = !value.contains(['/', '.']);
    if is_word || value.starts_with("syslog:") {
        let message = format!("log.access is `off`, `stdout`, `stderr` or a file, not `{value}`");
        let help = match is_word {
            true => format!("write `./{value}` for a file of that name"),
            false => "write `stdout`: journald takes it, and passes it on to syslog".to_owned(),
        };
        wrong.push(Mistake::error(document.at("log.access"), message).help(help));
    }
    LogTarget::File(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_cache::Objective;
    use freshet_media::Class;

    fn settings(text: &str) -> Result<Settings, Vec<Mistake>> {
        Settings::from_document(&Document::parse(text).expect("the text is well-formed"))
    }

    #[test]
    fn a_small_file_is_complete_by_defaults() {
        let settings = settings(
            "memory = \"256MB\"\n[[listen]]\naddress = \":8000\"\n[[origin]]\nurl = \"http://a:81/\"\n",
        )
        .unwrap();
        assert_eq!(settings.memory_bytes, 256_000_000);
        assert_eq!(settings.site.cache.object_bytes_max, 64_000_000);
        assert_eq!(settings.site.origins[0].name, "a:81");
        assert_eq!(settings.site.origins[0].url, "http://a:81");
        assert_eq!(settings.site.cache.purge_from.len(), 2);
        let proxies = settings.listeners[0].proxy_from.iter().map(ToString::to_string);
        assert_eq!(proxies.collect::<Vec<_>>(), ["127.0.0.0/8", "::1/128"]);
    }

    #[test]
    fn wrong_values_are_all_listed() {
        let wrong = settings(
            "memory = \"1KB\"\n[[listen]]\naddress = \"nowhere\"\n[[origin]]\nurl = \"ftp://a\"\n\
             [cache]\npurge_from = [\"x\"]\nname = \"a b\"\n\
             [[listen]]\naddress = \":1\"\nproxy_from = [\"y\"]\n",
        )
        .unwrap_err();
        assert_eq!(wrong.len(), 6, "{wrong:?}");
    }

    #[test]
    fn a_log_goes_to_a_file_or_to_what_is_known() {
        let target = |value: &str| {
            let origin = "[[origin]]\nurl = \"http://a\"\n";
            settings(&format!("{origin}[log]\naccess = \"{value}\"\n")).map(|all| all.log.access)
        };
        assert_eq!(target("stdout").unwrap(), LogTarget::Stdout);
        for file in ["./on", "/var/log/a", "access.log", "logs/access"] {
            assert_eq!(target(file).unwrap(), LogTarget::File(file.into()));
        }
        for word in ["on", "syslog:server=127.0.0.1", "syslog:server=unix:/dev/log", "none"] {
            let wrong = target(word).unwrap_err();
            assert!(wrong[0].message.ends_with(&format!("not `{word}`")), "{wrong:?}");
            assert!(wrong[0].help.is_some(), "{wrong:?}");
        }
    }

    #[test]
    fn origins_of_one_name_are_refused() {
        let origin = "[[origin]]\nname = \"a\"\nurl = \"http://a:81\"\n";
        let wrong = settings(&origin.repeat(2)).unwrap_err();
        assert!(wrong[0].message.contains("named `a`"), "{wrong:?}");
    }

    #[test]
    fn an_origin_that_could_not_be_asked_is_refused() {
        for url in ["http://a:", "http://a:65536", "http://user@a", "https://a?b"] {
            let wrong = settings(&format!("[[origin]]\nurl = \"{url}\"\n")).unwrap_err();
            assert!(wrong[0].message.contains(url), "{wrong:?}");
        }
    }

    #[test]
    fn storage_goes_by_path_and_names_classes_there_are() {
        let base = "[[origin]]\nurl = \"http://a\"\n[[store]]\npath = \"/x\"\nclass = \"qlc\"\n";
        let rules = "[[storage]]\npath = \"/live/\"\nclass = \"ram\"\n\
                     [[storage]]\npath = \"/vod/\"\nclass = \"qlc\"\n";
        let settings = settings(&format!("{base}{rules}")).unwrap();
        assert_eq!(settings.site.storage_of("/live/1.ts"), Storage::Memory);
        assert_eq!(settings.site.storage_of("/vod/1.mp4"), Storage::Class("qlc".into()));
        assert_eq!(settings.site.storage_of("/other"), Storage::Configured);
        let rule = "[[storage]]\npath = \"/api/\"\nclass = \"any\"\nobjective = \"requests\"\n";
        let settings = self::settings(&format!("{base}{rule}{rules}")).unwrap();
        assert_eq!(settings.site.storage_of("/api/1"), Storage::Configured);
        assert_eq!(settings.site.objective_of("/api/1"), Some(Objective::Requests));
        assert_eq!(settings.site.objective_of("/vod/1.mp4"), None);
        let dvr = "[[storage]]\nmedia = \"dvr\"\nclass = \"qlc\"\n";
        let settings = self::settings(&format!("{base}{rules}{dvr}")).unwrap();
        let of = |target, class| settings.site.storage_of_media(target, class).cloned();
        assert_eq!(of("/1.ts", Class::Dvr), Some(Storage::Class("qlc".into())));
        assert_eq!(of("/1.ts", Class::Live), None);
        assert_eq!(of("/live/1.ts", Class::Dvr), None, "the first that fits counts");
        assert_eq!(settings.site.storage_of("/1.ts"), Storage::Configured);
        for more in ["class = \"any\"", "class = \"qlc\"\nobjective = \"bytes\""] {
            let rule = format!("{base}[[storage]]\nmedia = \"live\"\n{more}\n");
            let wrong = self::settings(&rule).unwrap_err();
            assert!(wrong[0].message.starts_with("storage.media"), "{wrong:?}");
        }
        let wrong = self::settings(&format!("{base}[[storage]]\nclass = \"nvme\"\n")).unwrap_err();
        assert!(wrong[0].message.contains("`nvme`"), "{wrong:?}");
        let sizes = "object_min = \"2MB\"\nobject_max = \"1MB\"\n";
        let wrong = self::settings(&format!("{base}{sizes}")).unwrap_err();
        assert!(wrong[0].message.contains("object_min"), "{wrong:?}");
    }

    #[test]
    fn no_origin_says_how_to_give_one() {
        assert!(settings("").unwrap_err()[0].message.contains("--origin"));
    }
}

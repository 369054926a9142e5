//! What a node is made of before it takes anything from its machine, and what the machine would say
//! if it did.
//!
//! A start, a reload and a check prepare in the same way, so what one refuses all refuse. What a start
//! takes for itself, as addresses, disks and the log, a check only looks at: a node that runs goes on
//! undisturbed. The words for what is wrong with these are here, for both.

pub use crate::certificates::InForce;
use crate::certificates::{Certificates, cure};
use crate::configured;
use freshet_base::units::format_bytes;
use freshet_config::hosts::HostPattern;
use freshet_config::keys::{Key, Kind};
use freshet_config::listeners::{Http3, Listener as ListenerSettings};
use freshet_config::mistake::{Mistake, Place};
use freshet_config::settings::{LogTarget, Settings};
use freshet_config::stores::Store;
use freshet_config::values::machine_memory_bytes;
use freshet_config::{order, parents};
use freshet_disk::DiskError;
use freshet_disk::{self as disk, Examined};
use freshet_net::NetError;
use freshet_net::address::Address;
use freshet_net::listener::Listener;
use freshet_net::quic::port::UdpPort;
use freshet_net::tls::certificate::CertificateStore;
use freshet_net::tls::client_auth::ClientAuth;
use freshet_net::tls::ticket_clock::TicketClock;
use freshet_net::tls::ticket_files;
use freshet_site::snapshot::Draft;
use freshet_store::Placement;
use freshet_telemetry::log::{self, Format};
use rustix::fs::{Access, access};
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What was read and compiled for a node of some settings.
pub struct Prepared {
    /// Its sites.
    pub draft: Draft,
    /// Its certificates, where a listener wants them.
    pub certificates: Option<Arc<CertificateStore>>,
    /// The form of its access log.
    pub format: Format,
    /// What may not be meant.
    pub warnings: Vec<Mistake>,
    /// A folder that outlives the process, where it has one.
    pub state: Option<PathBuf>,
}

impl Prepared {
    /// The same with a folder that outlives the process, where it has one.
    #[must_use]
    pub fn outliving(self, state: Option<PathBuf>) -> Self {
        Self { state, ..self }
    }

    /// Reads and compiles what settings name. What did not change since `before` stays, and so do a site that cannot
    /// be renewed and certificates of the top level that cannot.
    ///
    /// # Errors
    /// All that is wrong.
    pub fn new(settings: Settings, before: Option<&InForce<'_>>) -> Result<Self, Vec<Mistake>> {
        let read = Read::of(&settings);
        let wrong = read.certificates.as_ref().map(Certificates::wrong).unwrap_or_default();
        match configured::draft(settings, before.map(|before| before.snapshot), wrong) {
            Ok(draft) => read.with(draft, before),
            Err(mut mistakes) => {
                mistakes.extend(read.found);
                Err(mistakes)
            }
        }
    }

    /// Reads what the settings of a draft name that was made before.
    ///
    /// # Errors
    /// All that is wrong.
    pub fn of(draft: Draft) -> Result<Self, Vec<Mistake>> {
        let mut read = Read::of(&draft.settings);
        // There is nothing that could stay as it was.
        let wrong = read.certificates.as_ref().map(Certificates::wrong).unwrap_or_default();
        read.found.extend(wrong.into_values().flatten().cloned().collect::<Vec<_>>());
        read.with(draft, None)
    }
}

/// What settings name besides sites.
struct Read {
    certificates: Option<Certificates>,
    format: Option<Format>,
    found: Vec<Mistake>,
}

impl Read {
    fn of(settings: &Settings) -> Self {
        let mut found = Vec::new();
        found.extend(order::idle_beside_policies(settings));
        memory(settings, &mut found);
        let certificates = Certificates::read(settings, &mut found);
        client_authorities(settings, &mut found);
        addresses_that_ask(settings, &mut found);
        ticket_keys(settings, &mut found);
        open_secrets(settings, &mut found);
        let format = Format::parse(&settings.log.format).map_err(|error| {
            let place = settings.document.at("log.format");
            found.push(Mistake::error(place, format!("log.format: {error}")));
        });
        Self { certificates, format: format.ok(), found }
    }

    fn with(self, draft: Draft, before: Option<&InForce<'_>>) -> Result<Prepared, Vec<Mistake>> {
        let Self { certificates, format, mut found } = self;
        let certificates = certificates.map(|read| read.store(&draft.stayed, before));
        if let Some(certificates) = &certificates {
            hosts_without_certificate(&draft.settings, certificates, &mut found);
        }
        found.extend(crate::geo::examine(&draft.settings, &draft.geo));
        match format.filter(|_| !found.iter().any(Mistake::is_error)) {
            Some(format) => {
                Ok(Prepared { draft, certificates, format, warnings: found, state: None })
            }
            None => Err(found),
        }
    }
}

/// What this machine would refuse a node of these settings, or give it in part only.
///
/// `is_own` says whether a node of ours has an address now, which is then not in somebody's way.
pub fn examine(settings: &Settings, is_own: impl Fn(&Address) -> bool) -> Vec<Mistake> {
    let mut found = Vec::new();
    for listener in &settings.listeners {
        found.extend(examine_address(&listener.address, listener.place, &is_own));
        found.extend(examine_http3(listener, &is_own));
    }
    found.extend(settings.served().iter().flat_map(|site| order::never_counting(site)));
    found.extend(settings.served().iter().filter_map(|site| order::idle_weights(site)));
    found.extend(parents::siblings_not_believed(settings));
    found.extend(order::never_over_tls(settings));
    let addresses = settings.listeners.iter().map(|listener| &listener.address);
    let is_ours = addresses.chain(&settings.admin_listen).any(&is_own);
    stores(settings, is_ours, &mut found);
    lower_memory(settings, &mut found);
    if let LogTarget::File(path) = &settings.log.access
        && let Err(error) = log::suits(path).and_then(|()| appendable(path))
    {
        found.push(no_log(settings, &error));
    }
    found
}

/// What is in the way of listening on an address that is written at `place`.
pub fn examine_address(
    address: &Address,
    place: Place,
    is_own: impl Fn(&Address) -> bool,
) -> Option<Mistake> {
    match Listener::examine(address) {
        Err(NetError::LocalBind { kind: io::ErrorKind::AddrInUse, .. }) if is_own(address) => None,
        Err(error) => Some(no_address(&error, place)),
        Ok(()) => None,
    }
}

/// What is in the way of HTTP/3: without it a node starts unless it is asked for.
fn examine_http3(
    listener: &ListenerSettings,
    is_own: impl Fn(&Address) -> bool,
) -> Option<Mistake> {
    let Address::Tcp(address) = listener.address else { return None };
    if listener.http3 == Http3::Off || is_own(&listener.address) {
        return None;
    }
    UdpPort::examine(address).err().map(|error| no_http3(&error, listener))
}

/// Why a listener has no HTTP/3.
pub(crate) fn no_http3(error: &NetError, listener: &ListenerSettings) -> Mistake {
    let message = format!("there is no HTTP/3, as its UDP port cannot be had: {error}");
    let mistake = match listener.http3 {
        Http3::Required => Mistake::error(listener.place, message),
        Http3::Offered | Http3::Off => Mistake::warning(listener.place, message),
    };
    match (error, listener.address.port()) {
        (NetError::LocalBind { kind: io::ErrorKind::AddrInUse, .. }, Some(port)) => {
            mistake.help(format!(
                "`ss -lunp sport = :{port}` shows the program that has it; `http3 = false` does \
                 without"
            ))
        }
        _ => mistake,
    }
}

/// Why an address cannot be listened on.
pub fn no_address(error: &NetError, place: Place) -> Mistake {
    let mistake = Mistake::error(place, error.to_string());
    let NetError::LocalBind { address, kind, .. } = error else { return mistake };
    let port = address.port().unwrap_or(0);
    match kind {
        io::ErrorKind::AddrInUse => mistake.help(match address {
            Address::Tcp(_) => format!("`ss -ltnp sport = :{port}` shows the program that has it"),
            Address::Unix(_) => "another program listens on it".to_owned(),
        }),
        io::ErrorKind::PermissionDenied if port > 0 && port < 1024 => mistake.help(
            "ports below 1024 need the capability CAP_NET_BIND_SERVICE, which the systemd unit \
             gives, or root",
        ),
        io::ErrorKind::AddrNotAvailable => {
            mistake.help("this machine does not have that address; `ip address` lists its own")
        }
        _ => mistake,
    }
}

/// Why the access log cannot be written.
pub(crate) fn no_log(settings: &Settings, error: &io::Error) -> Mistake {
    let place = settings.document.at("log.access");
    let LogTarget::File(path) = &settings.log.access else {
        return Mistake::error(place, format!("the access log cannot be written: {error}"));
    };
    let message = format!("the access log {} cannot be written: {error}", path.display());
    let folder = folder_of(path);
    Mistake::error(place, message).help(match error.kind() {
        io::ErrorKind::IsADirectory => "name a file, as `/var/log/freshet/access.log`".into(),
        io::ErrorKind::NotFound => format!("make its folder: mkdir -p {}", folder.display()),
        io::ErrorKind::InvalidInput => "name a file or a named pipe, or write `stdout`".into(),
        _ => format!("let the node's user write {}", folder.display()),
    })
}

/// Why a store cannot be used.
pub(crate) fn no_store(settings: &Settings, path: &str, error: &DiskError) -> Mistake {
    let row = settings.stores.iter().find(|store| store.path == Path::new(path));
    let place = row.map_or_else(Place::default, |store| store.place);
    let mistake = Mistake::error(place, format!("store {path}: {error}"));
    let (folder, in_it) = (folder_of(Path::new(path)), Path::new(path).join("store"));
    match error {
        DiskError::DeviceOpen(_) if !folder.exists() => {
            mistake.help(format!("make its folder: mkdir -p {}", folder.display()))
        }
        DiskError::DeviceUnfit if Path::new(path).is_dir() => {
            mistake.help(format!("it is a directory: name a file in it, as `{}`", in_it.display()))
        }
        DiskError::ConfigDeviceBytes { bytes: 0 } => {
            mistake.help("give store.size, as `size = \"100GB\"`")
        }
        DiskError::ConfigDeviceBytes { .. } if Path::new(path).is_file() => mistake
            .help("a file that is there keeps its own length: remove it, or give another path"),
        _ => mistake,
    }
}

/// More memory than there is ends with the kernel killing the node. What else is held is a tenth at
/// least.
fn memory(settings: &Settings, found: &mut Vec<Mistake>) {
    let (wanted, machine) = (settings.memory_bytes, machine_memory_bytes());
    let place = settings.document.at("memory");
    let (wanted_text, machine_text) = (format_bytes(wanted), format_bytes(machine));
    if wanted > machine {
        let message = format!("memory is {wanted_text}, and {machine_text} is all there is");
        found.push(Mistake::error(place, message).help("give less, or `auto` for a quarter"));
    } else if wanted > machine / 10 * 9 {
        let message = format!("memory is {wanted_text} of the {machine_text} there are");
        let help = "connections, requests and the system need memory beside it: give 80 % at most";
        found.push(Mistake::warning(place, message).help(help));
    }
}

/// Warns of hosts whose clients cannot show a certificate: in a handshake nobody names an address (RFC 6066 §3), so it is
/// not known to be for the site.
fn addresses_that_ask(settings: &Settings, found: &mut Vec<Mistake>) {
    for site in settings.sites.iter().filter(|site| site.client_auth.is_some()) {
        let address = site.hosts.iter().find_map(|host| match host {
            HostPattern::Exact(name) => name.trim_matches(['[', ']']).parse::<IpAddr>().ok(),
            HostPattern::Below(_) | HostPattern::Any => None,
        });
        if let Some(address) = address {
            let message = format!(
                "client_ca is for sites with names: over TLS all requests for `{address}` get a 421, as no client \
                 names an address in its handshake"
            );
            let help = "give the site a name in hosts, or client_ca to the [[listen]]";
            found.push(Mistake::warning(site.client_auth_place, message).help(help));
        }
    }
}

/// What is wrong with the authorities whose certificates clients are asked for.
fn client_authorities(settings: &Settings, found: &mut Vec<Mistake>) {
    for listener in &settings.listeners {
        let verifier = listener.client_auth.as_ref().map(ClientAuth::verifier);
        if let Some(Err(error)) = verifier {
            let mistake = Mistake::error(listener.place, format!("client_ca: {error}"));
            found.push(match cure(&error) {
                Some(help) => mistake.help(help),
                None => mistake,
            });
        }
    }
}

/// Warns of secrets that everybody on this machine can read. Keys of tokens may be public ones, and of passwords there are
/// hashes.
fn open_secrets(settings: &Settings, found: &mut Vec<Mistake>) {
    let is_secret = |key: &Key| {
        matches!(key.kind, Kind::SecretFile | Kind::SecretFiles)
            && !matches!(key.path, "token[].keys" | "access[].users")
    };
    for (_, name, place) in settings.document.placed_files().filter(|(key, ..)| is_secret(key)) {
        let mode = std::fs::metadata(name).map_or(0, |found| found.permissions().mode());
        if mode & 0o004 != 0 {
            let mistake = Mistake::warning(place, format!("everybody here can read {name}"));
            found.push(mistake.help(format!("chmod o= {name}")));
        }
    }
}

/// Warns of hosts for which clients get a certificate that is for others, as none is for them.
fn hosts_without_certificate(
    settings: &Settings,
    certificates: &CertificateStore,
    found: &mut Vec<Mistake>,
) {
    // An authority gives those that are not there.
    for site in settings.sites.iter().filter(|_| settings.acme.is_none()) {
        let is_without = |host: &&HostPattern| match host {
            HostPattern::Exact(name) => !certificates.has(name),
            HostPattern::Below(_) | HostPattern::Any => false,
        };
        if let Some(host) = site.hosts.iter().find(is_without) {
            let message =
                format!("no certificate names `{host}`: its clients over TLS are shown another");
            let help =
                "give [[site.certificate]], with the host among the names (subjectAltName) in it";
            found.push(Mistake::warning(site.place, message).help(help));
        }
    }
}

/// What is wrong with the keys of session tickets. Who has them reads sessions under TLS 1.2, and takes
/// part in others under 1.3.
fn ticket_keys(settings: &Settings, found: &mut Vec<Mistake>) {
    let mut examine = |key: &str, checked: Result<(), NetError>| {
        let place = settings.document.at(key);
        if let Err(error) = checked {
            let mistake = Mistake::error(place, format!("{key}: {error}"));
            found.push(match cure(&error) {
                Some(help) => mistake.help(help),
                None => mistake,
            });
        }
    };
    let files = &settings.ticket_keys;
    examine("tls.ticket_keys", ticket_files::check(files));
    if let Some((fleet, secret)) =
        settings.fleet.as_ref().and_then(|fleet| Some((fleet, fleet.tickets.as_ref()?)))
    {
        let checked = TicketClock::open(secret, &fleet.name).map(drop);
        examine("fleet.secret", checked);
    }
}

/// What is where the stores are; wrong too is one of another set than most.
fn examined_stores(settings: &Settings) -> Vec<(&Store, Result<Examined, DiskError>)> {
    let specs = freshet_worker::disk::specs(settings);
    let mut examined: Vec<_> =
        settings.stores.iter().zip(specs.map(|spec| disk::examine(&spec))).collect();
    let set = disk::common_set(examined.iter().filter_map(|(_, one)| one.as_ref().ok()?.set));
    for (_, one) in &mut examined {
        if let (Ok(Examined { set: Some(found), .. }), Some(wanted)) = (&one, set)
            && *found != wanted
        {
            *one = Err(DiskError::DeviceOfOtherSet { found: *found, wanted });
        }
    }
    examined
}

/// `is_ours` says whether a node of ours serves with these settings now, which has its stores.
fn stores(settings: &Settings, is_ours: bool, found: &mut Vec<Mistake>) {
    let examined = examined_stores(settings);
    let is_any_right = examined.iter().any(|(_, examined)| examined.is_ok());
    let later = |mistake: Mistake| {
        Mistake::warning(mistake.place, mistake.message)
            .help("a node starts without it and tries again by and by")
    };
    let mut wanted: HashMap<u64, u64> = HashMap::new();
    for (store, examined) in examined {
        let path = store.path.display().to_string();
        let examined = match examined {
            Ok(examined) => examined,
            Err(error) => {
                let mistake = no_store(settings, &path, &error);
                let goes_on = is_any_right && error.is_of_one_drive();
                found.push(if goes_on { later(mistake) } else { mistake });
                continue;
            }
        };
        if let Some(error) = examined.away {
            found.push(later(no_store(settings, &path, &error)));
            continue;
        }
        if let Some(error) = examined.taken.filter(|_| !is_ours) {
            found.push(later(no_store(settings, &path, &error)));
        }
        if let (Some(keeps), Some(asked)) = (examined.keeps_bytes, store.bytes) {
            let (keeps, asked) = (format_bytes(keeps), format_bytes(asked));
            let message =
                format!("store {path} keeps the {keeps} it was made with, and not {asked}");
            found.push(Mistake::warning(store.place, message).help(RESIZED));
        }
        let all = wanted.entry(examined.file_system).or_default();
        *all = all.saturating_add(examined.makes_bytes);
        if *all > examined.free_bytes {
            let error = DiskError::DeviceNoSpace { bytes: *all };
            found.push(no_store(settings, &path, &error));
        }
    }
}

/// What to do about a file whose length is not the one that is configured.
const RESIZED: &str = "`size` is for a file that is made: remove this one while no node uses it, and a start makes \
                       it anew, empty";

fn lower_memory(settings: &Settings, found: &mut Vec<Mistake>) {
    let Some(lower) = &settings.lower_memory else { return };
    match &lower.placement {
        Placement::File(path) => {
            if let Err(error) = appendable(path) {
                let place = settings.document.at("lower_memory.path");
                let message = format!("{} cannot be used as memory: {error}", path.display());
                found.push(Mistake::error(place, message));
            }
        }
        Placement::Near(node) | Placement::Node(node) => {
            if !Path::new(&format!("/sys/devices/system/node/node{node}")).is_dir() {
                let place = settings.document.at("lower_memory.numa_node");
                let message = format!("this machine has no NUMA node {node}");
                found.push(Mistake::error(place, message).help("`lscpu` lists those it has"));
            }
        }
        Placement::Anywhere => {}
    }
}

/// Whether a file could be opened for writing, or made.
fn appendable(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let asked = match access(path, Access::WRITE_OK) {
        Err(rustix::io::Errno::NOENT) => {
            access(folder_of(path), Access::WRITE_OK | Access::EXEC_OK)
        }
        asked => asked,
    };
    Ok(asked?)
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or_else(|| Path::new("."))
}

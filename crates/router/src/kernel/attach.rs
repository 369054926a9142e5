//! Puts the programs on the wire, or finds them there, so that no packet notices.
//!
//! Maps and links are pinned: they go on without the process, and the next one takes them over. A link
//! is given its new program in one step. What fails on the way leaves the wire as it was.

use super::config::{AppDescription, Config, Health, Wire, read_app};
use super::control::{Control, RuleSet, State};
use super::interface::{Interface, check_floor};
use super::programs::{KernelError, Object, Options, Programs, program_of};
use crate::app::{App, Apps, Kind};
use crate::rule::compile::Table;
use aya::programs::XdpMode;
use aya::programs::links::{FdLink, PinnedLink};
use aya::programs::xdp::XdpLink;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a router did not start. The wire is as it was.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// Something about this machine or the configuration is to be changed.
    #[error("{0}")]
    Setup(String),
    /// An interface has another program, maybe for a moment only.
    #[error("{0}")]
    Busy(String),
    /// The kernel refused something.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// Rules have mistakes.
    #[error("{file}:\n{shown}")]
    Rules {
        /// Where they are.
        file: String,
        /// Each with its place.
        shown: String,
    },
}

/// What a BPF file system says it is.
const BPF_FILE_SYSTEM: u64 = 0xcafe_4a11;

/// A started router.
#[derive(Debug)]
pub(super) struct Attached {
    /// What it knows.
    pub(super) control: Control,
    /// The wire's two interfaces.
    pub(super) ports: [Interface; 2],
    /// Whether what another process left was taken over.
    pub(super) adopted: bool,
    /// How each app is found alive, by its number.
    pub(super) health: BTreeMap<u8, Health>,
    /// The interfaces of each app.
    pub(super) legs: BTreeMap<u8, Vec<Interface>>,
    /// Apps that were added to another process and cannot be had any more: which, and why.
    pub(super) gone: Vec<String>,
    /// Held as long as the process runs.
    _lock: File,
}

fn setup(what: impl Into<String>) -> StartError {
    StartError::Setup(what.into())
}

/// Makes sure that no other router has this configuration.
pub(super) fn lock(config: &Config) -> Result<File, StartError> {
    let path = config.socket.with_extension("lock");
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)
            .map_err(|error| setup(format!("{}: {error}", folder.display())))?;
    }
    let open = File::options().create(true).truncate(false).write(true).open(&path);
    let file = open.map_err(|error| setup(format!("{}: {error}", path.display())))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| setup(format!("another router is running: it holds {}", path.display())))?;
    Ok(file)
}

fn check_pins(folder: &Path) -> Result<(), StartError> {
    let there = folder.ancestors().find(|one| one.is_dir()).unwrap_or(folder);
    let is_bpf =
        rustix::fs::statfs(there).is_ok_and(|found| found.f_type as u64 == BPF_FILE_SYSTEM);
    if !is_bpf {
        return Err(setup(format!(
            "pins: {} is in no BPF file system; mount one: mount -t bpf bpf /sys/fs/bpf",
            folder.display()
        )));
    }
    for one in [folder.to_path_buf(), folder.join("links")] {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&one);
        made.map_err(|error| setup(format!("pins: {}: {error}", one.display())))?;
    }
    Ok(())
}

/// Where this configuration's maps are, their seed, and whether they were there.
fn maps(config: &Config, mtu: u16) -> Result<(PathBuf, u64, bool), StartError> {
    let wire = if config.wire == Wire::N3 { "n3" } else { "n6" };
    let layout = super::layout::LAYOUT;
    // Sessions have networks by their numbers.
    let networks = config.networks.names().collect::<Vec<_>>().join("/");
    let networks = crate::session::lines::hash_text(&networks);
    let start = format!("maps-{layout}-{wire}-{}-{mtu}-{networks:x}-", config.sessions);
    let listed = fs::read_dir(&config.pins).map_err(|error| setup(format!("pins: {error}")))?;
    for entry in listed.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(Ok(seed)) = name.strip_prefix(&start).map(|seed| u64::from_str_radix(seed, 16))
        {
            return Ok((entry.path(), seed, true));
        }
    }
    let mut seed = [0; 8];
    let random = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut seed));
    random.map_err(|error| setup(format!("/dev/urandom: {error}")))?;
    let seed = u64::from_ne_bytes(seed);
    let folder = config.pins.join(format!("{start}{seed:016x}"));
    fs::create_dir(&folder).map_err(|error| setup(format!("pins: {error}")))?;
    Ok((folder, seed, false))
}

/// An interface and the program it gets.
struct Place {
    role: String,
    interface: Interface,
    program: &'static str,
}

/// Starts a router: checks everything, loads, and attaches last.
///
/// # Errors
/// What is to be changed; then nothing was touched.
pub(super) fn start(config: &Config, lock: File) -> Result<Attached, StartError> {
    let ports = find_ports(config)?;
    super::features::check().map_err(setup)?;
    let state = read_state(&config.state)?;
    let found = find_apps(config, state.as_ref())?;
    check_pins(&config.pins)?;
    let (folder, seed, adopted) = maps(config, ports[0].mtu)?;
    let (health, legs, gone) = (found.health.clone(), found.legs.clone(), found.gone.clone());
    let result = start_with(config, &ports, found, state, &folder, seed, adopted);
    match result {
        Ok(control) => {
            remove_old_maps(&config.pins, &folder);
            Ok(Attached { control, ports, adopted, health, legs, gone, _lock: lock })
        }
        Err(error) => {
            if !adopted {
                remove_folder(&folder);
            }
            Err(error)
        }
    }
}

/// The wire's two interfaces, in their bridge.
fn find_ports(config: &Config) -> Result<[Interface; 2], StartError> {
    let [access, core] = &config.ports;
    let ports = [
        Interface::find(access).map_err(|what| setup(format!("access: {what}")))?,
        Interface::find(core).map_err(|what| setup(format!("core: {what}")))?,
    ];
    check_floor(&ports).map_err(setup)?;
    Ok(ports)
}

/// Apps there are, those that were added included.
struct Found {
    apps: Apps,
    legs: BTreeMap<u8, Vec<Interface>>,
    health: BTreeMap<u8, Health>,
    added: BTreeMap<String, AppDescription>,
    gone: Vec<String>,
}

/// The interfaces of an app.
///
/// # Errors
/// Which is not there.
pub(super) fn find_legs(app: &App) -> Result<Vec<Interface>, String> {
    app.legs.iter().map(|leg| Interface::find(&leg.interface)).collect()
}

/// Whether an interface, a MAC or an address of an app has another use already, in words.
pub(super) fn find_clash(app: &App, ports: &[String; 2], others: &[&App]) -> Option<String> {
    for leg in &app.legs {
        let name = &leg.interface;
        let is_used = |other: &&App| other.legs.iter().any(|one| one.interface == *name);
        if ports.contains(name) || others.iter().any(is_used) {
            return Some(format!("interface: `{name}` has another use"));
        }
        let is_known = |other: &&&App| other.legs.iter().any(|one| one.mac == leg.mac);
        if let Some(other) = others.iter().find(is_known) {
            return Some(format!("mac: it is that of app `{}`", other.name));
        }
    }
    let address =
        |other: &&App| other.addresses.iter().find(|one| app.addresses.contains(one)).copied();
    others.iter().find_map(|other| {
        Some(format!("addresses: {} is one of app `{}`", address(other)?, other.name))
    })
}

/// Apps of the configuration, which have to be there, and those that were added and are still there.
fn find_apps(config: &Config, state: Option<&State>) -> Result<Found, StartError> {
    let mut all = Vec::new();
    for (app, health) in config.apps.iter().zip(&config.health) {
        let legs = find_legs(app).map_err(|what| setup(format!("app.{}: {what}", app.name)))?;
        all.push((app.clone(), health.clone(), legs));
    }
    let (mut added, mut gone) = (BTreeMap::new(), Vec::new());
    for (name, description) in state.into_iter().flat_map(|state| &state.added) {
        let others: Vec<&App> = all.iter().map(|(app, _, _)| app).collect();
        let found =
            read_app(name.clone(), description, &config.networks).and_then(|(app, health)| {
                if others.iter().any(|other| other.name == *name) {
                    return Err("the configuration has one of this name".to_owned());
                }
                match find_clash(&app, &config.ports, &others) {
                    Some(clash) => Err(clash),
                    None => find_legs(&app).map(|legs| (app, health, legs)),
                }
            });
        match found {
            Ok(one) => {
                all.push(one);
                added.insert(name.clone(), description.clone());
            }
            Err(why) => gone.push(format!("{name}: {why}")),
        }
    }
    let known = state.map(State::numbered).unwrap_or_default();
    let apps = all.iter().map(|(app, _, _)| app.clone()).collect();
    let apps = Apps::restored(apps, &known).map_err(|error| {
        setup(format!(
            "app: {error}, with those that were added; {} has them",
            config.state.display()
        ))
    })?;
    let (mut legs, mut health) = (BTreeMap::new(), BTreeMap::new());
    for (app, by, found) in all {
        let number = apps.number(&app.name).expect("it was put there");
        legs.insert(number, found);
        health.insert(number, by);
    }
    Ok(Found { apps, legs, health, added, gone })
}

fn read_state(path: &Path) -> Result<Option<State>, StartError> {
    const BYTES_MAX: u64 = 64 << 20;
    if !path.exists() {
        return Ok(None);
    }
    let wrong = |what: String| setup(format!("state: {}: {what}", path.display()));
    let text =
        freshet_base::file::read_text(path, BYTES_MAX).map_err(|error| wrong(error.to_string()))?;
    serde_json::from_str(&text)
        .map(Some)
        .map_err(|error| wrong(format!("{error}; remove it to begin anew")))
}

fn start_with(
    config: &Config,
    ports: &[Interface; 2],
    found: Found,
    state: Option<State>,
    folder: &Path,
    seed: u64,
    adopted: bool,
) -> Result<Control, StartError> {
    let mut programs = Programs::load(&Options {
        tunnelled: config.wire == Wire::N3,
        wire_bytes_max: ports[0].mtu,
        sessions: config.sessions,
        seed,
        tells_verdicts: false,
        networks: config.networks.clone(),
        pins: Some(folder.to_path_buf()),
        object: Object::Router,
    })?;
    let is_same = |state: &State| {
        let mut known = state.numbered().apps.into_iter().enumerate();
        known.all(|(number, name)| {
            found.apps.get(number as u8).map(|app| app.name.as_str()) == name.as_deref()
        })
    };
    if adopted && !state.as_ref().is_some_and(is_same) {
        // The rules in the kernel name apps by number, of which some are others from here on.
        let nobody = crate::rule::Profile::default();
        let table = Table::new(0, &[], &[nobody]).expect("no rules are not too many");
        programs.set_rules(&table)?;
        programs.set_before(&table)?;
        programs.forget_connections(|_| true)?;
    }
    let places = place_all(&mut programs, &found.apps, &found.legs, ports)?;
    for place in &places {
        programs.program(place.program)?;
    }
    let mut control = Control::new(
        programs,
        config.sessions,
        seed,
        found.apps,
        config.limits.clone(),
        config.names(),
        config.networks.clone(),
    );
    control.added = found.added;
    let is_first = state.is_none();
    control.adopt(state.unwrap_or_default(), adopted)?;
    if let Some(path) = config.rules.as_ref().filter(|_| is_first) {
        first_rules(&mut control, path)?;
    }
    attach(&mut control.programs, &places, &config.pins.join("links"))?;
    Ok(control)
}

/// Writes where all is, and says which program each interface gets; the wire's come last.
fn place_all(
    programs: &mut Programs,
    apps: &Apps,
    legs: &BTreeMap<u8, Vec<Interface>>,
    ports: &[Interface; 2],
) -> Result<Vec<Place>, KernelError> {
    // Uplink leaves by the core's interface.
    programs.set_wire(0, ports[1].index)?;
    programs.set_wire(1, ports[0].index)?;
    let mut places = Vec::new();
    for (number, legs) in legs {
        places.extend(place_app(programs, apps, *number, legs, ports)?);
    }
    for (port, program) in ports.iter().zip(["access", "core"]) {
        let role = format!("{program}-{}", port.name);
        places.push(Place { role, interface: port.clone(), program });
    }
    Ok(places)
}

/// Writes an app, and says which program each of its interfaces gets.
fn place_app(
    programs: &mut Programs,
    apps: &Apps,
    number: u8,
    legs: &[Interface],
    ports: &[Interface; 2],
) -> Result<Vec<Place>, KernelError> {
    let Some(app) = apps.get(number) else { return Ok(Vec::new()) };
    let tap = apps.tap(number).unwrap_or_default();
    let (mut numbers, mut places) = (Vec::new(), Vec::new());
    for (index, leg) in legs.iter().enumerate() {
        let place = leg_place(number, index);
        programs.set_leg(place, leg.index)?;
        programs.set_leg_network(leg.index, app.network)?;
        numbers.push(place);
        if let Some(program) = program_of(app.kind, index) {
            let role = format!("{program}-{}", leg.name);
            places.push(Place { role, interface: leg.clone(), program });
        }
    }
    if let (Kind::Tap { decapsulated }, [near, ..], [far, ..]) = (app.kind, legs, &app.legs[..]) {
        let macs = decapsulated.then_some([far.mac, near.mac]);
        programs.set_tap(tap, [ports[1].index, ports[0].index], near.index, macs)?;
    }
    let own: Vec<[u8; 6]> = legs.iter().map(|leg| leg.mac).collect();
    programs.set_app(number, app, &numbers, &own, tap)?;
    Ok(places)
}

/// Where an interface of an app is in the map of legs.
fn leg_place(number: u8, index: usize) -> u16 {
    2 * u16::from(number) + index as u16
}

impl Attached {
    /// Puts the programs on the wire's interfaces, of which one at least is another one than before.
    ///
    /// # Errors
    /// What is to be changed; then it is tried again.
    pub(super) fn put_wire(&mut self, config: &Config) -> Result<(), StartError> {
        let ports = find_ports(config)?;
        let (now, before) = (ports[0].mtu, self.ports[0].mtu);
        if now != before {
            return Err(setup(format!(
                "{} has an MTU of {now} and had one of {before}: start the router anew",
                ports[0].name
            )));
        }
        let Control { programs, apps, .. } = &mut self.control;
        let links = config.pins.join("links");
        let wire = self.ports.each_ref().map(|port| port.name.clone());
        // Apps whose interfaces are gone, too, are found again later.
        let mut legs = self.legs.clone();
        legs.retain(|_, legs| legs.iter().all(Interface::is_there));
        let places = place_all(programs, apps, &legs, &ports)?;
        for place in places.iter().filter(|place| wire.contains(&place.interface.name)) {
            attach_one(programs, place, &links.join(&place.role))?;
        }
        self.ports = ports;
        Ok(())
    }

    /// Puts an app behind a router that runs. Nobody takes it for alive yet.
    ///
    /// # Errors
    /// What this machine refused; then no packet meets it.
    pub(super) fn put_app(
        &mut self,
        apps: &Apps,
        number: u8,
        legs: &[Interface],
        pins: &Path,
    ) -> Result<(), StartError> {
        let programs = &mut self.control.programs;
        programs.set_alive(number, 0)?;
        programs.clear_kept(number)?;
        let links = pins.join("links");
        for place in place_app(programs, apps, number, legs, &self.ports)? {
            programs.program(place.program)?;
            attach_one(programs, &place, &links.join(&place.role))?;
        }
        Ok(())
    }

    /// Takes an app out, to which no rule leads any more. What it still sends is this host's.
    ///
    /// # Errors
    /// What the kernel refused.
    pub(super) fn take_app(
        &mut self,
        app: &App,
        number: u8,
        tap: Option<u16>,
        pins: &Path,
    ) -> Result<(), KernelError> {
        self.control.unsettle(number)?;
        let programs = &mut self.control.programs;
        programs.set_alive(number, 0)?;
        for (index, leg) in app.legs.iter().enumerate() {
            if let Some(program) = program_of(app.kind, index) {
                let role = format!("{program}-{}", leg.interface);
                let _ = fs::remove_file(pins.join("links").join(role));
            }
            programs.set_leg(leg_place(number, index), 0)?;
            // One that is gone has taken its number with it.
            if let Ok(interface) = Interface::find(&leg.interface) {
                programs.set_leg_network(interface.index, None)?;
                programs.set_tap_macs(interface.index, None)?;
            }
        }
        let [access, core] = &self.ports;
        match tap {
            Some(tap) => programs.set_tap(tap, [core.index, access.index], 0, None),
            None => Ok(()),
        }
    }
}

fn first_rules(control: &mut Control, path: &Path) -> Result<(), StartError> {
    const BYTES_MAX: u64 = 64 << 20;
    let file = path.display().to_string();
    let text = freshet_base::file::read_text(path, BYTES_MAX)
        .map_err(|error| setup(format!("rules: {file}: {error}")))?;
    let value =
        serde_json::from_str(&text).map_err(|error| setup(format!("rules: {file}: {error}")))?;
    let show = |mistakes: Vec<crate::rule::check::Mistake>| {
        let lines: Vec<String> = mistakes.iter().map(|one| format!("  {one}")).collect();
        StartError::Rules { file: file.clone(), shown: lines.join("\n") }
    };
    let rules = crate::rule::check::read(value).map_err(&show)?;
    match control.set_rules(RuleSet { rules, ..RuleSet::default() }) {
        Ok(_) => Ok(()),
        Err(super::control::Refused::Mistakes(mistakes)) => Err(show(mistakes)),
        Err(super::control::Refused::Kernel(error)) => Err(error.into()),
    }
}

fn attach(programs: &mut Programs, places: &[Place], links: &Path) -> Result<(), StartError> {
    let mut made: Vec<PathBuf> = Vec::new();
    for place in places {
        let pin = links.join(&place.role);
        match attach_one(programs, place, &pin) {
            Ok(true) => made.push(pin),
            Ok(false) => {}
            Err(error) => {
                // Unpinned links end: the wire is as it was.
                for pin in made {
                    let _ = fs::remove_file(pin);
                }
                return Err(error);
            }
        }
    }
    // Interfaces that have no use any more.
    for entry in fs::read_dir(links).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if !places.iter().any(|place| name.to_str() == Some(&place.role)) {
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

/// Whether a new link was made, in place of giving one that was there its new program.
fn attach_one(programs: &mut Programs, place: &Place, pin: &Path) -> Result<bool, StartError> {
    if pin.exists() {
        let link = PinnedLink::from_pin(pin).ok().map(FdLink::from);
        if let Some(link) = link.and_then(|link| XdpLink::try_from(link).ok()) {
            let program = programs.program(place.program)?;
            if program.attach_to_link(link).and_then(|id| program.take_link(id)).is_ok() {
                return Ok(false);
            }
        }
        // The interface it was on is gone.
        let _ = fs::remove_file(pin);
    }
    let link = programs.attach(place.program, place.interface.index, XdpMode::default()).map_err(
        |error| {
            let Interface { name, mtu, .. } = &place.interface;
            let errno = errno_of(&error);
            let hint = match errno {
                Some(Errno::PERM | Errno::ACCESS | Errno::NOSYS) => {
                    "may this process attach programs, with CAP_NET_ADMIN and bpf(2)?".to_owned()
                }
                Some(Errno::BUSY) => format!("is another program on it? See `ip link show {name}`"),
                Some(Errno::RANGE | Errno::INVAL) => format!(
                    "an MTU of {mtu} is too long for programs in its driver; 3498 fits everywhere"
                ),
                _ => "has its driver XDP?".to_owned(),
            };
            let words = format!("{name}: {error}; {hint}");
            if errno == Some(Errno::BUSY) { StartError::Busy(words) } else { setup(words) }
        },
    )?;
    let link: FdLink = link
        .try_into()
        .map_err(|_| setup("this kernel has no XDP links, which Linux has since 5.9"))?;
    link.pin(pin).map_err(|error| setup(format!("pins: {error}")))?;
    Ok(true)
}

/// What the kernel said, at the end of an error's reasons.
fn errno_of(error: &KernelError) -> Option<Errno> {
    let mut reason: Option<&dyn std::error::Error> = Some(error);
    while let Some(one) = reason {
        if let Some(errno) = one.downcast_ref::<std::io::Error>().and_then(Errno::from_io_error) {
            return Some(errno);
        }
        reason = one.source();
    }
    None
}

/// Takes all programs of a configuration off the wire, which the bridge then carries alone.
///
/// # Errors
/// That a router is running.
pub fn detach(config: &Config) -> Result<usize, StartError> {
    let _lock = lock(config)?;
    let links = config.pins.join("links");
    let mut taken = 0;
    for entry in fs::read_dir(&links).into_iter().flatten().flatten() {
        taken += usize::from(fs::remove_file(entry.path()).is_ok());
    }
    remove_folder(&links);
    remove_old_maps(&config.pins, Path::new(""));
    let _ = fs::remove_dir(&config.pins);
    Ok(taken)
}

fn remove_old_maps(pins: &Path, kept: &Path) {
    for entry in fs::read_dir(pins).into_iter().flatten().flatten() {
        let is_maps = entry.file_name().to_string_lossy().starts_with("maps-");
        if is_maps && entry.path() != kept {
            remove_folder(&entry.path());
        }
    }
}

fn remove_folder(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let _ = fs::remove_file(entry.path());
    }
    let _ = fs::remove_dir(folder);
}

//! Puts the programs on the wire, or finds them there, so that no packet notices.
//!
//! Maps and links are pinned: they go on without the process, and the next one takes them over. A link
//! is given its new program in one step. What fails on the way leaves the wire as it was.

use super::config::{Config, Wire};
use super::control::{Control, State};
use super::interface::{Interface, check_floor};
use super::programs::{KernelError, Object, Options, Programs, program_of};
use crate::app::{Kind, LEGS_MAX};
use crate::rule::compile::Table;
use aya::programs::XdpMode;
use aya::programs::links::{FdLink, PinnedLink};
use aya::programs::xdp::XdpLink;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
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
    let [access, core] = &config.ports;
    let ports = [
        Interface::find(access).map_err(|what| setup(format!("access: {what}")))?,
        Interface::find(core).map_err(|what| setup(format!("core: {what}")))?,
    ];
    check_floor(&ports).map_err(setup)?;
    super::features::check().map_err(setup)?;
    let legs = find_legs(config)?;
    let state = read_state(&config.state)?;
    check_pins(&config.pins)?;
    let (folder, seed, adopted) = maps(config, ports[0].mtu)?;
    let result = start_with(config, &ports, &legs, state, &folder, seed, adopted);
    match result {
        Ok(control) => {
            remove_old_maps(&config.pins, &folder);
            Ok(Attached { control, ports, adopted, _lock: lock })
        }
        Err(error) => {
            if !adopted {
                remove_folder(&folder);
            }
            Err(error)
        }
    }
}

fn find_legs(config: &Config) -> Result<Vec<Vec<Interface>>, StartError> {
    let of_app = |app: &crate::app::App| {
        let find = |leg: &crate::app::Leg| {
            Interface::find(&leg.interface)
                .map_err(|what| setup(format!("app.{}: {what}", app.name)))
        };
        app.legs.iter().map(find).collect()
    };
    config.apps.iter().map(of_app).collect()
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
    legs: &[Vec<Interface>],
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
    let names: Vec<&str> = config.apps.iter().map(|app| app.name.as_str()).collect();
    if adopted && state.as_ref().is_none_or(|state| state.apps != names) {
        // The rules in the kernel name apps by number, which are others from here on.
        let nobody = crate::rule::Profile::default();
        let table = Table::new(0, &[], &[nobody]).expect("no rules are not too many");
        programs.set_rules(&table)?;
    }
    // Uplink leaves by the core's interface.
    programs.set_wire(0, ports[1].index)?;
    programs.set_wire(1, ports[0].index)?;
    let places = place_apps(&mut programs, config, ports, legs)?;
    for place in &places {
        programs.program(place.program)?;
    }
    let mut control = Control::new(
        programs,
        config.sessions,
        seed,
        config.apps.clone(),
        config.limits.clone(),
        config.names(),
        config.networks.clone(),
    );
    let is_first = state.is_none();
    control.adopt(state.unwrap_or_default(), adopted)?;
    if let Some(path) = config.rules.as_ref().filter(|_| is_first) {
        first_rules(&mut control, path)?;
    }
    attach(&mut control.programs, &places, &config.pins.join("links"))?;
    Ok(control)
}

/// Writes the apps, and says which program each interface gets: the wire's last.
fn place_apps(
    programs: &mut Programs,
    config: &Config,
    ports: &[Interface; 2],
    legs: &[Vec<Interface>],
) -> Result<Vec<Place>, KernelError> {
    let mut places = Vec::new();
    let (mut leg_place, mut tap) = (0, 0);
    for (number, (app, legs)) in config.apps.iter().zip(legs).enumerate() {
        let mut numbers = Vec::new();
        for (index, leg) in legs.iter().enumerate() {
            assert!(usize::from(leg_place) < LEGS_MAX, "the configuration was checked");
            programs.set_leg(leg_place, leg.index)?;
            if let Some(network) = app.network.filter(|network| *network > 0) {
                programs.set_leg_network(leg.index, network)?;
            }
            numbers.push(leg_place);
            leg_place += 1;
            if let Some(program) = program_of(app.kind, index) {
                let role = format!("{program}-{}", leg.name);
                places.push(Place { role, interface: leg.clone(), program });
            }
        }
        if let Kind::Tap { decapsulated } = app.kind {
            let macs = decapsulated.then(|| [app.legs[0].mac, legs[0].mac]);
            programs.set_tap(tap, [ports[1].index, ports[0].index], legs[0].index, macs)?;
        }
        let own: Vec<[u8; 6]> = legs.iter().map(|leg| leg.mac).collect();
        programs.set_app(number as u8, app, &numbers, &own, tap)?;
        if let Kind::Tap { .. } = app.kind {
            tap += 1;
        }
    }
    for (port, program) in ports.iter().zip(["access", "core"]) {
        let role = format!("{program}-{}", port.name);
        places.push(Place { role, interface: port.clone(), program });
    }
    Ok(places)
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
    match control.set_rules(rules) {
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
            let hint = match errno_of(&error) {
                Some(Errno::PERM | Errno::ACCESS | Errno::NOSYS) => {
                    "may this process attach programs, with CAP_NET_ADMIN and bpf(2)?".to_owned()
                }
                Some(Errno::BUSY) => format!("is another program on it? See `ip link show {name}`"),
                Some(Errno::RANGE | Errno::INVAL) => format!(
                    "an MTU of {mtu} is too long for programs in its driver; 3498 fits everywhere"
                ),
                _ => "has its driver XDP?".to_owned(),
            };
            setup(format!("{name}: {error}; {hint}"))
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

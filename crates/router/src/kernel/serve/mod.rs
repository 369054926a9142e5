//! A running router: it learns, tells the kernel which apps are alive, and answers questions.

mod answers;
mod apps;
mod events;
mod trace;
mod usages;
mod wire;

use super::attach::{Attached, StartError, lock, start};
use super::config::{ALIVE_MS, Config, Health};
use super::control::Refused;
use super::health::{Sign, now_ns};
use super::interface::Interface;
use super::layout;
use super::programs::KernelError;
use super::resolver::Resolver;
use crate::packet::AddressOf;
use crate::session::pfcp::{Change, Copies};
use crate::session::{Authority, Client};
use aya::maps::{MapData, RingBuf};
use events::Events;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::SystemTime;
use usages::Records;

/// Sightings taken before anything else gets a turn.
const SIGHTINGS_MAX: usize = 4096;
/// How often apps and the wire are looked after.
const TURN_MS: i64 = 100;

/// A router that runs.
#[allow(missing_debug_implementations, reason = "the queue of sightings has none")]
pub struct Running {
    config: Config,
    attached: Attached,
    sightings: RingBuf<MapData>,
    listener: UnixListener,
    pfcp: Option<UdpSocket>,
    copies: Copies,
    /// Read, not readable, and of somebody who is not believed.
    copies_read: [u64; 3],
    /// When the wire was looked at last.
    wire_looked_ns: u64,
    /// Why the wire goes on without programs, where it does.
    off_wire: Option<String>,
    watched: BTreeMap<u8, Watched>,
    events: Events,
    resolver: Option<Resolver>,
    records: Records,
}

/// An app that is looked after.
struct Watched {
    health: Health,
    sign: Sign,
    is_alive: bool,
}

impl Watched {
    fn begin(health: Health, legs: &[Interface]) -> Self {
        let sign = Sign::watch(health.clone(), legs.to_vec());
        Self { health, sign, is_alive: false }
    }
}

impl Running {
    /// Starts a router: it is on the wire when this returns.
    ///
    /// # Errors
    /// What is to be changed; then the wire is as it was.
    pub fn start(config: Config) -> Result<Self, StartError> {
        let wrong = |what: String| StartError::Setup(what);
        let lock = lock(&config)?;
        let pfcp = config.pfcp.as_ref().map(|mirror| {
            let socket =
                UdpSocket::bind(mirror.address).map_err(|error| wrong(format!("pfcp: {error}")))?;
            socket.set_nonblocking(true).map_err(|error| wrong(format!("pfcp: {error}")))?;
            Ok::<_, StartError>(socket)
        });
        let pfcp = pfcp.transpose()?;
        // Before anything is on the wire: beside its name, which another router may still have.
        let beside = config.socket.with_extension("early");
        let unheard = |error| wrong(format!("socket: {}: {error}", config.socket.display()));
        let listener = listen(&beside).map_err(unheard)?;
        let attached = start(&config, lock);
        let named = match &attached {
            Ok(_) => fs::rename(&beside, &config.socket),
            Err(_) => fs::remove_file(&beside),
        };
        let mut attached = attached?;
        named.map_err(unheard)?;
        let sightings = attached.control.programs.take_sightings()?;
        let (legs, health) = (&attached.legs, &attached.health);
        let watched = legs.iter().filter_map(|(number, legs)| {
            Some((*number, Watched::begin(health.get(number)?.clone(), legs)))
        });
        let watched = watched.collect();
        let resolver = config.resolver.map(Resolver::start);
        let copies = Copies::new(config.networks.clone());
        let records = Records::new(config.usage.clone(), config.usage_interval_s);
        let mut running = Self {
            config,
            attached,
            sightings,
            listener,
            pfcp,
            copies,
            copies_read: [0; 3],
            wire_looked_ns: 0,
            off_wire: None,
            watched,
            events: Events::default(),
            resolver,
            records,
        };
        for gone in std::mem::take(&mut running.attached.gone) {
            running.events.add("app-gone", gone);
        }
        running.want_names();
        running.save();
        Ok(running)
    }

    /// Runs until the kernel refuses something.
    ///
    /// # Errors
    /// What it refused.
    pub fn run(&mut self) -> Result<(), KernelError> {
        loop {
            self.wait();
            self.learn()?;
            self.copies()?;
            self.look_after_wire()?;
            self.look_after_apps()?;
            self.find_again()?;
            while let Ok((stream, _)) = self.listener.accept() {
                self.answer(stream);
            }
            self.take_names()?;
            self.record()?;
            self.events.push();
        }
    }

    /// Has the resolver ask for what the rules name.
    fn want_names(&self) {
        if let Some(resolver) = &self.resolver {
            resolver.want(self.attached.control.wanted_names());
        }
    }

    /// Brings what the resolver found into force.
    fn take_names(&mut self) -> Result<(), KernelError> {
        let Some(resolver) = &self.resolver else { return Ok(()) };
        let found: Vec<_> = resolver.found().collect();
        for one in found {
            let taken = match one.addresses {
                Ok(addresses) => self.attached.control.set_name(one.name.clone(), addresses),
                Err(why) => {
                    self.events.add("name-unknown", format!("{}: {why}", one.name));
                    continue;
                }
            };
            match taken {
                Ok(false) => {}
                Ok(true) => {
                    self.save();
                    self.events.add("name", one.name);
                }
                Err(Refused::Mistakes(mistakes)) => {
                    let why = mistakes.first().map(ToString::to_string).unwrap_or_default();
                    self.events.add("name-refused", format!("{}: {why}", one.name));
                }
                Err(Refused::Kernel(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits for something to do, or for the next turn of the apps.
    fn wait(&self) {
        let mut waiting = vec![
            PollFd::new(&self.sightings, PollFlags::IN),
            PollFd::new(&self.listener, PollFlags::IN),
        ];
        if let Some(socket) = &self.pfcp {
            waiting.push(PollFd::new(socket, PollFlags::IN));
        }
        let timeout = Timespec { tv_sec: 0, tv_nsec: TURN_MS * 1_000_000 };
        // Interrupted or not, what there is to do shows itself.
        let _ = poll(&mut waiting, Some(&timeout));
    }

    fn learn(&mut self) -> Result<(), KernelError> {
        let now_ms = now_ns() / 1_000_000;
        for _ in 0..SIGHTINGS_MAX {
            let Some(item) = self.sightings.next() else { break };
            let Some(sighting) = layout::sighting(&item) else { continue };
            drop(item);
            if let Some((what, client)) = self.attached.control.seen(&sighting, now_ms)? {
                self.happened(what, client);
            }
        }
        Ok(())
    }

    fn copies(&mut self) -> Result<(), KernelError> {
        const COPIES_MAX: usize = 256;
        let (Some(socket), Some(mirror)) = (&self.pfcp, &self.config.pfcp) else { return Ok(()) };
        let mut changes = Vec::new();
        let mut bytes = [0; 65_536];
        for _ in 0..COPIES_MAX {
            let Ok((length, sender)) = socket.recv_from(&mut bytes) else { break };
            let sender = AddressOf::from(sender.ip()).0;
            if !mirror.from.iter().any(|known| known.contains(sender)) {
                self.copies_read[2] += 1;
                continue;
            }
            // A copy is the IP packet as the control plane or the user plane sent it.
            match super::copy::payload(&bytes[..length]) {
                Some((from, to, payload)) => match self.copies.message(from, to, payload) {
                    Ok(more) => {
                        self.copies_read[0] += 1;
                        changes.extend(more);
                    }
                    Err(_) => self.copies_read[1] += 1,
                },
                None => self.copies_read[1] += 1,
            }
        }
        for change in changes {
            match change {
                Change::Told(told) => {
                    self.attached.control.tell(told, Authority::Pfcp)?;
                    self.happened("signalled", told.client);
                }
                Change::Ended(client) => {
                    self.attached.control.forget(client, Authority::Pfcp)?;
                    self.happened("ended", client);
                }
            }
        }
        Ok(())
    }

    /// Tells the kernel until when each app is alive. If this process dies nobody does, and their
    /// traffic goes on to the core.
    fn look_after_apps(&mut self) -> Result<(), KernelError> {
        let now = now_ns();
        for (number, watched) in &mut self.watched {
            let sign = watched.sign.last_ns();
            let until = if sign == 0 { 0 } else { sign + ALIVE_MS * 1_000_000 };
            let control = &mut self.attached.control;
            // Before its first sign it is what a router before this one said.
            if sign > 0 {
                control.programs.set_alive(*number, until)?;
            }
            let is_alive = until > now;
            if !is_alive {
                control.settle_beside(*number)?;
            }
            if watched.is_alive != is_alive {
                watched.is_alive = is_alive;
                let name = control.apps.get(*number).map(|app| app.name.clone());
                let what = if is_alive { "app-alive" } else { "app-dead" };
                self.events.add(what, name.unwrap_or_default());
            }
        }
        Ok(())
    }

    /// Appends usage records; what cannot be written is an event.
    fn record(&mut self) -> Result<(), KernelError> {
        if let Err(lost) = self.records.take_turn(&mut self.attached.control)? {
            self.events.add("usage-lost", lost);
        }
        Ok(())
    }

    /// Something happened to a client.
    fn happened(&mut self, what: &'static str, client: Client) {
        self.events.add(what, self.attached.control.networks.text(client));
    }

    /// Writes what outlives the process: whole, then under its name.
    fn save(&mut self) {
        let path = self.config.state.clone();
        if let Err(error) = write_whole(&path, &self.attached.control.state()) {
            self.events.add("state-lost", format!("{}: {error}", path.display()));
        }
    }
}

fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u64
}

/// Listens, in place of a socket that was left behind.
fn listen(path: &Path) -> io::Result<UnixListener> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let _ = fs::remove_file(path);
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn write_whole(path: &Path, state: &super::control::State) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let beside = path.with_extension("new");
    let mut file = fs::File::create(&beside)?;
    file.write_all(&serde_json::to_vec(state)?)?;
    file.sync_all()?;
    fs::rename(beside, path)
}

//! A running router: it learns, tells the kernel which apps are alive, and answers questions.

use super::attach::{Attached, StartError, start};
use super::config::{ALIVE_MS, Config};
use super::control::{Control, Refused, Usage};
use super::health::{Signs, now_ns};
use super::layout;
use super::programs::{Count, KernelError};
use super::protocol::{
    Answer, Ask, Event, QUESTION_BYTES_MAX, Question, RuleShown, SessionShown, SessionTold, Status,
    Trace, Traced, VERSION,
};
use super::resolver::Resolver;
use crate::packet::AddressOf;
use crate::rule::check;
use crate::rule::reference::{entries, first_match};
use crate::rule::{Direction, Subject, compile};
use crate::session::learn::Told;
use crate::session::pfcp::{Change, Copies};
use crate::session::{Authority, Client, lines};
use aya::maps::{MapData, RingBuf};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use std::collections::VecDeque;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// Events kept for whoever asks.
const EVENTS_MAX: usize = 1024;
/// Connections that events are pushed to.
const FOLLOWERS_MAX: usize = 16;
/// Clients whose use is looked up before anything else gets a turn.
const USAGES_MAX: usize = 1024;
/// Sightings taken before anything else gets a turn.
const SIGHTINGS_MAX: usize = 4096;
/// How often apps are looked after.
const TURN_MS: i64 = 100;
/// How long a question may take to arrive, and its answer to leave: meanwhile nobody says that apps are
/// alive.
const QUESTION_TIMEOUT: Duration = Duration::from_millis(250);

/// A router that runs.
#[allow(missing_debug_implementations, reason = "the queue of sightings has none")]
pub struct Running {
    config: Config,
    attached: Attached,
    sightings: RingBuf<MapData>,
    listener: UnixListener,
    pfcp: Option<UdpSocket>,
    copies: Copies,
    copies_read: [u64; 2],
    signs: Signs,
    alive: Vec<bool>,
    events: VecDeque<Event>,
    events_seen: u64,
    /// Connections that events are pushed to, each with the last it got.
    followers: Vec<(UnixStream, u64)>,
    resolver: Option<Resolver>,
    /// When the next round of usage records begins, and whose turn is still to come in this one.
    usage_due: Instant,
    usage_left: Vec<Client>,
}

impl Running {
    /// Starts a router: it is on the wire when this returns.
    ///
    /// # Errors
    /// What is to be changed; then the wire is as it was.
    pub fn start(config: Config) -> Result<Self, StartError> {
        let wrong = |what: String| StartError::Setup(what);
        let pfcp = config.pfcp.map(|address| {
            let socket =
                UdpSocket::bind(address).map_err(|error| wrong(format!("pfcp: {error}")))?;
            socket.set_nonblocking(true).map_err(|error| wrong(format!("pfcp: {error}")))?;
            Ok::<_, StartError>(socket)
        });
        let pfcp = pfcp.transpose()?;
        // Before anything is on the wire: beside its name, which another router may still have.
        let beside = config.socket.with_extension("early");
        let unheard = |error| wrong(format!("socket: {}: {error}", config.socket.display()));
        let listener = listen(&beside).map_err(unheard)?;
        let attached = start(&config);
        let named = match &attached {
            Ok(_) => fs::rename(&beside, &config.socket),
            Err(_) => fs::remove_file(&beside),
        };
        let mut attached = attached?;
        named.map_err(unheard)?;
        let sightings = attached.control.programs.take_sightings()?;
        let names = |app: &crate::app::App| {
            app.legs.iter().map(|leg| leg.interface.clone()).collect::<Vec<_>>()
        };
        let interfaces: Vec<Vec<String>> = config.apps.iter().map(names).collect();
        let signs = Signs::watch(&config.health, &interfaces);
        let alive = vec![false; config.apps.len()];
        let resolver = config.resolver.map(Resolver::start);
        let mut running = Self {
            config,
            attached,
            sightings,
            listener,
            pfcp,
            copies: Copies::default(),
            copies_read: [0; 2],
            signs,
            alive,
            events: VecDeque::new(),
            events_seen: 0,
            followers: Vec::new(),
            resolver,
            usage_due: Instant::now(),
            usage_left: Vec::new(),
        };
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
            self.look_after_apps()?;
            while let Ok((stream, _)) = self.listener.accept() {
                self.answer(stream);
            }
            self.take_names()?;
            let ended = self.attached.control.ended();
            self.record("end", &ended);
            self.record_some()?;
            self.push();
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
                    self.happened("name-unknown", format!("{}: {why}", one.name));
                    continue;
                }
            };
            match taken {
                Ok(false) => {}
                Ok(true) => {
                    self.save();
                    self.happened("name", one.name);
                }
                Err(Refused::Mistakes(mistakes)) => {
                    let why = mistakes.first().map(ToString::to_string).unwrap_or_default();
                    self.happened("name-refused", format!("{}: {why}", one.name));
                }
                Err(Refused::Kernel(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Records what some of the clients used since the last time, where that is wanted.
    fn record_some(&mut self) -> Result<(), KernelError> {
        let Some(seconds) = self.config.usage_interval_s else { return Ok(()) };
        if self.usage_left.is_empty() && self.usage_due <= Instant::now() {
            self.usage_due = Instant::now() + Duration::from_secs(seconds);
            self.usage_left = self.attached.control.clients();
        }
        let rest = self.usage_left.len().saturating_sub(USAGES_MAX);
        let mut changed = Vec::new();
        for client in self.usage_left.drain(rest..) {
            changed.extend(self.attached.control.changed_usage(client)?);
        }
        self.record("interim", &changed);
        Ok(())
    }

    /// Pushes events to whoever follows them. Who does not take them is let go.
    fn push(&mut self) {
        let (events, newest) = (&self.events, self.events_seen);
        self.followers.retain_mut(|(stream, last)| {
            let newer = events.iter().filter(|event| event.number > *last);
            let lines: Vec<u8> = newer.flat_map(|event| line(Ok(event))).collect();
            *last = newest;
            lines.is_empty() || stream.write(&lines).is_ok_and(|sent| sent == lines.len())
        });
    }

    /// Has a connection follow events from now on.
    fn follow(&mut self, stream: UnixStream, after: u64) {
        // Those that hung up: they say nothing else.
        self.followers.retain(|(stream, _)| {
            let mut nothing = [0; 1];
            !matches!((&*stream).read(&mut nothing), Ok(0))
        });
        let is_room = self.followers.len() < FOLLOWERS_MAX;
        if is_room && stream.set_nonblocking(true).is_ok() {
            self.followers.push((stream, after));
        } else {
            let why = format!("{FOLLOWERS_MAX} follow already, which is the most");
            let _ = (&stream).write_all(&line::<()>(Err(Refusal::words(why))));
        }
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
            let control = &mut self.attached.control;
            let before = control.sessions.get(sighting.client).map(|(session, _)| session);
            control.seen(&sighting, now_ms)?;
            let after = control.sessions.get(sighting.client).map(|(session, _)| session);
            let what = match (before, after) {
                (None, Some(_)) => "session",
                (Some(_), None) => "ambiguous",
                (Some(before), Some(after)) if before.path.ends != after.path.ends => "handover",
                _ => continue,
            };
            self.happened(what, sighting.client.to_string());
        }
        Ok(())
    }

    fn copies(&mut self) -> Result<(), KernelError> {
        const COPIES_MAX: usize = 256;
        let Some(socket) = &self.pfcp else { return Ok(()) };
        let mut changes = Vec::new();
        let mut bytes = [0; 65_536];
        for _ in 0..COPIES_MAX {
            let Ok(length) = socket.recv(&mut bytes) else { break };
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
                    self.happened("signalled", told.client.to_string());
                }
                Change::Ended(client) => {
                    self.attached.control.forget(client, Authority::Pfcp)?;
                    self.happened("ended", client.to_string());
                }
            }
        }
        Ok(())
    }

    /// Tells the kernel until when each app is alive. If this process dies nobody does, and their
    /// traffic goes on to the core.
    fn look_after_apps(&mut self) -> Result<(), KernelError> {
        let now = now_ns();
        for number in 0..self.alive.len() {
            let sign = self.signs.last_ns(number);
            let until = if sign == 0 { 0 } else { sign + ALIVE_MS * 1_000_000 };
            self.attached.control.programs.set_alive(number as u8, until)?;
            let is_alive = until > now;
            if self.alive[number] != is_alive {
                self.alive[number] = is_alive;
                let name = self.config.apps[number].name.clone();
                self.happened(if is_alive { "app-alive" } else { "app-dead" }, name);
            }
        }
        Ok(())
    }

    fn happened(&mut self, what: &'static str, subject: String) {
        self.events_seen += 1;
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(Event { number: self.events_seen, at_ms: wall_ms(), what, subject });
    }

    /// Appends usage records; what cannot be written is an event.
    fn record(&mut self, kind: &'static str, usages: &[Usage]) {
        #[derive(Serialize)]
        struct Record<'a> {
            at_ms: u64,
            /// Whether the session ended, or goes on: counts are from its beginning.
            kind: &'static str,
            #[serde(flatten)]
            usage: &'a Usage,
        }
        let Some(path) = self.config.usage.clone().filter(|_| !usages.is_empty()) else { return };
        let at_ms = wall_ms();
        let lines: String = usages
            .iter()
            .filter_map(|usage| serde_json::to_string(&Record { at_ms, kind, usage }).ok())
            .map(|line| line + "\n")
            .collect();
        let file = fs::File::options().append(true).create(true).open(&path);
        if let Err(error) = file.and_then(|mut file| file.write_all(lines.as_bytes())) {
            self.happened("usage-lost", format!("{}: {error}", path.display()));
        }
    }

    /// Writes what outlives the process: whole, then under its name.
    fn save(&mut self) {
        let path = self.config.state.clone();
        if let Err(error) = write_whole(&path, &self.attached.control.state()) {
            self.happened("state-lost", format!("{}: {error}", path.display()));
        }
    }

    fn answer(&mut self, stream: UnixStream) {
        let _ = stream.set_nonblocking(false);
        let _ = stream.set_read_timeout(Some(QUESTION_TIMEOUT));
        let _ = stream.set_write_timeout(Some(QUESTION_TIMEOUT));
        let mut asked = Vec::new();
        let mut reader = BufReader::new((&stream).take(QUESTION_BYTES_MAX));
        if reader.read_until(b'\n', &mut asked).is_err() {
            return;
        }
        let answer = match serde_json::from_slice::<Question>(&asked) {
            Ok(Question { version: VERSION, ask: Ask::Follow { after } }) => {
                return self.follow(stream, after);
            }
            Ok(question) if question.version == VERSION => self.answer_to(question.ask),
            Ok(question) => Err(Refusal::words(format!(
                "version {} is not spoken here; this router speaks {VERSION}",
                question.version
            ))),
            Err(error) => Err(Refusal::words(format!("not understood: {error}"))),
        };
        // Who does not wait for the answer does not get it.
        let _ = (&stream).write_all(&line(answer));
    }

    fn answer_to(&mut self, ask: Ask) -> Result<serde_json::Value, Refusal> {
        match ask {
            Ask::Status => json(&self.status()?),
            Ask::Rules => {
                let control = &mut self.attached.control;
                let shown = control.rules.iter().map(|rule| {
                    let count = control.programs.rule_count(rule.number)?;
                    Ok(RuleShown { id: rule.id.clone(), active: rule.is_active, count })
                });
                json(&shown.collect::<Result<Vec<_>, KernelError>>()?)
            }
            Ask::SetRules { rules } => {
                let rules = check::read(rules).map_err(Refusal::mistakes)?;
                let generation =
                    self.attached.control.set_rules(rules).map_err(|refused| match refused {
                        Refused::Mistakes(mistakes) => Refusal::mistakes(mistakes),
                        Refused::Kernel(error) => Refusal::from(error),
                    })?;
                self.save();
                self.want_names();
                self.happened("rules", generation.to_string());
                json(&serde_json::json!({ "generation": generation }))
            }
            Ask::Sessions { limit, client } => json(&self.sessions(limit, client.as_deref())?),
            Ask::AddSession(told) => {
                let told = read_told(&told)?;
                self.attached.control.tell(told, Authority::Operator)?;
                json(
                    &serde_json::json!({ "used": self.attached.control.sessions.get(told.client).is_some() }),
                )
            }
            Ask::RemoveSession { client } => {
                let client = read_client(&client)?;
                json(&serde_json::json!({
                    "removed": self.attached.control.forget(client, Authority::Learnt)?
                }))
            }
            Ask::Tag { client, tags } => {
                let client = read_client(&client)?;
                if tags.len() > crate::rule::LIST_MAX {
                    return Err(Refusal::words(format!(
                        "{} tags are the most",
                        crate::rule::LIST_MAX
                    )));
                }
                self.attached.control.tag(client, tags)?;
                self.save();
                json(&serde_json::json!({}))
            }
            Ask::Trace(traced) => json(&trace(&mut self.attached.control, &self.alive, &traced)?),
            Ask::Follow { .. } => Err(Refusal::words("only a connection of its own follows")),
            Ask::Events { after } => {
                let newer: Vec<&Event> =
                    self.events.iter().filter(|event| event.number > after).collect();
                json(&newer)
            }
        }
    }

    fn status(&mut self) -> Result<Status, KernelError> {
        let control = &mut self.attached.control;
        let counters = control.programs.reasons()?;
        let names = ["access", "core", "apps"];
        let shown = |list: Vec<(crate::model::Reason, Count)>| {
            let used = list.into_iter().filter(|(_, count)| count.packets > 0);
            used.map(|(reason, count)| (reason.name(), count)).collect()
        };
        let names_of = self.attached.ports.iter().map(|port| port.name.clone()).collect::<Vec<_>>();
        Ok(Status {
            generation: control.generation,
            rules: control.rules.len(),
            sessions: control.sessions.len(),
            ports: names_of.try_into().expect("the wire has two ends"),
            adopted: self.attached.adopted,
            apps: control.apps.iter().map(|app| app.name.clone()).zip(self.alive.clone()).collect(),
            learning: control.learning,
            counters: names.into_iter().zip(counters.map(shown)).collect(),
            pfcp: self.copies_read,
        })
    }

    fn sessions(&mut self, limit: usize, only: Option<&str>) -> Result<Vec<SessionShown>, Refusal> {
        const LIMIT_MAX: usize = 10_000;
        let only = only.map(read_client).transpose()?;
        let control = &mut self.attached.control;
        let mut found: Vec<_> = control
            .sessions
            .iter()
            .filter(|(session, _)| only.is_none_or(|client| client == session.client))
            .collect();
        found.sort_unstable_by_key(|(session, _)| session.client);
        found.truncate(limit.min(LIMIT_MAX));
        let shown = found.into_iter().map(|(session, authority)| {
            Ok(SessionShown {
                client: session.client.to_string(),
                authority,
                ends: session.path.ends.map(|end| AddressOf(end).to_string()),
                teids: session.teids,
                qfi: session.qfi,
                form: session.form,
                tags: control.sessions.tags(session.client).to_vec(),
                usage: control.usage(session.client)?,
            })
        });
        Ok(shown.collect::<Result<Vec<_>, KernelError>>()?)
    }
}

/// Why a question got no answer.
struct Refusal {
    words: String,
    mistakes: Vec<check::Mistake>,
}

impl Refusal {
    fn words(words: impl Into<String>) -> Self {
        Self { words: words.into(), mistakes: Vec::new() }
    }

    fn mistakes(mistakes: Vec<check::Mistake>) -> Self {
        Self { words: "the rules have mistakes; none was taken".to_owned(), mistakes }
    }
}

impl From<KernelError> for Refusal {
    fn from(error: KernelError) -> Self {
        Self::words(error.to_string())
    }
}

/// An answer as it is sent.
fn line<T: Serialize>(answer: Result<T, Refusal>) -> Vec<u8> {
    let answer = match answer {
        Ok(value) => {
            Answer { version: VERSION, answer: Some(value), error: None, mistakes: Vec::new() }
        }
        Err(Refusal { words, mistakes }) => {
            Answer { version: VERSION, answer: None, error: Some(words), mistakes }
        }
    };
    let mut text = serde_json::to_vec(&answer).unwrap_or_default();
    text.push(b'\n');
    text
}

fn json(value: &impl Serialize) -> Result<serde_json::Value, Refusal> {
    serde_json::to_value(value).map_err(|error| Refusal::words(error.to_string()))
}

fn read_client(text: &str) -> Result<Client, Refusal> {
    Client::parse(text).ok_or_else(|| Refusal::words(format!("`{text}` is no client's address")))
}

fn read_told(told: &SessionTold) -> Result<Told, Refusal> {
    let [access, core] = told.ends;
    if access.is_ipv4() != core.is_ipv4() {
        return Err(Refusal::words("ends: both must be of one IP version"));
    }
    Ok(Told {
        client: read_client(&told.client)?,
        teids: told.teids,
        ends: [AddressOf::from(access).0, AddressOf::from(core).0],
        qfi: told.qfi & 0x3f,
        form: told.form,
    })
}

/// Says step by step what would become of a packet: by what the kernel has, and by what rules mean.
fn trace(control: &mut Control, alive: &[bool], traced: &Traced) -> Result<Trace, Refusal> {
    let direction = if traced.downlink { Direction::Downlink } else { Direction::Uplink };
    let [client, server] = [traced.client, traced.server].map(|one| AddressOf::from(one).0);
    let mut steps = Vec::new();
    let done = |steps, reason| Ok(Trace { direction, steps, reason });
    let Some(who) = Client::of(client) else {
        steps.push(format!("{} can be no client", traced.client));
        return done(steps, "no-session");
    };
    let known = control.sessions.get(who);
    let Some((session, authority)) = known else {
        steps.push(format!("no session is known for {who}: everything passes"));
        steps.push("one is learnt when the core answers a packet of the client".to_owned());
        return done(steps, "no-session");
    };
    let ends = session.path.ends.map(|end| AddressOf(end).to_string());
    steps.push(format!(
        "session of {who}, {}: base station {} (tunnel {}), core {} (tunnel {})",
        match authority {
            Authority::Pfcp => "signalled by the core",
            Authority::Learnt => "learnt from traffic",
            Authority::Operator => "told by the operator",
        },
        ends[0],
        session.teids[1],
        ends[1],
        session.teids[0]
    ));
    let numbers = control.numbers(who).unwrap_or_default();
    match control.line_of(who)? {
        Some(found) if found.teids == session.teids && found.numbers == numbers => {
            steps.push("the kernel has the same session".to_owned());
        }
        _ => steps.push("the kernel has another session for this client".to_owned()),
    }
    let profile = control.profile(numbers.profile);
    if !profile.tags.is_empty() {
        steps.push(format!("tags: {}", profile.tags.join(", ")));
    }
    let ports = traced.ports;
    let subject = Subject {
        version: if traced.client.is_ipv4() { 4 } else { 6 },
        addresses: if traced.downlink { [server, client] } else { [client, server] },
        ports: ports.map(|[own, other]| if traced.downlink { [other, own] } else { [own, other] }),
        protocol: traced.protocol,
        traffic_class: traced.traffic_class,
    };
    let entries = entries(&control.rules, direction);
    let Some(place) = first_match(&entries, direction, &subject, &profile) else {
        steps.push(format!("none of {} active filters matches: it passes", entries.len()));
        return done(steps, "no-rule");
    };
    let entry = &entries[place];
    let target = compile::target(entry);
    steps.push(format!(
        "rule `{}` matches, priority {}, the first of {} active filters that does",
        entry.rule.id,
        entry.rule.priority,
        entries.len()
    ));
    if target.act <= 1 {
        let is_pass = target.act == 0;
        steps.push(
            if is_pass { "it lets the packet pass" } else { "it drops the packet" }.to_owned(),
        );
        return done(steps, if is_pass { "rule-pass" } else { "rule-drop" });
    }
    let app = usize::from(target.app);
    let name = &control.apps[app].name;
    if !alive.get(app).copied().unwrap_or_default() {
        steps.push(format!("app `{name}` is not alive: the packet passes to the core"));
        return done(steps, "app-dead");
    }
    steps.push(format!("app `{name}`, {}, gets it", control.apps[app].kind));
    done(steps, ["breakout", "in-line", "tap"][usize::from(target.act) - 2])
}

impl Control {
    /// What the kernel's line of a client holds.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn line_of(&mut self, client: Client) -> Result<Option<lines::Found>, KernelError> {
        let Some(slot) = self.slot_of(client) else { return Ok(None) };
        Ok(lines::decode(&self.programs.line(slot)?))
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

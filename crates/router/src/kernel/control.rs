//! What is believed, brought into the kernel: sessions, rules, apps.

use super::config::{AppDescription, LIMITS_MAX, RATES};
use super::interned::Interned;
use super::programs::{Count, KernelError, Programs};
use super::protocol::RuleLimit;
use super::settling::Settling;
use crate::app::{Apps, Numbered};
use crate::rule::check::{self, Mistake};
use crate::rule::compile::{PROFILES_MAX, Table};
use crate::rule::name::{Names, wanted};
use crate::rule::wire::TrafficRule;
use crate::rule::{ENTRIES_MAX, Filter, Part, Profile, RULES_MAX, Rule};
use crate::session::learn::{Learnt, Sessions, Sighting, Told};
use crate::session::lines::{self, Lines, Numbers};
use crate::session::network::Networks;
use crate::session::{Authority, Client, PATHS_MAX, Path, Session};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

/// What the router learnt, counted.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Learning {
    /// Sightings that were told.
    pub sightings: u64,
    /// Sessions that began or moved.
    pub sessions: u64,
    /// Sessions that were withdrawn as ambiguous.
    pub ambiguous: u64,
    /// What was not taken up for want of room.
    pub full: u64,
}

/// What outlives the process besides the maps.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct State {
    /// Which set of rules it is.
    pub generation: u64,
    /// The rules.
    pub rules: Vec<TrafficRule>,
    /// Rates that some of them share.
    #[serde(default)]
    limits: Vec<RuleLimit>,
    /// The apps they name, by number.
    apps: Vec<Option<String>>,
    /// Those that are taps, by their places among taps.
    #[serde(default)]
    taps: Vec<Option<String>>,
    /// Apps besides those of the configuration.
    #[serde(default)]
    pub(super) added: BTreeMap<String, AppDescription>,
    /// Their numbers, which counters have.
    pub numbers: BTreeMap<String, u16>,
    /// Tags of clients.
    tags: BTreeMap<String, Vec<String>>,
    /// Addresses of names in rules.
    #[serde(default)]
    names: BTreeMap<String, Vec<IpAddr>>,
}

impl State {
    /// Who has which number.
    #[must_use]
    pub fn numbered(&self) -> Numbered {
        Numbered { apps: self.apps.clone(), taps: self.taps.clone() }
    }
}

/// Rules as somebody set them.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    /// The rules.
    pub rules: Vec<TrafficRule>,
    /// Rates that some of them share.
    pub limits: Vec<RuleLimit>,
}

/// Why rules were not taken.
#[derive(Debug)]
pub enum Refused {
    /// They have mistakes.
    Mistakes(Vec<Mistake>),
    /// The kernel refused them.
    Kernel(KernelError),
}

/// A client's use of apps, for charging.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Usage {
    /// Who.
    pub client: String,
    /// From the client to apps, and back.
    pub uplink: Count,
    /// From apps to the client.
    pub downlink: Count,
}

/// Everything the kernel was told.
#[derive(Debug)]
pub struct Control {
    pub(super) programs: Programs,
    pub(super) sessions: Sessions,
    pub(super) learning: Learning,
    lines: Lines,
    numbers: HashMap<Client, Numbers>,
    paths: Interned<Path>,
    profiles: Interned<Profile>,
    usage_free: Vec<u32>,
    usage_next: u32,
    sessions_max: usize,
    pub(super) networks: Networks,
    pub(super) apps: Apps,
    /// Those that the configuration does not have, as they were described.
    pub(super) added: BTreeMap<String, AppDescription>,
    limits: BTreeMap<String, u64>,
    pub(super) rules: Vec<Rule>,
    pub(super) set: RuleSet,
    pub(super) generation: u64,
    /// Uses of sessions that ended since they were last asked for.
    ended: Vec<Usage>,
    /// What was last recorded of clients whose sessions go on, in packets each way.
    recorded: HashMap<Client, [u64; 2]>,
    pub(super) names: Names,
    tagged: BTreeMap<Client, Vec<String>>,
    pub(super) settling: Settling,
}

/// The profile of those about whom nothing is known.
const NOBODY: u16 = 0;
/// How long a limiter lets a burst through.
const BURST_MS: u64 = 20;

impl Control {
    /// Control over programs that know nothing yet.
    #[must_use]
    pub fn new(
        programs: Programs,
        sessions_max: usize,
        seed: u64,
        apps: Apps,
        limits: BTreeMap<String, u64>,
        names: Names,
        networks: Networks,
    ) -> Self {
        let mut profiles = Interned::new(PROFILES_MAX);
        // The first is that of clients without tags and tunnel; it stays.
        let _ = profiles.take(&Profile::default());
        Self {
            programs,
            sessions: Sessions::new(sessions_max, networks.clone()),
            learning: Learning::default(),
            lines: Lines::new(sessions_max, seed),
            numbers: HashMap::new(),
            paths: Interned::new(PATHS_MAX),
            profiles,
            usage_free: Vec::new(),
            usage_next: 0,
            sessions_max,
            networks,
            apps,
            added: BTreeMap::new(),
            limits,
            rules: Vec::new(),
            set: RuleSet::default(),
            generation: 0,
            ended: Vec::new(),
            recorded: HashMap::new(),
            names,
            tagged: BTreeMap::new(),
            settling: Settling::default(),
        }
    }

    /// Takes over what another process left in its file and, where the maps are its as well, in the
    /// lines of sessions.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn adopt(&mut self, state: State, has_lines: bool) -> Result<(), KernelError> {
        self.generation = state.generation;
        self.names.known = state.names;
        for (client, tags) in state.tags {
            if let Some(client) = self.networks.client(&client) {
                self.sessions.tag(client, tags.clone());
                self.tagged.insert(client, tags);
            }
        }
        let slots = if has_lines { lines::lines_for(self.sessions_max) as u32 } else { 0 };
        // Sessions whose profile is not the one their line has the number of.
        let mut others = Vec::new();
        for slot in 0..slots {
            let line = self.programs.line(slot)?;
            let Some(found) = self.lines.adopt(slot, &line) else { continue };
            let path = self.programs.path(found.numbers.path)?;
            self.paths.place(found.numbers.path, path);
            let _ = self.paths.take(&path);
            self.usage_next = self.usage_next.max(found.numbers.usage + 1);
            self.numbers.insert(found.client, found.numbers);
            let session = Session {
                client: found.client,
                teids: found.teids,
                qfi: found.qfi,
                form: found.form,
                path,
            };
            let tags = self.sessions.tags(found.client).to_vec();
            self.sessions.adopt(session, Authority::Learnt, tags);
            if !self.adopt_profile(&session, found.numbers.profile) {
                others.push(session);
            }
        }
        let used: std::collections::HashSet<u32> =
            self.numbers.values().map(|numbers| numbers.usage).collect();
        self.usage_free = (0..self.usage_next).filter(|number| !used.contains(number)).collect();
        let set = RuleSet { rules: state.rules, limits: state.limits };
        if self.set_checked(set, Some(state.numbers), state.generation).is_err() {
            // The apps are others now: the rules in the kernel name some that are gone.
            self.generation += 1;
            self.programs.set_rules(&self.table(&[]).expect("no rules are not too many"))?;
        }
        others.iter().try_for_each(|session| self.put(session))
    }

    /// Takes over the number that a session's line has for its profile; whether it can be had. Without
    /// it the session has the profile of those about whom nothing is known.
    fn adopt_profile(&mut self, session: &Session, number: u16) -> bool {
        let profile = self.profile_of(session);
        let is_free = self.profiles.values().get(usize::from(number)).is_none_or(Option::is_none);
        if is_free && usize::from(number) < PROFILES_MAX && !self.profiles.has(&profile) {
            self.profiles.place(number, profile.clone());
        }
        match self.profiles.take(&profile) {
            Some((taken, _)) if taken == number => true,
            taken => {
                taken.into_iter().for_each(|(taken, _)| self.profiles.release(taken));
                let _ = self.profiles.take(&Profile::default());
                if let Some(numbers) = self.numbers.get_mut(&session.client) {
                    numbers.profile = NOBODY;
                }
                false
            }
        }
    }

    fn profile_of(&self, session: &Session) -> Profile {
        let network = session.client.network;
        let mut tags = self.sessions.tags(session.client).to_vec();
        // Rules may ask for a network by its name.
        tags.extend(self.networks.name(network).map(str::to_owned));
        tags.sort_unstable();
        tags.dedup();
        let tunnel = (session.path.ends != [0; 2]).then_some(session.path.ends);
        Profile { tags, tunnel, network }
    }

    /// What outlives the process besides the maps.
    #[must_use]
    pub fn state(&self) -> State {
        let Numbered { apps, taps } = self.apps.numbered();
        State {
            generation: self.generation,
            rules: self.set.rules.clone(),
            limits: self.set.limits.clone(),
            apps,
            taps,
            added: self.added.clone(),
            numbers: self.rules.iter().map(|rule| (rule.id.clone(), rule.number)).collect(),
            names: self.names.known.clone(),
            tags: self
                .tagged
                .iter()
                .map(|(who, tags)| (self.networks.text(*who), tags.clone()))
                .collect(),
        }
    }

    /// Takes note of what the kernel saw; what that was for its client, if something.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn seen(
        &mut self,
        sighting: &Sighting,
        now_ms: u64,
    ) -> Result<Option<(&'static str, Client)>, KernelError> {
        let client = self.sessions.whose(sighting);
        self.learning.sightings += 1;
        let before = self.sessions.get(client).map(|(session, _)| session.path.ends);
        let learnt = self.sessions.seen(&Sighting { client, ..*sighting }, now_ms);
        self.learnt(learnt, client)?;
        let after = self.sessions.get(client).map(|(session, _)| session.path.ends);
        Ok(match (before, after) {
            (None, Some(_)) => Some(("session", client)),
            (Some(_), None) => Some(("ambiguous", client)),
            (Some(before), Some(after)) if before != after => Some(("handover", client)),
            _ => None,
        })
    }

    /// Takes a session from the core's signalling or the operator.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn tell(&mut self, told: Told, authority: Authority) -> Result<(), KernelError> {
        let learnt = self.sessions.tell(told, authority);
        self.learnt(learnt, told.client)
    }

    /// Forgets a session; whether there was one.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn forget(&mut self, client: Client, authority: Authority) -> Result<bool, KernelError> {
        let forgot = self.sessions.forget(client, authority);
        if forgot {
            self.remove(client)?;
        }
        Ok(forgot)
    }

    /// Sets a client's tags.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn tag(&mut self, client: Client, tags: Vec<String>) -> Result<(), KernelError> {
        self.sessions.tag(client, tags.clone());
        if tags.is_empty() {
            self.tagged.remove(&client);
        } else {
            self.tagged.insert(client, tags);
        }
        match self.sessions.get(client) {
            Some((session, _)) => self.put(&session),
            None => Ok(()),
        }
    }

    fn learnt(&mut self, learnt: Learnt, client: Client) -> Result<(), KernelError> {
        for evicted in self.sessions.evicted() {
            self.remove(evicted)?;
        }
        match learnt {
            Learnt::Nothing => Ok(()),
            Learnt::Session(session) => {
                self.learning.sessions += 1;
                self.put(&session)
            }
            Learnt::Ambiguous => {
                self.learning.ambiguous += 1;
                self.remove(client)
            }
            Learnt::Full => {
                self.learning.full += 1;
                Ok(())
            }
        }
    }

    fn put(&mut self, session: &Session) -> Result<(), KernelError> {
        let Some((path, is_new)) = self.paths.take(&session.path) else {
            self.learning.full += 1;
            return self.remove(session.client);
        };
        if is_new {
            self.programs.set_path(path, &session.path)?;
        }
        let profile = match self.profiles.take(&self.profile_of(session)) {
            Some((number, is_new)) => {
                if is_new && self.asks_for_profiles() {
                    self.programs
                        .set_rules(&self.table(&self.rules).expect("they were taken before"))?;
                }
                number
            }
            // Rules with tags and tunnels do not match this client.
            None => {
                self.learning.full += 1;
                let _ = self.profiles.take(&Profile::default());
                NOBODY
            }
        };
        let before = self.numbers.get(&session.client).copied();
        let usage = match before {
            Some(numbers) => numbers.usage,
            None => {
                let number = self.usage_free.pop().unwrap_or_else(|| {
                    self.usage_next += 1;
                    self.usage_next - 1
                });
                self.programs.clear_usage(number)?;
                number
            }
        };
        let numbers = Numbers { path, profile, usage };
        let Some(write) = self.lines.put(session, numbers) else {
            self.learning.full += 1;
            self.paths.release(path);
            self.profiles.release(profile);
            return Ok(());
        };
        self.programs.set_line(&write)?;
        self.numbers.insert(session.client, numbers);
        if let Some(before) = before {
            self.paths.release(before.path);
            self.profiles.release(before.profile);
        }
        Ok(())
    }

    fn remove(&mut self, client: Client) -> Result<(), KernelError> {
        for write in self.lines.remove(client) {
            self.programs.set_line(&write)?;
        }
        if let Some(numbers) = self.numbers.remove(&client) {
            let usage = self.usage_of(client, numbers)?;
            self.ended.extend(usage);
            self.recorded.remove(&client);
            self.paths.release(numbers.path);
            self.profiles.release(numbers.profile);
            self.usage_free.push(numbers.usage);
        }
        Ok(())
    }

    fn usage_of(&mut self, client: Client, numbers: Numbers) -> Result<Option<Usage>, KernelError> {
        let [uplink, downlink] = self.programs.usage(numbers.usage)?;
        let is_used = uplink.packets + downlink.packets > 0;
        Ok(is_used.then(|| Usage { client: self.networks.text(client), uplink, downlink }))
    }

    /// A client's use of apps since its session began.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn usage(&mut self, client: Client) -> Result<Option<Usage>, KernelError> {
        match self.numbers.get(&client).copied() {
            Some(numbers) => self.usage_of(client, numbers),
            None => Ok(None),
        }
    }

    /// Uses of sessions that ended since this was last asked.
    pub fn ended(&mut self) -> Vec<Usage> {
        std::mem::take(&mut self.ended)
    }

    /// Everybody who has a session.
    pub fn clients(&self) -> Vec<Client> {
        self.numbers.keys().copied().collect()
    }

    /// A client's use where it has changed since this was last asked.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn changed_usage(&mut self, client: Client) -> Result<Option<Usage>, KernelError> {
        let Some(usage) = self.usage(client)? else { return Ok(None) };
        let packets = [usage.uplink.packets, usage.downlink.packets];
        let is_same = self.recorded.insert(client, packets) == Some(packets);
        Ok((!is_same).then_some(usage))
    }

    /// Names that the rules in force have.
    #[must_use]
    pub fn wanted_names(&self) -> BTreeSet<String> {
        wanted(&self.set.rules)
    }

    /// Takes note of a name's addresses; whether they are others than before. The rules are in force
    /// with them when this returns.
    ///
    /// # Errors
    /// Why the rules are not possible with them; then what was known before counts.
    pub fn set_name(&mut self, name: String, addresses: Vec<IpAddr>) -> Result<bool, Refused> {
        if self.names.known.get(&name) == Some(&addresses) {
            return Ok(false);
        }
        let before = self.names.known.insert(name.clone(), addresses);
        let set = self.settle(self.set.clone(), self.generation);
        if set.is_err() {
            match before {
                Some(before) => self.names.known.insert(name, before),
                None => self.names.known.remove(&name),
            };
        }
        set.map(|_| true)
    }

    pub(super) fn slot_of(&self, client: Client) -> Option<u32> {
        self.lines.find(client)
    }

    /// The numbers a client's line has.
    #[must_use]
    pub fn numbers(&self, client: Client) -> Option<Numbers> {
        self.numbers.get(&client).copied()
    }

    /// The profile of a number.
    #[must_use]
    pub fn profile(&self, number: u16) -> Profile {
        self.profiles.values().get(usize::from(number)).cloned().flatten().unwrap_or_default()
    }

    /// Replaces all rules, or none of them.
    ///
    /// # Errors
    /// Every mistake with its place, or what the kernel refused; then nothing has changed.
    pub fn set_rules(&mut self, set: RuleSet) -> Result<u64, Refused> {
        self.settle(set, self.generation + 1)
    }

    pub(super) fn set_checked(
        &mut self,
        set: RuleSet,
        numbers: Option<BTreeMap<String, u16>>,
        generation: u64,
    ) -> Result<u64, Refused> {
        let mut rules =
            check::check(&set.rules, &self.apps, &self.names).map_err(Refused::Mistakes)?;
        let parts = check_limits(&set.limits, self.limits.len()).map_err(Refused::Mistakes)?;
        let known = numbers.unwrap_or_else(|| {
            self.rules.iter().map(|rule| (rule.id.clone(), rule.number)).collect()
        });
        let fresh = give_numbers(&mut rules, &known);
        let own = self.limits.iter().map(|(rule, rate)| (std::slice::from_ref(rule), *rate, None));
        let shared = set.limits.iter().zip(&parts);
        let shared =
            shared.map(|(one, parts)| (&one.rules[..], one.bits_per_second, Some(&parts[..])));
        for (place, (limited, rate, parts)) in own.chain(shared).enumerate() {
            let number = u8::try_from(place + 1).expect("they were counted");
            // What the configuration says goes first.
            let is_open =
                |rule: &Rule| rule.limiter == 0 || usize::from(rule.limiter) > self.limits.len();
            let rules = rules.iter_mut().filter(|rule| limited.contains(&rule.id) && is_open(rule));
            let mut is_used = false;
            for rule in rules {
                is_used = true;
                match parts {
                    Some(parts @ [_, ..]) => rule.parts.extend(
                        parts.iter().map(|filter| Part { filter: filter.clone(), limiter: number }),
                    ),
                    _ if rule.limiter == 0 => rule.limiter = number,
                    _ => {}
                }
            }
            if is_used {
                self.programs.set_limiter(number, rate, BURST_MS).map_err(Refused::Kernel)?;
            }
        }
        let before = std::mem::replace(&mut self.generation, generation);
        let table = self.table(&rules).map_err(|why| {
            self.generation = before;
            let mistake = Mistake { place: "rules".to_owned(), what: why.to_string() };
            Refused::Mistakes(vec![mistake])
        })?;
        if let Err(error) = self.programs.set_rules(&table) {
            self.generation = before;
            return Err(Refused::Kernel(error));
        }
        for number in fresh {
            self.programs.clear_rule_count(number).map_err(Refused::Kernel)?;
        }
        (self.rules, self.set) = (rules, set);
        let wanted = self.wanted_names();
        self.names.known.retain(|name, _| wanted.contains(name));
        Ok(generation)
    }

    pub(super) fn table(&self, rules: &[Rule]) -> Result<Table, crate::rule::compile::TooMuch> {
        let profiles: Vec<Profile> =
            self.profiles.values().iter().map(|one| one.clone().unwrap_or_default()).collect();
        Table::new(self.generation, rules, &profiles)
    }

    fn asks_for_profiles(&self) -> bool {
        let mut active = self.rules.iter().filter(|rule| rule.is_active);
        active.any(|rule| rule.filters.iter().any(Filter::asks_for_profile))
    }
}

/// The filters of each limiter, where there may be so many, of these rates.
fn check_limits(limits: &[RuleLimit], own: usize) -> Result<Vec<Vec<Filter>>, Vec<Mistake>> {
    let wrong = |place: String, what: String| Err(vec![Mistake { place, what }]);
    if own + limits.len() > LIMITS_MAX {
        let what = format!("{LIMITS_MAX} are the most, with those of the configuration");
        return wrong("limits".to_owned(), what);
    }
    let out = limits.iter().position(|one| !RATES.contains(&one.bits_per_second));
    if let Some(place) = out {
        let what = format!("must be {} to {}", RATES.start(), RATES.end());
        return wrong(format!("limits[{place}].bits_per_second"), what);
    }
    if limits.iter().map(|one| one.filter.len()).sum::<usize>() > ENTRIES_MAX {
        return wrong("limits".to_owned(), format!("{ENTRIES_MAX} filters are the most, of all"));
    }
    let read = |(place, one): (usize, &RuleLimit)| {
        check::parts(&one.filter, &format!("limits[{place}].filter"))
    };
    limits.iter().enumerate().map(read).collect()
}

/// Gives each rule the number it had, or one that nobody has; returns those.
fn give_numbers(rules: &mut [Rule], known: &BTreeMap<String, u16>) -> Vec<u16> {
    let mut taken = vec![false; RULES_MAX];
    let mut waiting = Vec::new();
    for (place, rule) in rules.iter_mut().enumerate() {
        match known.get(&rule.id).filter(|number| usize::from(**number) < RULES_MAX) {
            Some(number) => {
                rule.number = *number;
                taken[usize::from(*number)] = true;
            }
            None => waiting.push(place),
        }
    }
    let mut free = (0..RULES_MAX).filter(|number| !taken[*number]);
    waiting
        .into_iter()
        .map(|place| {
            let number = free.next().expect("there are as many numbers as rules") as u16;
            rules[place].number = number;
            number
        })
        .collect()
}

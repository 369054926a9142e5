//! Nodes, drivers and operators around one document.

use super::random::Random;
use freshet_fleet::config::{
    Action, Agent, Author, Band, ConfigState, Counts, Memory, Plan, Release, Target, Trial,
    Unfetched, Verdict, Version,
};
use std::collections::{BTreeMap, BTreeSet};

const HOLD_MS: u64 = 5_000;
const PATIENCE_MS: u64 = 40_000;

/// What a node makes of a version.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fate {
    Good,
    /// It cannot be unpacked.
    Broken,
    /// It is refused as `freshet check` does.
    Refused,
    /// Its clients get errors.
    Worse,
    /// The process dies of it, at once or later.
    Deadly,
}

#[derive(Default)]
struct Node {
    name: String,
    /// Of a running process.
    agent: Option<Agent>,
    disk: Memory,
    in_force: Option<Version>,
    counts: Counts,
    /// What it asked of the document last, and when the answer comes.
    reading: Option<(u64, Option<Target>)>,
    kept: BTreeSet<Version>,
    refused: BTreeSet<Version>,
}

/// Who sees to roll-outs: what it has heard, and the document as it read it.
#[derive(Default)]
struct Driver {
    heard: BTreeMap<String, ConfigState>,
    read: Option<(Release, u64)>,
    /// The version and stage it sees to, since when.
    stage: Option<(u64, usize, u64)>,
}

/// How often what happened.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    finished: u64,
    advanced: u64,
    went_back: u64,
    refused: u64,
    worse: u64,
    died: u64,
    contended: u64,
    busy: u64,
    taken_back: u64,
}

impl Seen {
    fn all(&mut self) -> [&mut u64; 9] {
        let Self {
            finished,
            advanced,
            went_back,
            refused,
            worse,
            died,
            contended,
            busy,
            taken_back,
        } = self;
        [finished, advanced, went_back, refused, worse, died, contended, busy, taken_back]
    }

    pub(crate) fn add(&mut self, other: &mut Self) {
        self.all().into_iter().zip(other.all()).for_each(|(sum, count)| *sum += *count);
    }

    pub(crate) fn least(&mut self) -> u64 {
        self.all().into_iter().map(|count| *count).min().unwrap_or(0)
    }
}

pub(crate) struct World {
    random: Random,
    now_ms: u64,
    document: Release,
    revision: u64,
    nodes: Vec<Node>,
    drivers: [Driver; 2],
    /// By node and bundle.
    fates: BTreeMap<(usize, String), Fate>,
    /// Bad bundles are bad at so many of a thousand nodes.
    bad: u64,
    is_calm: bool,
    pub(crate) seen: Seen,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let count = 1 + random.below(7);
        let nodes = (0..count).map(|number| Node { name: format!("n{number}"), ..Node::default() });
        let mut out = Self {
            nodes: nodes.collect(),
            now_ms: 1,
            document: Release::default(),
            revision: 0,
            drivers: Default::default(),
            fates: BTreeMap::new(),
            bad: [0, 30, 300][random.below(3) as usize],
            is_calm: false,
            seen: Seen::default(),
            random,
        };
        (0..out.nodes.len()).for_each(|node| out.start(node, false));
        out
    }

    pub(crate) fn run(&mut self) -> Result<(), String> {
        for _ in 0..3_000 {
            self.step()?;
        }
        self.is_calm = true;
        for _ in 0..6_000 {
            self.step()?;
        }
        self.settled()
    }

    /// What must hold at the end.
    fn settled(&self) -> Result<(), String> {
        if let Some(rollout) = &self.document.rollout {
            return Err(format!("a roll-out does not end: {rollout:?}"));
        }
        for node in &self.nodes {
            let (wanted, runs) = (self.document.stable.as_ref(), node.in_force.as_ref());
            let is_refused = |version: Option<&Version>| {
                version.is_some_and(|version| node.refused.contains(version))
            };
            if is_refused(runs) || (runs != wanted && !is_refused(wanted)) {
                return Err(format!("{} runs {runs:?} and is to run {wanted:?}", node.name));
            }
            if node.disk.kept != node.in_force || node.disk.trying.is_some() {
                return Err(format!("{} remembers {:?}", node.name, node.disk));
            }
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), String> {
        self.now_ms += self.random.below(400);
        let node = self.random.below(self.nodes.len() as u64) as usize;
        let driver = self.random.below(2) as usize;
        match self.random.below(100) {
            0..40 => self.live(node),
            40..70 => self.report(node),
            70..80 => self.look(driver),
            80..96 => self.drive(driver)?,
            96 if !self.is_calm => self.push(),
            97 if !self.is_calm && self.random.chance(150) => self.take_back(),
            98 if !self.is_calm && self.random.chance(200) => self.end(node),
            99 if !self.is_calm && self.random.chance(200) => {
                self.drivers[driver] = Driver::default()
            }
            _ => {}
        }
        let is_down = self.nodes[node].agent.is_none();
        if is_down && (self.is_calm || self.random.chance(50)) {
            self.start(node, true);
        }
        self.act(node)
    }

    fn fate(&mut self, node: usize, bundle: &str) -> Fate {
        let known = self.fates.get(&(node, bundle.to_owned())).copied();
        known.unwrap_or_else(|| {
            let fate = match (self.random.chance(self.bad), self.random.below(4)) {
                (false, _) => Fate::Good,
                (_, 0) => Fate::Broken,
                (_, 1) => Fate::Refused,
                (_, 2) => Fate::Worse,
                _ => Fate::Deadly,
            };
            self.fates.insert((node, bundle.to_owned()), fate);
            fate
        })
    }

    /// A process starts, with what it kept.
    fn start(&mut self, node: usize, died: bool) {
        let node = &mut self.nodes[node];
        if let Some(version) = node.disk.trying.as_ref().filter(|_| died) {
            node.refused.insert(version.clone());
        }
        node.agent = Some(Agent::new(node.disk.clone(), died));
        node.in_force = node.disk.kept.clone();
        (node.counts, node.reading) = (Counts::default(), None);
    }

    /// A process ends: killed, or as it was asked to.
    fn end(&mut self, node: usize) {
        if self.random.chance(500) {
            self.nodes[node].agent = None;
            self.seen.died += 1;
        } else if let Some(mut agent) = self.nodes[node].agent.take() {
            agent.ends();
            while let Some(action) = agent.next_action() {
                if let Action::Remember(memory) = action {
                    self.nodes[node].disk = memory;
                }
            }
            self.start(node, false);
        }
    }

    /// A node counts, and reads the document, which takes a while.
    fn live(&mut self, node: usize) {
        let fate = match self.nodes[node].in_force.clone() {
            Some(version) => self.fate(node, &version.bundle),
            None => Fate::Good,
        };
        if fate == Fate::Deadly && self.random.chance(300) {
            (self.nodes[node].agent, self.seen.died) = (None, self.seen.died + 1);
            return;
        }
        let wanted = self.document.target(&self.nodes[node].name);
        let answered_ms = self.now_ms + self.random.below(3_000);
        let requests = self.random.below(200);
        let (now_ms, node) = (self.now_ms, &mut self.nodes[node]);
        let Some(agent) = &mut node.agent else { return };
        node.counts.requests += requests;
        node.counts.hits += requests / 2;
        node.counts.errors += if fate == Fate::Worse { requests / 4 } else { 0 };
        agent.counted(node.counts, now_ms);
        match node.reading.take() {
            Some((at_ms, target)) if at_ms <= now_ms => agent.wants(target, now_ms),
            Some(reading) => node.reading = Some(reading),
            None => node.reading = Some((answered_ms, wanted)),
        }
    }

    fn act(&mut self, at: usize) -> Result<(), String> {
        loop {
            let now_ms = self.now_ms;
            let node = &mut self.nodes[at];
            let Some(action) = node.agent.as_mut().and_then(Agent::next_action) else {
                return Ok(());
            };
            match action {
                Action::Fetch(version) => {
                    let fate = self.fate(at, &version.bundle);
                    let fails = self.random.chance(100);
                    let outcome = match fate {
                        _ if fails => Err(Unfetched::Later("away".into())),
                        Fate::Broken => Err(Unfetched::Never("broken".into())),
                        _ => Ok(()),
                    };
                    self.seen.refused +=
                        u64::from(outcome == Err(Unfetched::Never("broken".into())));
                    self.nodes[at].agent.as_mut().unwrap().fetched(outcome, now_ms);
                }
                Action::Try { memory, version } => {
                    if node.refused.contains(&version) {
                        return Err(format!("{} tries {version} again", node.name));
                    }
                    node.disk = memory;
                    let fate = self.fate(at, &version.bundle);
                    let node = &mut self.nodes[at];
                    let outcome = match fate {
                        Fate::Refused => Err("refused".to_owned()),
                        _ => {
                            node.in_force = Some(version);
                            Ok(())
                        }
                    };
                    self.seen.refused += u64::from(outcome.is_err());
                    node.agent.as_mut().unwrap().tried(outcome, now_ms);
                }
                Action::Return { memory, version } => {
                    self.remember(at, memory);
                    let fails = self.random.chance(100);
                    let node = &mut self.nodes[at];
                    let outcome = if fails {
                        Err("busy".into())
                    } else {
                        node.in_force = version;
                        Ok(())
                    };
                    node.agent.as_mut().unwrap().returned(outcome, now_ms);
                }
                Action::Remember(memory) => self.remember(at, memory),
                Action::Report => {}
            }
        }
    }

    fn remember(&mut self, node: usize, memory: Memory) {
        let node = &mut self.nodes[node];
        for refusal in &memory.refused {
            let is_new = node.refused.insert(refusal.version.clone());
            self.seen.worse += u64::from(is_new && refusal.why.contains("5xx"));
        }
        node.kept.extend(memory.kept.clone());
        node.disk = memory;
    }

    /// What a node says is heard by a driver, or not.
    fn report(&mut self, node: usize) {
        let Some(agent) = &self.nodes[node].agent else { return };
        let Memory { kept, trying, refused, .. } = agent.memory().clone();
        let refused = refused.into_iter().next();
        let state = ConfigState { kept, trying, refused, ..ConfigState::default() };
        for driver in &mut self.drivers {
            if self.is_calm || self.random.chance(700) {
                driver.heard.insert(self.nodes[node].name.clone(), state.clone());
            }
        }
    }

    fn look(&mut self, driver: usize) {
        self.drivers[driver].read = Some((self.document.clone(), self.revision));
    }

    /// A driver does what it thinks is right, by what it has read some time ago.
    fn drive(&mut self, driver: usize) -> Result<(), String> {
        let now_ms = self.now_ms;
        let driver = &mut self.drivers[driver];
        let Some((mut release, revision)) = driver.read.take() else { return Ok(()) };
        let Some(rollout) = release.rollout.clone() else { return Ok(()) };
        let at = (rollout.version.number, rollout.reached);
        let since_ms = match driver.stage {
            Some((number, stage, since_ms)) if (number, stage) == at => since_ms,
            _ => now_ms,
        };
        driver.stage = Some((at.0, at.1, since_ms));
        let heard = driver.heard.iter().map(|(n, s)| (n.clone(), s.clone())).collect();
        let verdict = rollout.verdict(&heard, now_ms - since_ms);
        match &verdict {
            Verdict::Wait(_) => return Ok(()),
            Verdict::Advance => release.advance(),
            Verdict::Finish => release.finish(),
            Verdict::Back(why) => release.back(why),
        }
        if revision != self.revision {
            self.seen.contended += 1;
            return Ok(());
        }
        if matches!(verdict, Verdict::Advance | Verdict::Finish) {
            let open = rollout.plan.stages.iter().take(rollout.reached + 1).flatten();
            for name in open {
                let node = self.nodes.iter().find(|node| node.name == *name).unwrap();
                if !node.kept.contains(&rollout.version) {
                    return Err(format!("{verdict:?} though {name} has not kept {rollout:?}"));
                }
            }
        }
        match verdict {
            Verdict::Advance => self.seen.advanced += 1,
            Verdict::Finish => self.seen.finished += 1,
            _ => self.seen.went_back += 1,
        }
        self.set(release);
        Ok(())
    }

    fn set(&mut self, release: Release) {
        // What is kept is what is written.
        self.document = Release::decode(&release.encode()).unwrap();
        self.revision += 1;
    }

    fn push(&mut self) {
        let mut stages: Vec<Vec<String>> = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            let nodes = self.nodes.iter().map(|node| node.name.clone());
            stages.push(nodes.filter(|_| self.random.chance(400)).collect());
        }
        let hold_ms = [0, HOLD_MS][self.random.below(2) as usize];
        let trial = Trial { hold_ms, band: Band::default() };
        let plan = Plan { stages, trial, patience_ms: PATIENCE_MS };
        let bundle = format!("b{}", self.random.below(6));
        let mut release = self.document.clone();
        match release.begin(bundle, plan, Author::default()) {
            Ok(_) => self.set(release),
            Err(_) => self.seen.busy += 1,
        }
    }

    fn take_back(&mut self) {
        let mut release = self.document.clone();
        if release.rollout.is_some() {
            release.back("somebody said so");
            self.seen.taken_back += 1;
            self.set(release);
        }
    }
}

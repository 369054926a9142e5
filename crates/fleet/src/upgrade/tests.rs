//! Fleets of nodes that do what they should, and some that do not.

use super::*;
use proptest::prelude::*;

const OLD: &str = "1.0.0";
const NEW: &str = "1.1.0";
/// Time between two looks, and between two reports.
const TICK_MS: u64 = 500;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Good,
    /// Hears every second word.
    Deaf,
    /// Runs the new program already.
    HasIt,
    /// Cannot hand over.
    Stays,
    /// Is never heard of again once it was asked.
    Ends,
    /// Has something else installed.
    Other,
    /// Serves errors with the new program.
    Errs,
    /// Its new process ends within a second.
    Dies,
    /// Its new process never catches up with the log.
    Fenced,
}

impl Kind {
    fn is_bad(self) -> bool {
        !matches!(self, Self::Good | Self::Deaf | Self::HasIt)
    }
}

/// A node and what became of it.
#[derive(Clone, Debug)]
struct Machine {
    kind: Kind,
    process: Process,
    version: &'static str,
    standing: Option<Standing>,
    /// The program that its process keeps.
    before: Option<&'static str>,
    words: usize,
    /// When it hands over, and to what.
    due: Option<(u64, Program)>,
    /// When it handed over to what is installed.
    handed_ms: Option<u64>,
}

impl Machine {
    fn new(kind: Kind) -> Self {
        let version = if kind == Kind::HasIt { NEW } else { OLD };
        let process = Process { began_ms: 1, counts: Counts::default() };
        let (standing, before, due, handed_ms) = (None, None, None, None);
        Self { kind, process, version, standing, before, words: 0, due, handed_ms }
    }

    fn asked(&mut self, ask: &Ask, now_ms: u64) {
        self.words += 1;
        let is_known = self.standing.as_ref().is_some_and(|standing| standing.ask == ask.id);
        if ask.process != self.process.began_ms || is_known {
            return;
        }
        if self.kind == Kind::Deaf && self.words % 2 == 1 {
            return;
        }
        let stays = |why: &str| (Stage::Stays(why.into()), None);
        let (stage, due) = match &ask.order {
            Order::Stay { .. } => stays("taken back"),
            Order::Drain { .. } => panic!("an upgrade drains nobody by itself"),
            Order::HandOver(_) if self.kind == Kind::Stays => stays("no room"),
            Order::HandOver(how) if how.program == Program::Before && self.before.is_none() => {
                panic!("{:?} is asked to go back and keeps nothing", self.kind)
            }
            Order::HandOver(how) => (Stage::Leaves, Some((now_ms + how.drain_ms, how.program))),
        };
        self.due = due;
        self.standing = Some(Standing { ask: ask.id, stage });
    }

    fn tick(&mut self, now_ms: u64) {
        let errors = if self.kind == Kind::Errs && self.version == NEW { 10 } else { 0 };
        let counts = &mut self.process.counts;
        (counts.requests, counts.errors, counts.hits) =
            (counts.requests + 100, counts.errors + errors, counts.hits + 90);
        if let Some((_, program)) = self.due.filter(|(due_ms, _)| now_ms >= *due_ms) {
            self.due = None;
            self.begins(now_ms);
            let installed = if self.kind == Kind::Other { "0.9.0" } else { NEW };
            (self.version, self.before) = match program {
                Program::Installed => (installed, Some(self.version)),
                Program::Before => (self.before.unwrap(), None),
            };
            self.handed_ms = (program == Program::Installed).then_some(now_ms);
        }
        let dies = self.kind == Kind::Dies
            && self.handed_ms.is_some_and(|handed_ms| now_ms >= handed_ms + 1000);
        if dies && self.process.began_ms == self.handed_ms.unwrap_or(0) {
            // A service manager starts what is installed.
            self.begins(now_ms);
            self.before = None;
        }
    }

    fn begins(&mut self, now_ms: u64) {
        self.process = Process { began_ms: now_ms, counts: Counts::default() };
        self.standing = None;
    }

    fn is_silent(&self) -> bool {
        self.kind == Kind::Ends && self.words > 0
    }

    fn said<'a>(&'a self, node: &'a str) -> Said<'a> {
        Said {
            node,
            version: self.version,
            is_fenced: self.kind == Kind::Fenced && self.handed_ms.is_some(),
            process: Some(self.process),
            before: self.before,
            standing: self.standing.as_ref(),
        }
    }
}

fn terms(to: Option<&str>) -> Terms {
    Terms {
        program: Program::Installed,
        to: to.map(str::to_owned),
        drain_ms: 2_000,
        hold_ms: 5_000,
        patience_ms: 20_000,
        band: Band::default(),
    }
}

type Machines = BTreeMap<String, Machine>;

/// What becomes of nodes in waves of these kinds.
fn outcome(kinds: &[Vec<Kind>], to: Option<&str>) -> (Step, Machines) {
    let mut machines = BTreeMap::new();
    let mut waves = Vec::new();
    for (wave, kinds) in kinds.iter().enumerate() {
        let names: Vec<_> = (0..kinds.len()).map(|node| format!("w{wave}n{node}")).collect();
        machines.extend(names.iter().cloned().zip(kinds.iter().map(|kind| Machine::new(*kind))));
        waves.push(names);
    }
    let mut upgrade = Waves::new(7, terms(to), waves, 0);
    for tick in 0..10_000 {
        let now_ms = 10 + tick * TICK_MS;
        pass(&mut machines, now_ms, |said| upgrade.heard(said, now_ms));
        loop {
            match upgrade.next(now_ms) {
                Step::Ask(name, ask) => {
                    let under_way = upgrade.wave().unwrap().1;
                    assert!(under_way.contains(&name), "{name} is asked before its time");
                    machines.get_mut(&name).unwrap().asked(&ask, now_ms);
                }
                Step::Wait => break,
                end => {
                    for (name, reached, version) in upgrade.reached() {
                        let machine = &machines[name];
                        assert_eq!(reached == Reached::Before, machine.words == 0, "{name}");
                        let has_handed = matches!(reached, Reached::Done | Reached::Watched);
                        assert!(!has_handed || version == machine.version, "{name}");
                        assert!(!has_handed || machine.handed_ms.is_some(), "{name}");
                    }
                    if matches!(end, Step::Stopped(_)) {
                        go_back(&upgrade, &mut machines, now_ms);
                    }
                    return (end, machines);
                }
            }
        }
    }
    panic!("it never ends");
}

/// Time passes for all, and those that do say how they are.
fn pass(machines: &mut Machines, now_ms: u64, mut hears: impl FnMut(&Said<'_>)) {
    for (name, machine) in machines {
        machine.tick(now_ms);
        if !machine.is_silent() {
            hears(&machine.said(name));
        }
    }
}

/// Who goes back when an upgrade has stopped, and who does not.
fn go_back(upgrade: &Waves, machines: &mut Machines, mut now_ms: u64) {
    let done: BTreeSet<_> = upgrade.done().map(str::to_owned).collect();
    let mut recall = upgrade.recall(8, now_ms);
    while let Some(words) = recall.next(now_ms) {
        for (name, ask) in words {
            machines.get_mut(&name).unwrap().asked(&ask, now_ms);
        }
        now_ms += TICK_MS;
        pass(machines, now_ms, |said| recall.heard(said, now_ms));
    }
    // Nobody hands over who was told not to, however long one waits.
    for _ in 0..100 {
        now_ms += TICK_MS;
        pass(machines, now_ms, |_| ());
    }
    let fates: BTreeMap<_, _> = recall.fates().collect();
    for (name, reached, _) in upgrade.reached() {
        let machine = &machines[name];
        let is_called = matches!(reached, Reached::Watched | Reached::Asked);
        assert_eq!(fates.contains_key(name), is_called, "{name}");
        match (fates.get(name), machine.kind) {
            (None, _) => assert!(!done.contains(name) || machine.version == NEW, "{name}"),
            (Some(Fate::Back(version)), _) => {
                assert_eq!((version.as_str(), machine.version), (OLD, OLD), "{name}");
            }
            (Some(Fate::Silent), kind) => assert_eq!(kind, Kind::Ends, "{name}"),
            (Some(Fate::Stays(why)), kind) => {
                assert_eq!((kind, why.as_str()), (Kind::Dies, NO_PROGRAM), "{name}");
            }
        }
    }
}

fn kinds() -> impl Strategy<Value = Vec<Vec<Kind>>> {
    let good = prop_oneof![Just(Kind::Good), Just(Kind::Deaf), Just(Kind::HasIt)];
    let bad = prop_oneof![
        Just(Kind::Stays),
        Just(Kind::Ends),
        Just(Kind::Other),
        Just(Kind::Errs),
        Just(Kind::Dies),
        Just(Kind::Fenced)
    ];
    let kind = prop_oneof![12 => good, 1 => bad];
    prop::collection::vec(prop::collection::vec(kind, 1..4), 1..5)
}

proptest! {
    #[test]
    fn it_stops_at_the_wave_that_has_a_bad_node_and_finishes_without_one(kinds in kinds()) {
        let (end, machines) = outcome(&kinds, Some(NEW));
        let bad = kinds.iter().position(|wave| wave.iter().any(|kind| kind.is_bad()));
        for (name, machine) in &machines {
            let wave: usize = name[1..2].parse().unwrap();
            if bad.is_some_and(|bad| wave > bad) || machine.kind == Kind::HasIt {
                prop_assert_eq!((machine.words, machine.handed_ms), (0, None), "{}", name);
            } else if bad.is_none_or(|bad| wave < bad) {
                prop_assert_eq!(machine.version, NEW, "{}", name);
            }
        }
        match (bad, end) {
            (None, Step::Finished) => {}
            (Some(bad), Step::Stopped(why)) => {
                let name = why.split(':').next().unwrap();
                prop_assert!(name.starts_with(&format!("w{bad}")), "{}", why);
                prop_assert!(machines[name].kind.is_bad(), "{}", why);
            }
            (_, end) => prop_assert!(false, "{:?}", end),
        }
    }
}

#[test]
fn a_restart_is_one_for_all_and_a_mixture_stops() {
    use Kind::{Good, HasIt, Other};
    // Nobody said which version: those that run what is installed hand over too.
    let (end, machines) = outcome(&[vec![HasIt], vec![HasIt, HasIt]], None);
    assert_eq!(end, Step::Finished);
    assert!(machines.values().all(|machine| machine.handed_ms.is_some()));
    let (end, _) = outcome(&[vec![Good], vec![Other]], None);
    assert_eq!(end, Step::Stopped("w1n0: it runs 0.9.0 now, not 1.1.0".into()));
}

#[test]
fn each_reason_is_said() {
    let said = |kind| match outcome(&[vec![kind]], Some(NEW)).0 {
        Step::Stopped(why) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(said(Kind::Stays), "w0n0: it goes on as before: no room");
    assert_eq!(said(Kind::Ends), "w0n0: no new process of it serves 20 s after it left");
    assert_eq!(said(Kind::Fenced), "w0n0: no new process of it serves 20 s after it left");
    assert_eq!(said(Kind::Dies), "w0n0: its new process has ended");
    assert!(said(Kind::Errs).contains("responses were errors (5xx)"), "{}", said(Kind::Errs));
}

#[test]
fn two_upgrades_at_once_and_programs_that_cannot_be_asked_are_noticed() {
    let mut machine = Machine::new(Kind::Good);
    let mut upgrade = Waves::new(7, terms(None), vec![vec!["a".into()], vec!["b".into()]], 0);
    upgrade.heard(&machine.said("a"), 1);
    machine.standing = Some(Standing { ask: 8, stage: Stage::Stays("once".into()) });
    upgrade.heard(&machine.said("b"), 2);
    assert!(matches!(upgrade.next(3), Step::Ask(name, _) if name == "a"));
    machine.standing = Some(Standing { ask: 8, stage: Stage::Leaves });
    upgrade.heard(&machine.said("b"), 4);
    assert_eq!(upgrade.next(5), Step::Stopped("b: somebody else has it upgraded".into()));
    let mut upgrade = Waves::new(7, terms(None), vec![vec!["a".into()]], 0);
    upgrade.heard(&Said { process: None, ..machine.said("a") }, 1);
    let Step::Stopped(why) = upgrade.next(2) else { panic!("it goes on") };
    assert_eq!(why, "a: it runs 1.0.0, which cannot be asked over the fleet");
    // A word never has a node leave for longer than an hour.
    let how = HandOver { program: Program::Installed, to: None, drain_ms: u64::MAX };
    assert_eq!(how.drain_ms(), DRAIN_MAX_MS);
}

#[test]
fn those_of_a_wave_that_were_well_go_back_with_the_one_that_was_not() {
    let version = |machines: &Machines, name: &str| machines[name].version;
    let (_, machines) = outcome(&[vec![Kind::Good], vec![Kind::Good, Kind::Errs]], Some(NEW));
    assert_eq!(version(&machines, "w0n0"), NEW);
    assert_eq!((version(&machines, "w1n0"), version(&machines, "w1n1")), (OLD, OLD));
    // One that was restarted has nothing to go back to; the other has.
    let (_, machines) = outcome(&[vec![Kind::Good, Kind::Dies]], Some(NEW));
    assert_eq!((version(&machines, "w0n0"), version(&machines, "w0n1")), (OLD, NEW));
}

#[test]
fn words_are_read_by_versions_that_know_fewer() {
    /// The word as it was before there was a way back.
    #[derive(Deserialize, Serialize)]
    struct First {
        id: u64,
        process: u64,
        to: Option<String>,
        drain_ms: u64,
    }
    let order = |program| Order::HandOver(HandOver { program, to: Some(NEW.into()), drain_ms: 5 });
    let ask = |order| Ask { id: 1 << 60, process: 2, order };
    let first = First { id: 1 << 60, process: 2, to: Some(NEW.into()), drain_ms: 5 };
    let read: Ask = serde_json::from_str(&serde_json::to_string(&first).unwrap()).unwrap();
    assert_eq!(read, ask(order(Program::Installed)));
    let text = serde_json::to_string(&read).unwrap();
    let read: First = serde_json::from_str(&text).unwrap();
    assert_eq!((read.id, read.process, read.drain_ms), (1 << 60, 2, 5));
    let others = [Order::Stay { stays: true }, Order::Drain { drains: false }];
    for order in others.into_iter().chain([order(Program::Before)]) {
        let text = serde_json::to_string(&ask(order.clone())).unwrap();
        assert_eq!(serde_json::from_str::<Ask>(&text).unwrap(), ask(order));
    }
    // Nothing else is what they would take for handing over.
    for order in [Order::Stay { stays: true }, Order::Drain { drains: true }] {
        let text = serde_json::to_string(&ask(order)).unwrap();
        assert!(serde_json::from_str::<First>(&text).is_err(), "{text}");
    }
}

//! How well positions are estimated and false ones found, in networks that are made up: figures for
//! [`Settings`], the same ones each time.

use super::claim::Claims;
use super::filter::Filter;
use super::propagation::{ADVANCE_STEP_LTE_M, HARDER, Surroundings};
use super::world::{Layout, World};
use crate::random::Random;

/// Traces of a study, at most: a minute of work for each hundred.
pub const TRACES_MAX: usize = 1000;
/// Particles of a study, at most.
pub const PARTICLES_MAX: usize = 10_000;
/// Length of a trace, in seconds.
pub const TRACE_S: usize = 300;
/// The beginning of a trace, in which a client is still looked for, in seconds.
const BEGIN_S: usize = 20;
/// When claims become false, in seconds from the beginning of a trace.
pub const FALSE_FROM_S: usize = 60;
/// How long false claims that drift away are looked at, in seconds.
pub const DRIFT_S: usize = 200;
/// Deviation of a satellite receiver's error on each axis, in metres, and how long it lasts, in seconds.
const RECEIVER_M: f64 = 5.0;
const RECEIVER_S: f64 = 30.0;
/// How far false claims jump, in metres.
const JUMPS_M: [f64; 5] = [50.0, 100.0, 200.0, 500.0, 2000.0];
/// How fast false claims drift away, in metres a second.
const DRIFTS_M_S: [f64; 2] = [3.0, 10.0];

/// What a study takes.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// What all chance follows from.
    pub seed: u64,
    /// Clients, each followed for [`TRACE_S`]; at most [`TRACES_MAX`].
    pub traces: usize,
    /// Particles of each client; at most [`PARTICLES_MAX`].
    pub particles: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { seed: 1, traces: 48, particles: 1000 }
    }
}

/// How far estimates are off.
#[derive(Clone, Debug, PartialEq)]
pub struct Accuracy {
    /// Which network.
    pub network: &'static str,
    /// The error that half of the estimates do not pass, and 95 of 100, in metres (CEP50, CEP95).
    pub error_m: [f64; 2],
    /// The same, were a client taken to be where its serving site is.
    pub site_error_m: [f64; 2],
    /// The share of clients that were within the radius said to hold 95 of 100.
    pub within: f64,
    /// Half of these radii are no larger, in metres.
    pub radius_m: f64,
}

/// How claims of a kind fared.
#[derive(Clone, Debug, PartialEq)]
pub struct Spoofing {
    /// What was claimed.
    pub kind: Kind,
    /// Traces with such claims.
    pub traces: usize,
    /// Those in which it was found.
    pub found: usize,
    /// Half of these were found after no more seconds.
    pub median_s: Option<usize>,
}

/// How claims are false.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Beside the client by so many metres, all at once.
    Jump(f64),
    /// Drifting away from it by so many metres a second.
    Drift(f64),
}

impl std::fmt::Display for Kind {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Jump(length_m) => write!(to, "jump of {length_m} m"),
            Self::Drift(speed) => write!(to, "drag-off at {speed} m/s"),
        }
    }
}

/// What a study found.
#[derive(Clone, Debug, PartialEq)]
pub struct Study {
    /// Errors by network.
    pub accuracy: Vec<Accuracy>,
    /// False claims that were found, in the first network.
    pub spoofing: Vec<Spoofing>,
    /// Honest claims that were doubted, in the first network and in one that is harder than expected.
    pub honest: [Honest; 2],
}

/// How honest claims fared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Honest {
    /// Traces.
    pub traces: usize,
    /// Those in which a claim was doubted.
    pub doubted: usize,
    /// The share of seconds in which one was.
    pub seconds: f64,
}

/// Makes the networks up, follows clients in them, and counts.
pub fn run(settings: &Settings) -> Study {
    let urban = Layout::new(2, 500.0);
    let Surroundings { shadowing_db, excess_m } = HARDER;
    let harder = Layout { shadowing_db, excess_m, ..urban };
    let suburban = Layout::new(2, 1732.0);
    let networks = [
        ("urban, sites 500 m apart, NR", urban),
        ("urban, harder than expected", harder),
        ("suburban, 1732 m apart, NR", suburban),
        ("suburban, 1732 m, LTE", Layout { advance_step_m: ADVANCE_STEP_LTE_M, ..suburban }),
    ];
    let accuracy =
        networks.iter().map(|(network, layout)| accuracy(network, *layout, settings)).collect();
    let (found, honest) = spoofing(urban, &kinds(), settings);
    let (_, honest_harder) = spoofing(harder, &[], settings);
    Study { accuracy, spoofing: found, honest: [honest, honest_harder] }
}

/// The world, the filter's seed and so on of one trace differ from those of others.
fn seed_of(settings: &Settings, trace: usize) -> u64 {
    settings.seed.wrapping_mul(0x1_0000_0001).wrapping_add(trace as u64)
}

fn bounded(settings: &Settings) -> (usize, usize) {
    (settings.traces.clamp(1, TRACES_MAX), settings.particles.clamp(1, PARTICLES_MAX))
}

fn accuracy(network: &'static str, layout: Layout, settings: &Settings) -> Accuracy {
    let (traces, particles) = bounded(settings);
    let (mut errors, mut site_errors, mut radii) = (Vec::new(), Vec::new(), Vec::new());
    let mut within = 0_usize;
    for trace in 0..traces {
        let seed = seed_of(settings, trace);
        let mut world = World::new(layout, seed);
        let mut walker = world.walker();
        let first = world.measure(&walker);
        let mut filter = Filter::new(&first, particles, seed).expect("worlds measure advances");
        for second in 1..TRACE_S {
            world.walk(&mut walker, 1.0);
            let measurement = world.measure(&walker);
            filter.step(1.0, &measurement);
            if second < BEGIN_S {
                continue;
            }
            let estimate = filter.estimate();
            let error_m = between_m(estimate.place_m, walker.place_m);
            errors.push(error_m);
            site_errors.push(between_m(world.sites[walker.site], walker.place_m));
            radii.push(estimate.radius_m);
            within += usize::from(error_m <= estimate.radius_m);
        }
    }
    let count = errors.len() as f64;
    Accuracy {
        network,
        error_m: [quantile(&mut errors, 0.5), quantile(&mut errors, 0.95)],
        site_error_m: [quantile(&mut site_errors, 0.5), quantile(&mut site_errors, 0.95)],
        within: within as f64 / count,
        radius_m: quantile(&mut radii, 0.5),
    }
}

/// A client's word in one way of lying, or none.
struct Word {
    kind: Option<Kind>,
    claims: Claims,
    /// When it was doubted first since it could be false.
    doubted_s: Option<usize>,
}

impl Word {
    fn offset_m(&self, second: usize) -> f64 {
        let since = second.checked_sub(FALSE_FROM_S).map_or(0.0, |since| since as f64);
        match self.kind {
            Some(Kind::Jump(length_m)) if second >= FALSE_FROM_S => length_m,
            Some(Kind::Drift(speed)) => speed * since,
            _ => 0.0,
        }
    }

    /// How long it is looked at.
    fn end_s(&self) -> usize {
        match self.kind {
            Some(Kind::Drift(_)) => FALSE_FROM_S + DRIFT_S,
            _ => TRACE_S,
        }
    }
}

/// All kinds of false claims.
fn kinds() -> Vec<Kind> {
    JUMPS_M.map(Kind::Jump).into_iter().chain(DRIFTS_M_S.map(Kind::Drift)).collect()
}

fn spoofing(layout: Layout, kinds: &[Kind], settings: &Settings) -> (Vec<Spoofing>, Honest) {
    let (traces, particles) = bounded(settings);
    let mut delays: Vec<Vec<usize>> = vec![Vec::new(); kinds.len()];
    let (mut doubted_traces, mut doubted_seconds) = (0, 0_usize);
    for trace in 0..traces {
        // Other traces than those whose errors are counted.
        let seed = seed_of(settings, TRACES_MAX + trace);
        let mut world = World::new(layout, seed);
        let mut random = Random::new(!seed);
        let mut walker = world.walker();
        let first = world.measure(&walker);
        let mut filter = Filter::new(&first, particles, seed).expect("worlds measure advances");
        let all = std::iter::once(None).chain(kinds.iter().copied().map(Some));
        let mut words: Vec<Word> =
            all.map(|kind| Word { kind, claims: Claims::new(), doubted_s: None }).collect();
        let (sin, cos) = (std::f64::consts::TAU * random.uniform()).sin_cos();
        let mut receiver = [0, 1].map(|_| RECEIVER_M * random.normal());
        let keeps = (-1.0 / RECEIVER_S).exp();
        for second in 1..TRACE_S {
            world.walk(&mut walker, 1.0);
            let measurement = world.measure(&walker);
            let log = filter.step(1.0, &measurement);
            for axis in &mut receiver {
                let fresh = RECEIVER_M * (1.0 - keeps * keeps).sqrt() * random.normal();
                *axis = keeps * *axis + fresh;
            }
            let seen = [0, 1].map(|axis| walker.place_m[axis] + receiver[axis]);
            for word in &mut words {
                let offset_m = word.offset_m(second);
                let claimed = [seen[0] + offset_m * cos, seen[1] + offset_m * sin];
                word.claims.check(claimed, &measurement, log);
                let is_doubted = word.claims.evidence() > 1.0;
                let counts = word.kind.is_none() || second >= FALSE_FROM_S;
                if is_doubted && counts && second < word.end_s() {
                    word.doubted_s.get_or_insert(second);
                    doubted_seconds += usize::from(word.kind.is_none());
                }
            }
        }
        doubted_traces += usize::from(words[0].doubted_s.is_some());
        for (word, delays) in words[1..].iter().zip(&mut delays) {
            delays.extend(word.doubted_s.map(|second| second - FALSE_FROM_S));
        }
    }
    let found = kinds.iter().zip(delays).map(|(kind, mut delays)| {
        delays.sort_unstable();
        let median_s = delays.get(delays.len() / 2).copied();
        Spoofing { kind: *kind, traces, found: delays.len(), median_s }
    });
    let seconds = doubted_seconds as f64 / (traces * (TRACE_S - 1)) as f64;
    (found.collect(), Honest { traces, doubted: doubted_traces, seconds })
}

fn between_m(one: [f64; 2], other: [f64; 2]) -> f64 {
    (one[0] - other[0]).hypot(one[1] - other[1])
}

fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let index = ((values.len() as f64 * share) as usize).min(values.len().saturating_sub(1));
    values.get(index).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::super::filter::PARTICLES;
    use super::*;

    /// Short, and with the particles that the platform itself takes.
    const SHORT: Settings = Settings { seed: 1, traces: 32, particles: PARTICLES };

    #[test]
    fn positions_are_much_better_than_the_serving_site() {
        let Accuracy { error_m, site_error_m, within, .. } =
            accuracy("urban", Layout::new(2, 500.0), &SHORT);
        assert!(error_m[0] <= 65.0 && error_m[1] <= 180.0, "{error_m:?}");
        assert!(site_error_m[0] >= 2.5 * error_m[0], "{site_error_m:?} {error_m:?}");
        // What is said of an estimate's error is nearly so.
        assert!((0.88..0.99).contains(&within), "{within}");
    }

    #[test]
    fn false_claims_are_found_and_honest_ones_hardly_ever_doubted() {
        let (spoofing, honest) = spoofing(Layout::new(2, 500.0), &kinds(), &SHORT);
        assert!(honest.doubted * 100 <= honest.traces * 12, "{honest:?}");
        assert!(honest.seconds <= 1e-3, "{honest:?}");
        for one in spoofing {
            let is_wanted = match one.kind {
                Kind::Jump(length_m) => length_m >= 200.0,
                Kind::Drift(speed) => speed >= 3.0,
            };
            assert!(!is_wanted || one.found * 10 >= one.traces * 9, "{one:?}");
        }
    }

    #[test]
    fn a_network_that_is_harder_than_expected_is_no_lie_of_its_clients() {
        let Surroundings { shadowing_db, excess_m } = HARDER;
        let harder = Layout { shadowing_db, excess_m, ..Layout::new(2, 500.0) };
        let (_, honest) = spoofing(harder, &[], &SHORT);
        assert!(honest.doubted * 100 <= honest.traces * 12, "{honest:?}");
    }

    #[test]
    fn a_seed_is_a_study() {
        let settings = |seed| Settings { seed, traces: 1, particles: 20 };
        assert_eq!(run(&settings(7)), run(&settings(7)));
        assert_ne!(run(&settings(7)), run(&settings(8)));
    }
}

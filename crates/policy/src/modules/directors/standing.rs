//! How directors and their members are doing, as operators are shown it.

use super::health::Look;
use super::shard::Ramp;
use super::{Director, Rule, Said};
use crate::policy::{Object, Policy, lock};
use crate::runtime::Host;
use std::sync::atomic::Ordering::Relaxed;

/// How a director is doing.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectorStanding {
    /// How it chooses.
    pub turn: Turn,
    /// Whether it is healthy by its members.
    pub is_healthy: bool,
    /// What an operator says of it.
    pub said: Option<Said>,
    /// Its members, in their order.
    pub members: Vec<MemberStanding>,
}

/// How a director chooses among its members.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Turn {
    /// One after the other.
    RoundRobin,
    /// The first that is healthy.
    Fallback {
        /// Whether it stays with the one it has.
        sticky: bool,
        /// The place of the one it chose last.
        current: usize,
    },
    /// By chance, as they are weighted.
    Random,
    /// By a hash, as they are weighted.
    Hash,
    /// By their places on a ring.
    Shard {
        /// The share of requests that go to the next in line.
        warmup: f64,
        /// Seconds until who came back has its full load, where a member has no word of its own.
        rampup: f64,
    },
    /// The only one, unless it failed too often.
    Saint,
}

/// How a member of a director is doing.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberStanding {
    /// Its name in the policy.
    pub name: String,
    /// What it is called on a ring, where that is another name.
    pub ident: Option<String>,
    /// Its weight.
    pub weight: f64,
    /// Whether it is healthy.
    pub is_healthy: bool,
    /// How far it has taken its load again.
    pub rampup: Rampup,
}

/// How far a member of a ring has taken its load again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rampup {
    /// From 0 to 1.
    pub share: f64,
    /// Seconds until it is 1.
    pub left: f64,
}

impl Rampup {
    /// Of a member whose health changed `age` seconds ago, where it takes `whole` seconds.
    fn new(is_healthy: bool, age: f64, whole: f64) -> Self {
        match is_healthy {
            false => Self { share: 0.0, left: 0.0 },
            true if age < whole => Self { share: age / whole, left: whole - age },
            true => Self { share: 1.0, left: 0.0 },
        }
    }
}

/// How the director of this number is doing; `None` where there is none.
pub(crate) fn standing(
    policy: &Policy,
    index: u32,
    host: &dyn Host,
    now: f64,
) -> Option<DirectorStanding> {
    let Some(Object::Director(director)) = policy.object(index) else { return None };
    let mut look = Look { policy, host, now, key: None, denials: Vec::new() };
    let is_healthy = look.by_members(index, &director, 0).0;
    let ramps = director.shard.ramps();
    let member = |(member, ramp): (&super::Member, Option<&Ramp>)| {
        let (is_healthy, changed) = look.health(member.backend, 0);
        let whole = ramp.map_or(0.0, |ramp| ramp.seconds);
        MemberStanding {
            name: policy.program().backend_name(member.backend).to_owned(),
            ident: ramp.and_then(|ramp| ramp.ident.as_deref()).map(str::to_owned),
            weight: member.weight,
            is_healthy,
            rampup: Rampup::new(is_healthy, now - changed, whole),
        }
    };
    let places = ramps.iter().map(Some).chain(std::iter::repeat(None));
    Some(DirectorStanding {
        turn: turn(&director),
        is_healthy,
        said: director.said(),
        members: director.members().iter().zip(places).map(member).collect(),
    })
}

fn turn(director: &Director) -> Turn {
    match director.rule {
        Rule::RoundRobin => Turn::RoundRobin,
        Rule::Fallback { sticky } => {
            let current = usize::try_from(director.next.load(Relaxed)).unwrap_or(0);
            Turn::Fallback { sticky, current }
        }
        Rule::Random => Turn::Random,
        Rule::Hash => Turn::Hash,
        Rule::Shard => Turn::Shard {
            warmup: *lock(&director.shard.warmup),
            rampup: *lock(&director.shard.rampup),
        },
        Rule::Saint { .. } => Turn::Saint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_came_back_takes_its_load_little_by_little() {
        assert_eq!(Rampup::new(true, 1.0, 4.0), Rampup { share: 0.25, left: 3.0 });
        assert_eq!(Rampup::new(true, 4.0, 4.0), Rampup { share: 1.0, left: 0.0 });
        assert_eq!(Rampup::new(true, 1.0, 0.0), Rampup { share: 1.0, left: 0.0 });
        assert_eq!(Rampup::new(false, 1.0, 4.0), Rampup { share: 0.0, left: 0.0 });
    }
}

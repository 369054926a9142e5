//! Directors as `backend.list` shows them.

use freshet_vcl::{DirectorStanding, MemberStanding, Turn};
use serde_json::{Map, Value as Json, json};
use std::fmt::Write as _;

/// The name of its kind.
pub(super) fn kind(director: &DirectorStanding) -> &'static str {
    match director.turn {
        Turn::RoundRobin => "round-robin",
        Turn::Fallback { .. } => "fallback",
        Turn::Random => "random",
        Turn::Hash => "hash",
        Turn::Shard { .. } => "shard",
        Turn::Saint => "saintmode",
    }
}

/// Its members, where those of its kind are told of.
pub(super) fn members(director: &DirectorStanding) -> Option<&[MemberStanding]> {
    match director.turn {
        Turn::Hash | Turn::Saint => None,
        _ => Some(&director.members),
    }
}

/// Who is healthy, and of how many.
pub(super) fn healthy(director: &DirectorStanding) -> (u32, u32) {
    let Some(members) = members(director) else { return (0, 0) };
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    (count(members.iter().filter(|member| member.is_healthy).count()), count(members.len()))
}

/// Weights of those that are healthy.
fn total_weight(director: &DirectorStanding) -> f64 {
    director.members.iter().map(weight).sum()
}

/// The weight by which it is drawn now.
fn weight(member: &MemberStanding) -> f64 {
    if member.is_healthy { member.weight } else { 0.0 }
}

fn health(member: &MemberStanding) -> &'static str {
    if member.is_healthy { "healthy" } else { "sick" }
}

/// Rows of its members, below its own.
pub(super) fn rows(director: &DirectorStanding) -> String {
    let Some(members) = members(director) else { return String::new() };
    let mut out = String::from(match director.turn {
        Turn::Fallback { .. } => "\n\tBackend\tCurrent\tHealth\n",
        Turn::Shard { .. } => "\n\tBackend\tIdent\tHealth\tRampup  Remaining\n",
        _ => "\n\tBackend\tWeight\tHealth\n",
    });
    let total = total_weight(director);
    for (at, member) in members.iter().enumerate() {
        let (name, health) = (&member.name, health(member));
        let _ = match director.turn {
            Turn::Fallback { current, .. } => {
                let mark = if at == current { "*" } else { "" };
                writeln!(out, "\t{name}\t{mark}\t{health}")
            }
            Turn::Random => {
                writeln!(out, "\t{name}\t{:6.2}%\t{health}", 100.0 * weight(member) / total)
            }
            Turn::Shard { .. } => {
                let ident = member.ident.as_ref().unwrap_or(name);
                let (percent, left) = (100.0 * member.rampup.share, member.rampup.left);
                writeln!(out, "\t{name}\t{ident}\t{health}\t{percent:6.2}% {left:8.3}s")
            }
            _ => writeln!(out, "\t{name}\t-\t{health}"),
        };
    }
    out.push('\n');
    out
}

/// The same as JSON.
pub(super) fn details(director: &DirectorStanding) -> Option<Json> {
    let mut backends = Map::new();
    for (at, member) in members(director)?.iter().enumerate() {
        let mut facts = json!({ "health": health(member) });
        match director.turn {
            Turn::Fallback { current, .. } => facts["current"] = (at == current).into(),
            Turn::Random => facts["weight"] = weight(member).into(),
            Turn::Shard { .. } => {
                facts["ident"] = member.ident.as_ref().unwrap_or(&member.name).as_str().into();
                facts["rampup"] = member.rampup.share.into();
                facts["rampup_remaining"] = member.rampup.left.into();
            }
            _ => {}
        }
        backends.insert(member.name.clone(), facts);
    }
    let mut out = json!({ "backends": backends });
    match director.turn {
        Turn::Fallback { sticky, .. } => out["sticky"] = sticky.into(),
        Turn::Random => out["total_weight"] = total_weight(director).into(),
        Turn::Shard { warmup, rampup } => {
            out["warmup"] = warmup.into();
            out["rampup_duration"] = rampup.into();
        }
        _ => {}
    }
    Some(out)
}

//! Why a decision is what it is.

use super::{Decision, Health, Located, NodeId, Picks, RegionId, Table};
use freshet_geo::Code;
use std::fmt::Write as _;

/// What nodes are good enough, from the best to the last resort.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Pass {
    /// Up, and within their share.
    Within,
    /// Up, whatever their load.
    Beyond,
    /// Suspect.
    Suspect,
    /// Down: where all are, it may be the router that sees nobody.
    Down,
}

impl Pass {
    pub(super) const ALL: [Self; 4] = [Self::Within, Self::Beyond, Self::Suspect, Self::Down];

    fn words(self) -> &'static str {
        match self {
            Self::Within => "nodes that are up and within their load",
            Self::Beyond => "none; nodes that are up, whatever their load",
            Self::Suspect => "none; nodes that are suspect",
            Self::Down => "none; all are down, and are trusted to be up",
        }
    }
}

/// Why a node was passed over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Why {
    /// It is not of this site, has no address of this family, or is to be avoided.
    NotOfThis,
    /// How it is.
    Health(Health),
    /// It takes this much of its keys, percent, and this key is not among them.
    Share(u8),
    /// More was sent to it lately than the site's bound allows.
    AboveItsShare,
}

impl Why {
    fn words(self) -> String {
        match self {
            Self::NotOfThis => "not for this question".to_owned(),
            Self::Health(Health::Up) => "up, and was looked at before".to_owned(),
            Self::Health(Health::Suspect) => "suspect".to_owned(),
            Self::Health(Health::Down) => "down".to_owned(),
            Self::Health(Health::Drained) => "drained".to_owned(),
            Self::Share(percent) => {
                format!("takes {percent} % of its keys, this one not")
            }
            Self::AboveItsShare => "above its share of what was sent lately".to_owned(),
        }
    }
}

/// Who is told how a decision comes about.
pub trait Watch {
    /// Where the client is.
    fn located(&mut self, _located: Located, _country: Option<Code>, _scope_bits: u8) {}
    /// It stays with a node.
    fn kept(&mut self, _node: NodeId) {}
    /// Nodes are looked for.
    fn pass(&mut self, _pass: Pass) {}
    /// A node is none of them.
    fn passed_over(&mut self, _node: NodeId, _why: Why) {}
    /// What a region has, or the client's own zone.
    fn tried(&mut self, _region: Option<RegionId>, _picks: Picks) {}
}

impl Watch for () {}

#[derive(Debug)]
enum Note {
    Located(Located, Option<Code>, u8),
    Kept(NodeId),
    Pass(Pass),
    PassedOver(NodeId, Why),
    Tried(Option<RegionId>, Picks),
}

/// A decision as it came about.
#[derive(Debug, Default)]
pub struct Story(Vec<Note>);

impl Watch for Story {
    fn located(&mut self, located: Located, country: Option<Code>, scope_bits: u8) {
        self.0.push(Note::Located(located, country, scope_bits));
    }

    fn kept(&mut self, node: NodeId) {
        self.0.push(Note::Kept(node));
    }

    fn pass(&mut self, pass: Pass) {
        self.0.push(Note::Pass(pass));
    }

    fn passed_over(&mut self, node: NodeId, why: Why) {
        self.0.push(Note::PassedOver(node, why));
    }

    fn tried(&mut self, region: Option<RegionId>, picks: Picks) {
        self.0.push(Note::Tried(region, picks));
    }
}

impl Story {
    /// As lines of text: one for each step, the last one with what was decided.
    pub fn lines(&self, table: &Table, decision: &Decision) -> Vec<String> {
        let name = |id: NodeId| table.node(id).map_or("?", |node| node.name.as_str());
        let names = |picks: &Picks| {
            let all: Vec<_> = picks.as_slice().iter().map(|id| name(*id)).collect();
            all.join(", ")
        };
        let mut lines = Vec::new();
        let mut over: Vec<String> = Vec::new();
        for note in &self.0 {
            match note {
                Note::Located(located, country, bits) => {
                    lines.push(located_words(table, *located, *country, *bits));
                }
                Note::Kept(id) => lines.push(format!("stays with {}", name(*id))),
                Note::Pass(pass) => lines.push(pass.words().to_owned()),
                Note::PassedOver(id, why) => over.push(format!("{} is {}", name(*id), why.words())),
                Note::Tried(region, picks) => {
                    let region = region.and_then(|id| table.regions().get(usize::from(id)));
                    let mut line = match region {
                        Some(region) => format!("  region {}: ", region.name),
                        None => "  inside the zone: ".to_owned(),
                    };
                    line.push_str(&if picks.as_slice().is_empty() {
                        "nobody".to_owned()
                    } else {
                        names(picks)
                    });
                    if !over.is_empty() {
                        let _ = write!(line, " ({})", std::mem::take(&mut over).join("; "));
                    }
                    lines.push(line);
                }
            }
        }
        lines.push(match (decision.is_refused, decision.picks.as_slice()) {
            (true, _) => "refused: the site is not for clients from there".to_owned(),
            (false, []) => "nobody can be sent to".to_owned(),
            (false, _) => format!("sent to {}", names(&decision.picks)),
        });
        lines
    }
}

fn located_words(table: &Table, located: Located, country: Option<Code>, scope_bits: u8) -> String {
    let of = country.map(|country| format!(" in {country}")).unwrap_or_default();
    match located {
        Located::Zone(id) => {
            let zone = table.zones().get(id as usize).map_or("?", |zone| zone.name.as_str());
            format!("the client is in zone {zone}, with all of its /{scope_bits}")
        }
        Located::Place(place) => {
            format!("the client is at {place}{of}, with all of its /{scope_bits}; no zone has it")
        }
        Located::Nowhere if country.is_some() => {
            format!("the client is{of}, with all of its /{scope_bits}; nobody knows where")
        }
        Located::Nowhere => "no zone has the client, and nobody knows where it is".to_owned(),
    }
}

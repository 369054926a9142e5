//! The models: one name, one file of the paper's inputs and one function each.

mod channels;
mod cores;
mod curve;
mod endurance;
mod fleet;
mod forwarding;
mod latency;
mod memory;
mod site;
mod tco;

pub(crate) use curve::Curve;

use crate::mistake::PlanError;
use crate::outcome::Outcome;
use crate::range::{self, Vary};
use crate::reader::{File, Reader};

/// A model that can be asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Model {
    /// Live channels that fit a server.
    Channels,
    /// What a rack costs.
    Tco,
    /// Energy of sites in a year.
    Energy,
    /// What that energy costs.
    Cost,
    /// What making it emits.
    Carbon,
    /// How long drives last.
    Endurance,
    /// Nodes of a network.
    Fleet,
    /// Packets a router forwards.
    Forwarding,
    /// Cores of uneven frequency.
    Cores,
    /// Virtual machines that memory holds.
    Memory,
    /// Round trips of mobile clients.
    Latency,
}

impl Model {
    /// All models, in the order of the documentation.
    pub const ALL: [Self; 11] = [
        Self::Channels,
        Self::Tco,
        Self::Energy,
        Self::Cost,
        Self::Carbon,
        Self::Endurance,
        Self::Fleet,
        Self::Forwarding,
        Self::Cores,
        Self::Memory,
        Self::Latency,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Channels => "channels",
            Self::Tco => "tco",
            Self::Energy => "energy",
            Self::Cost => "cost",
            Self::Carbon => "carbon",
            Self::Endurance => "endurance",
            Self::Fleet => "fleet",
            Self::Forwarding => "forwarding",
            Self::Cores => "cores",
            Self::Memory => "memory",
            Self::Latency => "latency",
        }
    }

    /// The paper's case as a file of inputs, to be changed: TOML, each value with its source.
    pub const fn inputs(self) -> &'static str {
        match self {
            Self::Channels => channels::INPUTS,
            Self::Tco => tco::INPUTS,
            Self::Endurance => endurance::INPUTS,
            Self::Fleet => fleet::INPUTS,
            Self::Forwarding => forwarding::INPUTS,
            Self::Cores => cores::INPUTS,
            Self::Memory => memory::INPUTS,
            Self::Latency => latency::INPUTS,
            Self::Energy | Self::Cost | Self::Carbon => site::INPUTS,
        }
    }
}

/// What is asked besides the model: nothing gives the paper's case.
#[derive(Clone, Debug, Default)]
pub struct Request<'a> {
    /// A file of inputs that replace the paper's.
    pub file: Option<File<'a>>,
    /// Single inputs that replace both, as key and value.
    pub set: Vec<(String, String)>,
    /// Inputs to be varied, at most two.
    pub vary: Vec<Vary>,
}

/// The whole things that are in `value`; one that fits but for a rounding error fits.
pub(crate) fn whole(value: f64) -> f64 {
    (value + 1e-9).floor()
}

/// Runs a model.
///
/// # Errors
/// [`PlanError`] names every mistake of the inputs, its place and what to do.
pub fn plan(model: Model, request: &Request<'_>) -> Result<Outcome, PlanError> {
    let once = |set: &[(String, String)]| {
        let reader = Reader::new(model.inputs(), request.file, set)?;
        let reader = reader.vary(request.vary.iter().map(Vary::key));
        match model {
            Model::Channels => channels::channels(reader),
            Model::Tco => tco::tco(reader),
            Model::Endurance => endurance::endurance(reader),
            Model::Fleet => fleet::fleet(reader),
            Model::Forwarding => forwarding::forwarding(reader),
            Model::Cores => cores::cores(reader),
            Model::Memory => memory::memory(reader),
            Model::Latency => latency::latency(reader),
            Model::Energy => site::energy(reader),
            Model::Cost => site::cost(reader),
            Model::Carbon => site::carbon(reader),
        }
    };
    let mut outcome = once(&request.set)?;
    if !request.vary.is_empty() {
        range::add(&mut outcome, &request.set, &request.vary, once)?;
    }
    Ok(outcome)
}

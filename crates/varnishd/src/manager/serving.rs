//! Starting and stopping the node, and commands about it.

use super::State;
use crate::accounts;
use crate::cli::{Reply, Status};
use crate::endpoint::Endpoint;
use crate::journal::Journal;
use crate::sampler::Sampler;
use crate::shm::log::Log;
use crate::shm::{Directory, directory};
use freshet_net::address::Address;
use freshet_net::handover::Inherited;
use freshet_node::node::{Node, NodeError};
use freshet_node::preflight::Prepared;
use freshet_node::transcript::{Scribe, Tag};
use rustix::process::getpid;
use serde_json::json;
use std::fmt::Write as _;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

/// What is there while requests are served.
pub(crate) struct Child {
    pub(crate) node: Arc<Node>,
    pub(crate) journal: Arc<Journal>,
    /// The last number that was set, for `debug.xid`.
    last_id: u64,
    // In this order: what writes goes before what is written to.
    sampler: Sampler,
    directory: Arc<Directory>,
}

impl Child {
    fn start(state: &State) -> Result<Self, String> {
        let Some(program) = state.policies.active() else {
            return Err("No VCL available\n".into());
        };
        let draft = program.draft(state)?;
        let shown = |error: io::Error| error.to_string();
        let path = state.options.workdir.join(directory::CHILD);
        let directory = Arc::new(Directory::create(path).map_err(shown)?);
        let bytes = state.parameters.integer("vsl_space");
        let log = Arc::new(Log::create(&directory, bytes).map_err(shown)?);
        let journal = Arc::new(Journal::new(log, Arc::clone(&state.rules)));
        let name = state.policies.active_name().unwrap_or_default();
        for (name, program) in state.policies.programs() {
            program.note_loaded(name, &journal);
        }
        journal.note(Tag::CLI, &format!("Rd vcl.use \"{name}\""));
        journal.note(Tag::CLI, "Wr 200 0 ");
        journal.note(Tag::CLI, "Rd start");
        for endpoint in &state.options.endpoints {
            // What a process before left behind.
            if let Address::Unix(path) = &endpoint.address {
                let _ = std::fs::remove_file(path);
            }
        }
        let scribe = Arc::clone(&journal) as Arc<dyn Scribe>;
        let mut inherited = Inherited::default();
        let node = Prepared::of(draft)
            .map_err(NodeError::Config)
            .and_then(|prepared| Node::start_with(prepared, &mut inherited, Some(scribe)))
            .map_err(|error| format!("Could not start: {error}"))?;
        let stop = |why: String| {
            node.stop();
            node.join();
            why
        };
        state.options.endpoints.iter().try_for_each(permit).map_err(stop)?;
        let sampler = Sampler::start(
            &directory,
            Arc::clone(&node),
            Arc::clone(&journal),
            Arc::clone(&state.shares),
            Arc::clone(&state.facts),
        )
        .map_err(|error| stop(error.to_string()))?;
        node.open();
        Ok(Self { node, journal, last_id: 0, sampler, directory })
    }

    /// Ends all requests and removes the shared memory.
    pub(crate) fn stop(self) {
        self.node.stop();
        self.node.join();
        drop(self.sampler);
        drop(self.directory);
    }
}

/// Sets owner and permissions of a Unix socket. That there are such owners was looked at before.
fn permit(endpoint: &Endpoint) -> Result<(), String> {
    let Address::Unix(path) = &endpoint.address else { return Ok(()) };
    let shown = |error: io::Error| format!("{}: {error}", path.display());
    if let Some(mode) = endpoint.mode {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).map_err(shown)?;
    }
    if endpoint.user.is_some() || endpoint.group.is_some() {
        let user = endpoint.user.as_deref().and_then(accounts::user).map(|user| user.id);
        let group = endpoint.group.as_deref().and_then(accounts::group);
        std::os::unix::fs::chown(path, user, group).map_err(shown)?;
    }
    Ok(())
}

impl State {
    /// Puts the policy in use, and what the parameters say, into force.
    pub(super) fn apply(&mut self) -> Result<(), String> {
        let Some(child) = &self.child else { return Ok(()) };
        let Some(program) = self.policies.active() else { return Ok(()) };
        let draft = program.draft(self)?;
        child.node.reload_with(draft);
        Ok(())
    }

    /// Begins to serve.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        self.policies_changed();
        self.child = Some(Child::start(self)?);
        self.starts += 1;
        self.publish();
        Ok(())
    }
}

pub(super) fn start(state: &mut State, _: &[String]) -> Reply {
    if state.child.is_some() {
        return Reply::error(Status::Cannot, "Child in state running");
    }
    state.start().map_or_else(|why| Reply::error(Status::Cannot, why), |()| Reply::ok())
}

pub(super) fn stop(state: &mut State, _: &[String]) -> Reply {
    match state.child.take() {
        Some(child) => {
            child.stop();
            state.stops += 1;
            Reply::ok()
        }
        None => Reply::error(Status::Cannot, "Child in state stopped"),
    }
}

pub(super) fn status(state: &mut State, words: &[String]) -> Reply {
    let status = if state.child.is_some() { "running" } else { "stopped" };
    if words.get(1).is_some_and(|word| word == "-j") {
        return Reply::json(2, words, &[json!(status)]);
    }
    Reply::text(format!("Child in state {status}"))
}

pub(super) fn pid(state: &mut State, words: &[String]) -> Reply {
    // The manager and what it manages are one process.
    let number = getpid().as_raw_nonzero();
    let is_serving = state.child.is_some();
    if words.get(1).is_some_and(|word| word == "-j") {
        let mut object = json!({ "master": number.get() });
        if is_serving {
            object["worker"] = json!(number.get());
        }
        return Reply::json(2, words, &[object]);
    }
    let mut out = format!("Master: {number:10}\n");
    if is_serving {
        let _ = writeln!(out, "Worker: {number:10}");
    }
    Reply::text(out)
}

pub(super) fn listen_address(state: &mut State, _: &[String]) -> Reply {
    let Some(child) = &state.child else { return Reply::ok() };
    let mut out = String::new();
    // Addresses are in the order of the settings, one for each after repeats are left out.
    for (address, endpoint) in child.node.addresses().iter().zip(&state.options.endpoints) {
        let _ = match address {
            Address::Tcp(address) if address.ip().is_unspecified() => {
                writeln!(out, "{} 0.0.0.0 {}", endpoint.name, address.port())
            }
            Address::Tcp(address) => {
                writeln!(out, "{} {} {}", endpoint.name, address.ip(), address.port())
            }
            Address::Unix(path) => writeln!(out, "{} {} -", endpoint.name, path.display()),
        };
    }
    Reply::text(out)
}

pub(super) fn xid(state: &mut State, words: &[String]) -> Reply {
    let Some(child) = &mut state.child else { return Reply::ok() };
    if let Some(word) = words.get(1) {
        let Ok(last) = word.parse::<u64>() else {
            return Reply::error(Status::Parameter, format!("Not a number: {word}"));
        };
        let block = words.get(2).and_then(|word| word.parse().ok()).unwrap_or(1);
        child.node.shared.ids.restart(last + 1, block);
        child.last_id = last;
    }
    Reply::text(format!("XID is {} chunk 1\n", child.last_id))
}

/// What is drawn at random is a fixed sequence from now on, so that a test of it is repeatable.
pub(super) fn srandom(_: &mut State, words: &[String]) -> Reply {
    let seed = words.get(1).map_or(Ok(1), |word| word.parse());
    let Ok(seed) = seed else {
        return Reply::error(Status::Parameter, "the seed is a number");
    };
    freshet_node::vcl::chance::repeat_from(seed);
    Reply::ok()
}

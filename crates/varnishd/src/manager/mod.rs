//! The manager: what is told over the command line interface, and the node it starts and stops.

mod backends;
mod bans;
mod commands;
mod directors;
mod discard;
mod misc;
mod policies;
mod serving;

use crate::arguments::{Options, Storage};
use crate::cli::connection::Commands;
use crate::cli::{Reply, Status, words};
use crate::counters::MGT;
use crate::journal::Rules;
use crate::parameters::Parameters;
use crate::program::Program;
use crate::sampler::Facts;
use crate::shm::counters::Group;
use crate::shm::{Directory, Segment, directory};
pub(crate) use commands::reference;
use freshet_base::clock::UnixMillis;
use freshet_base::hexadecimal;
use freshet_node::shares::Shares;
use freshet_node::transcript::Tag;
use freshet_node::vcl::VclPolicy;
use policies::Policies;
use serving::Child;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The storage of what is not worth the others.
const TRANSIENT: &str = "Transient";

/// The manager, shared by all connections of the command line interface.
pub(crate) struct Manager(Mutex<State>);

/// What the manager knows. One command at a time looks at it or changes it.
pub(crate) struct State {
    pub(crate) options: Options,
    pub(crate) parameters: Parameters,
    storages: Vec<Storage>,
    /// What they are to the node.
    pub(crate) shares: Arc<Shares>,
    policies: Policies,
    child: Option<Child>,
    /// What the log takes, for every child.
    rules: Arc<Rules>,
    /// What the counters need to know, for every child.
    facts: Arc<Mutex<Facts>>,
    management: Directory,
    arguments: Vec<Segment>,
    group: Group,
    started: Instant,
    starts: u64,
    stops: u64,
}

/// The storages as the node knows them.
fn shares(storages: &[Storage]) -> Arc<Shares> {
    Shares::new(storages.iter().map(|storage| {
        let kind = if storage.kind == "default" { "malloc" } else { &storage.kind };
        (&*storage.name, kind, storage.bytes)
    }))
}

/// Memory beyond the sizes of storages: for what is on its way through, and for what is lost at the
/// ends of pieces.
const MEMORY_SLACK_BYTES: u64 = 64 << 20;

impl Manager {
    /// Makes the working directory and the manager's shared memory.
    pub(crate) fn new(options: Options, parameters: Parameters) -> io::Result<Arc<Self>> {
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", options.workdir.display()))
        };
        directory::clean(&options.workdir);
        let management =
            Directory::create(options.workdir.join(directory::MANAGEMENT)).map_err(named)?;
        MGT.announce(&management)?;
        let group = Group::create(&management, &MGT, "MGT")?;
        let mut storages = options.storages.clone();
        if storages.is_empty() {
            storages.insert(0, Storage { name: "s0".into(), kind: "malloc".into(), bytes: None });
        }
        if !storages.iter().any(|storage| storage.name == TRANSIENT) {
            let kind = "malloc".into();
            storages.push(Storage { name: TRANSIENT.into(), kind, bytes: None });
        }
        let mut state = State {
            options,
            parameters,
            shares: shares(&storages),
            storages,
            policies: Policies::default(),
            child: None,
            rules: Arc::default(),
            facts: Arc::default(),
            management,
            arguments: Vec::new(),
            group,
            started: Instant::now(),
            starts: 0,
            stops: 0,
        };
        let identity = state.identity();
        state.announce("-i", &identity)?;
        state.parameters_changed();
        Ok(Arc::new(Self(Mutex::new(state))))
    }

    /// The state, for one step.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends what is served.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        if let Some(child) = state.child.take() {
            child.stop();
        }
    }
}

impl Commands for Manager {
    fn command(&self, words: Vec<String>) -> Reply {
        let mut state = self.state();
        let is_child_command = words.first().is_some_and(|word| {
            !matches!(word.as_str(), "ping" | "status" | "auth" | "banner" | "help" | "panic.show")
        });
        let shown = || {
            let mut shown = words.first().cloned().unwrap_or_default();
            for word in words.iter().skip(1) {
                shown.push(' ');
                shown.push_str(&words::quote(word));
            }
            shown
        };
        if let Some(child) = state.child.as_ref().filter(|_| is_child_command) {
            child.journal.note(Tag::CLI, &format!("Rd {}", shown()));
        }
        let reply = commands::run(&mut state, &words);
        if let Some(child) = state.child.as_ref().filter(|_| is_child_command) {
            let Reply { status, text } = &reply;
            child.journal.note(Tag::CLI, &format!("Wr {} {} {text}", *status as u16, text.len()));
        }
        state.publish();
        reply
    }

    fn banner(&self) -> String {
        self.state().banner()
    }

    fn reply_bytes_max(&self) -> usize {
        usize::try_from(self.state().parameters.integer("cli_limit")).unwrap_or(usize::MAX)
    }
}

impl State {
    /// Names a policy can hand over to.
    pub(crate) fn label_names(&self) -> Vec<String> {
        self.policies.labels().map(|(name, _)| name.to_owned()).collect()
    }

    /// Compiles and uses the policies of the command line.
    ///
    /// # Errors
    /// What is wrong with one.
    pub(crate) fn load_options(&mut self) -> Result<(), String> {
        let mut last = None;
        if let Some(backend) = self.options.backend.clone() {
            let text = crate::program::text_of_backend(&backend)?;
            policies::add(self, "boot", "<command line>", &text, None).map_err(|r| r.text)?;
            last = Some("boot".to_owned());
        }
        for (number, path) in self.options.policies.clone().into_iter().enumerate() {
            let name = if number == 0 { "boot".to_owned() } else { format!("boot{number}") };
            let path = path.to_string_lossy();
            let (source, text) = policies::find_file(self, &path)
                .map_err(|_| format!("Cannot read -f file '{path}' (No such file or directory)"))?;
            policies::add(self, &name, &source, &text, None).map_err(|reply| reply.text)?;
            if let Some(program) = self.policies.program(&name) {
                eprint!("{}", program.warnings());
            }
            last = Some(name);
        }
        match last {
            Some(name) => {
                let reply = commands::run(self, &["vcl.use".into(), name]);
                if reply.status == Status::Ok { Ok(()) } else { Err(reply.text) }
            }
            None => Ok(()),
        }
    }

    /// Whether there is a policy to serve with.
    pub(crate) fn has_policy(&self) -> bool {
        self.policies.active().is_some()
    }

    /// Names of the storages.
    pub(crate) fn storage_names(&self) -> impl Iterator<Item = &str> {
        self.storages.iter().map(|storage| storage.name.as_str())
    }

    /// The policy from which a new one takes over what belongs to the process: the one in use, or any, since
    /// all of them have it.
    pub(crate) fn policy_before(&self) -> Option<&VclPolicy> {
        let mut all = self.policies.programs().map(|(_, program)| program);
        let program = self.policies.active().or_else(|| all.next());
        program.map(|program| &**program.policy())
    }

    /// Whether requests are served.
    pub(crate) fn is_serving(&self) -> bool {
        self.child.is_some()
    }

    /// Labels with the policies they stand for.
    pub(crate) fn labels(&self) -> impl Iterator<Item = (&str, &Arc<Program>)> {
        self.policies.labels()
    }

    /// Memory for all storages that have a size, and for what is cut off where pieces do not fit.
    pub(crate) fn memory_bytes(&self) -> Option<u64> {
        let named = self.storages.iter().filter(|storage| storage.name != TRANSIENT);
        let sizes: Vec<u64> = named.filter_map(|storage| storage.bytes).collect();
        let sum: u64 = sizes.iter().sum();
        let bytes = sum.saturating_add(sum / 8).saturating_add(MEMORY_SLACK_BYTES);
        Some(bytes).filter(|_| !sizes.is_empty())
    }

    /// When this program was started.
    fn started_at(&self) -> UnixMillis {
        let age = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(0);
        UnixMillis(UnixMillis::now().0.saturating_sub(age))
    }

    /// Makes an argument of the command line known to other programs.
    pub(crate) fn announce(&mut self, name: &str, value: &str) -> io::Result<()> {
        let mut content = value.as_bytes().to_vec();
        content.push(0);
        let segment = self.management.add("Arg", name, &content, 0)?;
        self.arguments.push(segment);
        Ok(())
    }

    /// The file with the secret, made where none was given.
    pub(crate) fn secret(&mut self) -> io::Result<PathBuf> {
        if let Some(secret) = &self.options.secret {
            return Ok(secret.clone());
        }
        let path = self.options.workdir.join("_.secret");
        let _ = std::fs::remove_file(&path);
        let mut key = [0; 128];
        aws_lc_rs::rand::fill(&mut key).map_err(|_| io::Error::other("no random numbers"))?;
        let text = hexadecimal::encode(&key);
        std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o640)
            .open(&path)?
            .write_all(text.as_bytes())?;
        self.options.secret = Some(path.clone());
        Ok(path)
    }

    /// The name this instance goes by.
    pub(crate) fn identity(&self) -> String {
        self.options.identity.clone().unwrap_or_else(crate::host_name)
    }

    /// What a new connection is told.
    pub(crate) fn banner(&self) -> String {
        let line = "-----------------------------";
        let start = match self.child {
            Some(_) => "",
            None => "Type 'start' to launch worker process.\n",
        };
        format!(
            "{line}\nVarnish Cache CLI 1.0\n{line}\n{}\n{}\n\nType 'help' for command list.\n\
             Type 'quit' to close CLI session.\n{start}",
            crate::platform(),
            crate::VERSION
        )
    }

    /// How long a policy out of use stays ready.
    fn cooldown(&self) -> Duration {
        Duration::from_secs_f64(self.parameters.seconds("vcl_cooldown"))
    }

    /// Passes on what parameters say.
    fn parameters_changed(&mut self) {
        let reclen = usize::try_from(self.parameters.integer("vsl_reclen")).unwrap_or(255);
        let immediate = self.parameters.flag("debug", "syncvsl");
        self.rules.set(&self.parameters.masked(), reclen, immediate);
        let ping_every = Duration::from_secs(self.parameters.integer("ping_interval"));
        self.facts.lock().unwrap_or_else(PoisonError::into_inner).ping_every = ping_every;
        if let Err(why) = self.apply() {
            tracing::warn!("a parameter does not take effect: {why}");
        }
    }

    /// Passes on which policies there are.
    fn policies_changed(&mut self) {
        let cooldown = self.cooldown();
        let mut facts = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        facts.policies = self.policies.len() as u64;
        facts.cooling = self.policies.cooling(cooldown);
        facts.has_keys =
            self.policies.warm(cooldown).any(|(_, program)| program.policy().imports("xkey"));
        facts.origins = self
            .policies
            .warm(cooldown)
            .flat_map(|(policy, program)| {
                program
                    .origins()
                    .map(move |(name, origin)| (format!("{policy}.{name}"), Arc::clone(origin)))
            })
            .collect();
    }

    /// Shows the manager's counters.
    fn publish(&mut self) {
        self.group.set("uptime", self.started.elapsed().as_secs());
        self.group.set("child_start", self.starts);
        self.group.set("child_stop", self.stops);
        // Counters that cannot be written must not stop what they are about.
        let _ = self.group.publish();
    }
}

/// The answer to a command with too few words. Where the table has checked their number, it is for patterns
/// that would not match otherwise.
fn too_few() -> Reply {
    Reply::error(Status::TooFew, "Too few parameters\n")
}

/// The answer to a command with too many words.
fn too_many() -> Reply {
    Reply::error(Status::TooMany, "Too many parameters\n")
}

//! The nodes that run here: how each says so, and how a command finds the one that is meant.

use crate::runtime;
use crate::text::wrap;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use freshet_config::Settings;
use freshet_config::mistake::Mistake;
use freshet_net::address::Address;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What a running node says of itself, in a file of its directory.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Node {
    /// Its process.
    pub(crate) pid: u32,
    /// When the process started, in the kernel's ticks: another may get its number later.
    started_ticks: u64,
    /// Its admin interface, where it has one.
    admin: Option<String>,
    /// The file with its token.
    pub(crate) token_file: Option<PathBuf>,
    /// Where clients connect.
    listen: Vec<String>,
    /// The version of the program that ran before its own, where its process keeps that one.
    #[serde(default)]
    pub(crate) program_before: Option<String>,
    /// Its directory.
    #[serde(skip)]
    pub(crate) directory: PathBuf,
}

/// The file with that.
const NODE_FILE: &str = "node.json";
/// The file with its process id alone, for scripts.
const PID_FILE: &str = "freshet.pid";

/// Says that this process is a node, until it is dropped or another process says so.
pub(crate) struct Registration(PathBuf);

/// How long a node that runs in the same directory may take to end: the memory of one that was
/// killed goes back in that time.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// Refuses a directory in which another node runs and does not end soon, unless that is the process
/// we take over from.
///
/// # Errors
/// When there is one.
pub(crate) fn check_free(directory: &Path) -> Result<()> {
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    let end = Instant::now() + END_TIMEOUT;
    let other = loop {
        let Some(other) = Node::read(directory) else { return Ok(()) };
        if Some(other.pid) == parent || other.pid == std::process::id() {
            return Ok(());
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || !ends_within(other.pid, left) {
            break other;
        }
    };
    bail!(
        "{} is in use by another node: {}; give this one a name with --name",
        directory.display(),
        other.describe()
    );
}

/// Waits until a process has ended; false where it has not in that time.
pub(crate) fn ends_within(pid: u32, limit: Duration) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return true };
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(error) => return error == Errno::SRCH,
    };
    let limit = Timespec {
        tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    };
    let mut ends = [PollFd::new(&process, PollFlags::IN)];
    retry_on_intr(|| poll(&mut ends, Some(&limit))).is_ok_and(|ready| ready > 0)
}

impl Registration {
    /// Registers this process as the node of `directory`.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub(crate) fn write(
        directory: &Path,
        admin: Option<(&Address, &Path)>,
        listen: &[Address],
        program_before: Option<&str>,
    ) -> Result<Self> {
        let pid = std::process::id();
        let node = Node {
            pid,
            started_ticks: started_ticks(pid).unwrap_or(0),
            admin: admin.map(|(address, _)| address.to_string()),
            token_file: admin.map(|(_, file)| file.to_owned()),
            listen: listen.iter().map(ToString::to_string).collect(),
            program_before: program_before.map(str::to_owned),
            directory: directory.to_owned(),
        };
        let text = serde_json::to_string(&node).context("what a node says of itself")?;
        // The process id last: who waits for it finds the rest.
        replace(&directory.join(NODE_FILE), &format!("{text}\n"))?;
        replace(&directory.join(PID_FILE), &format!("{pid}\n"))?;
        Ok(Self(directory.to_owned()))
    }
}

/// Whether both are every address: that of IPv6 becomes that of IPv4 on a machine that has no other.
fn is_same_any(one: &Address, other: &Address) -> bool {
    let is_any =
        |address: &Address| matches!(address, Address::Tcp(at) if at.ip().is_unspecified());
    is_any(one) && is_any(other) && one.port() == other.port()
}

/// Writes a file whole or not at all, for whoever reads it meanwhile.
fn replace(path: &Path, text: &str) -> Result<()> {
    let fresh = path.with_extension(std::process::id().to_string());
    fs::write(&fresh, text)
        .and_then(|()| fs::rename(&fresh, path))
        .with_context(|| format!("{} could not be written", path.display()))
}

impl Drop for Registration {
    fn drop(&mut self) {
        // What a process that has taken over says stays.
        if Node::read(&self.0).is_some_and(|node| node.pid == std::process::id()) {
            let _ = fs::remove_file(self.0.join(NODE_FILE));
            let _ = fs::remove_file(self.0.join(PID_FILE));
        }
    }
}

impl Node {
    /// The node that runs in `directory`, if one does. What a crash left behind is none.
    pub(crate) fn read(directory: &Path) -> Option<Self> {
        let text = fs::read_to_string(directory.join(NODE_FILE)).ok()?;
        let node: Self = serde_json::from_str(&text).ok()?;
        (started_ticks(node.pid)? == node.started_ticks)
            .then(|| Self { directory: directory.to_owned(), ..node })
    }

    /// The same once all of it is written: scripts find the process by a file of its own.
    pub(crate) fn read_whole(directory: &Path) -> Option<Self> {
        let told = fs::read_to_string(directory.join(PID_FILE)).ok()?;
        Self::read(directory).filter(|node| told.trim().parse() == Ok(node.pid))
    }

    /// What `--name` calls it.
    pub(crate) fn name(&self) -> String {
        self.directory.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Its admin interface, where it has one.
    pub(crate) fn admin(&self) -> Option<Address> {
        self.admin.as_ref()?.parse().ok()
    }

    /// Whether it has this address, for clients or for its admin interface.
    pub(crate) fn has(&self, address: &Address) -> bool {
        let mut all = self.listen.iter().chain(&self.admin);
        all.any(|own| {
            own.parse().is_ok_and(|own: Address| own == *address || is_same_any(&own, address))
        })
    }

    /// Whether its admin interface is there: a file with this address is its own.
    pub(crate) fn is_administered_at(&self, address: Option<&Address>) -> bool {
        let own: Option<Address> = self.admin.as_ref().and_then(|own| own.parse().ok());
        own.is_some_and(|own| address.is_some_and(|one| own == *one || is_same_any(&own, one)))
    }

    /// What it has of what a node of these settings would listen on, unless the two are the same node.
    pub(crate) fn in_the_way_of<'a>(
        &'a self,
        settings: &'a Settings,
    ) -> impl Iterator<Item = Mistake> + 'a {
        let taken = settings.listeners.iter().filter(|listener| self.has(&listener.address));
        taken.map(|listener| {
            let message = format!("a node listens on {} already", listener.address);
            let help = format!("that is right if this file is for {}", self.describe());
            Mistake::warning(listener.place, message).help(help)
        })
    }

    /// Its name, process and addresses, in a line.
    pub(crate) fn describe(&self) -> String {
        let mut text = format!("node {}, process {}", self.name(), self.pid);
        if let Some(admin) = &self.admin {
            let _ = write!(text, ", admin {admin}");
        }
        let _ = write!(text, ", listening on {}", self.listen.join(" and "));
        text
    }
}

/// When a process started; `None` where there is none, or only what nobody has waited for.
fn started_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it, in parentheses, may hold anything.
    let (_, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_whitespace();
    let is_over = matches!(fields.next()?, "Z" | "X");
    fields.nth(18)?.parse().ok().filter(|_| !is_over)
}

/// The nodes that run as this user, and that of the service.
pub(crate) fn running() -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    for directory in runtime::directories() {
        if let Some(node) = Node::read(&directory)
            && nodes.iter().all(|known| known.pid != node.pid)
        {
            nodes.push(node);
        }
    }
    nodes
}

/// Flags that say which node of this machine is meant.
#[derive(Args, Clone, Debug)]
pub(crate) struct Which {
    /// Node that is meant, where several run.
    #[arg(long, value_name = "NAME", group = "which")]
    name: Option<String>,
    /// Its process.
    #[arg(long, value_name = "PID", group = "which")]
    pub(crate) pid: Option<u32>,
    /// Its admin address, as 127.0.0.1:6080 or unix:/path.
    #[arg(long, value_name = "ADDR", group = "which")]
    admin: Option<Address>,
}

impl Which {
    /// The node that is meant, where one runs.
    ///
    /// # Errors
    /// When several run and none is named, or none is as named.
    pub(crate) fn node(&self) -> Result<Option<Node>> {
        let mut nodes = running();
        if let Some(pid) = self.pid {
            nodes.retain(|node| node.pid == pid);
        }
        if let Some(admin) = &self.admin {
            nodes.retain(|node| node.admin().as_ref() == Some(admin));
            if nodes.is_empty() {
                bail!("no node runs here whose admin address is {admin}");
            }
        }
        choose(nodes, self.name.as_deref())
    }
}

/// The only one of `nodes`, or the one of this name: never a guess.
///
/// # Errors
/// When several run and none is named, or none has the name.
pub(crate) fn choose(nodes: Vec<Node>, name: Option<&str>) -> Result<Option<Node>> {
    let list = |nodes: &[Node]| {
        let mut text = String::new();
        for node in nodes {
            text.push_str("\n  ");
            wrap(&node.describe(), 4, &mut text);
            // Lines begin where they are needed.
            text.truncate(text.trim_end().len());
        }
        text
    };
    if let Some(name) = name {
        let all = list(&nodes);
        let found = nodes.into_iter().find(|node| node.name() == name);
        return match found {
            Some(node) => Ok(Some(node)),
            None if all.is_empty() => Err(anyhow!("no node `{name}` runs here, nor any other")),
            None => Err(anyhow!("no node `{name}` runs here, but{all}")),
        };
    }
    if nodes.len() > 1 {
        bail!("{} nodes run here; say which is meant with --name:{}", nodes.len(), list(&nodes));
    }
    Ok(nodes.into_iter().next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal, kill_process};
    use std::process::Command;
    use std::thread;

    fn address(text: &str) -> Address {
        text.parse().expect("it is an address")
    }

    fn register(directory: &Path) -> Registration {
        let (admin, token) = (address("127.0.0.1:6080"), directory.join("admin.token"));
        let listen = [address("127.0.0.1:8000")];
        let at = Some((&admin, token.as_path()));
        Registration::write(directory, at, &listen, None).expect("it can be written")
    }

    #[test]
    fn a_node_is_found_while_it_is_registered() {
        let directory = tempfile::tempdir().unwrap();
        assert!(Node::read(directory.path()).is_none());
        let registration = register(directory.path());
        let node = Node::read(directory.path()).unwrap();
        assert_eq!((node.pid, node.admin()), (std::process::id(), Some(address("127.0.0.1:6080"))));
        let pid = fs::read_to_string(directory.path().join(PID_FILE)).unwrap();
        assert_eq!(pid.trim(), node.pid.to_string());
        drop(registration);
        assert!(Node::read(directory.path()).is_none());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left behind");
    }

    #[test]
    fn what_another_process_left_or_says_is_respected() {
        let directory = tempfile::tempdir().unwrap();
        let registration = register(directory.path());
        let file = directory.path().join(NODE_FILE);
        let own = fs::read_to_string(&file).unwrap();
        let of = |pid: u32, ticks: u64| {
            let mut node: Node = serde_json::from_str(&own).unwrap();
            (node.pid, node.started_ticks) = (pid, ticks);
            serde_json::to_string(&node).unwrap()
        };
        // A crash left it, and the number belongs to another process now.
        fs::write(&file, of(1, 0)).unwrap();
        assert!(Node::read(directory.path()).is_none());
        check_free(directory.path()).unwrap();
        // Another node runs there.
        fs::write(&file, of(1, started_ticks(1).unwrap())).unwrap();
        let refused = check_free(directory.path()).unwrap_err().to_string();
        assert!(refused.contains("process 1, admin 127.0.0.1:6080"), "{refused}");
        // One that ends while it is waited for, and that nobody has taken leave of.
        let mut other = Command::new("sleep").arg("60").spawn().unwrap();
        fs::write(&file, of(other.id(), started_ticks(other.id()).unwrap())).unwrap();
        let pid = Pid::from_child(&other);
        let ends = thread::spawn(move || kill_process(pid, Signal::KILL));
        check_free(directory.path()).unwrap();
        ends.join().unwrap().unwrap();
        other.wait().unwrap();
        assert!(ends_within(other.id(), Duration::ZERO), "it is gone");
        drop(registration);
        assert!(file.exists(), "it is the other's now");
    }

    #[test]
    fn one_of_several_is_never_guessed() {
        let home = tempfile::tempdir().unwrap();
        let nodes: Vec<_> = ["a", "b"]
            .map(|name| home.path().join(name))
            .iter()
            .map(|directory| {
                fs::create_dir(directory).unwrap();
                std::mem::forget(register(directory));
                Node::read(directory).unwrap()
            })
            .collect();
        let refused = choose(nodes.clone(), None).unwrap_err().to_string();
        assert!(refused.contains("node a, process") && refused.contains("node b, process"));
        assert!(refused.contains("--name"), "{refused}");
        assert_eq!(choose(nodes.clone(), Some("b")).unwrap().unwrap().name(), "b");
        assert!(choose(nodes.clone(), Some("c")).unwrap_err().to_string().contains("node a"));
        assert_eq!(choose(nodes[..1].to_vec(), None).unwrap().unwrap().name(), "a");
        assert!(choose(Vec::new(), None).unwrap().is_none());
    }
}

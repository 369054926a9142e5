//! Network namespaces for measurements and demonstrations: joined by cables, gone with the process.
//!
//! A watcher in a process of its own removes them as soon as this process is over, however that ended.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Names of namespaces and folders begin with it, followed by the number of the process.
const PREFIX: &str = "freshet";

/// Waits until nobody writes to it any more, then ends what runs in the namespaces, and removes them
/// and the folder. Arguments: the folder, the namespaces.
const WATCHER: &str = r#"
trap '' INT TERM HUP QUIT
read -r _
folder=$1
shift
for name in "$@"; do
    pids=$(ip netns pids "$name" 2>/dev/null)
    [ -z "$pids" ] || kill -9 $pids 2>/dev/null
    ip netns delete "$name"
done
umount "$folder/bpf"
rm -rf -- "$folder"
"#;

/// Some namespaces, a folder, and in it `bpf`, a BPF file system.
#[derive(Debug)]
pub struct Namespaces {
    prefix: String,
    folder: PathBuf,
    watcher: Child,
    told: Option<ChildStdin>,
}

/// Runs `program` with the words of `line`.
///
/// # Errors
/// What it said.
fn run(program: &str, line: &str) -> Result<String, String> {
    let output = Command::new(program).args(line.split_whitespace()).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{program} {line}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// What is missing for namespaces to be made here, in words.
#[must_use]
pub fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some(
            "this makes network namespaces and puts programs on interfaces: run it as root".into(),
        );
    }
    ["ip", "ethtool", "setpriv"].into_iter().find_map(|program| {
        Command::new(program).arg("--version").output().err().map(|error| {
            format!(
                "{program}: {error}; it is in Debian's packages iproute2, ethtool and util-linux"
            )
        })
    })
}

impl Namespaces {
    /// Makes namespaces of these names, to which this process and a number are put in front.
    ///
    /// # Errors
    /// What the system refused, in words.
    pub fn new(names: &[&str]) -> Result<Self, String> {
        sweep();
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("{PREFIX}{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(&prefix);
        let shown = folder.display().to_string();
        let refuse = |error: io::Error| format!("{shown}: {error}");
        fs::create_dir_all(folder.join("bpf")).map_err(refuse)?;
        let mut watcher = Command::new("sh")
            .args(["-c", WATCHER, "sh", &shown])
            .args(names.iter().map(|name| format!("{prefix}-{name}")))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("sh: {error}"))?;
        let told = watcher.stdin.take();
        let made = Self { prefix, folder, watcher, told };
        run("mount", &format!("-t bpf bpf {shown}/bpf"))?;
        for name in names {
            run("ip", &format!("netns add {}", made.name(name)))?;
            made.ip(name, "link set lo up")?;
            for setting in [
                "ipv4/conf/all/rp_filter=0",
                "ipv4/conf/default/rp_filter=0",
                "ipv6/conf/all/accept_dad=0",
                "ipv6/conf/default/accept_dad=0",
            ] {
                made.set(name, setting)?;
            }
        }
        Ok(made)
    }

    /// The namespace's name for `ip netns`.
    #[must_use]
    pub fn name(&self, one: &str) -> String {
        format!("{}-{one}", self.prefix)
    }

    /// A folder that goes with them.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs `ip` in a namespace.
    ///
    /// # Errors
    /// What it said.
    pub fn ip(&self, one: &str, line: &str) -> Result<String, String> {
        run("ip", &format!("-n {} {line}", self.name(one)))
    }

    /// Sets what `sysctl` would, such as `ipv4/ip_forward=1`.
    ///
    /// # Errors
    /// What the system said.
    pub fn set(&self, one: &str, setting: &str) -> Result<(), String> {
        let (place, value) = setting.split_once('=').unwrap_or((setting, "1"));
        self.write(one, &format!("/proc/sys/net/{place}"), value)
    }

    /// Writes a file of `/proc` or `/sys` as a namespace has it.
    ///
    /// # Errors
    /// What the system said.
    pub fn write(&self, one: &str, path: &str, value: &str) -> Result<(), String> {
        let output =
            self.command(one, "sh").args(["-c", &format!("echo {value} > {path}")]).output();
        let output = output.map_err(|error| format!("{path}: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(()) } else { Err(format!("{path}: {}", said.trim())) }
    }

    /// A cable between two namespaces: interfaces with these names, ready for frames that are handed on
    /// without the kernel's notes on them.
    ///
    /// # Errors
    /// What the system said.
    pub fn cable(&self, ends: [(&str, &str); 2], mtu: u16) -> Result<(), String> {
        let [(near, device), (far, peer)] = ends;
        let far_name = self.name(far);
        self.ip(near, &format!("link add {device} type veth peer name {peer} netns {far_name}"))?;
        for (one, device) in ends {
            self.ip(one, &format!("link set {device} mtu {mtu} up"))?;
            // Checksums are to be whole, and a redirected frame is taken by a peer that has GRO.
            for setting in ["tx off", "gro on"] {
                run("ip", &format!("netns exec {} ethtool -K {device} {setting}", self.name(one)))?;
            }
        }
        Ok(())
    }

    /// An interface's own address, and its number.
    ///
    /// # Errors
    /// That it is not there.
    pub fn interface(&self, one: &str, device: &str) -> Result<([u8; 6], u32), String> {
        let shown = self.ip(one, &format!("-j link show {device}"))?;
        let shown: serde_json::Value =
            serde_json::from_str(&shown).map_err(|error| format!("ip link: {error}"))?;
        let mac = shown[0]["address"].as_str().and_then(crate::app::mac_of);
        let index = shown[0]["ifindex"].as_u64().and_then(|index| u32::try_from(index).ok());
        mac.zip(index).ok_or_else(|| format!("{device}: no such interface"))
    }

    /// Puts this thread, and what it starts from now on, into a namespace. `/sys` stays as it is.
    ///
    /// # Errors
    /// What the system said.
    pub fn enter(&self, one: &str) -> Result<(), String> {
        let path = Path::new("/run/netns").join(self.name(one));
        let entered = File::open(&path).and_then(|file| {
            let kind = rustix::thread::LinkNameSpaceType::Network;
            Ok(rustix::thread::move_into_link_name_space(file.as_fd(), Some(kind))?)
        });
        entered.map_err(|error| format!("{}: {error}", path.display()))
    }

    /// A program in a namespace, which ends with the thread that starts it.
    #[must_use]
    pub fn command(&self, one: &str, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(one), "setpriv", "--pdeathsig", "KILL"]);
        command.arg(program).stdin(Stdio::null());
        command
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        self.told = None;
        let _ = self.watcher.wait();
    }
}

/// Removes what is left of processes that are over and whose watcher did not live to do it.
fn sweep() {
    let is_left = |name: &str| {
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        let owner = owner.and_then(|owner| owner.parse::<u32>().ok());
        owner.is_some_and(|owner| !Path::new(&format!("/proc/{owner}")).exists())
    };
    for line in run("ip", "netns list").unwrap_or_default().lines() {
        let name = line.split_whitespace().next().unwrap_or_default();
        if is_left(name) {
            let _ = run("ip", &format!("netns delete {name}"));
        }
    }
    for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_left) {
            let _ = run("umount", &entry.path().join("bpf").display().to_string());
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

//! Runs instances as containers of an OCI runtime (`crun`): an image's files, namespaces, a network of
//! its own by a pair of veth, limits by control groups.
//!
//! What is known of a container is on the disk and in the kernel, so that the process after this one finds
//! it. Commands hold a lock while they run: the next process waits for what the last one left
//! under way, also for what it began that has no lock yet.

mod bundle;
mod classes;
mod devices;
mod groups;
mod network;

pub use devices::Devices;

use crate::disk::said;
use crate::driver::{clear, image_of, unpack};
use crate::limits::LOG_BYTES_MAX;
use crate::program::output;
use crate::{Driver, Health, Spec, Trouble};
use freshet_package::image::Image;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Longest time a command may take, in seconds.
const COMMAND_S_MAX: u32 = 30;
/// How long an app may take to take a connection: it is on this machine.
const CONNECT: Duration = Duration::from_millis(500);
/// How long a process that runs apps may take to end when the next one begins, and the pause between looks.
const ALONE: Duration = Duration::from_secs(10);
const ALONE_PAUSE: Duration = Duration::from_millis(50);
/// How long the kernel may take to make a program of a process, and the pause until it is looked at again. One that has
/// removed its own words is waited for as long.
const EXECUTE: Duration = Duration::from_secs(1);
const EXECUTE_PAUSE: Duration = Duration::from_millis(1);
/// Where [`stat`] has a process' flags, and when it began.
const FLAGS: usize = 6;
const BEGAN: usize = 19;
/// The flag of processes that are the kernel's own (`PF_KTHREAD`).
const OF_KERNEL: u64 = 0x0020_0000;
const PROCESS: &str = "process";
const LOG: &str = "log";
/// How the network is shaped.
const SHAPED: &str = "shaped";
/// Bytes of output that are shown of an app that ended.
const WORDS_BYTES: u64 = 400;
/// Makes a container. crun knows one hierarchy of control groups, and the machine may have several: it sees
/// the one it knows, and ours are for us to set.
const CREATE: &str = "mount -t cgroup2 none /sys/fs/cgroup && exec crun --cgroup-manager=disabled \
     --log=\"$1/crun.log\" create --bundle \"$1\" --pid-file \"$1/pid\" \"$2\"";

/// The runtime of this machine.
#[derive(Debug)]
pub struct Oci {
    lock: PathBuf,
    /// Held while an instance is given its own.
    devices: Mutex<Devices>,
    /// The folder, locked: apps are run by one process. What it begins has it until that is another program.
    _alone: File,
}

impl Oci {
    /// A runtime whose instances have their files below a folder, which is made, and which has these accelerators.
    /// Waits for commands of a process before this one.
    ///
    /// # Errors
    /// What this machine lacks, or another process runs apps there.
    pub fn open(folder: &Path, devices: Devices) -> Result<Self, String> {
        let say = |error: io::Error| said(folder, &error);
        fs::create_dir_all(folder).map_err(say)?;
        for program in ["crun", "ip", "ethtool", "flock", "timeout", "unshare"] {
            let found = std::env::var_os("PATH").is_some_and(|path| {
                std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
            });
            if !found {
                return Err(format!(
                    "runtime: the program {program} is missing; Debian's packages crun, iproute2, ethtool and util-linux have it"
                ));
            }
        }
        let alone = alone(folder).map_err(say)?;
        let lock = folder.join("lock");
        loop {
            let file = File::options().create(true).truncate(false).write(true).open(&lock);
            file.and_then(|file| file.lock()).map_err(say)?;
            let begun = begun(&lock).map_err(say)?;
            if begun.is_empty() {
                break;
            }
            begun.iter().try_for_each(wait_for).map_err(say)?;
        }
        Ok(Self { lock, devices: Mutex::new(devices), _alone: alone })
    }

    /// Runs a program, and gives what it wrote.
    fn run(&self, program: &str, words: &[&str], input: Option<&str>) -> Result<String, String> {
        output(self.command(program, words), program, words, input)
    }

    fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new("flock");
        command.args(["--shared", "--close"]).arg(&self.lock);
        command.args(["timeout", "--signal=KILL", &COMMAND_S_MAX.to_string(), program]);
        command.args(words);
        // What systemd is to be told is this process's to say: a runtime that finds this waits for the app to.
        command.env_remove("NOTIFY_SOCKET");
        command
    }

    /// Makes a container and has it run.
    fn create(&self, spec: &Spec, image: &Image) -> Result<(), String> {
        let folder = spec.folder.as_path();
        let shown = folder.display().to_string();
        let say = |error: io::Error| said(folder, &error);
        let devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner).give(spec)?;
        bundle::write(spec, image, &devices).map_err(say)?;
        let log = File::options().create(true).append(true).open(folder.join(LOG)).map_err(say)?;
        fs::write(folder.join("crun.log"), "").map_err(say)?;
        let create = ["--mount", "--propagation", "private", "sh", "-c", CREATE, "sh", &shown];
        let mut command = self.command("unshare", &create);
        command.arg(&spec.name).stdin(Stdio::null());
        command.stdout(log.try_clone().map_err(say)?).stderr(log);
        let status = command.status().map_err(say)?;
        if !status.success() {
            let said = fs::read_to_string(folder.join("crun.log")).unwrap_or_default();
            let said = said.lines().last().unwrap_or("its log says nothing");
            return Err(format!("crun create {}: {said}", spec.name));
        }
        let pid = fs::read_to_string(folder.join("pid")).map_err(say)?;
        let pid: u32 = pid.trim().parse().map_err(|_| format!("{shown}/pid: is no number"))?;
        groups::limit(&spec.name, pid, spec.cpu_milli_max, spec.memory_mib_max)?;
        self.run("crun", &["start", &spec.name], None)?;
        let began = began(pid)
            .ok_or_else(|| format!("the app ended at once: {}", self.last_words(spec)))?;
        fs::write(folder.join(PROCESS), format!("{pid} {began}")).map_err(say)
    }

    /// Removes what the runtime knows of a container, whatever state that is in.
    fn delete(&self, spec: &Spec) -> Result<(), String> {
        let _ = fs::remove_file(spec.folder.join(PROCESS));
        match self.run("crun", &["delete", "--force", &spec.name], None) {
            Err(error) if !error.contains("does not exist") && !error.contains("No such file") => {
                Err(error)
            }
            _ => Ok(()),
        }
    }
}

impl Driver for Oci {
    fn unpack(&self, spec: &Spec) -> Result<Option<Vec<u16>>, Trouble> {
        unpack(spec, |_| Ok(())).map(Some)
    }

    fn link(&self, spec: &Spec) -> Result<(), Trouble> {
        self.unlink(spec)?;
        let _ = fs::remove_file(spec.folder.join(SHAPED));
        Ok(network::make(spec, |program, words, input| self.run(program, words, input).map(drop))?)
    }

    fn start(&self, spec: &Spec) -> Result<bool, Trouble> {
        if process(&spec.folder).is_some() {
            return Ok(true);
        }
        let image = image_of(&spec.folder)?;
        self.delete(spec)?;
        // It is gone with the machine's last start.
        if !network::path(&spec.name).exists() {
            self.link(spec)?;
        }
        self.create(spec, &image)?;
        Ok(true)
    }

    fn shape(&self, spec: &Spec) -> Result<(), Trouble> {
        let (kept, wanted) = (spec.folder.join(SHAPED), network::shape(spec)?);
        if fs::read_to_string(&kept).unwrap_or_default() == wanted {
            return Ok(());
        }
        let run = |line: &str| {
            let words: Vec<&str> = ["netns", "exec", &spec.name, "tc"]
                .into_iter()
                .chain(network::words(line))
                .collect();
            self.run("ip", &words, None)
        };
        for line in network::unshaped(spec) {
            // It fails where nothing was shaped.
            let _ = run(&line);
        }
        for line in wanted.lines() {
            run(line)?;
        }
        Ok(fs::write(&kept, wanted).map_err(|error| format!("{}: {error}", kept.display()))?)
    }

    fn health(&self, spec: &Spec) -> Result<Health, Trouble> {
        keep_short(&spec.folder.join(LOG));
        if process(&spec.folder).is_none() {
            return Ok(Health::Gone);
        }
        let Some(port) = image_of(&spec.folder)?.ports.first().copied() else {
            return Ok(Health::Up);
        };
        let address = SocketAddr::from((spec.network.app, port));
        Ok(match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(_) => Health::Up,
            Err(_) => Health::Silent,
        })
    }

    fn stop(&self, spec: &Spec, is_forced: bool) -> Result<bool, Trouble> {
        if process(&spec.folder).is_some() && !is_forced {
            // Asked once: the file says so.
            let asked = spec.folder.join("asked");
            if !asked.exists() {
                let signal = image_of(&spec.folder)?.stop_signal;
                self.run("crun", &["kill", &spec.name, &signal], None)?;
                fs::write(&asked, "").map_err(|error| format!("{}: {error}", asked.display()))?;
            }
            return Ok(false);
        }
        self.delete(spec)?;
        let _ = fs::remove_file(spec.folder.join("asked"));
        Ok(groups::remove(&spec.name))
    }

    fn unlink(&self, spec: &Spec) -> Result<(), Trouble> {
        Ok(network::remove(spec, |program, words, input| {
            self.run(program, words, input).map(drop)
        })?)
    }

    fn clear(&self, spec: &Spec) -> Result<(), Trouble> {
        Ok(clear(&spec.folder).map_err(|error| format!("{}: {error}", spec.folder.display()))?)
    }

    fn last_words(&self, spec: &Spec) -> String {
        let tail = || {
            let mut file = File::open(spec.folder.join(LOG))?;
            let bytes = file.metadata()?.len();
            file.seek(SeekFrom::Start(bytes.saturating_sub(WORDS_BYTES)))?;
            let mut words = Vec::new();
            file.take(WORDS_BYTES).read_to_end(&mut words)?;
            Ok::<_, io::Error>(words)
        };
        match tail() {
            Ok(words) if !words.is_empty() => String::from_utf8_lossy(&words).trim().to_owned(),
            _ => "it has said nothing".to_owned(),
        }
    }
}

/// The process of an instance that runs: the number may be another's by now, so its beginning counts as
/// well.
fn process(folder: &Path) -> Option<u32> {
    let text = fs::read_to_string(folder.join(PROCESS)).ok()?;
    let (pid, known) = text.split_once(' ')?;
    let pid = pid.parse().ok()?;
    (began(pid)? == known).then_some(pid)
}

/// When a process began, in ticks since the machine's start; none where it is over.
fn began(pid: u32) -> Option<String> {
    stat(Path::new(&format!("/proc/{pid}")))?.get(BEGAN).cloned()
}

/// The fields of what is said of a process behind its name (proc_pid_stat(5)), its state first; none where it is over.
fn stat(process: &Path) -> Option<Vec<String>> {
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    // The name, in brackets, may have anything in it.
    let fields = stat.rsplit_once(')')?.1.split_whitespace();
    let fields: Vec<String> = fields.map(str::to_owned).collect();
    let is_over = matches!(fields.first()?.as_str(), "Z" | "X");
    (!is_over).then_some(fields)
}

/// Has a folder for this process alone. One that was killed while it began a command leaves a process that has the
/// folder until it is that command.
fn alone(folder: &Path) -> io::Result<File> {
    let file = File::open(folder)?;
    let until = Instant::now() + ALONE;
    while file.try_lock().is_err() {
        if Instant::now() >= until {
            let what = "another process runs apps there";
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, what));
        }
        thread::sleep(ALONE_PAUSE);
    }
    Ok(file)
}

/// Commands that hold the lock, or are about to.
fn begun(lock: &Path) -> io::Result<Vec<OwnedFd>> {
    let mut begun = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        let Some(pid) = path.file_name().and_then(OsStr::to_str).and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let is_one = || is_command(&path, lock);
        if !is_one() {
            continue;
        }
        // Looked at again when it cannot be another of the same number any more.
        match Pid::from_raw(pid).map(|pid| pidfd_open(pid, PidfdFlags::empty())) {
            Some(Ok(process)) if is_one() => begun.push(process),
            Some(Err(error)) if error != Errno::SRCH => return Err(error.into()),
            _ => {}
        }
    }
    Ok(begun)
}

/// Whether a process is a command that takes the lock.
fn is_command(process: &Path, lock: &Path) -> bool {
    let words = words_of(process);
    let mut words = words.split(|byte| *byte == 0);
    words.next() == Some(b"flock") && words.any(|word| word == lock.as_os_str().as_bytes())
}

/// The words a process was begun with. It has none for a while when the kernel makes a program of it: from when it has
/// let go of what it was until the program's memory is there, which a busy disk may take its time for.
fn words_of(process: &Path) -> Vec<u8> {
    let until = Instant::now() + EXECUTE;
    loop {
        // What is over by now has none, and neither has what is the kernel's own.
        let words = fs::read(process.join("cmdline")).unwrap_or_default();
        if !words.is_empty() || !is_program(process) || Instant::now() >= until {
            return words;
        }
        thread::sleep(EXECUTE_PAUSE);
    }
}

/// Whether a process is of a program, or becomes so: not over, and none of the kernel's own.
fn is_program(process: &Path) -> bool {
    let flags = stat(process).and_then(|fields| fields.get(FLAGS)?.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & OF_KERNEL == 0)
}

/// Waits until a process is over.
fn wait_for(process: &OwnedFd) -> io::Result<()> {
    let mut over = [PollFd::new(process, PollFlags::IN)];
    retry_on_intr(|| poll(&mut over, None))?;
    Ok(())
}

/// An app that says much loses the beginning.
fn keep_short(log: &Path) {
    let is_long = fs::metadata(log).is_ok_and(|at| at.len() > LOG_BYTES_MAX);
    if is_long
        && let Err(error) = File::options().write(true).open(log).and_then(|file| file.set_len(0))
    {
        tracing::warn!(log = %log.display(), %error, "cannot be kept short");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apps_of_a_folder_are_run_by_one_process() {
        let folder = tempfile::tempdir().unwrap();
        let Ok(first) = Oci::open(folder.path(), Devices::default()) else { return };
        let place = folder.path().to_owned();
        let second = thread::spawn(move || Oci::open(&place, Devices::default()));
        thread::sleep(Duration::from_millis(200));
        assert!(!second.is_finished());
        drop(first);
        let second = second.join().unwrap().unwrap();
        let error = Oci::open(folder.path(), Devices::default()).unwrap_err();
        assert!(error.ends_with("another process runs apps there"), "{error}");
        drop(second);
    }

    #[test]
    fn a_command_is_known_while_the_kernel_makes_it_of_a_process() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join("lock");
        for round in 0..500 {
            let mut command = Command::new("flock");
            command.args(["--shared", "--close"]).arg(&lock).args(["sleep", "10"]);
            let Ok(mut child) = command.spawn() else { return };
            let process = PathBuf::from(format!("/proc/{}", child.id()));
            let is_known = is_command(&process, &lock);
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(is_known, "round {round}");
        }
    }

    #[test]
    fn what_the_last_process_began_is_waited_for_before_it_has_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join("lock");
        let done = folder.path().join("done");
        let begun = |words: &[&str]| {
            let mut command = Command::new("flock");
            command.args(["--shared", "--close"]).arg(&lock).args(words);
            command.spawn().unwrap()
        };
        let (mut late, pid) = loop {
            let mut late = begun(&["touch", done.to_str().unwrap()]);
            let pid = Pid::from_child(&late);
            // Most likely before it has the lock: with it, it would be waited for all the more.
            rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
            if !done.exists() {
                break (late, pid);
            }
            // It was done before it could be stopped.
            rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
            late.wait().unwrap();
            fs::remove_file(&done).unwrap();
        };
        let (place, began) = (folder.path().to_owned(), Instant::now());
        let opened = thread::spawn(move || {
            let opened = Oci::open(&place, Devices::default());
            // A machine without the programs has nothing to wait for.
            let is_able = !opened.as_ref().is_err_and(|error| error.contains("is missing"));
            is_able.then(|| (opened.is_ok(), began.elapsed()))
        });
        thread::sleep(Duration::from_millis(300));
        rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
        late.wait().unwrap();
        if let Some((is_open, waited)) = opened.join().unwrap() {
            assert!(is_open && waited >= Duration::from_millis(300), "{waited:?}");
            assert!(done.exists());
        }
    }
}

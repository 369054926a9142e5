//! Processor time and memory of the server: of local processes by their numbers, or as the server
//! itself reports them.

use crate::error::LabError;
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the server's metrics may take.
const METRICS_MAX: Duration = Duration::from_secs(2);

/// Bytes of metrics at most.
const METRICS_BYTES_MAX: u64 = 4 << 20;

/// Processes of a server at most.
const PROCESSES_MAX: usize = 4096;

/// Where a server's use of its machine is read.
#[derive(Clone, Debug, PartialEq)]
pub enum Server {
    /// These processes and all their children.
    Processes {
        /// Their numbers.
        pids: Vec<u32>,
        /// Where the kernel describes processes, `/proc`.
        proc: PathBuf,
        /// Ticks of the kernel's clock per second.
        ticks_per_second: f64,
    },
    /// Metrics in the text form of Prometheus, with `process_cpu_seconds_total` and
    /// `process_resident_memory_bytes`.
    Metrics {
        /// Host and port.
        authority: String,
        /// Where it is.
        address: SocketAddr,
        /// The path of the metrics.
        path: String,
    },
}

impl Server {
    /// Watches local processes.
    ///
    /// # Errors
    /// [`LabError::LocalSystem`] when one of them does not run.
    pub fn processes(pids: &[u32]) -> Result<Self, LabError> {
        for pid in pids {
            if !Path::new("/proc").join(pid.to_string()).exists() {
                return Err(LabError::LocalSystem {
                    what: format!("process {pid}"),
                    why: "there is no such process on this machine".to_owned(),
                });
            }
        }
        let ticks_per_second = rustix::param::clock_ticks_per_second() as f64;
        Ok(Self::Processes { pids: pids.to_vec(), proc: "/proc".into(), ticks_per_second })
    }

    /// Asks the server, at `http://host:port/path`.
    ///
    /// # Errors
    /// [`LabError::ConfigTarget`] when it is no such URL; [`LabError::TargetSilent`] when it does not
    /// report what is needed.
    pub fn metrics(url: &str) -> Result<Self, LabError> {
        let refuse =
            |why: &str| LabError::ConfigTarget { url: url.to_owned(), why: why.to_owned() };
        let rest = url.strip_prefix("http://").ok_or_else(|| refuse("metrics are at http://"))?;
        let (authority, path) = rest.split_once('/').ok_or_else(|| refuse("it has no path"))?;
        let address = authority
            .to_socket_addrs()
            .ok()
            .and_then(|mut found| found.next())
            .ok_or_else(|| refuse("its host and port have no address"))?;
        let server =
            Self::Metrics { authority: authority.to_owned(), address, path: format!("/{path}") };
        let silent = |why: String| LabError::TargetSilent { url: url.to_owned(), why };
        let text = fetch(address, authority, &format!("/{path}")).map_err(|error| {
            silent(format!("{error}. Does the server run, and are its metrics on {address}?"))
        })?;
        if metric(&text, "process_cpu_seconds_total").is_none() {
            return Err(silent(
                "it does not report process_cpu_seconds_total; name the server's process with --pid \
                 where it runs on this machine"
                    .to_owned(),
            ));
        }
        Ok(server)
    }

    /// What it is, for reports.
    pub fn describe(&self) -> String {
        match self {
            Self::Processes { pids, .. } => {
                let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
                format!("process {} and its children", pids.join(", "))
            }
            Self::Metrics { authority, path, .. } => format!("http://{authority}{path}"),
        }
    }

    /// Processor time so far in seconds, and resident bytes now.
    pub(crate) fn read(&self) -> (Option<f64>, Option<u64>) {
        match self {
            Self::Processes { pids, proc, ticks_per_second } => {
                let all = with_children(proc, pids);
                let usages: Vec<(f64, u64)> =
                    all.iter().filter_map(|pid| usage(&proc.join(pid.to_string()))).collect();
                if usages.is_empty() {
                    return (None, None);
                }
                let ticks: f64 = usages.iter().map(|(ticks, _)| ticks).sum();
                let memory = usages.iter().map(|(_, memory)| memory).sum();
                (Some(ticks / ticks_per_second), Some(memory))
            }
            Self::Metrics { authority, address, path } => {
                let text = fetch(*address, authority, path).unwrap_or_default();
                let memory = metric(&text, "process_resident_memory_bytes");
                (metric(&text, "process_cpu_seconds_total"), memory.map(|bytes| bytes as u64))
            }
        }
    }
}

/// These processes and all that descend from them.
fn with_children(proc: &Path, pids: &[u32]) -> BTreeSet<u32> {
    let mut all = BTreeSet::new();
    let mut open: Vec<u32> = pids.to_vec();
    while let Some(pid) = open.pop() {
        if all.len() >= PROCESSES_MAX || !all.insert(pid) {
            continue;
        }
        let Ok(tasks) = fs::read_dir(proc.join(format!("{pid}/task"))) else { continue };
        for task in tasks.flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            open.extend(
                children.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()),
            );
        }
    }
    all
}

/// Ticks of user and system time (fields 14 and 15 of `stat`) and resident bytes of a process.
fn usage(process: &Path) -> Option<(f64, u64)> {
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    // The name in parentheses may contain anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    let status = fs::read_to_string(process.join("status")).ok()?;
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.split_ascii_whitespace().next()?.parse().ok())
        .unwrap_or(0_u64);
    Some((user + system, kilobytes * 1024))
}

fn fetch(address: SocketAddr, authority: &str, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, METRICS_MAX)?;
    stream.set_read_timeout(Some(METRICS_MAX))?;
    stream.set_write_timeout(Some(METRICS_MAX))?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {authority}\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    stream.take(METRICS_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// The sum over all samples called `name`.
fn metric(text: &str, name: &str) -> Option<f64> {
    let mut sum = None;
    for line in text.lines() {
        let Some(rest) = line.strip_prefix(name) else { continue };
        let rest = match rest.strip_prefix('{') {
            Some(labels) => labels.split_once('}').map_or("", |(_, rest)| rest),
            None => rest,
        };
        let value: Option<f64> =
            rest.strip_prefix(' ').and_then(|rest| rest.split(' ').next()?.trim().parse().ok());
        if let Some(value) = value {
            *sum.get_or_insert(0.0) += value;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_something() {
        let server = Server::processes(&[std::process::id()]).unwrap();
        let (cpu, memory) = server.read();
        assert!(cpu.is_some());
        assert!(memory.is_some_and(|bytes| bytes > 100_000));
        let error = Server::processes(&[u32::MAX]).unwrap_err().to_string();
        assert!(error.contains("no such process"), "{error}");
    }

    #[test]
    fn a_process_counts_with_its_children() {
        let root = tempfile::tempdir().unwrap();
        for (pid, children) in [(10, "11 12"), (11, ""), (12, "")] {
            let process = root.path().join(pid.to_string());
            fs::create_dir_all(process.join(format!("task/{pid}"))).unwrap();
            fs::write(process.join(format!("task/{pid}/children")), children).unwrap();
            let stat = format!("{pid} (a) b) S 1 1 1 0 -1 0 0 0 0 0 150 50 0 0 20 0");
            fs::write(process.join("stat"), stat).unwrap();
            fs::write(process.join("status"), "Name:\ta\nVmRSS:\t    2048 kB\n").unwrap();
        }
        let server = Server::Processes {
            pids: vec![10],
            proc: root.path().to_owned(),
            ticks_per_second: 100.0,
        };
        assert_eq!(server.read(), (Some(6.0), Some(3 * 2048 * 1024)));
    }

    #[test]
    fn metrics_that_nobody_serves_are_not_said_to_lack_something() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = Server::metrics(&format!("http://{free}/metrics")).unwrap_err().to_string();
        assert!(error.contains("refused") && !error.contains("process_cpu"), "{error}");
    }

    #[test]
    fn metrics_are_read_with_and_without_labels() {
        let text = "# HELP x\nprocess_cpu_seconds_total 1.5\nprocess_cpu_seconds_total_x 9\n\
                    process_resident_memory_bytes{a=\"b c\"} 7 1234\n";
        assert_eq!(metric(text, "process_cpu_seconds_total"), Some(1.5));
        assert_eq!(metric(text, "process_resident_memory_bytes"), Some(7.0));
        assert_eq!(metric(text, "absent"), None);
    }
}

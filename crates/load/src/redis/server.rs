//! Redis servers that the lab starts: one process each, pinned, without persistence, gone when dropped.

use crate::error::LabError;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to answer its first question.
const START_MAX: Duration = Duration::from_secs(20);

/// Where a server's memory is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Memory {
    /// Wherever the kernel puts it: DRAM.
    #[default]
    Any,
    /// On this NUMA node only.
    Node(usize),
}

/// The first NUMA node that has memory and no processors: persistent or attached memory that the
/// kernel uses as RAM; `sys` is `/sys`.
pub fn second_memory(sys: &Path) -> Option<usize> {
    let nodes = std::fs::read_dir(sys.join("devices/system/node")).ok()?;
    let mut found: Vec<usize> = nodes
        .flatten()
        .filter_map(|entry| {
            let number = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
            let cpus = std::fs::read_to_string(entry.path().join("cpulist")).ok()?;
            let memory = std::fs::read_to_string(entry.path().join("meminfo")).ok()?;
            let kilobytes: u64 = memory
                .lines()
                .find(|line| line.contains("MemTotal:"))?
                .split_ascii_whitespace()
                .rev()
                .nth(1)?
                .parse()
                .ok()?;
            (cpus.trim().is_empty() && kilobytes > 0).then_some(number)
        })
        .collect();
    found.sort_unstable();
    found.first().copied()
}

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub struct RedisServer {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

impl RedisServer {
    /// Starts `redis-server` on a free port of loopback.
    ///
    /// # Errors
    /// [`LabError::LocalSystem`] when there is no such program or it does not answer.
    pub fn start(
        memory: Memory,
        cpu: Option<usize>,
        maxmemory_bytes: u64,
    ) -> Result<Self, LabError> {
        let refuse = |why: String| LabError::LocalSystem { what: "redis-server".to_owned(), why };
        // Another process may take the port in between; the server then says so and ends.
        let address = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .map_err(|error| refuse(error.to_string()))?;
        let mut words: Vec<String> = Vec::new();
        if let Memory::Node(node) = memory {
            words.extend(["numactl".to_owned(), format!("--membind={node}")]);
        }
        if let Some(cpu) = cpu {
            words.extend(["taskset".to_owned(), "-c".to_owned(), cpu.to_string()]);
        }
        words.push("redis-server".to_owned());
        let port = address.port().to_string();
        let limit = maxmemory_bytes.to_string();
        for word in [
            "--port",
            &port,
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
            "--maxmemory",
            &limit,
            "--maxmemory-policy",
            "allkeys-random",
            "--daemonize",
            "no",
        ] {
            words.push(word.to_owned());
        }
        let (program, arguments) = words.split_first().expect("it has a program");
        let child = Command::new(program)
            .args(arguments)
            .current_dir(std::env::temp_dir())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| {
                refuse(format!(
                    "{program} cannot be started: {error}. It is in Debian's packages redis-server, \
                     numactl and util-linux"
                ))
            })?;
        let mut server = Self { child, address };
        server.wait_until_ready().map_err(refuse)?;
        Ok(server)
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        while begun.elapsed() < START_MAX {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("it ended at once ({status})"));
            }
            if ping(self.address) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err("it did not answer for 20 s".to_owned())
    }
}

fn ping(address: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect_timeout(&address, Duration::from_secs(1)) else {
        return false;
    };
    let mut answer = [0; 7];
    stream.set_read_timeout(Some(Duration::from_secs(1))).is_ok()
        && stream.write_all(b"PING\r\n").is_ok()
        && stream.read_exact(&mut answer).is_ok()
        && &answer == b"+PONG\r\n"
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_node_without_processors_is_a_second_memory() {
        let sys = tempfile::tempdir().unwrap();
        for (node, cpus, kilobytes) in [(0, "0-7", 1000), (1, "", 0), (2, "\n", 5000)] {
            let path = sys.path().join(format!("devices/system/node/node{node}"));
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("cpulist"), cpus).unwrap();
            let memory =
                format!("Node {node} MemTotal:       {kilobytes} kB\nNode {node} x: 1 kB\n");
            fs::write(path.join("meminfo"), memory).unwrap();
        }
        assert_eq!(second_memory(sys.path()), Some(2));
        assert_eq!(second_memory(Path::new("/nowhere")), None);
    }
}

//! Listening sockets that outlive a process: an upgrade, or activation by systemd.
//!
//! A new process inherits the descriptors and learns from its environment what they are. Ours is
//! [`LISTEN_FDS_VARIABLE`], `3=127.0.0.1:80,4=unix:/run/x.sock`; systemd's is `LISTEN_FDS` with
//! `LISTEN_PID` (`sd_listen_fds(3)`), where the sockets themselves know their addresses. Connections
//! that wait in a socket's queue are not lost: the queue belongs to the socket.

use crate::address::Address;
use crate::error::NetError;
use crate::listener::Listener;
use crate::quic::port::UdpPort;
use crate::quic::relay::Relay;
use crate::succession;
use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, io};

/// The environment variable that names inherited listeners.
pub const LISTEN_FDS_VARIABLE: &str = "FRESHET_LISTEN_FDS";

/// The first descriptor systemd passes; 0 to 2 are the standard streams.
const SYSTEMD_FD_FIRST: RawFd = 3;

/// Descriptors one process passes on, at most: workers times addresses is far below.
const FDS_MAX: usize = 16 * 1024;

/// The environment variable that names inherited UDP ports, each with the line to the process before
/// ([`Relay`]): `7+8,9+10`.
pub const UDP_FDS_VARIABLE: &str = "FRESHET_UDP_FDS";

/// Sockets this process was started with. Each is taken once by whoever is configured for its
/// address; the rest close on drop.
#[derive(Debug, Default)]
pub struct Inherited {
    listeners: Vec<Inheritance>,
    ports: Vec<(UdpPort, Option<Relay>)>,
    predecessor: Option<UnixStream>,
}

#[derive(Debug)]
struct Inheritance {
    /// The address under which it was handed over, which may say `:0` or a name for all interfaces
    /// where the socket says a port or an address.
    named: Option<Address>,
    listener: Listener,
}

impl Inherited {
    /// Takes over what the environment names: at most once in the life of a process, later calls
    /// give nothing.
    ///
    /// # Errors
    /// [`NetError::LocalHandover`] when the variable is malformed or a descriptor is not a
    /// listening socket; descriptors before the bad one are closed.
    pub fn from_environment() -> Result<Self, NetError> {
        static TAKEN: AtomicBool = AtomicBool::new(false);
        if TAKEN.swap(true, Ordering::SeqCst) {
            return Ok(Self::default());
        }
        let text = |name| env::var_os(name).map(OsString::into_string).and_then(Result::ok);
        let own = text(LISTEN_FDS_VARIABLE).unwrap_or_default();
        let mut wanted: Vec<(RawFd, Option<Address>)> =
            parse(&own)?.into_iter().map(|(fd, address)| (fd, Some(address))).collect();
        let systemd = systemd_fds(
            text("LISTEN_PID").as_deref(),
            text("LISTEN_FDS").as_deref(),
            std::process::id(),
        );
        let known: BTreeSet<RawFd> = wanted.iter().map(|(fd, _)| *fd).collect();
        wanted.extend(systemd.into_iter().filter(|fd| !known.contains(fd)).map(|fd| (fd, None)));

        let at = |fd: RawFd| move |error: NetError| refuse(format!("descriptor {fd}: {error}"));
        let mut ports = Vec::new();
        for (fd, line) in parse_pairs(&text(UDP_FDS_VARIABLE).unwrap_or_default())? {
            let port = adopt(fd).and_then(UdpPort::inherited).map_err(at(fd))?;
            let line = adopt(line).map_err(at(line))?;
            let line = Relay::inherited(line).map_err(|error| refuse(error.to_string()))?;
            ports.push((port, Some(line)));
        }
        let mut listeners = Vec::with_capacity(wanted.len());
        for (fd, named) in wanted {
            let socket = adopt(fd).map_err(at(fd))?;
            // systemd passes what a socket unit's `ListenDatagram=` says, too.
            if named.is_none() && is_datagram(&socket) {
                ports.push((UdpPort::inherited(socket).map_err(at(fd))?, None));
                continue;
            }
            let listener = Listener::from_fd(socket).map_err(at(fd))?;
            listeners.push(Inheritance { named, listener });
        }
        Ok(Self { listeners, ports, predecessor: succession::inherited() })
    }

    /// Takes all UDP ports of this address, in the order in which they were bound, with the lines to
    /// the process before.
    pub fn take_udp(&mut self, address: SocketAddr) -> Vec<(UdpPort, Option<Relay>)> {
        let is_it = |(port, _): &mut (UdpPort, _)| port.local_address() == address;
        self.ports.extract_if(.., is_it).collect()
    }

    /// Takes the next listener for this address, if one is left. Several workers that share an
    /// address take one each.
    pub fn take(&mut self, address: &Address) -> Option<Listener> {
        let is_it = |each: &Inheritance| {
            each.named.as_ref() == Some(address) || each.listener.local_address() == address
        };
        let at = self.listeners.iter().position(is_it)?;
        Some(self.listeners.remove(at).listener)
    }

    /// The line to the process before, where that one hands over what it has in memory.
    pub fn predecessor(&mut self) -> Option<UnixStream> {
        self.predecessor.take()
    }

    /// The addresses of what is left.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.listeners.iter().map(|each| each.listener.local_address())
    }
}

/// Lets the process that `command` starts inherit `listeners`, each under the address it is
/// configured with. The descriptors keep their numbers; nothing changes in this process.
pub fn pass_on(command: &mut Command, listeners: &[(&Address, &Listener)]) {
    let fds: Vec<RawFd> = listeners.iter().map(|(_, each)| each.as_fd().as_raw_fd()).collect();
    let text: Vec<String> = listeners
        .iter()
        .zip(&fds)
        .map(|((address, _), fd)| format!("{fd}={}", escape(&address.to_string())))
        .collect();
    command.env(LISTEN_FDS_VARIABLE, text.join(","));
    inherit(command, fds);
}

/// Lets the process that `command` starts inherit UDP ports, each with one end of a line.
pub fn pass_on_udp(command: &mut Command, ports: &[(BorrowedFd<'_>, BorrowedFd<'_>)]) {
    let pairs = ports.iter().map(|(port, line)| (port.as_raw_fd(), line.as_raw_fd()));
    let text: Vec<String> = pairs.clone().map(|(port, line)| format!("{port}+{line}")).collect();
    command.env(UDP_FDS_VARIABLE, text.join(","));
    inherit(command, pairs.flat_map(|(port, line)| [port, line]).collect());
}

/// Leaves these descriptors open in the process that `command` starts.
pub(crate) fn inherit(command: &mut Command, fds: Vec<RawFd>) {
    let keep_open = move || {
        for fd in &fds {
            // SAFETY: only used for this call. The number was that of an open descriptor when the
            // command was prepared; should it be closed by now, the call fails and with it the
            // start of the process.
            let fd = unsafe { BorrowedFd::borrow_raw(*fd) };
            fcntl_setfd(fd, FdFlags::empty())?;
        }
        io::Result::Ok(())
    };
    // SAFETY: runs between fork and exec, where only async-signal-safe calls are allowed: it makes
    // one `fcntl` per descriptor and neither allocates nor locks.
    unsafe { command.pre_exec(keep_open) };
}

/// Reads the value of [`LISTEN_FDS_VARIABLE`].
fn parse(text: &str) -> Result<Vec<(RawFd, Address)>, NetError> {
    let mut fds = Vec::new();
    let mut seen = BTreeSet::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let malformed = || refuse(format!("`{part}` is not descriptor=address"));
        let (fd, address) = part.split_once('=').ok_or_else(malformed)?;
        let fd: RawFd = fd.parse().map_err(|_| malformed())?;
        let address = unescape(address).ok_or_else(malformed)?.parse()?;
        if fd < SYSTEMD_FD_FIRST || !seen.insert(fd) {
            return Err(refuse(format!("descriptor {fd} cannot be a listener twice or at all")));
        }
        if fds.len() == FDS_MAX {
            return Err(refuse(format!("more than {FDS_MAX} listeners")));
        }
        fds.push((fd, address));
    }
    Ok(fds)
}

/// Reads the value of [`UDP_FDS_VARIABLE`].
fn parse_pairs(text: &str) -> Result<Vec<(RawFd, RawFd)>, NetError> {
    let mut pairs = Vec::new();
    let mut seen = BTreeSet::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let pair = part.split_once('+');
        let pair = pair.and_then(|(port, line)| Some((port.parse().ok()?, line.parse().ok()?)));
        let is_new = |fd: RawFd, seen: &mut BTreeSet<_>| fd >= SYSTEMD_FD_FIRST && seen.insert(fd);
        let pair = pair.filter(|(port, line)| is_new(*port, &mut seen) && is_new(*line, &mut seen));
        let Some(pair) = pair.filter(|_| pairs.len() < FDS_MAX / 2) else {
            return Err(refuse(format!("`{part}` is not descriptor+descriptor")));
        };
        pairs.push(pair);
    }
    Ok(pairs)
}

fn is_datagram(socket: &OwnedFd) -> bool {
    rustix::net::sockopt::socket_type(socket)
        .is_ok_and(|kind| kind == rustix::net::SocketType::DGRAM)
}

/// The descriptors systemd passed, if they are for this process.
fn systemd_fds(pid: Option<&str>, count: Option<&str>, this_pid: u32) -> Vec<RawFd> {
    let for_us = pid.and_then(|pid| pid.parse().ok()) == Some(this_pid);
    let count: RawFd = count.and_then(|count| count.parse().ok()).unwrap_or(0);
    let count = count.clamp(0, FDS_MAX as RawFd);
    if for_us { (SYSTEMD_FD_FIRST..SYSTEMD_FD_FIRST + count).collect() } else { Vec::new() }
}

/// Makes an inherited descriptor ours.
pub(crate) fn adopt(fd: RawFd) -> Result<OwnedFd, NetError> {
    // SAFETY: only used for this call, which fails with EBADF if the number is not open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    fcntl_getfd(borrowed).map_err(|error| refuse(format!("not open: {error}")))?;
    // SAFETY: open, as just seen. Each number is adopted at most once in the life of the process:
    // each variable is read once, and the numbers of all differ. That nobody else owns it is what the
    // environment promises: whoever started this process left it open for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Paths may hold the characters that separate entries.
fn escape(text: &str) -> String {
    text.replace('%', "%25").replace(',', "%2C")
}

fn unescape(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut out = String::from(parts.next()?);
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        out.push(match code {
            "25" => '%',
            "2C" => ',',
            _ => return None,
        });
        out.push_str(rest);
    }
    Some(out)
}

fn refuse(why: String) -> NetError {
    NetError::LocalHandover { why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn entries_name_descriptors_and_addresses() {
        let read = parse("3=127.0.0.1:80,4=:8000,9=unix:/run/a%2Cb%25.sock").unwrap();
        let address = |text: &str| text.parse::<Address>().unwrap();
        let unix = Address::Unix("/run/a,b%.sock".into());
        assert_eq!(read, [(3, address("127.0.0.1:80")), (4, address(":8000")), (9, unix)]);
        assert_eq!(parse(""), Ok(Vec::new()));
    }

    #[test]
    fn ports_come_with_their_lines() {
        assert_eq!(parse_pairs("7+8,9+10"), Ok(vec![(7, 8), (9, 10)]));
        assert_eq!(parse_pairs(""), Ok(Vec::new()));
        for text in ["7", "7+7", "7+8,8+9", "2+9", "x+9", "7+"] {
            assert!(parse_pairs(text).is_err(), "{text}");
        }
    }

    #[test]
    fn malformed_entries_are_refused() {
        for text in ["3", "x=:80", "2=:80", "-1=:80", "3=:80,3=:81", "3=nowhere", "3=unix:/%zz"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn descriptors_of_systemd_count_only_for_the_process_named() {
        assert_eq!(systemd_fds(Some("77"), Some("2"), 77), [3, 4]);
        assert_eq!(systemd_fds(Some("78"), Some("2"), 77), []);
        assert_eq!(systemd_fds(None, Some("2"), 77), []);
        assert_eq!(systemd_fds(Some("77"), Some("-5"), 77), []);
    }

    #[test]
    fn a_descriptor_that_is_not_open_is_refused() {
        assert!(matches!(adopt(RawFd::MAX), Err(NetError::LocalHandover { .. })));
    }

    proptest! {
        #[test]
        fn any_path_survives_the_variable(path in "/[ -~]{1,30}", fd in 3..1000) {
            let address = Address::Unix(path.into());
            let text = format!("{fd}={}", escape(&address.to_string()));
            prop_assert_eq!(parse(&text), Ok(vec![(fd, address)]));
        }
    }
}

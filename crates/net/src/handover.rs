//! Listening sockets that outlive a process: an upgrade, or activation by systemd.
//!
//! A new process inherits the descriptors and learns from its environment what they are. Ours is
//! [`LISTEN_FDS_VARIABLE`], `3=127.0.0.1:80,4=unix:/run/x.sock`; systemd's is `LISTEN_FDS` with
//! `LISTEN_PID` (`sd_listen_fds(3)`), where the sockets themselves know their addresses. Connections
//! that wait in a socket's queue are not lost: the queue belongs to the socket.

use crate::address::Address;
use crate::error::NetError;
use crate::listener::Listener;
use crate::succession;
use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use std::collections::BTreeSet;
use std::ffi::OsString;
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

/// Listeners this process was started with. Each is taken once by whoever is configured for its
/// address; the rest close on drop.
#[derive(Debug, Default)]
pub struct Inherited {
    listeners: Vec<Inheritance>,
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

        let mut listeners = Vec::with_capacity(wanted.len());
        for (fd, named) in wanted {
            let adopted = adopt(fd).and_then(Listener::from_fd);
            let listener = adopted.map_err(|error| refuse(format!("descriptor {fd}: {error}")))?;
            listeners.push(Inheritance { named, listener });
        }
        Ok(Self { listeners, predecessor: succession::inherited() })
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

/// The descriptors systemd passed, if they are for this process.
fn systemd_fds(pid: Option<&str>, count: Option<&str>, this_pid: u32) -> Vec<RawFd> {
    let for_us = pid.and_then(|pid| pid.parse().ok()) == Some(this_pid);
    let count: RawFd = count.and_then(|count| count.parse().ok()).unwrap_or(0);
    let count = count.clamp(0, FDS_MAX as RawFd);
    if for_us { (SYSTEMD_FD_FIRST..SYSTEMD_FD_FIRST + count).collect() } else { Vec::new() }
}

/// Makes an inherited descriptor ours.
fn adopt(fd: RawFd) -> Result<OwnedFd, NetError> {
    // SAFETY: only used for this call, which fails with EBADF if the number is not open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    fcntl_getfd(borrowed).map_err(|error| refuse(format!("not open: {error}")))?;
    // SAFETY: open, as just seen. Each number is adopted at most once in the life of the process:
    // `from_environment` runs once and its numbers differ. That nobody else owns it is what the
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

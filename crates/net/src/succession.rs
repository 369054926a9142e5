//! The line between a process and the one that takes over from it, for what is in their memory.
//!
//! A pair of connected sockets, of which the new process inherits one and learns of it from its
//! environment. What is said over it is the programs' business. A program that does not know of it
//! leaves it alone, and the end of either process is the end of the line.

use crate::handover::inherit;
use rustix::fs::{FileType, fstat};
use std::env;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// The environment variable that names the descriptor of the socket.
pub const SUCCESSION_FD_VARIABLE: &str = "FRESHET_SUCCESSION_FD";

/// The old process' side, before the new process was started.
#[derive(Debug)]
pub struct Line {
    ours: UnixStream,
    /// Open until the new process has its copy.
    theirs: UnixStream,
}

impl Line {
    /// Lets the process that `command` starts have the other end of a line.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn of(command: &mut Command) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let fd = theirs.as_raw_fd();
        command.env(SUCCESSION_FD_VARIABLE, fd.to_string());
        inherit(command, vec![fd]);
        Ok(Self { ours, theirs })
    }

    /// Our end, once the process was started: it ends when that process does.
    pub fn opened(self) -> UnixStream {
        drop(self.theirs);
        self.ours
    }
}

/// The end this process was started with, if it was: at most once in its life.
pub fn inherited() -> Option<UnixStream> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::SeqCst) {
        return None;
    }
    env::var(SUCCESSION_FD_VARIABLE).ok().and_then(|text| text.parse().ok()).and_then(adopt)
}

/// Makes the inherited descriptor ours, if it is a socket, and keeps it from our own children.
fn adopt(fd: RawFd) -> Option<UnixStream> {
    if fd <= 2 {
        return None;
    }
    // SAFETY: only used for this call, which fails with EBADF if the number is not open.
    let status = fstat(unsafe { BorrowedFd::borrow_raw(fd) }).ok()?;
    if FileType::from_raw_mode(status.st_mode) != FileType::Socket {
        return None;
    }
    // SAFETY: open, as just seen, and adopted at most once in the life of the process. That nobody
    // else owns it is what the environment promises: whoever started this process left it for us.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC).ok()?;
    Some(fd.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn what_a_new_process_says_arrives_and_its_end_is_heard() {
        let mut command = Command::new("/bin/bash");
        command.args(["-c", "echo hello >&$FRESHET_SUCCESSION_FD"]);
        let line = Line::of(&mut command).unwrap();
        let mut child = command.spawn().unwrap();
        let mut heard = String::new();
        line.opened().read_to_string(&mut heard).unwrap();
        assert_eq!(heard, "hello\n");
        child.wait().unwrap();
    }

    #[test]
    fn only_a_socket_is_adopted() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(adopt(file.as_raw_fd()).is_none());
        assert!(adopt(RawFd::MAX).is_none());
        assert!(adopt(1).is_none());
    }
}

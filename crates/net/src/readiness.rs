//! The word a new process gives the one that started it: "I serve now", or why it does not.
//!
//! A pipe whose writing end the new process inherits and learns of from its environment. What the
//! old one reads says how it went: the word, or the end of the pipe without it because the new
//! process is gone, behind its reason where it had one to give.

use rustix::fs::{FileType, fstat};
use rustix::io::{FdFlags, fcntl_setfd, write};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, io};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

/// The environment variable that names the descriptor of the pipe.
pub const READY_FD_VARIABLE: &str = "FRESHET_READY_FD";

/// What is written once the new process serves.
const WORD: &[u8] = b"ready\n";
/// Bytes of a reason that are told.
const REASON_BYTES_MAX: usize = 4096;

/// The old process' side.
#[derive(Debug)]
pub struct Readiness {
    reader: pipe::Receiver,
    /// Open until the new process has its copy; as long as it is, the pipe does not end.
    writer: OwnedFd,
}

impl Readiness {
    /// Lets the process that `command` starts say that it is ready. Call it within a runtime.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn of(command: &mut Command) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let writer = OwnedFd::from(writer);
        let fd = writer.as_raw_fd();
        command.env(READY_FD_VARIABLE, fd.to_string());
        let keep_open = move || {
            // SAFETY: only used for this call. `Readiness` holds the descriptor; should it be gone
            // by the time of the start, the call fails and with it the start of the process.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            Ok(fcntl_setfd(fd, FdFlags::empty())?)
        };
        // SAFETY: runs between fork and exec, where only async-signal-safe calls are allowed: it
        // makes one `fcntl` and neither allocates nor locks.
        unsafe { command.pre_exec(keep_open) };
        Ok(Self { reader: pipe::Receiver::from_owned_fd(reader.into())?, writer })
    }

    /// Waits, once the process was started, until it is ready or has ended. Where it has ended, what it said of why,
    /// which is nothing where it could not say anything.
    ///
    /// # Errors
    /// When the pipe cannot be read.
    pub async fn wait(self) -> io::Result<Result<(), String>> {
        drop(self.writer);
        let mut reader = self.reader.take(REASON_BYTES_MAX as u64);
        let (mut said, mut piece) = (Vec::new(), [0; 512]);
        loop {
            let count = reader.read(&mut piece).await?;
            said.extend_from_slice(&piece[..count]);
            if said == WORD {
                return Ok(Ok(()));
            }
            if count == 0 {
                return Ok(Err(String::from_utf8_lossy(&said).trim().to_owned()));
            }
        }
    }
}

/// Says to the process before, if one waits for it, that this one serves. At most once in the life
/// of a process, later calls do nothing; nor does it matter if the other one is gone by now.
pub fn announce() {
    say(WORD);
}

/// Says to it why this one ends without having served, where it did not.
pub fn give_up(why: &str) {
    say(why.as_bytes().get(..REASON_BYTES_MAX).unwrap_or(why.as_bytes()));
}

fn say(what: &[u8]) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if SAID.swap(true, Ordering::SeqCst) {
        return;
    }
    let fd = env::var(READY_FD_VARIABLE).ok().and_then(|text| text.parse().ok());
    if let Some(pipe) = fd.and_then(adopt) {
        let _ = write(&pipe, what);
    }
}

/// Makes the inherited descriptor ours, if it is a pipe.
fn adopt(fd: RawFd) -> Option<OwnedFd> {
    if fd <= 2 {
        return None;
    }
    // SAFETY: only used for this call, which fails with EBADF if the number is not open.
    let status = fstat(unsafe { BorrowedFd::borrow_raw(fd) }).ok()?;
    if FileType::from_raw_mode(status.st_mode) != FileType::Fifo {
        return None;
    }
    // SAFETY: open, as just seen, and adopted at most once in the life of the process. That nobody
    // else owns it is what the environment promises: whoever started this process left it for us.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shell that does what `script` says with the descriptor in `$FRESHET_READY_FD`.
    async fn shell(script: &str) -> Result<(), String> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        let readiness = Readiness::of(&mut command).unwrap();
        let mut child = command.spawn().unwrap();
        let ready = readiness.wait().await.unwrap();
        child.wait().unwrap();
        ready
    }

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(work)
    }

    #[test]
    fn the_word_of_a_new_process_arrives() {
        // Through /proc: a plain shell redirects to descriptors of one digit only.
        assert_eq!(block_on(shell("echo ready > /proc/self/fd/$FRESHET_READY_FD")), Ok(()));
        let in_pieces = "exec 9> /proc/self/fd/$FRESHET_READY_FD; printf re >&9; echo ady >&9";
        assert_eq!(block_on(shell(in_pieces)), Ok(()));
    }

    #[test]
    fn an_end_without_the_word_is_not_ready() {
        assert_eq!(block_on(shell("exit 3")), Err(String::new()));
        let said = block_on(shell("echo 'no: nothing' > /proc/self/fd/$FRESHET_READY_FD"));
        assert_eq!(said, Err("no: nothing".into()));
        let long = "yes no | head -c 9000 > /proc/self/fd/$FRESHET_READY_FD";
        assert!(block_on(shell(long)).unwrap_err().len() <= REASON_BYTES_MAX);
    }

    #[test]
    fn only_a_pipe_is_adopted() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(adopt(file.as_raw_fd()).is_none());
        assert!(adopt(RawFd::MAX).is_none());
        assert!(adopt(1).is_none());
    }
}

//! A program whose file is kept open, so that it can be started once more after another was put in its place.
//!
//! A package replaces the file of a program under a process that runs it. The file is not gone while
//! somebody has it open: a process that hands over leaves its successor its own file, open, and the
//! successor can start it without there being a copy anywhere. Nothing is left when both have ended.

use crate::handover::{adopt, inherit};
use rustix::fs::{FileType, Mode, OFlags, fstat};
use std::env;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// The environment variable that names the descriptor of the file and its version: `9=1.2.3`.
pub const PROGRAM_BEFORE_VARIABLE: &str = "FRESHET_PROGRAM_BEFORE";

/// A program, by its open file.
#[derive(Debug)]
pub struct KeptProgram {
    file: OwnedFd,
    version: String,
}

impl KeptProgram {
    /// The program that this process runs, of this version, whatever has become of its path.
    ///
    /// # Errors
    /// The file cannot be read by this user, or there are no descriptors left.
    pub fn running(version: &str) -> io::Result<Self> {
        Self::open("/proc/self/exe".as_ref(), version)
    }

    fn open(path: &Path, version: &str) -> io::Result<Self> {
        let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { file, version: version.to_owned() })
    }

    /// What the process before has left to this one, if it has: at most once in its life.
    pub fn inherited() -> Option<Self> {
        static TAKEN: AtomicBool = AtomicBool::new(false);
        if TAKEN.swap(true, Ordering::SeqCst) {
            return None;
        }
        Self::named_by(&env::var(PROGRAM_BEFORE_VARIABLE).ok()?)
    }

    fn named_by(text: &str) -> Option<Self> {
        let (fd, version) = text.split_once('=')?;
        let fd: RawFd = fd.parse().ok().filter(|fd| *fd > 2)?;
        let file = adopt(fd).ok()?;
        let status = fstat(&file).ok()?;
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
            return None;
        }
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::CLOEXEC).ok()?;
        Some(Self { file, version: version.to_owned() })
    }

    /// Its version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Where it can be started from by this process, as long as this value lives.
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }

    /// Whether it is the file at `path`.
    pub fn is(&self, path: &Path) -> bool {
        match (fstat(&self.file), fs::metadata(path)) {
            (Ok(own), Ok(other)) => (own.st_dev, own.st_ino) == (other.dev(), other.ino()),
            _ => false,
        }
    }
}

/// Leaves a program to the process that `command` starts, or none: not what this process was left either.
pub fn pass_on_program(command: &mut Command, program: Option<&KeptProgram>) {
    let Some(KeptProgram { file, version }) = program else {
        command.env_remove(PROGRAM_BEFORE_VARIABLE);
        return;
    };
    let fd = file.as_raw_fd();
    command.env(PROGRAM_BEFORE_VARIABLE, format!("{fd}={version}"));
    inherit(command, vec![fd]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_can_be_started_when_its_file_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program");
        // By a process of its own: what other tests start here would have a file open that this one writes.
        let copy = |from: &str| {
            assert!(Command::new("cp").arg(from).arg(&path).status().unwrap().success());
        };
        copy("/bin/echo");
        let kept = KeptProgram::open(&path, "1.2.3").unwrap();
        assert!(kept.is(&path) && kept.is(&kept.path()));
        fs::remove_file(&path).unwrap();
        copy("/bin/false");
        assert!(!kept.is(&path), "another file is there");
        let said = Command::new(kept.path()).arg("hello").output().unwrap();
        assert_eq!(String::from_utf8(said.stdout).unwrap(), "hello\n");
    }

    #[test]
    fn it_is_left_to_a_new_process_or_nothing_is() {
        let kept = KeptProgram::open("/bin/echo".as_ref(), "1.2.3").unwrap();
        let said = |program| {
            let mut command = Command::new("/bin/bash");
            let script = "echo ${FRESHET_PROGRAM_BEFORE#*=}; /proc/self/fd/${FRESHET_PROGRAM_BEFORE%=*} hello";
            command.args(["-c", script]).env(PROGRAM_BEFORE_VARIABLE, "99=0");
            pass_on_program(&mut command, program);
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        assert_eq!(said(Some(&kept)), "1.2.3\nhello\n");
        assert_eq!(said(None), "\n");
    }

    #[test]
    fn only_a_file_is_taken_for_one() {
        for text in ["", "9", "x=1.0", "1=1.0", "-1=1.0", &format!("{}=1.0", RawFd::MAX)] {
            assert!(KeptProgram::named_by(text).is_none(), "{text}");
        }
    }
}

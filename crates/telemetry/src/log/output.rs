//! Where lines of the access log go: opened without waiting, written as far as that goes.

use freshet_base::clock::UnixMillis;
use freshet_base::log_limit::LogLimit;
use freshet_config::settings::LogTarget;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use std::fs::{File, FileType, OpenOptions, metadata};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

/// Lines about failed writes are this far apart.
const FAILURE_PERIOD: Duration = Duration::from_secs(10);
/// How long whoever reads a pipe may take to make room in it.
const PIPE_WAIT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// A target that could be opened.
pub struct Opened(Sink);

enum Sink {
    None,
    Stdout,
    Stderr,
    File(File),
}

impl Opened {
    /// Opens `target`, and waits for nobody.
    ///
    /// # Errors
    /// When the file cannot be opened, or is no place for lines.
    pub fn open(target: &LogTarget) -> io::Result<Self> {
        Ok(Self(match target {
            LogTarget::Off => Sink::None,
            LogTarget::Stdout => Sink::Stdout,
            LogTarget::Stderr => Sink::Stderr,
            LogTarget::File(path) => Sink::File(open(path)?),
        }))
    }
}

/// Whether what is at `path`, if anything, can have lines written to it.
///
/// # Errors
/// It is something else: [`io::ErrorKind::InvalidInput`], with what it is.
pub fn suits(path: &Path) -> io::Result<()> {
    match metadata(path) {
        Ok(found) => kind_suits(found.file_type()),
        Err(_) => Ok(()),
    }
}

fn kind_suits(kind: FileType) -> io::Result<()> {
    let wrong = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    match () {
        () if kind.is_block_device() => wrong("it is a drive, and no file"),
        () if kind.is_socket() => wrong("it is a socket, and no file"),
        () => Ok(()),
    }
}

/// A file to append to. A named pipe is opened for both directions, which needs nobody who reads it: what is written
/// waits in it for who comes.
fn open(path: &Path) -> io::Result<File> {
    suits(path)?;
    let is_pipe = metadata(path).is_ok_and(|found| found.file_type().is_fifo());
    let mut options = OpenOptions::new();
    match is_pipe {
        true => options.read(true).write(true),
        false => options.create(true).append(true),
    };
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    options.custom_flags(nonblocking).open(path)
}

/// Where lines go, and whether the last one there lacks its end.
pub(super) struct Output {
    sink: Sink,
    is_torn: bool,
    /// Nobody made room in a pipe for as long as one waits for that.
    is_stuck: bool,
}

impl Output {
    /// Writes to what was opened.
    pub(super) fn of(opened: Opened) -> Self {
        Self { sink: opened.0, is_torn: false, is_stuck: false }
    }

    /// Whether lines go anywhere.
    pub(super) fn is_there(&self) -> bool {
        !matches!(self.sink, Sink::None)
    }

    /// Writes lines, of which each ends at one of `ends`, as far as that goes; returns how many are not there.
    /// What comes behind a part of a line begins a line of its own.
    pub(super) fn write(&mut self, lines: &[u8], ends: &[usize]) -> u64 {
        let (mut written, mut result) = (0, Ok(()));
        if self.is_torn {
            result = self.put(b"\n").1;
            self.is_torn = result.is_err();
        }
        if result.is_ok() {
            (written, result) = self.put(lines);
        }
        let whole = ends.partition_point(|end| *end <= written);
        self.is_torn |= ends[..whole].last().copied().unwrap_or(0) < written;
        // A disk stays full for a while, and takes no line of many.
        static LIMIT: LogLimit = LogLimit::new();
        if let Err(error) = result
            && let Some(held_back) = LIMIT.admit(UnixMillis::now(), FAILURE_PERIOD)
        {
            tracing::error!(%error, held_back, "the access log could not be written");
        }
        (ends.len() - whole) as u64
    }

    /// Writes bytes, and says how many of them.
    fn put(&mut self, bytes: &[u8]) -> (usize, io::Result<()>) {
        let mut written = 0;
        while written < bytes.len() {
            let result = match &mut self.sink {
                Sink::None => Ok(bytes.len() - written),
                Sink::Stdout => io::stdout().lock().write(&bytes[written..]),
                Sink::Stderr => io::stderr().lock().write(&bytes[written..]),
                Sink::File(file) => file.write(&bytes[written..]),
            };
            match result {
                Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
                Ok(more) => (written, self.is_stuck) = (written + more, false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.is_stuck || !self.has_room_soon() {
                        self.is_stuck = true;
                        let why = "the pipe is full, and nobody reads it";
                        return (written, Err(io::Error::new(error.kind(), why)));
                    }
                }
                Err(error) => return (written, Err(error)),
            }
        }
        (written, Ok(()))
    }

    /// Waits until whoever reads a pipe has made room in it; false where nobody did.
    fn has_room_soon(&self) -> bool {
        let Sink::File(file) = &self.sink else { return false };
        let mut room = [PollFd::new(file, PollFlags::OUT)];
        // A signal ends the wait as time does: there is a next time.
        poll(&mut room, Some(&PIPE_WAIT)).is_ok_and(|ready| ready > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, mkfifoat};
    use std::io::Read;

    const LINE: &str = "a line of a length that no page is a multiple of\n";

    /// More lines than a pipe takes, and where each ends.
    fn many() -> (String, Vec<usize>) {
        (LINE.repeat(10_000), (1..=10_000).map(|at| at * LINE.len()).collect())
    }

    #[test]
    fn what_does_not_fit_is_counted_and_spoils_no_later_line() {
        let (mut reader, writer) = io::pipe().unwrap();
        let writer = File::from(std::os::fd::OwnedFd::from(writer));
        rustix::fs::fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
        let mut output = Output::of(Opened(Sink::File(writer)));
        let (lines, ends) = many();
        // A pipe takes so much and no more, as a full disk does.
        let lost = output.write(lines.as_bytes(), &ends);
        assert!((1..10_000).contains(&lost), "{lost}");
        assert!(output.is_torn);
        assert_eq!(output.write(lines.as_bytes(), &ends), 10_000);
        let mut taken = vec![0; 32 << 10];
        reader.read_exact(&mut taken).unwrap();
        assert_eq!(output.write(LINE.as_bytes(), &[LINE.len()]), 0);
        drop(output);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        let text = String::from_utf8(taken).unwrap() + &rest;
        let whole = text.lines().filter(|line| *line == LINE.trim_end()).count();
        assert_eq!(whole as u64, 10_000 - lost + 1);
        assert_eq!(text.lines().count(), whole + 1, "one is torn");
        assert!(text.ends_with(LINE));
    }

    #[test]
    fn a_named_pipe_needs_no_reader_and_loses_nothing_to_one_that_reads() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.pipe");
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        let mut output = Output::of(Opened::open(&LogTarget::File(path.clone())).unwrap());
        assert_eq!(output.write(LINE.as_bytes(), &[LINE.len()]), 0);
        // All that a pipe takes at a time is less than what is written while it is read.
        let mut reader = File::open(&path).unwrap();
        let (lines, ends) = many();
        let want = LINE.len() + lines.len();
        let reading = std::thread::spawn(move || {
            let mut taken = vec![0; want];
            reader.read_exact(&mut taken).unwrap();
            taken
        });
        assert_eq!(output.write(lines.as_bytes(), &ends), 0);
        let taken = String::from_utf8(reading.join().unwrap()).unwrap();
        assert_eq!(taken.lines().filter(|line| *line == LINE.trim_end()).count(), 10_001);
    }

    #[test]
    fn what_is_no_place_for_lines_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _listening = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let wrong = Opened::open(&LogTarget::File(path.clone())).err().unwrap();
        assert_eq!(wrong.to_string(), "it is a socket, and no file");
        assert!(suits(&path).is_err() && suits(folder.path()).is_ok());
        assert!(suits(Path::new("/dev/null")).is_ok());
    }
}

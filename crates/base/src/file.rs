//! Files that people name, read whole and never beyond a limit: such a name may lead to a device
//! without end, or to a pipe that nobody writes to.

use rustix::fs::OFlags;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long all of a pipe or terminal may take: programs that write a file into one are quick, and
/// nobody types a file.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often is looked whether there is more meanwhile.
const PAUSE: Duration = Duration::from_millis(5);

/// All of the file at `path`, which may be a pipe, but no more than `bytes_max`. Blocks.
///
/// # Errors
/// Those of the file; [`ErrorKind::FileTooLarge`] where there is more than that, and
/// [`ErrorKind::TimedOut`] where it does not come to an end within five seconds.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let (mut bytes, started) = (Vec::new(), Instant::now());
    loop {
        let left = bytes_max.saturating_add(1).saturating_sub(bytes.len() as u64);
        match (&file).take(left).read_to_end(&mut bytes) {
            Ok(_) if bytes.len() as u64 > bytes_max => {
                let why = format!("it has more than the {bytes_max} bytes that are read at most");
                return Err(io::Error::new(ErrorKind::FileTooLarge, why));
            }
            Ok(_) => return Ok(bytes),
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            Err(_) if started.elapsed() >= PATIENCE => {
                let why = format!("it does not end within {} seconds", PATIENCE.as_secs());
                return Err(io::Error::new(ErrorKind::TimedOut, why));
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// As [`read`], of text.
///
/// # Errors
/// The same, and [`ErrorKind::InvalidData`] where it is not UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    String::from_utf8(read(path, bytes_max)?).map_err(|error| {
        let (valid, bytes) = (error.utf8_error().valid_up_to(), error.as_bytes());
        let line = bytes[..valid].iter().filter(|byte| **byte == b'\n').count() + 1;
        let why = format!("line {line} is not UTF-8; save it in that encoding");
        io::Error::new(ErrorKind::InvalidData, why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn files_and_pipes_are_read_to_their_end() {
        let (mut reader, mut writer) = (std::env::temp_dir(), std::env::temp_dir());
        reader.push(format!("freshet-file-{}", std::process::id()));
        std::fs::write(&reader, "abc").expect("it can be written");
        assert_eq!(read_text(&reader, 3).expect("it fits"), "abc");
        std::fs::write(&reader, b"a\nb\xfc").expect("it can be written");
        let error = read_text(&reader, 9).expect_err("it is Latin-1");
        assert!(error.to_string().contains("line 2 is not UTF-8"), "{error}");
        std::fs::write(&reader, "abc").expect("it can be written");
        assert_eq!(read(&reader, 2).map_err(|error| error.kind()), Err(ErrorKind::FileTooLarge));
        std::fs::remove_file(&reader).expect("it is there");

        writer.push(format!("freshet-pipe-{}", std::process::id()));
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &writer,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .expect("a pipe can be made");
        assert_eq!(read(&writer, 9).expect("nobody writes to it"), b"");
        let path = writer.clone();
        // Both ends, so that neither waits for the other.
        let mut both = OpenOptions::new().read(true).write(true).open(&path).expect("it is there");
        let thread = std::thread::spawn(move || {
            both.write_all(b"later").expect("there is room");
            std::thread::sleep(Duration::from_millis(20));
        });
        assert_eq!(read_text(&path, 9).expect("it ends with its writer"), "later");
        thread.join().expect("it did not panic");
        std::fs::remove_file(&path).expect("it is there");
    }

    #[test]
    fn what_has_no_end_is_an_error() {
        let error = read(Path::new("/dev/zero"), 1 << 20).expect_err("it has no end");
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert!(error.to_string().contains("1048576 bytes"), "{error}");
    }
}

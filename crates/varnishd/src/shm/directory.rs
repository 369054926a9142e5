//! A directory of segment files with an index, as libvarnishapi reads it.
//!
//! `_.index` is a text file that is appended to: a header `# <pid> <start>`, then lines
//! `+ <file> <offset> <length> <class> <ident>` and, when a segment goes, the same with `-`.
//! Readers map the files, so what is written to them shows at once.

use rustix::process::getpid;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

/// Sizes are rounded up to this: readers map whole pages.
const PAGE_BYTES: u64 = 4096;

/// A directory of segments; removed with all that is in it when dropped.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    index: File,
}

/// One segment: a file of its own, announced in the index.
#[derive(Debug)]
pub(crate) struct Segment {
    file: File,
    line: String,
    path: PathBuf,
}

impl Directory {
    /// Makes the directory anew; what was there under this path is removed.
    pub(crate) fn create(path: PathBuf) -> io::Result<Self> {
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // Readers take the directory for complete as soon as it is there.
        let hidden = path.with_extension("new");
        let _ = fs::remove_dir_all(&hidden);
        DirBuilder::new().mode(0o755).create(&hidden)?;
        let mut index = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o644)
            .open(hidden.join("_.index"))?;
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        index.write_all(format!("# {} {started}\n", getpid().as_raw_nonzero()).as_bytes())?;
        fs::rename(&hidden, &path)?;
        Ok(Self { path, index })
    }

    /// Makes a segment with `content` at its start and `bytes` long at least. `ident` must be
    /// unique within the class.
    pub(crate) fn add(
        &self,
        class: &str,
        ident: &str,
        content: &[u8],
        bytes: u64,
    ) -> io::Result<Segment> {
        let name = format!("_.{class}.{:016x}", unique());
        let path = self.path.join(&name);
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o644).open(&path)?;
        let bytes = bytes.max(content.len() as u64);
        file.set_len(bytes.next_multiple_of(PAGE_BYTES))?;
        file.write_all_at(content, 0)?;
        let line = format!("{name} 0 {bytes} {class} {ident}\n");
        (&self.index).write_all(format!("+ {line}").as_bytes())?;
        Ok(Segment { file, line, path })
    }

    /// Takes a segment out of the index and removes its file; those who have it mapped keep it.
    pub(crate) fn remove(&self, segment: &Segment) -> io::Result<()> {
        (&self.index).write_all(format!("- {}", segment.line).as_bytes())?;
        fs::remove_file(&segment.path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl Segment {
    /// Writes into the segment.
    pub(crate) fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, at)
    }
}

/// Makes the working directory, where it is not there.
pub(crate) fn make(workdir: &Path) -> io::Result<()> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", workdir.display()));
    DirBuilder::new().recursive(true).mode(0o755).create(workdir).map_err(named)
}

/// Removes what a process before left of the two directories of `workdir`.
pub(crate) fn clean(workdir: &Path) {
    for name in [MANAGEMENT, CHILD] {
        let _ = fs::remove_dir_all(workdir.join(name));
    }
}

/// The manager's directory, below the working directory.
pub(crate) const MANAGEMENT: &str = "_.vsm_mgt";
/// The directory that is there while requests are served.
pub(crate) const CHILD: &str = "_.vsm_child";

/// A number for a file name. Names only have to differ from those a reader may still have open, so
/// the time is mixed in.
fn unique() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    (time ^ COUNT.fetch_add(1, Relaxed)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_announced_and_taken_back() {
        let home = tempfile::tempdir().expect("there is room");
        let path = home.path().join("d");
        let directory = Directory::create(path.clone()).expect("it can be made");
        let segment = directory.add("Arg", "-T", b"127.0.0.1 6082\n\0", 0).expect("it fits");
        segment.write(b"9", 0).expect("it is open");
        directory.remove(&segment).expect("it is there");
        let index = fs::read_to_string(path.join("_.index")).expect("it is text");
        let lines: Vec<_> = index.lines().collect();
        assert!(lines[0].starts_with("# "), "{index}");
        assert!(lines[1].starts_with("+ _.Arg.") && lines[1].ends_with(" 0 16 Arg -T"), "{index}");
        assert_eq!(lines[2][1..], lines[1][1..]);
        drop(directory);
        assert!(!path.exists());
    }
}

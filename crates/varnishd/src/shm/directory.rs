//! A directory of segment files with an index, as libvarnishapi reads it.
//!
//! `_.index` is a text file that is appended to: a header `# <pid> <start>`, then lines
//! `+ <file> <offset> <length> <class> <ident>` and, when a segment goes, the same with `-`. With many of
//! these it is written anew under another inode, by which readers see that.
//! Readers map the files, so what is written to them shows at once.

use rustix::process::getpid;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Sizes are rounded up to this: readers map whole pages.
const PAGE_BYTES: u64 = 4096;

/// Lines about segments that are gone, of which there are as many as there are segments, up to which the
/// index only grows.
const GONE_MIN: usize = 10;

/// A directory of segments; removed with all that is in it when dropped.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// What the index begins with.
    head: String,
    index: Mutex<Index>,
}

/// The index, and what is in it.
#[derive(Debug)]
struct Index {
    file: File,
    /// Lines of segments that are there, in order.
    lines: Vec<String>,
    /// Lines about segments that are gone.
    gone: usize,
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
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let head = format!("# {} {started}\n", getpid().as_raw_nonzero());
        let file = new_index(&hidden.join("_.index"), &head)?;
        fs::rename(&hidden, &path)?;
        let index = Mutex::new(Index { file, lines: Vec::new(), gone: 0 });
        Ok(Self { path, head, index })
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
        let mut index = self.index();
        index.file.write_all(format!("+ {line}").as_bytes())?;
        index.lines.push(line.clone());
        drop(index);
        Ok(Segment { file, line, path })
    }

    /// Takes a segment out of the index and removes its file; those who have it mapped keep it.
    pub(crate) fn remove(&self, segment: &Segment) -> io::Result<()> {
        let mut index = self.index();
        index.lines.retain(|line| *line != segment.line);
        if index.gone < GONE_MIN || index.gone < index.lines.len() {
            index.gone += 1;
            index.file.write_all(format!("- {}", segment.line).as_bytes())?;
        } else {
            let lines = index.lines.iter().map(|line| format!("+ {line}"));
            let text: String = std::iter::once(self.head.clone()).chain(lines).collect();
            let hidden = self.path.join("_.index.new");
            index.file = new_index(&hidden, &text)?;
            index.gone = 0;
            fs::rename(&hidden, self.path.join("_.index"))?;
        }
        drop(index);
        fs::remove_file(&segment.path)
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Makes an index with this text, to be appended to.
fn new_index(path: &Path, text: &str) -> io::Result<File> {
    let mut file = OpenOptions::new().append(true).create_new(true).mode(0o644).open(path)?;
    file.write_all(text.as_bytes())?;
    Ok(file)
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

    #[test]
    fn the_index_is_written_anew_when_most_of_it_is_gone() {
        let home = tempfile::tempdir().expect("there is room");
        let path = home.path().join("d");
        let directory = Directory::create(path.clone()).expect("it can be made");
        let read = || fs::read_to_string(path.join("_.index")).expect("it is text");
        let add = |ident: usize| directory.add("Stat", &ident.to_string(), b"x", 0);
        let kept: Vec<_> = (0..3).map(|ident| add(ident).expect("it fits")).collect();
        let mut longest = 0;
        for ident in 3..100 {
            directory.remove(&add(ident).expect("it fits")).expect("it is there");
            longest = longest.max(read().lines().count());
        }
        assert_eq!(longest, 1 + kept.len() + 2 * GONE_MIN);
        let index = read();
        let added: Vec<_> = index.lines().filter(|line| line.starts_with('+')).collect();
        for segment in &kept {
            assert!(added.contains(&format!("+ {}", segment.line.trim_end()).as_str()), "{index}");
        }
    }
}

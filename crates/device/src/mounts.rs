//! File systems that should be there: one of `/etc/fstab` that is not mounted leaves an empty folder, and what
//! is made in that fills the file system behind it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// What is to be mounted, as fstab(5) has it.
const WANTED: &str = "/etc/fstab";
/// What is, as proc_pid_mountinfo(5) has it.
const MOUNTED: &str = "/proc/self/mountinfo";
/// The field with the place, in the lines of each.
const PLACE_OF_WANTED: usize = 1;
const PLACE_OF_MOUNTED: usize = 4;

/// Where the file system should be mounted, and is not, that a path is meant to be on; `None` also where that
/// cannot be known.
pub fn missing(path: &Path) -> Option<PathBuf> {
    #[cfg(feature = "simulation")]
    if super::attached::runtime().is_some() {
        return None;
    }
    let [wanted, mounted] = [WANTED, MOUNTED].map(|file| std::fs::read(file).ok());
    missing_of(&resolved(path), &wanted?, &mounted?)
}

fn missing_of(path: &Path, wanted: &[u8], mounted: &[u8]) -> Option<PathBuf> {
    let above = |place: &PathBuf| place.parent().is_some() && path.starts_with(place);
    let nearest = places(wanted, PLACE_OF_WANTED).filter(above);
    let nearest = nearest.max_by_key(|place| place.components().count())?;
    // One that nobody has written down may be mounted further in.
    let is_there = places(mounted, PLACE_OF_MOUNTED)
        .any(|place| path.starts_with(&place) && place.starts_with(&nearest));
    (!is_there).then_some(nearest)
}

/// The field of this number of each line that is a path; the root is `/`.
fn places(text: &[u8], number: usize) -> impl Iterator<Item = PathBuf> {
    text.split(|byte| *byte == b'\n').filter_map(move |line| {
        let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
        let is_comment = fields.clone().next()?.starts_with(b"#");
        let field = fields.nth(number).filter(|_| !is_comment)?;
        Some(PathBuf::from(OsString::from_vec(unescaped(field))))
            .filter(|place| place.is_absolute())
    })
}

/// Spaces and the like are written as three octal digits behind a backslash.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((byte, behind)) = rest.split_first() {
        let digits = behind.first_chunk::<3>().filter(|_| *byte == b'\\');
        let code = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(code) => {
                out.push(code);
                rest = behind.get(3..).unwrap_or_default();
            }
            None => {
                out.push(*byte);
                rest = behind;
            }
        }
    }
    out
}

/// A path without links, as far as what it names is there.
fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let real = |above: &Path| Some(above.canonicalize().ok()?.join(path.strip_prefix(above).ok()?));
    path.ancestors().skip(1).find_map(real).unwrap_or_else(|| path.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: &str = "# <file system> <mount point>\n\
        UUID=1 / ext4 errors=remount-ro 0 1\n\
        /dev/sdb1\t/mnt/disk2  xfs nofail 0 0\n\
        /dev/sdc1 /mnt/disk2/deep xfs noauto 0 0\n\
        /dev/sdd1 /mnt/a\\040disk xfs defaults 0 0\n\
        #/dev/sde1 /mnt/old xfs defaults 0 0\n\
        /dev/sdf none swap sw 0 0\n\
        broken\n";

    fn missing_at(path: &str, mounted: &[&str]) -> Option<String> {
        let line =
            |place: &&str| format!("29 1 8:1 / {place} rw,relatime shared:1 - ext4 /dev/x rw\n");
        let mounted: String = ["/", "/proc"].iter().chain(mounted).map(line).collect();
        let found = missing_of(Path::new(path), WANTED.as_bytes(), mounted.as_bytes());
        found.map(|place| place.display().to_string())
    }

    #[test]
    fn a_path_is_on_the_nearest_file_system_that_is_written_down() {
        let missing = |path, mounted: &[&str]| missing_at(path, mounted);
        assert_eq!(missing("/mnt/disk2/store", &[]).as_deref(), Some("/mnt/disk2"));
        assert_eq!(missing("/mnt/disk2/store", &["/mnt/disk2"]), None);
        assert_eq!(
            missing("/mnt/disk2/deep/er/store", &["/mnt/disk2"]).as_deref(),
            Some("/mnt/disk2/deep")
        );
        assert_eq!(missing("/mnt/disk2/other/store", &["/mnt/disk2/other"]), None);
        assert_eq!(missing("/mnt/a disk/store", &[]).as_deref(), Some("/mnt/a disk"));
        assert_eq!(missing("/mnt/a disk/store", &["/mnt/a\\040disk"]), None);
        for path in ["/var/cache/store", "/mnt/disk20/store", "/mnt/old/store", "/mnt/store"] {
            assert_eq!(missing(path, &[]), None, "{path}");
        }
    }

    #[test]
    fn links_are_followed_as_far_as_they_lead() {
        let folder = tempfile::tempdir().expect("a folder");
        let real = folder.path().canonicalize().expect("it is there");
        std::os::unix::fs::symlink(&real, real.join("link")).expect("a link");
        assert_eq!(resolved(&real.join("link/no/store")), real.join("no/store"));
        assert_eq!(resolved(&real.join("store")), real.join("store"));
    }

    #[test]
    fn what_is_no_escape_stays() {
        assert_eq!(unescaped(b"/a\\011b\\9\\04"), b"/a\tb\\9\\04");
        assert_eq!(unescaped(b"\\777"), b"\\777");
    }
}

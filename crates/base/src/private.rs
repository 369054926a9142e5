//! Files and folders for this user alone, since they may be keys, that are on the disk when a function
//! here returns.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Makes the folder at `path` with those it is in, where they are not there; those that are stay as they
/// are.
///
/// # Errors
/// The disk's.
pub fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes a file in the place of whatever is at `path`. A crash may leave a part of it: see [`replace`].
///
/// # Errors
/// The disk's.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // One that is there may have another mode, and others may have it open.
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Puts a file in the place of another, so that who reads it meanwhile, and the disk after a crash, has
/// one of the two, whole. It is written beside its place, where a process that is killed leaves it for the
/// next one. Of two that replace one path at a time one may fail, so callers agree on one.
///
/// # Errors
/// The disk's; then what was there still is, or all of the new is and only its name may be lost with the
/// machine's power.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = beside(path)?;
    if let Err(error) = write(&beside, bytes).and_then(|()| fs::rename(&beside, path)) {
        // What could not be written is of no use to anybody.
        let _ = fs::remove_file(&beside);
        return Err(error);
    }
    sync_folder_of(path)
}

/// Has the disk know which names there are in the folder that `path` is in.
///
/// # Errors
/// The disk's.
pub fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

/// Where the next file at `path` is written: hidden, so that who lists the folder takes it for none of
/// its files.
fn beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| {
        io::Error::new(ErrorKind::InvalidInput, format!("{}: not a file's name", path.display()))
    })?;
    let hidden =
        [OsStr::new("."), name, OsStr::new(".new")].into_iter().collect::<std::ffi::OsString>();
    Ok(path.with_file_name(hidden))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    }

    #[test]
    fn what_is_written_is_for_its_user_alone_whatever_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let within = folder.path().join("a/b");
        make_folder(&within).unwrap();
        assert_eq!((mode(&within), mode(&folder.path().join("a"))), (0o700, 0o700));
        let path = within.join("key.pem");
        // What a process left that was killed, readable to all.
        let left = within.join(".key.pem.new");
        for open in [&path, &left] {
            fs::write(open, "a longer text of before").unwrap();
            fs::set_permissions(open, fs::Permissions::from_mode(0o644)).unwrap();
        }
        replace(&path, b"key").unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"key".to_vec(), 0o600));
        assert_eq!(names(&within), ["key.pem"]);
        let other = within.join("key.der");
        replace(&other, b"another").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"key");
    }

    #[test]
    fn what_cannot_be_replaced_stays_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("folder");
        fs::create_dir_all(path.join("full")).unwrap();
        assert!(replace(&path, b"text").is_err());
        assert_eq!(names(folder.path()), ["folder"]);
        assert!(path.join("full").is_dir());
        let error = replace(&folder.path().join("missing/file"), b"text").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(replace(Path::new("/"), b"").unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    /// The file of a process of this test that replaces it for ever.
    const FILE: &str = "FRESHET_REPLACED_FILE";
    const KILLS: u64 = 20;
    /// How long it may take to begin, on a loaded machine.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn texts() -> [Vec<u8>; 2] {
        [vec![b'a'; 300_000], vec![b'b'; 70_000]]
    }

    #[test]
    fn a_process_that_is_killed_leaves_one_of_the_two_whole() {
        if let Some(path) = std::env::var_os(FILE) {
            loop {
                for text in texts() {
                    replace(Path::new(&path), &text).expect("the disk has room");
                }
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        replace(&path, &texts()[0]).unwrap();
        let mut is_left = false;
        for kill in 0..KILLS {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["a_process_that_is_killed_leaves_one_of_the_two_whole", "--nocapture"])
                .env(FILE, &path)
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            // It is read while it is replaced, too.
            let (begun, mut is_seen) = (Instant::now(), [false; 2]);
            while is_seen != [true; 2] {
                is_seen[which(&path)] = true;
                assert!(begun.elapsed() < PATIENCE && child.try_wait().unwrap().is_none());
            }
            std::thread::sleep(Duration::from_micros(300 * kill));
            child.kill().unwrap();
            child.wait().unwrap();
            which(&path);
            is_left |= names(folder.path()).len() > 1;
        }
        assert!(is_left, "no kill came while a file was written: try more");
    }

    /// Which of the two texts is there.
    fn which(path: &Path) -> usize {
        let there = fs::read(path).unwrap();
        texts().iter().position(|text| *text == there).expect("it is whole")
    }
}

//! A file system with little left, which others write to meanwhile.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../../../tests/skip.rs"]
mod skip;

use freshet_disk::DiskError;
use freshet_disk::device::Device;
use freshet_disk::file::FileDevice;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const NAME: &str = "what_does_not_fit_leaves_others_their_space";
/// Says where the small file system is: the test has started itself in a name space where it is mounted.
const PLACE: &str = "FRESHET_TEST_SMALL_FILE_SYSTEM";
const ALL_BYTES: u64 = 256 << 20;
const TAKEN_BYTES: u64 = 96 << 20;
const WANTED_BYTES: u64 = 224 << 20;

fn left(folder: &Path) -> u64 {
    let space = rustix::fs::statvfs(folder).expect("what is left");
    space.f_bavail * space.f_frsize
}

/// The least that was left while `act` ran, and what it gave.
fn least_left<R>(folder: &Path, act: impl FnOnce() -> R) -> (u64, R) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut least = left(folder);
            while !is_over.load(Relaxed) {
                least = least.min(left(folder));
            }
            least
        });
        let given = act();
        is_over.store(true, Relaxed);
        (watch.join().expect("who watches"), given)
    })
}

#[test]
fn what_does_not_fit_leaves_others_their_space() {
    let Some(folder) = std::env::var_os(PLACE) else { return start_again() };
    let folder = Path::new(&folder);
    FileDevice::create(&folder.join("other"), TAKEN_BYTES).expect("it fits");
    let before = left(folder);
    let path = folder.join("store");
    let (least, made) = least_left(folder, || FileDevice::create(&path, WANTED_BYTES));
    assert_eq!(made.err(), Some(DiskError::DeviceNoSpace { bytes: WANTED_BYTES }));
    assert_eq!((least, left(folder)), (before, before), "a store that is made");

    let sparse = File::options().write(true).create(true).truncate(true).open(&path);
    sparse.expect("a file").set_len(WANTED_BYTES).expect("a file with holes");
    let device = FileDevice::open(&path).expect("the file");
    let reserve = |bytes| least_left(folder, || device.reserve_blocks(bytes)).0;
    assert_eq!(reserve(WANTED_BYTES), before, "a store that is opened");
    assert_eq!(path.metadata().expect("what it has").blocks(), 0);
    // What fits is had, and again where it is there already.
    for _ in 0..2 {
        reserve(TAKEN_BYTES);
        assert_eq!(path.metadata().expect("what it has").blocks() * 512, TAKEN_BYTES);
    }
}

/// Runs this test where a small file system can be mounted that nobody else sees.
fn start_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let mount = format!(
        "mount -t tmpfs -o size={ALL_BYTES} none \"${PLACE}\" || exit 77; exec \"$0\" \"$@\""
    );
    let started = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &mount])
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", NAME, "--nocapture"])
        .env(PLACE, folder.path())
        .output();
    let Ok(ended) = started else { return skip::missing("unshare") };
    let said = String::from_utf8_lossy(&ended.stdout) + String::from_utf8_lossy(&ended.stderr);
    match ended.status.code() {
        Some(0) => assert!(said.contains("1 passed"), "{said}"),
        // The kernel, or whoever started this, has no such name spaces.
        Some(1 | 77) if !said.contains("test result") => skip::skip(said.trim()),
        _ => panic!("{said}"),
    }
}

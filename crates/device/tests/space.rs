//! A file system with little left, which others write to meanwhile.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../../../tests/skip.rs"]
mod skip;
#[path = "../../../tests/small_disk.rs"]
mod small_disk;

use freshet_device::file::FileDevice;
use freshet_device::{Device, IoError};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const NAME: &str = "what_does_not_fit_leaves_others_their_space";
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
    let Some(folder) = small_disk::of(NAME, ALL_BYTES) else { return };
    let folder = Path::new(&folder);
    FileDevice::create(&folder.join("other"), TAKEN_BYTES).expect("it fits");
    let before = left(folder);
    let path = folder.join("store");
    let (least, made) = least_left(folder, || FileDevice::create(&path, WANTED_BYTES));
    assert_eq!(made.err(), Some(IoError::NO_SPACE));
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

//! Disks that are not there when a node starts.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../../../tests/skip.rs"]
mod skip;
mod support;

use freshet_disk::{DiskError, DiskSpec, Disks, Seat, examine};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use support::{now_us, spec};

const BYTES: u64 = 32 << 20;
/// Says where a file system should be mounted: the test has started itself where `/etc/fstab` says so.
const MEANT: &str = "FRESHET_TEST_MEANT_TO_BE_MOUNTED";

fn open(specs: Vec<DiskSpec>) -> Result<Vec<&'static str>, DiskError> {
    let seat: Seat = Arc::new(|_: &Path| ());
    let disks = Disks::open(specs, now_us, false, &seat).map_err(|(_, error)| error)?;
    Ok(disks.disks().iter().map(|disk| disk.health().word()).collect())
}

/// A device of blocks with nothing in it, as a drive is that has dropped out: a loop device that nobody uses.
fn empty_device() -> Option<PathBuf> {
    let is_empty = |number: &u32| {
        let bytes = std::fs::read_to_string(format!("/sys/block/loop{number}/size"));
        bytes.is_ok_and(|bytes| bytes.trim() == "0")
    };
    let path = |number: u32| PathBuf::from(format!("/dev/loop{number}"));
    let is_mine =
        |path: &PathBuf| std::fs::File::options().write(true).read(true).open(path).is_ok();
    (0..8).filter(is_empty).map(path).find(is_mine)
}

#[test]
fn a_device_that_has_dropped_out_stops_nothing() {
    let Some(device) = empty_device() else { return skip::skip("no loop device is free") };
    let folder = tempfile::tempdir().unwrap();
    let good = spec(&folder.path().join("good"), Some(BYTES));
    for bytes in [None, Some(BYTES)] {
        let gone = spec(&device, bytes);
        assert_eq!(examine(&gone).unwrap().away, Some(DiskError::DeviceShort));
        assert_eq!(open(vec![gone.clone(), good.clone()]), Ok(vec!["offline", "healthy"]));
        // It is all there is, and may come back.
        assert_eq!(open(vec![gone]), Ok(vec!["offline"]));
    }
}

#[test]
fn what_cannot_be_made_stops_a_node_that_has_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let good = spec(&folder.path().join("good"), Some(BYTES));
    let lost = spec(&folder.path().join("no/store"), Some(BYTES));
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "").unwrap();
    let empty = spec(&empty, None);
    for (wrong, says) in [(&lost, "No such file"), (&empty, "0 bytes")] {
        let error = open(vec![wrong.clone()]).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
        assert_eq!(open(vec![wrong.clone(), good.clone()]), Ok(vec!["offline", "healthy"]));
    }
    assert!(!lost.path.exists() && empty.path.metadata().unwrap().len() == 0);
}

#[test]
fn a_store_of_another_length_than_is_asked_for_keeps_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    assert_eq!(open(vec![spec(&path, Some(BYTES))]), Ok(vec!["healthy"]));
    let keeps = |bytes| examine(&spec(&path, bytes)).unwrap().keeps_bytes;
    assert_eq!([keeps(None), keeps(Some(BYTES)), keeps(Some(BYTES + 100))], [None; 3]);
    assert_eq!([keeps(Some(BYTES / 2)), keeps(Some(BYTES * 2))], [Some(BYTES); 2]);
    assert_eq!(open(vec![spec(&path, Some(BYTES * 2))]), Ok(vec!["healthy"]));
    assert_eq!(path.metadata().unwrap().len(), BYTES);
}

/// Has the test of this name run where `/etc/fstab` wants a file system at `place`.
fn start_again(name: &str, place: &Path) {
    let wanted = format!("/dev/none {} ext4 nofail 0 2\n", place.display());
    let fstab = place.with_extension("fstab");
    std::fs::write(&fstab, wanted).unwrap();
    let mount =
        format!("mount --bind '{}' /etc/fstab || exit 77; exec \"$0\" \"$@\"", fstab.display());
    let started = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &mount])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(MEANT, place)
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

#[test]
fn a_store_is_not_made_behind_the_file_system_it_is_meant_for() {
    let name = "a_store_is_not_made_behind_the_file_system_it_is_meant_for";
    let Some(place) = std::env::var_os(MEANT) else {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("mount");
        std::fs::create_dir(&place).unwrap();
        return start_again(name, &place);
    };
    let place = PathBuf::from(place);
    let good = spec(&place.with_extension("good"), Some(BYTES));
    for inner in ["store", "folder/store"] {
        let lost = spec(&place.join(inner), Some(BYTES));
        let at = place.display().to_string();
        assert_eq!(examine(&lost).unwrap().away, Some(DiskError::DeviceUnmounted { at }));
        assert_eq!(open(vec![lost.clone(), good.clone()]), Ok(vec!["offline", "healthy"]));
        assert_eq!(open(vec![lost]), Ok(vec!["offline"]));
    }
    assert_eq!(place.read_dir().unwrap().count(), 0);
    // What somebody has put there is used.
    std::fs::copy(&good.path, place.join("store")).unwrap();
    assert_eq!(open(vec![spec(&place.join("store"), Some(BYTES))]), Ok(vec!["healthy"]));
}

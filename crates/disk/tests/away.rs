//! Disks that are not there when a node starts.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../../../tests/skip.rs"]
mod skip;

use freshet_disk::device::WriteLife;
use freshet_disk::{Discard, DiskError, DiskSpec, Disks, Seat, Takes, examine};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const BYTES: u64 = 32 << 20;

fn now_us() -> u64 {
    std::time::UNIX_EPOCH.elapsed().unwrap().as_micros() as u64
}

fn spec(path: &Path, bytes: Option<u64>) -> DiskSpec {
    DiskSpec {
        path: path.to_owned(),
        bytes,
        weight: None,
        drive_writes: 1000.0,
        object_bytes: None,
        keeps: false,
        discard: Discard::Always,
        write_life: WriteLife::Long,
        takes: Takes::default(),
    }
}

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

//! What tests of disks begin with.

use freshet_device::WriteLife;
use freshet_disk::{Discard, DiskSpec, Takes};
use std::path::Path;

pub(crate) fn now_us() -> u64 {
    std::time::UNIX_EPOCH.elapsed().unwrap().as_micros() as u64
}

/// A disk as a configuration has it that says nothing more of it.
pub(crate) fn spec(path: &Path, bytes: Option<u64>) -> DiskSpec {
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

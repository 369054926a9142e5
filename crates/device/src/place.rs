//! What is at the path of a disk: a file or a device, or in a simulated world one of its drives.

use super::device::{Device, IoError};
use super::file::FileDevice;
use std::path::Path;

/// Opens what is there, for this process alone.
///
/// # Errors
/// As [`FileDevice::open`].
pub fn open(path: &Path) -> Result<Box<dyn Device>, IoError> {
    #[cfg(feature = "simulation")]
    if let Some(found) = super::attached::open(path) {
        return found.map(|handle| Box::new(handle) as Box<dyn Device>);
    }
    FileDevice::open(path).map(|device| Box::new(device) as Box<dyn Device>)
}

/// The length of what is there, also where another process has it.
pub fn bytes(path: &Path) -> Option<u64> {
    #[cfg(feature = "simulation")]
    if let Some(found) = super::attached::open(path) {
        return found.ok().map(|handle| handle.bytes());
    }
    FileDevice::peek(path).ok().map(|device| device.bytes())
}

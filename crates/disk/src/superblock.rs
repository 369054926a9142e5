//! The first and the last block of a device: whose it is, and how it is divided.

use super::codec::{Put, Reader};
use super::geometry::Geometry;
use super::limits::{BLOCK_BYTES, FORMAT_VERSION};
use crate::error::DiskError;
use freshet_device::Device;
use freshet_device::block::Block;
use std::fmt;

const MAGIC: &[u8; 8] = b"FRESHDSK";

/// A number that is one of its kind.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Uuid(pub [u8; 16]);

/// What a device says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Superblock {
    /// Version of the format.
    pub version: u16,
    /// This device.
    pub device: Uuid,
    /// The devices that belong together: they share the secret.
    pub set: Uuid,
    /// Under which keys are hashed.
    pub secret: [u8; 16],
    /// How it is divided.
    pub geometry: Geometry,
}

impl Uuid {
    /// A random one.
    pub fn random() -> Self {
        Self(freshet_base::random::secret())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Sixteen digits: enough to tell the disks of a node apart.
impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(8).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Superblock {
    pub(super) fn encode(&self) -> Block {
        let mut out = Vec::with_capacity(BLOCK_BYTES as usize);
        out.put(MAGIC);
        out.put_u16(self.version);
        out.put_u16(0);
        out.put(&self.device.0);
        out.put(&self.set.0);
        out.put(&self.secret);
        self.geometry.write(&mut out);
        out.resize(BLOCK_BYTES as usize - 4, 0);
        let sum = crc32c::crc32c(&out);
        out.put_u32(sum);
        Block::from_bytes(&out)
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self, DiskError> {
        let damaged = DiskError::DeviceDamaged { what: "superblock" };
        let mut from = Reader::new(bytes);
        if from.bytes(8) != Some(&MAGIC[..]) {
            return Err(DiskError::DeviceForeign { holds: holds(bytes) });
        }
        let version = from.u16().ok_or_else(|| damaged.clone())?;
        if version > FORMAT_VERSION {
            return Err(DiskError::DeviceNewer { version, known: FORMAT_VERSION });
        }
        let summed = bytes.get(..BLOCK_BYTES as usize - 4).ok_or_else(|| damaged.clone())?;
        let sum = bytes.get(summed.len()..).and_then(|rest| Reader::new(rest).u32());
        if sum != Some(crc32c::crc32c(summed)) {
            return Err(damaged);
        }
        let mut rest = || {
            from.u16()?;
            Some(Self {
                version,
                device: Uuid(from.id()?),
                set: Uuid(from.id()?),
                secret: from.id()?,
                geometry: Geometry::parse(&mut from)?,
            })
        };
        rest().ok_or(damaged)
    }

    /// Writes both copies and makes them durable.
    ///
    /// # Errors
    /// The device failed.
    pub fn write(&self, device: &dyn Device) -> Result<(), DiskError> {
        device.write(self.geometry.last_block_at(), self.encode())?;
        device.flush()?;
        device.write(0, self.encode())?;
        device.flush()?;
        Ok(())
    }

    /// Makes a device one of a version, where it is of one before: programs that know no other refuse it
    /// from then on.
    ///
    /// # Errors
    /// The device failed, or has no store.
    pub(super) fn raise(device: &dyn Device, version: u16) -> Result<(), DiskError> {
        let found = Self::read(device)?;
        if found.version < version {
            Self { version, ..found }.write(device)?;
        }
        Ok(())
    }

    /// Reads it; where the first copy is damaged, from the second.
    ///
    /// # Errors
    /// What is there instead, or why it cannot be used.
    pub fn read(device: &dyn Device) -> Result<Self, DiskError> {
        if device.bytes() < BLOCK_BYTES {
            return Err(DiskError::DeviceShort);
        }
        let first = device.read(0, BLOCK_BYTES as usize).map_err(DiskError::from);
        let first = first.and_then(|block| Self::parse(&block));
        let found = match first {
            Ok(found) => found,
            Err(error @ DiskError::DeviceNewer { .. }) => return Err(error),
            Err(error) => {
                let at = (device.bytes() & !(BLOCK_BYTES - 1)).saturating_sub(BLOCK_BYTES);
                let last = device.read(at, BLOCK_BYTES as usize);
                last.ok().and_then(|block| Self::parse(&block).ok()).ok_or(error)?
            }
        };
        if found.geometry.device_bytes > device.bytes() {
            return Err(DiskError::DeviceTruncated {
                bytes: device.bytes(),
                formatted: found.geometry.device_bytes,
            });
        }
        Ok(found)
    }
}

/// What is on a device that has no store: `None` where it is empty.
///
/// # Errors
/// It cannot be read.
pub fn contents(device: &dyn Device) -> Result<Option<&'static str>, DiskError> {
    if device.bytes() < BLOCK_BYTES {
        return Ok(Some("less than a block"));
    }
    let first_bytes = (1 << 20).min(device.bytes() & !(BLOCK_BYTES - 1)) as usize;
    let first = device.read(0, first_bytes)?;
    let last_at = (device.bytes() & !(BLOCK_BYTES - 1)).saturating_sub(BLOCK_BYTES);
    let last = device.read(last_at, BLOCK_BYTES as usize)?;
    if first.starts_with(MAGIC) || last.starts_with(MAGIC) {
        return Ok(Some("a Freshet store"));
    }
    let is_empty = first.iter().chain(last.iter()).all(|byte| *byte == 0);
    Ok((!is_empty).then(|| holds(&first)))
}

/// The name of what these first bytes belong to.
fn holds(first: &[u8]) -> &'static str {
    let has = |at: usize, text: &[u8]| first.get(at..).is_some_and(|rest| rest.starts_with(text));
    if has(0x438, &[0x53, 0xef]) {
        "an ext4 file system"
    } else if has(0, b"XFSB") {
        "an XFS file system"
    } else if has(0x1_0040, b"_BHRfS_M") {
        "a btrfs file system"
    } else if has(512, b"EFI PART") || has(4096, b"EFI PART") {
        "a partition table"
    } else if has(0, b"LUKS") {
        "an encrypted volume"
    } else if has(512, b"LABELONE") {
        "an LVM volume"
    } else if has(4086, b"SWAPSPACE2") {
        "swap space"
    } else if has(510, &[0x55, 0xaa]) {
        "a boot sector or partition table"
    } else {
        "data of another program"
    }
}

//! What can go wrong with a disk, named by who caused it.

use freshet_device::IoError;
use freshet_store::StoreError;
use thiserror::Error;

/// Why a disk cannot be used as it was asked to be.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum DiskError {
    /// Its length is out of bounds.
    #[error(
        "a device of {bytes} bytes is not between {} MiB and {} TiB",
        crate::limits::DEVICE_BYTES_MIN >> 20,
        crate::limits::DEVICE_BYTES_MAX >> 40
    )]
    ConfigDeviceBytes {
        /// The length.
        bytes: u64,
    },
    /// The options of a format do not fit the device or one another.
    #[error("the sizes of segments and records do not fit the device: leave them out")]
    ConfigGeometry,
    /// A part that everything hangs on is not as it was written.
    #[error("the {what} is damaged, in both copies; `freshet store format --force` makes it anew")]
    DeviceDamaged {
        /// Which part.
        what: &'static str,
    },
    /// Something else is on the device.
    #[error(
        "the device holds {holds} and no Freshet store; `freshet store format --force` replaces it"
    )]
    DeviceForeign {
        /// What is there.
        holds: &'static str,
    },
    /// The device belongs to another set of disks.
    #[error(
        "the device belongs to another set of disks ({found}, not {wanted}): its keys are hashed \
         under another secret; `freshet store format --force` takes it into this set"
    )]
    DeviceOfOtherSet {
        /// Its set.
        found: crate::superblock::Uuid,
        /// The set it was to join.
        wanted: crate::superblock::Uuid,
    },
    /// It and all others of its set were away when the node started.
    #[error(
        "it was away when the node started, and so was its set of disks: what is on it can be found \
         after a restart of the node"
    )]
    DeviceLate,
    /// It cannot be opened.
    #[error("cannot open it: {0}")]
    DeviceOpen(IoError),
    /// A file system that should be mounted above it is not.
    #[error("its file system is not mounted at {at}, as /etc/fstab has it")]
    DeviceUnmounted {
        /// Where it should be.
        at: String,
    },
    /// It is not there, and nobody said how long to make it.
    #[error("there is no such file: give its `size`, as `size = \"100GB\"`, and it is made")]
    DeviceUnmade,
    /// Nothing is kept in what is there: a directory, a character device or the like. No waiting helps.
    #[error("it is neither a file nor a block device")]
    DeviceUnfit,
    /// The file system has no space for a file of this length.
    #[error("its file system has no space for {bytes} bytes: free some, or give the store less")]
    DeviceNoSpace {
        /// The length.
        bytes: u64,
    },
    /// An operation failed.
    #[error("the device failed: {0}")]
    DeviceIo(IoError),
    /// It can be opened, and much of it cannot be read.
    #[error("the device is failing: {failed} reads in {reads} fail")]
    DeviceFailing {
        /// Reads that failed.
        failed: u64,
        /// Reads in all.
        reads: u64,
    },
    /// It was formatted by a newer program.
    #[error(
        "the device has format {version} of a newer Freshet, and this one reads up to {known}: \
         start the newer one, or `freshet store format --force` it, which empties it"
    )]
    DeviceNewer {
        /// The version on the device.
        version: u16,
        /// The newest this program reads.
        known: u16,
    },
    /// There is next to nothing.
    #[error("it has less than a block: it was detached or cut off, or is no store")]
    DeviceShort,
    /// It is shorter than it was.
    #[error(
        "the device has {bytes} bytes and had {formatted} when it was formatted: it was cut off, \
         or a partition changed; restore its length, or format it"
    )]
    DeviceTruncated {
        /// Its length now.
        bytes: u64,
        /// Its length then.
        formatted: u64,
    },
    /// No segment can be freed.
    #[error("no segment is free and none can be freed")]
    Full,
    /// The journal cannot be written, so the volume has to be left.
    #[error("the journal cannot be written: {0}")]
    JournalLost(IoError),
    /// Memory for the index.
    #[error(transparent)]
    LocalMemory(#[from] StoreError),
    /// The bytes of the object are not all there.
    #[error("bytes of the object are missing in memory")]
    NotWhole,
    /// Its description is too long.
    #[error("a record of {bytes} bytes is too long")]
    RecordTooLong {
        /// The length.
        bytes: u64,
    },
}

impl DiskError {
    /// Why a file of so many bytes could not be made.
    pub fn of_making(error: IoError, bytes: u64) -> Self {
        if error.is_full() { Self::DeviceNoSpace { bytes } } else { Self::DeviceOpen(error) }
    }

    /// Whether it is about what a drive holds or does, and not about what was asked for: a node that
    /// has others goes on without that one.
    pub fn is_of_one_drive(&self) -> bool {
        matches!(
            self,
            Self::DeviceDamaged { .. }
                | Self::DeviceForeign { .. }
                | Self::DeviceOfOtherSet { .. }
                | Self::DeviceNewer { .. }
                | Self::DeviceShort
                | Self::DeviceTruncated { .. }
                | Self::DeviceIo(_)
                // Its folder is on what is not there, or nothing can be written to it.
                | Self::DeviceOpen(_)
                | Self::DeviceUnmade
                // A file that has lost all it had.
                | Self::ConfigDeviceBytes { bytes: 0 }
        )
    }
}

/// Not by `#[from]`: the text has the reason already, and those who show sources would say it twice.
impl From<IoError> for DiskError {
    fn from(error: IoError) -> Self {
        Self::DeviceIo(error)
    }
}

//! Where the memory of an arena comes from.

use crate::error::StoreError;
use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, FallocateFlags, FileType, FlockOperation, Mode, OFlags, StatxAttributes, StatxFlags,
};
use rustix::io::Errno;
use std::ffi::c_void;
use std::fmt;
use std::path::{Path, PathBuf};

/// `f_type` of file systems that live in memory: tmpfs, ramfs and hugetlbfs (statfs(2)).
const MEMORY_FILE_SYSTEMS: [i64; 3] = [0x0102_1994, 0x8584_58f6, 0x9584_58f6];

/// The highest number of a NUMA node that Linux can be built for, less one.
pub const NODE_MAX: u32 = 1023;

/// Where the memory of an arena comes from.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Placement {
    /// Where the kernel wants it: ordinary memory.
    #[default]
    Anywhere,
    /// Memory of one NUMA node as long as that has some, then of others.
    Near(u32),
    /// Memory of one NUMA node, as that of a CXL expander or of persistent memory in memory mode.
    Node(u32),
    /// A file that is memory: on a file system with DAX (PMem App Direct) or in memory, or a DAX
    /// device. What was in it is overwritten. One process has it at a time.
    File(PathBuf),
}

impl Placement {
    /// Whether several arenas may be there.
    pub fn is_divisible(&self) -> bool {
        !matches!(self, Self::File(_))
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anywhere => f.write_str("ordinary memory"),
            Self::Near(node) => write!(f, "memory near NUMA node {node}"),
            Self::Node(node) => write!(f, "NUMA node {node}"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// Opens a file of at least `bytes` that is memory, and reserves all of them: a page that is not
/// there when it is touched would end the process.
///
/// # Errors
/// What is wrong with it.
pub(super) fn open(path: &Path, bytes: u64) -> Result<OwnedFd, StoreError> {
    let wrong = |why: String| StoreError::ConfigMemoryFile { path: path.to_owned(), why };
    let failed = |what: &str, error: Errno| wrong(format!("{what}: {error}"));
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    let fd = rustix::fs::open(path, flags, Mode::from_raw_mode(0o600))
        .map_err(|error| failed("it cannot be opened", error))?;
    match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            return Err(StoreError::LocalMemoryTaken { path: path.to_owned() });
        }
        Err(error) => return Err(failed("it cannot be locked", error)),
    }
    let stat = rustix::fs::fstat(&fd).map_err(|error| failed("it cannot be looked at", error))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::CharacterDevice => {
            let (major, minor) = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
            let size = std::fs::read_to_string(format!("/sys/dev/char/{major}:{minor}/size"));
            let size = size.ok().and_then(|text| text.trim().parse::<u64>().ok());
            let Some(size) = size else { return Err(wrong("it is no DAX device".into())) };
            if size < bytes {
                return Err(wrong(format!("it has {size} bytes, and {bytes} are wanted")));
            }
        }
        FileType::RegularFile => {
            if !is_memory(&fd) {
                return Err(wrong(
                    "it is on a disk, which its pages would be written to; give a file on a file \
                     system mounted with dax, or on tmpfs"
                        .into(),
                ));
            }
            rustix::fs::fallocate(&fd, FallocateFlags::empty(), 0, bytes).map_err(|error| {
                if stat.st_size == 0 {
                    let _ = rustix::fs::ftruncate(&fd, 0);
                }
                match error {
                    Errno::NOSPC => wrong(format!("there is no room for {bytes} bytes")),
                    other => failed("its bytes cannot be reserved", other),
                }
            })?;
        }
        _ => return Err(wrong("it is neither a file nor a DAX device".into())),
    }
    Ok(fd)
}

/// Whether the pages of a file are memory, rather than copies of what is on a disk.
fn is_memory(fd: &OwnedFd) -> bool {
    let is_dax = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::TYPE)
        .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::DAX));
    let is_in_memory =
        rustix::fs::fstatfs(fd).is_ok_and(|found| MEMORY_FILE_SYSTEMS.contains(&found.f_type));
    is_dax || is_in_memory
}

/// Has the pages of a range that nobody has touched come from one node, and from others only where it has
/// none left and `is_strict` does not forbid that.
///
/// # Errors
/// There is no such node, or the process may not use it.
pub(super) fn bind(
    start: *mut c_void,
    bytes: usize,
    node: u32,
    is_strict: bool,
) -> Result<(), StoreError> {
    let refused = |code| StoreError::ConfigMemoryNode { node, code };
    let mut nodes = [0u64; NODE_MAX as usize / 64 + 1];
    let word = nodes.get_mut(node as usize / 64).ok_or_else(|| refused(libc::EINVAL))?;
    *word = 1 << (node % 64);
    // One more than there are bits: the kernel takes one off (mbind(2)).
    let bits = u64::from(NODE_MAX) + 2;
    let flags: libc::c_uint = 0;
    let policy = if is_strict { libc::MPOL_BIND } else { libc::MPOL_PREFERRED };
    // SAFETY: mbind(2) sets a policy for the range and changes no contents; the mask is read only
    // and has as many bits as is said.
    let bound = unsafe {
        libc::syscall(libc::SYS_mbind, start, bytes, policy, nodes.as_ptr(), bits, flags)
    };
    if bound != 0 {
        return Err(refused(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)));
    }
    Ok(())
}

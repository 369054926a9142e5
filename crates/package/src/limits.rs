//! What a package may cost.

/// Files and folders of an archive.
pub const ENTRIES_MAX: usize = 4096;
/// Bytes of all its files together, unpacked.
pub const BYTES_MAX: u64 = 4 << 30;
/// How many times its packed size a file may be, from [`RATIO_FREE_BYTES`] on: no image packs so well,
/// and what does is there to fill a disk.
pub const RATIO_MAX: u64 = 200;
/// Bytes a file may have however well they are packed.
pub const RATIO_FREE_BYTES: u64 = 1 << 20;
/// Longest name of a file, in bytes.
pub const NAME_BYTES_MAX: usize = 512;
/// Longest name of a file within its folder, in bytes: what file systems take.
pub const NAME_PART_BYTES_MAX: usize = 255;
/// Folders within each other.
pub const DEPTH_MAX: usize = 16;
/// Longest manifest and longest descriptor, in bytes.
pub const TEXT_BYTES_MAX: u64 = 4 << 20;
/// Largest window of a layer that is packed by zstd, as a power of two: 128 MiB, as far as its own program goes.
pub const ZSTD_WINDOW_BITS_MAX: u32 = 27;
/// Layers of an image.
pub const LAYERS_MAX: usize = 128;
/// Files, folders and links of an image, of all layers together.
pub const IMAGE_ENTRIES_MAX: usize = 1 << 18;

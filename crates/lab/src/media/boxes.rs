//! Boxes of the ISO base media file format (ISO/IEC 14496-12 §4.2): a length, four letters, content.

/// Appends a box named `kind` whose content `write` appends.
///
/// # Panics
/// When the content does not fit 32 bits of length; ours are far smaller.
pub fn put(out: &mut Vec<u8>, kind: [u8; 4], write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&kind);
    write(out);
    let length = u32::try_from(out.len() - start).expect("boxes here are a few megabytes at most");
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends a full box: one with a version and 24 bits of flags.
pub fn put_full(
    out: &mut Vec<u8>,
    kind: [u8; 4],
    version: u8,
    flags: u32,
    write: impl FnOnce(&mut Vec<u8>),
) {
    put(out, kind, |out| {
        put_u32(out, u32::from(version) << 24 | flags);
        write(out);
    });
}

/// Appends 16 bits.
pub fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends 32 bits.
pub fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends 64 bits.
pub fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends `count` zero bytes.
pub fn put_zeros(out: &mut Vec<u8>, count: usize) {
    out.resize(out.len() + count, 0);
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The boxes in `bytes`, names and contents; panics when lengths do not add up.
    pub(in crate::media) fn parse(mut bytes: &[u8]) -> Vec<(String, &[u8])> {
        let mut boxes = Vec::new();
        while !bytes.is_empty() {
            let length = u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize;
            boxes.push((String::from_utf8(bytes[4..8].to_vec()).unwrap(), &bytes[8..length]));
            bytes = &bytes[length..];
        }
        boxes
    }

    /// The content of the box at `path`, whose parts are separated by slashes.
    pub(in crate::media) fn find<'a>(bytes: &'a [u8], path: &str) -> &'a [u8] {
        path.split('/').fold(bytes, |bytes, kind| {
            parse(bytes).into_iter().find(|(name, _)| name == kind).expect(kind).1
        })
    }

    #[test]
    fn a_box_knows_its_length_and_contents() {
        let mut out = Vec::new();
        put(&mut out, *b"moof", |out| {
            put_full(out, *b"mfhd", 1, 2, |out| put_u32(out, 9));
            put(out, *b"free", |_| ());
        });
        assert_eq!(out.len(), 8 + 16 + 8);
        assert_eq!(find(&out, "moof/mfhd"), [1, 0, 0, 2, 0, 0, 0, 9]);
        assert!(find(&out, "moof/free").is_empty());
    }
}

//! What holds of every manifest that can be read.

use freshet_media::limits::{LATER_MAX, MADE_BYTES_MAX, REPRESENTATIONS_MAX, RUNS_MAX, WINDOW_MAX};
use freshet_media::{Format, Standing, read};

/// What is read is within its bounds, and every name is text of the manifest or made of it.
pub(crate) fn check(format: Format, bytes: &[u8]) {
    let Ok(manifest) = read(format, bytes) else { return };
    assert!(manifest.window <= WINDOW_MAX && manifest.target <= WINDOW_MAX);
    // However much is inherited and put together, it is no more than there is room for.
    let made_bytes =
        manifest.templates.iter().map(String::len).sum::<usize>() + manifest.made.len();
    assert!(made_bytes <= MADE_BYTES_MAX);
    let most = bytes.len() + RUNS_MAX + LATER_MAX + 5 * REPRESENTATIONS_MAX;
    assert!(manifest.names.len() <= most);
    for name in &manifest.names {
        let reference = manifest.reference(name, bytes);
        assert!(!reference.is_empty() || name.reference.is_empty());
    }
    for series in &manifest.series {
        for value in [0, 1, u64::MAX - 1, u64::MAX] {
            assert!(series.sequel.after(value).is_none_or(|(next, _)| next > value));
        }
    }
    if let Some(progress) = manifest.progress {
        assert_eq!(progress.after(&progress), Standing::Onward);
    }
    if let Some(edge) = manifest.edge() {
        assert!(!manifest.has(edge.sequence, None) && !manifest.has(u64::MAX, Some(u32::MAX)));
    }
}

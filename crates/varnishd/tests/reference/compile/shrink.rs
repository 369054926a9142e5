//! Smaller policies that show the same difference.

use super::{Compiler, compare};

/// Leaves out lines as long as the difference stays of its kind.
pub(crate) fn shrunk(text: &str, kind: &str, varnish: &mut Compiler) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let mut size = lines.len().div_ceil(2).max(1);
    loop {
        let mut at = 0;
        while at < lines.len() {
            let end = (at + size).min(lines.len());
            let fewer: Vec<&str> = [&lines[..at], &lines[end..]].concat();
            let differs = compare(&format!("{}\n", fewer.join("\n")), varnish);
            if differs.as_deref() == Some(kind) {
                lines = fewer;
            } else {
                at = end;
            }
        }
        if size == 1 {
            return lines.join("\n");
        }
        size = size.div_ceil(2);
    }
}

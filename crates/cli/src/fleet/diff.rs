//! What one bundle has that another has not, line by line.

use freshet_fleet::config::Bundle;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Cells of the table of a comparison: two texts of 2,000 lines each. Between longer ones all lines
/// count as changed.
const CELLS_MAX: usize = 4_000_000;

/// The differences; of `hidden` files only that there are any.
pub(super) fn shown(old: &Bundle, new: &Bundle, hidden: &[String]) -> String {
    let names: BTreeSet<_> = old.files().chain(new.files()).map(|(name, _)| name).collect();
    let mut out = String::new();
    for name in names {
        let (before, after) = (old.file(name), new.file(name));
        if before == after {
            continue;
        }
        let word = match (before, after) {
            (None, _) => "new",
            (_, None) => "gone",
            _ => "changed",
        };
        let _ = writeln!(out, "{name}: {word}");
        let text = |bytes: Option<&[u8]>| String::from_utf8(bytes.unwrap_or_default().to_vec());
        if let (false, Ok(before), Ok(after)) =
            (hidden.iter().any(|other| other == name), text(before), text(after))
        {
            lines(&before, &after, &mut out);
        }
    }
    out
}

/// The lines that are in one text only, in order.
fn lines(before: &str, after: &str, out: &mut String) {
    let (mut a, mut b): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    let same = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    a.drain(..same);
    b.drain(..same);
    let same = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    a.truncate(a.len() - same);
    b.truncate(b.len() - same);
    let (mut at_a, mut at_b) = (0, 0);
    if a.len() * b.len() <= CELLS_MAX {
        let common = common(&a, &b);
        while at_a < a.len() && at_b < b.len() {
            if a[at_a] == b[at_b] {
                (at_a, at_b) = (at_a + 1, at_b + 1);
            } else if common[at_a + 1][at_b] >= common[at_a][at_b + 1] {
                let _ = writeln!(out, "- {}", a[at_a]);
                at_a += 1;
            } else {
                let _ = writeln!(out, "+ {}", b[at_b]);
                at_b += 1;
            }
        }
    }
    a[at_a..].iter().for_each(|line| out.push_str(&format!("- {line}\n")));
    b[at_b..].iter().for_each(|line| out.push_str(&format!("+ {line}\n")));
}

/// Of each pair of ends of the two, how many lines they have in common, in order.
fn common(a: &[&str], b: &[&str]) -> Vec<Vec<u16>> {
    let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
    for at_a in (0..a.len()).rev() {
        for at_b in (0..b.len()).rev() {
            table[at_a][at_b] = match a[at_a] == b[at_b] {
                true => u16::saturating_add(table[at_a + 1][at_b + 1], 1),
                false => table[at_a + 1][at_b].max(table[at_a][at_b + 1]),
            };
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_differ_are_shown_and_no_others() {
        let diff = |before: &str, after: &str| {
            let mut out = String::new();
            lines(before, after, &mut out);
            out
        };
        assert_eq!(diff("a\nb\nc\nd\n", "a\nc\nx\nd\n"), "- b\n+ x\n");
        assert_eq!(diff("", "a\nb\n"), "+ a\n+ b\n");
        assert_eq!(diff("a\n", "a\n"), "");
        let long = "x\n".repeat(3000);
        assert!(diff(&format!("a\n{long}b"), &format!("c\n{long}d")).starts_with("- a\n"));
    }
}

//! The name that somebody meant who wrote another.

/// The name among `known` that `word` most likely means, if one is near enough: at most a third of
/// its letters, and never more than three, are inserted, dropped, replaced or swapped.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).clamp(1, 3);
    known
        .map(|name| (distance(word, name), name))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Edits from `a` to `b`, row by row of the usual table; a swap of neighbours costs one.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut above: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let change = usize::from(from != to);
            let mut best = (row[j + 1] + 1).min(next[j] + 1).min(row[j] + change);
            if i > 0 && j > 0 && *from == b[j - 1] && a[i - 1] == *to {
                best = best.min(above[j - 1] + 1);
            }
            next.push(best);
        }
        above = std::mem::replace(&mut row, next);
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_hand_are_found_and_other_words_are_not() {
        let known = ["price", "pue", "years", "sites"];
        let near = |word| nearest(word, known.into_iter());
        assert_eq!(near("prcie"), Some("price"));
        assert_eq!(near("peu"), Some("pue"));
        assert_eq!(near("year"), Some("years"));
        assert_eq!(near("wattage"), None);
    }
}

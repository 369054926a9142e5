//! Patterns with `*`, `?` and `[…]`.

/// Whether a text matches a pattern as a whole.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where to go on when what follows the last `*` does not match.
    let mut back: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                back = Some((p, t));
                p += 1;
                continue;
            }
            Some('?') => {
                (p, t) = (p + 1, t + 1);
                continue;
            }
            Some('[') => {
                if let Some((fits, after)) = class(&pattern[p + 1..], text[t])
                    && fits
                {
                    (p, t) = (p + 1 + after, t + 1);
                    continue;
                }
            }
            Some('\\') if pattern.get(p + 1) == Some(&text[t]) => {
                (p, t) = (p + 2, t + 1);
                continue;
            }
            Some(c) if *c == text[t] => {
                (p, t) = (p + 1, t + 1);
                continue;
            }
            _ => {}
        }
        let Some((star, begun)) = back else { return false };
        back = Some((star, begun + 1));
        (p, t) = (star + 1, begun + 1);
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Whether `c` is in the class that begins behind its `[`, and where the class ends.
fn class(pattern: &[char], c: char) -> Option<(bool, usize)> {
    let negated = matches!(pattern.first(), Some('!' | '^'));
    let mut at = usize::from(negated);
    let first = at;
    let mut found = false;
    loop {
        let low = *pattern.get(at)?;
        if low == ']' && at > first {
            return Some((found != negated, at + 1));
        }
        match (pattern.get(at + 1), pattern.get(at + 2)) {
            (Some('-'), Some(high)) if *high != ']' => {
                found |= (low..=*high).contains(&c);
                at += 3;
            }
            _ => {
                found |= low == c;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_whole_texts() {
        for (pattern, text) in [
            ("*", ""),
            ("vcl*", "vcl12"),
            ("*.foo", "a.b.foo"),
            ("v?l[0-9]", "vcl3"),
            ("[!a]b", "cb"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in
            [("", "a"), ("vcl", "vcl1"), ("*.foo", "foo"), ("[!a]b", "ab"), ("[", "[")]
        {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }
}

//! Policies of a corpus with each of their tokens left out, doubled or swapped with another.

use crate::draw::Draw;

/// What is done to a token.
const CHANGES: usize = 3;
/// A prime. Policies that are not all of them are taken so far apart, from all of the corpus.
const STRIDE: usize = 1_000_003;

pub(crate) struct Mutations {
    policies: Vec<String>,
    /// The number of each policy as it is; those with a token changed come behind it.
    firsts: Vec<usize>,
    count: usize,
}

impl Mutations {
    pub(crate) fn of(policies: Vec<String>) -> Self {
        let mut count = 0;
        let mut firsts = Vec::new();
        for policy in &policies {
            firsts.push(count);
            count += 1 + CHANGES * words(&tokens(policy)).len();
        }
        assert!(count > 0, "there are no policies in the folder");
        Self { policies, firsts, count }
    }

    /// How many there are, the policies as they are included.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// One of them; all come once for the numbers below their count.
    pub(crate) fn nth(&self, number: u64) -> String {
        let number = (number as usize).wrapping_mul(STRIDE) % self.count;
        let policy = self.firsts.partition_point(|first| *first <= number) - 1;
        let text = &self.policies[policy];
        let Some(change) = (number - self.firsts[policy]).checked_sub(1) else {
            return text.clone();
        };
        let mut tokens = tokens(text);
        let words = words(&tokens);
        let at = words[change / CHANGES];
        match change % CHANGES {
            0 => tokens[at] = "",
            1 => tokens.insert(at, tokens[at]),
            _ => tokens.swap(at, words[Draw::seeded(number as u64).below(words.len())]),
        }
        tokens.concat()
    }
}

/// Which tokens mean something.
fn words(tokens: &[&str]) -> Vec<usize> {
    let means = |token: &str| {
        let is_comment =
            token.starts_with('#') || token.starts_with("//") || token.starts_with("/*");
        !is_comment && !token.trim().is_empty()
    };
    (0..tokens.len()).filter(|at| means(tokens[*at])).collect()
}

/// A text in pieces: words, strings, comments, white space and single signs.
fn tokens(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (token, after) = rest.split_at(token_len(rest, first));
        out.push(token);
        rest = after;
    }
    out
}

fn token_len(rest: &str, first: char) -> usize {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let until = |end: &str, from: usize| rest[from..].find(end).map(|at| from + at + end.len());
    let len = match first {
        _ if is_word(first) => rest.find(|c| !is_word(c)),
        _ if first.is_whitespace() => rest.find(|c: char| !c.is_whitespace()),
        '#' => rest.find('\n'),
        '/' if rest.starts_with("//") => rest.find('\n'),
        '/' if rest.starts_with("/*") => until("*/", 2),
        '{' if rest.starts_with("{\"") => until("\"}", 2),
        '"' if rest.starts_with("\"\"\"") => until("\"\"\"", 3),
        '"' => rest[1..].find(['"', '\n']).map(|at| at + 2),
        _ => Some(first.len_utf8()),
    };
    len.unwrap_or(rest.len())
}

//! Smaller policies and fewer requests that show the same difference.

use super::requests::Ask;
use super::{Pair, kind};

/// The policy, the requests and the difference, as text.
pub(super) fn shrunk(pair: &mut Pair, policy: &str, mut asks: Vec<Ask>, wanted: &str) -> String {
    let mut differs =
        |policy: &str, asks: &[Ask]| pair.once(policy, asks).filter(|found| kind(found) == wanted);
    let mut lines: Vec<&str> = policy.lines().collect();
    for at in (0..asks.len()).rev() {
        let mut fewer = asks.clone();
        fewer.remove(at);
        if differs(policy, &fewer).is_some() {
            asks = fewer;
        }
    }
    let mut size = lines.len().div_ceil(2).max(1);
    loop {
        let mut at = 0;
        while at < lines.len() {
            let end = (at + size).min(lines.len());
            let fewer: Vec<&str> = [&lines[..at], &lines[end..]].concat();
            // Objects of others are not to be found.
            let is_apart = fewer.iter().any(|line| line.contains("hash_data(\"SEED\")"));
            if is_apart && differs(&fewer.join("\n"), &asks).is_some() {
                lines = fewer;
            } else {
                at = end;
            }
        }
        if size == 1 {
            break;
        }
        size = size.div_ceil(2);
    }
    let text = lines.join("\n");
    let difference = differs(&text, &asks).unwrap_or_default();
    let asks: String = asks
        .into_iter()
        .map(|ask| format!("{}{}", if ask.is_beside { "(beside) " } else { "" }, ask.text))
        .collect();
    format!("{difference}\n{text}\n{asks}")
}

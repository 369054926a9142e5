//! From words to stages of a roll-out.

use anyhow::{Result, bail};
use std::collections::BTreeMap;

/// Nodes with their labels.
pub(super) type Labels = BTreeMap<String, Vec<String>>;

/// So many of `all` as a word says, which is a share (`5%`) or a number.
pub(super) fn share(word: &str, all: usize) -> Option<usize> {
    match (word.strip_suffix('%').map(str::parse::<usize>), word.parse::<usize>()) {
        (Some(Ok(percent)), _) if percent <= 100 => Some((all * percent).div_ceil(100)),
        (None, Ok(count)) => Some(count),
        _ => None,
    }
}

/// The stages that words name, the last one with all the rest. A word is a share of the nodes (`5%`), a
/// number of them, a label or a node; shares and numbers count those of the stages before.
///
/// # Errors
/// A word that names nothing.
pub(super) fn stages(words: &[String], nodes: &Labels) -> Result<Vec<Vec<String>>> {
    let names = || nodes.keys().cloned();
    let mut chosen: Vec<String> = Vec::new();
    let mut stages = Vec::new();
    for word in words {
        let stage: Vec<_> = match share(word, nodes.len()) {
            Some(count) => {
                let more = count.saturating_sub(chosen.len());
                names().filter(|name| !chosen.contains(name)).take(more).collect()
            }
            None => {
                let is_meant = |(name, labels): &(&String, &Vec<String>)| {
                    *name == word || labels.contains(word)
                };
                let meant: Vec<_> = nodes.iter().filter(is_meant).map(|(n, _)| n.clone()).collect();
                if meant.is_empty() {
                    bail!("no node that answers is called `{word}` or has that label");
                }
                meant
            }
        };
        chosen.extend(stage.iter().cloned());
        stages.push(stage);
    }
    stages.push(names().collect());
    Ok(stages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_stages() {
        let node = |number: usize| {
            let labels = if number > 37 { vec!["berlin".to_owned()] } else { Vec::new() };
            (format!("n{number:02}"), labels)
        };
        let nodes: Labels = (0..40).map(node).collect();
        let counts = |words: &[&str]| {
            let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
            stages(&words, &nodes).map(|stages| stages.iter().map(Vec::len).collect::<Vec<_>>())
        };
        assert_eq!(counts(&["1", "5%", "50%"]).unwrap(), [1, 1, 18, 40]);
        assert_eq!(counts(&["berlin", "n07", "100%"]).unwrap(), [2, 1, 37, 40]);
        assert_eq!(counts(&[]).unwrap(), [40]);
        for wrong in ["canary", "101%", "x%", ""] {
            assert!(counts(&[wrong]).is_err(), "{wrong}");
        }
    }
}

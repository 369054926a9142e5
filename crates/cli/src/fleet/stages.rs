//! From words to stages of a roll-out.

use anyhow::{Result, bail};
use freshet_fleet::config::ConfigState;
use std::collections::BTreeMap;

/// The stages that words name, the last one with all the rest. A word is a share of the nodes (`5%`), a
/// number of them, a label or a node; shares and numbers count those of the stages before.
///
/// # Errors
/// A word that names nothing.
pub(super) fn stages(
    words: &[String],
    nodes: &BTreeMap<String, ConfigState>,
) -> Result<Vec<Vec<String>>> {
    let names = || nodes.keys().cloned();
    let mut chosen: Vec<String> = Vec::new();
    let mut stages = Vec::new();
    for word in words {
        let count = match (word.strip_suffix('%').map(str::parse::<usize>), word.parse::<usize>()) {
            (Some(Ok(percent)), _) if percent <= 100 => Some((nodes.len() * percent).div_ceil(100)),
            (None, Ok(count)) => Some(count),
            _ => None,
        };
        let stage: Vec<_> = match count {
            Some(count) => {
                let more = count.saturating_sub(chosen.len());
                names().filter(|name| !chosen.contains(name)).take(more).collect()
            }
            None => {
                let is_meant = |(name, state): &(&String, &ConfigState)| {
                    *name == word || state.labels.contains(word)
                };
                let meant: Vec<_> = nodes.iter().filter(is_meant).map(|(n, _)| n.clone()).collect();
                if meant.is_empty() {
                    bail!("no node of the group that answers is called `{word}` or has that label");
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
            (format!("n{number:02}"), ConfigState { labels, ..ConfigState::default() })
        };
        let nodes: BTreeMap<_, _> = (0..40).map(node).collect();
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

//! Forgetting policies, unless one that stays needs them.

use super::State;
use super::policies::{Policy, What};
use crate::cli::{Reply, Status};
use crate::glob;
use std::fmt::Write as _;

/// How many of those that need a policy are told.
const TOLD_MAX: usize = 5;

pub(super) fn discard(state: &mut State, words: &[String]) -> Reply {
    let names = match named(state, &words[1..]) {
        Ok(names) => names,
        Err(reply) => return reply,
    };
    let goes = |policy: &Policy| names.contains(&policy.name);
    let needed = names.iter().find(|name| dependents(state, name).any(|policy| !goes(policy)));
    if let Some(name) = needed {
        return Reply::error(Status::Cannot, why_needed(state, name));
    }
    for policy in state.policies.all.iter().filter(|policy| goes(policy)) {
        if let (What::Program { program, .. }, Some(child)) = (&policy.what, &state.child) {
            for (tag, line) in program.policy().unload() {
                child.journal.note(tag, &line);
            }
        }
    }
    state.policies.all.retain(|policy| !goes(policy));
    state.policies_changed();
    Reply::ok()
}

/// The names of the policies and labels that patterns mean.
fn named(state: &State, patterns: &[String]) -> Result<Vec<String>, Reply> {
    let mut names = Vec::new();
    for pattern in patterns {
        let all = state.policies.all.iter().map(|policy| &policy.name);
        let matching: Vec<_> = all.filter(|name| glob::matches(pattern, name)).cloned().collect();
        if let Some(active) =
            matching.iter().find(|name| state.policies.active.as_ref() == Some(name))
        {
            let text = format!("Cannot discard active VCL program {active}\n");
            return Err(Reply::error(Status::Cannot, text));
        }
        if matching.is_empty() {
            let text = format!("No VCL name matches {pattern}\n");
            return Err(Reply::error(Status::Parameter, text));
        }
        names.extend(matching);
    }
    Ok(names)
}

/// Labels of a policy, or those that go on with a label.
fn dependents<'a>(state: &'a State, name: &'a str) -> impl Iterator<Item = &'a Policy> {
    state.policies.all.iter().filter(move |policy| match &policy.what {
        What::Label(target) => target == name,
        What::Program { program, .. } => program.labels().contains(&name),
    })
}

fn why_needed(state: &State, name: &str) -> String {
    let is_label = state
        .policies
        .all
        .iter()
        .any(|policy| policy.name == name && matches!(policy.what, What::Label(_)));
    let mut text = if is_label {
        format!("Cannot discard VCL label {name}, other VCLs depend on it:\n")
    } else {
        format!("Cannot discard labeled VCL program {name}:\n")
    };
    for (at, policy) in dependents(state, name).enumerate() {
        if at == TOLD_MAX {
            text.push_str("\t[...]");
            break;
        }
        let _ = writeln!(text, "\t{}", policy.name);
    }
    text
}

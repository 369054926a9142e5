//! Policies: loading, naming and using them.

use super::State;
use crate::cli::{Reply, Status, table};
use crate::program::Program;
use freshet_base::file;
use freshet_vcl::SOURCE_BYTES_MAX;
use serde_json::json;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Whether a policy is kept ready.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Temperature {
    /// While it is in use and for a while after.
    Auto,
    /// No.
    Cold,
    /// Yes.
    Warm,
}

impl Temperature {
    fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Cold => "cold",
            Self::Warm => "warm",
        }
    }

    fn parse(text: &str) -> Result<Self, Reply> {
        match text {
            "auto" => Ok(Self::Auto),
            "cold" => Ok(Self::Cold),
            "warm" => Ok(Self::Warm),
            _ => Err(Reply::error(Status::Parameter, "State must be one of auto, cold or warm.")),
        }
    }
}

/// A policy by its name, or a label.
#[derive(Debug)]
pub(crate) struct Policy {
    /// Its name.
    pub(crate) name: String,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    Program {
        program: Arc<Program>,
        state: Temperature,
        unused_since: Instant,
    },
    /// Another name for this policy.
    Label(String),
}

/// All policies, in the order they came.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    pub(super) all: Vec<Policy>,
    /// Name of the one in use: a policy's or a label's.
    pub(super) active: Option<String>,
}

impl Policies {
    /// The one in use.
    pub(crate) fn active(&self) -> Option<&Arc<Program>> {
        self.program(self.active.as_deref()?)
    }

    /// The name of the one in use.
    pub(crate) fn active_name(&self) -> Option<&str> {
        let name = self.active.as_deref()?;
        match &self.find(name)?.what {
            What::Program { .. } => Some(name),
            What::Label(target) => Some(target),
        }
    }

    /// The policy of this name or label.
    pub(crate) fn program(&self, name: &str) -> Option<&Arc<Program>> {
        match &self.find(name)?.what {
            What::Program { program, .. } => Some(program),
            What::Label(target) => match &self.find(target)?.what {
                What::Program { program, .. } => Some(program),
                What::Label(_) => None,
            },
        }
    }

    /// Policies that are ready, with their names; `cooldown` is how long one out of use stays so.
    pub(crate) fn warm(&self, cooldown: Duration) -> impl Iterator<Item = (&str, &Arc<Program>)> {
        self.all.iter().filter_map(move |policy| match &policy.what {
            What::Program { program, .. } if self.is_warm(policy, cooldown) => {
                Some((policy.name.as_str(), program))
            }
            _ => None,
        })
    }

    /// All policies with their names, labels left out.
    pub(crate) fn programs(&self) -> impl Iterator<Item = (&str, &Arc<Program>)> {
        self.all.iter().filter_map(|policy| match &policy.what {
            What::Program { program, .. } => Some((policy.name.as_str(), program)),
            What::Label(_) => None,
        })
    }

    /// Labels with the policies they stand for.
    pub(crate) fn labels(&self) -> impl Iterator<Item = (&str, &Arc<Program>)> {
        self.all.iter().filter_map(|policy| match &policy.what {
            What::Label(_) => Some((policy.name.as_str(), self.program(&policy.name)?)),
            What::Program { .. } => None,
        })
    }

    /// How many there are, labels left out.
    pub(crate) fn len(&self) -> usize {
        self.all.iter().filter(|each| matches!(each.what, What::Program { .. })).count()
    }

    fn find(&self, name: &str) -> Option<&Policy> {
        self.all.iter().find(|policy| policy.name == name)
    }

    fn known(&self, name: &str) -> Result<&Policy, Reply> {
        self.find(name)
            .ok_or_else(|| Reply::error(Status::Parameter, format!("No VCL named {name} known\n")))
    }

    fn is_warm(&self, policy: &Policy, cooldown: Duration) -> bool {
        match &policy.what {
            What::Label(_) => true,
            What::Program { state: Temperature::Warm, .. } => true,
            What::Program { state: Temperature::Cold, .. } => false,
            What::Program { unused_since, .. } => {
                self.active_name() == Some(&policy.name)
                    || self.labels_of(&policy.name).next().is_some()
                    || unused_since.elapsed() < cooldown
            }
        }
    }

    fn labels_of(&self, name: &str) -> impl Iterator<Item = &str> {
        self.all.iter().filter_map(move |policy| match &policy.what {
            What::Label(target) if target == name => Some(policy.name.as_str()),
            _ => None,
        })
    }

    /// Those that are ready for a while only, and until when.
    pub(crate) fn cooling(&self, cooldown: Duration) -> Vec<(String, Instant)> {
        let active = self.active_name();
        let cools = |policy: &Policy| match &policy.what {
            What::Program { state: Temperature::Auto, unused_since, .. }
                if active != Some(&policy.name)
                    && self.labels_of(&policy.name).next().is_none() =>
            {
                Some((policy.name.clone(), *unused_since + cooldown))
            }
            _ => None,
        };
        self.all.iter().filter_map(cools).collect()
    }

    /// Whether requests to `from` can come to the label `to`.
    fn leads_to(&self, from: &str, to: &str) -> bool {
        let mut seen: Vec<&str> = Vec::new();
        let mut open = vec![from];
        while let Some(name) = open.pop() {
            let Some(policy) = self.find(name).filter(|_| !seen.contains(&name)) else { continue };
            seen.push(name);
            match &policy.what {
                What::Label(target) => open.push(target),
                What::Program { program, .. } => {
                    let labels = program.labels();
                    if labels.contains(&to) {
                        return true;
                    }
                    open.extend(labels);
                }
            }
        }
        false
    }

    /// Restarts the time of those that go out of use.
    fn touch(&mut self, name: Option<&str>) {
        let Some(name) = name else { return };
        for policy in &mut self.all {
            if let What::Program { unused_since, .. } = &mut policy.what
                && policy.name == name
            {
                *unused_since = Instant::now();
            }
        }
    }
}

pub(super) fn inline(state: &mut State, words: &[String]) -> Reply {
    let [_, name, text, rest @ ..] = words else { return super::too_few() };
    finish(add(state, name, "<vcl.inline>", text, rest.first()))
}

pub(super) fn load(state: &mut State, words: &[String]) -> Reply {
    let [_, name, file, rest @ ..] = words else { return super::too_few() };
    // What is wrong with the words is told before the file is looked for.
    let temperature = rest.first().map_or(Ok(Temperature::Auto), |word| Temperature::parse(word));
    if let Err(reply) = check_name(name).and(temperature) {
        return reply;
    }
    let found = match find_file(state, file) {
        Ok(found) => found,
        Err(why) => return Reply::error(Status::Parameter, why),
    };
    finish(add(state, name, &found.0, &found.1, rest.first()))
}

fn finish(result: Result<String, Reply>) -> Reply {
    result.map_or_else(|reply| reply, Reply::text)
}

/// The file of this name: as it is, or in a directory of `vcl_path`; with its text.
pub(super) fn find_file(state: &State, file: &str) -> Result<(String, String), String> {
    let mut paths = vec![file.to_owned()];
    if !file.starts_with(['/', '.']) {
        let directories = state.parameters.text("vcl_path").split(':');
        paths = directories.map(|directory| format!("{directory}/{file}")).collect();
    }
    for path in &paths {
        if let Ok(text) = file::read_text(path.as_ref(), SOURCE_BYTES_MAX as u64) {
            return Ok((path.clone(), text));
        }
    }
    Err(format!("Cannot read file '{file}' (No such file or directory)\nVCL compilation failed"))
}

/// Compiles a policy and adds it under a name; answers what is to be said.
pub(super) fn add(
    state: &mut State,
    name: &str,
    source: &str,
    text: &str,
    temperature: Option<&String>,
) -> Result<String, Reply> {
    check_name(name)?;
    if state.policies.find(name).is_some() {
        let text = format!("Already a VCL named {name}");
        return Err(Reply::error(Status::Parameter, text));
    }
    let temperature = temperature.map_or(Ok(Temperature::Auto), |word| Temperature::parse(word))?;
    let count = state.policies.len() as u64;
    let (most, handling) =
        (state.parameters.integer("max_vcl"), state.parameters.integer("max_vcl_handling"));
    let hint = "(See max_vcl and max_vcl_handling parameters)";
    if count >= most && handling == 2 {
        let text = format!("Too many ({count}) VCLs already loaded\n{hint}");
        return Err(Reply::error(Status::Cannot, text));
    }
    let program = Program::compile(name, source, text, state)
        .map_err(|why| Reply::error(Status::Parameter, why))?;
    let mut text = format!("{}VCL compiled.\n", program.warnings());
    state.policies.all.push(Policy {
        name: name.into(),
        what: What::Program {
            program: Arc::new(program),
            state: temperature,
            unused_since: Instant::now(),
        },
    });
    state.policies_changed();
    if let (Some(child), Some(program)) = (&state.child, state.policies.program(name)) {
        program.note_loaded(name, &child.journal);
    }
    if count >= most && handling == 1 {
        let _ = write!(
            text,
            "{} VCLs loaded\nRemember to vcl.discard the old/unused VCLs.\n{hint}",
            count + 1
        );
    }
    Ok(text)
}

/// Names begin with a letter and go on with letters, digits, `_`, `-` and `.`.
fn check_name(name: &str) -> Result<(), Reply> {
    let wrong = name.char_indices().find(|(at, c)| {
        let fits =
            c.is_ascii_alphabetic() || (*at > 0 && (c.is_ascii_digit() || matches!(c, '_' | '-')));
        !fits
    });
    match wrong {
        None if !name.is_empty() => Ok(()),
        None => Err(Reply::error(Status::Parameter, "Illegal character in VCL name ")),
        Some((_, c)) => {
            let text = format!("Illegal character in VCL name ('{c}')");
            Err(Reply::error(Status::Parameter, text))
        }
    }
}

pub(super) fn use_(state: &mut State, words: &[String]) -> Reply {
    let [_, name, ..] = words else { return super::too_few() };
    let policy = match check_name(name).and_then(|()| state.policies.known(name)) {
        Ok(policy) => policy,
        Err(reply) => return reply,
    };
    if matches!(policy.what, What::Program { state: Temperature::Cold, .. }) {
        let text = format!("VCL '{name}' is cold - set to auto or warm first");
        return Reply::error(Status::Cannot, text);
    }
    let before = state.policies.active_name().map(ToOwned::to_owned);
    state.policies.active = Some(name.clone());
    state.policies.touch(before.as_deref());
    state.policies_changed();
    if let Err(why) = state.apply() {
        return Reply::error(Status::Cannot, why);
    }
    Reply::text(format!("VCL '{name}' now active"))
}

pub(super) fn label(state: &mut State, words: &[String]) -> Reply {
    let [_, name, target, ..] = words else { return super::too_few() };
    if let Err(reply) = check_name(name) {
        return reply;
    }
    match state.policies.known(target) {
        Err(reply) => return reply,
        Ok(Policy { what: What::Label(_), .. }) => {
            return Reply::error(Status::Cannot, "VCL labels cannot point to labels");
        }
        Ok(Policy { what: What::Program { state: Temperature::Cold, .. }, .. }) => {
            let text = format!("VCL '{target}' is cold - set to auto or warm first");
            return Reply::error(Status::Cannot, text);
        }
        Ok(_) => {}
    }
    if state.policies.leads_to(target, name) {
        let text = format!("return (vcl({name})) of VCL '{target}' would create a loop");
        return Reply::error(Status::Parameter, text);
    }
    match state.policies.all.iter_mut().find(|policy| policy.name == *name) {
        Some(Policy { what: What::Label(now), .. }) => now.clone_from(target),
        Some(_) => return Reply::error(Status::Parameter, format!("{name} is not a label")),
        None => {
            let what = What::Label(target.clone());
            state.policies.all.push(Policy { name: name.clone(), what });
        }
    }
    state.policies_changed();
    state.apply().map_or_else(|why| Reply::error(Status::Cannot, why), |()| Reply::ok())
}

pub(super) fn state(state: &mut State, words: &[String]) -> Reply {
    let [_, name, word, ..] = words else { return super::too_few() };
    let policy = match check_name(name).and_then(|()| state.policies.known(name)) {
        Ok(policy) => policy,
        Err(reply) => return reply,
    };
    let wanted = match Temperature::parse(word) {
        Ok(wanted) => wanted,
        Err(reply) => return reply,
    };
    if matches!(policy.what, What::Label(_)) {
        return Reply::error(Status::Parameter, "Labels are always warm");
    }
    if wanted == Temperature::Cold {
        if state.policies.labels_of(name).next().is_some() {
            return Reply::error(Status::Cannot, "A labeled VCL cannot be set cold");
        }
        if state.policies.active_name() == Some(name) {
            return Reply::error(Status::Cannot, "Cannot set the active VCL cold.");
        }
    }
    for policy in &mut state.policies.all {
        if let What::Program { state, unused_since, .. } = &mut policy.what
            && policy.name == *name
        {
            (*state, *unused_since) = (wanted, Instant::now());
        }
    }
    state.policies_changed();
    Reply::ok()
}

pub(super) fn list(state: &mut State, words: &[String]) -> Reply {
    let cooldown = state.cooldown();
    let is_serving = state.child.is_some();
    let policies = &state.policies;
    let is_json = words.get(1).is_some_and(|word| word == "-j");
    let (mut rows, mut all) = (String::new(), Vec::new());
    for policy in &policies.all {
        let is_active = policies.active.as_deref() == Some(&policy.name);
        let status = if is_active { "active" } else { "available" };
        let warm = if policies.is_warm(policy, cooldown) { "warm" } else { "cold" };
        let kind = match &policy.what {
            What::Program { state, .. } => state.name(),
            What::Label(_) => "label",
        };
        // Requests under way are not told apart.
        let busy = 0;
        let held = if is_serving { busy.to_string() } else { "-".to_owned() };
        let mut row = format!("{status}\t{kind}\t{warm}\t{held:>6}\t{}", policy.name);
        let mut object = json!({
            "status": status, "state": kind, "temperature": warm, "busy": busy,
            "name": policy.name,
        });
        match &policy.what {
            What::Label(target) => {
                let users = policies.all.iter().filter(|other| match &other.what {
                    What::Program { program, .. } => {
                        program.labels().contains(&policy.name.as_str())
                    }
                    What::Label(_) => false,
                });
                let users = users.count();
                let _ = write!(row, "\t->\t{target}");
                object["label"] = json!({ "name": target });
                if users > 0 {
                    let plural = if users > 1 { "'s" } else { "" };
                    let _ = write!(row, " ({users} return(vcl){plural})");
                    object["label"]["refs"] = json!(users);
                }
            }
            What::Program { .. } => {
                let labels = policies.labels_of(&policy.name).count();
                if labels > 0 {
                    let plural = if labels > 1 { "s" } else { "" };
                    let _ = write!(row, "\t<-\t({labels} label{plural})");
                    object["labels"] = json!(labels);
                }
            }
        }
        rows.push_str(&row);
        rows.push('\n');
        all.push(object);
    }
    if is_json { Reply::json(2, words, &all) } else { Reply::text(table(&rows)) }
}

pub(super) fn show(state: &mut State, words: &[String]) -> Reply {
    let is_all = words.get(1).is_some_and(|word| word == "-v");
    let name = match words.get(if is_all { 2 } else { 1 }).map(String::as_str) {
        Some(name) if words.len() == if is_all { 3 } else { 2 } => name.to_owned(),
        Some(_) => {
            let what = words.get(1).map_or("", String::as_str);
            return Reply::error(Status::Parameter, format!("Unknown option: {what}"));
        }
        None => match state.policies.active_name() {
            Some(name) => name.to_owned(),
            None => return Reply::error(Status::Parameter, "No active VCL\n"),
        },
    };
    let program = match state.policies.known(&name) {
        Ok(Policy { what: What::Program { program, .. }, .. }) => program,
        Ok(Policy { what: What::Label(target), .. }) => {
            return Reply::text(format!("Label '{name}' points to VCL '{target}'\n"));
        }
        Err(reply) => return reply,
    };
    let mut out = String::new();
    for (number, (source, text)) in program.sources().enumerate() {
        if is_all {
            let _ = writeln!(out, "// VCL.SHOW {number} {} {source}\n{text}", text.len());
        } else if number == 0 {
            out.push_str(text);
        }
    }
    Reply::text(out)
}

pub(super) fn deps(state: &mut State, words: &[String]) -> Reply {
    let (mut rows, mut all) = (String::new(), Vec::new());
    for policy in &state.policies.all {
        let on: Vec<&str> = match &policy.what {
            What::Label(target) => vec![target],
            What::Program { program, .. } => program.labels(),
        };
        if on.is_empty() {
            let _ = writeln!(rows, "{}", policy.name);
        }
        for target in &on {
            let _ = writeln!(rows, "{}\t{target}", policy.name);
        }
        all.push(json!({ "name": policy.name, "deps": on }));
    }
    if words.get(1).is_some_and(|word| word == "-j") {
        return Reply::json(2, words, &all);
    }
    Reply::text(table(&rows))
}

pub(super) fn symtab(state: &mut State, _: &[String]) -> Reply {
    let mut out = String::new();
    for policy in &state.policies.all {
        match &policy.what {
            What::Program { .. } => {
                let _ = writeln!(out, "Vcl: {}", policy.name);
            }
            What::Label(target) => {
                let _ = writeln!(out, "Label: {}\n  vcl: {target}", policy.name);
            }
        }
    }
    Reply::text(out)
}

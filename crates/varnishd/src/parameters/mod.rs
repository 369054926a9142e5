//! Run-time parameters: what they are, how their values are read and shown.

mod table;
mod value;

use serde_json::{Value as Json, json};
use std::fmt::Write as _;
use value::Bounded;
pub(crate) use value::{Value, bytes};

/// The type of a parameter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// `on` or `off`.
    Bool,
    /// A whole number.
    Integer,
    /// A number.
    Real,
    /// Seconds, with a fraction.
    Duration,
    /// Bytes, with a suffix.
    Bytes,
    /// Some of these flags.
    Flags(&'static [&'static str]),
    /// The log records that are written.
    LogMask,
    /// Three numbers.
    Pool,
    /// Any text.
    Text,
}

/// A parameter as the table has it.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) unit: &'static str,
    pub(crate) default: &'static str,
    pub(crate) minimum: &'static str,
    pub(crate) maximum: &'static str,
    pub(crate) remarks: &'static [&'static str],
    pub(crate) about: &'static str,
}

/// Why a parameter was not set.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum ParameterError {
    /// There is none of this name.
    #[error("Unknown parameter \"{0}\".")]
    Unknown(String),
    /// It was made read-only when the program started.
    #[error("parameter \"{0}\" is protected.")]
    Protected(String),
    /// The value does not fit.
    #[error("{why}\n\n(attempting to set param '{name}' to '{text}')")]
    Value {
        /// What is wrong.
        why: String,
        /// The parameter.
        name: String,
        /// The value given.
        text: String,
    },
}

#[derive(Debug)]
struct Parameter {
    definition: &'static Definition,
    value: Value,
    default: Value,
    protected: bool,
}

/// A bound that is another parameter's value, and what that is called.
enum PairBound {
    Least(u64, &'static str),
    Most(u64, &'static str),
}

/// All parameters with their values.
#[derive(Debug)]
pub(crate) struct Parameters(Vec<Parameter>);

impl Parameters {
    /// All at their defaults.
    pub(crate) fn new() -> Self {
        let parameters = table::DEFINITIONS.iter().map(|definition| {
            let default = definition
                .kind
                .parse(definition.name, definition.default, None, Bounded::default())
                .expect("a test has read every default");
            Parameter { definition, value: default.clone(), default, protected: false }
        });
        Self(parameters.collect())
    }

    /// Sets a parameter.
    pub(crate) fn set(&mut self, name: &str, text: &str) -> Result<(), ParameterError> {
        if name == table::COMPILER_FEATURES {
            return self.set_compiler_features(text);
        }
        let parameter = self.one_mut(name)?;
        if parameter.protected {
            return Err(ParameterError::Protected(name.into()));
        }
        let refuse = |why| ParameterError::Value { why, name: name.into(), text: text.into() };
        if text == "default" && !matches!(parameter.definition.kind, Kind::Flags(_)) {
            return self.reset(name);
        }
        let bounds = parameter.definition.bounds();
        let (kind, before) = (parameter.definition.kind, parameter.value.clone());
        let value = kind.parse(name, text, Some((&before, &parameter.default)), bounds);
        let value = value.map_err(refuse)?;
        self.check_pair(name, &value).map_err(refuse)?;
        self.one_mut(name)?.value = value;
        Ok(())
    }

    /// From 7.2 on Varnish has one parameter with flags for what were switches of the compiler.
    fn set_compiler_features(&mut self, text: &str) -> Result<(), ParameterError> {
        for word in text.split([',', ' ']).filter(|word| !word.is_empty()) {
            let switch = format!("vcc_{}", word.trim_start_matches(['+', '-']));
            let refuse = |why: String| ParameterError::Value {
                why,
                name: table::COMPILER_FEATURES.into(),
                text: text.into(),
            };
            if word == "default" || word == "none" {
                for name in table::COMPILER_SWITCHES {
                    if word == "none" { self.set(name, "off")? } else { self.reset(name)? }
                }
            } else if !word.starts_with(['+', '-']) {
                return Err(refuse("Missing '+' or '-'".into()));
            } else if !table::COMPILER_SWITCHES.contains(&&*switch) {
                return Err(refuse(format!("Unknown flag '{}'", &word[1..])));
            } else {
                self.set(&switch, if word.starts_with('+') { "on" } else { "off" })?;
            }
        }
        Ok(())
    }

    /// The pool of threads has a smallest and a largest size and a reserve, each another's bound.
    fn pair_bound(&self, name: &str) -> Option<PairBound> {
        Some(match name {
            "thread_pool_min" => {
                PairBound::Most(self.integer("thread_pool_max"), "thread_pool_max")
            }
            "thread_pool_max" => {
                PairBound::Least(self.integer("thread_pool_min"), "thread_pool_min")
            }
            "thread_pool_reserve" => {
                let most = self.integer("thread_pool_min") * 95 / 100;
                PairBound::Most(most, "95% of thread_pool_min")
            }
            _ => return None,
        })
    }

    fn check_pair(&self, name: &str, value: &Value) -> Result<(), String> {
        let Value::Integer(number) = *value else { return Ok(()) };
        match self.pair_bound(name) {
            Some(PairBound::Least(least, why)) if number < least => {
                Err(format!("Must be at least {least} ({why})"))
            }
            Some(PairBound::Most(most, why)) if number > most => {
                Err(format!("Must be no more than {most} ({why})"))
            }
            _ => Ok(()),
        }
    }

    /// Whether a change of it is for policies that are loaded from then on.
    pub(crate) fn waits_for_reload(&self, name: &str) -> bool {
        self.one(name).is_ok_and(|one| one.definition.remarks.contains(&"must_reload"))
    }

    /// The bounds of a parameter now: of those of the pool of threads some are others' values.
    fn bounds_now(&self, definition: &Definition) -> [String; 2] {
        let (minimum, maximum) = (definition.minimum.to_owned(), definition.maximum.to_owned());
        match self.pair_bound(definition.name) {
            Some(PairBound::Least(least, _)) => [least.to_string(), maximum],
            Some(PairBound::Most(most, _)) => [minimum, most.to_string()],
            None => [minimum, maximum],
        }
    }

    /// Sets a parameter back to its default.
    pub(crate) fn reset(&mut self, name: &str) -> Result<(), ParameterError> {
        let parameter = self.one(name)?;
        if parameter.protected {
            return Err(ParameterError::Protected(name.into()));
        }
        let default = parameter.default.clone();
        self.check_pair(name, &default).map_err(|why| ParameterError::Value {
            why,
            name: name.into(),
            text: default.to_string(),
        })?;
        self.one_mut(name)?.value = default;
        Ok(())
    }

    /// Forbids to change a parameter from now on.
    pub(crate) fn protect(&mut self, name: &str) -> Result<(), ParameterError> {
        self.one_mut(name)?.protected = true;
        Ok(())
    }

    /// Whether a switch is on. A name that is none is off.
    pub(crate) fn bool(&self, name: &str) -> bool {
        matches!(self.value(name), Some(Value::Bool(true)))
    }

    /// A whole number or a number of bytes; 0 for a name that is none.
    pub(crate) fn integer(&self, name: &str) -> u64 {
        match self.value(name) {
            Some(Value::Integer(number) | Value::Bytes(number)) => *number,
            _ => 0,
        }
    }

    /// Seconds; 0 for a name that is none.
    pub(crate) fn seconds(&self, name: &str) -> f64 {
        match self.value(name) {
            Some(Value::Real(number)) => *number,
            #[allow(clippy::cast_precision_loss, reason = "seconds are far below 2^52")]
            Some(Value::Integer(number)) => *number as f64,
            _ => 0.0,
        }
    }

    /// Text; empty for a name that is none.
    pub(crate) fn text(&self, name: &str) -> &str {
        match self.value(name) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    /// Whether a flag of a parameter is set.
    pub(crate) fn flag(&self, name: &str, flag: &str) -> bool {
        match self.value(name) {
            Some(Value::Flags(set)) => set.contains(&flag),
            _ => false,
        }
    }

    /// Numbers of the log tags that are not written.
    pub(crate) fn masked(&self) -> Vec<u8> {
        match self.value("vsl_mask") {
            Some(Value::Mask(masked)) => masked.iter().copied().collect(),
            _ => Vec::new(),
        }
    }

    /// What `param.show` prints: one parameter at length, or a line for each.
    pub(crate) fn show(&self, which: &Which<'_>) -> Result<String, ParameterError> {
        let mut out = String::new();
        match which {
            Which::One(name) => self.describe(self.one(name)?, &mut out),
            Which::All => self.0.iter().for_each(|parameter| parameter.line(&mut out)),
            Which::AllAtLength => self.0.iter().for_each(|each| self.describe(each, &mut out)),
            Which::Changed => {
                let changed = self.0.iter().filter(|each| each.value != each.default);
                changed.for_each(|parameter| parameter.line(&mut out));
            }
        }
        Ok(out)
    }

    /// The same as JSON objects.
    pub(crate) fn show_json(&self, which: &Which<'_>) -> Result<Vec<Json>, ParameterError> {
        Ok(match which {
            Which::One(name) => vec![self.json(self.one(name)?)],
            Which::All | Which::AllAtLength => self.0.iter().map(|each| self.json(each)).collect(),
            Which::Changed => {
                let changed = self.0.iter().filter(|each| each.value != each.default);
                changed.map(|each| self.json(each)).collect()
            }
        })
    }

    /// The reference `-x parameter` prints.
    pub(crate) fn reference() -> String {
        let mut out = String::new();
        for definition in table::DEFINITIONS {
            let _ = writeln!(out, "\n.. _ref_param_{0}:\n\n{0}", definition.name);
            let _ = writeln!(out, "{}", "~".repeat(definition.name.len()));
            for (what, value) in [
                ("Units", definition.unit),
                ("Default", definition.default),
                ("Minimum", definition.minimum),
                ("Maximum", definition.maximum),
            ] {
                if !value.is_empty() {
                    let _ = writeln!(out, "\t* {what}: {value}");
                }
            }
            let _ = writeln!(out, "\n{}", definition.about);
        }
        out
    }

    fn describe(&self, parameter: &Parameter, out: &mut String) {
        parameter.describe(self.bounds_now(parameter.definition), out);
    }

    fn json(&self, parameter: &Parameter) -> Json {
        parameter.json(&self.bounds_now(parameter.definition))
    }

    fn value(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|each| each.definition.name == name).map(|each| &each.value)
    }

    fn one(&self, name: &str) -> Result<&Parameter, ParameterError> {
        let current = current_name(name);
        let found = self.0.iter().find(|each| each.definition.name == current);
        found.ok_or_else(|| ParameterError::Unknown(name.into()))
    }

    fn one_mut(&mut self, name: &str) -> Result<&mut Parameter, ParameterError> {
        let current = current_name(name);
        let found = self.0.iter_mut().find(|each| each.definition.name == current);
        found.ok_or_else(|| ParameterError::Unknown(name.into()))
    }
}

/// The name a parameter has now; some are still known by the one they had.
fn current_name(name: &str) -> &str {
    table::OLD_NAMES.iter().find(|(old, _)| *old == name).map_or(name, |(_, current)| current)
}

/// Which parameters to show.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Which<'a> {
    /// Every one, a line each.
    All,
    /// Every one, at length.
    AllAtLength,
    /// Those that are not at their default.
    Changed,
    /// This one.
    One(&'a str),
}

impl Definition {
    fn bounds(&self) -> Bounded {
        Bounded { minimum: self.minimum, maximum: self.maximum }
    }
}

impl Parameter {
    fn unit(&self) -> String {
        match self.definition.unit {
            "" => String::new(),
            unit => format!(" [{unit}]"),
        }
    }

    fn line(&self, out: &mut String) {
        let default = if self.value == self.default { " (default)" } else { "" };
        let (name, unit) = (self.definition.name, self.unit());
        let _ = writeln!(out, "{name:<29} {}{unit}{default}", self.value);
    }

    fn describe(&self, [minimum, maximum]: [String; 2], out: &mut String) {
        let name = self.definition.name;
        let unit = self.unit();
        let is_default = self.value == self.default;
        let default = if is_default { " (default)" } else { "" };
        let _ = writeln!(out, "{name}\n        Value is: {}{unit}{default}", self.value);
        if !is_default {
            let _ = writeln!(out, "        Default is: {}", self.default);
        }
        if !minimum.is_empty() {
            let _ = writeln!(out, "        Minimum is: {minimum}");
        }
        if !maximum.is_empty() {
            let _ = writeln!(out, "        Maximum is: {maximum}");
        }
        out.push('\n');
        wrapped(self.definition.about, out);
        let mut names = match self.definition.kind {
            Kind::Flags(names) => names,
            _ => &[],
        }
        .iter();
        if let Some(first) = names.next() {
            let names = names.fold((*first).to_owned(), |all, name| all + " " + name);
            out.push_str("\n        Flags, each with + or - before it:\n");
            wrapped(&names, out);
        }
        out.push('\n');
    }

    fn json(&self, [minimum, maximum]: &[String; 2]) -> Json {
        let Definition { name, unit, remarks, about, .. } = self.definition;
        let mut object = json!({
            "name": name,
            "implemented": true,
            "value": self.value.json(),
            "default": self.default.to_string(),
            "description": about,
            "flags": remarks,
        });
        for (key, value) in [("units", *unit), ("minimum", minimum), ("maximum", maximum)] {
            if !value.is_empty() {
                object[key] = json!(value);
            }
        }
        object
    }
}

/// Adds a text in lines of at most 72 characters, indented.
fn wrapped(text: &str, out: &mut String) {
    let mut line = String::new();
    for word in text.split(' ') {
        if !line.is_empty() && line.len() + word.len() > 63 {
            let _ = writeln!(out, "        {line}");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let _ = writeln!(out, "        {line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_reads_back_as_it_is_shown() {
        let parameters = Parameters::new();
        for parameter in &parameters.0 {
            let shown = parameter.default.to_string();
            match parameter.definition.kind {
                Kind::LogMask => assert!(shown.starts_with("-Debug,"), "{shown}"),
                _ => assert_eq!(shown, parameter.definition.default),
            }
        }
        assert_eq!(parameters.0.len(), 110);
        assert!(parameters.0.is_sorted_by_key(|each| each.definition.name));
    }

    #[test]
    fn values_out_of_bounds_are_refused_with_the_bound() {
        let mut parameters = Parameters::new();
        let refused = |result: Result<(), ParameterError>| result.expect_err("it does not fit");
        let why = refused(parameters.set("default_ttl", "xx")).to_string();
        assert_eq!(why, "Invalid number (xx)\n\n(attempting to set param 'default_ttl' to 'xx')");
        let why = refused(parameters.set("gzip_level", "10")).to_string();
        assert!(why.starts_with("Must be no more than 9\n"), "{why}");
        let why = refused(parameters.set("cli_limit", "12")).to_string();
        assert!(why.starts_with("Must be at least 128b\n"), "{why}");
        let why = refused(parameters.set("thread_pool_min", "5001")).to_string();
        assert!(why.starts_with("Must be no more than 5000 (thread_pool_max)\n"), "{why}");
        let why = refused(parameters.set("thread_pool_reserve", "96")).to_string();
        assert!(why.starts_with("Must be no more than 95 (95% of thread_pool_min)\n"), "{why}");
        parameters.set("thread_pool_max", "10000").expect("it may grow");
        parameters.set("thread_pool_min", "8000").expect("it fits now");
        let why = refused(parameters.reset("thread_pool_max")).to_string();
        assert!(why.starts_with("Must be at least 8000 (thread_pool_min)\n"), "{why}");
        let why = refused(parameters.set("pool_req", "10,1,1")).to_string();
        assert!(why.starts_with("min_pool cannot be larger than max_pool\n"), "{why}");
        let why = refused(parameters.set("pool_req", "10")).to_string();
        assert!(why.starts_with("Three fields required"), "{why}");
        parameters.protect("cli_timeout").expect("it exists");
        assert!(matches!(parameters.set("cli_timeout", "1"), Err(ParameterError::Protected(_))));
    }

    #[test]
    fn switches_of_the_compiler_are_flags_too() {
        let mut parameters = Parameters::new();
        parameters.set("vcc_feature", "-err_unref,-unsafe_path").expect("they are known");
        assert!(!parameters.bool("vcc_err_unref") && !parameters.bool("vcc_unsafe_path"));
        parameters.set("vcc_feature", "default").expect("it is known");
        assert!(parameters.bool("vcc_err_unref") && parameters.bool("vcc_unsafe_path"));
        assert!(parameters.set("vcc_feature", "+err_ref").is_err());
        assert!(parameters.set("vcc_feature", "err_unref").is_err());
    }

    #[test]
    fn flags_are_added_and_taken_away() {
        let mut parameters = Parameters::new();
        parameters.set("feature", "+http2,-validate_headers").expect("both are known");
        assert!(parameters.flag("feature", "http2"));
        assert!(!parameters.flag("feature", "validate_headers"));
        let changed = parameters.show(&Which::Changed).expect("it exists");
        assert_eq!(changed, "feature                       +http2\n");
        assert!(parameters.set("feature", "http2").is_err());
        assert!(parameters.set("feature", "+no_such_thing").is_err());
        parameters.set("feature", "none").expect("it is known");
        assert!(!parameters.flag("feature", "http2"));
        parameters.set("feature", "default").expect("it is known");
        assert!(parameters.flag("feature", "validate_headers"));
    }
}

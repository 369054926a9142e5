//! Signatures of functions, as manuals write them, read into types and parameters.

use crate::types::Type;

/// A parameter of a function.
#[derive(Debug)]
pub struct Parameter {
    /// The type of what is given.
    pub of: Type,
    /// Empty where it has none.
    pub name: &'static str,
    /// In square brackets: may be left out.
    pub optional: bool,
    /// What it is where nothing is given, as it is written in a policy.
    pub default: Option<&'static str>,
    /// Words of an ENUM.
    pub words: Vec<&'static str>,
}

/// A signature, read.
#[derive(Debug)]
pub struct Signature {
    /// The type of what comes back.
    pub returns: Type,
    /// One for each value that is given, in their order.
    pub parameters: Vec<Parameter>,
}

impl Signature {
    /// The name in a signature.
    pub fn name_of(text: &'static str) -> &'static str {
        let head = text.split('(').next().unwrap_or("");
        head.split_once(' ').map_or(head, |(_, name)| name)
    }

    /// Reads a signature of ours. What is wrong with one is found by a test.
    pub fn parse(text: &'static str) -> Self {
        let (head, rest) = text.split_once('(').unwrap_or((text, ")"));
        let returns = head.split(' ').next().and_then(Type::named).unwrap_or(Type::Void);
        let inner = rest.strip_suffix(')').unwrap_or(rest);
        Self { returns, parameters: split(inner).into_iter().filter_map(parameter).collect() }
    }
}

/// Splits at commas that are neither in braces nor in quotes.
fn split(text: &'static str) -> Vec<&'static str> {
    let mut out = Vec::new();
    let (mut start, mut depth, mut quoted) = (0, 0_i32, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => depth += 1,
            b'}' | b']' if !quoted => depth -= 1,
            b',' if depth == 0 && !quoted => {
                out.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    out.push(&text[start..]);
    out.retain(|part| !part.trim().is_empty());
    out
}

fn parameter(text: &'static str) -> Option<Parameter> {
    let text = text.trim();
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let (optional, text) = inner.map_or((false, text), |inner| (true, inner.trim()));
    let (words, of, rest) = if let Some(rest) = text.strip_prefix("ENUM") {
        let (words, rest) = rest.trim().strip_prefix('{')?.split_once('}')?;
        (words.split(',').map(str::trim).collect(), Type::Enum, rest)
    } else {
        let (of, rest) = text.split_once(' ').unwrap_or((text, ""));
        (Vec::new(), Type::named(of)?, rest)
    };
    let (name, default) = match rest.split_once('=') {
        Some((name, default)) => (name.trim(), Some(default.trim().trim_matches('"'))),
        None => (rest.trim(), None),
    };
    Some(Parameter { of, name, optional, default, words })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::{BUILTIN, MODULES};

    #[test]
    fn every_signature_can_be_read() {
        for module in MODULES.iter().chain([&BUILTIN]) {
            for function in module.functions {
                let text = function.signature;
                let head = text.split(' ').next().unwrap_or("");
                assert!(Type::named(head).is_some(), "{text}");
                let inner = text.split_once('(').map_or("", |(_, rest)| rest);
                let parts = split(inner.strip_suffix(')').expect("ends with a bracket"));
                let signature = Signature::parse(text);
                assert_eq!(signature.parameters.len(), parts.len(), "{text}");
                let twins = module
                    .functions
                    .iter()
                    .filter(|other| Signature::name_of(other.signature) == Signature::name_of(text))
                    .count();
                assert_eq!(twins, 1, "{text}");
                assert!(signature.parameters.len() <= 12, "{text}");
            }
        }
    }
}

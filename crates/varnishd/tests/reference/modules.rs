//! Functions of modules, here and as the modules of Varnish are built: the same names, types, arguments and
//! what those are where they are left out. A shared object says that of itself, in JSON.

use freshet_vcl::{Signature, Type, signatures};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

const DEBIANS: &str = "/usr/lib/x86_64-linux-gnu/varnish/vmods";
/// Where what a module says of itself begins.
const MARK: &[u8] = b"\"$VMOD\"";
/// Those of Varnish's own tests have functions for more than the language.
const OF_TESTS: [&str; 2] = ["debug", "vtc"];

/// What the module in a shared object says of itself.
fn description(object: &[u8]) -> Option<Value> {
    let mark = object.windows(MARK.len()).position(|bytes| bytes == MARK)?;
    let before = object[..mark].iter().rposition(|byte| *byte < b'\t')?;
    let open = before + object[before..].iter().position(|byte| *byte == b'[')?;
    let text = object[open..].split(|byte| *byte < b'\t').next()?;
    serde_json::from_slice(text).ok()
}

/// A parameter in words: its type, its name, what it is where it is left out, and the words it can be.
fn parameter(of: Type, name: &str, optional: bool, default: Option<&str>, words: &str) -> String {
    // What may be left out is another thing than anything that is given.
    let default = default.filter(|_| !optional);
    // Numbers are written in more than one way.
    let number = default.and_then(|text| text.parse::<f64>().ok());
    let default = match (number, default, of) {
        (_, Some("0"), Type::Blob) | (_, None, _) => String::new(),
        (Some(number), ..) => format!(" = {number}"),
        (None, Some(text), _) => format!(" = {text}"),
    };
    let optional = if optional { ", optional" } else { "" };
    format!("{of} {name}{default}{optional}{words}")
}

/// A function as the module says it is: what it gives back, and its parameters.
fn theirs(function: &Value) -> Option<String> {
    let returns = function.get(0)?.get(0)?.as_str()?;
    let parameters = function.as_array()?.iter().skip(3).filter_map(|one| {
        let of = Type::named(one.get(0)?.as_str()?)?;
        let word = |at: usize| one.get(at).and_then(Value::as_str);
        let words: Vec<_> = one
            .get(3)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .map(Value::to_string)
            .collect();
        let optional = one.get(4).and_then(Value::as_bool).unwrap_or_default();
        let default = word(2).map(|text| text.trim_matches('"').replace("\\t", "\t"));
        let words = words.join(" ").replace('"', "");
        Some(parameter(of, word(1).unwrap_or_default(), optional, default.as_deref(), &words))
    });
    Some(format!("{returns} ({})", parameters.collect::<Vec<_>>().join("; ")))
}

/// All functions of a module, by their names as ours have them.
fn functions(description: &Value) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for entry in description.as_array().into_iter().flatten().filter_map(Value::as_array) {
        let word = |at: usize| entry.get(at).and_then(Value::as_str).unwrap_or_default();
        let name = word(1);
        if word(0) == "$FUNC" {
            out.extend(entry.get(2).and_then(theirs).map(|said| (name.to_owned(), said)));
        }
        for member in entry.iter().filter(|_| word(0) == "$OBJ") {
            let method = member.get(1).and_then(Value::as_str).unwrap_or_default();
            let (name, function) = match member.get(0).and_then(Value::as_str) {
                Some("$INIT") => (format!("new {name}"), member.get(1)),
                Some("$METHOD") => (format!("{name}.{method}"), member.get(2)),
                _ => continue,
            };
            out.extend(function.and_then(theirs).map(|said| (name, said)));
        }
    }
    out
}

fn ours(signature: &'static str) -> String {
    let read = Signature::parse(signature);
    let parameters = read
        .parameters
        .iter()
        .map(|one| parameter(one.of, one.name, one.optional, one.default, &one.words.join(" ")));
    let returns = signature.split(' ').next().unwrap_or_default();
    format!("{returns} ({})", parameters.collect::<Vec<_>>().join("; "))
}

/// What of the module in a file is not here or is another thing here.
fn differences(path: &Path) -> Vec<String> {
    let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let module = name.strip_prefix("libvmod_").filter(|name| !OF_TESTS.contains(name));
    let Some(module) = module.filter(|_| path.extension().is_some_and(|end| end == "so")) else {
        return Vec::new();
    };
    let Some(said) = description(&std::fs::read(path).unwrap()) else {
        return vec![format!("{module} says nothing of itself")];
    };
    let differs = |(name, theirs): (String, String)| {
        let mine = signatures()
            .find(|(of, signature)| *of == module && Signature::name_of(signature) == name)
            .map_or_else(|| "nothing".to_owned(), |(_, signature)| ours(signature));
        (mine != theirs).then(|| format!("{module}.{name}:\n  there {theirs}\n  here  {mine}"))
    };
    functions(&said).into_iter().filter_map(differs).collect()
}

#[test]
fn functions_take_and_give_what_those_of_varnishs_modules_do() {
    let folders = std::env::var("VMOD_PATH").unwrap_or_else(|_| DEBIANS.into());
    let mut found = Vec::new();
    for folder in folders.split(':') {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            found.extend(differences(&entry.path()));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

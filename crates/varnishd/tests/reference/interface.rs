//! Parameters and commands, here and in Debian's Varnish: what there is, within which bounds, and what is said of
//! words that are wrong.

use crate::support::{self, Varnishd};
use serde_json::Value;
use std::collections::BTreeMap;

const OPTIONS: [&str; 6] = ["-a", "127.0.0.1:0", "-i", "tester", "-s", "s0=malloc,1m"];

/// Parameters that are meant to differ, and why.
const DIFFERENT_PARAMETERS: [(&str, &str); 4] = [
    ("accept_filter", "Linux has none; it is taken and does nothing"),
    ("cc_command", "there is no C compiler"),
    ("cc_warnings", "there is no C compiler"),
    ("pipe_task_deadline", "of a later version"),
];

/// Commands that are meant to differ, and why.
const DIFFERENT_COMMANDS: [(&str, &str); 4] = [
    ("debug.panic.master", "it would end the process"),
    ("help", "flags that it takes there are not in its syntax"),
    ("vcl.show", "there it is listed while requests are served"),
    ("vcl.symtab", "there it is marked as one for debugging"),
];

/// Both, ours first; `None` where Debian's is not there.
fn pair() -> Option<[Varnishd; 2]> {
    let program = support::program("varnishd")?;
    let mut options = vec!["-j", "none"];
    options.extend(OPTIONS);
    Some([Varnishd::start(&OPTIONS), Varnishd::start_program(&program, &options)])
}

/// What a command answers with in JSON, by the member that names each.
fn listed(varnishd: &mut Varnishd, command: &str, name: &str) -> BTreeMap<String, Value> {
    let all: Vec<Value> = serde_json::from_str(&varnishd.ok(command)).unwrap();
    let all = all.into_iter().skip(3);
    all.map(|one| (one[name].as_str().unwrap().to_owned(), one)).collect()
}

fn is_meant(list: &[(&str, &str)], name: &str) -> bool {
    list.iter().any(|(one, _)| *one == name)
}

/// What differs in these members, one in a line.
fn differences(
    [ours, theirs]: &[BTreeMap<String, Value>; 2],
    members: &[&str],
    meant: &[(&str, &str)],
) -> Vec<String> {
    let mut names: Vec<_> = ours.keys().chain(theirs.keys()).collect();
    names.sort();
    names.dedup();
    let mut out = Vec::new();
    for name in names.into_iter().filter(|name| !is_meant(meant, name)) {
        let (Some(our), Some(their)) = (ours.get(name), theirs.get(name)) else {
            out.push(format!("{name} is only in one"));
            continue;
        };
        for member in members.iter().filter(|member| our[**member] != their[**member]) {
            out.push(format!("{name}.{member}: {} and {}", our[*member], their[*member]));
        }
    }
    out
}

#[test]
fn parameters_have_the_same_defaults_bounds_and_units() {
    let Some(mut both) = pair() else { return };
    let found = both.each_mut().map(|one| listed(one, "param.show -j", "name"));
    let members = ["implemented", "value", "default", "minimum", "maximum", "units", "flags"];
    let differ = differences(&found, &members, &DIFFERENT_PARAMETERS);
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

#[test]
fn values_that_do_not_fit_are_refused_in_the_same_words() {
    let Some([mut ours, mut theirs]) = pair() else { return };
    let parameters = listed(&mut theirs, "param.show -j", "name");
    let mut differ = Vec::new();
    for (name, parameter) in &parameters {
        // Of this one the bound is told with an empty line more.
        if is_meant(&DIFFERENT_PARAMETERS, name) || name == "vsl_reclen" {
            continue;
        }
        let bound = |member: &str| parameter[member].as_str().and_then(|text| text.parse().ok());
        let (least, most): (Option<f64>, Option<f64>) = (bound("minimum"), bound("maximum"));
        let mut values = Vec::new();
        values.extend(least.filter(|least| *least >= 1.0).map(|least| format!("{}", least - 1.0)));
        values.extend(most.map(|most| format!("{}", most + 1.0)));
        match parameter["units"].as_str() {
            Some("bool") => values.extend(["", "x", "1", "on off"].map(str::to_owned)),
            Some("bytes") => values.extend(["", "x", "-1", "10x", "0.5"].map(str::to_owned)),
            // A number with something behind it is one there, up to that.
            Some("seconds") => values.extend(["x", "9999999999999"].map(str::to_owned)),
            _ if matches!(name.as_str(), "debug" | "feature" | "experimental") => {
                values.extend(["x", "+x", "-x"].map(str::to_owned));
            }
            _ if name.starts_with("pool_") => {
                values.extend(["", "10", "10,1,1"].map(str::to_owned))
            }
            _ => {}
        }
        for value in values {
            let command = format!("param.set {name} \"{value}\"");
            let (our, their) = (ours.command(&command), theirs.command(&command));
            if our != their {
                differ.push(format!("{command}: {our:?} and {their:?}"));
            }
        }
        for varnishd in [&mut ours, &mut theirs] {
            varnishd.ok(&format!("param.reset {name}"));
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

#[test]
fn commands_take_as_many_words_and_say_the_same_of_others() {
    let Some([mut ours, mut theirs]) = pair() else { return };
    let found = [&mut ours, &mut theirs].map(|one| listed(one, "help -j", "request"));
    let members = ["syntax", "minarg", "maxarg", "json"];
    let mut differ = differences(&found, &members, &DIFFERENT_COMMANDS);
    // These answer with what is of one process only, or change what runs.
    let of_its_own = ["banner", "ping", "pid", "start", "stop"];
    // These close the connection there.
    let ends = ["auth", "quit"];
    for name in found[1].keys() {
        if is_meant(&DIFFERENT_COMMANDS, name) || ends.contains(&name.as_str()) {
            continue;
        }
        let short = ["", " a", " -z"].into_iter().filter(|_| !of_its_own.contains(&name.as_str()));
        // What is shown of all parameters and compiled is another test's.
        let short = short.filter(|words| (name.as_str(), *words) != ("param.show", ""));
        for words in short.chain([" a a a a", " a a a a a", " -j a a a a"]) {
            if matches!(name.as_str(), "vcl.discard") && words.contains("a a") {
                continue;
            }
            let command = format!("{name}{words}");
            let (our, their) = (ours.command(&command), theirs.command(&command));
            if our != their {
                differ.push(format!("{command}: {our:?} and {their:?}"));
            }
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

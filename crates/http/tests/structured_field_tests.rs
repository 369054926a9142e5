//! The cases of httpwg/structured-field-tests, read from a checkout that the environment variable
//! `FRESHET_STRUCTURED_FIELD_TESTS` names; without it there is nothing to do.

#[path = "../../../tests/skip.rs"]
mod skip;

use freshet_http::structured::{
    BareItem, Decimal, Dictionary, InnerList, Item, List, Member, Parameters,
};
use serde_json::Value;
use std::path::Path;

const CHECKOUT: &str = "FRESHET_STRUCTURED_FIELD_TESTS";

#[test]
fn every_case_of_the_checkout_passes() {
    let Some(checkout) = std::env::var_os(CHECKOUT) else {
        return skip::skip(format_args!("{CHECKOUT} is not set"));
    };
    let (mut cases, mut failures) = (0, Vec::new());
    for (folder, parses) in [("", true), ("serialisation-tests", false)] {
        for (file, case) in cases_in(&Path::new(&checkout).join(folder)) {
            cases += 1;
            let problem = if parses { parse_problem(&case) } else { None };
            let problem = problem.or_else(|| serialize_problem(&case, parses));
            if let Some(problem) = problem {
                failures.push(format!("{file}: {}: {problem}", case["name"]));
            }
        }
    }
    println!("{cases} cases");
    assert!(failures.is_empty(), "{} of {cases}: {failures:#?}", failures.len());
    assert!(cases > 1000, "only {cases} cases in the checkout");
}

fn cases_in(folder: &Path) -> Vec<(String, Value)> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the checkout can be read") {
        let path = entry.expect("the checkout can be read").path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let bytes = std::fs::read(&path).expect("a file can be read");
            let cases: Value = serde_json::from_slice(&bytes).expect("a file is JSON");
            out.extend(array(&cases).iter().map(|case| (file.clone(), case.clone())));
        }
    }
    out
}

#[derive(Debug, PartialEq)]
enum Field {
    Item(Item),
    List(List),
    Dictionary(Dictionary),
}

fn parse_problem(case: &Value) -> Option<String> {
    let raw: Vec<_> = strings(&case["raw"]);
    let raw = raw.join(", ");
    let parsed = match text(&case["header_type"]) {
        "item" => Item::parse(raw.as_bytes()).map(Field::Item),
        "list" => List::parse(raw.as_bytes()).map(Field::List),
        _ => Dictionary::parse(raw.as_bytes()).map(Field::Dictionary),
    };
    match parsed {
        Ok(got) if is(case, "must_fail") => Some(format!("parses as {got:?}")),
        Ok(got) => (got != expected(case)).then(|| format!("parses as {got:?}")),
        Err(_) if is(case, "must_fail") || is(case, "can_fail") => None,
        Err(error) => Some(error.to_string()),
    }
}

/// `parses` cases are serialized only where they parse.
fn serialize_problem(case: &Value, parses: bool) -> Option<String> {
    if parses && is(case, "must_fail") {
        return None;
    }
    let written = match expected(case) {
        Field::Item(item) => item.serialize(),
        Field::List(list) => list.serialize(),
        Field::Dictionary(dictionary) => dictionary.serialize(),
    };
    let canonical = if case["canonical"].is_null() { &case["raw"] } else { &case["canonical"] };
    match written {
        Ok(text) if is(case, "must_fail") => Some(format!("written as {text}")),
        Ok(text) => (text != strings(canonical).join(", ")).then(|| format!("written as {text}")),
        Err(_) if is(case, "must_fail") => None,
        Err(error) => Some(error.to_string()),
    }
}

fn is(case: &Value, flag: &str) -> bool {
    case[flag].as_bool().unwrap_or(false)
}

fn strings(value: &Value) -> Vec<String> {
    let strings = value.as_array().map(Vec::as_slice).unwrap_or_default();
    strings.iter().map(|string| text(string).to_owned()).collect()
}

fn expected(case: &Value) -> Field {
    let value = &case["expected"];
    match text(&case["header_type"]) {
        "item" => Field::Item(item(value)),
        "list" => Field::List(List(array(value).iter().map(member).collect())),
        _ => {
            let mut dictionary = Dictionary::default();
            for entry in array(value) {
                dictionary.set(text(&entry[0]), member(&entry[1]));
            }
            Field::Dictionary(dictionary)
        }
    }
}

fn array(value: &Value) -> &[Value] {
    value.as_array().expect("an array")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a string")
}

fn member(value: &Value) -> Member {
    match &value[0] {
        Value::Array(items) => Member::InnerList(InnerList {
            items: items.iter().map(item).collect(),
            parameters: parameters(&value[1]),
        }),
        _ => Member::Item(item(value)),
    }
}

fn item(value: &Value) -> Item {
    Item { value: bare_item(&value[0]), parameters: parameters(&value[1]) }
}

fn parameters(value: &Value) -> Parameters {
    let mut out = Parameters::default();
    for entry in array(value) {
        out.set(text(&entry[0]), bare_item(&entry[1]));
    }
    out
}

fn bare_item(value: &Value) -> BareItem {
    let typed = |value: &Value| value["value"].as_str().unwrap_or_default().to_owned();
    match value {
        Value::Bool(value) => BareItem::Boolean(*value),
        Value::String(value) => BareItem::String(value.clone()),
        Value::Number(number) => match number.as_i64() {
            Some(value) => BareItem::Integer(value),
            None => {
                let decimal = number.as_f64().and_then(Decimal::from_f64);
                BareItem::Decimal(decimal.expect("a number with a point"))
            }
        },
        _ => match text(&value["__type"]) {
            "token" => BareItem::Token(typed(value)),
            "binary" => BareItem::Bytes(base32(&typed(value))),
            "date" => BareItem::Date(value["value"].as_i64().expect("whole seconds")),
            "displaystring" => BareItem::DisplayString(typed(value)),
            other => panic!("unknown type {other}"),
        },
    }
}

fn base32(text: &str) -> Vec<u8> {
    let (mut bits, mut held, mut out) = (0_u64, 0, Vec::new());
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        let digit = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".iter().position(|known| *known == byte);
        bits = bits << 5 | digit.expect("base32") as u64;
        held += 5;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    out
}

//! Rooms a person can learn: no crate is too large, and no knot of modules in one is.
//!
//! A knot is a set of modules each of which leads to each other one by what it names: they can only be
//! understood together. Counted are the modules directly under a crate's root, and those of each folder in it,
//! by `crate::…` and `super::…` in the product.

use std::collections::{BTreeMap, BTreeSet};

use freshet_tidy::{SourceFile, code_of, crates, expect_none, files, product};

/// Lines of product code a crate has at most: what one person can know.
const ROOM_LINES_MAX: usize = 12_000;

/// Crates that are larger still, and what they may not grow over.
const LARGER: [(&str, usize); 0] = [];

/// Modules of a knot at most.
const KNOT_MODULES_MAX: usize = 9;

/// Crates that a request goes through.
const ON_THE_WAY: [&str; 6] = ["session", "request", "fetch", "origin", "site", "worker"];

/// Files that are called as their folder is: its head and its tests; and the one trait's two sides, whose folder
/// says of which protocol they are.
const NAMED_BY_FOLDER: [&str; 4] = ["lib.rs", "mod.rs", "tests.rs", "multiplexed.rs"];

/// The product of one crate.
struct Room {
    /// Each file's path under `src/`, and its text up to its tests.
    files: Vec<(Vec<String>, String)>,
}

impl Room {
    fn new(name: &str, all: &[SourceFile]) -> Self {
        let source = format!("crates/{name}/src/");
        let under = |file: &SourceFile| {
            let path = file.path.strip_prefix(&source)?.strip_suffix(".rs")?;
            Some(path.split('/').map(str::to_owned).collect::<Vec<_>>())
        };
        let found: Vec<_> =
            all.iter().filter_map(|file| Some((under(file)?, file.text.as_str()))).collect();
        let tests: Vec<Vec<String>> =
            found.iter().flat_map(|(path, text)| modules_of_tests(path, text)).collect();
        let is_product = |path: &[String]| !tests.iter().any(|folder| path.starts_with(folder));
        let files = found.into_iter().filter(|(path, _)| is_product(path));
        Self { files: files.map(|(path, text)| (path, product(text).to_owned())).collect() }
    }

    fn lines(&self) -> usize {
        self.files.iter().map(|(_, text)| text.lines().count()).sum()
    }

    /// The folders of modules: the root, which has no name, and those under it.
    fn folders(&self) -> BTreeSet<&[String]> {
        self.files.iter().flat_map(|(path, _)| (0..path.len()).map(|len| &path[..len])).collect()
    }

    /// What each module directly in a folder names of the others there.
    fn arrows(&self, folder: &[String]) -> BTreeMap<&str, BTreeSet<&str>> {
        let depth = folder.len();
        let is_head = |path: &[String]| match path.strip_prefix(folder) {
            Some([only]) if depth == 0 => only == "lib" || only == "main",
            Some([only]) => only == "mod",
            Some(rest) => rest.is_empty(),
            None => false,
        };
        let is_in = |path: &[String]| {
            path.len() > depth && path.starts_with(folder) && !is_head(path) && path[depth] != "bin"
        };
        let mut arrows: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (path, _) in self.files.iter().filter(|(path, _)| is_in(path)) {
            arrows.entry(path[depth].as_str()).or_default();
        }
        let names: BTreeSet<&str> = arrows.keys().copied().collect();
        // What the head of the folder hands on is of the module it comes from.
        let mut handed_on: BTreeMap<String, &str> = BTreeMap::new();
        for (_, text) in self.files.iter().filter(|(path, _)| is_head(path)) {
            for (at, use_of) in text.match_indices("use ") {
                let statement = text[at + use_of.len()..].split(';').next().unwrap_or("");
                let Some((first, rest)) = statement.split_once("::") else { continue };
                let Some(module) = names.get(first.trim()) else { continue };
                handed_on.extend(words(rest).map(|word| (word.to_owned(), *module)));
            }
        }
        let from_root: String = folder.iter().map(|name| format!("{name}::")).collect();
        for (path, text) in self.files.iter().filter(|(path, _)| is_in(path)) {
            let is_mod = path.last().is_some_and(|name| name == "mod");
            let from_below = "super::".repeat(path.len() - depth - usize::from(is_mod));
            let code: String = text.lines().map(|line| code_of(line) + "\n").collect();
            for word in named_behind(&code, &[&format!("crate::{from_root}"), &from_below]) {
                let module = names.get(word).or_else(|| handed_on.get(word));
                let Some(other) = module.filter(|other| **other != path[depth]) else { continue };
                arrows.entry(path[depth].as_str()).or_default().insert(other);
            }
        }
        arrows
    }
}

/// The places of modules that a file has for tests only.
fn modules_of_tests(path: &[String], text: &str) -> Vec<Vec<String>> {
    let is_folder = path.last().is_some_and(|name| matches!(name.as_str(), "lib" | "main" | "mod"));
    let folder = &path[..path.len() - usize::from(is_folder)];
    let mut found = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        let name = line.trim_start_matches("pub(crate) ").strip_prefix("mod ");
        if let Some(name) = name.and_then(|rest| rest.strip_suffix(';')).filter(|_| is_test) {
            found.push([folder, &[name.to_owned()]].concat());
        }
        is_test = line == "#[cfg(test)]" || (is_test && line.starts_with("#["));
    }
    found
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    text.split(move |character| !is_part(character)).filter(|word| !word.is_empty())
}

/// The first words behind these prefixes, in groups too.
fn named_behind<'a>(code: &'a str, prefixes: &[&str]) -> Vec<&'a str> {
    let mut found = Vec::new();
    for prefix in prefixes {
        for (at, _) in code.match_indices(prefix) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|sign| sign.is_alphanumeric() || matches!(sign, '_' | ':' | '$'))
            {
                continue;
            }
            let rest = &code[at + prefix.len()..];
            match rest.strip_prefix('{') {
                Some(group) => found.extend(firsts(group)),
                None => found.extend(words(rest).next()),
            }
        }
    }
    found.retain(|word| *word != "super");
    found
}

/// The first word of each item of a group that begins behind its brace.
fn firsts(group: &str) -> Vec<&str> {
    let (mut depth, mut is_first, mut found) = (1, true, Vec::new());
    for (at, sign) in group.char_indices() {
        match sign {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => is_first = true,
            _ if is_first && !sign.is_whitespace() => {
                found.extend(words(&group[at..]).next());
                is_first = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    found
}

/// All that can be reached along arrows.
fn reached<'a>(arrows: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &'a str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut left = vec![from];
    while let Some(module) = left.pop() {
        for next in arrows.get(module).into_iter().flatten() {
            if found.insert(*next) {
                left.push(next);
            }
        }
    }
    found
}

/// The largest knot.
fn largest_knot<'a>(arrows: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<&'a str> {
    let ends: BTreeMap<&str, BTreeSet<&str>> =
        arrows.keys().map(|module| (*module, reached(arrows, module))).collect();
    let knot = |module: &&'a str| -> Vec<&'a str> {
        let is_mutual =
            |other: &&&str| ends[*module].contains(**other) && ends[**other].contains(*module);
        arrows.keys().filter(is_mutual).copied().collect()
    };
    arrows.keys().map(knot).max_by_key(Vec::len).unwrap_or_default()
}

#[test]
fn no_room_is_larger_than_a_person_can_know() {
    let all = files();
    let mut places = Vec::new();
    for room in crates() {
        let lines = Room::new(&room, &all).lines();
        let allowed = LARGER.iter().find(|(name, _)| *name == room).map(|(_, lines)| *lines);
        if lines > allowed.unwrap_or(ROOM_LINES_MAX) {
            places.push(format!("crates/{room}: {lines} lines"));
        }
        if allowed.is_some() && lines <= ROOM_LINES_MAX {
            places.push(format!("crates/{room}: {lines} lines, and still in LARGER"));
        }
    }
    expect_none(
        &places,
        &format!("a crate with more than {ROOM_LINES_MAX} lines of product code"),
        "Find what has its own neighbours and make it a crate: what others would use without the rest, or \
         what uses the rest and is used by nobody in it. LARGER in crates/tidy/tests/tidy/rooms.rs names \
         those that are not divided yet; nothing is added there.",
    );
}

#[test]
fn no_knot_of_modules_is_larger_than_a_person_unties() {
    let all = files();
    let mut places = Vec::new();
    for room in crates() {
        let room_of = Room::new(&room, &all);
        for folder in room_of.folders() {
            let knot = largest_knot(&room_of.arrows(folder));
            if knot.len() > KNOT_MODULES_MAX {
                let (at, count) = (folder.join("/"), knot.len());
                places
                    .push(format!("crates/{room}/src/{at}: {count} modules: {}", knot.join(", ")));
            }
        }
    }
    expect_none(
        &places,
        &format!(
            "more than {KNOT_MODULES_MAX} modules of a folder that can only be understood together"
        ),
        "Turn an arrow: move what both need below both, or hand it over as an argument.",
    );
}

#[test]
fn a_name_of_a_file_on_a_requests_way_says_which_it_is() {
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let all = files();
    for file in all.iter().filter(|file| file.path.contains("/src/") && file.has_extension("rs")) {
        if file.room().is_some_and(|room| ON_THE_WAY.contains(&room))
            && !NAMED_BY_FOLDER.contains(&file.name())
        {
            places.entry(file.name()).or_default().push(&file.path);
        }
    }
    let places = places.values().filter(|paths| paths.len() > 1).map(|paths| paths.join(", "));
    expect_none(
        &places.collect::<Vec<_>>(),
        "files on a request's way that have one name",
        "Name the file after what is in it and in no other: who looks for a name in an editor or a log gets \
         one place.",
    );
}

#[test]
fn arrows_are_found_in_all_ways_they_are_written() {
    let file = |path: &str, text: &str| SourceFile {
        path: format!("crates/x/src/{path}"),
        text: text.to_owned(),
    };
    let all = [
        file(
            "lib.rs",
            "mod a;\nmod b;\nmod c;\nmod d;\n#[cfg(test)]\nmod e;\npub use c::{Kind, Other};\n",
        ),
        file("a.rs", "use crate::{b::{self, Thing}, Kind};\n"),
        file("b/mod.rs", "// crate::d\nfn f() { super::c::g(\"crate::d\") }\n"),
        file(
            "b/inner.rs",
            "use super::super::a::One;\n\n#[cfg(test)]\nmod tests {\n    use crate::d;\n}\n",
        ),
        file("c.rs", "fn c() -> crate::a::A { other_crate::d() }\n"),
        file("d.rs", "pub(crate) fn d() {}\n"),
        file("e.rs", "use crate::d::e;\n"),
        file("f/mod.rs", "mod g;\nmod h;\npub(crate) use h::Held;\n"),
        file("f/g.rs", "use super::Held;\n"),
        file("f/h/mod.rs", "use crate::f::g::G;\n"),
        file("f/h/i.rs", "use super::super::g::G;\nuse super::Held;\n"),
    ];
    let room = Room::new("x", &all);
    let arrows = room.arrows(&[]);
    let of = |module: &str| arrows[module].iter().copied().collect::<Vec<_>>();
    assert_eq!(
        (of("a"), of("b"), of("c"), of("d")),
        (vec!["b", "c"], vec!["a", "c"], vec!["a"], vec![])
    );
    assert_eq!(largest_knot(&arrows), ["a", "b", "c"]);
    let in_folder = room.arrows(&["f".to_owned()]);
    assert_eq!(largest_knot(&in_folder), ["g", "h"]);
    assert_eq!(room.arrows(&["f".to_owned(), "h".to_owned()]).len(), 1);
    assert_eq!(room.lines(), 7 + 1 + 2 + 2 + 1 + 1 + 3 + 1 + 1 + 2);
}

//! Just enough Rust to tell code from comments and the product from its tests.

use crate::SourceFile;

/// The lines of a Rust file that end up in the product: everything before its module of tests, and nothing of
/// files that are tests, benches or examples.
pub fn product_lines(file: &SourceFile) -> impl Iterator<Item = (usize, &str)> {
    let is_product = file.has_extension("rs")
        && file.path.contains("/src/")
        && !matches!(file.name(), "tests.rs" | "test.rs")
        && !file.path.contains("/src/tests/");
    let count = if is_product { product(&file.text).lines().count() } else { 0 };
    file.lines().take(count)
}

/// A file's text before its module of tests. One that is in a file of its own may stand anywhere.
#[must_use]
pub fn product(text: &str) -> &str {
    const TESTS: &str = "\n#[cfg(test)]\n";
    let is_module = |at: &usize| {
        let item = text[at + TESTS.len()..].lines().find(|line| !line.starts_with("#["));
        item.is_some_and(|line| line.starts_with("mod ") && line.contains('{'))
    };
    let at = text.match_indices(TESTS).map(|(at, _)| at).find(is_module);
    at.map_or(text, |at| &text[..=at])
}

/// The code of one line: what is left without line comments and without what stands in quotes.
///
/// A line inside a block comment or a string of several lines is taken for code; the tests that use
/// this only look for words that are rare in prose.
#[must_use]
pub fn code_of(line: &str) -> String {
    let mut code = String::with_capacity(line.len());
    let mut characters = line.chars().peekable();
    let mut quoted = false;
    while let Some(character) = characters.next() {
        match character {
            '\\' if quoted => {
                characters.next();
            }
            '"' => quoted = !quoted,
            '/' if !quoted && characters.peek() == Some(&'/') => break,
            // The character '"' is no quotation mark.
            '\'' if !quoted && characters.peek() == Some(&'"') => {
                characters.next();
            }
            _ if !quoted => code.push(character),
            _ => {}
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_quotes_are_not_code() {
        assert_eq!(code_of(r#"let a = "unsafe // no"; // unsafe"#), "let a = ; ");
        assert_eq!(code_of(r#"b == '"' && unsafe_count > 0"#), "b == ' && unsafe_count > 0");
        assert_eq!(code_of(r#"say("a \" b"); go()"#), "say(); go()");
    }

    #[test]
    fn the_trailing_test_module_is_not_product() {
        let file =
            |text: &str| SourceFile { path: "crates/x/src/a.rs".to_owned(), text: text.to_owned() };
        let lines = |text: &str| product_lines(&file(text)).count();
        assert_eq!(lines("fn a() {}\n#[cfg(test)]\nmod tests {\n}\n"), 1);
        // What stands behind a module in another file, or an item for tests, is.
        assert_eq!(lines("fn a() {}\n#[cfg(test)]\nmod tests;\nfn b() {}\n"), 4);
        assert_eq!(lines("fn a() {}\n#[cfg(test)]\nfn c() {}\nfn b() {}\n"), 4);
    }
}

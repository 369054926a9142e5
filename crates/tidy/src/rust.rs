//! Just enough Rust to tell code from comments and the product from its tests.

use crate::SourceFile;

/// The lines of a Rust file that end up in the product: everything before the trailing
/// `#[cfg(test)]` module, and nothing of files that are tests, benches or examples.
pub fn product_lines(file: &SourceFile) -> impl Iterator<Item = (usize, &str)> {
    let is_product = file.has_extension("rs")
        && file.path.contains("/src/")
        && !matches!(file.name(), "tests.rs" | "test.rs")
        && !file.path.contains("/src/tests/");
    file.lines().take_while(move |(_, line)| is_product && line.trim() != "#[cfg(test)]")
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
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {}\n".to_owned();
        let file = SourceFile { path: "crates/x/src/a.rs".to_owned(), text };
        assert_eq!(product_lines(&file).collect::<Vec<_>>(), [(1, "fn a() {}")]);
    }
}

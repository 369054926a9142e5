//! Text that cannot be read as markup.

/// Appends `text` with the five signs of markup replaced and control characters made visible.
pub(crate) fn escape(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(character),
            // A page must not contain them, and what an origin said may.
            other if other.is_control() => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
}

/// `text`, escaped.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    escape(text, &mut out);
    out
}

/// Appends `text`, escaped, with what stands between back quotes as code. A back quote without a
/// second one stays as it is.
pub(crate) fn prose(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('`') {
        let Some((code, behind)) = after.split_once('`') else { break };
        escape(before, out);
        out.push_str("<code>");
        escape(code, out);
        out.push_str("</code>");
        rest = behind;
    }
    escape(rest, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_control_characters_lose_their_power() {
        assert_eq!(escaped("<b a=\"'&\u{1b}"), "&lt;b a=&quot;&#39;&amp;\u{fffd}");
    }

    #[test]
    fn code_stands_between_back_quotes() {
        let mut out = String::new();
        prose("run `a < b` now, or ` not", &mut out);
        assert_eq!(out, "run <code>a &lt; b</code> now, or ` not");
    }
}

//! As much of XML as a DASH manifest needs: elements, attributes, text. No entities but the five that
//! XML predefines, no document types; comments, instructions and CDATA are skipped.

use super::client::Fault;

/// Elements inside each other at most; a manifest has about six.
const DEPTH_MAX: usize = 32;

/// Elements in all at most; a manifest of ours has about twenty.
const ELEMENTS_MAX: usize = 100_000;

/// An element, its name without its prefix.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Element {
    pub(super) name: String,
    pub(super) attributes: Vec<(String, String)>,
    pub(super) children: Vec<Self>,
    /// All text directly in it, trimmed.
    pub(super) text: String,
}

impl Element {
    /// The attribute called `name`.
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The children called `name`.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Self> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// The first child called `name`.
    pub(super) fn first(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }
}

/// The root element of `text`.
pub(super) fn parse(text: &str) -> Result<Element, Fault> {
    // The open elements; the first stands for the document.
    let mut open = vec![Element::default()];
    let mut rest = text;
    let mut count = 0;
    while let Some((before, tag)) = rest.split_once('<') {
        if let Some(element) = open.last_mut() {
            element.text.push_str(&unescape(before.trim()));
        }
        if let Some(comment) = tag.strip_prefix("!--") {
            rest = comment.split_once("-->").ok_or(Fault::Manifest)?.1;
            continue;
        }
        let (tag, after) = split_tag(tag)?;
        rest = after;
        if tag.starts_with(['?', '!']) {
            continue;
        }
        if let Some(name) = tag.strip_prefix('/') {
            let element = open.pop().ok_or(Fault::Manifest)?;
            if element.name != local_name(name.trim()) {
                return Err(Fault::Manifest);
            }
            open.last_mut().ok_or(Fault::Manifest)?.children.push(element);
            continue;
        }
        count += 1;
        if open.len() > DEPTH_MAX || count > ELEMENTS_MAX {
            return Err(Fault::Manifest);
        }
        let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let element = parse_start(tag)?;
        if is_empty {
            open.last_mut().ok_or(Fault::Manifest)?.children.push(element);
        } else {
            open.push(element);
        }
    }
    match (open.pop(), open.is_empty()) {
        (Some(document), true) => document.children.into_iter().next().ok_or(Fault::Manifest),
        _ => Err(Fault::Manifest),
    }
}

/// What stands before the `>` that ends the tag, and what stands behind it; values may contain one.
fn split_tag(tag: &str) -> Result<(&str, &str), Fault> {
    let mut quote = None;
    for (at, c) in tag.char_indices() {
        match (quote, c) {
            (None, '>') => return Ok((&tag[..at], &tag[at + 1..])),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
    }
    Err(Fault::Manifest)
}

fn parse_start(tag: &str) -> Result<Element, Fault> {
    let (name, mut rest) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
    let mut element = Element { name: local_name(name).to_owned(), ..Element::default() };
    while let Some((key, after)) = rest.split_once('=') {
        let after = after.trim_start();
        let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''));
        let quote = quote.ok_or(Fault::Manifest)?;
        let (value, after) =
            after.get(1..).and_then(|after| after.split_once(quote)).ok_or(Fault::Manifest)?;
        element.attributes.push((key.trim().to_owned(), unescape(value)));
        rest = after;
    }
    let complete = rest.trim().is_empty() && !element.name.is_empty();
    if complete { Ok(element) } else { Err(Fault::Manifest) }
}

fn local_name(name: &str) -> &str {
    name.rsplit_once(':').map_or(name, |(_, local)| local)
}

fn unescape(text: &str) -> String {
    if !text.contains('&') {
        return text.to_owned();
    }
    // The ampersand comes last, so that what it yields is not read once more.
    let named = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    named.iter().fold(text.to_owned(), |text, (name, c)| text.replace(name, c))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn elements_nest_with_attributes_and_text() {
        let text = "<?xml version=\"1.0\"?><!-- a > b --><x:MPD type='dynamic' note=\"1 > 0 &amp;lt;\">\n\
                    <Period><BaseURL> a/b </BaseURL><S t = \"1\"/></Period></x:MPD>\n";
        let root = parse(text).unwrap();
        assert_eq!(root.name, "MPD");
        assert_eq!(root.attribute("type"), Some("dynamic"));
        assert_eq!(root.attribute("note"), Some("1 > 0 &lt;"));
        let period = root.first("Period").unwrap();
        assert_eq!(period.first("BaseURL").unwrap().text, "a/b");
        assert_eq!(period.all("S").next().unwrap().attribute("t"), Some("1"));
    }

    #[test]
    fn text_that_is_not_well_formed_is_refused() {
        let deep = "<a>".repeat(1000);
        for text in
            ["", "a", "<a", "<a>", "</a>", "<a></b>", "<a b></a>", "<a b=c/>", "<a b='/>", &deep]
        {
            assert_eq!(parse(text), Err(Fault::Manifest), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_reader(text in "[<>/a=\"'! ?é-]{0,60}") {
            let _ = parse(&text);
        }
    }
}

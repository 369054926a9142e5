//! Mistakes that are found one stage after the other: what a later stage finds where an earlier one found something may
//! only follow from that.

use super::mistake::{Mistake, Place};

/// What is `known` to be wrong with a text, and of what a later look at the rest of it `found` what is in other tables: a
/// table that could not be read is missed, and what names it is not wrong. In order of place.
pub fn and_then(text: &str, known: Vec<Mistake>, found: Vec<Mistake>) -> Vec<Mistake> {
    let mut all = known;
    // Of so many nobody reads more, and each has its table looked for.
    let found = if all.len() < MISTAKES_MAX { found } else { Vec::new() };
    let known = all.iter().take(MISTAKES_MAX);
    let wrong: Vec<_> = known.filter_map(|mistake| table_of(text, mistake.place)).collect();
    let is_of_its_own = |mistake: &Mistake| match table_of(text, mistake.place) {
        Some(table) => !wrong.contains(&table),
        None => false,
    };
    let knows_all = all.is_empty();
    all.extend(found.into_iter().filter(|mistake| knows_all || is_of_its_own(mistake)));
    all.sort_by_key(|one| (one.place.text(), one.place.span().map(|span| span.start)));
    all
}

/// Mistakes that are shown.
const MISTAKES_MAX: usize = 100;

/// As many as anybody reads, with how many more there are.
pub fn readable(mut mistakes: Vec<Mistake>) -> Vec<Mistake> {
    let more = mistakes.split_off(mistakes.len().min(MISTAKES_MAX));
    if let Some(first) = more.iter().find(|one| one.is_error()).or_else(|| more.first()) {
        let (severity, message) = (first.severity, format!("and {} more", more.len()));
        mistakes.push(Mistake { severity, ..Mistake::warning(Place::default(), message) });
    }
    mistakes
}

/// Where the table begins that a place is in, with all of its site; `None` where it is not in the uppermost text.
fn table_of(text: &str, place: Place) -> Option<usize> {
    let span = place.span().filter(|_| place.text() == 0)?;
    let own = header_at(text, "[", span.start)?;
    let is_of_site = ["[site.", "[[site."].iter().any(|header| text[own..].starts_with(header));
    if is_of_site { header_at(text, "[[site]]", own) } else { Some(own) }
}

/// Where the last line begins that begins so, up to one at `end` itself; 0 where none does.
fn header_at(text: &str, header: &str, end: usize) -> Option<usize> {
    let before = text.get(..end)?;
    let is_there = (before.is_empty() || before.ends_with('\n')) && text[end..].starts_with(header);
    if is_there {
        return Some(end);
    }
    Some(before.rfind(&format!("\n{header}")).map_or(0, |at| at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "a = 1\n[b]\nc = 2\nd = 3\n[[e]]\nf = 4\n[[site]]\ng = 5\n[site.h]\ni = 6\n[[site]]\nj = 7\n[k]\nl = 8\n";

    fn at(what: &str) -> Mistake {
        let start = TEXT.find(what).unwrap_or(usize::MAX >> 1);
        let place = if start > TEXT.len() { Place::default() } else { (start..start + 1).into() };
        Mistake::error(place, what)
    }

    fn left(known: &[&str], found: &[&str]) -> Vec<String> {
        let of = |all: &[&str]| all.iter().map(|what| at(what)).collect();
        and_then(TEXT, of(known), of(found)).into_iter().map(|one| one.message).collect()
    }

    #[test]
    fn what_may_follow_from_a_mistake_waits_for_its_end() {
        assert_eq!(left(&[], &["f", "a", "nowhere"]), ["nowhere", "a", "f"]);
        assert_eq!(left(&["c = "], &["d = ", "f = "]), ["c = ", "f = "]);
        assert_eq!(left(&["f = "], &["[[e]]", "a = ", "nowhere"]), ["a = ", "f = "]);
        assert_eq!(left(&["i = "], &["g = ", "j = ", "l = "]), ["i = ", "j = ", "l = "]);
        assert_eq!(left(&["j = "], &["l = "]), ["j = ", "l = "]);
        assert_eq!(left(&["a = "], &["c = ", "j = "]), ["a = ", "c = ", "j = "]);
    }
}

//! Whatever a report says, its page is well formed and its text fits the terminal.

use freshet_report::{
    Axis, Block, Cell, Column, Document, KeyFigure, Plot, Section, Series, Table, Verdict, html,
    text,
};
use proptest::prelude::*;

/// Reads the page as a reader of markup does: every element is closed in order, every `&` begins
/// one of our five references, every attribute is quoted.
fn check(page: &str) -> Result<usize, String> {
    let mut open: Vec<&str> = Vec::new();
    let mut elements = 0;
    let mut rest = page.strip_prefix("<!DOCTYPE html>").ok_or("no document type")?;
    while let Some(at) = rest.find(['<', '&', '>']) {
        let (_, here) = rest.split_at(at);
        if here.starts_with('&') {
            let known = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"];
            let reference = known.into_iter().find(|one| here.starts_with(one));
            rest = &here[reference.ok_or_else(|| format!("a bare & at {here:.40}"))?.len()..];
            continue;
        }
        let end = here.find('>').filter(|end| *end > 0).ok_or_else(|| format!("{here:.40}"))?;
        let tag = &here[1..end];
        rest = &here[end + 1..];
        if tag.contains('<') || tag.matches('"').count() % 2 == 1 {
            return Err(format!("in a tag: {tag}"));
        }
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Err(format!("</{name}> closes nothing"));
            }
            continue;
        }
        elements += 1;
        let name = tag.split([' ', '/']).next().unwrap_or("");
        if name == "style" {
            rest = rest.split_once("</style>").ok_or("styles do not end")?.1;
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    if open.is_empty() { Ok(elements) } else { Err(format!("left open: {open:?}")) }
}

fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z ]{0,24}",
        "\\PC{0,16}",
        Just("<script>alert(1)</script>".to_owned()),
        Just("\"'&`</svg>`\u{1b}[2J\0\r\n".to_owned()),
        Just("x".repeat(200)),
    ]
}

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![any::<f64>(), -1e6..1e6, Just(0.0), Just(f64::NAN), Just(f64::INFINITY)]
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![Just(Verdict::Pass), Just(Verdict::Fail), Just(Verdict::Open)]
}

fn table() -> impl Strategy<Value = Block> {
    let cell = (words(), proptest::option::of(verdict()))
        .prop_map(|(text, verdict)| Cell { text, verdict });
    let column = (words(), any::<bool>()).prop_map(|(title, is_number)| {
        if is_number { Column::number(title) } else { Column::text(title) }
    });
    (
        words(),
        prop::collection::vec(column, 0..16),
        prop::collection::vec(prop::collection::vec(cell, 0..16), 0..5),
    )
        .prop_map(|(caption, columns, rows)| Block::Table(Table { caption, columns, rows }))
}

fn plot() -> impl Strategy<Value = Block> {
    let axis = || {
        (words(), words(), any::<bool>()).prop_map(|(label, unit, is_log)| {
            let axis = Axis::new(label).unit(unit);
            if is_log { axis.log() } else { axis }
        })
    };
    let series =
        prop::collection::vec((words(), prop::collection::vec((value(), value()), 0..30)), 0..10);
    let categories = prop::collection::vec(words(), 0..14);
    (0..4usize, words(), axis(), axis(), series, categories, value()).prop_map(
        |(kind, title, x, y, series, categories, limit)| {
            let empty = match kind {
                0 => Plot::lines(title, x, y),
                1 => Plot::scatter(title, x, y),
                2 => Plot::percentiles(title, y),
                _ => Plot::bars(title, categories, y),
            };
            let full = series
                .into_iter()
                .fold(empty, |plot, (label, points)| plot.series(Series::new(label, points)));
            Block::Plot(full.limit("a limit", limit))
        },
    )
}

fn block() -> impl Strategy<Value = Block> {
    let leaf = prop_oneof![
        words().prop_map(Block::Paragraph),
        words().prop_map(Block::Note),
        words().prop_map(Block::Listing),
        prop::collection::vec(words(), 0..4).prop_map(Block::Items),
        (words(), words(), words(), proptest::option::of(verdict())).prop_map(
            |(label, value, limit, verdict)| Block::Figures(vec![KeyFigure {
                label,
                value,
                limit,
                verdict
            }])
        ),
        table(),
        plot(),
    ];
    leaf.prop_recursive(8, 24, 4, |inner| {
        (words(), prop::collection::vec(inner, 0..4))
            .prop_map(|(title, blocks)| Block::Section(Section { title, blocks }))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_page_is_well_formed_and_every_text_fits(
        title in words(),
        summary in words(),
        footer in words(),
        blocks in prop::collection::vec(block(), 0..6),
    ) {
        let document = Document { title, summary, blocks, footer };
        let page = html::page(&document);
        prop_assert!(check(&page).is_ok(), "{:?}\n{page}", check(&page));
        prop_assert!(!page.contains("<script"));
        let drawn = page.split("d=\"").skip(1).filter_map(|rest| rest.split('"').next());
        for path in drawn {
            prop_assert!(!path.contains("NaN") && !path.contains("inf"), "{path}");
        }
        let shown = text::render(&document);
        for line in shown.lines() {
            prop_assert!(line.chars().count() <= text::COLUMNS, "{line}");
            prop_assert!(!line.chars().any(char::is_control), "{line:?}");
        }
    }
}

#[test]
fn the_check_of_pages_sees_what_is_wrong() {
    assert_eq!(check("<!DOCTYPE html><p class=\"a\">x<br/></p>"), Ok(2));
    for wrong in ["<p>", "<p></b>", "<p>a & b</p>", "<p a=\"></p>", "<p>></p>"] {
        assert!(check(&format!("<!DOCTYPE html>{wrong}")).is_err(), "{wrong}");
    }
}

#[test]
fn a_page_needs_nothing_from_elsewhere() {
    let plot = Plot::lines("P", Axis::new("x"), Axis::new("y"))
        .series(Series::new("a", vec![(0.0, 1.0), (1.0, 2.0)]))
        .series(Series::new("b", vec![(0.0, 2.0), (1.0, 1.0)]));
    let page = html::page(&Document::new("T").with(plot));
    for outside in ["http:", "https:", "url(", "@import", "src=", "<link", "<script"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("class=\"legend\""));
}

//! The page at `/`: what there is, to be played in place, and the figures of a demonstration.
//!
//! Its files are in the program, so that it needs nothing of the network.

use super::Settings;
use crate::manifest::{MANIFEST, MASTER};
use crate::programme::{Kind, Programme};
use std::fmt::Write;

/// Sizes of the files that the page offers; other sizes work as well.
const DOWNLOADS: [&str; 4] = ["10MB", "100MB", "1GB", "10GB"];

/// Where in the page its programmes are.
const PLACE: &str = "{{programmes}}";

/// Programmes of a kind that the page has cards for; all others are there too.
const CARDS_MAX: usize = 48;

/// Degrees between the hues of two programmes: the golden angle, by which neighbours differ.
const HUE_STEP: u32 = 137;

/// The page, in HTML.
pub(super) fn index(settings: &Settings) -> String {
    let mut html = String::new();
    let of = |kind| settings.programmes().filter(move |programme| programme.kind == kind);
    for (title, kind) in [("Live channels", Kind::Live), ("Films", Kind::OnDemand)] {
        let cards = of(kind).take(CARDS_MAX).map(card);
        section(&mut html, title, "grid", cards);
    }
    let downloads = DOWNLOADS
        .iter()
        .map(|size| format!("<li><a href=\"/download/{size}/file.bin\">{size}</a></li>"));
    section(&mut html, "Downloads", "ways", downloads);
    include_str!("index.html").replace(PLACE, &html)
}

/// A file that the page is made of: its text and its type.
pub(super) fn file(path: &str) -> Option<(&'static str, &'static str)> {
    const SCRIPT: &str = "text/javascript; charset=utf-8";
    Some(match path {
        "/page.css" => (include_str!("page.css"), "text/css; charset=utf-8"),
        "/page.js" => (include_str!("page.js"), SCRIPT),
        "/player.js" => (include_str!("player.js"), SCRIPT),
        "/manifests.js" => (include_str!("manifests.js"), SCRIPT),
        _ => return None,
    })
}

fn card(programme: Programme) -> String {
    let number = programme.number;
    let (name, badge) = match programme.kind {
        Kind::Live => (format!("Channel {number}"), "<span>LIVE</span>"),
        Kind::OnDemand => (format!("Film {number}"), ""),
    };
    let formats = [("HLS", MASTER), ("DASH", MANIFEST)];
    let buttons = formats.map(|(format, manifest)| {
        format!(
            "<button type=\"button\" data-manifest=\"/{programme}/{manifest}\" \
             aria-label=\"Play {format}: {name}\">Play {format}</button>"
        )
    });
    let links = formats.map(|(_, manifest)| {
        let ending = manifest.rsplit('.').next().unwrap_or(manifest);
        format!(
            "<a href=\"/{programme}/{manifest}\" aria-label=\"{ending} of {name}\">{ending}</a>"
        )
    });
    format!(
        "<li class=\"card\"><div class=\"poster\" style=\"--hue:{}\"><h3>{name}</h3>{badge}</div>\
         <div class=\"ways\">{} {}</div></li>",
        number * HUE_STEP % 360,
        buttons.join(" "),
        links.join(" ")
    )
}

fn section(html: &mut String, title: &str, class: &str, items: impl Iterator<Item = String>) {
    let items: String = items.map(|item| item + "\n").collect();
    if !items.is_empty() {
        writeln!(
            html,
            "<section>\n<h2>{title}</h2>\n<ul class=\"{class}\">\n{items}</ul>\n</section>"
        )
        .expect("writing to a String does not fail");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_a_card_for_each_programme_and_all_its_files() {
        let html = index(&Settings { channels: 3, titles: 2, ..Settings::default() });
        assert_eq!(html.matches("class=\"card\"").count(), 5);
        assert!(html.contains("data-manifest=\"/channel-3/master.m3u8\""));
        assert!(!html.contains(PLACE));
        let names = |text: &str, before: &str| {
            let rests = text.split(before).skip(1);
            rests.map(|rest| rest.split(['"', '\'']).next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let named = [names(&html, "href=\"/"), names(&html, "src=\"/")].concat();
        let files: Vec<_> = named.iter().filter(|name| name.starts_with("page")).collect();
        assert_eq!(files.len(), 2, "{named:?}");
        let script = file("/page.js").unwrap().0;
        let imported = names(script, "from './");
        assert_eq!(imported, ["player.js"]);
        for name in files.into_iter().chain(&imported) {
            assert!(file(&format!("/{name}")).is_some(), "{name}");
        }
    }
}

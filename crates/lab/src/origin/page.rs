//! The page at `/`, from which a person finds the rest.

use super::Settings;
use crate::manifest::{MANIFEST, MASTER};
use crate::programme::{Kind, Programme};
use std::fmt::Write;

/// Sizes of the files that the page offers; other sizes work as well.
const DOWNLOADS: [&str; 4] = ["10MB", "100MB", "1GB", "10GB"];

/// The page, in HTML.
pub(super) fn index(settings: &Settings) -> String {
    let mut html = String::from(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>Freshet laboratory</title>\n\
         <style>body{font:16px/1.5 system-ui,sans-serif;max-width:45em;margin:2em auto;\
         padding:0 1em}li{margin:.2em 0}</style>\n</head>\n<body>\n\
         <h1>Freshet laboratory</h1>\n\
         <p>A synthetic origin. Open a link in a player, for example <code>ffplay URL</code>.</p>\n",
    );
    let of = |kind| settings.programmes().filter(move |programme| programme.kind == kind);
    section(&mut html, "Live channels", of(Kind::Live).map(programme));
    section(&mut html, "Titles on demand", of(Kind::OnDemand).map(programme));
    let downloads =
        DOWNLOADS.iter().map(|size| format!("<a href=\"/download/{size}/file.bin\">{size}</a>"));
    section(&mut html, "Files", downloads);
    html.push_str("</body>\n</html>\n");
    html
}

fn programme(programme: Programme) -> String {
    format!(
        "{programme}: <a href=\"/{programme}/{MASTER}\">HLS</a>, \
         <a href=\"/{programme}/{MANIFEST}\">DASH</a>"
    )
}

fn section(html: &mut String, title: &str, items: impl Iterator<Item = String>) {
    write!(html, "<h2>{title}</h2>\n<ul>\n").expect("writing to a String does not fail");
    for item in items {
        writeln!(html, "<li>{item}</li>").expect("writing to a String does not fail");
    }
    html.push_str("</ul>\n");
}

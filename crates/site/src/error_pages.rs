//! Pages of a site's own in place of the short texts the node says errors with: `[[error_page]]`.

use crate::synthetic::Synthetic;
use bytes::Bytes;
use freshet_config::Mistake;
use freshet_config::access::{ErrorPage, Maintenance, Statuses};
use freshet_config::mistake::Place;
use freshet_http::reason::Reason;
use std::path::Path;

/// Longest page. It is in memory, and sent from there.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The pages of a site, with their files read.
#[derive(Debug, Default)]
pub struct ErrorPages {
    pages: Vec<Page>,
    maintenance: Option<Content>,
}

#[derive(Debug)]
struct Page {
    statuses: Vec<Statuses>,
    is_for_origins: bool,
    content: Content,
}

#[derive(Clone, Debug)]
struct Content {
    kind: &'static str,
    body: Bytes,
}

impl ErrorPages {
    /// Reads the files.
    ///
    /// # Errors
    /// What is wrong with one, where it is named.
    pub fn load(rules: &[ErrorPage], maintenance: &Maintenance) -> Result<Self, Vec<Mistake>> {
        let page = |rule: &ErrorPage| {
            let content = content(&rule.file, rule.place)?;
            Ok(Page { statuses: rule.statuses.clone(), is_for_origins: rule.origin, content })
        };
        let maintenance = maintenance.page.as_ref().map(|file| content(file, maintenance.place));
        let maintenance = maintenance.transpose().map_err(|mistake| vec![mistake]);
        match (Mistake::collect(rules.iter().map(page)), maintenance) {
            (Ok(pages), Ok(maintenance)) => Ok(Self { pages, maintenance }),
            (pages, maintenance) => {
                Err([pages.err(), maintenance.err()].into_iter().flatten().flatten().collect())
            }
        }
    }

    /// Puts the page that is for it in the place of a response's body, where there is one.
    pub fn dress(&self, reason: Reason, page: &mut Synthetic) {
        let of_maintenance = self.maintenance.as_ref().filter(|_| reason == Reason::Maintenance);
        let of_status = || self.for_status(page.head.status).map(|page| &page.content);
        if let Some(content) = of_maintenance.or_else(of_status) {
            page.head.fields.set("Content-Type", content.kind);
            page.body = content.body.clone();
        }
    }

    /// Whether what an origin answers with this status is replaced.
    pub fn replaces(&self, status: u16) -> bool {
        status >= 400 && self.for_status(status).is_some_and(|page| page.is_for_origins)
    }

    fn for_status(&self, status: u16) -> Option<&Page> {
        self.pages.iter().find(|page| page.statuses.iter().any(|one| one.has(status)))
    }
}

fn content(file: &Path, place: Place) -> Result<Content, Mistake> {
    let refuse = |why: String| Mistake::error(place, format!("{}: {why}", file.display()));
    let kind = match file.extension().and_then(|name| name.to_str()) {
        Some("html" | "htm") => "text/html; charset=utf-8",
        Some("json") => "application/json",
        Some("xml") => "application/xml",
        Some("txt") => "text/plain; charset=utf-8",
        _ => return Err(refuse("a page ends with .html, .json, .xml or .txt".into())),
    };
    let body = freshet_base::file::read(file, FILE_BYTES_MAX)
        .map_err(|error| refuse(error.to_string()))?;
    Ok(Content { kind, body: body.into() })
}

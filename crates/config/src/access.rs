//! `[[access]]`, `[maintenance]` and `[[error_page]]`: who is let in at all, when nobody is, and what
//! those are told who get nothing.

use super::access_service::{AccessService, service};
use super::document::{Document, Row};
use super::geo::{Clients, clients};
use super::mistake::{Mistake, Place};
use super::values::{beginning, networks, optional};
use freshet_net::trust::Network;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Most of each in a site: they are looked at one after the other.
const PER_SITE_MAX: usize = 64;

/// `[[access]]`
#[derive(Clone, Debug, PartialEq)]
pub struct AccessRule {
    /// What the path begins with.
    pub path: String,
    /// Who is let in; all where empty.
    pub allow: Vec<Clients>,
    /// Who is not, whatever `allow` says.
    pub deny: Vec<Clients>,
    /// File with names and hashes of passwords.
    pub users: Option<PathBuf>,
    /// What a client asks its user for.
    pub realm: String,
    /// Who is asked, where somebody is.
    pub service: Option<AccessService>,
    /// Whether a network that is let in needs no password or service, and those no network.
    pub any: bool,
    /// Whether origins get `Authorization`.
    pub forward: bool,
    /// Where its file is written.
    pub place: Place,
}

/// `[maintenance]`
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Maintenance {
    /// Whether nobody is served.
    pub enabled: bool,
    /// Networks that are all the same.
    pub allow: Vec<Network>,
    /// When the others may come again.
    pub retry_after: Duration,
    /// File with what they are told.
    pub page: Option<PathBuf>,
    /// Where that is written.
    pub place: Place,
}

/// `[[error_page]]`
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorPage {
    /// Statuses it is for.
    pub statuses: Vec<Statuses>,
    /// File with the page.
    pub file: PathBuf,
    /// Whether also in place of what an origin answers.
    pub origin: bool,
    /// Where its file is written.
    pub place: Place,
}

/// A status, or all of a hundred.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Statuses {
    /// This one.
    One(u16),
    /// As `4xx`, by the first digit.
    Class(u16),
}

impl Statuses {
    /// Whether `status` is among them.
    pub fn has(self, status: u16) -> bool {
        match self {
            Self::One(one) => one == status,
            Self::Class(class) => class == status / 100,
        }
    }

    /// `200` to `599`, and `2xx` to `5xx`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text.strip_suffix("xx") {
            Some(class) => {
                class.parse().ok().filter(|class| (2..6).contains(class)).map(Self::Class)
            }
            None => text.parse().ok().filter(|one| (200..600).contains(one)).map(Self::One),
        }
    }

    fn is_of_errors(self) -> bool {
        match self {
            Self::One(status) => status >= 400,
            Self::Class(class) => class >= 4,
        }
    }
}

/// What a document says of `[[access]]`; what is wrong is listed.
pub(super) fn access(document: &Document, wrong: &mut Vec<Mistake>) -> Arc<[AccessRule]> {
    let rows = document.rows("access");
    check_count("access", rows.len(), document.at("access[].path"), wrong);
    rows.iter().filter_map(|row| rule(document, row, wrong)).collect()
}

fn rule(document: &Document, row: &Row<'_>, wrong: &mut Vec<Mistake>) -> Option<AccessRule> {
    let before = wrong.len();
    let text = |key: &str| row.value(&format!("access[].{key}")).text();
    let rule = AccessRule {
        path: beginning(row, "access[].path", "/admin/", wrong).unwrap_or_default(),
        allow: clients(document, row, "access[].allow", wrong),
        deny: clients(document, row, "access[].deny", wrong),
        users: optional(text("users")).map(Into::into),
        realm: text("realm"),
        service: service(row, wrong),
        any: text("satisfy") == "any",
        forward: row.value("access[].forward").bool(),
        place: row.at("access[].users").or(row.at("access[].path")),
    };
    let mut refuse = |key: &str, message: String| {
        wrong.push(Mistake::error(row.at(&format!("access[].{key}")), message));
    };
    // It stands in quotes (RFC 9110 §11.5).
    if rule.realm.bytes().any(|byte| matches!(byte, b'"' | b'\\') || byte.is_ascii_control()) {
        refuse("realm", "access.realm takes no quotes, backslashes and control characters".into());
    }
    let has_service = !text("service").is_empty();
    let asks = rule.users.is_some() || has_service;
    if rule.any && (!asks || rule.allow.is_empty()) {
        let message =
            "access.satisfy = \"any\" is for a rule with `allow` and one of `users` and `service`";
        refuse("satisfy", message.into());
    }
    if row.has("access[].allow") && row.value("access[].allow").list().is_empty() {
        let message = "access.allow names nobody, which would let in everybody: leave it out for that, or have \
                       `deny = [\"::/0\", \"0.0.0.0/0\"]`";
        refuse("allow", message.into());
    }
    if rule.forward && !asks {
        refuse("forward", "access.forward means nothing without `users` or `service`".into());
    }
    if rule.users.is_some() && has_service {
        let message = "access.service and access.users both want `Authorization`: give one of them";
        refuse("service", message.into());
    }
    for key in [
        "service_fields",
        "service_timeout",
        "service_remember",
        "service_by",
        "service_changes",
        "service_origin",
        "service_strip",
    ] {
        if !has_service && row.has(&format!("access[].{key}")) {
            refuse(key, format!("access.{key} means nothing without `service`"));
        }
    }
    (wrong.len() == before).then_some(rule)
}

/// What a document says of `[maintenance]`; what is wrong is listed.
pub(super) fn maintenance(document: &Document, wrong: &mut Vec<Mistake>) -> Maintenance {
    Maintenance {
        enabled: document.value("maintenance.enabled").bool(),
        allow: networks(document, "maintenance.allow", wrong),
        retry_after: document.value("maintenance.retry_after").span(),
        page: optional(document.value("maintenance.page").text()).map(Into::into),
        place: document.at("maintenance.page"),
    }
}

/// What a document says of `[[error_page]]`; what is wrong is listed.
pub(super) fn error_pages(document: &Document, wrong: &mut Vec<Mistake>) -> Arc<[ErrorPage]> {
    let rows = document.rows("error_page");
    check_count("error_page", rows.len(), document.at("error_page[].file"), wrong);
    rows.iter().filter_map(|row| error_page(row, wrong)).collect()
}

fn error_page(row: &Row<'_>, wrong: &mut Vec<Mistake>) -> Option<ErrorPage> {
    let before = wrong.len();
    let mut statuses = Vec::new();
    for text in row.value("error_page[].status").list() {
        match Statuses::parse(&text).filter(|one| one.is_of_errors()) {
            Some(one) => statuses.push(one),
            None => {
                let message =
                    format!("error_page.status has 400 to 599, `4xx` and `5xx`, not `{text}`");
                wrong.push(Mistake::error(row.at("error_page[].status"), message));
            }
        }
    }
    let file = optional(row.value("error_page[].file").text());
    if file.is_none() {
        let message = "error_page.file names the file with the page";
        wrong.push(Mistake::error(row.at("error_page[].file"), message));
    }
    let page = ErrorPage {
        statuses,
        file: file.unwrap_or_default().into(),
        origin: row.value("error_page[].origin").bool(),
        place: row.at("error_page[].file"),
    };
    (wrong.len() == before).then_some(page)
}

fn check_count(table: &str, count: usize, place: Place, wrong: &mut Vec<Mistake>) {
    if count > PER_SITE_MAX {
        let message = format!("a site has at most {PER_SITE_MAX} of [[{table}]]");
        wrong.push(Mistake::error(place, message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong_with(text: &str) -> Vec<Mistake> {
        let mut wrong = Vec::new();
        match Document::parse(text) {
            Ok(document) => {
                access(&document, &mut wrong);
                maintenance(&document, &mut wrong);
                error_pages(&document, &mut wrong);
            }
            Err(mistakes) => wrong = mistakes,
        }
        wrong
    }

    #[test]
    fn rules_that_mean_nothing_are_refused() {
        for (text, says) in [
            ("[[access]]\npath = \"a\"\n", "begins with `/`"),
            ("[[access]]\npath = \"/a/*\"\n", "leave out `*`"),
            ("[[access]]\nallow = [\"300.0.0.0/8\"]\n", "access.allow"),
            ("[[access]]\nallow = []\n", "names nobody"),
            ("[[access]]\nrealm = \"a\\\"b\"\nusers = \"f\"\n", "no quotes"),
            ("[[access]]\nsatisfy = \"any\"\nusers = \"f\"\n", "with `allow` and one of"),
            ("[[access]]\nforward = true\n", "without `users`"),
            ("[[access]]\nservice = \"http://a\"\nusers = \"f\"\n", "give one of them"),
            ("[[access]]\nservice = \"a\"\n", "access.service is as"),
            ("[[access]]\nservice = \"http://a/b c\"\n", "access.service is as"),
            ("[[access]]\nservice = \"ftp://a/\"\n", "access.service"),
            ("[[access]]\nservice_fields = [\"X\"]\n", "without `service`"),
            ("[[access]]\nservice = \"http://a\"\nservice_fields = [\"Host\"]\n", "no field"),
            ("[[access]]\nservice = \"http://a\"\nservice_by = [\"{x}\"]\n", "not `{x}`"),
            ("[[access]]\nservice = \"http://a\"\nservice_timeout = \"0s\"\n", "more than nothing"),
            ("[[access]]\nservice = \"http://a\"\nservice_by = [\"{path:0}\"]\n", "of 1 to 16"),
            ("[[access]]\nservice = \"http://a\"\nservice_by = [\"{path:x\"]\n", "of 1 to 16"),
            (
                "[[access]]\nservice = \"http://a\"\nservice_origin = \"a b\"\n",
                "no name of a field",
            ),
            (
                "[[access]]\nservice = \"http://a\"\nservice_strip = 1\n",
                "means nothing without `service_origin`",
            ),
            (
                "[[access]]\nservice = \"http://a\"\nservice_changes = \"/c\"\n",
                "means nothing without `service_remember`",
            ),
            (
                "[[access]]\nservice = \"http://a\"\nservice_remember = \"1s\"\nservice_changes = \"c\"\n",
                "is a path at the service",
            ),
            ("[[access]]\nservice_changes = \"/c\"\n", "without `service`"),
            ("[maintenance]\nallow = [\"x\"]\n", "maintenance.allow"),
            ("[[error_page]]\nstatus = [\"200\"]\nfile = \"f\"\n", "error_page.status"),
            ("[[error_page]]\nstatus = [\"5xx\"]\n", "error_page.file"),
        ] {
            let wrong = wrong_with(text);
            assert!(wrong.iter().any(|line| line.message.contains(says)), "{text}: {wrong:?}");
        }
    }

    #[test]
    fn a_page_is_for_what_it_names() {
        let all: Vec<_> = ["404", "5xx"].iter().filter_map(|text| Statuses::parse(text)).collect();
        let has = |status| all.iter().any(|one| one.has(status));
        assert!(has(404) && has(500) && has(599) && !has(403) && !has(600));
        assert!(Statuses::parse("199").is_none() && Statuses::parse("xx").is_none());
    }
}

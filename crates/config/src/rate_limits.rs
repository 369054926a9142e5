//! `[[rate_limit]]`: how much the clients of a site may ask for.

use super::document::{Document, Row};
use super::mistake::Mistake;
use super::values::{beginning, networks};
use freshet_http::fields::is_token;
use freshet_limits::{Rate, limits};
use freshet_net::trust::Network;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// Most of them in a site: each is looked at for each request.
const PER_SITE_MAX: usize = 64;

/// `[[rate_limit]]`
#[derive(Clone, Debug, PartialEq)]
pub struct RateLimit {
    /// Its name in logs, metrics and what clients are told.
    pub name: Arc<str>,
    /// What the path begins with.
    pub path: String,
    /// What is counted together.
    pub by: By,
    /// Requests in time.
    pub rate: Option<Rate>,
    /// Requests at a time.
    pub concurrent_max: Option<u32>,
    /// Clients it does not hold for.
    pub except: Vec<Network>,
    /// Whether it only counts what it would refuse.
    pub dry_run: bool,
    /// Whether every response says what is left.
    pub always_tells: bool,
    /// Who is blocked for being refused too often.
    pub block: Option<BlockRule>,
}

/// `rate_limit.by`
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum By {
    /// The client's network.
    Client,
    /// All requests together.
    Site,
    /// The path, without its query.
    Path,
    /// The value of this field; requests without it are not counted.
    Header(String),
}

/// `rate_limit.block_after` with `rate_limit.block_for`
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BlockRule {
    /// Refusals that are not too often yet.
    pub after: Rate,
    /// For how long.
    pub time: Duration,
}

impl RateLimit {
    /// One sentence for people.
    pub fn sentence(&self) -> String {
        let of = match &self.by {
            By::Client => "of one client".to_owned(),
            By::Site => "of all clients together".to_owned(),
            By::Path => "for one path".to_owned(),
            By::Header(name) => format!("with one value of {name}"),
        };
        let rate = self.rate.map(|rate| rate.to_string());
        let most = self.concurrent_max.map(|most| format!("{most} under way"));
        let what: Vec<_> = rate.into_iter().chain(most).collect();
        let dry = if self.dry_run { " (dry run: nothing is refused)" } else { "" };
        format!("`{}`: {} {of}{dry}", self.name, what.join(", "))
    }
}

/// What a document says of them; what is wrong is listed.
pub(super) fn rate_limits(document: &Document, wrong: &mut Vec<Mistake>) -> Arc<[RateLimit]> {
    let rows = document.rows("rate_limit");
    if rows.len() > PER_SITE_MAX {
        let message = format!("a site has at most {PER_SITE_MAX} of [[rate_limit]]");
        wrong.push(Mistake::error(document.at("rate_limit[].name"), message));
    }
    let mut names = HashSet::new();
    let numbered = rows.iter().enumerate();
    let read =
        numbered.filter_map(|(index, row)| rate_limit(index, row, wrong).map(|one| (row, one)));
    let read: Vec<_> = read.collect();
    for (row, limit) in &read {
        if !names.insert(Arc::clone(&limit.name)) {
            let message = format!("rate_limit.name: two are named `{}`", limit.name);
            wrong.push(Mistake::error(row.at("rate_limit[].name"), message));
        }
    }
    read.into_iter().map(|(_, limit)| limit).collect()
}

fn rate_limit(index: usize, row: &Row<'_>, wrong: &mut Vec<Mistake>) -> Option<RateLimit> {
    let before = wrong.len();
    let text = |key: &str| row.value(&format!("rate_limit[].{key}")).text();
    let number = |key: &str| row.value(&format!("rate_limit[].{key}")).number();
    let path = beginning(row, "rate_limit[].path", "/api/", wrong).unwrap_or_default();
    let except = networks(row, "rate_limit[].except", wrong);
    let mut refuse = |key: &str, message: String| {
        wrong.push(Mistake::error(row.at(&format!("rate_limit[].{key}")), message));
    };
    let name = match text("name") {
        name if name.is_empty() => format!("limit-{}", index + 1),
        name => name,
    };
    if name.len() > limits::NAME_BYTES_MAX
        || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    {
        let most = limits::NAME_BYTES_MAX;
        refuse(
            "name",
            format!("rate_limit.name is up to {most} letters, digits, `-`, `.` and `_`"),
        );
    }
    let header = text("header");
    let by = match text("by").as_str() {
        "site" => By::Site,
        "path" => By::Path,
        "header" => By::Header(header.clone()),
        _ => By::Client,
    };
    match &by {
        By::Header(name) if !is_token(name) => {
            refuse("header", format!("rate_limit.header names the field to go by, not `{name}`"));
        }
        By::Header(_) => {}
        _ if !header.is_empty() => {
            refuse("header", "rate_limit.header means nothing without by = \"header\"".into());
        }
        _ => {}
    }
    let (rate_text, burst) = (text("rate"), Some(number("burst")).filter(|burst| *burst > 0));
    let rate = match rate_text.as_str() {
        "" => None,
        rate => match Rate::parse(rate, burst) {
            Ok(rate) => Some(rate),
            Err(error) => {
                refuse("rate", format!("rate_limit.rate: {error}"));
                None
            }
        },
    };
    let concurrent_max =
        u32::try_from(number("concurrent_max")).ok().filter(|concurrent| *concurrent > 0);
    if rate_text.is_empty() && burst.is_some() {
        refuse("burst", "rate_limit.burst means nothing without rate".into());
    }
    if rate_text.is_empty() && concurrent_max.is_none() {
        let message = "a [[rate_limit]] has a rate, as \"100/s\", or concurrent_max, or both";
        refuse("rate", message.into());
    }
    let (after, time) = (number("block_after"), row.value("rate_limit[].block_for").span());
    let block = match after {
        0 => None,
        _ if by != By::Client => {
            let message = "rate_limit.block_after is for by = \"client\": where clients are counted \
                           together, who is refused has done nothing";
            refuse("block_after", message.into());
            None
        }
        after => match Rate::of(after, time) {
            Ok(after) => Some(BlockRule { after, time }),
            Err(error) => {
                refuse("block_after", format!("rate_limit.block_after in block_for: {error}"));
                None
            }
        },
    };
    let (dry_run, always_tells) =
        (row.value("rate_limit[].dry_run").bool(), text("fields") == "always");
    let name = name.into();
    let limit =
        RateLimit { name, path, by, rate, concurrent_max, except, dry_run, always_tells, block };
    (wrong.len() == before).then_some(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Arc<[RateLimit]>, Vec<Mistake>> {
        let document = Document::parse(text)?;
        let mut wrong = Vec::new();
        let limits = rate_limits(&document, &mut wrong);
        if wrong.is_empty() { Ok(limits) } else { Err(wrong) }
    }

    #[test]
    fn limits_are_read_with_their_defaults() {
        let limits = of("[[rate_limit]]\nrate = \"10/s\"\n\
             [[rate_limit]]\nname = \"api\"\npath = \"/api/\"\nby = \"header\"\nheader = \"X-Key\"\n\
             concurrent_max = 4\nexcept = [\"10.0.0.0/8\"]\nfields = \"always\"\n\
             [[rate_limit]]\nname = \"login\"\nrate = \"5/m\"\nblock_after = 20\nblock_for = \"1h\"\n")
        .unwrap();
        assert_eq!((&*limits[0].name, &*limits[0].path), ("limit-1", "/"));
        assert_eq!(limits[0].sentence(), "`limit-1`: 10 at once, 10 a second after of one client");
        assert_eq!(limits[1].by, By::Header("X-Key".into()));
        assert_eq!((limits[1].rate, limits[1].concurrent_max), (None, Some(4)));
        assert!(limits[1].always_tells && limits[1].except.len() == 1);
        let block = limits[2].block.unwrap();
        assert_eq!((block.after.burst(), block.time), (20, Duration::from_secs(3600)));
    }

    #[test]
    fn what_limits_nothing_or_the_wrong_ones_is_refused() {
        for (text, says) in [
            ("", "has a rate"),
            ("burst = 5\n", "means nothing without rate"),
            ("rate = \"10\"\n", "is no rate"),
            ("rate = \"0/s\"\n", "lets nothing through"),
            ("rate = \"1/d\"\nburst = 9\n", "more than a day"),
            ("rate = \"1/s\"\nby = \"header\"\n", "names the field"),
            ("rate = \"1/s\"\nby = \"header\"\nheader = \"a b\"\n", "names the field"),
            ("rate = \"1/s\"\nheader = \"X\"\n", "means nothing without by"),
            ("rate = \"1/s\"\nby = \"cookie\"\n", "is one of"),
            ("rate = \"1/s\"\npath = \"api\"\n", "begins with `/`"),
            ("rate = \"1/s\"\nname = \"a b\"\n", "rate_limit.name is"),
            ("rate = \"1/s\"\nexcept = [\"10.0.0.0/33\"]\n", "rate_limit.except"),
            ("rate = \"1/s\"\nby = \"site\"\nblock_after = 3\n", "has done nothing"),
            ("rate = \"1/s\"\nblock_after = 3\nblock_for = \"3d\"\n", "more than a day"),
            (
                "rate = \"1/s\"\nname = \"limit-2\"\n[[rate_limit]]\nrate = \"1/s\"\n",
                "two are named",
            ),
        ] {
            let text = format!("[[rate_limit]]\n{text}");
            let wrong = of(&text).expect_err(&text);
            assert!(wrong.iter().any(|line| line.message.contains(says)), "{text}: {wrong:?}");
        }
        let many = "[[rate_limit]]\nrate = \"1/s\"\n".repeat(PER_SITE_MAX + 1);
        assert!(of(&many).unwrap_err()[0].message.contains("at most"));
    }
}

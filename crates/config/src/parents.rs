//! `[[parent]]`, `[[sibling]]` and `[parents]`: caches between this node and the origins.

use super::document::Document;
use super::mistake::Mistake;
use super::origins::{Health, Origin, health_by, upstream};
use super::settings::Settings;
use std::collections::BTreeMap;

/// Caches that are asked before the origins are.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Parents {
    /// Groups in the order they are asked in, none of them empty.
    pub groups: Vec<Vec<Origin>>,
    /// Nodes of the same place, this one among them; none where it has none.
    pub siblings: Vec<Origin>,
    /// Whether the origins are asked where no parent can be.
    pub direct: bool,
    /// Active checks, where asked for.
    pub health: Option<Health>,
    /// How far above its fair share of requests in flight a parent may be, percent.
    pub load_bound_percent: u32,
    /// Requests a second from which on a key has several homes; 0 for never.
    pub hot_rate: u32,
    /// How many.
    pub hot_copies: u32,
    /// Requests a second from which on what a sibling sent is kept here too; 0 for always.
    pub sibling_keep_rate: u32,
}

impl Parents {
    /// All of them, in the order of groups, and the siblings.
    pub fn all(&self) -> impl Iterator<Item = &Origin> {
        self.groups.iter().flatten().chain(&self.siblings)
    }
}

/// What a document says of parents; names are to differ from those of `origins`. `own` is this node's name
/// in `CDN-Loop`.
pub(super) fn parents(
    document: &Document,
    origins: &[Origin],
    own: Option<&str>,
    wrong: &mut Vec<Mistake>,
) -> Parents {
    let number = |path: &str| u32::try_from(document.value(path).number()).unwrap_or(u32::MAX);
    let mut groups = BTreeMap::<u64, Vec<Origin>>::new();
    let mut siblings = Vec::<Origin>::new();
    for table in ["parent", "sibling"] {
        for row in document.rows(table) {
            let Some(one) = upstream(&row, table, wrong) else { continue };
            let known = origins.iter().chain(groups.values().flatten()).chain(&siblings);
            if known.into_iter().any(|other| other.name == one.name) {
                let message = format!(
                    "a {table} is named `{}`, as another parent, sibling or origin is; give it a \
                     {table}.name of its own",
                    one.name
                );
                wrong.push(Mistake::error(one.place, message));
            }
            match table {
                "parent" => {
                    groups.entry(row.value("parent[].group").number()).or_default().push(one);
                }
                _ => siblings.push(one),
            }
        }
    }
    if let Some(first) = siblings.first()
        && !siblings.iter().any(|one| own == Some(one.name.as_str()))
    {
        let message = "no [[sibling]] is this node: give cache.loop_id its own name, and list it among \
                       its siblings, as all of them do";
        wrong.push(Mistake::error(first.place, message));
    }
    let health = health_by(document, "parents.health_path", wrong);
    Parents {
        groups: groups.into_values().collect(),
        siblings,
        direct: document.value("parents.direct").bool(),
        health,
        load_bound_percent: number("parents.load_bound"),
        hot_rate: number("parents.hot_rate"),
        hot_copies: number("parents.hot_copies"),
        sibling_keep_rate: number("parents.sibling_keep_rate"),
    }
}

/// Warns of nodes of a place that take what another asks of them for its own, in the clear, where its clients come over
/// TLS: rules and origins that send clients to TLS would send them back to where they are.
pub fn siblings_not_believed(settings: &Settings) -> Option<Mistake> {
    let has_tls = settings.listeners.iter().any(|listener| listener.tls);
    if !has_tls || !settings.forwarded.from.is_empty() {
        return None;
    }
    let sites = settings.served();
    let siblings = sites.iter().flat_map(|site| &site.parents.siblings);
    let first = siblings.into_iter().find(|one| one.url.starts_with("http:"))?;
    let message = "a [[sibling]] is asked in the clear for clients that come over TLS, and takes what it is asked \
                   for that of a client in the clear";
    let help = "list the networks of all nodes of the place in forwarded.from, as in cache.peers";
    Some(Mistake::warning(first.place, message).help(help))
}

#[cfg(test)]
mod tests {
    use crate::Settings;
    use crate::document::Document;
    use freshet_origin::HttpVersion;

    fn settings(text: &str) -> Result<Settings, String> {
        let document = Document::parse(text).expect("the text is well-formed");
        Settings::from_document(&document).map_err(|wrong| format!("{wrong:?}"))
    }

    #[test]
    fn what_is_asked_for_by_checks_is_a_path() {
        let of =
            |text: &str| settings(&format!("[[origin]]\nurl = \"http://a\"\n{text}")).map(drop);
        for (table, key, value) in [
            ("health", "path", "healthz"),
            ("health", "path", "http://a/up"),
            ("health", "path", "/a b"),
            ("health", "path", "/up#a"),
            ("parents", "health_path", "up"),
        ] {
            let wrong = of(&format!("[{table}]\n{key} = \"{value}\"\n")).expect_err(value);
            assert!(wrong.contains(&format!("{table}.{key} is a path")), "{wrong}");
        }
        assert!(of("[health]\npath = \"/up?a=b\"\n").is_ok());
    }

    #[test]
    fn groups_are_in_the_order_of_their_numbers() {
        let text = "[[parent]]\nurl = \"http://far\"\ngroup = 2\n[[parent]]\nurl = \"http://a\"\n\
                    [[parent]]\nurl = \"http://b\"\n[parents]\nhealth_path = \"/up\"\n\
                    [health]\ninterval = \"1s\"\n";
        let site = settings(text).unwrap().site;
        let names: Vec<Vec<_>> = site
            .parents
            .groups
            .iter()
            .map(|group| group.iter().map(|parent| parent.name.as_str()).collect())
            .collect();
        assert_eq!(names, [vec!["a", "b"], vec!["far"]]);
        let health = site.parents.health.as_ref().expect("a path is given");
        assert_eq!((health.path.as_str(), health.interval.as_secs()), ("/up", 1));
        assert!(site.health.is_none() && site.parents.direct);
    }

    #[test]
    fn each_server_has_its_http() {
        let text = "[[parent]]\nurl = \"https://a\"\nhttp = \"auto\"\n\
                    [[origin]]\nurl = \"http://b\"\nhttp = \"2\"\n[[origin]]\nurl = \"http://c\"\n";
        let site = settings(text).unwrap().site;
        let parents = site.parents.all().map(|parent| parent.http);
        assert_eq!(parents.collect::<Vec<_>>(), [HttpVersion::Either]);
        let origins = site.origins.iter().map(|origin| origin.http);
        assert_eq!(origins.collect::<Vec<_>>(), [HttpVersion::Http2, HttpVersion::Http1]);
    }

    #[test]
    fn what_is_wrong_with_a_parent_says_so() {
        let parent = "[[parent]]\nname = \"x\"\nurl = \"http://a\"\n";
        let sibling = "[[sibling]]\nname = \"s\"\nurl = \"http://a\"\n";
        for (text, says) in [
            (parent.repeat(2), "a parent is named `x`"),
            (format!("{parent}[[origin]]\nname = \"x\"\nurl = \"http://b\"\n"), "named `x`"),
            ("[[parent]]\nurl = \"a\"\n".into(), "parent.url is"),
            (format!("{parent}certificate = \"/a.pem\"\n"), "parent.key"),
            (format!("vcl = \"/a.vcl\"\n{parent}"), "parent"),
            (format!("[cache]\nloop_id = \"y\"\n{sibling}"), "no [[sibling]] is this node"),
            (sibling.into(), "no [[sibling]] is this node"),
            (format!("[cache]\nloop_id = \"s\"\n{}", sibling.repeat(2)), "a sibling is named `s`"),
        ] {
            let wrong = settings(&text).expect_err(&text);
            assert!(wrong.contains(says), "{text}: {wrong}");
        }
    }

    #[test]
    fn siblings_are_to_believe_one_another_where_there_is_tls() {
        let warned = |tls: bool, url: &str, more: &str| {
            let listen = format!("[[listen]]\naddress = \"127.0.0.1:443\"\ntls = {tls}\n");
            let sibling = format!("[[sibling]]\nname = \"s\"\nurl = \"{url}\"\n");
            let origin = "[[origin]]\nname = \"o\"\nurl = \"http://192.0.2.1\"\n";
            let text = format!("{listen}[cache]\nloop_id = \"s\"\n{sibling}{origin}{more}");
            let settings = settings(&text).expect("a node starts with it");
            super::siblings_not_believed(&settings).is_some_and(|mistake| !mistake.is_error())
        };
        assert!(warned(true, "http://192.0.2.2", ""));
        assert!(!warned(false, "http://192.0.2.2", ""));
        assert!(!warned(true, "https://edge-2.example", ""));
        assert!(!warned(true, "http://192.0.2.2", "[forwarded]\nfrom = [\"192.0.2.0/24\"]\n"));
    }
}

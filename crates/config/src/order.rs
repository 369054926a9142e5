//! What is written and counts for nothing: rules behind others that fit wherever they do, keys beside a policy that
//! decides by itself.

use super::access::AccessRule;
use super::cache_rules::CacheRule;
use super::document::Document;
use super::mistake::{Mistake, Place};
use super::origins::Director;
use super::rules::{FieldAction, FieldRule};
use super::settings::Settings;
use super::site::SiteSettings;
use super::tokens::{TokenKind, TokenRule};

/// Warns of keys that do nothing, as a policy decides that: of the one site, of each site, and of the top level where
/// all sites have a policy.
pub fn idle_beside_policies(settings: &Settings) -> Vec<Mistake> {
    let whole = &settings.document;
    let mut found = Vec::new();
    for (own, site) in whole.sites().zip(&settings.sites) {
        if let Some(policy) = &site.vcl {
            let named = format!("site `{}`: ", site.name);
            idle(&own, &named, &policy.display().to_string(), &mut found);
        }
    }
    if settings.sites.is_empty() {
        if let Some(policy) = &settings.site.vcl {
            idle(whole, "", &policy.display().to_string(), &mut found);
        }
    } else if settings.sites.iter().all(|site| site.vcl.is_some()) {
        idle(whole, "", "the policy of each site", &mut found);
    }
    found
}

/// Warns of the keys that a text gives and `policy` has other words for.
fn idle(given: &Document, site: &str, policy: &str, found: &mut Vec<Mistake>) {
    for (key, place) in given.given() {
        let Some(instead) = key.in_vcl else { continue };
        let message = match key.path {
            "origin[].url" => {
                format!("{site}[[origin]] is not asked: {policy} says where content comes from")
            }
            path => {
                let path = path.replace("[]", "");
                format!("{site}`{path}` does nothing beside `vcl`: {policy} decides that")
            }
        };
        let help = format!("take it out; in its place there is: {instead}");
        found.push(Mistake::warning(place, message).help(help));
    }
}

/// Warns of weights that a director does not look at.
pub fn idle_weights(site: &SiteSettings) -> Option<Mistake> {
    let weighed = site.origins.iter().find(|origin| origin.weight != 1)?;
    let message = "origin.weight means nothing where origins.director is fallback: the first that is well gets all";
    let help = "take out `weight`, or `director`, and have a policy in VCL for shares and a backup at once";
    (site.director == Director::Fallback)
        .then(|| Mistake::warning(weighed.place, message).help(help))
}

/// Warns of a field that is for TLS alone where nobody is known to come over it.
pub fn never_over_tls(settings: &Settings) -> Option<Mistake> {
    let has_tls = settings.listeners.iter().any(|listener| listener.tls);
    if has_tls || !settings.forwarded.from.is_empty() {
        return None;
    }
    let sends = |rule: &FieldRule| rule.is_for_tls() && rule.action != FieldAction::Remove;
    let sites = settings.served();
    let site = sites.iter().find(|site| site.rules.response_fields.iter().any(sends))?;
    let message = "Strict-Transport-Security of a [[header]] is sent to nobody: it is for clients over TLS (RFC 6797), and no \
                   [[listen]] has `tls = true`";
    let help = "where TLS ends in front of the node, name who does that in `forwarded.from`: it says `X-Forwarded-Proto: https`";
    Some(Mistake::warning(site.place, message).help(help))
}

/// Warns of rules of a site that never count.
pub fn never_counting(site: &SiteSettings) -> Vec<Mistake> {
    let covers_path = |one: &str, other: &str| other.starts_with(one);
    let caching = |one: &CacheRule, other: &CacheRule| {
        let covers_end = one.suffixes.is_empty() || one.suffixes == other.suffixes;
        covers_path(&one.path, &other.path) && covers_end
    };
    let access = |one: &AccessRule, other: &AccessRule| covers_path(&one.path, &other.path);
    let mut found = covered("cache_rule", &site.rules.caching, caching, |rule| rule.place);
    found.extend(covered("access", &site.access, access, |rule| rule.place));
    // Those of one path are alternatives, but for what everybody gets.
    let token = |one: &TokenRule, other: &TokenRule| {
        covers_path(&one.path, &other.path)
            && (one.path != other.path || one.kind == TokenKind::None)
    };
    found.extend(covered("token", &site.tokens, token, |rule| rule.path_place));
    found.extend(site.tokens.iter().filter_map(|token| unanswerable(site, token)));
    found
}

/// Warns of a token that is where a password has to be.
fn unanswerable(site: &SiteSettings, token: &TokenRule) -> Option<Mistake> {
    let is_authorization = |name: &String| name.eq_ignore_ascii_case("authorization");
    let is_elsewhere = token.cookie.is_some() || token.parameter.is_some();
    if is_elsewhere || !token.header.as_ref().is_some_and(is_authorization) {
        return None;
    }
    let asks = |rule: &&AccessRule| rule.users.is_some() || rule.service.is_some();
    let meets = |rule: &&AccessRule| {
        rule.path.starts_with(&token.path) || token.path.starts_with(&rule.path)
    };
    let other = site.access.iter().filter(asks).find(meets)?;
    let message = format!(
        "[[token]] of {} and [[access]] of {} both want `Authorization`: nobody gets in where both count",
        token.path, other.path
    );
    let help = "have the token in a field of its own (`header`), a cookie or a parameter";
    Some(Mistake::warning(token.path_place, message).help(help))
}

fn covered<R>(
    table: &str,
    rules: &[R],
    covers: impl Fn(&R, &R) -> bool,
    place: impl Fn(&R) -> Place,
) -> Vec<Mistake> {
    let warning = |(at, rule): (usize, &R)| {
        let first = rules.iter().take(at).position(|earlier| covers(earlier, rule))?;
        let message = format!(
            "[[{table}]] number {} never counts: number {} is for all its paths, and the first that fits \
             counts",
            at + 1,
            first + 1
        );
        Some(Mistake::warning(place(rule), message).help("put the rule for fewer paths first"))
    };
    rules.iter().enumerate().filter_map(warning).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(rules: &str) -> Vec<String> {
        let text = format!("[[origin]]\nurl = \"http://192.0.2.1\"\n{rules}");
        let document = Document::parse(&text).expect("the text is well-formed");
        let settings = Settings::from_document(&document).expect("a node starts with it");
        let sites = settings.served();
        let of = |site: &SiteSettings| never_counting(site).into_iter().chain(idle_weights(site));
        sites.iter().flat_map(|site| of(site)).map(|found| found.message).collect()
    }

    /// What is said of keys beside policies, with the line it is in.
    fn idle_of(text: &str) -> Vec<(usize, String)> {
        let document = Document::parse(text).expect("the text is well-formed");
        let settings = Settings::from_document(&document).expect("a node starts with it");
        let at = |one: &Mistake| one.place.line_and_column(text).map_or(0, |(line, _)| line);
        let mut found: Vec<_> =
            idle_beside_policies(&settings).iter().map(|one| (at(one), one.to_string())).collect();
        found.sort();
        found
    }

    #[test]
    fn a_field_for_tls_is_told_where_nobody_has_tls() {
        let told = |more: &str| {
            let hsts = "[[header]]\nname = \"strict-transport-security\"\n";
            let origin = "[[origin]]\nurl = \"http://192.0.2.1\"\n";
            let document = Document::parse(&format!("{origin}{hsts}{more}")).expect("well-formed");
            let settings = Settings::from_document(&document).expect("a node starts with it");
            never_over_tls(&settings).map(|one| one.to_string())
        };
        let value = "value = \"max-age=60\"\n";
        assert!(told(value).is_some_and(|message| message.contains("`forwarded.from`")));
        assert_eq!(told(&format!("{value}[[listen]]\naddress = \":1\"\ntls = true\n")), None);
        assert_eq!(told(&format!("{value}[forwarded]\nfrom = [\"192.0.2.9\"]\n")), None);
        assert_eq!(told("action = \"remove\"\n"), None);
    }

    #[test]
    fn keys_beside_a_policy_that_do_nothing_are_told() {
        let idle = "[cache]\nnegative = \"10s\"\ngrace = \"1m\"\n\
                    [[origin]]\nname = \"a\"\nurl = \"http://192.0.2.1\"\n";
        assert_eq!(idle_of(idle), [], "without a policy they hold");
        let found = idle_of(&format!("vcl = \"/etc/a.vcl\"\n{idle}"));
        assert_eq!(found.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [3, 7], "{found:?}");
        let want = "`cache.negative` does nothing beside `vcl`: /etc/a.vcl decides that; take it out; in its \
                    place there is: `set beresp.ttl`";
        assert!(found[0].1.starts_with(want), "{}", found[0].1);
        assert!(found[1].1.contains("/etc/a.vcl says where content comes from"), "{}", found[1].1);
    }

    #[test]
    fn keys_of_all_sites_are_told_where_all_have_a_policy() {
        let whole = "[cache]\nnegative = \"10s\"\n";
        let one = "[[site]]\nhosts = [\"a\"]\nvcl = \"/a.vcl\"\n[site.cache]\nesi = true\n";
        let other = "[[site]]\nhosts = [\"b\"]\n[[site.origin]]\nurl = \"http://192.0.2.1\"\n";
        let found = idle_of(&format!("{whole}{one}{other}"));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].1.starts_with("site `a`: `cache.esi` does nothing"), "{}", found[0].1);
        let found = idle_of(&format!("{whole}{one}"));
        assert!(found[0].1.contains("`vcl`: the policy of each site decides"), "{}", found[0].1);
    }

    #[test]
    fn a_rule_behind_one_for_all_its_paths_is_told() {
        let (all, cart) = ("[[cache_rule]]\nttl = \"1h\"\n", "[[cache_rule]]\npath = \"/cart/\"\n");
        let some = "[[cache_rule]]\nsuffixes = [\".css\"]\nttl = \"1h\"\n";
        let cart = format!("{cart}bypass = true\n");
        assert_eq!(warned(&format!("{cart}{some}{all}")), [""; 0]);
        let weighed = "[[origin]]\nurl = \"http://192.0.2.2\"\nweight = 3\n";
        assert_eq!(warned(weighed), [""; 0]);
        let message = warned(&format!("{weighed}[origins]\ndirector = \"fallback\"\n")).remove(0);
        assert!(message.contains("weight means nothing"), "{message}");
        let message = warned(&format!("{some}{all}{cart}")).remove(0);
        assert!(message.starts_with("[[cache_rule]] number 3 never counts: number 2"), "{message}");
        let (all, admin) =
            ("[[access]]\ndeny = [\"192.0.2.0/24\"]\n", "[[access]]\npath = \"/a/\"\n");
        assert_eq!(warned(&format!("{admin}{all}")), [""; 0]);
        assert_eq!(warned(&format!("{all}{admin}")).len(), 1);
        let (all, members) = ("[[token]]\nkind = \"none\"\n", "[[token]]\npath = \"/m/\"\n");
        let members = format!("{members}kind = \"jwt\"\nkeys = [\"k\"]\n");
        assert_eq!(warned(&format!("{members}{all}")), [""; 0]);
        assert_eq!(warned(&format!("{members}{members}")), [""; 0], "they are alternatives");
        let message = warned(&format!("{all}{members}")).remove(0);
        assert!(message.starts_with("[[token]] number 2 never counts: number 1"), "{message}");
    }

    #[test]
    fn what_wants_one_field_twice_is_told() {
        let rules = |path: &str, more: &str| {
            format!(
                "[[access]]\npath = \"/m/\"\nusers = \"f\"\n\
                 [[token]]\npath = \"{path}\"\nkind = \"jwt\"\nkeys = [\"k\"]\n{more}"
            )
        };
        for path in ["/m/", "/", "/m/a"] {
            let message = warned(&rules(path, "")).remove(0);
            assert!(message.contains("both want `Authorization`"), "{message}");
        }
        assert_eq!(warned(&rules("/n/", "")), [""; 0]);
        assert_eq!(warned(&rules("/m/", "cookie = \"t\"\n")), [""; 0]);
    }
}

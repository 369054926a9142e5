//! What is written and counts for nothing: rules behind others that fit wherever they do, origins beside a policy that
//! names its own.

use super::access::AccessRule;
use super::cache_rules::CacheRule;
use super::mistake::{Mistake, Place};
use super::origins::Director;
use super::site::SiteSettings;

/// Warns of origins that nobody asks, as the backends of the policy take their place.
pub fn origins_beside_policy(site: &SiteSettings) -> Option<Mistake> {
    let (policy, origin) = (site.vcl.as_ref()?, site.origins.first()?);
    let message =
        format!("[[origin]] is not asked: {} says where content comes from", policy.display());
    let help =
        "take out `vcl`, or name the origin as a backend of the policy and take out [[origin]]";
    Some(Mistake::warning(origin.place, message).help(help))
}

/// Warns of weights that a director does not look at.
pub fn idle_weights(site: &SiteSettings) -> Option<Mistake> {
    let weighed = site.origins.iter().find(|origin| origin.weight != 1)?;
    let message = "origin.weight means nothing where origins.director is fallback: the first that is well gets all";
    let help = "take out `weight`, or `director`, and have a policy in VCL for shares and a backup at once";
    (site.director == Director::Fallback)
        .then(|| Mistake::warning(weighed.place, message).help(help))
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
    found
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
    use crate::document::Document;
    use crate::settings::Settings;

    fn warned(rules: &str) -> Vec<String> {
        let text = format!("[[origin]]\nurl = \"http://192.0.2.1\"\n{rules}");
        let document = Document::parse(&text).expect("the text is well-formed");
        let settings = Settings::from_document(&document).expect("a node starts with it");
        let sites = settings.served();
        let of = |site: &SiteSettings| never_counting(site).into_iter().chain(idle_weights(site));
        sites.iter().flat_map(|site| of(site)).map(|found| found.message).collect()
    }

    #[test]
    fn origins_beside_a_policy_are_told() {
        let warned = |head: &str| {
            let text = format!("{head}[[origin]]\nurl = \"http://192.0.2.1\"\n");
            let document = Document::parse(&text).expect("the text is well-formed");
            let settings = Settings::from_document(&document).expect("a node starts with it");
            origins_beside_policy(&settings.site).map(|found| found.message)
        };
        assert_eq!(warned(""), None);
        let message = warned("vcl = \"/etc/a.vcl\"\n").expect("it is not asked");
        assert!(message.contains("/etc/a.vcl says where content comes from"), "{message}");
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
    }
}

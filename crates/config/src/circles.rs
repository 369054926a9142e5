//! Redirects that lead in a circle, by way of another host of their site or of one another.

use super::hosts::HostPattern;
use super::rules::Redirect;
use freshet_http::target::split_authority;

/// Steps that a request is followed.
const STEPS_MAX: usize = 16;
/// What stands for whatever a client may ask for below a path.
const SAMPLE: &str = "x";

/// A request, as far as redirects care.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Asked {
    scheme: String,
    /// Empty where it is one of which nothing is known.
    host: String,
    path: String,
}

/// The first of a site's redirects that sends a request to where it has been before. `schemes` are those by which
/// requests come; `is_ours` says of a host whether it is the site's.
pub(super) fn first<'a>(
    rules: &'a [Redirect],
    hosts: &[HostPattern],
    schemes: &[&str],
    is_ours: impl Fn(&str) -> bool,
) -> Option<&'a Redirect> {
    let names = hosts.iter().filter_map(|host| match host {
        HostPattern::Exact(name) => Some(name.to_string()),
        HostPattern::Below(name) => Some(format!("{SAMPLE}.{name}")),
        HostPattern::Any => None,
    });
    for host in names.chain([String::new()]) {
        for (rule, scheme) in rules.iter().flat_map(|rule| schemes.iter().map(move |s| (rule, *s)))
        {
            let (scheme, host) = (scheme.to_owned(), host.clone());
            let began = Asked { scheme, host, path: rule.from.replace('*', SAMPLE) };
            if let Some(found) = circle(rules, began, schemes, &is_ours) {
                return Some(found);
            }
        }
    }
    None
}

fn circle<'a>(
    rules: &'a [Redirect],
    began: Asked,
    schemes: &[&str],
    is_ours: impl Fn(&str) -> bool,
) -> Option<&'a Redirect> {
    let mut been = vec![began];
    while been.len() < STEPS_MAX {
        let now = been.last()?;
        let rule = rules.iter().find(|rule| rule.is_asked(&now.scheme, &now.path))?;
        let next = step(rule, now)?;
        let is_here = next.host == now.host || is_ours(&next.host);
        if !is_here || !schemes.contains(&next.scheme.as_str()) {
            return None;
        }
        if been.contains(&next) {
            return Some(rule);
        }
        been.push(next);
    }
    None
}

/// Where a redirect sends a request; `None` where nobody here knows.
fn step(rule: &Redirect, asked: &Asked) -> Option<Asked> {
    let rest = rule.from.strip_suffix('*').and_then(|prefix| asked.path.strip_prefix(prefix));
    let to = rule.to.replace("{rest}", rest.unwrap_or_default());
    let (scheme, host, path) = match to.split_once("://") {
        None => (asked.scheme.clone(), asked.host.clone(), to.as_str()),
        Some((scheme, behind)) => {
            let (authority, path) =
                behind.find(['/', '?', '#']).map_or((behind, ""), |at| behind.split_at(at));
            let (host, port) = split_authority(authority);
            if port.is_some() {
                return None;
            }
            let host = host.to_ascii_lowercase().replace("{host}", &asked.host);
            (scheme.to_owned(), host, path)
        }
    };
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let path = if path.is_empty() { "/" } else { path };
    Some(Asked { scheme, host, path: path.to_owned() })
}

//! References in manifests, resolved as far as players of one host need it (RFC 3986 §5.2).

/// The path that `reference` means in a document at `base` (an absolute path) of `authority`; `None`
/// when it leads to another host or is no reference to HTTP.
pub(super) fn resolve(authority: &str, base: &str, reference: &str) -> Option<String> {
    if let Some((scheme, rest)) = reference.split_once("://") {
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let known = scheme == "http" || scheme == "https";
        let path = if path.is_empty() { "/" } else { path };
        return (known && host.eq_ignore_ascii_case(authority)).then(|| path.to_owned());
    }
    if reference.starts_with('/') {
        return (!reference.starts_with("//")).then(|| reference.to_owned());
    }
    let base = base.split_once('?').map_or(base, |(path, _)| path);
    let folder = base.rsplit_once('/').map_or("", |(folder, _)| folder);
    let (reference, query) = match reference.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (reference, None),
    };
    let mut parts: Vec<&str> = folder.split('/').skip(1).collect();
    for part in reference.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    let path = format!("/{}", parts.join("/"));
    Some(match query {
        Some(query) => format!("{path}?{query}"),
        None => path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_relative_to_the_folder_of_their_document() {
        let resolved = |reference| resolve("a.example:80", "/c/v/list.m3u8?x=/y", reference);
        for (reference, path) in [
            ("1.m4s", "/c/v/1.m4s"),
            ("./w/1.m4s", "/c/v/w/1.m4s"),
            ("../1.m4s?q", "/c/1.m4s?q"),
            ("../../../../1.m4s", "/1.m4s"),
            ("/1.m4s", "/1.m4s"),
            ("http://A.example:80/z/1", "/z/1"),
            ("https://a.example:80", "/"),
        ] {
            assert_eq!(resolved(reference).as_deref(), Some(path), "{reference}");
        }
        for reference in ["http://b.example/1", "ftp://a.example:80/1", "//b.example/1"] {
            assert_eq!(resolved(reference), None, "{reference}");
        }
    }
}

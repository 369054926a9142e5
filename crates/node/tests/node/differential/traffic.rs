//! Requests that a site of the kind the policies are for might get, and an origin for them.

use crate::origin::{Origin, response};
use freshet_origin::director::stable_hash;

/// A request. None has a Range: Varnish cuts a part out of what it passes and of the answer to a
/// HEAD as well, and this node does what RFC 9110 §14.2 says.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) method: &'static str,
    pub(crate) target: String,
    fields: Vec<String>,
}

impl Ask {
    pub(crate) fn fields(&self) -> Vec<&str> {
        self.fields.iter().map(String::as_str).collect()
    }
}

/// Numbers that follow from a seed.
pub(crate) struct Draw(u64);

const TARGETS: [&str; 24] = [
    "/",
    "/news",
    "/news?id=1&utm_source=x",
    "/news?utm_medium=a&id=1",
    "/news?b=2&a=1",
    "/static/app.js",
    "/static/logo.png?v=3",
    "/admin/users",
    "/login",
    "/api/v1/things",
    "/api/v1/things?key=7",
    "/live/tv1/index.m3u8",
    "/live/tv1/seg-1.ts",
    "/vod/film/seg-1.m4s",
    "/vod/film/index.mpd",
    "/old/page",
    "/missing",
    "/broken",
    "/private",
    "/cookie",
    "/no-store",
    "/moved",
    "/Vary",
    "/big?x=%20y",
];

const FIELDS: [&str; 13] = [
    "Cookie: session=1; _ga=2",
    "Cookie: _ga=2; theme=dark",
    "Cookie: group=b",
    "Authorization: Basic abc",
    "If-None-Match: \"tag-/static/app.js\"",
    "User-Agent: Mozilla/5.0 (iPhone; Mobile)",
    "User-Agent: curl/8",
    "X-Forwarded-For: 10.0.0.1",
    "Cache-Control: no-cache",
    "X-Debug: 1",
    "Accept-Language: de",
    "Accept-Language: en",
    "X-API-Key: k1",
];

impl Draw {
    pub(crate) fn seeded(name: &str) -> Self {
        Self(stable_hash(name.as_bytes()))
    }

    fn next(&mut self, below: usize) -> usize {
        // Knuth's MMIX generator; the upper bits are the good ones.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }

    pub(crate) fn request(&mut self) -> Ask {
        let method = ["GET", "GET", "GET", "GET", "GET", "GET", "HEAD", "POST"][self.next(8)];
        let target = TARGETS[self.next(TARGETS.len())].to_owned();
        let mut fields: Vec<String> = Vec::new();
        for _ in 0..self.next(3) {
            let field = FIELDS[self.next(FIELDS.len())];
            let name = field.split(':').next().unwrap_or("");
            if !fields.iter().any(|known| known.starts_with(name)) {
                fields.push(field.to_owned());
            }
        }
        if method == "POST" {
            // RFC 9110 §13.1.2: 412 here, where Varnish says 304.
            fields.retain(|field| !field.starts_with("If-None-Match"));
            fields.push("Content-Length: 0".into());
        }
        Ask { method, target, fields }
    }
}

/// An origin whose answers follow from what it is asked.
pub(crate) fn origin() -> Origin {
    Origin::serve(|asked| {
        let target = asked.target().to_owned();
        let path = target.split('?').next().unwrap_or("").to_owned();
        let seen: Vec<_> = ["x-device", "x-group", "x-section", "x-retries", "accept-language"]
            .into_iter()
            .filter_map(|name| Some(format!("{name}={}", asked.field(name)?)))
            .collect();
        let body = format!("{} {target} {}", asked.method(), seen.join(" "));
        let tag = format!("ETag: \"tag-{target}\"");
        let fields: &[&str] = match &*path {
            "/missing" => return response("404 Not Found", &["Cache-Control: max-age=100"], body),
            "/broken" if asked.field("x-retries").is_none_or(|n| n == "0") => {
                return response("500 Internal Server Error", &[], body);
            }
            "/moved" => {
                return response(
                    "301 Moved Permanently",
                    &["Location: /new", "Cache-Control: max-age=100"],
                    body,
                );
            }
            "/private" => &["Cache-Control: private, max-age=100", &tag],
            "/no-store" => &["Cache-Control: no-store", &tag],
            "/cookie" => &["Set-Cookie: id=7", "Cache-Control: max-age=100", &tag],
            "/Vary" => &["Vary: Accept-Language", "Cache-Control: max-age=100", &tag],
            _ => {
                &["Cache-Control: max-age=100", &tag, "Content-Type: text/plain", "X-Powered-By: x"]
            }
        };
        response("200 OK", fields, body)
    })
}

//! Policies of the pieces that operators put theirs together of.

use super::Grammar;
use freshet_vcl::State;

/// What is said before a state's pieces, where there is one that needs it.
const TOP: &str = "import std;
import directors;
import cookie;
import header;
import blob;
import purge;
import str;
import var;
import xkey;
import vsthrottle;
import bodyaccess;
import saintmode;
backend b0 { .host = \"127.0.0.1\"; .port = \"ORIGIN\"; }
backend b1 { .host = \"127.0.0.1\"; .port = \"ORIGIN\"; }
acl purgers { \"localhost\"; \"10.0.0.0\"/8; ! \"10.0.0.5\"; }
acl others { \"192.0.2.0\"/24; }
sub vcl_hash { hash_data(\"SEED\"); }
sub vcl_init { new rr = directors.round_robin(); rr.add_backend(b0); rr.add_backend(b1); }
sub vcl_init { new hd = directors.hash(); hd.add_backend(b0, 1.0); hd.add_backend(b1, 2.0); }
sub vcl_init { new fb = directors.fallback(); fb.add_backend(b1); fb.add_backend(b0); }
sub vcl_init { new sh = directors.shard(); sh.add_backend(b0); sh.add_backend(b1); sh.reconfigure(); }
sub vcl_init { new sm = saintmode.saintmode(b0, 10); }";

const RECV: [&str; 59] = [
    r#"if (req.method == "PURGE") { if (!client.ip ~ purgers) { return (synth(405, "Not allowed.")); } return (purge); }"#,
    r#"if (req.method == "PURGE") { if (client.ip !~ others) { return (synth(405, "This IP is not allowed.")); } return (purge); }"#,
    r#"if (req.method == "BAN") { ban("obj.http.x-url ~ " + req.url + " && obj.http.x-host == " + req.http.host); return (synth(200, "Ban added")); }"#,
    r#"if (req.method == "BAN") { if (std.ban("req.http.host == " + req.http.host + " && req.url ~ " + req.http.X-Ban-Url)) { return (synth(200, "Ban added")); } else { return (synth(400, "No ban")); } }"#,
    r#"if (req.method == "REFRESH") { set req.method = "GET"; set req.hash_always_miss = true; }"#,
    r#"if (req.method != "GET" && req.method != "HEAD" && req.method != "POST" && req.method != "OPTIONS") { return (synth(405)); }"#,
    r#"if (req.method != "GET" && req.method != "HEAD") { return (pass); }"#,
    r#"set req.url = std.querysort(req.url);"#,
    r#"if (req.url ~ "(\?|&)(utm_source|utm_medium|gclid|fbclid)=") { set req.url = regsuball(req.url, "&(utm_source|utm_medium|gclid|fbclid)=([A-z0-9_\-\.%25]+)", ""); set req.url = regsuball(req.url, "\?(utm_source|utm_medium|gclid|fbclid)=([A-z0-9_\-\.%25]+)", "?"); set req.url = regsub(req.url, "\?&", "?"); set req.url = regsub(req.url, "\?$", ""); }"#,
    r##"if (req.url ~ "\#") { set req.url = regsub(req.url, "\#.*$", ""); }"##,
    r#"if (req.url ~ "\?$") { set req.url = regsub(req.url, "\?$", ""); }"#,
    r#"set req.http.Host = regsub(req.http.Host, ":[0-9]+", "");"#,
    r#"set req.http.Cookie = regsuball(req.http.Cookie, "(^|;\s*)(_[_a-z]+|has_js|utmctr)=[^;]*", ""); set req.http.Cookie = regsub(req.http.Cookie, "^;\s*", ""); if (req.http.Cookie == "") { unset req.http.Cookie; }"#,
    r#"if (req.http.Cookie) { set req.http.Cookie = ";" + req.http.Cookie; set req.http.Cookie = regsuball(req.http.Cookie, "; +", ";"); set req.http.Cookie = regsuball(req.http.Cookie, ";(SESS[a-z0-9]+|NO_CACHE|PHPSESSID)=", "; \1="); set req.http.Cookie = regsuball(req.http.Cookie, ";[^ ][^;]*", ""); set req.http.Cookie = regsuball(req.http.Cookie, "^[; ]+|[; ]+$", ""); if (req.http.Cookie == "") { unset req.http.Cookie; } else { return (pass); } }"#,
    r#"cookie.parse(req.http.Cookie); cookie.keep("PHPSESSID,lang"); set req.http.Cookie = cookie.get_string(); if (req.http.Cookie ~ "^\s*$") { unset req.http.Cookie; }"#,
    r#"cookie.parse(req.http.Cookie); cookie.filter_re("^(_|has)"); cookie.delete("lang"); set req.http.Cookie = cookie.get_string(); set req.http.X-Store = cookie.get("store");"#,
    r#"if (req.url ~ "^[^?]*\.(css|js|png|zip|mp4|ico)(\?.*)?$") { unset req.http.Cookie; return (hash); }"#,
    r#"if (req.http.Authorization || req.http.Cookie) { return (pass); }"#,
    r#"if (req.url ~ "^/(admin|wp-admin|wp-login|user|checkout)" || req.http.Cookie ~ "wordpress_logged_in") { return (pass); }"#,
    r#"if (req.url ~ "^/admin" && req.http.Authorization != "Basic YTpi") { return (synth(401, "Authentication required")); }"#,
    r#"if (req.http.User-Agent ~ "(?i)iphone|android.*mobile") { set req.http.X-Device = "mobile"; } elseif (req.http.User-Agent ~ "(?i)bot") { set req.http.X-Device = "bot"; } else { set req.http.X-Device = "pc"; }"#,
    r#"if (req.http.Accept-Encoding) { if (req.url ~ "\.(png|zip|mp4)$") { unset req.http.Accept-Encoding; } elsif (req.http.Accept-Encoding ~ "gzip") { set req.http.Accept-Encoding = "gzip"; } else { unset req.http.Accept-Encoding; } }"#,
    r#"if (req.http.X-Forwarded-Proto !~ "(?i)https") { return (synth(750, "https://" + req.http.host + req.url)); }"#,
    r#"set req.http.X-Real = regsub(req.http.X-Forwarded-For, "[, ].*$", "");"#,
    r#"if (req.restarts == 0) { if (req.http.X-Forwarded-For) { set req.http.X-Forwarded-For = req.http.X-Forwarded-For + ", " + client.ip; } else { set req.http.X-Forwarded-For = client.ip; } }"#,
    r#"unset req.http.Proxy; unset req.http.Forwarded;"#,
    r#"if (std.healthy(req.backend_hint)) { set req.grace = 10s; } else { set req.grace = 1h; }"#,
    r#"set req.backend_hint = rr.backend();"#,
    r#"if (req.http.host ~ "^static\.") { set req.backend_hint = b1; unset req.http.Cookie; }"#,
    r#"set req.http.Surrogate-Capability = "key=ESI/1.0";"#,
    r#"if (req.http.Cache-Control ~ "(?i)no-cache" || req.http.Pragma ~ "no-cache") { if (client.ip ~ purgers) { set req.hash_always_miss = true; } }"#,
    r#"if (req.url == "/ping") { return (synth(200, "OK")); }"#,
    r#"if (req.url ~ "^/varnish-status") { return (synth(700)); }"#,
    r#"if (req.esi_level > 0) { set req.http.X-Level = req.esi_level; }"#,
    r#"std.collect(req.http.Cookie, "; "); std.log("asked:" + req.url);"#,
    r#"set req.http.X-Query = std.strstr(req.url, "?"); set req.http.X-Id = std.integer(regsub(req.url, "^.*id=([0-9]+).*$", "\1"), 0);"#,
    r#"if (req.http.Range ~ "bytes=") { set req.http.X-Range = req.http.Range; }"#,
    r#"set req.http.X-Key = std.tolower(req.http.Host) + ":" + req.url.upper() + req.restarts;"#,
    r#"if (req.method == "POST" && std.cache_req_body(1KB)) { set req.http.X-Kept = "yes"; return (pass); }"#,
    r#"if (req.http.Accept-Language ~ "^(de|en)") { set req.http.X-Lang = regsub(req.http.Accept-Language, "^(..).*$", "\1"); } else { set req.http.X-Lang = "en"; }"#,
    r#"set req.backend_hint = hd.backend(req.http.Host + req.url);"#,
    r#"set req.backend_hint = sh.backend(by=URL);"#,
    r#"set req.backend_hint = sh.backend(by=KEY, key=sh.key("k" + req.http.Cookie));"#,
    r#"set req.backend_hint = fb.backend();"#,
    r#"if (req.method == "PURGE" && req.http.X-Magento-Tags-Pattern) { set req.http.X-Count = xkey.purge("cat_1 of_SEED"); return (synth(200, "Purged " + req.http.X-Count)); }"#,
    r#"if (vsthrottle.is_denied("SEED" + client.ip, 4, 1000s)) { return (synth(429, "Too Many Requests")); } set req.http.X-Left = vsthrottle.remaining("SEED" + client.ip, 4, 1000s);"#,
    r#"var.set("place", regsub(req.http.Accept-Language, "^.*-([A-Z]{2}).*$", "\1")); var.set_int("level", req.esi_level); set req.http.X-Country = var.get("place");"#,
    r#"if (str.startswith(req.url, "/static") || str.endswith(req.url, ".css")) { unset req.http.Cookie; set req.http.X-First = str.split(req.url, 1, "/"); }"#,
    r#"if (req.method == "POST" && std.cache_req_body(1KB)) { set req.http.X-Length = bodyaccess.len_req_body(); if (bodyaccess.rematch_req_body("^bo") == 1) { set req.http.X-Body = "bo"; } return (pass); }"#,
    r#"if (req.http.Upgrade ~ "(?i)websocket" || req.url ~ "^/api/socket") { return (pipe); }"#,
    r#"if (req.restarts > 0) { set req.hash_always_miss = true; set req.http.X-Again = req.restarts; }"#,
    r#"set req.ttl = 100s; set req.grace = 5s; set req.hash_ignore_busy = true;"#,
    r#"if (req.http.Cookie ~ "lang=") { set req.http.X-Lang = regsub(req.http.Cookie, "^.*lang=([a-z]+).*$", "\1"); }"#,
    r#"set req.http.X-Host64 = blob.transcode(IDENTITY, BASE64URLNOPAD, encoded=req.http.Host);"#,
    r#"std.rollback(req); set req.http.X-Back = "1";"#,
    r#"set req.url = regsuball(req.url, "//+", "/"); set req.url = regsub(req.url, "^/(index|page)", "/"); set req.http.X-Url = req.url;"#,
    r#"if (req.http.X-Forwarded-For ~ "^192\.0\.2\." && std.ip(regsub(req.http.X-Forwarded-For, ",.*$", ""), "0.0.0.0") ~ others) { return (synth(403, "Not from there")); }"#,
    r#"if (req.url ~ "^/(feed|api)") { set req.http.X-TTL-Wish = "20"; } set req.http.x-pad = std.fnmatch("/*/*", req.url) + std.random(1, 1);"#,
    r#"header.append(req.http.X-Seen, req.method); header.append(req.http.X-Seen, req.proto); std.collect(req.http.X-Seen); header.copy(req.http.X-Seen, req.http.X-Copy);"#,
];
const HASH: [&str; 6] = [
    r#"if (req.http.X-Device) { hash_data(req.http.X-Device); }"#,
    r#"hash_data(req.http.X-Forwarded-Proto);"#,
    r#"hash_data(req.url); if (req.http.host) { hash_data(req.http.host); } else { hash_data(server.ip); } return (lookup);"#,
    r#"hash_data(req.http.X-Lang + "-" + req.http.X-Store);"#,
    r#"if (req.http.Cookie) { hash_data(req.http.Cookie); }"#,
    r#"hash_data(regsub(req.url, "\?.*$", ""));"#,
];
const HIT: [&str; 6] = [
    r#"if (obj.ttl >= 0s) { return (deliver); } if (!std.healthy(req.backend_hint) && (obj.ttl + obj.grace > 0s)) { return (deliver); }"#,
    r#"set req.http.X-Seen = obj.http.x-url + obj.status;"#,
    r#"if (req.http.Cache-Control ~ "max-age=0" && req.restarts == 0) { return (pass); }"#,
    r#"if (req.http.X-Purge-Method == "regex") { if (purge.soft(0s, 30s) > 0) { return (synth(200, "Softly")); } }"#,
    r#"if (req.http.Pragma ~ "no-cache" && client.ip ~ purgers) { set req.http.X-Gone = purge.hard(); return (restart); }"#,
    r#"if (obj.hits > 2 && obj.status == 200) { set req.http.X-Hot = obj.hits; }"#,
];
const MISS: [&str; 4] = [
    r#"if (req.http.X-Device == "bot") { return (pass); }"#,
    r#"set req.http.X-Missed = req.url + req.is_hitmiss;"#,
    r#"if (req.url ~ "^/robots" && req.restarts == 0) { set req.url = "/favicon.ico"; return (restart); }"#,
    r#"if (req.http.Accept-Encoding == "gzip") { set req.http.Accept-Encoding = "gzip, br"; }"#,
];
const PURGE: [&str; 3] = [
    r#"if (req.restarts == 0) { set req.method = "GET"; return (restart); }"#,
    r#"return (synth(200, "Gone"));"#,
    r#"set req.http.X-Purged = req.url;"#,
];
const PASS: [&str; 2] = [
    r#"set req.http.X-Pass = "1";"#,
    r#"if (req.http.X-Lang == "de") { return (synth(503, "Closed")); }"#,
];
const FETCH: [&str; 11] = [
    r#"unset bereq.http.Cookie;"#,
    r#"if (bereq.retries > 0) { set bereq.backend = b1; set bereq.http.X-Retry = bereq.retries; }"#,
    r#"set bereq.http.X-From = bereq.method + " " + bereq.url + " " + bereq.http.host;"#,
    r#"unset bereq.http.X-Forwarded-For; set bereq.http.X-Client = client.ip;"#,
    r#"if (bereq.uncacheable) { set bereq.http.X-Uncacheable = "1"; }"#,
    r#"unset bereq.http.If-None-Match; unset bereq.http.If-Modified-Since;"#,
    r#"if (bereq.url ~ "^/preview") { return (error(404, "No preview")); }"#,
    r#"set bereq.backend = sh.backend(by=HASH, resolve=LAZY);"#,
    r#"set bereq.backend = sm.backend(); set bereq.http.X-Healthy = sm.is_healthy();"#,
    r#"if (bereq.http.X-Lang) { set bereq.url = bereq.url + "?l=" + bereq.http.X-Lang; }"#,
    r#"set bereq.http.X-Forwarded-Host = bereq.http.Host; set bereq.http.Host = "origin.example"; unset bereq.http.Range;"#,
];
const RESPONSE: [&str; 38] = [
    r#"if (bereq.url ~ "^[^?]*\.(css|js|png|zip|mp4|ico)(\?.*)?$") { unset beresp.http.Set-Cookie; set beresp.ttl = 1d; }"#,
    r#"if (beresp.http.Surrogate-Control ~ "ESI/1.0") { unset beresp.http.Surrogate-Control; set beresp.do_esi = true; }"#,
    r#"if (beresp.http.Content-Type ~ "text/html") { set beresp.do_esi = true; }"#,
    r#"if (beresp.http.Content-Type ~ "text|json|javascript") { set beresp.do_gzip = true; }"#,
    r#"set beresp.grace = 6h;"#,
    r#"set beresp.keep = 1h;"#,
    r#"if (beresp.ttl <= 0s || beresp.http.Set-Cookie || beresp.http.Vary == "*") { set beresp.uncacheable = true; set beresp.ttl = 120s; return (deliver); }"#,
    r#"if (beresp.status >= 500 && bereq.is_bgfetch) { return (abandon); }"#,
    r#"if (beresp.status >= 500 && bereq.method == "GET" && bereq.retries < 2) { return (retry); }"#,
    r#"if (beresp.status == 404 || beresp.status == 410) { set beresp.ttl = 10s; }"#,
    r#"if (beresp.status == 301 || beresp.status == 302) { set beresp.http.Location = "https://" + bereq.http.host + regsub(beresp.http.Location, ":[0-9]+", ""); }"#,
    r#"set beresp.http.x-url = bereq.url; set beresp.http.x-host = bereq.http.host;"#,
    r#"if (beresp.http.Cache-Control ~ "private|no-store") { return (pass(60s)); }"#,
    r#"set beresp.http.X-TTL = beresp.ttl; set beresp.http.X-Grace = beresp.grace;"#,
    r#"set beresp.http.Cache-Control = "public, max-age=" + std.integer(duration = beresp.ttl, fallback = 0);"#,
    r#"if (bereq.uncacheable) { return (deliver); }"#,
    r#"if (!beresp.http.Vary) { set beresp.http.Vary = "Accept-Encoding"; } elseif (beresp.http.Vary !~ "Accept-Encoding") { set beresp.http.Vary = beresp.http.Vary + ", Accept-Encoding"; }"#,
    r#"unset beresp.http.Server; unset beresp.http.X-A; unset beresp.http.Set-Cookie;"#,
    r#"if (beresp.status == 500) { return (error(503, "Oops")); }"#,
    r#"if (beresp.status == 503) { set beresp.uncacheable = true; set beresp.ttl = 5s; }"#,
    r#"set beresp.ttl = 1h; unset beresp.http.Cache-Control; unset beresp.http.Expires;"#,
    r#"set beresp.ttl = std.duration(beresp.http.X-TTL + "s", 30s);"#,
    r#"if (beresp.http.Age) { set beresp.http.X-Age = beresp.age; unset beresp.http.Age; }"#,
    r#"header.append(beresp.http.Set-Cookie, "seen=1"); header.remove(beresp.http.Set-Cookie, "a=");"#,
    r#"if (beresp.was_304) { set beresp.http.X-304 = "1"; }"#,
    r#"set beresp.do_stream = false;"#,
    r#"set beresp.http.xkey = "cat_1 of_SEED"; set beresp.http.X-Backend = beresp.backend.name;"#,
    r#"set beresp.http.X-Backend = beresp.backend + "/" + beresp.backend.name + "/" + bereq.backend;"#,
    r#"if (beresp.status == 500 || beresp.status == 503) { saintmode.denylist(100s); if (bereq.retries < 1 && bereq.method == "GET") { return (retry); } }"#,
    r#"set beresp.ttl = beresp.ttl * 2.0; set beresp.http.X-Doubled = beresp.ttl;"#,
    r#"set beresp.do_gunzip = true;"#,
    r#"unset beresp.http.ETag; unset beresp.http.Last-Modified;"#,
    r#"set beresp.http.ETag = {"W/"made""}; set beresp.http.Last-Modified = "Thu, 01 Jan 2015 00:00:00 GMT";"#,
    r#"set beresp.storage = storage.s0; set beresp.http.X-Storage = beresp.storage;"#,
    r#"if (beresp.http.Location) { set beresp.http.Location = regsub(beresp.http.Location, "^/", "/moved/"); set beresp.status = 302; }"#,
    r#"if (bereq.http.X-TTL-Wish) { set beresp.ttl = std.duration(bereq.http.X-TTL-Wish + "s", 1s); set beresp.grace = 0s; }"#,
    r#"if (beresp.http.X-A) { std.collect(beresp.http.X-A, "|"); set beresp.http.X-All = header.get(beresp.http.X-A, "2"); }"#,
    r#"if (beresp.http.Content-Length && std.integer(beresp.http.Content-Length, 0) > 10) { set beresp.http.X-Big = beresp.http.Content-Length; set beresp.uncacheable = true; }"#,
];
const ERROR: [&str; 4] = [
    r#"set beresp.http.Content-Type = "text/html; charset=utf-8"; synthetic({"<html><body>"} + beresp.status + " " + beresp.reason + {"</body></html>"}); return (deliver);"#,
    r#"if (bereq.retries == 0) { return (retry); }"#,
    r#"set beresp.status = 200; set beresp.reason = "Sorry"; set beresp.ttl = 5s; set beresp.http.X-Error = "1"; set beresp.body = "later"; return (deliver);"#,
    r#"set beresp.http.Retry-After = "30";"#,
];
const DELIVER: [&str; 25] = [
    r#"if (obj.hits > 0) { set resp.http.X-Cache = "HIT"; } else { set resp.http.X-Cache = "MISS"; }"#,
    r#"set resp.http.X-Cache-Hits = obj.hits;"#,
    r#"unset resp.http.Via; unset resp.http.X-Varnish; unset resp.http.Server; unset resp.http.X-A;"#,
    r#"unset resp.http.Age;"#,
    r#"if (req.http.Origin) { set resp.http.Access-Control-Allow-Origin = req.http.Origin; set resp.http.Vary = resp.http.Vary + ", Origin"; }"#,
    r#"if (resp.http.Content-Type ~ "html") { set resp.http.Cache-Control = "no-store, max-age=0"; }"#,
    r#"if (resp.status >= 500 && req.restarts < 1 && req.method == "GET") { return (restart); }"#,
    r#"if (resp.status == 404) { return (synth(404, "Nothing here")); }"#,
    r#"unset resp.http.x-url; unset resp.http.x-host;"#,
    r#"if (resp.http.Vary) { set resp.http.Vary = regsub(resp.http.Vary, "A, ?", ""); }"#,
    r#"set resp.http.X-Uncacheable = obj.uncacheable;"#,
    r#"set resp.http.X-Device = req.http.X-Device; set resp.http.X-Lang = req.http.X-Lang; set resp.http.X-Key = req.http.X-Key;"#,
    r#"if (req.http.X-Magento-Tags-Pattern) { set resp.http.X-Debug = req.url + " " + req.http.Cookie; }"#,
    r#"set resp.http.X-Restarts = req.restarts; set resp.http.X-Method = req.method;"#,
    r#"header.append(resp.http.Set-Cookie, "lang=" + req.http.X-Lang); header.append(resp.http.Set-Cookie, "b=2");"#,
    r#"set resp.http.X-Served-By = server.identity; if (resp.status == 301) { set resp.status = 308; }"#,
    r#"if (resp.http.Set-Cookie) { set resp.http.X-Cookies = regsuball(resp.http.Set-Cookie, "=[^;]*", ""); }"#,
    r#"if (req.method == "OPTIONS") { set resp.http.Allow = "GET, HEAD"; set resp.status = 200; }"#,
    r#"set resp.http.X-Place = var.get("place") + var.get_int("level"); var.clear();"#,
    r#"unset resp.http.xkey; set resp.http.X-Left = req.http.X-Left; set resp.http.X-Country = req.http.X-Country;"#,
    r#"set resp.http.Server-Timing = "cache;desc=" + obj.hits; set resp.http.X-Can = obj.can_esi;"#,
    r#"if (req.http.Origin == "https://example.com") { set resp.http.Access-Control-Allow-Origin = req.http.Origin; set resp.http.Access-Control-Max-Age = "600"; }"#,
    r#"if (resp.http.ETag) { set resp.http.X-Tag = regsub(resp.http.ETag, "^W/", ""); }"#,
    r#"set resp.http.Strict-Transport-Security = "max-age=63072000; includeSubDomains"; set resp.http.X-Frame-Options = "DENY";"#,
    r#"set resp.http.X-Sees = req.http.X-Seen + "|" + req.http.X-Copy + "|" + req.http.X-Host64 + "|" + req.http.X-First + "|" + req.http.X-Url;"#,
];
const SYNTH: [&str; 6] = [
    r#"if (resp.status == 750) { set resp.http.Location = resp.reason; set resp.status = 301; set resp.reason = "Moved Permanently"; return (deliver); }"#,
    r#"if (resp.status == 401) { set resp.http.WWW-Authenticate = "Basic realm=x"; synthetic("no"); return (deliver); }"#,
    r#"if (resp.status == 700) { set resp.status = 200; set resp.http.Content-Type = "application/json"; synthetic({"{ "status": ""} + resp.reason + {"" }"}); return (deliver); }"#,
    r#"set resp.http.Content-Type = "text/html; charset=utf-8"; set resp.http.Retry-After = "5"; synthetic({"<html><title>"} + resp.status + " " + resp.reason + {"</title></html>"}); return (deliver);"#,
    r#"set resp.http.X-Synth = req.url + req.restarts; unset resp.http.Server;"#,
    r#"if (resp.status == 405 && req.restarts == 0) { set req.method = "GET"; return (restart); }"#,
];

/// What is said in each state, and at most how often.
const PIECES: [(State, &[&str], usize); 11] = [
    (State::Recv, &RECV, 6),
    (State::Hash, &HASH, 2),
    (State::Hit, &HIT, 1),
    (State::Miss, &MISS, 1),
    (State::Purge, &PURGE, 1),
    (State::Pass, &PASS, 1),
    (State::BackendFetch, &FETCH, 2),
    (State::BackendResponse, &RESPONSE, 5),
    (State::BackendError, &ERROR, 1),
    (State::Deliver, &DELIVER, 4),
    (State::Synth, &SYNTH, 2),
];

/// A policy for each seed.
pub(crate) fn usual(seed: u64) -> String {
    let mut grammar = Grammar::new(seed);
    grammar.is_run = true;
    let version = grammar.version;
    grammar.line(&format!("vcl {version};"));
    grammar.line(TOP);
    for (state, pieces, most) in PIECES {
        let count = grammar.draw.below(most + 1);
        if count == 0 {
            continue;
        }
        grammar.line(&format!("sub {} {{", state.subroutine()));
        for _ in 0..count {
            let piece = grammar.draw.of(pieces);
            grammar.line(piece);
        }
        if state == State::Recv && grammar.draw.once_in(6) {
            grammar.line("return (hash);");
        }
        grammar.line("}");
    }
    grammar.out
}

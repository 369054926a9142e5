vcl 4.1;

# Files for other sites: images in what a browser takes, fonts with CORS, parts, one copy for all queries.

import std;
import str;
import header;

backend bucket {
    .host = "127.0.0.1";
    .port = "9000";
    .connect_timeout = 1s;
    .first_byte_timeout = 5s;
    .between_bytes_timeout = 2s;
}

sub pick_image {
    if (req.url ~ "(?i)\.(jpe?g|png)(\?|$)") {
        if (req.http.Accept ~ "image/avif") {
            set req.http.X-Image = "avif";
        } elsif (req.http.Accept ~ "image/webp(?!;q=0(\.0+)?(,|$))") {
            set req.http.X-Image = "webp";
        } else {
            set req.http.X-Image = "original";
        }
    }
    if (req.http.Save-Data == "on") {
        set req.http.X-Image = req.http.X-Image + "-small";
    }
}

sub vcl_recv {
    unset req.http.Cookie;
    unset req.http.Authorization;
    unset req.http.Cache-Control;
    unset req.http.Pragma;
    unset req.http.Referer;
    if (req.method != "GET" && req.method != "HEAD" && req.method != "OPTIONS") {
        return (synth(405));
    }
    if (req.url ~ "\.\./|//|\\|%00") {
        return (synth(400));
    }
    call pick_image;
    if (str.endswith(regsub(req.url, "\?.*$", ""), "/")) {
        set req.url = regsub(req.url, "(\?.*)?$", "index.html");
    }
    if (req.url ~ "[?&]v=\d+") {
        set req.http.X-Versioned = regsub(req.url, ".*[?&]v=(\d+).*", "\1");
    }
    set req.url = regsub(req.url, "\?.*$", "");
    if (req.method == "OPTIONS") {
        return (synth(200, "OK"));
    }
    if (req.http.Range && req.url ~ "\.(js|css|html|ico)$") {
        unset req.http.Range;
    }
    return (hash);
}

sub vcl_hash {
    hash_data(req.url);
    if (req.http.X-Image) { hash_data(req.http.X-Image); }
    if (req.http.X-Versioned) { hash_data("v" + req.http.X-Versioned); }
    return (lookup);
}

sub vcl_backend_fetch {
    set bereq.http.Host = "bucket.example.net";
    set bereq.url = "/bucket" + bereq.url;
    if (bereq.http.X-Image ~ "^(webp|avif)") {
        set bereq.url = regsub(bereq.url, "\.[a-z]+$", "." + regsub(bereq.http.X-Image, "-.*", ""));
    }
    unset bereq.http.X-Forwarded-For;
}

sub vcl_backend_response {
    if (beresp.status == 404 && bereq.http.X-Image ~ "^(webp|avif)" && bereq.retries == 0) {
        unset bereq.http.X-Image;
        return (retry);
    }
    if (beresp.status == 304 || beresp.status == 206) {
        set beresp.uncacheable = true;
        set beresp.ttl = 0s;
        return (deliver);
    }
    header.regsub(beresp, "^X-A: .*", "");
    unset beresp.http.Set-Cookie;
    unset beresp.http.Via;
    if (beresp.status == 200) {
        set beresp.ttl = 365d;
        set beresp.http.Cache-Control = "public, max-age=31536000";
        if (bereq.http.X-Versioned) {
            set beresp.http.Cache-Control = beresp.http.Cache-Control + ", immutable";
        }
    } else {
        set beresp.ttl = 5s;
    }
    if (bereq.url ~ "\.(css|js|svg|html|json|txt)$") {
        set beresp.do_gzip = true;
    }
    if (bereq.http.X-Image && beresp.http.Vary !~ "Accept(,|$)") {
        set beresp.http.Vary = "Accept";
    }
}

sub vcl_deliver {
    unset resp.http.Age;
    unset resp.http.X-Varnish;
    unset resp.http.Via;
    set resp.http.Accept-Ranges = "bytes";
    if (req.http.Origin) {
        set resp.http.Access-Control-Allow-Origin = "*";
        set resp.http.Cross-Origin-Resource-Policy = "cross-origin";
    }
    set resp.http.Server = "cdn";
    set resp.http.X-Status = resp.status + " " + resp.reason;
    if (resp.http.ETag ~ "^W/") { set resp.http.X-Weak = resp.http.ETag; }
}

sub vcl_synth {
    if (req.method == "OPTIONS") {
        set resp.http.Access-Control-Allow-Origin = req.http.Origin;
        set resp.http.Access-Control-Allow-Methods = "GET, HEAD";
        set resp.http.Content-Length = "0";
        return (deliver);
    }
}

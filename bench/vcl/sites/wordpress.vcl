vcl 4.1;

# A blog: logged-in editors past the cache, everything else for a day, purged by the plugin.

import std;
import cookie;
import purge;

backend app {
    .host = "127.0.0.1";
    .port = "8080";
    .first_byte_timeout = 60s;
    .between_bytes_timeout = 10s;
    .max_connections = 300;
}

acl purgers {
    "localhost";
    "127.0.0.1";
    "::1";
    "10.0.0.0"/8;
    ! "10.0.0.5";
}

sub clean_query {
    if (req.url ~ "(\?|&)(utm_source|utm_medium|utm_campaign|utm_content|gclid|fbclid|cx|ie|cof|siteurl)=") {
        set req.url = regsuball(req.url, "&(utm_source|utm_medium|utm_campaign|utm_content|gclid|fbclid|cx|ie|cof|siteurl)=([A-z0-9_\-\.%25]+)", "");
        set req.url = regsuball(req.url, "\?(utm_source|utm_medium|utm_campaign|utm_content|gclid|fbclid|cx|ie|cof|siteurl)=([A-z0-9_\-\.%25]+)", "?");
        set req.url = regsub(req.url, "\?&", "?");
        set req.url = regsub(req.url, "\?$", "");
    }
    if (req.url ~ "\#") {
        set req.url = regsub(req.url, "\#.*$", "");
    }
    set req.url = std.querysort(req.url);
}

sub vcl_recv {
    set req.http.Host = regsub(req.http.Host, ":[0-9]+", "").lower();
    unset req.http.proxy;

    if (req.method == "PURGE") {
        if (client.ip !~ purgers) {
            return (synth(405, "Not allowed"));
        }
        if (req.http.X-Purge-Method == "regex") {
            ban("req.http.host == " + req.http.Host + " && req.url ~ " + req.url);
            return (synth(200, "Banned"));
        }
        return (purge);
    }

    if (req.method != "GET" && req.method != "HEAD" && req.method != "PUT" && req.method != "POST" &&
        req.method != "TRACE" && req.method != "OPTIONS" && req.method != "PATCH" && req.method != "DELETE") {
        return (synth(405));
    }
    call clean_query;

    if (req.method != "GET" && req.method != "HEAD") {
        return (pass);
    }
    if (req.http.Authorization || req.url ~ "^/(wp-admin|wp-login|wp-json/wp/v2/users)" || req.url ~ "preview=true") {
        return (pass);
    }
    if (req.http.X-Requested-With == "XMLHttpRequest") {
        return (pass);
    }

    if (req.url ~ "^[^?]*\.(7z|avi|bmp|bz2|css|csv|doc|docx|eot|flac|gif|gz|ico|jpeg|jpg|js|mp4|pdf|png|svg|webp|zip)(\?.*)?$") {
        unset req.http.Cookie;
        return (hash);
    }

    if (req.http.Cookie) {
        cookie.parse(req.http.Cookie);
        cookie.filter_re("^(__utm|_ga|_gat|utmctr|utmcmd|utmccn|__gads|__qc|__atuv|wp-settings-|wordpress_test_cookie|has_js)");
        set req.http.Cookie = cookie.get_string();
        if (req.http.Cookie ~ "wordpress_logged_in_|comment_author|wp-postpass_|NO_CACHE") {
            return (pass);
        }
        if (req.http.Cookie == "" || req.http.Cookie ~ "^\s*$") {
            unset req.http.Cookie;
        }
    }
    set req.grace = 20s;
}

sub vcl_hash {
    if (req.http.X-Forwarded-Proto) {
        hash_data(req.http.X-Forwarded-Proto);
    }
}

sub vcl_backend_response {
    set beresp.http.X-Url = bereq.url;
    set beresp.http.X-Host = bereq.http.Host;
    if (bereq.url !~ "^/wp-(login|admin)" && bereq.http.Cookie !~ "wordpress_logged_in") {
        unset beresp.http.Set-Cookie;
    }
    if (beresp.status >= 500) {
        if (bereq.is_bgfetch) {
            return (abandon);
        }
        set beresp.ttl = 0s;
        set beresp.uncacheable = true;
        return (deliver);
    }
    if (beresp.status == 404 || beresp.status == 403) {
        set beresp.ttl = 30s;
    } elsif (beresp.ttl <= 120s && beresp.http.Cache-Control !~ "(private|no-cache|no-store)") {
        set beresp.ttl = 1d;
    }
    if (beresp.http.Content-Type ~ "^(text/|application/(javascript|json|xml))") {
        set beresp.do_gzip = true;
    }
    set beresp.grace = 6h;
}

sub vcl_deliver {
    if (obj.hits > 0) {
        set resp.http.X-Cache = "HIT";
        set resp.http.X-Cache-Hits = obj.hits;
    } else {
        set resp.http.X-Cache = "MISS";
    }
    unset resp.http.X-Url;
    unset resp.http.X-Host;
    unset resp.http.Server;
    unset resp.http.X-Powered-By;
    unset resp.http.Via;
}

sub vcl_purge {
    set req.method = "GET";
    set req.http.X-Purger = "Purged";
    return (restart);
}

sub vcl_synth {
    if (resp.status == 405) {
        set resp.http.Allow = "GET, HEAD, POST";
    }
    set resp.http.X-Purger = req.http.X-Purger;
}

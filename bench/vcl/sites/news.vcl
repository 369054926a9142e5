vcl 4.1;

# A newspaper: pages of parts, devices, countries, old news while new ones are made, ten versions of the front page.

import std;
import xkey;
import header;
import accept;

backend cms { .host = "127.0.0.1"; .port = "8080"; }
backend images { .host = "127.0.0.1"; .port = "8090"; }

acl editors { "localhost"; "172.16.0.0"/12; }

sub vcl_init {
    new language = accept.rule("en");
    language.add("de");
    language.add("fr");
    new encoding = accept.rule("identity");
    encoding.add("br");
    encoding.add("gzip");
}

sub devicedetect {
    unset req.http.X-UA-Device;
    set req.http.X-UA-Device = "pc";
    if (req.http.Cookie ~ "(?i)X-UA-Device-force") {
        set req.http.X-UA-Device = regsub(req.http.Cookie, "(?i).*X-UA-Device-force=([^;]+);?.*", "\1");
    } elsif (req.http.User-Agent ~ "(?i)(ads|google|bing|msn|yandex|baidu|ro|career|seznam|)bot") {
        set req.http.X-UA-Device = "bot";
    } elsif (req.http.User-Agent ~ "(?i)ipad") {
        set req.http.X-UA-Device = "tablet-ipad";
    } elsif (req.http.User-Agent ~ "(?i)ip(hone|od)") {
        set req.http.X-UA-Device = "mobile-iphone";
    } elsif (req.http.User-Agent ~ "(?i)android.*(mobile|mini)") {
        set req.http.X-UA-Device = "mobile-android";
    } elsif (req.http.User-Agent ~ "(?i)android") {
        set req.http.X-UA-Device = "tablet-android";
    }
}

sub geo {
    if (req.http.X-Forwarded-For ~ "^192\.0\.2\.") {
        set req.http.X-Country = "AT";
    } elsif (req.http.X-Forwarded-For ~ ":") {
        set req.http.X-Country = "DE";
    } else {
        set req.http.X-Country = "--";
    }
    if (req.http.X-Country ~ "^(AT|DE|CH)$") {
        set req.http.X-Region = "dach";
    } else {
        set req.http.X-Region = "world";
    }
}

sub vcl_recv {
    if (req.esi_level == 0) {
        call devicedetect;
        call geo;
        set req.http.X-Lang = language.filter(req.http.Accept-Language);
    }
    if (req.method == "PURGE" || req.method == "REFRESH") {
        if (client.ip !~ editors) {
            return (synth(403, "Forbidden"));
        }
        if (req.http.xkey-purge) {
            set req.http.n-gone = xkey.purge(req.http.xkey-purge);
            return (synth(200, "Invalidated " + req.http.n-gone + " objects"));
        }
        if (req.method == "REFRESH") {
            set req.http.n-gone = xkey.softpurge("front-SEED");
            return (synth(200, "Softly " + req.http.n-gone));
        }
        return (purge);
    }
    if (req.url ~ "^/(images|static|media)/") {
        set req.backend_hint = images;
        unset req.http.Cookie;
        unset req.http.X-UA-Device;
        unset req.http.X-Region;
    }
    if (req.url ~ "^/(preview|admin)") {
        return (pass);
    }
    if (req.url == "/feed" || req.url ~ "\.(rss|xml)$") {
        set req.http.X-UA-Device = "feed";
        unset req.http.Accept-Language;
    }
    set req.http.Surrogate-Capability = "varnish=ESI/1.0";
    if (req.method == "GET" || req.method == "HEAD") {
        unset req.http.Cookie;
        return (hash);
    }
    return (pass);
}

sub vcl_hash {
    hash_data(req.http.X-UA-Device);
    hash_data(req.http.X-Region);
}

sub vcl_hit {
    if (obj.ttl >= 0s) {
        return (deliver);
    }
    if (req.http.X-UA-Device == "bot") {
        set req.http.X-Served = "stale to bot";
    }
    if (obj.ttl + obj.grace > 0s) {
        return (deliver);
    }
}

sub vcl_backend_fetch {
    set bereq.http.Accept-Language = bereq.http.X-Lang;
    if (bereq.http.X-UA-Device ~ "^mobile") {
        set bereq.http.X-Device = "mobile";
    }
    header.remove(bereq.http.Accept, "image/webp");
}

sub vcl_backend_response {
    if (beresp.http.Content-Type ~ "^text/html" || beresp.http.Surrogate-Control ~ "ESI") {
        set beresp.do_esi = true;
    }
    if (bereq.url == "/" || bereq.url ~ "^/news/$") {
        set beresp.ttl = 30s;
        set beresp.grace = 5m;
    } elsif (beresp.ttl > 0s) {
        set beresp.ttl = 5m;
        set beresp.grace = 24h;
    }
    if (beresp.http.Set-Cookie && beresp.http.Cache-Control !~ "private") {
        header.copy(beresp.http.Set-Cookie, beresp.http.X-Held-Cookie);
        unset beresp.http.Set-Cookie;
    }
    if (beresp.status == 404) { set beresp.ttl = 10s; }
    if (beresp.http.xkey) {
        set beresp.http.xkey = beresp.http.xkey + " front-SEED";
    } else {
        set beresp.http.xkey = "front-SEED";
    }
    if (beresp.http.Vary) {
        set beresp.http.Vary = regsub(beresp.http.Vary, "(?i),? *User-Agent", "");
    }
    if (bereq.http.X-UA-Device) { header.append(beresp.http.Vary, "X-UA-Device"); }
}

sub vcl_deliver {
    if (req.http.X-UA-Device && resp.http.Vary) {
        set resp.http.Vary = regsub(resp.http.Vary, "X-UA-Device", "User-Agent");
    }
    unset resp.http.xkey;
    set resp.http.X-Lang = req.http.X-Lang;
    if (header.get(resp.http.Set-Cookie, "session") == "") {
        set resp.http.X-No-Session = "1";
    }
    set resp.http.X-Served = req.http.X-Served;
    set resp.http.X-Geo = req.http.X-Country + "/" + req.http.X-Region;
}

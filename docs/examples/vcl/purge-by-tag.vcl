# Purging by tag: the origin names its responses' tags in an `xkey` field, and
# a PURGE with `xkey-purge` makes all that have one of them leave.

vcl 4.1;

import xkey;

backend origin { .host = "127.0.0.1"; .port = "8080"; }

acl inside { "localhost"; "10.0.0.0"/8; }

sub vcl_recv {
    if (req.method == "PURGE") {
        if (client.ip !~ inside) {
            return (synth(405, "Purging is not allowed from here"));
        }
        if (req.http.xkey-purge) {
            set req.http.X-Count = xkey.softpurge(req.http.xkey-purge);
            return (synth(200, "Purged " + req.http.X-Count));
        }
        return (purge);
    }
}

sub vcl_deliver {
    unset resp.http.xkey;
}

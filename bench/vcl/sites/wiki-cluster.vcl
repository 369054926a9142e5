vcl 4.1;

# Two layers in one file: each page on one of the nodes, chosen by its address.

import std;
import directors;

backend n1 { .host = "127.0.0.1"; .port = "8001"; }
backend n2 { .host = "127.0.0.1"; .port = "8002"; }
backend n3 { .host = "127.0.0.1"; .port = "8003"; }

acl nodes { "10.0.0.1"; "10.0.0.2"; "10.0.0.3"; }

sub vcl_init {
    new p = directors.shard_param();
    p.set(by = URL, healthy = CHOSEN, rampup = false);
    new cluster = directors.shard();
    cluster.associate(p.use());
    cluster.set_warmup(0.0);
    cluster.set_rampup(0s);
    cluster.add_backend(n1, ident = "n1");
    cluster.add_backend(n2, ident = "n2");
    cluster.add_backend(n3, ident = "n3");
    cluster.reconfigure(replicas = 25);
}

sub vcl_recv {
    if (client.ip ~ nodes || req.http.X-Cluster) {
        set req.http.X-From = "node";
    }
    set req.backend_hint = cluster.backend();
    if (req.url ~ "^/(user|wp-|admin|checkout)") {
        set req.backend_hint = cluster.backend(by = KEY, key = cluster.key(client.identity));
        return (pass);
    }
    if (req.url ~ "^/images/") {
        set req.backend_hint = cluster.backend(by = HASH);
    }
    set req.http.X-Chosen = req.backend_hint;
    if (req.method == "GET") { unset req.http.Cookie; }
}

sub vcl_backend_fetch {
    if (bereq.retries > 0) {
        set bereq.backend = cluster.backend(alt = bereq.retries, healthy = IGNORE);
    }
    set bereq.http.X-Cluster = "1";
}

sub vcl_backend_response {
    set beresp.http.X-Node = beresp.backend.name;
    if (beresp.status == 500 || beresp.status == 503) {
        if (bereq.retries < 2 && bereq.method != "POST") {
            return (retry);
        }
        return (error(beresp.status, "all nodes say " + beresp.status));
    }
    if (beresp.http.Vary ~ "Accept-Encoding") { set beresp.http.X-Packs = "1"; }
    set beresp.ttl = std.duration(regsub(beresp.http.Surrogate-Control, "^.*max-age=([0-9]+).*$", "\1s"), beresp.ttl);
}

sub vcl_deliver {
    set resp.http.X-Chosen = req.http.X-Chosen;
    set resp.http.X-Hits = obj.hits;
    if (resp.http.X-Cache) {
        set resp.http.X-Cache = resp.http.X-Cache + ", " + obj.hits;
    }
}

sub vcl_backend_error {
    set beresp.http.X-Retries = bereq.retries;
}

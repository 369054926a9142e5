//! Every key of a router's file, once: for parsing, defaults, messages and the reference page.

use freshet_config::keys::{Key, Keys, Kind, key};

/// The table, in the order of the reference page.
pub static ROUTE: Keys = Keys::new(LIST, "docs/routing-keys.md lists every key", false);

const LIST: &[Key] = &[
    key(
        "workers",
        Kind::Count { min: 0, max: 1024 },
        "0",
        "Threads that answer; 0 is one for each core this process may use.",
    ),
    key(
        "listen[].address",
        Kind::Text,
        "",
        "Where clients are redirected from, as `:80`, `127.0.0.1:8000` or `unix:/path`.",
    ),
    key("listen[].tls", Kind::Bool, "false", "Whether it speaks TLS."),
    key("listen[].cert", Kind::Text, "", "PEM file with its certificate and the chain."),
    key("listen[].key", Kind::Text, "", "PEM file with the certificate's private key."),
    key(
        "listen[].trusted",
        Kind::TextList,
        "",
        "Networks of proxies that are believed about the client in `X-Forwarded-For`.",
    ),
    key(
        "admin.listen",
        Kind::Text,
        "",
        "Address for `/metrics`, `/v1/nodes` and `/v1/explain`, which anybody who reaches it may read.",
    ),
    key(
        "dns.listen",
        Kind::TextList,
        "",
        "Addresses where DNS is answered, over UDP and TCP, as `192.0.2.53:53`.",
    ),
    key("dns.zones", Kind::TextList, "", "Domains it is answered for, as `cdn.example`."),
    key(
        "dns.name_servers",
        Kind::TextList,
        "",
        "Names of the servers of these domains, which the domain above has to name as well.",
    ),
    key("dns.contact", Kind::Text, "hostmaster.invalid", "Mail address of who looks after them."),
    key(
        "dns.routers",
        Kind::TextList,
        "",
        "Addresses of the routers, for the hosts of sites with `dns = \"routers\"`.",
    ),
    key(
        "dns.client_subnet",
        Kind::TextList,
        "0.0.0.0/0, ::/0",
        "Networks of resolvers that are believed about the networks of their clients (EDNS client \
         subnet).",
    ),
    key(
        "dns.rate",
        Kind::Count { min: 0, max: 1_000_000 },
        "1000",
        "Answers over UDP that a network of 24 or 48 bits gets in a second; what is beyond comes without \
         records and with the word to ask again over TCP, so nobody is flooded in another's name. 0 for \
         any number.",
    ),
    key(
        "dns.ttl",
        Kind::Span,
        "5m",
        "How long answers hold that are the same for all: of nodes, name servers and records.",
    ),
    key(
        "dns.negative_ttl",
        Kind::Span,
        "30s",
        "How long holds that a name or record is not there.",
    ),
    key("record[].name", Kind::Text, "", "Name of a record that is answered as it is written."),
    key("record[].type", Kind::Choice(&["A", "AAAA", "CNAME", "TXT"]), "A", "Its type."),
    key("record[].value", Kind::Text, "", "What it says: an address, a name or a text."),
    key("region[].name", Kind::Text, "", "Name of the region."),
    key(
        "region[].place",
        Kind::Text,
        "",
        "Where it is: latitude and longitude in degrees, as `48.14, 11.58`.",
    ),
    key(
        "region[].overflow",
        Kind::TextList,
        "",
        "Regions that are tried, in this order, when nobody in this one can take a request.",
    ),
    key(
        "region[].nearest",
        Kind::Bool,
        "true",
        "Whether all other regions are tried after those, the nearest first.",
    ),
    key(
        "region[].private",
        Kind::Bool,
        "false",
        "Whether it is for clients of its own zones only, as caches inside a network of others are. \
         Regions that name it in `overflow` may use it.",
    ),
    key("node[].name", Kind::Text, "", "Name of the node, in the fleet and in cookies."),
    key("node[].region", Kind::Text, "", "Its region."),
    key(
        "node[].addresses",
        Kind::TextList,
        "",
        "Its IP addresses, which DNS gives and health checks ask.",
    ),
    key(
        "node[].host",
        Kind::Text,
        "",
        "Host in the URLs clients are sent to, with a port where it is not the usual one; the first \
         address where it is left out.",
    ),
    key(
        "node[].weight",
        Kind::Count { min: 1, max: 100 },
        "1",
        "Its share of the keys, relative to the other nodes of its region.",
    ),
    key(
        "node[].health",
        Kind::Text,
        "",
        "Where it is asked how it is, as `http://192.0.2.1:8080`; port 80 of its first address where \
         it is left out. `none` has it taken for healthy.",
    ),
    key("node[].drained", Kind::Bool, "false", "Whether nobody is sent to it."),
    key("health.path", Kind::Text, "/", "Path each node is asked for."),
    key("health.host", Kind::Text, "", "`Host` it is asked with; the node's own where left out."),
    key("health.interval", Kind::Span, "2s", "Time between two checks."),
    key("health.timeout", Kind::Span, "1s", "Time a check may take."),
    key("health.status", Kind::Count { min: 100, max: 599 }, "200", "Status that counts as good."),
    key("health.window", Kind::Count { min: 1, max: 64 }, "3", "How many checks are looked at."),
    key(
        "health.threshold",
        Kind::Count { min: 1, max: 64 },
        "2",
        "How many of them must be good for the node to be used.",
    ),
    key(
        "health.ramp",
        Kind::Span,
        "30s",
        "Time in which a node that has come back takes its keys again, a few more each second.",
    ),
    key(
        "health.when_all_down",
        Kind::Choice(&["trust", "refuse"]),
        "trust",
        "What is done where every node of every region is down: `trust` sends clients as if all were \
         up, since it may be the router that is cut off.",
    ),
    key(
        "fleet.servers",
        Kind::TextList,
        "",
        "Servers of NATS of the nodes' fleet, as `nats://10.0.0.1:4222`: what nodes say there of \
         themselves counts beside the router's own checks.",
    ),
    key("fleet.name", Kind::Text, "fleet", "Name of the fleet."),
    key("fleet.credentials", Kind::Text, "", "File with credentials for the servers."),
    key(
        "fleet.ca",
        Kind::Text,
        "",
        "PEM file of the authorities the servers' certificates are of.",
    ),
    key("fleet.certificate", Kind::Text, "", "PEM file with the certificate shown to the servers."),
    key("fleet.key", Kind::Text, "", "PEM file with its private key."),
    key(
        "fleet.identity",
        Kind::Text,
        "",
        "Folder with a certificate of the fleet's own issuer, as `freshet fleet join` makes it, in place of `ca`, \
         `certificate` and `key`. With it only what nodes have signed with theirs is believed of them.",
    ),
    key(
        "fleet.busy",
        Kind::Count { min: 1, max: 99 },
        "80",
        "Load of a node's processors, percent, from which on it takes fewer of its keys; at 100 none.",
    ),
    key(
        "zone[].name",
        Kind::Text,
        "",
        "Name of a zone: networks of clients that are in one place.",
    ),
    key("zone[].region", Kind::Text, "", "The region its clients are sent to first."),
    key(
        "zone[].place",
        Kind::Text,
        "",
        "Where it is, instead of a region: the nearest one is its region.",
    ),
    key("zone[].nodes", Kind::TextList, "", "Nodes inside the zone, tried before any region."),
    key("zone[].networks", Kind::TextList, "", "Its networks, as `192.0.2.0/24`."),
    key("zone[].file", Kind::Text, "", "File with more of them, one a line; `#` begins a comment."),
    key(
        "coverage.file",
        Kind::Text,
        "",
        "Coverage zone file of Apache Traffic Control. Its zones are regions of the same name, or \
         have coordinates.",
    ),
    key(
        "coverage.deep_file",
        Kind::Text,
        "",
        "Deep coverage zone file of Apache Traffic Control: zones with names of nodes inside them.",
    ),
    key(
        "geo.city",
        Kind::Text,
        "",
        "MaxMind database that says where clients are that are in no zone, and in which country. A new \
         file is taken in by itself.",
    ),
    key("default.region", Kind::Text, "", "Region of clients nobody has located; else the first."),
    key("default.place", Kind::Text, "", "Where they are taken to be, instead of a region."),
    key(
        "site[].name",
        Kind::Text,
        "",
        "Name in metrics and explanations; default is the first host.",
    ),
    key(
        "site[].hosts",
        Kind::TextList,
        "",
        "Hosts whose clients are routed: `www.example`, `*.example` for all below, `*` for any.",
    ),
    key(
        "site[].regions",
        Kind::TextList,
        "",
        "Regions that have the site; all where it is left out.",
    ),
    key(
        "site[].key",
        Kind::TextList,
        "path",
        "What of a request decides its node in a region, which is the same one for the same key: \
         `path`, `folder` (the path up to its last `/`), `query`, `parameter NAME`, `host`, `client` \
         (its network of 24 or 48 bits). DNS knows `host` and `client` only.",
    ),
    key(
        "site[].spread",
        Kind::Count { min: 1, max: 8 },
        "1",
        "Nodes of a region that a key is spread over, by the client's network.",
    ),
    key(
        "site[].load_bound",
        Kind::Count { min: 0, max: 1000 },
        "125",
        "How much of its fair share of what this router sent lately a node may get, percent, before \
         its keys go to the next one; 0 for any. Not where `client` is in the key.",
    ),
    key(
        "site[].sticky",
        Kind::Span,
        "0s",
        "How long a client stays with its node by a cookie of the router, while that is up and within \
         reach; 0s for no cookie.",
    ),
    key(
        "site[].dns",
        Kind::Choice(&["nodes", "routers"]),
        "nodes",
        "What DNS gives for its hosts: addresses of nodes, or those of `dns.routers`, which redirect.",
    ),
    key(
        "site[].answers",
        Kind::Count { min: 1, max: 8 },
        "2",
        "Nodes in an answer of DNS, the best one first.",
    ),
    key(
        "site[].ttl",
        Kind::Span,
        "30s",
        "How long an answer of DNS holds, and after which time players ask again.",
    ),
    key(
        "site[].alpn",
        Kind::TextList,
        "",
        "Protocols in HTTPS records of DNS, as `h3` and `h2`; without them there are none.",
    ),
    key(
        "site[].zones_only",
        Kind::Bool,
        "false",
        "Whether clients that are in no zone are refused.",
    ),
    key(
        "site[].countries",
        Kind::TextList,
        "",
        "Countries whose clients are served beside those of zones, as `DE` and `AT`; others are \
         refused. Needs `geo.city`.",
    ),
    key(
        "site[].refused_to",
        Kind::Text,
        "",
        "URL they are redirected to; without it they get a 403.",
    ),
    key(
        "site[].bypass",
        Kind::Text,
        "",
        "Host that clients are sent to where no node can be; without it they get a 503.",
    ),
    key(
        "site[].status",
        Kind::Choice(&["302", "307"]),
        "302",
        "Status of redirects of GET and HEAD; other methods get a 307.",
    ),
    key(
        "site[].scheme",
        Kind::Choice(&["same", "http", "https"]),
        "same",
        "Scheme of the URLs clients are sent to: that of their request, or this one.",
    ),
    key(
        "site[].node_host",
        Kind::Text,
        "",
        "Host in the URLs clients are sent to, instead of the node's own, as `{node}.{host}` with the \
         node's name and the host that was asked for.",
    ),
    key(
        "site[].steering",
        Kind::Text,
        "",
        "Path at which players of HLS and DASH ask which node to take, as `/steering` (content \
         steering).",
    ),
    key(
        "site[].steering_base",
        Kind::Text,
        ".",
        "The pathway in playlists and manifests that nodes are clones of.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "# route.toml\n\nEvery key of the file of `freshet route` with its default; \
         [routing.md](routing.md) says what it is\nfor. A key that is left out has its default; an \
         unknown or wrong one is an error that names its line.\nTimes are written `250ms`, `10s`, \
         `7d`.\n";

    /// The page in the repository is the one this code writes; `UPDATE_DOCS=1` writes it anew.
    #[test]
    fn the_reference_page_in_docs_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/routing-keys.md");
        let want = format!("{HEAD}{}", freshet_config::reference::tables(&ROUTE));
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, &want).unwrap();
        }
        let have = std::fs::read_to_string(path).unwrap_or_default();
        assert!(have == want, "docs/routing-keys.md is old: run the tests with UPDATE_DOCS=1");
    }
}

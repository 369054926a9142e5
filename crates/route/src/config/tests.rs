use super::*;
use crate::decision::table::KeyPart;
use crate::live::Routing;
use crate::redirect::{Request, explain};
use freshet_base::clock::UnixMillis;
use freshet_config::mistake::render;

const GOOD: &str = r#"
workers = 1
[[listen]]
address = "127.0.0.1:0"
trusted = ["10.0.0.0/8"]
[[region]]
name = "west"
place = "48.14, 11.58"
overflow = ["east"]
[[region]]
name = "east"
place = "52.52, 13.40"
[[node]]
name = "west-1"
region = "west"
addresses = ["192.0.2.1", "2001:db8::1"]
weight = 2
[[node]]
name = "east-1"
region = "east"
host = "east-1.example:8080"
addresses = ["192.0.2.9"]
health = "http://127.0.0.1:9000"
[[zone]]
name = "isp"
region = "east"
networks = ["10.0.0.0/8"]
[default]
region = "west"
[[site]]
hosts = ["www.example", "*.video.example"]
key = ["folder", "parameter id"]
node_host = "{node}.{host}"
"#;

fn wrong(text: &str) -> String {
    let mistakes = read(text).expect_err(text);
    render("route.toml", text, &mistakes)
}

#[test]
fn a_file_is_read() {
    let config = read(GOOD).unwrap_or_else(|wrong| panic!("{wrong:?}"));
    let (table, redirects) = (&config.table, &config.redirects);
    assert_eq!(table.nodes()[0].host, "192.0.2.1");
    assert_eq!((table.nodes()[0].weight, table.nodes()[1].region), (2, 1));
    let asked = |at: usize| config.watched[at].by.as_ref().map(|by| by.address.to_string());
    assert_eq!(asked(0).as_deref(), Some("192.0.2.1:80"));
    assert_eq!(asked(1).as_deref(), Some("127.0.0.1:9000"));
    let site = table.site(table.site_of("a.video.example").unwrap()).unwrap();
    assert_eq!(site.name, "www.example");
    assert_eq!(site.key, [KeyPart::Folder, KeyPart::Parameter("id".into())]);
    assert_eq!(redirects[0].node_host, "{node}.{host}");
    assert_eq!(table.prefixes().find([10, 1, 2, 3].into()).value, Some(0));
}

#[test]
fn without_a_site_every_host_is_one() {
    let config =
        read("[[region]]\nname = \"a\"\n[[node]]\nname = \"n\"\nregion = \"a\"\nhost = \"n\"\n");
    let config = config.unwrap();
    assert_eq!(config.table.site_of("anything.example"), Some(0));
    assert!(config.watched[0].by.is_none(), "it has no address to ask");
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    for (from, to, says) in [
        ("weight = 2", "wieght = 2", "did you mean `weight`?"),
        ("\"48.14, 11.58\"", "\"here\"", "route.toml:8:9"),
        ("overflow = [\"east\"]", "overflow = [\"eats\"]", "did you mean `east`?"),
        ("region = \"west\"\nadd", "region = \"north\"\nadd", "there is no region `north`"),
        ("\"192.0.2.1\", ", "\"192.0.2\", ", "`192.0.2` is no IP address"),
        ("name = \"east-1\"", "name = \"west-1\"", "there is another node `west-1`"),
        ("\"10.0.0.0/8\"]\n[def", "\"10.0.0.0/80\"]\n[def", "is no network"),
        ("region = \"east\"\nnetworks", "networks", "a zone has zone.region"),
        ("east-1.example:8080", "east 1", "`east 1` is no host"),
        ("\"folder\"", "\"foldr\"", "`foldr` is none of path"),
        ("{node}.{host}", "{knot}.{host}", "is no host"),
        ("workers = 1", "[health]\nwindow = 1\n", "more than health.window"),
        ("address = ", "tls = true\naddress = ", "listen.tls needs"),
        ("networks = [", "file = \"/nowhere\"\nnetworks = [", "/nowhere cannot be read"),
        ("[default]", "[coverage]\nfile = \"/nowhere\"\n[default]", "/nowhere cannot be read"),
        ("hosts = [", "countries = [\"DE\"]\nhosts = [", "site.countries needs geo.city"),
        ("hosts = [", "countries = [\"DEU\"]\nhosts = [", "`DEU` is no country"),
        ("[default]", "[geo]\ncity = \"/nowhere\"\n[default]", "geo.city: /nowhere"),
        ("hosts = [", "bypass = \"a b\"\nhosts = [", "site.bypass"),
    ] {
        let text = GOOD.replacen(from, to, 1);
        assert_ne!(text, GOOD, "{from}");
        let said = wrong(&text);
        assert!(said.contains(says), "{to}: {said}");
    }
    let twice =
        format!("{GOOD}\n[[zone]]\nname = \"b\"\nregion = \"west\"\nnetworks = [\"10.9.0.0/8\"]\n");
    assert!(wrong(&twice).contains("10.0.0.0/8 is in two zones"));
    assert!(wrong("").contains("there is no [[node]]"));
}

#[test]
fn a_name_server_of_ours_without_an_address_is_warned_of() {
    let warned = |record: &str| {
        let dns =
            "zones = [\"cdn.example\"]\nname_servers = [\"NS1.cdn.example\", \"ns.other.example\"]";
        let text = format!("{GOOD}\n[dns]\n{dns}\n{record}");
        render("route.toml", &text, &read(&text).unwrap().warnings)
    };
    let said = warned("");
    assert!(said.contains("warning: dns.name_servers: `ns1.cdn.example` has no address"), "{said}");
    assert!(said.contains("route.toml:") && !said.contains("ns.other.example`"), "{said}");
    let record = "[[record]]\nname = \"ns1.cdn.example\"\nvalue = \"203.0.113.53\"\n";
    assert_eq!(warned(record), "");
    let node = "[[node]]\nname = \"n\"\nregion = \"west\"\nhost = \"ns1.cdn.example\"\n";
    assert_eq!(warned(node), "");
}

#[test]
fn a_database_says_where_clients_of_no_zone_are() {
    use freshet_geo::writer::{Value, Writer, country, map};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("city.mmdb");
    let place = [("latitude", Value::Double(52.4)), ("longitude", Value::Double(13.1))];
    let potsdam = map([("country", map([("iso_code", "DE".into())])), ("location", map(place))]);
    let writer = Writer::new("City").with("203.0.113.0/25", &potsdam);
    std::fs::write(&path, writer.with("198.51.100.0/24", &country("EU", "FR")).bytes()).unwrap();
    let text = GOOD.replace("[default]", &format!("[geo]\ncity = {path:?}\n[default]"));
    let text = text.replace("key = [\"folder\"", "countries = [\"DE\"]\nkey = [\"folder\"");
    let routing = Routing::new(read(&text).unwrap(), None).unwrap();
    for (client, where_, then) in [
        ("203.0.113.7", "the client is at 52.40, 13.10 in DE, with all of its /25", "302 to"),
        ("198.51.100.1", "the client is in FR, with all of its /24", "403 without"),
        ("192.0.2.1", "nobody knows where it is", "403 without"),
        ("10.1.1.1", "the client is in zone isp", "302 to"),
    ] {
        let request = Request::of_url("http://www.example/a", client.parse().unwrap()).unwrap();
        let said = explain(&routing, &request, UnixMillis(1)).0.join("\n");
        assert!(said.contains(where_) && said.contains(then), "{said}");
    }
    let near = Request::of_url("http://www.example/a", "203.0.113.7".parse().unwrap()).unwrap();
    let said = explain(&routing, &near, UnixMillis(1)).0.join("\n");
    assert!(said.contains("http://east-1.www.example/a"), "{said}");
}

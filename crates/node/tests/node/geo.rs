//! Where clients are: for rules, logs and policies, from databases that change meanwhile.

use crate::client::{Answer, Client};
use crate::harness::{Setup, TestNode, proxied, run, run_within, until};
use crate::origin::{Origin, Request, fresh};
use crate::vcl::governed_with;
use freshet_config::Document;
use freshet_config::settings::Settings;
use freshet_geo::writer::{Value, Writer, asn, country, map};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Files are looked at once a second, and a machine may have other things to do.
const PATIENCE: Duration = Duration::from_secs(300);

const AUSTRIAN: &str = "192.0.2.7";
const GERMAN: &str = "198.51.100.7";
const NOBODYS: &str = "203.0.113.7";

/// Puts a database where one may be already, as `geoipupdate` does.
fn put(folder: &TempDir, name: &str, writer: &Writer) -> PathBuf {
    let (path, beside) = (folder.path().join(name), folder.path().join("beside"));
    std::fs::write(&beside, writer.bytes()).unwrap();
    std::fs::rename(&beside, &path).unwrap();
    path
}

fn countries(first: &str) -> Writer {
    Writer::new("GeoLite2-Country")
        .with("192.0.2.0/24", &country("EU", first))
        .with("198.51.100.0/24", &country("EU", "DE"))
}

fn systems() -> Writer {
    Writer::new("GeoLite2-ASN")
        .with("192.0.2.0/24", &asn(64_496, "First"))
        .with("198.51.100.0/24", &asn(64_497, "Second"))
}

fn tables(country: &Path, asn: &Path) -> String {
    format!("[geo]\ncountry = \"{}\"\nasn = \"{}\"\n", country.display(), asn.display())
}

async fn from(node: &TestNode, address: &str, target: &str) -> Answer {
    let mut client = Client::to(node).await;
    client.send(proxied(address)).await;
    client.get(target).await
}

#[test]
fn rules_let_in_by_country_continent_and_system() {
    run_within(PATIENCE, async {
        let origin = Origin::serve(|_: &Request| fresh("inside"));
        let folder = TempDir::new().unwrap();
        let country = put(&folder, "country", &countries("AT"));
        let rules = "[[access]]\npath = \"/at/\"\nallow = [\"country:at\", \"127.0.0.0/8\"]\n\
                     [[access]]\npath = \"/eu/\"\nallow = [\"continent:EU\"]\ndeny = [\"country:DE\"]\n\
                     [[access]]\npath = \"/as/\"\ndeny = [\"as:64496\"]\n";
        let geo = tables(&country, &put(&folder, "asn", &systems()));
        let node = Setup::of(&origin).behind_proxy().and(&geo).and(rules).start();
        for (target, lets_in) in [
            ("/at/", [true, false, false]),
            ("/eu/", [true, false, false]),
            ("/as/", [false, true, true]),
            ("/", [true, true, true]),
        ] {
            for (address, is_in) in [AUSTRIAN, GERMAN, NOBODYS].iter().zip(lets_in) {
                let status = from(&node, address, target).await.status;
                assert_eq!(status, if is_in { 200 } else { 403 }, "{address} {target}");
            }
        }
        // A new database, without a reload; and a broken one, with which that one goes on.
        put(&folder, "country", &countries("CH"));
        while from(&node, AUSTRIAN, "/at/").await.status == 200 {}
        std::fs::write(&country, "broken").unwrap();
        let wrong = node.node.reload((*node.node.snapshot().settings).clone()).unwrap_err();
        assert!(wrong.to_string().contains("is no MaxMind database"), "{wrong}");
        assert_eq!(from(&node, AUSTRIAN, "/eu/").await.status, 200);
        put(&folder, "country", &countries("AT"));
        while from(&node, AUSTRIAN, "/at/").await.status != 200 {}
    });
}

#[test]
fn a_file_that_cannot_be_used_is_refused_where_it_is_named() {
    let folder = TempDir::new().unwrap();
    let broken = folder.path().join("broken");
    std::fs::write(&broken, "text").unwrap();
    for (path, says) in [
        (folder.path().join("none"), "No such file"),
        (broken, "is no MaxMind database"),
        ("/dev/zero".into(), "more than"),
    ] {
        let text = format!("[[origin]]\nurl = \"http://a\"\n[geo]\nasn = \"{}\"\n", path.display());
        let settings = Settings::from_document(&Document::parse(&text).unwrap()).unwrap();
        let wrong = freshet_node::preflight::Prepared::new(settings, None).err().unwrap();
        assert!(wrong[0].message.starts_with("geo.asn: "), "{wrong:?}");
        assert!(wrong[0].message.contains(says) && wrong[0].help.is_some(), "{wrong:?}");
        let line = text[..wrong[0].place.span().unwrap().start].lines().count();
        assert_eq!(line, 4);
    }
}

#[test]
fn a_database_of_another_kind_is_warned_of() {
    let folder = TempDir::new().unwrap();
    let (country, asn) =
        (put(&folder, "country", &countries("AT")), put(&folder, "asn", &systems()));
    let warnings = |country: &Path, asn: &Path| {
        let text = format!("[[origin]]\nurl = \"http://a\"\n{}", tables(country, asn));
        let settings = Settings::from_document(&Document::parse(&text).unwrap()).unwrap();
        let prepared = freshet_node::preflight::Prepared::new(settings, None).unwrap();
        prepared.warnings.iter().map(|one| one.message.clone()).collect::<Vec<_>>()
    };
    assert_eq!(warnings(&country, &asn), [""; 0]);
    let wrong = warnings(&asn, &country);
    assert!(
        wrong[0].contains("a `GeoLite2-ASN`, has no `country/iso_code` of anybody"),
        "{wrong:?}"
    );
    assert!(wrong[1].starts_with("geo.asn: ") && wrong.len() == 2, "{wrong:?}");
}

#[test]
fn the_access_log_says_where_clients_are() {
    run(async {
        let origin = Origin::serve(|_: &Request| fresh("inside"));
        let folder = TempDir::new().unwrap();
        let graz = map([
            ("city", map([("names", map([("en", "Graz".into())]))])),
            ("continent", map([("code", "EU".into())])),
            ("country", map([("iso_code", "AT".into())])),
            ("location", map([("latitude", Value::Double(47.07))])),
        ]);
        let city = put(&folder, "city", &Writer::new("City").with("192.0.2.0/24", &graz));
        let asn = put(&folder, "asn", &systems());
        let geo = format!("[geo]\ncity = \"{}\"\nasn = \"{}\"\n", city.display(), asn.display());
        for (format, lines) in [
            (
                "json",
                ["\"country\":\"AT\",\"continent\":\"EU\",\"city\":\"Graz\",\"asn\":64496,", ","],
            ),
            (
                "%h %{country}x %{continent}x %{city}x %{asn}x",
                ["192.0.2.7 AT EU Graz 64496", "203.0.113.7 - - - -"],
            ),
        ] {
            let file = tempfile::NamedTempFile::new().unwrap();
            let log =
                format!("[log]\naccess = \"{}\"\nformat = \"{format}\"\n", file.path().display());
            let node = Setup::of(&origin).behind_proxy().and(&geo).and(&log).start();
            for address in [AUSTRIAN, NOBODYS] {
                assert_eq!(from(&node, address, "/").await.status, 200);
            }
            let text = || std::fs::read_to_string(file.path()).unwrap();
            until(|| text().lines().count() == 2).await;
            for line in lines {
                assert!(text().contains(line), "{line} in {}", text());
            }
        }
    });
}

#[test]
fn a_policy_looks_up_what_it_likes_in_databases_that_change() {
    run_within(PATIENCE, async {
        let origin = Origin::serve(|_: &Request| fresh("inside"));
        let folder = TempDir::new().unwrap();
        let path = put(&folder, "country", &countries("AT"));
        let policy = format!(
            "import geoip2; sub vcl_init {{ new country = geoip2.geoip2(\"{}\"); }}\n\
             sub vcl_deliver {{ set resp.http.Country = country.lookup(\"country/iso_code\", client.ip);\n\
             set resp.http.Nothing = country.lookup(\"country\", client.ip); }}",
            path.display()
        );
        let governed = governed_with(&origin, &policy, "");
        // Nobody is behind a proxy here, so the client is of this machine.
        let here = || async { Client::to(&governed.node).await.get("/").await };
        let answer = here().await;
        assert_eq!((answer.field("country"), answer.field("nothing")), (Some(""), Some("")));
        put(&folder, "country", &Writer::new("C").with("127.0.0.0/8", &country("EU", "LI")));
        while here().await.field("country") != Some("LI") {}
    });
}

#[test]
fn a_policy_without_its_database_is_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("policy.vcl");
    let policy = "vcl 4.1; import geoip2; backend b { .host = \"127.0.0.1\"; }\n\
                  sub vcl_init { new country = geoip2.geoip2(\"/none.mmdb\"); }\n\
                  sub vcl_recv { set req.http.C = country.lookup(\"a\", client.ip); }";
    std::fs::write(&path, policy).unwrap();
    let text = format!("vcl = \"{}\"\n", path.display());
    let settings = Settings::from_document(&Document::parse(&text).unwrap()).unwrap();
    let wrong = freshet_node::preflight::Prepared::new(settings, None).err().unwrap();
    assert!(wrong[0].message.contains("/none.mmdb: No such file"), "{wrong:?}");
}

//! `freshet check` on configurations and policies.
#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

mod support;

use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::{Process, freshet, ready, run, succeed};

fn check(arguments: &[&str], file: &Path) -> Output {
    let program = env!("CARGO_BIN_EXE_freshet");
    Command::new(program).arg("check").args(arguments).arg(file).output().unwrap()
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/vcl").join(name)
}

#[test]
fn a_good_policy_is_good_and_explained() {
    let output = check(&[], &example("cms.vcl"));
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("cms.vcl: good"));
    let output = check(&["--explain"], &example("cms.vcl"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for wanted in ["backend default: 127.0.0.1:8080, checked", "vcl_recv", "return (purge);"] {
        assert!(text.contains(wanted), "{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn all_mistakes_of_a_policy_are_shown_with_their_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.vcl");
    let text = "vcl 4.1;\nbackend b { .host = \"127.0.0.1\"; }\ninclude \"./more.vcl\";\nsub vcl_recv {\n    \
                set req.ulr = \"/\";\n}\n";
    fs::write(&path, text).unwrap();
    fs::write(folder.path().join("more.vcl"), "sub vcl_deliver {\n    return (delivr);\n}\n")
        .unwrap();
    let output = check(&[], &path);
    assert!(!output.status.success());
    let shown = String::from_utf8_lossy(&output.stderr).into_owned();
    for wanted in [
        "policy.vcl:5",
        "did you mean `req.url`?",
        "more.vcl:2",
        "did you mean `deliver`?",
        "2 mistakes",
    ] {
        assert!(shown.contains(wanted), "wanted {wanted}\n{shown}");
    }
}

/// A certificate for `localhost` and its key, in files.
fn certificate(folder: &Path, name: &str, until: (i32, u8, u8)) -> (PathBuf, PathBuf) {
    let mut parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    parameters.not_before = rcgen::date_time_ymd(2020, 1, 1);
    parameters.not_after = rcgen::date_time_ymd(until.0, until.1, until.2);
    let key = rcgen::KeyPair::generate().unwrap();
    let made = parameters.self_signed(&key).unwrap();
    let files = (folder.join(format!("{name}.pem")), folder.join(format!("{name}.key")));
    fs::write(&files.0, made.pem()).unwrap();
    fs::write(&files.1, key.serialize_pem()).unwrap();
    fs::set_permissions(&files.1, fs::Permissions::from_mode(0o600)).unwrap();
    files
}

/// What `serve` says of a configuration with which it does not start.
fn refused(file: &Path) -> String {
    let home = tempfile::tempdir().unwrap();
    let mut serve = freshet();
    serve.arg("serve").arg("--config").arg(file).env("RUNTIME_DIRECTORY", home.path());
    let output = run(&mut serve);
    assert!(!output.status.success(), "it started");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What `check` says of it: whether it is good, and all it says.
fn checked(file: &Path) -> (bool, String) {
    let output = check(&[], file);
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn what_a_start_would_refuse_a_check_refuses_in_the_same_words_and_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (cert, key) = certificate(folder.path(), "good", (2090, 1, 1));
    let (_, other_key) = certificate(folder.path(), "other", (2090, 1, 1));
    fs::write(at("empty.pem"), "").unwrap();
    fs::write(at("wrong.vcl"), "vcl 4.1;\nbackend b { .host = \"127.0.0.1\"; }\nnonsense\n")
        .unwrap();
    fs::write(at("foreign"), vec![7; 8 << 20]).unwrap();
    fs::write(at("diary"), "my diary\n").unwrap();
    fs::write(at("zeros"), vec![0; 1 << 20]).unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    let tls = "[[listen]]\naddress = \"127.0.0.1:0\"\ntls = true\n[[certificate]]\n";
    let pair = |cert: &str, key: &str| format!("{tls}cert = \"{cert}\"\nkey = \"{key}\"\n");
    let (cert, key) = (cert.display().to_string(), key.display().to_string());
    let other_key = other_key.display().to_string();
    // What is below the head, the line of it that is wrong, what is said, and of what to do.
    let cases = [
        (pair(&cert, &at("none.key")), 6, "No such file", "a file that is there"),
        (pair(&at("empty.pem"), &key), 5, "no certificate", ""),
        (pair(&cert, &other_key), 6, "does not belong", ""),
        (format!("[log]\naccess = \"{}\"\n", at("no/a.log")), 2, "no/a.log", "mkdir -p"),
        ("[log]\nformat = \"%Z\"\n".to_owned(), 2, "log.format", ""),
        (format!("[geo]\ncountry = \"{}\"\n", at("foreign")), 2, "MaxMind", "unpacked"),
        (format!("[tls]\nticket_keys = [\"{}\"]\n", at("empty.pem")), 2, "no keys", ""),
        (format!("[tls]\nticket_keys = [\"{}\"]\n", at("no.key")), 2, "No such file", "is there"),
        (
            format!(
                "[fleet]\nservers = [\"nats://a\"]\ntickets = true\nsecret = \"{}\"\n",
                at("empty.pem")
            ),
            4,
            "64 hexadecimal digits",
            "",
        ),
        (format!("[geo]\nasn = \"{}\"\n", at("no.mmdb")), 2, "No such file", "is there"),
        (format!("[admin]\nlisten = \"{taken}\"\n"), 2, "the admin interface", "--admin ADDR"),
        (format!("[[listen]]\naddress = \"{taken}\"\n"), 2, "cannot listen", "ss -ltnp"),
        ("[[listen]]\naddress = \"192.0.2.1:80\"\n".to_owned(), 2, "cannot listen", "ip address"),
        ("[[listen]]\naddress = \"127.0.0.1:7\"\n".repeat(2), 4, "is given twice", "one of them"),
        (
            "[[listen]]\naddress = \":7\"\n[[listen]]\naddress = \"127.0.0.1:7\"\n".to_owned(),
            4,
            "have clients in common",
            "one of them",
        ),
        (
            format!("[[listen]]\naddress = \"unix:{}\"\n", at(&"n".repeat(120))),
            2,
            "cannot listen",
            "",
        ),
        (format!("[[listen]]\naddress = \"unix:{}\"\n", at("foreign/x")), 2, "cannot listen", ""),
        (format!("[admin]\nlisten = \"unix:{}\"\n", at("foreign/x")), 2, "the admin interface", ""),
        (
            format!("[[store]]\npath = \"{}\"\nsize = \"64MiB\"\n", at("diary")),
            2,
            "less than a block",
            "",
        ),
        (
            format!(
                "[log]\naccess = \"{}\"\n[[store]]\npath = \"{}\"\nsize = \"64MiB\"\n",
                at("a.log"),
                at("./a.log")
            ),
            4,
            "is given twice",
            "a file of its own",
        ),
        (
            format!("[[store]]\npath = \"{}\"\nsize = \"64MiB\"\n", at("no/store")),
            2,
            "no/store",
            "mkdir -p",
        ),
        (format!("[[store]]\npath = \"{}\"\n", at("foreign")), 2, "no Freshet store", ""),
        (
            format!("[[store]]\npath = \"{}\"\nsize = \"64MiB\"\n", folder.path().display()),
            2,
            "neither a file nor a block device",
            "/store`",
        ),
        ("[[store]]\npath = \"/dev/null\"\n".to_owned(), 2, "neither a file nor", ""),
        (
            format!("[[store]]\npath = \"{}\"\nsize = \"1GB\"\n", at("zeros")),
            2,
            "is not between",
            "keeps its own length",
        ),
        (
            "[[store]]\npath = \"~/store\"\nsize = \"1GB\"\n".to_owned(),
            2,
            "`~` is not expanded",
            "from `/` on",
        ),
        (
            "[[store]]\npath = \"file:///tmp/x\"\nsize = \"1GB\"\n".to_owned(),
            2,
            "a path, and no URL",
            "`/tmp/x`",
        ),
        (
            format!("[[store]]\npath = \"{}\"\nsize = \"1GB\"\n", at(&"n".repeat(300))),
            2,
            "255 bytes",
            "",
        ),
        (
            format!("[[store]]\npath = \"{}\"\nsize = \"1GB\"\nclass = \"ram\"\n", at("store")),
            4,
            "`ram`, which means memory",
            "another name",
        ),
        (
            format!("[[store]]\npath = \"{}\"\nsize = \"900TB\"\n", at("store")),
            2,
            "is not between",
            "",
        ),
        (
            format!("[[store]]\npath = \"{}\"\nsize = \"10TB\"\n", at("store")),
            2,
            "no space",
            "give the store less",
        ),
        (
            "[[site]]\nhosts = [\"a.example\"]\n[[site.origin]]\nurl = \"ftp://a\"\n".to_owned(),
            4,
            "origin.url",
            "",
        ),
        ("[cache]\npurge_from = [\"x\"]\n".to_owned(), 2, "not a network", ""),
    ];
    let file = folder.path().join("freshet.toml");
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    let http3 = format!(
        "[[listen]]\naddress = \"{}\"\ntls = true\nhttp3 = true\n[[certificate]]\ncert = \"{cert}\"\n\
         key = \"{key}\"\n",
        datagrams.local_addr().unwrap()
    );
    let cases = cases.into_iter().chain([(http3, 2, "there is no HTTP/3", "ss -lunp")]);
    for (text, line, says, cure) in cases {
        // The head has four lines; what a case gives comes behind them.
        let head = "workers = 1\nvcl = \"\"\n[[origin]]\nurl = \"http://127.0.0.1:1\"\n";
        let listens = text.contains("[[listen]]");
        let tail = if listens { "" } else { "[[listen]]\naddress = \"127.0.0.1:0\"\n" };
        let off = if text.contains("[admin]") { "" } else { "[admin]\nlisten = \"off\"\n" };
        fs::write(&file, format!("{head}{text}{tail}{off}")).unwrap();
        let place = format!("freshet.toml:{}:", line + 4);
        let (good, text_of_check) = checked(&file);
        assert!(!good, "{text}");
        assert!(fs::metadata(at("store")).is_err(), "a check makes nothing");
        for said in [text_of_check, refused(&file)] {
            for wanted in [place.as_str(), says, cure] {
                assert!(said.contains(wanted), "wanted {wanted} for\n{text}\n{said}");
            }
        }
        let _ = fs::remove_file(at("store"));
    }
    // A policy that is named has lines of its own.
    fs::write(&file, format!("vcl = \"{}\"\n", at("wrong.vcl"))).unwrap();
    for said in [checked(&file).1, refused(&file)] {
        assert!(said.contains("freshet.toml:1") && said.contains("wrong.vcl:3"), "{said}");
    }
    // More memory than there is.
    fs::write(&file, "memory = \"9000TiB\"\n[[origin]]\nurl = \"http://127.0.0.1:1\"\n").unwrap();
    for said in [checked(&file).1, refused(&file)] {
        assert!(said.contains("freshet.toml:1") && said.contains("all there is"), "{said}");
    }
}

#[test]
fn what_may_not_be_meant_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("freshet.toml");
    let (cert, key) = certificate(folder.path(), "old", (2021, 1, 1));
    let text = format!(
        "[[listen]]\naddress = \"127.0.0.1:0\"\ntls = true\n[[certificate]]\ncert = \"{}\"\n\
         key = \"{}\"\n[[origin]]\nurl = \"http://127.0.0.1:1\"\n[[origin]]\n\
         url = \"http://origin.invalid\"\n[admin]\nlisten = \"off\"\n",
        cert.display(),
        key.display()
    );
    fs::write(&file, text).unwrap();
    let (good, said) = checked(&file);
    assert!(good, "{said}");
    for wanted in [
        "the certificate expired",
        "freshet.toml:5:",
        "does not accept connections",
        "freshet.toml:8:",
        "does not resolve",
        "freshet.toml:10:",
        "good, 3 warnings",
    ] {
        assert!(said.contains(wanted), "wanted {wanted}\n{said}");
    }
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let (_, said) = checked(&file);
    assert!(said.contains("everybody here can read") && said.contains("chmod o= "), "{said}");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let offline = check(&["--offline"], &file);
    assert!(String::from_utf8_lossy(&offline.stdout).contains("good, 1 warning\n"), "{offline:?}");
    let without = fs::read_to_string(&file).unwrap().replace("[[certificate]]", "[[listen]]");
    let without = without.replace("cert =", "#").replace("key =", "address = \"127.0.0.1:0\" #");
    fs::write(&file, without).unwrap();
    let (good, said) = checked(&file);
    assert!(good && said.contains("TLS without a certificate"), "{said}");
}

#[test]
fn a_host_that_no_certificate_names_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("freshet.toml");
    let (cert, key) = certificate(folder.path(), "new", (2099, 1, 1));
    let site = |host: &str| {
        format!("[[site]]\nhosts = [\"{host}\"]\n[[site.origin]]\nurl = \"http://192.0.2.1\"\n")
    };
    let text = format!(
        "[admin]\nlisten = \"off\"\n[[listen]]\naddress = \"127.0.0.1:0\"\ntls = true\n[[certificate]]\n\
         cert = \"{}\"\nkey = \"{}\"\n{}{}",
        cert.display(),
        key.display(),
        site("localhost"),
        site("www.example"),
    );
    fs::write(&file, text).unwrap();
    let offline = check(&["--offline"], &file);
    let said = String::from_utf8_lossy(&offline.stderr).into_owned();
    assert!(said.contains("no certificate names `www.example`") && said.contains(":13:"), "{said}");
    assert!(String::from_utf8_lossy(&offline.stdout).contains("good, 1 warning\n"), "{offline:?}");
}

#[test]
fn what_is_not_there_to_be_used_is_a_warning_with_a_cure() {
    let folder = tempfile::tempdir().unwrap();
    let [file, policy, store] =
        ["freshet.toml", "welcome.vcl", "store"].map(|name| folder.path().join(name));
    fs::write(&policy, "vcl 4.1; backend default none;").unwrap();
    let text = format!(
        "vcl = \"{}\"\ncache.negative = \"9s\"\n[[origin]]\nurl = \"http://192.0.2.1\"\n[[listen]]\naddress = \"127.0.0.1:0\"\n\
         [admin]\nlisten = \"off\"\n[[store]]\npath = \"{}\"\n",
        policy.display(),
        store.display()
    );
    fs::write(&file, text).unwrap();
    let (good, said) = checked(&file);
    assert!(good, "{said}");
    for wanted in [
        "`cache.negative` does nothing beside `vcl`",
        "freshet.toml:2:",
        "`set beresp.ttl` by `beresp.status`",
        "[[origin]] is not asked",
        "freshet.toml:4:",
        "backends of the policy",
        "there is no such file",
        "freshet.toml:10:",
        "give its `size`",
        "good, 3 warnings",
    ] {
        assert!(said.contains(wanted), "wanted {wanted}\n{said}");
    }
}

#[test]
fn a_store_that_another_process_has_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let [file, store] = ["freshet.toml", "store"].map(|name| folder.path().join(name));
    let place = format!("{}:64MiB", store.display());
    assert!(run(freshet().args(["store", "format", &place])).status.success());
    let text = format!(
        "[[origin]]\nurl = \"http://192.0.2.1\"\n[[listen]]\naddress = \"127.0.0.1:0\"\n\
         [admin]\nlisten = \"off\"\n[[store]]\npath = \"{}\"\n",
        store.display()
    );
    fs::write(&file, text).unwrap();
    let said =
        |offline: Output| String::from_utf8([offline.stdout, offline.stderr].concat()).unwrap();
    assert!(said(check(&["--offline"], &file)).ends_with("freshet.toml: good\n"));
    let taken = fs::File::open(&store).unwrap();
    taken.lock().unwrap();
    let said = said(check(&["--offline"], &file));
    for wanted in ["another process has it", "freshet.toml:8:", "tries again", "good, 1 warning\n"]
    {
        assert!(said.contains(wanted), "wanted {wanted}\n{said}");
    }
}

#[test]
fn one_run_says_all_that_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let (file, key) = (folder.path().join("freshet.toml"), folder.path().join("key"));
    fs::write(&key, "").unwrap();
    let text = format!(
        "memroy = \"1GiB\"\n[admin]\nlisten = \"off\"\n[[listen]]\naddress = \"edge.example:80\"\n\
         [[site]]\nhosts = [\"a\"]\nvcl = \"/none/a.vcl\"\n[[site.token]]\nkind = \"jwt\"\nkeys = [\"{0}\"]\n\
         [[site.error_page]]\nfile = \"/none/e.html\"\n[[site.error_page]]\nfile = \"/none/f.html\"\n\
         [[site]]\nhosts = [\"b\"]\n[site.cache]\ngrase = \"1s\"\n\
         [[site]]\nhosts = [\"c\"]\n\
         [[store]]\npath = \"/none/store\"\n",
        key.display()
    );
    // Each is of another stage: keys, addresses, what a site needs, files, the machine.
    fs::write(&file, text).unwrap();
    let (good, said) = checked(&file);
    assert!(!good);
    for wanted in [
        "there is no key `memroy`",
        "write the address instead",
        "/none/a.vcl",
        "token.keys",
        "/none/e.html",
        "/none/f.html",
        "there is no key `cache.grase`",
        "site `c`: no origin",
        "/none/store",
    ] {
        assert!(said.contains(wanted), "wanted {wanted}\n{said}");
    }
    // What may only follow from the mistakes is not told.
    assert!(!said.contains("site `b`: no origin"), "{said}");
    assert!(said.trim_end().ends_with("8 mistakes"), "{said}");
    // And of very many, those that somebody reads.
    let keys: String = (0..3_000).map(|number| format!("x{number} = 1\n")).collect();
    fs::write(&file, keys).unwrap();
    let said = checked(&file).1;
    assert!(said.contains("and 2900 more") && said.len() < 100_000, "{said}");
}

#[test]
fn an_access_log_may_be_a_pipe_that_nobody_reads_yet() {
    let folder = tempfile::tempdir().unwrap();
    let [file, pipe, socket] =
        ["freshet.toml", "access.pipe", "access.socket"].map(|name| folder.path().join(name));
    succeed(Command::new("mkfifo").arg(&pipe));
    let listening = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let text = |log: &Path| {
        format!(
            "log.access = \"{}\"\n[admin]\nlisten = \"off\"\n[[origin]]\nurl = \"http://192.0.2.1\"\n\
             [[listen]]\naddress = \"127.0.0.1:0\"\n",
            log.display()
        )
    };
    fs::write(&file, text(&pipe)).unwrap();
    let (good, said) = checked(&file);
    assert!(good, "{said}");
    let mut node = Process::start(
        freshet().args(["serve", "--config"]).arg(&file).env("XDG_RUNTIME_DIR", folder.path()),
    );
    ready(&mut node);
    node.signal(Signal::TERM);
    assert!(node.end().0.success());
    fs::write(&file, text(&socket)).unwrap();
    let (good, said) = checked(&file);
    assert!(!good, "{said}");
    for wanted in
        ["it is a socket, and no file", "freshet.toml:1:", "a named pipe, or write `stdout`"]
    {
        assert!(said.contains(wanted), "wanted {wanted}\n{said}");
    }
    drop(listening);
}

#[test]
fn whom_a_node_serves_finds_it() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("http.socket");
    let mut command = freshet();
    command.args(["serve", "--origin", "http://192.0.2.1", "--admin", "localhost:0"]);
    command.arg("--listen").arg(format!("unix:{}", socket.display())).args(["--listen-tls", "off"]);
    let mut node = Process::start(command.env("XDG_RUNTIME_DIR", folder.path()));
    // As soon as it takes connections, which is before it says that it runs.
    let mut answer = String::new();
    while !answer.starts_with("HTTP/1.1 ") {
        answer.clear();
        let Ok(mut client) = std::os::unix::net::UnixStream::connect(&socket) else { continue };
        let asked = client.write_all(
            b"OPTIONS * HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\nConnection: close\r\n\r\n",
        );
        let _ = asked.and_then(|()| client.read_to_string(&mut answer));
    }
    let found = run(freshet().args(["stat"]).env("XDG_RUNTIME_DIR", folder.path()));
    assert!(found.status.success(), "{found:?}");
    ready(&mut node);
    node.signal(Signal::TERM);
    assert!(node.end().0.success());
}

#[test]
fn what_is_found_is_json_for_programs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("freshet.toml");
    fs::write(&file, "[[origin]]\nurl = \"http://127.0.0.1:1\"\n[cache]\ngrase = \"1s\"\n")
        .unwrap();
    let output = check(&["--format", "json", "--offline"], &file);
    assert!(!output.status.success());
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["good"], false);
    let finding = &found["files"][0]["findings"][0];
    assert_eq!(finding["severity"], "error");
    assert_eq!((&finding["place"]["line"], &finding["place"]["column"]), (&4.into(), &1.into()));
    assert_eq!(finding["help"], "did you mean `grace`?");
    let policy = folder.path().join("policy.vcl");
    fs::write(&policy, "vcl 4.1;\nnonsense\n").unwrap();
    let same = check(&["--json"], &policy);
    let output = check(&["--format", "json"], &policy);
    assert_eq!(same.stdout, output.stdout);
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["files"][0]["findings"][0]["place"]["line"], 2, "{found}");
}

#[test]
fn a_node_that_runs_is_not_in_the_way_of_its_own_configuration() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("freshet.toml");
    let ports = [0; 2].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let [http, admin] = ports.each_ref().map(|port| port.local_addr().unwrap());
    drop(ports);
    let store = home.path().join("store");
    let text = format!(
        "memory = \"64MiB\"\nworkers = 1\n[[listen]]\naddress = \"{http}\"\n[[origin]]\n\
         url = \"http://{http}\"\n[admin]\nlisten = \"{admin}\"\n[[store]]\npath = \"{}\"\n\
         size = \"64MiB\"\n",
        store.display()
    );
    fs::write(&file, &text).unwrap();
    let mut serve = freshet();
    serve.arg("serve").arg("--config").arg(&file).env("RUNTIME_DIRECTORY", home.path());
    let mut node = Process::start(&mut serve);
    ready(&mut node);
    let mut check = freshet();
    check.arg("check").arg(&file).env("RUNTIME_DIRECTORY", home.path());
    let output = run(&mut check);
    assert!(String::from_utf8_lossy(&output.stdout).contains("good\n"), "{output:?}");
    // For a second one of the same user it may be.
    let second = home.path().join("second.toml");
    fs::write(&second, text.replace(&admin.to_string(), "off").replace("/store", "/other"))
        .unwrap();
    let mut check = freshet();
    check.arg("check").arg(&second).env("RUNTIME_DIRECTORY", home.path());
    let Output { stdout, stderr, status } = run(&mut check);
    let said = String::from_utf8([stdout, stderr].concat()).unwrap();
    assert!(status.success() && said.contains("good, 1 warning\n"), "{said}");
    assert!(said.contains("listens on") && said.contains("if this file is for node"), "{said}");
    // For somebody else's node it is.
    let output = run(freshet().arg("check").arg(&file).env("RUNTIME_DIRECTORY", "/nonexistent"));
    assert!(!output.status.success(), "{output:?}");
    node.signal(Signal::TERM);
    assert!(support::is_clean(node.end().0));
}

#[test]
fn a_file_that_only_root_reads_is_named_with_a_cure() {
    if rustix::process::geteuid().is_root() {
        // Root reads everything: the drill in bench/deployment has a user that cannot.
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = certificate(folder.path(), "a", (2090, 1, 1));
    fs::set_permissions(&key, fs::Permissions::from_mode(0o000)).unwrap();
    let file = folder.path().join("freshet.toml");
    let text = format!(
        "[[listen]]\naddress = \"127.0.0.1:0\"\ntls = true\n[[certificate]]\ncert = \"{}\"\n\
         key = \"{}\"\n[[origin]]\nurl = \"http://127.0.0.1:1\"\n",
        cert.display(),
        key.display()
    );
    fs::write(&file, text).unwrap();
    let (good, said) = checked(&file);
    assert!(!good && said.contains("chmod 640"), "{said}");
}

#[test]
fn groups_of_workers_are_told_and_have_to_have_memory() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("freshet.toml");
    let rest = "[[origin]]\nurl = \"http://127.0.0.1:1\"\n[[listen]]\naddress = \"127.0.0.1:0\"\n";
    let said = |memory: &str| {
        let text = format!("workers = 3\nnuma_groups = 2\nmemory = \"{memory}\"\n{rest}");
        fs::write(&file, text).unwrap();
        let Output { stdout, stderr, .. } = check(&["--offline"], &file);
        String::from_utf8([stdout, stderr].concat()).unwrap()
    };
    let good = said("64MiB");
    assert!(
        good.contains("freshet.toml: 3 workers in 2 groups (2, 1), 33.6 MB of memory each"),
        "{good}"
    );
    let wrong = said("24MiB");
    assert!(wrong.contains("numa_groups is 2") && wrong.contains("1 mistake"), "{wrong}");
}

#[test]
fn keys_are_listed_for_programs_too() {
    let program = env!("CARGO_BIN_EXE_freshet");
    let output = Command::new(program).args(["keys", "--json"]).output().unwrap();
    let keys: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    let workers = keys.iter().find(|key| key["path"] == "workers").unwrap();
    assert_eq!((&workers["default"], &workers["choices"]), (&"0".into(), &serde_json::Value::Null));
    assert!(keys.iter().any(|key| key["choices"][0].is_string()));
}

#[test]
fn a_file_may_be_named_as_with_other_servers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("freshet.toml").display().to_string();
    fs::write(&path, "memery = \"64MiB\"\n").unwrap();
    let named = |words: &[&str]| {
        let output = run(freshet().args(words).env("RUNTIME_DIRECTORY", folder.path()));
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for words in [
        &["check", &path][..],
        &["check", "--config", &path],
        &["check", "-c", &path],
        &["serve", &path],
        &["serve", "--config", &path],
        &["serve", "-c", &path],
    ] {
        let (code, said) = named(words);
        assert_eq!(
            (code, said.matches("no key `memery`").count()),
            (Some(1), 1),
            "{words:?}\n{said}"
        );
        assert!(said.contains("freshet.toml:1:1") && said.contains("did you mean"), "{said}");
    }
    assert_eq!(named(&["check"]).0, Some(2));
    assert_eq!(named(&["serve", &path, "--config", &path]).0, Some(2));
    let version = succeed(freshet().arg("version"));
    assert_eq!(version, succeed(freshet().arg("--version")));
}

#[test]
fn what_is_wrong_with_a_flag_is_not_said_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("freshet.toml").display().to_string();
    fs::write(&path, "[[origin]]\nurl = \"http://127.0.0.1:1\"\n").unwrap();
    let mut serve = freshet();
    serve.args(["serve", "--config", &path, "--listen", "localhost"]);
    let output = run(serve.env("RUNTIME_DIRECTORY", folder.path()));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("`localhost` is not an address"), "{said}");
    assert!(!said.contains("freshet.toml"), "{said}");
}

#[test]
fn a_file_in_another_language_or_encoding_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("freshet.toml");
    for (bytes, wanted) in [
        (&b"memory: 64MiB\nlisten:\n  - address: \":80\"\n"[..], "this is read as TOML"),
        (b"{\"memory\": \"64MiB\"}", "this is read as TOML"),
        (b"server {\n  listen 80;\n}\n", "this is read as TOML"),
        (b"# a\n# K\xf6ln\n", "line 2 is not UTF-8"),
        (b"memory = 64\n", "in quotes"),
        (b"[cache]\ngrace = \"10\"\n", "`10` has no unit"),
        (b"[log]\naccess = \"/\"\n[[origin]]\nurl = \"http://127.0.0.1:1\"\n", "name a file"),
    ] {
        fs::write(&path, bytes).unwrap();
        let (good, said) = checked(&path);
        assert!(!good && said.matches(wanted).count() == 1, "wanted {wanted}\n{said}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_program_without_a_word() {
    for arguments in [&["keys"][..], &["--help"], &["completions", "bash"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = freshet().args(arguments).stdout(writer).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}

#[test]
fn a_node_serves_whose_words_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("freshet.toml");
    let text = "workers = 1\nmemory = \"32MiB\"\n[[listen]]\naddress = \"127.0.0.1:0\"\n[admin]\n\
                listen = \"off\"\n[[origin]]\nurl = \"http://127.0.0.1:1\"\n";
    fs::write(&file, text).unwrap();
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut serve = freshet();
    serve.arg("serve").arg(&file).env("RUNTIME_DIRECTORY", folder.path()).stderr(full());
    let mut node = serve.spawn().unwrap();
    let ended = std::thread::spawn(move || node.wait().unwrap());
    // It can be told to end once it serves; before, there is no node to be told.
    while !ended.is_finished() {
        run(freshet().arg("stop").env("RUNTIME_DIRECTORY", folder.path()));
    }
    assert_eq!(ended.join().unwrap().code(), Some(0));
    fs::write(&file, "memery = 1\n").unwrap();
    let refused = freshet().arg("check").arg(&file).stderr(full()).status().unwrap();
    assert_eq!(refused.code(), Some(1));
}

#[test]
fn tests_of_a_policy_are_told_in_json_too() {
    let folder = tempfile::tempdir().unwrap();
    let (policy, tests) = (folder.path().join("policy.vcl"), folder.path().join("policy.test"));
    let text = "vcl 4.1;\nbackend b { .host = \"127.0.0.1\"; }\nsub vcl_recv { return (pass); }\n";
    fs::write(&policy, text).unwrap();
    let both = "test \"one\"\nrequest GET /a\nrun recv\nexpect pass\n\
                test \"two\"\nrequest GET /a\nrun recv\nexpect hash\n";
    fs::write(&tests, both).unwrap();
    let output =
        freshet().args(["vcl", "test", "--json"]).args([&policy, &tests]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let (one, two) = (&said["tests"][0], &said["tests"][1]);
    assert_eq!(
        (&said["passed"], &one["passed"], &one["why"]),
        (&1.into(), &true.into(), &().into())
    );
    assert_eq!(
        (&two["name"], &two["passed"], &two["line"]),
        (&"two".into(), &false.into(), &8.into())
    );
}

#[test]
fn a_platform_that_would_not_start_is_not_good() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mec.toml");
    let state = folder.path().join("state");
    let check = |address: &str| {
        let text = format!(
            "listen = \"127.0.0.1:0\"\nstate = \"{}\"\n[client.a]\napp = \"camra\"\nsecret_sha256 = \"{}\"\n\
             [[app.camera.dns_rules]]\ndnsRuleId = \"www\"\ndomainName = \"www.example.com\"\n\
             ipAddressType = \"IP_V4\"\nipAddress = \"{address}\"\nstate = \"ACTIVE\"\n",
            state.display(),
            "0".repeat(64),
        );
        fs::write(&path, text).unwrap();
        let program = env!("CARGO_BIN_EXE_freshet");
        Command::new(program).args(["mec", "check", "--config"]).arg(&path).output().unwrap()
    };
    let output = check("10.99.0.2");
    assert!(output.status.success(), "{output:?}");
    let doubts = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(doubts.contains("client.a.app: there is no [app.camra]"), "{doubts}");
    let output = check("10.99.0.300");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && told.contains("app.camera.dns_rules[0]: /ipAddress"),
        "{told}"
    );
    // Nothing was touched.
    assert!(!state.exists());
}

//! `freshet serve` between programs of other people: nginx as the origin, and ffmpeg, curl, h2load
//! and wrk as clients. What is not installed is skipped, with a printed reason.
#![allow(
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "all of it is tests, helpers included, which say what they skip"
)]

mod support;

use rustix::process::{Resource, Signal, getrlimit};
use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use support::{PATIENCE, Process, freshet, program, run, succeed, write_noise};
use tempfile::TempDir;

/// Length of the pictures made, in seconds, and of their segments.
const MEDIA_SECONDS: u32 = 12;
const SEGMENT_SECONDS: u32 = 2;

/// Connections under load.
const CONNECTIONS: u64 = 1000;

/// nginx with a directory of files and a log of what it was asked for.
struct Nginx {
    directory: TempDir,
    address: SocketAddr,
    process: Process,
}

impl Nginx {
    /// Starts it on a free port; `None` when it is not installed.
    fn start() -> Option<Self> {
        let nginx = program("nginx")?;
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::create_dir(root.join("files")).unwrap();
        // nginx cannot say which port it got, so one that was free a moment ago must do.
        for _ in 0..5 {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let address = free.local_addr().unwrap();
            drop(free);
            let config = root.join("nginx.conf");
            fs::write(&config, nginx_config(root, address)).unwrap();
            let mut command = Command::new(&nginx);
            command.arg("-p").arg(root).arg("-c").arg(&config);
            // Its compiled-in log, which it opens before it reads ours, may not be ours to write.
            command.args(["-e", "stderr"]);
            let process = Process::start(&mut command);
            if is_up(address) {
                return Some(Self { directory, address, process });
            }
        }
        panic!("nginx does not come up");
    }

    fn files(&self) -> std::path::PathBuf {
        self.directory.path().join("files")
    }

    /// What each target was asked for, after nginx wrote all it had to. The two doors of a node share
    /// what is behind them.
    fn requests(mut self) -> BTreeMap<String, Vec<String>> {
        self.process.signal(Signal::QUIT);
        self.process.end();
        let log = fs::read_to_string(self.directory.path().join("access.log")).unwrap();
        let mut requests: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for line in log.lines() {
            let (target, rest) = line.split_once(' ').unwrap();
            requests.entry(target.to_owned()).or_default().push(rest.to_owned());
        }
        requests
    }
}

fn nginx_config(root: &Path, address: SocketAddr) -> String {
    let root = root.display();
    // Workers of a server that root started are somebody else, who may not read our files.
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {root}/{name};\n"))
        .concat();
    format!(
        "daemon off; master_process off; {user} pid {root}/nginx.pid;
         error_log {root}/error.log;
         events {{ worker_connections 2048; }}
         http {{
           types {{
             application/vnd.apple.mpegurl m3u8; application/dash+xml mpd;
             video/mp2t ts; video/mp4 mp4 m4s; text/html html;
           }}
           {temporary}
           log_format tests '$request_uri $request_method $status range=$http_range';
           access_log {root}/access.log tests;
           server {{
             listen {address};
             root {root}/files;
             location / {{ add_header Cache-Control 'public, max-age=600'; }}
           }}
         }}"
    )
}

/// Waits until somebody listens; false when that takes suspiciously long.
fn is_up(address: SocketAddr) -> bool {
    let started = Instant::now();
    while started.elapsed() < PATIENCE / 6 {
        if TcpStream::connect(address).is_ok() {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

/// `freshet serve` in front of an origin.
struct Node {
    clear: String,
    tls: String,
    _process: Process,
    _home: TempDir,
}

impl Node {
    fn start(origin: SocketAddr) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut command = freshet();
        command.args(["serve", "--origin", &format!("http://{origin}"), "--admin", "off"]);
        command.args(["--listen", "127.0.0.1:0", "--listen-tls", "127.0.0.1:0"]);
        command.args(["--memory", "128MB"]).env("XDG_RUNTIME_DIR", home.path());
        let mut process = Process::start(&mut command);
        // The listeners in the order of their flags, those without TLS first.
        let mut authority = || {
            process.wait_for(|line| {
                let (_, address) = line.strip_prefix("listening")?.split_once("://")?;
                address.split_whitespace().next().map(str::to_owned)
            })
        };
        let (clear, tls) = (authority(), authority());
        let (clear, tls) = (format!("http://{clear}"), format!("https://{tls}"));
        Self { clear, tls, _process: process, _home: home }
    }
}

/// HLS and DASH of the same test pictures, as Debian's ffmpeg makes them.
fn make_media(ffmpeg: &Path, files: &Path) {
    let seconds = MEDIA_SECONDS.to_string();
    let segment = SEGMENT_SECONDS.to_string();
    let input = || {
        let mut command = Command::new(ffmpeg);
        command.args(["-v", "error", "-nostdin"]);
        command.args(["-f", "lavfi", "-i", "testsrc=size=640x360:rate=25"]);
        command.args(["-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000"]);
        command.args(["-t", &seconds, "-c:v", "libx264", "-preset", "ultrafast"]);
        command.args(["-pix_fmt", "yuv420p", "-g", "50", "-keyint_min", "50", "-c:a", "aac"]);
        command
    };
    for format in ["hls", "dash"] {
        fs::create_dir(files.join(format)).unwrap();
    }
    let playlist = files.join("hls/index.m3u8");
    succeed(
        input()
            .args(["-f", "hls", "-hls_time", &segment, "-hls_playlist_type", "vod"])
            .arg(playlist),
    );
    let manifest = files.join("dash/manifest.mpd");
    succeed(input().args(["-f", "dash", "-seg_duration", &segment]).arg(manifest));
}

#[test]
fn ffmpeg_plays_both_formats_over_both_schemes_and_the_origin_is_asked_once_for_each_port() {
    let (Some(ffmpeg), Some(ffprobe)) = (program("ffmpeg"), program("ffprobe")) else { return };
    let Some(nginx) = Nginx::start() else { return };
    make_media(&ffmpeg, &nginx.files());
    let node = Node::start(nginx.address);
    for base in [&node.clear, &node.tls] {
        for manifest in ["hls/index.m3u8", "dash/manifest.mpd"] {
            let url = format!("{base}/{manifest}");
            let probed = succeed(
                Command::new(&ffprobe)
                    .args(["-v", "error", "-show_entries", "stream=codec_name:format=duration"])
                    .args(["-of", "default=noprint_wrappers=1", &url]),
            );
            assert!(probed.contains("codec_name=h264"), "{url}: {probed}");
            assert!(probed.contains("codec_name=aac"), "{url}: {probed}");
            let duration = probed.lines().find_map(|line| line.strip_prefix("duration=")).unwrap();
            let off = duration.parse::<f64>().unwrap() - f64::from(MEDIA_SECONDS);
            assert!(off.abs() < 0.5, "{url}: {duration}");
            // To the end, with every picture and sound decoded; any error is one too many.
            let mut play = Command::new(&ffmpeg);
            play.args(["-v", "warning", "-xerror", "-nostdin", "-i", &url, "-f", "null", "-"]);
            let output = run(&mut play);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{url}: {said}");
            assert!(!said.to_lowercase().contains("error"), "{url}: {said}");
        }
    }
    let requests = nginx.requests();
    let segments: Vec<_> = requests
        .iter()
        .filter(|(target, _)| target.ends_with(".ts") || target.ends_with(".m4s"))
        .collect();
    // Video and sound in one file for HLS; apart for DASH, each with a header of its own, and the sound
    // may run over a little.
    let expected = (MEDIA_SECONDS / SEGMENT_SECONDS) as usize * 3 + 2;
    assert!((expected..=expected + 2).contains(&segments.len()), "{requests:#?}");
    for (target, asked) in &requests {
        // Ports other than those of the schemes are in the key.
        assert_eq!(asked.len(), 2, "{target}: {asked:?}");
        // ffmpeg asks for all of a file as `bytes=0-`.
        let is_whole = |one: &String| one == "GET 200 range=-" || one == "GET 206 range=bytes=0-";
        assert!(asked.iter().all(is_whole), "{target}: {asked:?}");
    }
}

/// Live pictures of the lab's, 25 a second for four seconds, through a node.
#[cfg(feature = "lab")]
#[test]
fn ffmpeg_plays_what_goes_on_through_a_node() {
    use std::time::Duration;
    let Some(ffmpeg) = program("ffmpeg") else { return };
    let settings = freshet_lab::origin::Settings {
        channels: 1,
        titles: 1,
        segment: Duration::from_secs(2),
        window: Duration::from_secs(20),
        ..Default::default()
    };
    let origin = freshet_lab::origin::Origin::start(settings).unwrap();
    let node = Node::start(origin.address());
    for (base, manifest) in [(&node.clear, "master.m3u8"), (&node.tls, "manifest.mpd")] {
        let url = format!("{base}/channel-1/{manifest}");
        let mut play = Command::new(&ffmpeg);
        // At the pace of the media: its reader of DASH asks for segments of the future otherwise.
        play.args(["-v", "repeat+warning", "-xerror", "-nostdin", "-re", "-i", &url, "-t", "4"]);
        play.args(["-map", "0:v:0", "-map", "0:a:0", "-progress", "-", "-f", "null", "/dev/null"]);
        let output = run(&mut play);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{url}: {said}");
        // It reads the header again with each new playlist, and says so.
        let complaints = said.lines().filter(|line| !line.contains("Found duplicated MOOV Atom"));
        assert_eq!(complaints.collect::<Vec<_>>(), Vec::<&str>::new(), "{url}");
        let progress = String::from_utf8_lossy(&output.stdout);
        let frames = progress.lines().rev().find_map(|line| line.strip_prefix("frame="));
        assert_eq!(frames.map(str::trim), Some("100"), "{url}");
    }
}

/// One exchange by curl: what it says of it, and the body.
struct Curled {
    version: String,
    status: String,
    fields: String,
    body: Vec<u8>,
}

/// Asks with curl; a certificate signed by itself is fine.
fn curl(curl: &Path, arguments: &[&str], url: &str) -> Curled {
    let directory = tempfile::tempdir().unwrap();
    let (head, body) = (directory.path().join("head"), directory.path().join("body"));
    let mut command = Command::new(curl);
    command.args(["-sS", "-k", "--max-time", "60"]).arg("-D").arg(&head).arg("-o").arg(&body);
    command.args(["-w", "%{http_version} %{response_code}"]).args(arguments).arg(url);
    let facts = succeed(&mut command);
    let (version, status) = facts.split_once(' ').unwrap();
    Curled {
        version: version.to_owned(),
        status: status.to_owned(),
        fields: fs::read_to_string(head).unwrap(),
        body: fs::read(body).unwrap_or_default(),
    }
}

impl Curled {
    /// The value of the first field of this name.
    fn field(&self, name: &str) -> &str {
        self.fields
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map_or_else(|| panic!("no {name} in\n{}", self.fields), |(_, value)| value.trim())
    }
}

#[test]
fn curl_gets_the_same_bytes_in_every_version_and_asks_for_parts_and_changes() {
    let Some(program) = program("curl") else { return };
    let Some(nginx) = Nginx::start() else { return };
    let content = write_noise(&nginx.files().join("noise.bin"), 3_000_001);
    let node = Node::start(nginx.address);
    let (clear, tls) = (format!("{}/noise.bin", node.clear), format!("{}/noise.bin", node.tls));
    let versions = [
        ("--http1.1", &clear, "1.1"),
        ("--http1.1", &tls, "1.1"),
        ("--http2", &tls, "2"),
        ("--http2-prior-knowledge", &clear, "2"),
        ("--http1.0", &clear, "1"),
    ];
    let mut etag = String::new();
    // Ports other than those of the schemes are in the key.
    let mut asked_before = Vec::new();
    for (flag, url, version) in versions {
        let got = curl(&program, &[flag], url);
        assert!(got.version.starts_with(version), "{flag} {url}: {}", got.version);
        assert_eq!(got.status, "200", "{flag} {url}");
        assert!(got.body == content, "{flag} {url}: {} bytes", got.body.len());
        let hit = got.field("cache-status").contains("hit");
        assert_eq!(hit, asked_before.contains(&url), "{flag} {url}: {}", got.fields);
        asked_before.push(url);
        got.field("etag").clone_into(&mut etag);
    }
    let last = content.len() - 1;
    for (flag, url) in
        [("--http1.1", &clear), ("--http2", &tls), ("--http2-prior-knowledge", &clear)]
    {
        let ranges =
            [("100-199", 100..=199), ("2999000-", 2_999_000..=last), ("-7", last - 6..=last)];
        for (asked, range) in ranges {
            let got = curl(&program, &[flag, "-r", asked], url);
            let expected = format!("bytes {}-{}/{}", range.start(), range.end(), content.len());
            assert_eq!(
                (got.status.as_str(), got.field("content-range")),
                ("206", expected.as_str())
            );
            assert!(got.body == content[range], "{flag} {asked}");
        }
        let got = curl(&program, &[flag, "-r", "4000000-"], url);
        assert_eq!(got.status, "416", "{flag}");
        let got = curl(&program, &[flag, "-r", "0-9,1000000-1000009"], url);
        assert_eq!(got.status, "206", "{flag}");
        assert!(got.field("content-type").starts_with("multipart/byteranges"), "{}", got.fields);
        let got = curl(&program, &[flag, "-H", &format!("If-None-Match: {etag}")], url);
        assert_eq!((got.status.as_str(), got.body.len()), ("304", 0), "{flag}");
        let got = curl(&program, &[flag, "-z", "Thu, 01 Jan 2099 00:00:00 GMT"], url);
        assert_eq!(got.status, "304", "{flag}");
        let got = curl(&program, &[flag, "-H", "If-None-Match: \"other\""], url);
        assert_eq!((got.status.as_str(), got.body.len()), ("200", content.len()), "{flag}");
        let got = curl(&program, &[flag, "-I"], url);
        assert_eq!(
            (got.status.as_str(), got.field("content-length")),
            ("200", "3000001"),
            "{flag}"
        );
    }
    let requests = nginx.requests();
    assert_eq!(requests.len(), 1, "{requests:#?}");
    assert!(requests.values().all(|asked| asked.len() == 2), "once for each port: {requests:#?}");
}

/// Whether a thousand connections fit the descriptors that this and the node may have.
fn descriptors_suffice() -> bool {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let suffices = limit >= CONNECTIONS + 200;
    if !suffices {
        support::skip::skip(format_args!(
            "ulimit -n is {limit}, too few for {CONNECTIONS} connections"
        ));
    }
    suffices
}

/// The number before `word` in a list such as `12 total, 11 done`.
fn number_before(text: &str, word: &str) -> Option<u64> {
    text.split([',', ':']).find_map(|part| {
        let (number, rest) = part.trim().split_once(' ')?;
        rest.starts_with(word).then(|| number.parse().ok())?
    })
}

#[test]
fn h2load_and_wrk_see_no_error_at_a_thousand_connections() {
    let (Some(h2load), Some(wrk)) = (program("h2load"), program("wrk")) else { return };
    let Some(nginx) = Nginx::start() else { return };
    if !descriptors_suffice() {
        return;
    }
    write_noise(&nginx.files().join("small.bin"), 4096);
    let node = Node::start(nginx.address);
    let (clear, tls) = (format!("{}/small.bin", node.clear), format!("{}/small.bin", node.tls));
    let connections = CONNECTIONS.to_string();
    for (flags, url) in [(vec![], &tls), (vec![], &clear), (vec!["--h1"], &clear)] {
        let said = succeed(
            Command::new(&h2load)
                .args(["-D", "3", "-t", "1", "-m", "1", "-c", &connections])
                .args(&flags)
                .arg(url),
        );
        let line = |name: &str| {
            let found = said.lines().find(|line| line.starts_with(name));
            found.unwrap_or_else(|| panic!("{said}"))
        };
        let requests = line("requests:");
        for kind in ["failed", "errored", "timeout"] {
            assert_eq!(number_before(requests, kind), Some(0), "{kind}: {said}");
        }
        let codes = line("status codes:");
        for kind in ["3xx", "4xx", "5xx"] {
            assert_eq!(number_before(codes, kind), Some(0), "{kind}: {said}");
        }
        assert!(number_before(codes, "2xx") >= Some(CONNECTIONS), "{said}");
    }
    for url in [&clear, &tls] {
        let said = succeed(Command::new(&wrk).args([
            "-t",
            "1",
            "-c",
            &connections,
            "-d",
            "3s",
            "--timeout",
            "10s",
            url,
        ]));
        // Both lines are there only when something went wrong.
        assert!(!said.contains("Socket errors") && !said.contains("Non-2xx"), "{url}: {said}");
        let total = said.lines().find_map(|line| line.trim().split_once(" requests in "));
        let total = total.and_then(|(total, _)| total.parse::<u64>().ok());
        assert!(total >= Some(CONNECTIONS), "{url}: {said}");
    }
    let requests = nginx.requests();
    assert_eq!(requests.len(), 1, "{requests:#?}");
    assert!(requests.values().all(|asked| asked.len() == 2), "once for each port: {requests:#?}");
}

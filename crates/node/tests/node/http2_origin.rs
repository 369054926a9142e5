//! Origins of HTTP/2: what becomes of an exchange is what becomes of it over HTTP/1.1, whatever the
//! frames it comes in.

use crate::client::{Answer, Client};
use crate::harness::{Setup, TestNode, run_within, until};
use crate::origin::{Origin, Reply, Request, then_close};
use freshet_wire::h2::PREFACE;
use freshet_wire::h2::hpack::{Decoder, Encoder, Indexing};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::spawn_local;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

/// Numbers that look like chance and come again with their seed (splitmix64).
#[derive(Clone)]
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

const DATE: &str = "Tue, 24 Nov 2026 00:00:00 GMT";

/// How a response ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    Whole,
    /// After so many bytes of the body.
    Cut(usize),
    /// Before its head.
    Silent,
    /// With something that is no head.
    Garbage,
}

/// A response, whatever the protocol.
#[derive(Clone, Debug)]
struct Plan {
    interim: usize,
    status: u16,
    fields: Vec<(&'static str, String)>,
    body: Vec<u8>,
    /// Whether its length is told.
    sized: bool,
    trailers: bool,
    end: End,
}

/// The response to the request of this target, which has the seed.
fn plan(seed: u64, request: &Request) -> Plan {
    let target: u64 = request.target().trim_start_matches('/').parse().expect("a number");
    let mut chance = Chance(seed ^ (target << 20));
    let status = chance.pick(&[200, 200, 200, 200, 200, 203, 204, 301, 404, 410, 500, 503]);
    let mut fields = vec![("date", DATE.to_owned())];
    let control = chance.pick(&["max-age=60", "no-store", "private", "s-maxage=9", "", "no-cache"]);
    if !control.is_empty() {
        fields.push(("cache-control", control.to_owned()));
    }
    let mut maybe = |chance: &mut Chance, name, value: &str| {
        if chance.one_in(3) {
            fields.push((name, value.to_owned()));
        }
    };
    maybe(&mut chance, "etag", &format!("\"{target}\""));
    maybe(&mut chance, "vary", "accept-language");
    maybe(&mut chance, "set-cookie", "a=1");
    maybe(&mut chance, "set-cookie", "b=2");
    maybe(&mut chance, "content-type", "text/html; charset=utf-8");
    maybe(&mut chance, "x-empty", "");
    let long = "x".repeat(chance.below(9000));
    maybe(&mut chance, "x-long", &long);
    maybe(&mut chance, "surrogate-key", "one two");
    let sized = chance.one_in(2);
    let bytes = chance.pick(&[0, 1, 100, 16_384, 20_000, 150_000]);
    let bytes = if status == 204 { 0 } else { bytes };
    let mut body: Vec<u8> = (0..bytes).map(|at| (at as u64 * 31 + target) as u8).collect();
    let end = match chance.below(12) {
        0 => End::Silent,
        1 => End::Garbage,
        2 if bytes > 0 && request.method() != "HEAD" => End::Cut(chance.below(bytes)),
        _ => End::Whole,
    };
    let interim = if chance.one_in(4) { 1 + chance.below(2) } else { 0 };
    let trailers = !sized && chance.one_in(3);
    // The origin has all that was sent.
    fields.push(("x-body", format!("{} {}", request.body.len(), sum(&request.body))));
    fields.push(("x-method", request.method().to_owned()));
    let mut status = status;
    if status == 200
        && let Some((first, last)) = request.range().filter(|(first, _)| *first < body.len() as u64)
    {
        let last = last.min(body.len() as u64 - 1);
        fields.push(("content-range", format!("bytes {first}-{last}/{}", body.len())));
        body = body[first as usize..=last as usize].to_vec();
        status = 206;
    }
    let end = match end {
        End::Cut(at) => End::Cut(at.min(body.len().saturating_sub(1))),
        other => other,
    };
    Plan { interim, status, fields, body, sized, trailers, end }
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(7, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)))
}

/// In HTTP/1.1.
fn in_http1(plan: &Plan, is_head: bool) -> Reply {
    match plan.end {
        End::Silent => return then_close(""),
        End::Garbage => return then_close("HTTP/1.1 abc\r\n\r\n"),
        End::Whole | End::Cut(_) => {}
    }
    let mut out = Vec::new();
    for _ in 0..plan.interim {
        out.extend_from_slice(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n");
    }
    let mut head = format!("HTTP/1.1 {} Any\r\n", plan.status);
    for (name, value) in &plan.fields {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    let has_body = !is_head && !matches!(plan.status, 204 | 304);
    if plan.status != 204 {
        match plan.sized {
            true => drop(write!(head, "content-length: {}\r\n", plan.body.len())),
            false => head.push_str("transfer-encoding: chunked\r\n"),
        }
    }
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(b"\r\n");
    if !has_body {
        return out.into();
    }
    let body = match plan.end {
        End::Cut(at) => &plan.body[..at],
        _ => &plan.body[..],
    };
    if plan.sized {
        out.extend_from_slice(body);
    } else {
        for chunk in body.chunks(5000) {
            out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            out.extend_from_slice(chunk);
            out.extend_from_slice(b"\r\n");
        }
        if plan.end == End::Whole {
            out.extend_from_slice(b"0\r\n");
            if plan.trailers {
                out.extend_from_slice(b"x-sum: 1\r\n");
            }
            out.extend_from_slice(b"\r\n");
        }
    }
    if plan.end == End::Whole { out.into() } else { then_close(out) }
}

/// A frame, without its length.
type Frame = (u8, u8, u32, Vec<u8>);

/// What a server sends at once.
enum Piece {
    Frame(Frame),
    /// Fields of a stream with flags, which are compressed when it is their turn.
    Fields(u32, u8, Vec<(&'static str, String)>),
}

/// In frames: cut, padded and mixed with others as chance has it.
fn in_frames(plan: &Plan, is_head: bool, stream: u32, chance: &mut Chance) -> VecDeque<Piece> {
    let mut pieces = VecDeque::new();
    let text = |text: &str| text.to_owned();
    let mut frame = |frame| pieces.push_back(Piece::Frame(frame));
    match plan.end {
        End::Silent => {
            let code = chance.pick(&[2, 8, 5_000]);
            frame((RST_STREAM, 0, stream, u32::to_be_bytes(code).to_vec()));
            return pieces;
        }
        End::Garbage => {
            return [Piece::Fields(stream, 0, vec![(":status", text("abc"))])].into();
        }
        End::Whole | End::Cut(_) => {}
    }
    for _ in 0..plan.interim {
        let early = vec![(":status", text("103")), ("link", text("</a.css>"))];
        pieces.push_back(Piece::Fields(stream, 0, early));
    }
    let has_body = !is_head && !matches!(plan.status, 204 | 304);
    let mut fields = vec![(":status", plan.status.to_string())];
    fields.extend(plan.fields.iter().cloned());
    if plan.sized && plan.status != 204 {
        fields.push(("content-length", plan.body.len().to_string()));
    }
    let body = match plan.end {
        _ if !has_body => &[],
        End::Cut(at) => &plan.body[..at],
        _ => &plan.body[..],
    };
    let ends_with_trailers = has_body && plan.trailers;
    let ends_at_once = body.is_empty() && plan.end == End::Whole && !ends_with_trailers;
    // Where HTTP/1.1 could not say so, the head of one would tell more than that of the other.
    let says_so = ends_at_once && (plan.sized || !has_body) && chance.one_in(2);
    pieces.push_back(Piece::Fields(stream, u8::from(says_so), fields));
    if says_so {
        return pieces;
    }
    let mut frame = |frame| pieces.push_back(Piece::Frame(frame));
    let mut rest = body;
    while !rest.is_empty() {
        let most = chance.pick(&[1, 50, 4_000, 16_000, 16_000, 16_000]);
        let (part, after) = rest.split_at(rest.len().min(most));
        rest = after;
        let ends = after.is_empty() && plan.end == End::Whole && !plan.trailers && chance.one_in(2);
        let says_end = u8::from(ends);
        if chance.one_in(3) {
            let padding = chance.below(100) as u8;
            let payload = [&[padding][..], part, &vec![0; padding.into()]].concat();
            frame((DATA, PADDED | says_end, stream, payload));
        } else {
            frame((DATA, says_end, stream, part.to_vec()));
        }
        if ends {
            return pieces;
        }
        match chance.below(20) {
            0 => frame((DATA, 0, stream, vec![])),
            1 => frame((PING, 0, 0, vec![7; 8])),
            2 => frame((77, 0xff, stream, vec![1; 30])),
            3 => frame((PRIORITY, 0, stream, vec![0, 0, 0, 0, 1])),
            4 => frame((SETTINGS, 0, 0, vec![0, 77, 1, 2, 3, 4])),
            _ => {}
        }
    }
    match plan.end {
        End::Cut(_) => frame((RST_STREAM, 0, stream, vec![0, 0, 0, 2])),
        _ if ends_with_trailers => {
            pieces.push_back(Piece::Fields(stream, END_STREAM, vec![("x-sum", text("1"))]));
        }
        _ => frame((DATA, END_STREAM, stream, vec![])),
    }
    pieces
}

/// Fields as frames, which nothing may come between: they are one or more.
fn compressed(
    (stream, flags, fields): (u32, u8, &[(&str, String)]),
    encoder: &mut Encoder,
    chance: &mut Chance,
) -> Vec<u8> {
    let mut block = Vec::new();
    encoder.begin(&mut block);
    for (name, value) in fields {
        let indexing = chance.pick(&[Indexing::Kept, Indexing::Once, Indexing::Never]);
        encoder.field(name.as_bytes(), value.as_bytes(), indexing, &mut block);
    }
    if block.len() < 8000 && chance.one_in(2) {
        return framed(&(HEADERS, flags | END_HEADERS, stream, block));
    }
    let (first, rest) = block.split_at(chance.below(block.len().min(8000)));
    let mut out = framed(&(HEADERS, flags, stream, first.to_vec()));
    let mut parts = rest.chunks(1000).peekable();
    while let Some(part) = parts.next() {
        let flags = if parts.peek().is_none() { END_HEADERS } else { 0 };
        out.extend(framed(&(CONTINUATION, flags, stream, part.to_vec())));
    }
    out
}

fn framed((kind, flags, stream, payload): &Frame) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    [&[a, b, c, *kind, *flags][..], &stream.to_be_bytes(), payload].concat()
}

/// An origin of HTTP/2 that answers by plan.
struct Http2Origin {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Http2Origin {
    fn start(seed: u64) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build_local(Default::default())
                .unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                tell.send(listener.local_addr().unwrap()).unwrap();
                let accept = async {
                    for number in 0.. {
                        let (socket, _) = listener.accept().await.unwrap();
                        spawn_local(serve(socket, seed, Chance(seed ^ number)));
                    }
                };
                tokio::select! {
                    () = accept => {}
                    _ = stopped => {}
                }
            });
        });
        let address = told.recv().expect("the origin has its address");
        Self { address, stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Http2Origin {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the origin did not panic");
        }
    }
}

/// Sends on what frames come.
fn frames_of(mut socket: OwnedReadHalf) -> UnboundedReceiver<Frame> {
    let (out, frames) = unbounded_channel();
    spawn_local(async move {
        let mut preface = [0; PREFACE.len()];
        if socket.read_exact(&mut preface).await.is_err() {
            return;
        }
        assert_eq!(preface, PREFACE);
        loop {
            let mut head = [0; 9];
            if socket.read_exact(&mut head).await.is_err() {
                return;
            }
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            if socket.read_exact(&mut payload).await.is_err() {
                return;
            }
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let _ = out.send((head[3], head[4], stream, payload));
        }
    });
    frames
}

/// A connection: requests as they come, responses mixed.
async fn serve(socket: TcpStream, seed: u64, mut chance: Chance) {
    socket.set_nodelay(true).unwrap();
    let (input, output) = socket.into_split();
    let mut frames = frames_of(input);
    let mut side = Side {
        output,
        encoder: Encoder::new(4096),
        decoder: Decoder::new(4096),
        open: BTreeMap::new(),
        answers: BTreeMap::new(),
        last: u32::MAX,
        seen: 0,
        begun: 0,
    };
    let window = chance.pick(&[30, 300, 5_000, 65_535_u32]).to_be_bytes();
    let settings = [&[0, 4][..], &window, &[0, 3, 0, 0, 0, chance.pick(&[1, 3, 100])]].concat();
    side.send(&(SETTINGS, 0, 0, settings)).await;
    loop {
        while let Ok(frame) = frames.try_recv() {
            side.receive(frame, seed, &mut chance).await;
        }
        let streams: Vec<u32> = side.answers.keys().copied().collect();
        if streams.is_empty() {
            let Some(frame) = frames.recv().await else { return };
            side.receive(frame, seed, &mut chance).await;
            continue;
        }
        let stream = chance.pick(&streams);
        let answer = side.answers.get_mut(&stream).expect("it was picked");
        let piece = answer.pop_front();
        if answer.is_empty() {
            side.answers.remove(&stream);
        }
        match piece {
            Some(Piece::Frame(frame)) => side.send(&frame).await,
            Some(Piece::Fields(stream, flags, fields)) => {
                let bytes = compressed((stream, flags, &fields), &mut side.encoder, &mut chance);
                let _ = side.output.write_all(&bytes).await;
            }
            None => {}
        }
        side.begun = side.begun.max(stream);
        if chance.one_in(200) && side.last == u32::MAX {
            // Sometimes what came last was not looked at, and comes again elsewhere.
            let last = if chance.one_in(2) { side.seen } else { side.begun };
            side.last = last;
            side.open.retain(|stream, _| *stream <= last);
            side.answers.retain(|stream, _| *stream <= last);
            let payload = [last.to_be_bytes(), [0; 4]].concat();
            side.send(&(GOAWAY, 0, 0, payload)).await;
        }
        // Others have their turn between two frames.
        tokio::task::yield_now().await;
    }
}

/// The server's side of a connection.
struct Side {
    output: OwnedWriteHalf,
    encoder: Encoder,
    decoder: Decoder,
    /// Requests whose body is not there.
    open: BTreeMap<u32, Request>,
    answers: BTreeMap<u32, VecDeque<Piece>>,
    /// The last stream that is looked at.
    last: u32,
    /// The last that came.
    seen: u32,
    /// The last that was answered, if only in part.
    begun: u32,
}

impl Side {
    async fn send(&mut self, frame: &Frame) {
        let _ = self.output.write_all(&framed(frame)).await;
    }

    async fn receive(&mut self, frame: Frame, seed: u64, chance: &mut Chance) {
        let (kind, flags, stream, payload) = frame;
        match kind {
            HEADERS => {
                assert!(flags & END_HEADERS != 0, "requests are small here");
                let mut line = [String::new(), String::new()];
                let mut fields = Vec::new();
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                let field = |name: &[u8], value: &[u8]| match name {
                    b":method" => line[0] = text(value),
                    b":path" => line[1] = text(value),
                    _ => fields.push((text(name), text(value))),
                };
                self.decoder.decode(&payload, field).expect("fields");
                if stream > self.last {
                    return;
                }
                self.seen = stream;
                let line = format!("{} {} HTTP/2", line[0], line[1]);
                let head = crate::client::Head { line, fields };
                let request = Request { head, connection: 0, body: Vec::new() };
                self.open.insert(stream, request);
            }
            DATA => {
                let Some(request) = self.open.get_mut(&stream) else { return };
                request.body.extend_from_slice(&payload);
                if !payload.is_empty() {
                    let step = (payload.len() as u32).to_be_bytes().to_vec();
                    self.send(&(WINDOW_UPDATE, 0, 0, step.clone())).await;
                    self.send(&(WINDOW_UPDATE, 0, stream, step)).await;
                }
            }
            RST_STREAM => {
                self.open.remove(&stream);
                self.answers.remove(&stream);
            }
            GOAWAY => assert_eq!(payload[4..], [0; 4], "the client found fault with it"),
            _ => return,
        }
        if flags & END_STREAM != 0
            && let Some(request) = self.open.remove(&stream)
        {
            let plan = plan(seed, &request);
            let is_head = request.method() == "HEAD";
            self.answers.insert(stream, in_frames(&plan, is_head, stream, chance));
        }
    }
}

/// What a client is to ask, twice as a rule.
#[derive(Clone, Copy, Debug)]
struct Ask {
    method: &'static str,
    target: u64,
    range: bool,
    body: usize,
}

fn asks(seed: u64, count: u64) -> Vec<Ask> {
    let mut chance = Chance(seed);
    (0..count)
        .map(|target| Ask {
            method: chance.pick(&["GET", "GET", "GET", "GET", "HEAD", "POST", "PUT"]),
            target,
            range: chance.one_in(5),
            body: chance.pick(&[0, 1, 9_000, 60_000]),
        })
        .collect()
}

/// What came of it, as far as it does not tell the time, or the protocol, which was `version` at the origin.
fn seen(answer: &Answer, version: &str) -> String {
    assert!(answer.trailers.iter().all(|(name, value)| name == "x-sum" && value == "1"));
    let mut fields: Vec<String> = answer
        .head
        .fields
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
        .filter(|(name, value)| match name.as_str() {
            "age" => false,
            // RFC 9110 §7.6.3; what the node makes itself has none.
            "via" => {
                assert_eq!(**value, format!("{version} n"), "{:?}", answer.head);
                false
            }
            // Whether a length is told, and trailers are passed on, depends on whether all of a body
            // was there when its head was sent on.
            "content-length" | "transfer-encoding" => false,
            // The node's own is another each second.
            "date" => *value == DATE,
            _ => true,
        })
        .map(|(name, value)| {
            // Seconds that pass meanwhile.
            let value = value.split("; ").filter(|part| !part.starts_with("ttl="));
            format!("{name}: {}", value.collect::<Vec<_>>().join("; "))
        })
        .collect();
    fields.sort();
    let interim: Vec<u16> = answer.interim.iter().map(crate::client::Head::status).collect();
    let body = &answer.body;
    format!(
        "{} {fields:#?} body {} {} {} after {interim:?}",
        answer.status,
        body.len(),
        sum(body),
        answer.complete,
    )
}

async fn ask(client: &mut Client, ask: Ask) -> Answer {
    let target = format!("/{}", ask.target);
    let length = format!("Content-Length: {}", ask.body);
    let mut fields = vec!["TE: trailers", "Connection: TE"];
    if ask.range {
        fields.push("Range: bytes=10-2000");
    }
    let has_body = matches!(ask.method, "POST" | "PUT");
    if has_body {
        fields.push(&length);
    }
    client.ask(ask.method, &target, &fields).await;
    if has_body {
        client.send(vec![b'u'; ask.body]).await;
    }
    client.answer(ask.method).await
}

/// Has clients ask side by side, and returns what each exchange came to, and what the log says.
async fn all(node: &TestNode, version: &'static str, asks: &[Ask]) -> BTreeMap<u64, Vec<String>> {
    let found = Arc::new(Mutex::new(BTreeMap::new()));
    let mut clients = Vec::new();
    for lane in 0..6 {
        let asks: Vec<Ask> = asks.iter().skip(lane).step_by(6).copied().collect();
        let (address, found) = (node.address(), Arc::clone(&found));
        clients.push(spawn_local(async move {
            for one in asks {
                for _ in 0..2 {
                    // One that was broken off is of no more use.
                    let mut client = Client::connect(address).await;
                    let answer = ask(&mut client, one).await;
                    let mut found = found.lock().unwrap();
                    found.entry(one.target).or_insert_with(Vec::new).push(seen(&answer, version));
                    // Of what goes on behind its answer nobody knows when it is over.
                    if one.method == "HEAD" || !answer.complete {
                        break;
                    }
                }
            }
        }));
    }
    for client in clients {
        client.await.unwrap();
    }
    let mut found = std::mem::take(&mut *found.lock().unwrap());
    let count: usize = found.values().map(Vec::len).sum();
    let mut records = Vec::new();
    until(|| {
        records = node.node.shared.log.recent(usize::MAX);
        records.len() >= count
    })
    .await;
    let mut lines: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for record in &records {
        let record = freshet_node::log::decode(&mut &record[..]).unwrap();
        let reason = record.reason().unwrap().code();
        let line = format!("{} {} {reason} hit {}", record.method, record.status, record.hit);
        let target = record.target.trim_start_matches('/').parse().unwrap();
        lines.entry(target).or_default().push(line);
    }
    for (target, mut lines) in lines {
        // Workers number theirs apart.
        lines.sort();
        found.entry(target).or_default().extend(lines);
    }
    found
}

fn compare(seed: u64) {
    run_within(Duration::from_secs(120), async move {
        let origin = Origin::serve(move |request| {
            in_http1(&plan(seed, request), request.method() == "HEAD")
        });
        let other = Http2Origin::start(seed);
        let named = |url: &str, http: &str| {
            let mut setup = Setup::url(url);
            setup.origins =
                format!("[[origin]]\nname = \"o\"\nurl = \"{url}\"\nhttp = \"{http}\"\n");
            // An origin that gets no turn is no failure here.
            let patient = "[origins]\nconnect_timeout = \"60s\"";
            setup.and("[cache]\nname = \"n\"").and(patient).start()
        };
        let first = named(&origin.url(), "1.1");
        let second = named(&format!("http://{}", other.address), "2");
        let asks = asks(seed, 60);
        let (one, two) = (all(&first, "1.1", &asks).await, all(&second, "2", &asks).await);
        for ask in asks {
            assert_eq!(one[&ask.target], two[&ask.target], "seed {seed}: {ask:?}");
        }
    });
}

/// More with `FRESHET_HTTP2_SEEDS=N`, from `FRESHET_SEED=N` on.
#[test]
fn an_exchange_comes_to_the_same_in_both_protocols() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = number("FRESHET_SEED").unwrap_or(1);
    for seed in first..first + number("FRESHET_HTTP2_SEEDS").unwrap_or(2) {
        compare(seed);
    }
}

//! `std`: what every policy needs.

use super::standard_convert as convert;
use super::{Arguments, Function, Module, NOTHING, fault, function, function_in};
use crate::program::{Text, Value};
use crate::runtime::{Control, Event, Fault, Result, Run, lifetime};
use crate::types::{State, States};
use crate::variables::Message;
use freshet_base::clock::UnixMillis;
use freshet_http::message::RequestHead;

pub(super) const MODULE: Module =
    Module { name: "std", classes: &[], functions: FUNCTIONS, is_test: false };

const FUNCTIONS: &[Function] = &[
    function("REAL random(REAL lo, REAL hi)", random),
    function("REAL round(REAL r)", round),
    function("VOID collect(HEADER hdr, STRING sep=\", \")", collect),
    function("STRING querysort(STRING)", querysort),
    function("STRING toupper(STRANDS s)", toupper),
    function("STRING tolower(STRANDS s)", tolower),
    function("STRING strstr(STRING s1, STRING s2)", strstr),
    function(
        "BOOL fnmatch(STRING pattern, STRING subject, BOOL pathname=1, BOOL noescape=0, BOOL \
         period=0)",
        fnmatch,
    ),
    function("STRING fileread(STRING)", fileread),
    function("BLOB blobread(STRING)", blobread),
    function("BOOL file_exists(STRING path)", file_exists),
    function("BOOL healthy(BACKEND be)", healthy),
    function("INT port(IP ip)", port),
    function(
        "DURATION duration([STRING s], [DURATION fallback], [REAL real], [INT integer])",
        convert::duration,
    ),
    function(
        "BYTES bytes([STRING s], [BYTES fallback], [REAL real], [INT integer])",
        convert::bytes,
    ),
    function(
        "INT integer([STRING s], [INT fallback], [BOOL bool], [BYTES bytes], [DURATION duration], \
         [REAL real], [TIME time])",
        convert::integer,
    ),
    function("IP ip(STRING s, [IP fallback], BOOL resolve=1, [STRING p])", convert::ip),
    function(
        "REAL real([STRING s], [REAL fallback], [INT integer], [BOOL bool], [BYTES bytes], \
         [DURATION duration], [TIME time])",
        convert::real,
    ),
    function("TIME time([STRING s], [TIME fallback], [REAL real], [INT integer])", convert::time),
    function("STRING strftime(TIME time, STRING format)", convert::strftime),
    function("VOID log(STRANDS s)", log),
    function("VOID syslog(INT priority, STRANDS s)", syslog),
    function("VOID timestamp(STRING s)", timestamp),
    function("BOOL syntax(REAL)", syntax),
    function("STRING getenv(STRING name)", getenv),
    function("BOOL cache_req_body(BYTES size)", cache_req_body),
    function("VOID late_100_continue(BOOL late)", late_continue),
    function_in(States::CLIENT, "VOID set_ip_tos(INT tos)", set_ip_tos),
    function("VOID rollback(HTTP h)", rollback),
    function_in(States::of(&[State::BackendResponse]), "VOID rfc_ttl()", rfc_ttl),
    function("BOOL ban(STRING)", ban),
    function("STRING ban_error()", ban_error),
    function("INT real2integer(REAL r, INT fallback)", convert::real2integer),
    function("TIME real2time(REAL r, TIME fallback)", convert::real2time),
    function("INT time2integer(TIME t, INT fallback)", convert::time2integer),
    function("REAL time2real(TIME t, REAL fallback)", convert::time2real),
];

/// A uniform draw from [0, 1).
pub(super) fn draw(run: &mut Run<'_>) -> f64 {
    (run.host.random() >> 11) as f64 / (1_u64 << 53) as f64
}

fn random(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let (low, high) = (arguments.real(0), arguments.real(1));
    Ok(Value::Real(low + draw(run) * (high - low)))
}

fn round(_: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    Ok(Value::Real(arguments.real(0).round()))
}

fn collect(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let Some((message, name)) = super::header::named(run, arguments.at(0)) else { return NOTHING };
    match message {
        // That of an include is another request's, and done with.
        Message::ReqTop => return NOTHING,
        Message::Obj => {
            return fault(format!("std.collect(): {}.http cannot be changed", message.name()));
        }
        _ => {}
    }
    let separator = run.bytes(arguments.text(1)).to_vec();
    let Some(fields) = run.fields(message) else { return NOTHING };
    if fields.count(&*name) < 2 {
        return NOTHING;
    }
    let joined = fields.get_all(&*name).collect::<Vec<_>>().join(&*separator);
    // The same in another form is nothing to tell of.
    let traced = std::mem::replace(&mut run.traced, false);
    let set = run.set_named_field(message, &name, joined);
    run.traced = traced;
    set.and(NOTHING)
}

/// How long what came lives by what its head says now, as it was before the policy.
fn rfc_ttl(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    let (defaults, dates) = (run.host.lifetimes(), run.program.dates);
    if let (Some(head), Some(answer)) = (run.view.beresp.as_deref(), run.view.answer.as_deref_mut())
    {
        let now = UnixMillis((answer.time * 1000.0).round() as u64);
        let (said, _) = lifetime(head, now, defaults, dates);
        (answer.ttl, answer.has_no_life, answer.age) = (said.ttl, said.has_no_life, said.age);
        (answer.grace, answer.keep) = (said.grace, said.keep);
    }
    run.trace_lifetime();
    NOTHING
}

fn querysort(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let text = arguments.text(0);
    let url = run.bytes(text);
    let Some(mark) = url.iter().position(|byte| *byte == b'?') else {
        return Ok(Value::Text(text));
    };
    let (path, query) = (&url[..mark], &url[mark + 1..]);
    let mut parts: Vec<&[u8]> =
        query.split(|byte| *byte == b'&').filter(|part| !part.is_empty()).collect();
    parts.sort_unstable();
    let mut sorted = path.to_vec();
    sorted.push(b'?');
    sorted.extend_from_slice(&parts.join(&b'&'));
    run.store(&sorted).map(Value::Text)
}

fn toupper(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    with_case(run, arguments.text(0), <[u8]>::to_ascii_uppercase)
}

fn tolower(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    with_case(run, arguments.text(0), <[u8]>::to_ascii_lowercase)
}

fn with_case(run: &mut Run<'_>, text: Text, change: fn(&[u8]) -> Vec<u8>) -> Result<Value> {
    // Of nothing it is an empty text, as of an empty one.
    let changed = change(run.bytes(text));
    run.store(&changed).map(Value::Text)
}

fn strstr(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let (hay, needle) = (arguments.text(0), arguments.text(1));
    if hay == Text::Unset || needle == Text::Unset {
        return Ok(Value::Text(Text::Unset));
    }
    let found = position(run.bytes(hay), run.bytes(needle));
    match found {
        Some(at) => {
            let tail = run.bytes(hay)[at..].to_vec();
            run.store(&tail).map(Value::Text)
        }
        None => Ok(Value::Text(Text::Unset)),
    }
}

/// Where `needle` begins in `hay`.
pub(super) fn position(hay: &[u8], needle: &[u8]) -> Option<usize> {
    if needle.is_empty() {
        return Some(0);
    }
    hay.windows(needle.len()).position(|window| window == needle)
}

fn fnmatch(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let rules = Glob {
        pathname: arguments.truth(2),
        escapes: !arguments.truth(3),
        period: arguments.truth(4),
    };
    for (index, what) in [(0, "pattern"), (1, "subject")] {
        if arguments.text(index) == Text::Unset {
            return fault(format!("std.fnmatch(): {what} is NULL"));
        }
    }
    let (pattern, subject) = (run.bytes(arguments.text(0)), run.bytes(arguments.text(1)));
    let mut steps = GLOB_STEPS_MAX;
    let matched = rules.matches(pattern, subject, true, &mut steps);
    run.charge((GLOB_STEPS_MAX - steps) as usize)?;
    match matched {
        _ if steps == 0 => fault("std.fnmatch(): the pattern takes too long"),
        matched => Ok(Value::Bool(matched)),
    }
}

/// Steps of one `std.fnmatch`.
const GLOB_STEPS_MAX: u32 = 100_000;

/// Rules of fnmatch(3).
struct Glob {
    /// Only a slash matches a slash.
    pathname: bool,
    /// A backslash takes a sign's meaning.
    escapes: bool,
    /// Only a dot matches a leading dot.
    period: bool,
}

impl Glob {
    fn matches(&self, pattern: &[u8], text: &[u8], at_start: bool, steps: &mut u32) -> bool {
        *steps = steps.saturating_sub(1);
        if *steps == 0 {
            return false;
        }
        let leading_dot = self.period && at_start && text.first() == Some(&b'.');
        let Some((first, rest)) = pattern.split_first() else { return text.is_empty() };
        match first {
            b'*' => {
                if leading_dot {
                    return false;
                }
                let rest = {
                    let stars = rest.iter().take_while(|byte| **byte == b'*').count();
                    &rest[stars..]
                };
                let span = match self.pathname {
                    true => text.iter().position(|byte| *byte == b'/').unwrap_or(text.len()),
                    false => text.len(),
                };
                (0..=span).any(|skip| {
                    let starts = skip == 0 && at_start;
                    self.matches(rest, &text[skip..], starts, steps)
                })
            }
            b'?' => match text.split_first() {
                Some((byte, tail)) if !(leading_dot || self.pathname && *byte == b'/') => {
                    self.matches(rest, tail, self.starts_behind(*byte), steps)
                }
                _ => false,
            },
            b'[' => {
                let Some((byte, tail)) = text.split_first() else { return false };
                if leading_dot || (self.pathname && *byte == b'/') {
                    return false;
                }
                match class(rest, *byte, self.escapes) {
                    Some((true, rest)) => {
                        self.matches(rest, tail, self.starts_behind(*byte), steps)
                    }
                    Some((false, _)) => false,
                    None => *byte == b'[' && self.matches(rest, tail, false, steps),
                }
            }
            byte => {
                let (byte, rest) = match rest.split_first() {
                    Some((escaped, rest)) if *byte == b'\\' && self.escapes => (escaped, rest),
                    _ => (byte, rest),
                };
                match text.split_first() {
                    Some((found, tail)) if found == byte => {
                        self.matches(rest, tail, self.starts_behind(*found), steps)
                    }
                    _ => false,
                }
            }
        }
    }

    fn starts_behind(&self, byte: u8) -> bool {
        self.pathname && byte == b'/'
    }
}

/// Whether a class such as `a-z[:digit:]]` has `byte`, and what stands behind it.
fn class(pattern: &[u8], byte: u8, escapes: bool) -> Option<(bool, &[u8])> {
    let (negated, mut rest) = match pattern.first() {
        Some(b'!' | b'^') => (true, &pattern[1..]),
        _ => (false, pattern),
    };
    let mut found = false;
    let mut first = true;
    loop {
        if rest.first() == Some(&b']') && !first {
            return Some((found != negated, &rest[1..]));
        }
        first = false;
        if let Some((is_in, behind)) = named_class(rest, byte) {
            found |= is_in;
            rest = behind;
            continue;
        }
        let (low, tail) = sign(rest, escapes)?;
        match tail {
            [b'-', end @ ..] if end.first() != Some(&b']') => {
                let (high, behind) = sign(end, escapes)?;
                found |= (low..=high).contains(&byte);
                rest = behind;
            }
            _ => {
                found |= low == byte;
                rest = tail;
            }
        }
    }
}

/// One sign of a class, which a backslash may stand before.
fn sign(pattern: &[u8], escapes: bool) -> Option<(u8, &[u8])> {
    match pattern {
        [b'\\', escaped, rest @ ..] if escapes => Some((*escaped, rest)),
        [byte, rest @ ..] => Some((*byte, rest)),
        [] => None,
    }
}

/// Whether a class by name such as `[:digit:]`, of the C locale, has `byte`; `None` where there is none.
fn named_class(pattern: &[u8], byte: u8) -> Option<(bool, &[u8])> {
    let rest = pattern.strip_prefix(b"[:")?;
    let (name, rest) = rest.split_at(position(rest, b":]")?);
    if !name.iter().all(u8::is_ascii_lowercase) {
        return None;
    }
    let is_in = match name {
        b"alnum" => byte.is_ascii_alphanumeric(),
        b"alpha" => byte.is_ascii_alphabetic(),
        b"blank" => matches!(byte, b' ' | b'\t'),
        b"cntrl" => byte.is_ascii_control(),
        b"digit" => byte.is_ascii_digit(),
        b"graph" => byte.is_ascii_graphic(),
        b"lower" => byte.is_ascii_lowercase(),
        b"print" => byte.is_ascii_graphic() || byte == b' ',
        b"punct" => byte.is_ascii_punctuation(),
        b"space" => byte.is_ascii_whitespace() || byte == 0x0b,
        b"upper" => byte.is_ascii_uppercase(),
        b"xdigit" => byte.is_ascii_hexdigit(),
        _ => false,
    };
    Some((is_in, &rest[2..]))
}

fn file(run: &mut Run<'_>, arguments: &[Value]) -> Result<Text> {
    let path = run.string(arguments.text(0)).into_owned();
    let Some(bytes) = run.host.file(&path) else { return Ok(Text::Unset) };
    let index = u32::try_from(run.task.held.len()).unwrap_or(u32::MAX);
    run.task.held.push(bytes);
    Ok(Text::Held(index))
}

fn fileread(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    file(run, arguments).map(Value::Text)
}

fn blobread(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    file(run, arguments).map(Value::Blob)
}

fn file_exists(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let path = run.string(arguments.text(0)).into_owned();
    Ok(Value::Bool(run.host.file_exists(&path)))
}

fn healthy(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let Value::Backend(backend) = arguments.at(0) else { return Ok(Value::Bool(false)) };
    Ok(Value::Bool(super::directors::health_of(run, backend).0))
}

fn port(_: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    Ok(Value::Int(match arguments.at(0) {
        Value::Ip(Some(_), port) => port.into(),
        _ => -1,
    }))
}

fn log(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    if run.traced {
        let text = run.bytes(arguments.text(0)).to_vec();
        run.host.trace(Event::Log(&text));
    }
    NOTHING
}

fn syslog(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let text = run.bytes(arguments.text(1)).to_vec();
    run.host.syslog(arguments.int(0), &text);
    NOTHING
}

fn timestamp(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    if run.traced {
        let text = run.bytes(arguments.text(0)).to_vec();
        run.host.trace(Event::Timestamp(&text));
    }
    NOTHING
}

fn syntax(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    Ok(Value::Bool((arguments.real(0) * 10.0).round() <= f64::from(run.program.version)))
}

fn getenv(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let name = run.string(arguments.text(0)).into_owned();
    match run.host.environment(&name) {
        Some(value) => run.store(value.as_bytes()).map(Value::Text),
        None => Ok(Value::Text(Text::Unset)),
    }
}

/// Logs why nothing is done, which is no failure.
fn refused(run: &mut Run<'_>, why: &str) {
    if run.traced {
        run.host.trace(Event::Error(why));
    }
}

fn cache_req_body(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    if run.state != State::Recv {
        refused(run, "req.body can only be cached in vcl_recv{}");
        return Ok(Value::Bool(false));
    }
    let restarts = run.view.client.as_deref().map_or(0, |client| client.restarts);
    if restarts > 0 && run.host.request_body().is_none_or(|body| body.is_empty()) {
        refused(run, "req.body must be cached before restarts");
        return Ok(Value::Bool(false));
    }
    let bytes = u64::try_from(arguments.int(0)).unwrap_or(0);
    let storage = run.view.client.as_deref().and_then(|client| client.storage);
    let is_kept = run.host.cache_request_body(bytes, storage);
    if is_kept {
        say_length(run)?;
    }
    Ok(Value::Bool(is_kept))
}

/// Has a request that came in chunks say the length that its body turned out to have.
fn say_length(run: &mut Run<'_>) -> Result<()> {
    const CHUNKED: &str = "Transfer-Encoding";
    const LENGTH: &str = "Content-Length";
    let message = Message::Req;
    let coding = |head: &RequestHead| head.fields.get(CHUNKED).map(<[u8]>::to_vec);
    let Some(coding) = run.view.req.as_deref().and_then(coding) else { return Ok(()) };
    let Some(body) = run.host.request_body() else { return Ok(()) };
    let length = body.len().to_string();
    let original = run.view.client.as_deref_mut().and_then(|client| client.original.as_deref_mut());
    if let Some(original) = original {
        original.fields.remove(CHUNKED);
        original.fields.set(LENGTH, length.as_bytes());
    }
    if run.traced {
        // As Varnish tells of the request as it came, which it always keeps.
        run.host.trace(Event::FieldUnset { message, name: CHUNKED, value: &coding });
        run.host.trace(Event::FieldSet { message, name: LENGTH, value: length.as_bytes() });
    }
    run.unset_named_field(message, LENGTH);
    run.unset_named_field(message, CHUNKED);
    run.set_named_field(message, LENGTH, length.into_bytes())
}

/// The node tells a client to continue when its body is first read, which is as late as can be.
fn late_continue(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    if run.state != State::Recv {
        refused(run, "std.late_100_continue() only valid in vcl_recv{}");
    }
    NOTHING
}

fn set_ip_tos(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    // The kernel takes eight bits of it as well.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is meant")]
    let value = arguments.int(0) as u8;
    run.host.control_connection(Control::TypeOfService(value));
    NOTHING
}

fn rollback(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let Value::Http(message) = arguments.at(0) else { return NOTHING };
    if run.state == State::Pipe {
        return fault("Cannot rollback in vcl_pipe {}");
    }
    let original = match message {
        Message::Req => run.view.client.as_deref().and_then(|client| client.original.clone()),
        Message::Bereq => run.view.fetch.as_deref().and_then(|fetch| fetch.original.clone()),
        other => {
            return fault(format!("std.rollback({}): only req and bereq", other.name()));
        }
    };
    let Some(original) = original else {
        return Err(Fault::new("std.rollback(): the message as it came is not known any more"));
    };
    match run.request_mut(message) {
        Some(head) => *head = *original,
        None => return fault("std.rollback(): not in this state"),
    }
    run.task.forget_kept();
    if let (Message::Req, Some(client)) = (message, run.view.client.as_deref_mut()) {
        client.spared.clear();
    }
    if message == Message::Req {
        make_response_anew(run);
    }
    // The answer belongs to the request that was sent, which this is not any more.
    if let (Message::Bereq, true, Some(fetch)) =
        (message, run.state == State::BackendResponse, run.view.fetch.as_deref_mut())
    {
        fetch.gave_up = true;
    }
    NOTHING
}

/// Where there is a response already, it is that to the request as it came.
fn make_response_anew(run: &mut Run<'_>) {
    let (Some(response), Some(delivery)) =
        (run.view.resp.as_deref_mut(), run.view.delivery.as_deref_mut())
    else {
        return;
    };
    let Some(original) = &delivery.original else { return };
    response.clone_from(original);
    delivery.filters = None;
    if run.traced {
        run.host.trace(Event::Response(response));
    }
}

fn ban(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let result = match arguments.text(0) {
        Text::Unset => Err("Null argument".to_owned()),
        text => {
            let text = run.string(text).into_owned();
            run.host.ban(&text)
        }
    };
    run.task.ban_error.clear();
    if let Err(why) = &result {
        super::builtin::note_ban(run, why);
        run.task.ban_error.push_str(why);
    }
    Ok(Value::Bool(result.is_ok()))
}

fn ban_error(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    let text = run.task.ban_error.clone();
    run.store(text.as_bytes()).map(Value::Text)
}

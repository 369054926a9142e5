//! Backends and probes: their fields, checked.

use super::declarations::new_probe;
use super::{Checker, Symbol};
use crate::diagnostic::nearest;
use crate::syntax::{self, Expression, ExpressionKind, Field, FieldValue, Fields, Name};
use freshet_policy::program::{Endpoint, Expr, Probe, Value};
use freshet_policy::source::Span;
use freshet_policy::types::Type;

/// Path of a Unix socket, less its NUL (`sun_path` of unix(7)).
const SOCKET_PATH_BYTES_MAX: usize = 107;
const NO_SOCKETS: &str = "Unix socket backends only supported in VCL4.1 and higher.";
/// Results of probes that are remembered.
const WINDOW_MAX: i64 = 64;

/// What a backend's declaration can say.
pub const BACKEND_FIELDS: [&str; 13] = [
    "host",
    "port",
    "path",
    "host_header",
    "connect_timeout",
    "first_byte_timeout",
    "between_bytes_timeout",
    "max_connections",
    "proxy_header",
    "preamble",
    "probe",
    "wait_limit",
    "wait_timeout",
];
/// What a probe's declaration can say.
pub const PROBE_FIELDS: [&str; 8] = [
    "url",
    "request",
    "expected_response",
    "timeout",
    "interval",
    "window",
    "threshold",
    "initial",
];

impl Checker<'_> {
    pub(super) fn define_backend(&mut self, backend: &syntax::Backend) {
        let Some(index) =
            self.program.backends.iter().position(|known| known.span == backend.name.span)
        else {
            return;
        };
        let Some(fields) = &backend.fields else { return };
        let mut out = self.program.backends[index].clone();
        let (mut host, mut port, mut path) = (None, None, None);
        let mut seen: Vec<&Name> = Vec::new();
        for field in &fields.fields {
            if !self.is_new_field(&field.name, &BACKEND_FIELDS, &mut seen) {
                continue;
            }
            match &*field.name.text {
                "host" => host = self.constant_text(field),
                "port" => port = self.constant_text(field),
                "path" => path = self.constant_text(field),
                "host_header" => out.host_header = self.constant_text(field).map(|t| t.0),
                "connect_timeout" => out.connect_timeout = self.constant_seconds(field),
                "first_byte_timeout" => out.first_byte_timeout = self.constant_seconds(field),
                "between_bytes_timeout" => {
                    out.between_bytes_timeout = self.constant_seconds(field);
                }
                "max_connections" => {
                    let count = self.constant_count(field).unwrap_or(0);
                    out.connections_max = u64::try_from(count).unwrap_or(0);
                }
                "proxy_header" => match self.constant_count(field) {
                    Some(version @ (1 | 2)) => out.proxy_header = version as u8,
                    Some(_) => self.error(
                        field.name.span,
                        ".proxy_header must be 1 or 2\nUnknown PROXY version",
                    ),
                    None => {}
                },
                "wait_limit" => {
                    let count = self.constant_count(field).unwrap_or(0);
                    out.waiters_max = u64::try_from(count).unwrap_or(0);
                }
                "wait_timeout" => out.wait_timeout = self.constant_seconds(field),
                "preamble" => out.preamble = self.constant_blob(field),
                "probe" => out.probe = self.backend_probe(field, self.probes_above[index]),
                _ => {}
            }
        }
        if out.probe.is_none()
            && !seen.iter().any(|name| &*name.text == "probe")
            && let Some(Symbol::Probe(default)) =
                self.known("default probe").map(|entry| entry.symbol)
        {
            out.probe = Some(default);
        }
        let before = self.report.diagnostics.len();
        out.endpoint = self.endpoint(&backend.name, host, port, path);
        self.report.noticed_at(before, fields.end);
        self.program.backends[index] = out;
    }

    fn endpoint(
        &mut self,
        name: &Name,
        host: Option<(String, Span)>,
        port: Option<(String, Span)>,
        path: Option<(String, Span)>,
    ) -> Option<Endpoint> {
        match (host, path) {
            (Some((_, host)), Some((_, path))) => {
                if self.program.version < 41 {
                    self.error(path, NO_SOCKETS);
                }
                // The one that is written behind the other is too many.
                let second = if host.start < path.start { path } else { host };
                let message = "Address redefinition at:\n.host and .path cannot both be given";
                self.report.error(second, message).noticed_at = Some(second);
                None
            }
            (None, None) => {
                self.error(name.span, "Expected .host or .path.");
                None
            }
            (None, Some((path, span))) => {
                if let Some((_, span)) = port {
                    self.error(span, "Port is not used with .path\nExpected .host with .port");
                }
                if self.program.version < 41 {
                    self.error(span, NO_SOCKETS);
                } else if !path.starts_with('/') && !path.starts_with('@') {
                    self.error(
                        span,
                        "Must be an absolute path:\nMust be an absolute path or abstract socket:",
                    );
                } else if path == "@" {
                    self.error(
                        span,
                        "Backend path: The empty abstract socket name is not supported",
                    );
                } else if path.len() > SOCKET_PATH_BYTES_MAX {
                    self.error(
                        span,
                        format!("Path too long for a Unix domain socket\n{SOCKET_PATH_BYTES_MAX} bytes at most"),
                    );
                } else {
                    return Some(Endpoint::Unix(path));
                }
                None
            }
            (Some((host, span)), None) => {
                if let Some(rest) = host.strip_prefix('[') {
                    let message = match rest.split_once(']') {
                        None => "IPv6 address lacks ']'",
                        Some((_, "")) => "",
                        Some((_, port)) if port.starts_with([':', ' ']) => "",
                        Some(_) => "IPv6 address has wrong port separator",
                    };
                    if !message.is_empty() {
                        self.error(span, message);
                        return None;
                    }
                }
                // A port of its own is the only one that is looked for.
                let (name, written) = match freshet_policy::modules::split_port(&host) {
                    (_, Some(_)) if port.is_some() => (&*host, None),
                    split => split,
                };
                // Only a port is one of this machine.
                let name = if name.is_empty() && written.is_some() { "localhost" } else { name };
                let (host, written) = (name.to_owned(), written.map(str::to_owned));
                let port_text = port.as_ref().map_or(written.as_deref(), |(port, _)| Some(port));
                let number = match port_text {
                    None => Some(80),
                    // As Varnish has it: nothing can be reached there.
                    Some("") => Some(0),
                    Some(text) => text.parse().ok().or_else(|| self.sources.service(text)),
                };
                let Some(number) = number else {
                    let text = port_text.unwrap_or("");
                    let message = format!(
                        "Backend host '\"{host}\"' could not be resolved to an IP address:\n\tport \
                         '{text}' is no number, and no service has this name\n(Sorry if that error message is gibberish.)"
                    );
                    self.error(span, message);
                    return None;
                };
                match self.sources.resolve(&host, number) {
                    Err(why) => {
                        let message = format!(
                            "Backend host '\"{host}\"' could not be resolved to an IP address:\n\t{why}\n(Sorry if that error message is gibberish.)"
                        );
                        self.error(span, message);
                        None
                    }
                    Ok(found) => {
                        let count = |v4: bool| found.iter().filter(|a| a.is_ipv4() == v4).count();
                        if count(true) > 1 || count(false) > 1 {
                            self.error(
                                span,
                                format!("Backend host \"{host}\": resolves to too many addresses.\nOnly one IPv4 and one IPv6 are allowed."),
                            );
                            return None;
                        }
                        Some(Endpoint::Tcp { host, port: number, addresses: found })
                    }
                }
            }
        }
    }

    fn backend_probe(&mut self, field: &Field, above: u32) -> Option<u32> {
        match &field.value {
            FieldValue::Probe(probe) => {
                let filled = self.probe(new_probe(&probe.name), &probe.fields);
                let index = self.program.probes.len() as u32;
                self.program.probes.push(filled);
                Some(index)
            }
            FieldValue::Expression(Expression { kind: ExpressionKind::Path(path), span }) => {
                let text = path.text();
                if text == "default" {
                    return self.default_probe(*span, above);
                }
                match self.symbol(&text) {
                    Some(Symbol::Probe(index)) if index >= above => {
                        let message = format!("Symbol not found: '{text}'");
                        self.error_with(*span, message, "declare the probe above the backend");
                        None
                    }
                    Some(Symbol::Probe(index)) => Some(index),
                    Some(other) => {
                        let message = format!(
                            "Name {text} must have type 'probe'.\nSymbol '{text}' has wrong type ({}), expected probe:",
                            other.kind()
                        );
                        self.error(*span, message);
                        None
                    }
                    None => {
                        self.undefined("probe", &text, *span);
                        None
                    }
                }
            }
            FieldValue::Expression(Expression { kind: ExpressionKind::Broken(_), .. }) => None,
            _ => {
                self.error_with(
                    field.name.span,
                    "Expected '{' or name of probe, got something else",
                    "write `.probe = name;` or `.probe = { … }`",
                );
                None
            }
        }
    }

    /// The last default probe of those that are declared above.
    fn default_probe(&mut self, span: Span, above: u32) -> Option<u32> {
        let mut declared = self.program.probes.iter().take(above as usize);
        let last = declared.rposition(|probe| &*probe.name == "default");
        if last.is_none() {
            self.error(span, "No default probe defined");
        }
        last.map(|at| at as u32)
    }

    pub(super) fn probe(&mut self, mut out: Probe, fields: &Fields) -> Probe {
        let mut seen: Vec<&Name> = Vec::new();
        let (mut window, mut threshold, mut initial) = (None, None, None);
        let (mut window_span, mut threshold_span) = (None, None);
        for field in &fields.fields {
            let is_request = matches!(&*field.name.text, "url" | "request");
            let other = if &*field.name.text == "url" { "request" } else { "url" };
            if is_request && seen.iter().any(|name| &*name.text == other) {
                let span = field.name.span;
                self.error(span, "Probe request redefinition at:");
                continue;
            }
            if !self.is_new_field(&field.name, &PROBE_FIELDS, &mut seen) {
                continue;
            }
            match (&*field.name.text, &field.value) {
                ("url", _) => out.url = self.constant_text(field).map_or(out.url, |t| t.0),
                ("request", FieldValue::Texts(lines)) => {
                    let lines: Vec<_> = lines.iter().map(|line| &*line.text).collect();
                    out.request = Some(format!("{}\r\n\r\n", lines.join("\r\n")));
                }
                ("expected_response", _) => match self.constant_count(field) {
                    Some(status @ 100..=999) => out.expected_response = status as u16,
                    Some(_) => self.error(
                        field.name.span,
                        "Must specify .expected_response with exactly three digits (100 <= x <= 999)",
                    ),
                    None => {}
                },
                ("timeout", _) => {
                    out.timeout = self.constant_seconds(field).unwrap_or(out.timeout);
                }
                ("interval", _) => {
                    out.interval = self.constant_seconds(field).unwrap_or(out.interval);
                }
                ("window", _) => {
                    window = self.constant_count(field);
                    window_span = Some(field.name.span);
                }
                ("threshold", _) => {
                    threshold = self.constant_count(field);
                    threshold_span = Some(field.name.span);
                }
                ("initial", _) => initial = self.constant_count(field),
                _ => {}
            }
        }
        let before = self.report.diagnostics.len();
        if let (Some(window), Some(span)) = (window, window_span) {
            if window > WINDOW_MAX {
                self.error(span, "Window must be 64 or less.");
            }
            if threshold.is_none() {
                self.error(span, "Must specify .threshold with .window");
            }
        }
        if let (Some(threshold), Some(span)) = (threshold, threshold_span) {
            if threshold > WINDOW_MAX {
                self.error(span, "Threshold must be 64 or less.");
            }
            if window.is_some_and(|window| threshold > window) {
                self.error(
                    span,
                    "Threshold can not be greater than window.\nThreshold must be less than window.",
                );
            }
        }
        self.report.noticed_at(before, fields.end);
        let small = |number: i64| u32::try_from(number.clamp(0, WINDOW_MAX)).unwrap_or(0);
        out.window = window.map_or(out.window, small);
        out.threshold = threshold.map_or(out.threshold, small);
        let initial = initial.map_or_else(|| out.threshold.saturating_sub(1), small);
        out.initial = initial.min(out.threshold);
        out
    }

    fn is_new_field<'n>(
        &mut self,
        name: &'n Name,
        known: &[&'static str],
        seen: &mut Vec<&'n Name>,
    ) -> bool {
        if !known.contains(&&*name.text) {
            let near = nearest(&name.text, known.iter().copied());
            let help = near.map_or_else(
                || format!("there are .{}", known.join(", .")),
                |near| format!("did you mean `.{near}`?"),
            );
            self.error_with(
                name.span,
                format!("Unknown field: '{}' at\nUnknown field: {}", name.text, name.text),
                help,
            );
            return false;
        }
        if let Some(before) = seen.iter().find(|before| before.text == name.text) {
            let span = before.span;
            let message = format!("Field '{}' redefined at:", name.text);
            let diagnostic = self.report.error(name.span, message);
            diagnostic.related.push((span, "First defined here".into()));
            return false;
        }
        seen.push(name);
        true
    }

    /// The value of a field as a constant of this type.
    fn constant(&mut self, field: &Field, wanted: Type) -> Option<(Value, Span)> {
        let FieldValue::Expression(value) = &field.value else {
            self.error(field.name.span, format!("Expected {wanted}"));
            return None;
        };
        if matches!(value.kind, ExpressionKind::Broken(_)) {
            return None;
        }
        if wanted == Type::String && !matches!(value.kind, ExpressionKind::Text(_)) {
            let got = self.report.sources.text(value.span).to_owned();
            self.error(value.span, format!("Expected CSTR got '{got}'"));
            return None;
        }
        if wanted == Type::Int && !matches!(value.kind, ExpressionKind::Int(_)) {
            let got = self.first_token(value.span);
            self.error(value.span, format!("Expected CNUM got '{got}'"));
            return None;
        }
        if wanted == Type::Blob && !matches!(value.kind, ExpressionKind::Blob(_)) {
            let got = self.report.sources.text(value.span).to_owned();
            self.error(value.span, format!("Expected CBLOB got '{got}'"));
            return None;
        }
        if wanted == Type::Duration && matches!(value.kind, ExpressionKind::Text(_)) {
            let got = self.first_token(value.span);
            self.error(value.span, format!("Expected CNUM got '{got}'"));
            return None;
        }
        match self.expect(value, wanted)? {
            Expr::Constant(constant) => Some((constant, value.span)),
            _ => {
                self.error(value.span, format!("Expected a constant {wanted}"));
                None
            }
        }
    }

    fn constant_text(&mut self, field: &Field) -> Option<(String, Span)> {
        let (value, span) = self.constant(field, Type::String)?;
        let Value::Text(freshet_policy::program::Text::Constant(index)) = value else {
            return None;
        };
        let text = self.program.texts.get(index as usize)?;
        Some((String::from_utf8_lossy(text).into_owned(), span))
    }

    fn constant_seconds(&mut self, field: &Field) -> Option<f64> {
        match self.constant(field, Type::Duration)? {
            (Value::Duration(seconds), span) if seconds < 0.0 => {
                self.error(span, "A timeout cannot be negative.");
                None
            }
            (Value::Duration(seconds), _) => Some(seconds),
            _ => None,
        }
    }

    fn constant_count(&mut self, field: &Field) -> Option<i64> {
        match self.constant(field, Type::Int)? {
            (Value::Int(count), _) => Some(count),
            _ => None,
        }
    }

    fn constant_blob(&mut self, field: &Field) -> Option<Box<[u8]>> {
        match self.constant(field, Type::Blob)? {
            (Value::Blob(freshet_policy::program::Text::Constant(index)), _) => {
                self.program.texts.get(index as usize).cloned()
            }
            _ => None,
        }
    }
}

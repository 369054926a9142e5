//! A small authority over real HTTP, that checks what RFC 8555 has servers check and can misbehave.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as B64;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, IsCa, Issuer, KeyPair,
};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};

/// Says whether a name proves this token with this text: name, kind of challenge, token, text.
pub(crate) type Validator = dyn Fn(&str, &str, &str, &str) -> bool + Send + Sync;

/// What becomes of an answer: number of the request from 1, method and path, the answer.
pub(crate) type Twist = dyn Fn(usize, &str, Reply) -> Fate + Send + Sync;

/// What a client gets.
pub(crate) enum Fate {
    /// This.
    Answer(Reply),
    /// These bytes, whatever they are.
    Raw(Vec<u8>),
    /// Nothing but the end of the connection.
    Cut,
    /// Nothing at all, until the client leaves.
    Silence,
}

/// One answer.
#[derive(Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

/// An authority; its threads end with the test.
#[derive(Clone)]
pub(crate) struct Authority {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
    twist: Arc<Mutex<Arc<Twist>>>,
    validator: Arc<Validator>,
}

/// What it knows.
pub(crate) struct State {
    pub(crate) requests: usize,
    /// Thumbprints; the place is the account's number.
    pub(crate) accounts: Vec<String>,
    pub(crate) orders: Vec<Order>,
    /// Wrong things clients did.
    pub(crate) wrong: Vec<String>,
    /// The window that is suggested for renewals, where one is.
    pub(crate) window: Option<(String, String)>,
    /// Key of accounts elsewhere, where those are needed.
    pub(crate) external: Option<(String, Vec<u8>)>,
    /// Kinds of challenges offered.
    pub(crate) kinds: Vec<&'static str>,
    keys: HashMap<String, Vec<u8>>,
    nonces: Vec<String>,
    random: u64,
    issuer: (CertificateParams, String),
}

/// One order.
pub(crate) struct Order {
    pub(crate) name: String,
    pub(crate) status: &'static str,
    pub(crate) replaces: Option<String>,
    pub(crate) token: String,
    pub(crate) proved: bool,
    pub(crate) chain: String,
}

impl Authority {
    pub(crate) fn start(validator: Arc<Validator>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let state = State {
            requests: 0,
            accounts: Vec::new(),
            orders: Vec::new(),
            wrong: Vec::new(),
            window: None,
            external: None,
            kinds: vec!["dns-01", "http-01", "tls-alpn-01"],
            keys: HashMap::new(),
            nonces: Vec::new(),
            random: 0x9e37_79b9_7f4a_7c15,
            issuer: (params, key.serialize_pem()),
        };
        let faithful: Arc<Twist> = Arc::new(|_, _, reply| Fate::Answer(reply));
        let authority = Self {
            address,
            state: Arc::new(Mutex::new(state)),
            twist: Arc::new(Mutex::new(faithful)),
            validator,
        };
        let serving = authority.clone();
        std::thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let authority = serving.clone();
                std::thread::spawn(move || authority.serve(socket));
            }
        });
        authority
    }

    pub(crate) fn directory(&self) -> String {
        self.url("/dir")
    }

    /// Changes answers from here on.
    pub(crate) fn twist(&self, twist: Arc<Twist>) {
        *self.twist.lock().unwrap() = twist;
    }

    /// Answers as it should from here on.
    pub(crate) fn behave(&self) {
        self.twist(Arc::new(|_, _, reply| Fate::Answer(reply)));
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn serve(&self, socket: TcpStream) {
        let mut reader = BufReader::new(socket);
        let Some((line, content_type, body)) = read(&mut reader) else { return };
        let mut parts = line.split(' ');
        let (method, path) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        let reply = self.answer(method, path, &content_type, &body);
        let number = self.state().requests;
        let twist = Arc::clone(&self.twist.lock().unwrap());
        let bytes = match twist(number, &format!("{method} {path}"), reply) {
            Fate::Answer(reply) => bytes_of(&reply, method == "HEAD"),
            Fate::Raw(bytes) => bytes,
            Fate::Cut => return,
            Fate::Silence => {
                let _ = reader.read(&mut [0]);
                return;
            }
        };
        let _ = reader.get_mut().write_all(&bytes);
    }

    fn answer(&self, method: &str, path: &str, content_type: &str, body: &[u8]) -> Reply {
        let mut state = self.state();
        state.requests += 1;
        let nonce = format!("n{:x}", state.next());
        state.nonces.push(nonce.clone());
        let mut reply = match method {
            "GET" | "HEAD" => self.get(&state, path),
            _ => {
                let checked = if content_type == "application/jose+json" {
                    self.check(&mut state, path, body)
                } else {
                    Err(problem(415, "malformed", "not application/jose+json"))
                };
                match checked {
                    Ok((payload, thumbprint)) => self.post(state, path, &payload, &thumbprint),
                    Err(reply) => {
                        let is_expected = reply.body.windows(8).any(|part| part == b"badNonce");
                        if !is_expected {
                            let text = String::from_utf8_lossy(&reply.body);
                            state.wrong.push(format!("{path}: {text}"));
                        }
                        reply
                    }
                }
            }
        };
        if method != "GET" {
            reply.fields.push(("Replay-Nonce", nonce));
        }
        reply
    }

    fn get(&self, state: &State, path: &str) -> Reply {
        match path {
            "/dir" => {
                let mut directory = json!({
                    "newNonce": self.url("/nonce"),
                    "newAccount": self.url("/account"),
                    "newOrder": self.url("/order"),
                    "renewalInfo": self.url("/ari"),
                    "meta": {"externalAccountRequired": state.external.is_some()},
                });
                if state.window.is_none() {
                    directory.as_object_mut().unwrap().remove("renewalInfo");
                }
                reply(200, &directory)
            }
            "/nonce" => Reply { status: 200, fields: Vec::new(), body: Vec::new() },
            _ => match &state.window {
                Some((start, end)) if path.starts_with("/ari/") => {
                    reply(200, &json!({"suggestedWindow": {"start": start, "end": end}}))
                }
                _ => problem(404, "malformed", "no such place"),
            },
        }
    }

    /// What RFC 8555 §6 has servers check: the payload and the account's thumbprint.
    fn check(&self, state: &mut State, path: &str, body: &[u8]) -> Result<(Value, String), Reply> {
        let refuse = |why: &str| problem(400, "malformed", why);
        let whole: Value = serde_json::from_slice(body).map_err(|_| refuse("not JSON"))?;
        let part = |name: &str| whole[name].as_str().ok_or_else(|| refuse(name));
        let (protected, payload, signature) =
            (part("protected")?, part("payload")?, part("signature")?);
        let decode = |text: &str| B64.decode(text).map_err(|_| refuse("not base64url"));
        let header: Value =
            serde_json::from_slice(&decode(protected)?).map_err(|_| refuse("header"))?;
        if header["alg"] != "ES256" || header["url"] != self.url(path) {
            return Err(refuse("alg or url"));
        }
        let (point, thumbprint) = match (&header["jwk"], header["kid"].as_str()) {
            (Value::Null, Some(account)) => {
                let number = account.rsplit('/').next().and_then(|text| text.parse::<usize>().ok());
                let thumbprint = number.and_then(|number| state.accounts.get(number)).cloned();
                let thumbprint = thumbprint
                    .ok_or_else(|| problem(400, "accountDoesNotExist", "no such account"))?;
                (state.keys[&thumbprint].clone(), thumbprint)
            }
            (jwk @ Value::Object(_), None) => {
                let (x, y) = (jwk["x"].as_str().unwrap_or(""), jwk["y"].as_str().unwrap_or(""));
                let canonical = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
                let thumbprint = B64.encode(digest(&SHA256, canonical.as_bytes()));
                let point = [vec![4], decode(x)?, decode(y)?].concat();
                state.keys.insert(thumbprint.clone(), point.clone());
                (point, thumbprint)
            }
            _ => return Err(refuse("jwk and kid")),
        };
        let signed = format!("{protected}.{payload}");
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
            .verify(signed.as_bytes(), &decode(signature)?)
            .map_err(|_| refuse("signature"))?;
        let nonce = header["nonce"].as_str().unwrap_or("");
        let known = state.nonces.iter().position(|known| known == nonce);
        let known = known.ok_or_else(|| problem(400, "badNonce", "that nonce is not known"))?;
        state.nonces.swap_remove(known);
        let payload = decode(payload)?;
        let payload = match payload.is_empty() {
            true => Value::Null,
            false => serde_json::from_slice(&payload).map_err(|_| refuse("payload"))?,
        };
        Ok((payload, thumbprint))
    }

    fn post(
        &self,
        mut state: MutexGuard<'_, State>,
        path: &str,
        payload: &Value,
        thumbprint: &str,
    ) -> Reply {
        let mut parts = path.trim_start_matches('/').split('/');
        let (what, number) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        let number: usize = number.parse().unwrap_or(0);
        match (what, path) {
            (_, "/account") => self.account(&mut state, payload, thumbprint),
            (_, "/order") => {
                let name = payload["identifiers"][0]["value"].as_str().unwrap_or("").to_owned();
                let token = format!("t{:x}", state.next());
                state.orders.push(Order {
                    name,
                    status: "pending",
                    replaces: payload["replaces"].as_str().map(str::to_owned),
                    token,
                    proved: false,
                    chain: String::new(),
                });
                let number = state.orders.len() - 1;
                let mut reply = self.order(&state, number);
                (reply.status, reply.fields) =
                    (201, vec![("Location", self.url(&format!("/orders/{number}")))]);
                reply
            }
            _ if number >= state.orders.len() => problem(404, "malformed", "no such place"),
            ("orders", _) => self.order(&state, number),
            ("authz", _) => self.authorization(&state, number),
            ("challenge", _) => {
                let kind = parts.next().unwrap_or("").to_owned();
                let order = &state.orders[number];
                let (name, token) = (order.name.clone(), order.token.clone());
                let text = format!("{token}.{thumbprint}");
                // The answer may come back here.
                drop(state);
                let proved = (self.validator)(&name, &kind, &token, &text);
                let mut state = self.state();
                let order = &mut state.orders[number];
                order.proved = proved;
                order.status = if proved { "ready" } else { "invalid" };
                reply(
                    200,
                    &json!({"type": kind, "status": "processing", "token": token,
                    "url": self.url(path)}),
                )
            }
            ("finalize", _) => self.finalize(&mut state, number, payload),
            ("certificate", _) => Reply {
                status: 200,
                fields: vec![("Content-Type", "application/pem-certificate-chain".to_owned())],
                body: state.orders[number].chain.clone().into_bytes(),
            },
            _ => problem(404, "malformed", "no such place"),
        }
    }

    fn account(&self, state: &mut State, payload: &Value, thumbprint: &str) -> Reply {
        if payload["termsOfServiceAgreed"] != true {
            return problem(403, "userActionRequired", "agree first");
        }
        if let Some((id, key)) = &state.external {
            let binding = &payload["externalAccountBinding"];
            let text = |name: &str| binding[name].as_str().unwrap_or("");
            let signed = format!("{}.{}", text("protected"), text("payload"));
            let key = hmac::Key::new(hmac::HMAC_SHA256, key);
            let signature = B64.decode(text("signature")).unwrap_or_default();
            let header = B64.decode(text("protected")).unwrap_or_default();
            let header: Value = serde_json::from_slice(&header).unwrap_or_default();
            let inner = B64.decode(text("payload")).unwrap_or_default();
            let inner: Value = serde_json::from_slice(&inner).unwrap_or_default();
            let x = inner["x"].as_str().unwrap_or("");
            let is_same = B64.decode(x).is_ok_and(|x| state.keys[thumbprint][1..].starts_with(&x));
            if hmac::verify(&key, signed.as_bytes(), &signature).is_err()
                || header["kid"] != *id
                || header["url"] != self.url("/account")
                || !is_same
            {
                return problem(401, "externalAccountRequired", "no binding that holds");
            }
        }
        let known = state.accounts.iter().position(|known| known == thumbprint);
        let number = known.unwrap_or_else(|| {
            state.accounts.push(thumbprint.to_owned());
            state.accounts.len() - 1
        });
        let mut reply = reply(if known.is_some() { 200 } else { 201 }, &json!({"status": "valid"}));
        reply.fields.push(("Location", self.url(&format!("/accounts/{number}"))));
        reply
    }

    fn order(&self, state: &State, number: usize) -> Reply {
        let order = &state.orders[number];
        let mut body = json!({
            "status": order.status,
            "identifiers": [{"type": "dns", "value": order.name}],
            "authorizations": [self.url(&format!("/authz/{number}"))],
            "finalize": self.url(&format!("/finalize/{number}")),
        });
        if order.status == "valid" {
            body["certificate"] = json!(self.url(&format!("/certificate/{number}")));
        }
        reply(200, &body)
    }

    fn authorization(&self, state: &State, number: usize) -> Reply {
        let order = &state.orders[number];
        let status = match (order.status, order.proved) {
            ("pending", _) => "pending",
            (_, true) => "valid",
            (_, false) => "invalid",
        };
        let challenges = state.kinds.iter().map(|kind| {
            let mut challenge = json!({"type": kind, "status": status, "token": order.token,
                "url": self.url(&format!("/challenge/{number}/{kind}"))});
            if status == "invalid" {
                challenge["error"] = json!({"type": "urn:ietf:params:acme:error:unauthorized",
                    "detail": "what was found is something else"});
            }
            challenge
        });
        let challenges: Vec<_> = challenges.collect();
        reply(
            200,
            &json!({"status": status, "challenges": challenges,
            "identifier": {"type": "dns", "value": order.name}}),
        )
    }

    fn finalize(&self, state: &mut State, number: usize, payload: &Value) -> Reply {
        if state.orders[number].status != "ready" {
            return problem(403, "orderNotReady", "not ready");
        }
        let der = B64.decode(payload["csr"].as_str().unwrap_or("")).unwrap_or_default();
        let Ok(mut csr) = CertificateSigningRequestParams::from_der(&der.as_slice().into()) else {
            return problem(400, "badCSR", "cannot be read");
        };
        csr.params.use_authority_key_identifier_extension = true;
        let (params, key) = &state.issuer;
        let key = KeyPair::from_pem(key).unwrap();
        let issuer = Issuer::from_params(params, &key);
        let chain = csr.signed_by(&issuer).unwrap().pem();
        let authority = params.self_signed(&key).unwrap().pem();
        let order = &mut state.orders[number];
        (order.chain, order.status) = (format!("{chain}{authority}"), "valid");
        self.order(state, number)
    }
}

impl State {
    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

/// The first line, `Content-Type` and the body of a request.
fn read(reader: &mut BufReader<TcpStream>) -> Option<(String, String, Vec<u8>)> {
    let mut line = String::new();
    // A client that is gone before its request is whole has asked for nothing.
    reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let (mut length, mut content_type) = (0, String::new());
    loop {
        let mut field = String::new();
        reader.read_line(&mut field).ok().filter(|length| *length > 0)?;
        let Some((name, value)) = field.trim_end().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "content-type" => content_type = value.trim().to_owned(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((line, content_type, body))
}

pub(crate) fn bytes_of(reply: &Reply, is_head: bool) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {} X\r\nConnection: close\r\n", reply.status);
    for (name, value) in &reply.fields {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("Content-Length: {}\r\n\r\n", reply.body.len()));
    let mut bytes = head.into_bytes();
    if !is_head {
        bytes.extend_from_slice(&reply.body);
    }
    bytes
}

fn reply(status: u16, body: &Value) -> Reply {
    let fields = vec![("Content-Type", "application/json".to_owned())];
    Reply { status, fields, body: body.to_string().into_bytes() }
}

pub(crate) fn problem(status: u16, kind: &str, detail: &str) -> Reply {
    let kind = format!("urn:ietf:params:acme:error:{kind}");
    reply(status, &json!({"type": kind, "detail": detail}))
}

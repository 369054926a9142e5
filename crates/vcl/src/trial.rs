//! Tests of policies: a request or a response in, an action and changed fields out, without a
//! network.
//!
//! ```text
//! test "pages lose their cookies"
//!     request GET /news
//!     field Cookie: a=1
//!     run recv
//!     expect hash
//!     expect no Cookie
//! ```
//!
//! A test is lines of a word and what it is about. `request METHOD TARGET`, `response STATUS`,
//! `client ADDRESS`, `identity TEXT`, `restarts COUNT`, `retries COUNT`, `hits COUNT` and `sick BACKEND` say what
//! there is; `field Name: value` belongs to the message written last; `run STATE` runs a state of
//! the policy, and `expect …` looks at what it left. `#` begins a comment.

use freshet_http::fields::Fields;
use freshet_http::message::{Method, RequestHead, ResponseHead};
use freshet_policy::Policy;
use freshet_policy::program::BackendRef;
use freshet_policy::runtime::{
    Answer, ClientKnobs, Delivery, Event, FetchKnobs, Host, ObjectView, Outcome, Session, Task,
    View,
};
use freshet_policy::types::State;

/// Lines of one file of tests.
const LINES_MAX: usize = 100_000;

/// How a test went.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Trial {
    /// Its name.
    pub name: String,
    /// What was not as expected first, and in which line.
    pub wrong: Option<(usize, String)>,
}

/// Runs the tests of a text against a policy, each with messages of its own. `now` is the time of
/// all, seconds since 1970.
pub fn trials(text: &str, policy: &Policy, now: f64) -> Vec<Trial> {
    let mut out: Vec<Trial> = Vec::new();
    let mut scene = Scene::new(now);
    for (number, line) in (1..).zip(text.lines().take(LINES_MAX)) {
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        if word.is_empty() || word.starts_with('#') {
            continue;
        }
        if word == "test" {
            let name = rest.trim_matches('"').to_owned();
            out.push(Trial { name, wrong: None });
            scene = Scene::new(now);
            continue;
        }
        if out.is_empty() {
            out.push(Trial { name: "the first".into(), wrong: None });
        }
        let Some(trial) = out.last_mut().filter(|trial| trial.wrong.is_none()) else { continue };
        if let Err(why) = scene.line(word, rest, policy) {
            trial.wrong = Some((number, why));
        }
    }
    out
}

/// The messages of one test.
struct Scene {
    now: f64,
    session: Session,
    client: ClientKnobs,
    fetch: FetchKnobs,
    answer: Answer,
    delivery: Delivery,
    req: RequestHead,
    bereq: Option<RequestHead>,
    response: ResponseHead,
    body: Vec<u8>,
    task: Task,
    /// Whether fields are the response's.
    of_response: bool,
    state: State,
    outcome: Option<Outcome>,
    log: Vec<String>,
    /// How often the object was a hit, where a test says so.
    hits: Option<u32>,
    /// Places of the backends that are sick.
    sick: Vec<u32>,
    /// What the last state would fetch from: by the policy's word, and the backend that this came to.
    backends: [String; 2],
}

impl Scene {
    fn new(now: f64) -> Self {
        let session = Session {
            client: Some(([192, 0, 2, 1], 40_000).into()),
            server: Some(([192, 0, 2, 80], 80).into()),
            ..Session::default()
        };
        Self {
            now,
            session,
            client: ClientKnobs { xid: 1001, time: now, ..ClientKnobs::default() },
            fetch: FetchKnobs { xid: 1002, time: now, ..FetchKnobs::default() },
            answer: Answer { ttl: 120.0, grace: 10.0, time: now, ..Answer::default() },
            delivery: Delivery { time: now, do_esi: true, ..Delivery::default() },
            req: RequestHead {
                target: "/".into(),
                authority: "example.com".into(),
                ..RequestHead::default()
            },
            bereq: None,
            response: ResponseHead::new(200),
            body: Vec::new(),
            task: Task::new(),
            of_response: false,
            state: State::Recv,
            outcome: None,
            log: Vec::new(),
            hits: None,
            sick: Vec::new(),
            backends: Default::default(),
        }
    }

    fn line(&mut self, word: &str, rest: &str, policy: &Policy) -> Result<(), String> {
        match word {
            "request" => {
                let (method, target) = match rest.split_once(' ') {
                    Some(both) => both,
                    None if rest.starts_with('/') => ("GET", rest),
                    None => (rest, "/"),
                };
                self.req.method = Method::from_name(method);
                self.req.target = target.trim().into();
                self.of_response = false;
            }
            "response" => {
                let status = rest.parse().ok().filter(|status| (100..=999).contains(status));
                self.response.status = status.ok_or("a status has three digits")?;
                self.of_response = true;
            }
            "client" => {
                let address = rest.parse().map_err(|_| format!("'{rest}' is no address"))?;
                self.session.client = Some(std::net::SocketAddr::new(address, 40_000));
            }
            "identity" => self.client.identity = Some(rest.as_bytes().into()),
            "restarts" => self.client.restarts = count(rest)?,
            "retries" => self.fetch.retries = count(rest)?,
            "hits" => self.hits = Some(count(rest)?),
            "sick" => {
                let mut backends = policy.program().backends.iter().zip(0..);
                let found = backends.find(|(backend, _)| *backend.name == *rest);
                let (_, at) = found.ok_or_else(|| format!("there is no backend '{rest}'"))?;
                self.sick.push(at);
            }
            "field" => {
                let (name, value) = rest.split_once(':').ok_or("write `field Name: value`")?;
                let (name, value) = (name.trim(), value.trim());
                match (self.of_response, name.eq_ignore_ascii_case("host")) {
                    (true, _) => self.response.fields.append(name, value),
                    (false, true) => self.req.authority = value.into(),
                    (false, false) => self.req.fields.append(name, value),
                }
            }
            "run" => self.run(rest, policy)?,
            "expect" => self.expect(rest)?,
            other => {
                return Err(format!(
                    "'{other}' means nothing here: there are test, request, response, client, identity, \
                     restarts, retries, hits, sick, field, run and expect"
                ));
            }
        }
        Ok(())
    }

    fn run(&mut self, name: &str, policy: &Policy) -> Result<(), String> {
        let known = State::ALL.into_iter().find(|state| {
            let full = state.subroutine();
            full == name || full.trim_start_matches("vcl_") == name
        });
        let state = known.ok_or_else(|| format!("there is no state '{name}'"))?;
        self.state = state;
        if (state.is_backend() || state == State::Pipe) && self.bereq.is_none() {
            self.bereq = Some(self.req.clone());
        }
        // The object is what the response was made of.
        let object = matches!(state, State::Hit | State::Deliver).then(|| self.response.clone());
        let object = object.as_ref().map(|object| ObjectView {
            fields: &object.fields,
            status: object.status,
            reason: "",
            age: self.answer.age,
            ttl: self.answer.ttl,
            grace: self.answer.grace,
            keep: self.answer.keep,
            time: self.now,
            hits: self.hits.map_or_else(|| u64::from(state == State::Hit), u64::from),
            uncacheable: self.answer.uncacheable,
            can_esi: false,
            storage: None,
        });
        let mut view = View::new(self.now, &self.session);
        view.object = object;
        if state.is_client() {
            view.req = Some(&mut self.req);
            view.client = Some(&mut self.client);
        }
        if state.is_backend() || state == State::Pipe {
            if self.fetch.backend == BackendRef::None {
                self.fetch.backend = policy.program().default_backend;
            }
            view.bereq = self.bereq.as_mut();
            view.fetch = state.is_backend().then_some(&mut self.fetch);
        }
        match state {
            State::BackendResponse | State::BackendError => {
                view.beresp = Some(&mut self.response);
                view.answer = Some(&mut self.answer);
                view.body = Some(&mut self.body);
            }
            State::Deliver | State::Synth => {
                view.resp = Some(&mut self.response);
                view.delivery = Some(&mut self.delivery);
                view.body = Some(&mut self.body);
            }
            _ => {}
        }
        let mut world = World { log: &mut self.log, now: self.now, sick: &self.sick };
        let outcome = policy.run(state, view, &mut self.task, &mut world);
        let program = policy.program();
        let named = match state.is_backend() {
            true => self.fetch.backend,
            false => self.client.backend_hint.unwrap_or(program.default_backend),
        };
        let view = View::new(self.now, &self.session);
        let chosen = policy.resolve(named, view, &mut self.task, &mut world);
        let chosen = chosen.map_or("none", |at| program.backend_name(BackendRef::Backend(at)));
        self.backends = [program.backend_name(named).to_owned(), chosen.to_owned()];
        if let Outcome::Synth(status, reason) | Outcome::Error(status, reason) = &outcome {
            self.response = ResponseHead { reason: reason.clone(), ..ResponseHead::new(*status) };
            self.body.clear();
        }
        self.outcome = Some(outcome);
        Ok(())
    }

    /// The values of a field of the message the last state was about; a request's host is apart.
    fn values(&self, name: &str) -> Vec<String> {
        let (fields, head) = self.fields();
        match head.filter(|_| name.eq_ignore_ascii_case("host")) {
            Some(head) if head.authority.is_empty() => Vec::new(),
            Some(head) => vec![head.authority.clone()],
            None => fields
                .get_all(name)
                .map(|value| String::from_utf8_lossy(value).into_owned())
                .collect(),
        }
    }

    /// The fields of the message the last state was about.
    fn fields(&self) -> (&Fields, Option<&RequestHead>) {
        match self.state {
            State::BackendFetch | State::Pipe => {
                let head = self.bereq.as_ref().unwrap_or(&self.req);
                (&head.fields, Some(head))
            }
            State::BackendResponse | State::BackendError | State::Deliver | State::Synth => {
                (&self.response.fields, None)
            }
            _ => (&self.req.fields, Some(&self.req)),
        }
    }

    fn expect(&mut self, what: &str) -> Result<(), String> {
        let Some(outcome) = &self.outcome else { return Err("nothing was run before".into()) };
        let (_, head) = self.fields();
        if let Some((name, value)) = what.split_once(':').filter(|(name, _)| !name.contains(' ')) {
            let found = self.values(name);
            let value = value.trim();
            return match found.iter().any(|found| found == value) {
                true => Ok(()),
                false if found.is_empty() => Err(format!("there is no {name}")),
                false => Err(format!("{name} is '{}'", found.join("', '"))),
            };
        }
        let (word, rest) = what.split_once(' ').unwrap_or((what, ""));
        let same = |is: String, wanted: &str| match is == wanted {
            true => Ok(()),
            false => Err(format!("{word} is {is}")),
        };
        match word {
            "no" => match &*self.values(rest) {
                [] => Ok(()),
                found => Err(format!("{rest} is '{}'", found.join("', '"))),
            },
            "url" => same(head.map(|head| head.target.clone()).unwrap_or_default(), rest),
            "method" => same(head.map(|head| head.method.to_string()).unwrap_or_default(), rest),
            "status" => same(self.response.status.to_string(), rest),
            "ttl" => same(self.answer.ttl.to_string(), rest.trim_end_matches('s')),
            "grace" => same(self.answer.grace.to_string(), rest.trim_end_matches('s')),
            "keep" => same(self.answer.keep.to_string(), rest.trim_end_matches('s')),
            "reason" => same(self.response.reason_phrase().to_owned(), rest),
            "body" => same(String::from_utf8_lossy(&self.body).into_owned(), rest),
            "backend" => match self.backends.iter().any(|name| name == rest) {
                true => Ok(()),
                false => Err(format!("the backend is {}", self.backends[1])),
            },
            "hash" if !rest.is_empty() => {
                let mut parts = self.task.hash_parts().split(|byte| *byte == 0);
                match parts.any(|part| part == rest.as_bytes()) {
                    true => Ok(()),
                    false => Err(format!(
                        "what is hashed is '{}'",
                        String::from_utf8_lossy(self.task.hash_parts())
                            .trim_end_matches('\0')
                            .replace('\0', "', '")
                    )),
                }
            }
            "uncacheable" => same(self.answer.uncacheable.to_string(), rest),
            "log" => match self.log.iter().any(|line| line == rest) {
                true => Ok(()),
                false => Err(format!("the log has {:?}", self.log)),
            },
            action => {
                let name = outcome.action().name();
                let status = match outcome {
                    Outcome::Synth(status, _) | Outcome::Error(status, _) => status.to_string(),
                    _ => String::new(),
                };
                if name != action {
                    let why = self.task.take_failure();
                    let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
                    return Err(format!("the action is {name}{why}"));
                }
                match rest.is_empty() || rest == status {
                    true => Ok(()),
                    false => Err(format!("the status is {status}")),
                }
            }
        }
    }
}

fn count(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("'{text}' is no count"))
}

/// A world in which only these backends are sick, and chance is none.
struct World<'a> {
    log: &'a mut Vec<String>,
    now: f64,
    sick: &'a [u32],
}

impl Host for World<'_> {
    fn backend_health(&self, backend: u32) -> (bool, f64) {
        (!self.sick.contains(&backend), self.now)
    }

    fn random(&mut self) -> u64 {
        0
    }

    fn is_traced(&self) -> bool {
        true
    }

    fn trace(&mut self, event: Event<'_>) {
        if let Event::Log(text) = event {
            self.log.push(String::from_utf8_lossy(text).into_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_policy::source::{NoFiles, Source};

    fn wrong(tests: &str) -> Vec<Option<(usize, String)>> {
        let text = r#"vcl 4.1; import std; import directors; backend b none;
            backend one { .host = "192.0.2.1"; } backend two { .host = "192.0.2.2"; }
            sub vcl_init { new both = directors.fallback();
                both.add_backend(one); both.add_backend(two); }
            sub vcl_hash { if (client.identity == "tester") { hash_data("tested"); } }
            sub vcl_deliver {
                set resp.http.Hits = obj.hits;
                if (req.restarts == 0 && resp.status == 404) { return (restart); }
            }
            sub vcl_synth { set resp.reason = "No"; synthetic("Go away."); return (deliver); }
            sub vcl_recv {
                if (req.url ~ "^/news") { unset req.http.Cookie; set req.http.Site = "news"; }
                if (req.url ~ "^/api") { set req.backend_hint = both.backend(); return (pass); }
                if (client.ip == "198.51.100.9") { return (synth(403)); }
            }
            sub vcl_backend_response { set beresp.ttl = 5s; std.log("kept " + bereq.url); }"#;
        let source = Source { name: "p.vcl".into(), text: text.into() };
        let (program, _) = crate::compile(source, &NoFiles, &crate::Settings::default());
        let mut log = Vec::new();
        let mut world = World { log: &mut log, now: 0.0, sick: &[] };
        let policy =
            Policy::load("p", program.unwrap(), Default::default(), None, 0.0, &mut world).unwrap();
        trials(tests, &policy, 0.0).into_iter().map(|trial| trial.wrong).collect()
    }

    #[test]
    fn what_is_as_expected_is_no_matter() {
        let tests = "
            # What the policy is for.
            test \"pages lose their cookies\"
                request GET /news
                field Cookie: a=1
                run recv
                expect hash
                expect no Cookie
                expect Site: news
                expect url /news
            test \"guests are refused\"
                client 198.51.100.9
                run recv
                expect synth 403
            test \"answers live\"
                request GET /x
                response 200
                field Content-Type: text/html
                run backend_response
                expect deliver
                expect ttl 5s
                expect Content-Type: text/html
                expect log kept /x";
        assert_eq!(wrong(tests), [None, None, None]);
    }

    #[test]
    fn backends_objects_restarts_and_bodies_are_looked_at() {
        let tests = "
            test \"the second where the first is sick\"
                request /api
                run recv
                expect pass
                expect backend both
                expect backend one
                sick one
                run recv
                expect backend two
            test \"what is hashed\"
                request /news
                identity tester
                run hash
                expect lookup
                expect hash tested
                expect hash /news
            test \"hits are said\"
                hits 3
                run deliver
                expect Hits: 3
            test \"not found is tried once more\"
                response 404
                run deliver
                expect restart
                restarts 1
                run deliver
                expect deliver
                expect Hits: 0
            test \"guests are told\"
                client 198.51.100.9
                run recv
                run synth
                expect reason No
                expect body Go away.";
        assert_eq!(wrong(tests), [None, None, None, None, None]);
        let said = |tests: &str| wrong(tests).remove(0).map(|(_, why)| why);
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(said("request /api\nrun recv\nexpect backend two"), text("the backend is one"));
        assert_eq!(
            said("request /a\nrun hash\nexpect hash /b"),
            text("what is hashed is '/a', 'example.com'")
        );
        assert_eq!(said("sick three"), text("there is no backend 'three'"));
        assert_eq!(said("restarts often"), text("'often' is no count"));
    }

    #[test]
    fn a_method_alone_is_no_target() {
        let tests = "request POST\nrun recv\nexpect method POST\nexpect url /";
        assert_eq!(wrong(tests), [None]);
        assert_eq!(wrong("request /news\nrun recv\nexpect method GET\nexpect url /news"), [None]);
    }

    #[test]
    fn an_answer_has_the_status_that_was_returned() {
        let tests = "client 198.51.100.9
            response 200
            field Age: 1
            run recv
            expect synth 403
            run synth
            expect status 403
            expect no Age";
        assert_eq!(wrong(tests), [None]);
    }

    #[test]
    fn what_is_not_is_said_with_its_line() {
        let said = |tests: &str| wrong(tests).remove(0);
        let at = |line, text: &str| Some((line, text.to_owned()));
        assert_eq!(said("run recv\nexpect pass"), at(2, "the action is hash"));
        assert_eq!(said("request GET /news\nrun recv\nexpect Site: x"), at(3, "Site is 'news'"));
        assert_eq!(said("run recv\nexpect Site: x"), at(2, "there is no Site"));
        assert_eq!(said("run recv\nexpect no Host"), at(2, "Host is 'example.com'"));
        assert_eq!(said("field A: \u{e9}\nrun recv\nexpect no A"), at(3, "A is '\u{e9}'"));
        assert_eq!(said("expect hash"), at(1, "nothing was run before"));
        assert_eq!(said("run nowhere"), at(1, "there is no state 'nowhere'"));
        assert_eq!(said("response 20"), at(1, "a status has three digits"));
        let said = said("jump").unwrap();
        assert!(said.1.starts_with("'jump' means nothing here"), "{}", said.1);
    }
}

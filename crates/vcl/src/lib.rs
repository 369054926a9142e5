//! The policy language: VCL 4.0 and 4.1, compiled in process and run in bounded time.
//!
//! Here a text becomes a [`Program`]: [`compile`] makes it and says all that is wrong with it, [`format()`]
//! lays it out, [`explain()`] says what it does, [`trials`] tries it without a network. How a program runs is
//! the business of `freshet_policy`, the room below: [`Policy::load`] gives a program a name and makes its
//! objects; [`Policy::run`] runs one state of a request or of a fetch over a [`View`] of its messages and
//! knobs and returns the action. The node implements its own policy interface with that, and [`Host`],
//! through which a running policy asks about health, files or objects. What others need of it is named here
//! too: who works with policies uses this crate.
//!
//! Nothing here does I/O, reads a clock or waits: files that are included come from [`Sources`].
//!
//! It never knows connections, the cache or the configuration of the node.
//!
//! ```
//! use freshet_vcl::{NoFiles, Outcome, Policy, Session, Settings, Source, State, Task, View};
//! use freshet_http::message::RequestHead;
//! # struct Nobody;
//! # impl freshet_vcl::Host for Nobody {
//! #     fn backend_health(&self, _: u32) -> (bool, f64) { (true, 0.0) }
//! #     fn random(&mut self) -> u64 { 4 }
//! # }
//!
//! let text = r#"
//!     vcl 4.1;
//!     backend origin { .host = "127.0.0.1"; }
//!     sub vcl_recv { if (req.url ~ "^/private/") { return (pass); } }
//! "#;
//! let source = Source { name: "policy.vcl".into(), text: text.into() };
//! let (program, report) = freshet_vcl::compile(source, &NoFiles, &Settings::default());
//! let program = program.unwrap_or_else(|| panic!("{}", report.render(false)));
//! let policy = Policy::load("boot", program, Default::default(), None, 0.0, &mut Nobody).unwrap();
//!
//! let session = Session::default();
//! let mut client = freshet_vcl::ClientKnobs::default();
//! let mut req = RequestHead { target: "/private/x".into(), ..RequestHead::default() };
//! let view = View { req: Some(&mut req), client: Some(&mut client), ..View::new(0.0, &session) };
//! let outcome = policy.run(State::Recv, view, &mut Task::new(), &mut Nobody);
//! assert_eq!(outcome, Outcome::Pass(None));
//! ```
#![forbid(unsafe_code)]

mod check;
mod diagnostic;
pub mod editor;
mod explain;
mod format;
mod lexer;
mod parser;
mod syntax;
mod trial;

pub use check::{BACKEND_FIELDS, PROBE_FIELDS, Settings};
use diagnostic::Stage;
pub use diagnostic::{DIAGNOSTICS_MAX, Diagnostic, Report, Severity, nearest};
pub use explain::explain;
pub use format::format;
pub use freshet_policy::acl::{Acl, Entry};
pub use freshet_policy::modules::duration;
pub use freshet_policy::program::{Backend, BackendRef, Endpoint, ObjectSlot, Probe, Program, Sub};
pub use freshet_policy::source::{NoFiles, SOURCE_BYTES_MAX, Source, SourceMap, Sources, Span};
pub use freshet_policy::types::{Action, State, States, Type};
pub use freshet_policy::{
    DirectorStanding, Made, Making, MemberStanding, Parameter, Pattern, Policy, Rampup, Said,
    Signature, Timeouts, Turn, digest, modules, regex, runtime, signatures, variables,
};
pub use runtime::{
    AccessFacts, Answer, CertificateFacts, ClientKnobs, ConnectionFacts, Control, DATES, Defaults,
    Delivery, Event, Failure, FetchKnobs, FrontFacts, Host, ObjectView, Outcome, Places, Purge,
    Session, StorageQuestion, Task, TlsFacts, UnixPeer, View, lifetime, status_phrase,
};
pub use trial::{Trial, trials};
pub use variables::Message;

/// The text appended to every policy.
pub const BUILTIN: &str = include_str!("builtin.vcl");

/// Name of the built-in text in messages.
pub const BUILTIN_NAME: &str = "<builtin>";

/// Compiles `main` and what it includes. The program is there unless the report has an error.
pub fn compile(
    main: Source,
    sources: &dyn Sources,
    settings: &Settings,
) -> (Option<Program>, Report) {
    let mut report = Report::default();
    let tokens = lexer::tokens(main, sources, settings.unsafe_paths, &mut report);
    let builtin = Source { name: BUILTIN_NAME.into(), text: BUILTIN.into() };
    let builtin = lexer::tokens(builtin, &NoFiles, false, &mut report);
    report.stage = Stage::Text;
    let tree = parser::parse(&tokens, &mut report);
    let builtin = parser::parse(&builtin, &mut report);
    let program = check::check(tree, builtin, sources, settings, &mut report);
    report.sort();
    (program, report)
}

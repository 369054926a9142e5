//! Running a policy: one state at a time, from what is there to an action.

mod assignment;
mod evaluate;
mod fields;
mod host;
mod lifetime;
mod task;
mod values;
mod variables;
mod view;

pub use evaluate::ARGUMENTS_MAX;
pub use host::{ConnectionFacts, Control, Event, Host, Places, Purge, StorageQuestion};
pub use lifetime::{DATES, Defaults, lifetime};
pub use task::{STATEMENTS_MAX, SYNTHETIC_BYTES_MAX, Task, WORKSPACE_BYTES_MAX};
pub(crate) use values::is_writable;
pub use values::{arithmetic, unwritable, write_value};
pub(crate) use variables::proto;
pub use view::{
    AccessFacts, Answer, CertificateFacts, ClientKnobs, Delivery, FetchKnobs, FrontFacts,
    ObjectView, Session, TlsFacts, UnixPeer, View,
};

use crate::policy::Policy;
use crate::program::{Block, Expr, Program, Statement, StatementKind, Text, Value};
use crate::source::Span;
use crate::types::{Action, State};
use freshet_http::message::reason_phrase;
use std::cell::Cell;

/// How a state ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// `abandon`
    Abandon,
    /// `deliver`
    Deliver,
    /// `error(status, reason)`
    Error(u16, Option<Box<str>>),
    /// `fail`, or a failure at run time; the reason is with the task.
    Fail,
    /// `fetch`
    Fetch,
    /// `hash`
    Hash,
    /// `lookup`
    Lookup,
    /// `ok`
    Ok,
    /// `pass`, with the seconds of a hit-for-pass object.
    Pass(Option<f64>),
    /// `pipe`
    Pipe,
    /// `purge`
    Purge,
    /// `restart`
    Restart,
    /// `retry`
    Retry,
    /// `synth(status, reason)`
    Synth(u16, Option<Box<str>>),
    /// `vcl(label)`, by its place in [`Program::labels`].
    Vcl(u32),
}

/// Why a policy failed, and where.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct Failure {
    /// Why.
    pub message: String,
    /// File.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// The line's text.
    pub text: String,
}

/// A failure under way.
pub(crate) struct Fault(pub(crate) Box<str>);

impl Fault {
    pub(crate) fn new(message: impl Into<Box<str>>) -> Self {
        Self(message.into())
    }
}

pub(crate) type Result<T> = std::result::Result<T, Fault>;

/// A state being run.
pub(crate) struct Run<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) program: &'a Program,
    pub(crate) state: State,
    pub(crate) view: View<'a>,
    pub(crate) task: &'a mut Task,
    pub(crate) host: &'a mut dyn Host,
    pub(crate) traced: bool,
    /// Of [`STATEMENTS_MAX`], which matches and calls use as well.
    statements_left: Cell<u32>,
    /// The statement being run.
    at: Span,
}

/// What a statement leads to.
enum Flow {
    Next,
    Leave,
    Return(Outcome),
}

/// Runs the subroutine of `state`.
pub(crate) fn run<'a>(
    policy: &'a Policy,
    state: State,
    view: View<'a>,
    task: &'a mut Task,
    host: &'a mut dyn Host,
) -> Outcome {
    let program = policy.program();
    let traced = host.is_traced();
    let mut run = Run {
        policy,
        program,
        state,
        view,
        task,
        host,
        traced,
        statements_left: Cell::new(STATEMENTS_MAX),
        at: Span::default(),
    };
    if traced {
        run.host.trace(Event::Call(state));
    }
    run.task.work.clear();
    run.task.held.clear();
    let outcome = match run.program.states[state as usize] {
        Some(sub) => match run.sub(sub) {
            Ok(Flow::Return(outcome)) => outcome,
            Ok(Flow::Next | Flow::Leave) => run.fell_through(),
            Err(fault) => run.failed(&fault),
        },
        None => run.fell_through(),
    };
    if traced {
        run.host.trace(Event::Return(outcome.action()));
    }
    outcome
}

impl Outcome {
    /// The action it is.
    pub fn action(&self) -> Action {
        match self {
            Self::Abandon => Action::Abandon,
            Self::Deliver => Action::Deliver,
            Self::Error(..) => Action::Error,
            Self::Fail => Action::Fail,
            Self::Fetch => Action::Fetch,
            Self::Hash => Action::Hash,
            Self::Lookup => Action::Lookup,
            Self::Ok => Action::Ok,
            Self::Pass(_) => Action::Pass,
            Self::Pipe => Action::Pipe,
            Self::Purge => Action::Purge,
            Self::Restart => Action::Restart,
            Self::Retry => Action::Retry,
            Self::Synth(..) => Action::Synth,
            Self::Vcl(_) => Action::Vcl,
        }
    }
}

impl Run<'_> {
    /// A state whose subroutine came to its end without an action. The built-in text ends every
    /// state with one, so only `vcl_init` and `vcl_fini` come here.
    fn fell_through(&self) -> Outcome {
        match self.state {
            State::Init | State::Fini => Outcome::Ok,
            _ => Outcome::Fail,
        }
    }

    fn failed(&mut self, fault: &Fault) -> Outcome {
        let (file, line, _) = self.program.sources.place(self.at);
        let text = self.program.sources.line(self.at).map_or("", |(line, _)| line.trim());
        let failure = Failure {
            message: fault.0.to_string(),
            file: file.to_owned(),
            line,
            text: text.to_owned(),
        };
        if self.traced {
            self.host.trace(Event::Error(&failure.message));
        }
        self.task.failure = Some(failure);
        Outcome::Fail
    }

    fn sub(&mut self, index: u32) -> Result<Flow> {
        let program = self.program;
        let Some(sub) = program.subs.get(index as usize) else { return Ok(Flow::Next) };
        for piece in &sub.pieces {
            match self.block(piece)? {
                Flow::Next => {}
                // Leaving ends the whole subroutine, not the piece.
                other => return Ok(other),
            }
        }
        Ok(Flow::Next)
    }

    fn block(&mut self, block: &Block) -> Result<Flow> {
        for statement in block {
            match self.statement(statement)? {
                Flow::Next => {}
                other => return Ok(other),
            }
        }
        Ok(Flow::Next)
    }

    fn statement(&mut self, statement: &Statement) -> Result<Flow> {
        self.at = statement.span;
        self.charge(0)?;
        let mark = self.task.work.len();
        let flow = match &statement.kind {
            StatementKind::If { arms, otherwise } => {
                let mut taken = otherwise;
                for (condition, body) in arms {
                    let holds = self.truth(condition)?;
                    self.task.work.truncate(mark);
                    if holds {
                        taken = body;
                        break;
                    }
                }
                self.block(taken)?
            }
            StatementKind::Block(body) => self.block(body)?,
            StatementKind::Set { variable, value } => {
                let value = self.evaluate(value)?;
                self.set_variable(*variable, value)?;
                Flow::Next
            }
            StatementKind::AppendBody(value) => {
                let value = self.evaluate(value)?;
                self.append_body(value)?;
                Flow::Next
            }
            StatementKind::SetField { message, header, value } => {
                let text = self.text(value)?;
                self.set_field(*message, *header, text)?;
                Flow::Next
            }
            StatementKind::UnsetField { message, header } => {
                self.unset_field(*message, *header);
                Flow::Next
            }
            StatementKind::Unset(variable) => {
                if let Some(reset) = variable.definition().reset {
                    reset(self);
                }
                Flow::Next
            }
            StatementKind::Call(sub) => match self.sub(*sub)? {
                Flow::Leave => Flow::Next,
                other => other,
            },
            StatementKind::Leave => Flow::Leave,
            StatementKind::Return { action, arguments } => {
                Flow::Return(self.returned(*action, arguments)?)
            }
            StatementKind::New { object, constructor, arguments } => {
                self.call(constructor, Some(*object), arguments)?;
                Flow::Next
            }
            StatementKind::Perform(call) => {
                self.evaluate(call)?;
                Flow::Next
            }
        };
        self.task.work.truncate(mark);
        Ok(flow)
    }

    fn returned(&mut self, action: Action, arguments: &[Expr]) -> Result<Outcome> {
        let mut status = 0;
        let mut reason = None;
        let mut first = Value::None;
        for (index, argument) in arguments.iter().enumerate() {
            let value = self.evaluate(argument)?;
            match (index, value) {
                (0, Value::Int(number)) if action != Action::Vcl => {
                    let what = if self.state.is_backend() { "error" } else { "synth" };
                    status = status_code(number, |why| match why {
                        "" => format!("illegal return({what}()) status code ({number}) (..0##)"),
                        why => format!("return({what}()) status code ({number}) {why}"),
                    })?;
                }
                (_, Value::Text(Text::Unset)) => {}
                (_, Value::Text(text)) => {
                    let text = String::from_utf8_lossy(self.bytes(text)).into_owned();
                    reason = Some(text.into_boxed_str());
                }
                _ => {}
            }
            if index == 0 {
                first = value;
            }
        }
        if let (Action::Pass, Value::Duration(seconds), true) = (action, first, self.traced) {
            self.trace_pass(seconds);
        }
        Ok(match action {
            Action::Abandon => Outcome::Abandon,
            Action::Deliver => Outcome::Deliver,
            Action::Error => Outcome::Error(if status == 0 { 503 } else { status }, reason),
            Action::Fail => {
                if let Value::Text(_) = first {
                    return Err(Fault(reason.unwrap_or_default()));
                }
                return Err(Fault::new("the policy said so: return (fail)"));
            }
            Action::Fetch => Outcome::Fetch,
            Action::Hash => Outcome::Hash,
            Action::Lookup => Outcome::Lookup,
            Action::Ok => Outcome::Ok,
            Action::Pass => Outcome::Pass(match first {
                Value::Duration(seconds) => Some(seconds),
                _ => None,
            }),
            Action::Pipe => Outcome::Pipe,
            Action::Purge => Outcome::Purge,
            Action::Restart => Outcome::Restart,
            Action::Retry => Outcome::Retry,
            Action::Synth => Outcome::Synth(status, reason),
            Action::Vcl => match first {
                Value::Int(label) => Outcome::Vcl(u32::try_from(label).unwrap_or(0)),
                _ => return Err(Fault::new("a label is missing")),
            },
        })
    }

    /// Logs what is wrong and no failure.
    pub(crate) fn complain(&mut self, text: &str) {
        if self.traced {
            self.host.trace(Event::Said { is_error: true, text });
        }
    }

    /// Logs what is done otherwise than the policy says.
    pub(crate) fn notice(&mut self, text: &str) {
        if self.traced {
            self.host.trace(Event::Said { is_error: false, text });
        }
    }

    /// Logs what helps whoever looks for a mistake.
    pub(crate) fn debug(&mut self, text: &[u8]) {
        if self.traced {
            self.host.trace(Event::Debug(text));
        }
    }

    /// The bytes of a text; of one that is unset, none.
    pub(crate) fn bytes(&self, text: Text) -> &[u8] {
        match text {
            Text::Unset => &[],
            Text::Constant(index) => {
                self.program.texts.get(index as usize).map_or(&[][..], |text| text)
            }
            Text::Work { start, len } => {
                let (start, len) = (start as usize, len as usize);
                self.task.work.get(start..start + len).unwrap_or(&[])
            }
            Text::Held(index) => self.task.held.get(index as usize).map_or(&[][..], |bytes| bytes),
        }
    }

    /// The bytes of the first of the pieces a text was joined of just now, or all of it.
    pub(crate) fn first_piece(&self, text: Text) -> &[u8] {
        let bytes = self.bytes(text);
        let joined = self.task.joined.filter(|(joined, _)| *joined == text);
        joined.and_then(|(_, first)| bytes.get(..first)).unwrap_or(bytes)
    }

    /// The bytes as text; what is not UTF-8 is replaced.
    pub(crate) fn string(&self, text: Text) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.bytes(text))
    }

    /// Puts bytes into the workspace.
    pub(crate) fn store(&mut self, bytes: &[u8]) -> Result<Text> {
        let start = self.task.work.len();
        self.reserve(bytes.len())?;
        self.task.work.extend_from_slice(bytes);
        Ok(self.stored_since(start))
    }

    /// Counts a statement, a match or a call, and one more for each 64 bytes or steps it goes through:
    /// a condition may hold any number of them.
    pub(crate) fn charge(&self, steps: usize) -> Result<()> {
        let cost = u32::try_from(steps / 64).unwrap_or(u32::MAX).saturating_add(1);
        let left = self.statements_left.get().checked_sub(cost);
        self.statements_left.set(left.ok_or_else(|| Fault::new("too much was done in one state"))?);
        Ok(())
    }

    /// Steps of matches that may still be charged.
    pub(crate) fn steps_left(&self) -> usize {
        self.statements_left.get() as usize * 64
    }

    /// Demands that `more` bytes fit the workspace.
    pub(crate) fn reserve(&self, more: usize) -> Result<()> {
        if self.task.work.len() + more > self.task.budget {
            return Err(Fault::new("out of workspace"));
        }
        Ok(())
    }

    /// What was written to the workspace since it had this length.
    pub(crate) fn stored_since(&self, start: usize) -> Text {
        // The workspace is far below 4 GiB.
        Text::Work { start: start as u32, len: (self.task.work.len() - start) as u32 }
    }

    /// Writes to the workspace and checks afterwards that it fitted; for what is small.
    pub(crate) fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<Text> {
        let start = self.task.work.len();
        write(&mut self.task.work);
        self.reserve(0)?;
        Ok(self.stored_since(start))
    }

    /// Bytes the task keeps beyond this statement.
    pub(crate) fn spend(&mut self, bytes: usize) -> Result<()> {
        match self.task.budget.checked_sub(bytes) {
            Some(left) => {
                self.task.budget = left;
                Ok(())
            }
            None => Err(Fault::new("out of workspace")),
        }
    }
}

/// What a status is called in policies where nothing else is said, if that is not what RFC 9110 calls
/// it: by the names of RFC 7231, which they know.
#[must_use]
pub fn status_phrase(status: u16) -> Option<&'static str> {
    match status {
        413 => Some("Request Entity Too Large"),
        414 => Some("Request-URI Too Long"),
        416 => Some("Requested Range Not Satisfiable"),
        422 => Some("Unprocessable Entity"),
        _ => reason_phrase(status).is_empty().then_some("Unknown HTTP Status"),
    }
}

/// A status that can be set: of one above 999 the last three digits are sent.
pub(crate) fn status_code(number: i64, message: impl Fn(&str) -> String) -> Result<u16> {
    match u16::try_from(number) {
        Ok(status) if status % 1000 >= 100 => Ok(status),
        Ok(_) => Err(Fault::new(message(""))),
        Err(_) if number < 0 => Err(Fault::new(message("is negative"))),
        Err(_) => Err(Fault::new(message("> 65535"))),
    }
}

/// The declared backend that `backend` stands for now.
pub(crate) fn resolve<'a>(
    policy: &'a Policy,
    backend: crate::program::BackendRef,
    view: View<'a>,
    task: &'a mut Task,
    host: &'a mut dyn Host,
) -> Option<u32> {
    let traced = host.is_traced();
    let mut run = Run {
        policy,
        program: policy.program(),
        state: State::BackendFetch,
        view,
        task,
        host,
        traced,
        statements_left: Cell::new(STATEMENTS_MAX),
        at: Span::default(),
    };
    match crate::modules::directors::resolve(&mut run, backend) {
        crate::program::BackendRef::Backend(index) => {
            let declared = policy.program().backends.get(index as usize);
            declared.is_some_and(|backend| backend.endpoint.is_some()).then_some(index)
        }
        _ => None,
    }
}

//! What each subroutine uses, compared with the states it can be reached from.

use super::Checker;
use super::words::ACTIONS;
use freshet_policy::source::Span;
use freshet_policy::types::{Action, State, States};
use std::collections::HashSet;

/// Subroutines calling one another. Each takes stack at run time.
const CALL_DEPTH_MAX: usize = 100;

/// What is done with something that not all states have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Access {
    Read,
    Write,
    Unset,
}

pub(super) struct Use {
    name: String,
    access: Access,
    /// States that can do that.
    allowed: States,
    /// States that can read it.
    readable: States,
    span: Span,
}

/// What one subroutine does, as far as it matters to its callers.
#[derive(Default)]
pub(super) struct SubUses {
    pub(super) uses: Vec<Use>,
    pub(super) calls: Vec<(u32, Span)>,
    pub(super) returns: Vec<(Action, Span)>,
}

/// What is wrong with one thing that a subroutine does in a state.
struct Finding {
    span: Span,
    message: String,
    help: String,
}

/// What is wrong with what a subroutine does in a state; whether it is called by the state's own.
type Judge = fn(&SubUses, State, bool) -> Vec<Finding>;

impl Checker<'_> {
    /// Takes note of what is read or unset.
    pub(super) fn used(&mut self, name: &str, access: Access, allowed: States, span: Span) {
        self.add_use(Use { name: name.to_owned(), access, allowed, readable: allowed, span });
    }

    /// Takes note of what is set.
    pub(super) fn written(&mut self, name: &str, allowed: States, readable: States, span: Span) {
        let name = name.to_owned();
        self.add_use(Use { name, access: Access::Write, allowed, readable, span });
    }

    fn add_use(&mut self, one: Use) {
        if one.allowed != States::ALL
            && let Some(uses) = self.uses.get_mut(self.current)
        {
            uses.uses.push(one);
        }
    }

    /// Compares what is returned with what each state can return. There is no recursion.
    pub(super) fn check_returns(&mut self) {
        self.judge(wrong_returns);
    }

    /// Compares what is used with what each state has. There is no recursion.
    pub(super) fn check_uses(&mut self) {
        let reached = self.judge(wrong_uses);
        for index in 0..self.uses.len() {
            let allowed =
                self.uses[index].uses.iter().fold(States::ALL.0, |bits, one| bits & one.allowed.0);
            if allowed == 0 && !reached.contains(&(index as u32)) {
                let span = self.program.subs[index].span;
                self.error(span, "Impossible Subroutine\nno state has everything it uses");
            }
        }
    }

    /// Judges each state with all it calls, by name, and reports what is wrong; which subroutines are
    /// reached.
    fn judge(&mut self, judge: Judge) -> HashSet<u32> {
        let mut states = State::ALL;
        states.sort_by_key(|state| state.subroutine());
        let mut found = Vec::new();
        let mut reached = HashSet::new();
        for state in states {
            let Some(sub) = self.program.states[state as usize] else { continue };
            let mut seen = HashSet::new();
            self.walk(sub, state, judge, &mut seen, &mut Vec::new(), &mut found);
            reached.extend(seen);
        }
        for (finding, calls) in found {
            let diagnostic = self.report.error(finding.span, finding.message);
            if diagnostic.related.is_empty() {
                diagnostic.related = calls;
            }
            diagnostic.help = Some(finding.help);
        }
        reached
    }

    fn walk(
        &self,
        sub: u32,
        state: State,
        judge: Judge,
        seen: &mut HashSet<u32>,
        path: &mut Vec<(Span, String)>,
        found: &mut Vec<(Finding, Vec<(Span, String)>)>,
    ) {
        if !seen.insert(sub) {
            return;
        }
        let Some(uses) = self.uses.get(sub as usize) else { return };
        let wrong = judge(uses, state, !path.is_empty());
        found.extend(wrong.into_iter().map(|finding| (finding, path.clone())));
        for (callee, span) in &uses.calls {
            path.push((*span, "called from here".into()));
            self.walk(*callee, state, judge, seen, path, found);
            path.pop();
        }
    }

    /// Reports subroutines that call themselves, directly or not, with the calls that lead there.
    pub(super) fn check_recursion(&mut self) -> bool {
        // 0 not seen, 1 on the way, 2 done; an explicit stack, since chains can be long.
        let mut marks = vec![0_u8; self.uses.len()];
        let mut cycles = Vec::new();
        // By name, as Varnish goes through them; the first one that recurs is told.
        let mut starts: Vec<usize> = (0..self.uses.len()).collect();
        starts.sort_by_key(|sub| &self.program.subs[*sub].name);
        for start in starts {
            if marks[start] != 0 || !cycles.is_empty() {
                continue;
            }
            let mut stack = vec![(start, 0)];
            marks[start] = 1;
            while let Some((sub, next)) = stack.pop() {
                let Some((callee, span)) = self.uses[sub].calls.get(next).copied() else {
                    marks[sub] = 2;
                    continue;
                };
                stack.push((sub, next + 1));
                match marks[callee as usize] {
                    0 => {
                        marks[callee as usize] = 1;
                        stack.push((callee as usize, 0));
                    }
                    1 => cycles.push(self.calls_of_cycle(&stack, callee, span)),
                    _ => {}
                }
            }
        }
        let is_any = !cycles.is_empty();
        for (callee, calls) in cycles {
            let sub = &self.program.subs[callee as usize];
            let (name, span) = (sub.name.clone(), sub.span);
            let diagnostic = self.report.error(span, "Subroutine recurses on");
            diagnostic.related = calls;
            diagnostic.help =
                Some(format!("'{name}' calls itself; `return (restart)` begins a request again"));
        }
        is_any
    }

    /// The calls from the one that closes a cycle back to the one that leads into it, each with who
    /// makes it. `stack` has each subroutine on the way with the calls of it that were followed.
    fn calls_of_cycle(
        &self,
        stack: &[(usize, usize)],
        callee: u32,
        span: Span,
    ) -> (u32, Vec<(Span, String)>) {
        let mut calls = Vec::new();
        let mut made_at = span;
        for (at, (sub, _)) in stack.iter().enumerate().rev() {
            let name = &self.program.subs[*sub].name;
            calls.push((made_at, format!("...called from \"{name}\"")));
            let Some((above, next)) = at.checked_sub(1).and_then(|at| stack.get(at)) else { break };
            let Some((_, call)) = self.uses[*above].calls.get(next - 1) else { break };
            made_at = *call;
        }
        (callee, calls)
    }

    /// Reports chains of calls that are too long. There is no recursion.
    pub(super) fn check_depth(&mut self) -> bool {
        let mut level: Vec<u32> = (0..self.uses.len() as u32)
            .filter(|sub| self.program.subs[*sub as usize].name.starts_with("vcl_"))
            .collect();
        for _ in 0..CALL_DEPTH_MAX {
            let mut next: Vec<u32> = level
                .iter()
                .flat_map(|sub| self.uses[*sub as usize].calls.iter().map(|(callee, _)| *callee))
                .collect();
            next.sort_unstable();
            next.dedup();
            level = next;
            if level.is_empty() {
                return false;
            }
        }
        let Some(sub) = level.first() else { return false };
        let span = self.program.subs[*sub as usize].span;
        self.error(span, "Subroutines call one another too deeply (100 levels at most).");
        true
    }
}

fn wrong_returns(uses: &SubUses, state: State, _: bool) -> Vec<Finding> {
    let name = state.subroutine();
    let can = state.actions();
    let mut wrong: Vec<_> =
        uses.returns.iter().filter(|(action, _)| !can.contains(action)).collect();
    wrong.sort_by_key(|(action, _)| action.name());
    let allowed: Vec<_> = can.iter().map(|action| action.name()).collect();
    let allowed = allowed.join(", ");
    let finding = |(action, span): &(Action, Span)| Finding {
        span: *span,
        message: format!(
            "Invalid return \"{}\"\nNot a valid action in subroutine '{name}'",
            action.name()
        ),
        help: format!("{name} can return {allowed}"),
    };
    wrong.into_iter().map(finding).collect()
}

fn wrong_uses(uses: &SubUses, state: State, is_called: bool) -> Vec<Finding> {
    let mut wrong: Vec<_> = uses.uses.iter().filter(|one| !one.allowed.has(state)).collect();
    // That something can be set nowhere is found before what else a subroutine does is judged.
    wrong.sort_by_key(|one| one.constant(state).is_none());
    wrong.into_iter().map(|one| one.finding(state, is_called)).collect()
}

impl Use {
    /// What is said where it sets something that can be set nowhere, in a state that knows it.
    fn constant(&self, state: State) -> Option<&'static str> {
        match (self.access, self.allowed, self.readable) {
            (Access::Write, States::NONE, States::NONE) => Some("Variable cannot be set."),
            (Access::Write, States::NONE, readable) if readable.has(state) => {
                Some("Variable is read only.")
            }
            _ => None,
        }
    }

    /// What is wrong with it in a state that does not allow it.
    fn finding(&self, state: State, is_called: bool) -> Finding {
        let Self { name, access, allowed, span, .. } = self;
        let subroutine = state.subroutine();
        let message = if let Some(said) = self.constant(state) {
            format!("{said}\n'{name}'")
        } else {
            let what = match access {
                Access::Read if ACTIONS.contains(&&**name) => "Not a valid action",
                Access::Write if *allowed != States::NONE => "Cannot be set",
                Access::Unset => "Cannot be unset",
                _ => "Not available",
            };
            let via = if is_called {
                format!("\n{what} from subroutine '{subroutine}'.")
            } else {
                String::new()
            };
            format!("'{name}': {what} in subroutine '{subroutine}'.{via}")
        };
        Finding { span: *span, message, help: where_it_is(*allowed) }
    }
}

/// Says in which states something can be used.
fn where_it_is(allowed: States) -> String {
    if allowed == States::NONE {
        return "it cannot be used this way anywhere".into();
    }
    if allowed == States::CLIENT {
        return "it is on the client's side only: vcl_recv to vcl_synth".into();
    }
    if allowed == States::BACKEND {
        return "it is on the backend's side only: vcl_backend_fetch, vcl_backend_response, \
                vcl_backend_error"
            .into();
    }
    let names: Vec<_> =
        State::ALL.into_iter().filter(|state| allowed.has(*state)).map(State::subroutine).collect();
    format!("it is available in {}", names.join(", "))
}

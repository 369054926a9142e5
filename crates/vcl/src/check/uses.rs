//! What each subroutine uses, compared with the states it can be reached from.

use super::words::ACTIONS;
use super::{Checker, Symbol};
use crate::source::Span;
use crate::types::{Action, State, States};
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
    pub(super) name: String,
    pub(super) access: Access,
    pub(super) allowed: States,
    pub(super) span: Span,
}

/// What one subroutine does, as far as it matters to its callers.
#[derive(Default)]
pub(super) struct SubUses {
    pub(super) uses: Vec<Use>,
    pub(super) calls: Vec<(u32, Span)>,
    pub(super) returns: Vec<(Action, Span)>,
}

impl Checker<'_> {
    pub(super) fn used(&mut self, name: &str, access: Access, allowed: States, span: Span) {
        if allowed == States::ALL {
            return;
        }
        if let Some(uses) = self.uses.get_mut(self.current) {
            uses.uses.push(Use { name: name.to_owned(), access, allowed, span });
        }
    }

    pub(super) fn check_uses(&mut self) {
        // What follows walks along the calls.
        if self.check_recursion() || self.check_depth() {
            return;
        }
        let mut messages = Vec::new();
        let mut reached = HashSet::new();
        for state in State::ALL {
            let Some(sub) = self.program.states[state as usize] else { continue };
            let mut seen = HashSet::new();
            self.walk(sub, state, &mut seen, &mut Vec::new(), &mut messages);
            reached.extend(seen);
        }
        for index in 0..self.uses.len() {
            let allowed =
                self.uses[index].uses.iter().fold(States::ALL.0, |bits, one| bits & one.allowed.0);
            if allowed == 0 && !reached.contains(&(index as u32)) {
                let span = self.program.subs[index].span;
                messages.push((
                    span,
                    "Impossible Subroutine\nno state has everything it uses".to_owned(),
                    Vec::new(),
                    None,
                ));
            }
        }
        for (span, message, related, help) in messages {
            let diagnostic = self.report.error(span, message);
            if diagnostic.related.is_empty() {
                diagnostic.related = related;
            }
            diagnostic.help = help;
        }
        self.mark_used(&reached);
    }

    fn mark_used(&mut self, reached: &HashSet<u32>) {
        for entry in self.symbols.values_mut() {
            if let Symbol::Sub(index) = entry.symbol
                && reached.contains(&index)
            {
                entry.used = true;
            }
        }
    }

    #[expect(clippy::type_complexity, reason = "a message with its parts, local to this file")]
    fn walk(
        &self,
        sub: u32,
        state: State,
        seen: &mut HashSet<u32>,
        path: &mut Vec<(Span, String)>,
        messages: &mut Vec<(Span, String, Vec<(Span, String)>, Option<String>)>,
    ) {
        if !seen.insert(sub) {
            return;
        }
        let Some(uses) = self.uses.get(sub as usize) else { return };
        let name = state.subroutine();
        for one in uses.uses.iter().filter(|one| !one.allowed.has(state)) {
            let what = match one.access {
                Access::Read if ACTIONS.contains(&&*one.name) => "Not a valid action in",
                Access::Read => "Not available in",
                Access::Write => "Cannot be set in",
                Access::Unset => "Cannot be unset in",
            };
            let via = if path.is_empty() { "" } else { "\nNot available from subroutine" };
            let via = if via.is_empty() { String::new() } else { format!("{via} '{name}'.") };
            messages.push((
                one.span,
                format!("'{}': {what} subroutine '{name}'.{via}", one.name),
                path.clone(),
                Some(where_it_is(one.allowed)),
            ));
        }
        for (action, span) in &uses.returns {
            if state.actions().contains(action) {
                continue;
            }
            let allowed: Vec<_> = state.actions().iter().map(|action| action.name()).collect();
            messages.push((
                *span,
                format!(
                    "Invalid return \"{}\"\nNot a valid action in subroutine '{name}'",
                    action.name()
                ),
                path.clone(),
                Some(format!("{name} can return {}", allowed.join(", "))),
            ));
        }
        for (callee, span) in &uses.calls {
            path.push((*span, "called from here".into()));
            self.walk(*callee, state, seen, path, messages);
            path.pop();
        }
    }

    /// Reports subroutines that call themselves, directly or not, with the calls that lead there.
    fn check_recursion(&mut self) -> bool {
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
    fn check_depth(&mut self) -> bool {
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

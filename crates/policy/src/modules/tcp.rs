//! `tcp`: how the client's connection sends, and what the kernel knows of it.

use super::{Arguments, Function, Module, NOTHING, function};
use crate::program::Value;
use crate::runtime::{ConnectionFacts, Control, Event, Result, Run};

pub(super) const MODULE: Module =
    Module { name: "tcp", classes: &[], functions: FUNCTIONS, is_test: false };

const FUNCTIONS: &[Function] = &[
    function("INT congestion_algorithm(STRING algorithm)", congestion_algorithm),
    function("VOID dump_info()", dump_info),
    function("REAL get_estimated_rtt()", get_estimated_rtt),
    function("VOID set_socket_pace(INT)", set_socket_pace),
];

fn said(run: &mut Run<'_>, is_error: bool, text: &str) {
    if run.traced {
        run.host.trace(match is_error {
            true => Event::Error(text),
            false => Event::Log(text.as_bytes()),
        });
    }
}

/// 0 where it was chosen, -1 where not.
fn congestion_algorithm(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let name = run.string(arguments.text(0)).into_owned();
    let is_chosen = run.host.control_connection(Control::CongestionControl(&name));
    if is_chosen {
        said(run, false, &format!("getsockopt() returned: {name}"));
    } else {
        said(run, true, &format!("TCP_CONGESTION setsockopt() for \"{name}\" failed."));
    }
    Ok(Value::Int(if is_chosen { 0 } else { -1 }))
}

fn dump_info(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    let Some(facts) = run.host.connection() else {
        said(run, true, "getsockopt() failed");
        return NOTHING;
    };
    let ConnectionFacts { snd_mss, rcv_mss, lost, retrans, .. } = facts;
    let text = format!("tcpi: snd_mss={snd_mss} rcv_mss={rcv_mss} lost={lost} retrans={retrans}");
    said(run, false, &text);
    let ConnectionFacts { pmtu, rtt, rttvar, snd_cwnd, advmss, reordering, .. } = facts;
    let text = format!(
        "tcpi2: pmtu={pmtu} rtt={rtt} rttvar={rttvar} snd_cwnd={snd_cwnd} advmss={advmss} \
         reordering={reordering}"
    );
    said(run, false, &text);
    NOTHING
}

/// In ms; 0 where it is not known.
fn get_estimated_rtt(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    let Some(facts) = run.host.connection() else {
        said(run, true, "getsockopt() failed");
        return Ok(Value::Real(0.0));
    };
    Ok(Value::Real(f64::from(facts.rtt / 1000)))
}

/// In KB (1024 bytes) a second.
fn set_socket_pace(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let rate = arguments.int(0);
    let pace = u64::try_from(rate).unwrap_or(0).saturating_mul(1024);
    if run.host.control_connection(Control::Pace(pace)) {
        said(run, false, &format!("vmod-tcp: Socket paced to {rate} KB/s."));
    } else {
        said(run, true, "set_socket_pace(): Error setting pace rate.");
    }
    NOTHING
}

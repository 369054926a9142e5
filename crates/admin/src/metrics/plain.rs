//! The text form that was there before OpenMetrics
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format>, version 0.0.4), for
//! readers that know no other: families have the names of their samples there.

use std::fmt::Write as _;

/// What OpenMetrics text says, in that form.
pub(super) fn of(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 4096);
    // Its type, which the name goes by, comes behind it.
    let mut help = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some((family, kind)) =
            line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", kind),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                _ => ("", kind),
            };
            if let Some((_, help)) = help.take().filter(|(name, _)| *name == family) {
                let _ = writeln!(out, "# HELP {family}{suffix} {help}");
            }
            let _ = writeln!(out, "# TYPE {family}{suffix} {kind}");
        } else if !line.starts_with('#') {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_their_whole_name_and_nothing_marks_the_end() {
        let text = "# HELP a_requests Requests.\n# TYPE a_requests counter\na_requests_total 2\n\
                    # HELP a_bytes What is there.\n# TYPE a_bytes gauge\n# UNIT a_bytes bytes\n\
                    a_bytes{of=\"# TYPE\"} 1.0\n# TYPE a_build info\na_build_info{v=\"1\"} 1\n# EOF\n";
        let plain = "# HELP a_requests_total Requests.\n# TYPE a_requests_total counter\n\
                     a_requests_total 2\n# HELP a_bytes What is there.\n# TYPE a_bytes gauge\n\
                     a_bytes{of=\"# TYPE\"} 1.0\n# TYPE a_build_info gauge\na_build_info{v=\"1\"} 1\n";
        assert_eq!(of(text), plain);
    }
}

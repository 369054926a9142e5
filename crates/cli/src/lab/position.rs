//! `freshet lab position`: how well clients of a made-up mobile network are located, and false positions found.

use super::NOT_MET;
use crate::form::FormArguments;
use anyhow::Result;
use clap::Args;
use freshet_radio::position::study::{
    self, DRIFT_S, Kind, PARTICLES_MAX, Settings, Study, TRACE_S, TRACES_MAX,
};
use freshet_report::{Cell, Column, Document, KeyFigure, Section, Table, Verdict};
use std::process::ExitCode;

/// `freshet lab position`
#[derive(Args)]
#[command(
    after_help = "docs/mec-interfaces.md says what the networks are like and what the figures rest on."
)]
pub(super) struct Position {
    /// What all chance follows from: the same one gives the same figures.
    #[arg(long, value_name = "N", default_value_t = Settings::default().seed)]
    seed: u64,
    /// Clients in each network, each followed for five minutes.
    #[arg(long, value_name = "N", default_value_t = Settings::default().traces as u64,
          value_parser = clap::value_parser!(u64).range(1..=TRACES_MAX as u64))]
    traces: u64,
    /// Particles of each estimate.
    #[arg(long, value_name = "N", default_value_t = Settings::default().particles as u64,
          value_parser = clap::value_parser!(u64).range(1..=PARTICLES_MAX as u64))]
    particles: u64,
    #[command(flatten)]
    form: FormArguments,
}

/// What a figure should be.
struct Objective {
    name: &'static str,
    value: String,
    limit: &'static str,
    is_met: bool,
}

impl Position {
    pub(super) fn run(self) -> Result<ExitCode> {
        let settings = Settings {
            seed: self.seed,
            traces: self.traces as usize,
            particles: self.particles as usize,
        };
        let study = study::run(&settings);
        let objectives = objectives(&study);
        let text = if self.form.is_json() {
            json(&settings, &study, &objectives)
        } else {
            freshet_report::text::render(&document(&settings, &study, &objectives))
        };
        crate::text::print(&text)?;
        let are_met = objectives.iter().all(|one| one.is_met);
        Ok(if are_met { ExitCode::SUCCESS } else { NOT_MET.into() })
    }
}

fn objectives(study: &Study) -> Vec<Objective> {
    let urban = &study.accuracy[0];
    let share = |found: usize, of: usize| 100.0 * found as f64 / of.max(1) as f64;
    let least = |wanted: &dyn Fn(Kind) -> bool| {
        let kinds = study.spoofing.iter().filter(|one| wanted(one.kind));
        kinds.map(|one| share(one.found, one.traces)).fold(100.0, f64::min)
    };
    let jumps = least(&|kind| matches!(kind, Kind::Jump(length_m) if length_m >= 200.0));
    let drifts = least(&|kind| matches!(kind, Kind::Drift(_)));
    let doubted = share(study.honest[0].doubted, study.honest[0].traces);
    let better = urban.site_error_m[0] / urban.error_m[0];
    let of = |name, value, limit, is_met| Objective { name, value, limit, is_met };
    vec![
        of("urban, half of errors", metres(urban.error_m[0]), "65 m", urban.error_m[0] <= 65.0),
        of("urban, 95 of 100", metres(urban.error_m[1]), "180 m", urban.error_m[1] <= 180.0),
        of("better than the site", format!("{better:.1} times"), "2.5", better >= 2.5),
        of("jumps of 200 m and more", format!("{jumps:.0} % found"), "90 %", jumps >= 90.0),
        of("drag-off", format!("{drifts:.0} % found"), "90 %", drifts >= 90.0),
        of("honest, but doubted", format!("{doubted:.0} %"), "12 %", doubted <= 12.0),
    ]
}

fn metres(value: f64) -> String {
    format!("{value:.0} m")
}

fn document(settings: &Settings, study: &Study, objectives: &[Objective]) -> Document {
    let mut errors = Table::new([
        Column::text("network"),
        Column::number("CEP50"),
        Column::number("CEP95"),
        Column::number("site alone"),
        Column::number("in radius"),
    ])
    .caption(
        "Errors: half of them and 95 of 100, beside those of the serving site as the position",
    );
    for one in &study.accuracy {
        errors.push([
            Cell::from(one.network),
            metres(one.error_m[0]).into(),
            metres(one.error_m[1]).into(),
            format!("{:.0} / {:.0} m", one.site_error_m[0], one.site_error_m[1]).into(),
            format!("{:.0} %", one.within * 100.0).into(),
        ]);
    }
    let mut claims = Table::new([
        Column::text("claims"),
        Column::number("found"),
        Column::number("of"),
        Column::number("half after"),
    ])
    .caption(
        "Claims that are false from the sixtieth second on, by the network's measurements alone",
    );
    for one in &study.spoofing {
        let after = one.median_s.map_or_else(String::new, |seconds| format!("{seconds} s"));
        claims.push([
            Cell::from(one.kind.to_string()),
            one.found.to_string().into(),
            one.traces.to_string().into(),
            after.into(),
        ]);
    }
    for (name, one) in ["honest", "honest, harder network"].into_iter().zip(&study.honest) {
        claims.push([
            Cell::from(name),
            one.doubted.to_string().into(),
            one.traces.to_string().into(),
            String::new().into(),
        ]);
    }
    let mut section = Section::new("Result");
    for one in objectives {
        let verdict = if one.is_met { Verdict::Pass } else { Verdict::Fail };
        section
            .push(KeyFigure::new(one.name, one.value.as_str()).limit(one.limit).verdict(verdict));
    }
    let Settings { seed, traces, particles } = settings;
    Document::new("Positions in a made-up mobile network")
        .summary(format!(
            "Seed {seed}, {traces} clients of {TRACE_S} s in each network, {particles} particles; drag-off is looked \
             at for {DRIFT_S} s."
        ))
        .with(section.with(errors).with(claims))
        .footer(
            "Without measurements of a real network these are figures of a model. In the harder one shadowing is 9 dB \
             for 6 and ways are twice as much longer as the estimates expect.",
        )
}

fn json(settings: &Settings, study: &Study, objectives: &[Objective]) -> String {
    let accuracy = study.accuracy.iter().map(|one| {
        serde_json::json!({
            "network": one.network,
            "cep50_m": one.error_m[0], "cep95_m": one.error_m[1],
            "site_cep50_m": one.site_error_m[0], "site_cep95_m": one.site_error_m[1],
            "within_radius": one.within, "radius_m": one.radius_m,
        })
    });
    let spoofing = study.spoofing.iter().map(|one| {
        serde_json::json!({
            "claims": one.kind.to_string(), "traces": one.traces, "found": one.found, "median_s": one.median_s,
        })
    });
    let honest = study.honest.iter().map(|one| {
        serde_json::json!({ "traces": one.traces, "doubted": one.doubted, "seconds": one.seconds })
    });
    let objectives = objectives.iter().map(|one| {
        serde_json::json!({ "name": one.name, "value": one.value, "limit": one.limit, "met": one.is_met })
    });
    let value = serde_json::json!({
        "seed": settings.seed, "traces": settings.traces, "particles": settings.particles,
        "accuracy": accuracy.collect::<Vec<_>>(),
        "spoofing": spoofing.collect::<Vec<_>>(),
        "honest": honest.collect::<Vec<_>>(),
        "objectives": objectives.collect::<Vec<_>>(),
    });
    format!("{value:#}\n")
}

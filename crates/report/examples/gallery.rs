//! Everything a report can show, to look at: `cargo run -p freshet-report --example gallery`
//! writes the page to standard output, with `-- text` the same for a terminal.

use freshet_report::{
    Axis, Block, Cell, Column, Document, KeyFigure, Plot, Section, Series, Table, Verdict, html,
    text,
};
use std::io::Write as _;

fn main() -> std::io::Result<()> {
    let document = Document::new("Everything a report can show")
        .summary("A gallery with `code`, <signs> & \"quotes\", for looking at.")
        .with(figures())
        .with(tables())
        .with(plots())
        .footer("freshet-report, gallery");
    let is_text = std::env::args().nth(1).is_some_and(|word| word == "text");
    let shown = if is_text { text::render(&document) } else { html::page(&document) };
    std::io::stdout().write_all(shown.as_bytes())
}

fn figures() -> Section {
    Section::new("Key figures")
        .with(
            KeyFigure::new("time to first byte, p99", "12.4 ms")
                .limit("at most 20 ms")
                .verdict(Verdict::Pass),
        )
        .with(KeyFigure::new("late segments", "1.4 %").limit("at most 1 %").verdict(Verdict::Fail))
        .with(
            KeyFigure::new("requests a second per watt", "–")
                .limit("no power meter")
                .verdict(Verdict::Open),
        )
        .with(KeyFigure::new("channels in a server", "1,024"))
        .with(Block::note("Load and node shared four cores."))
}

fn tables() -> Section {
    let table = Table::new([
        Column::text("configuration"),
        Column::number("power, W"),
        Column::number("cost, USD"),
        Column::text("what it is good for"),
        Column::text("verdict"),
    ])
    .caption("Some servers and a long explanation of each")
    .with([
        Cell::from("memory only"),
        Cell::from("1,100"),
        Cell::from("25,053"),
        Cell::from(
            "live channels, as memory does not wear out however often a window is rewritten",
        ),
        Cell::from(Verdict::Pass),
    ])
    .with([
        Cell::from("memory and flash"),
        Cell::from("1,160"),
        Cell::from("26,868"),
        Cell::from("titles on demand"),
        Cell::judged("12 %", Verdict::Fail),
    ]);
    Section::new("Tables and text")
        .with("Running text of some length, so that it can be seen where it breaks on a narrow window and on paper, and that its lines do not get too long to read on a wide one.")
        .with(Block::items(["one point", "another with `freshet plan energy`"]))
        .with(Block::listing("freshet plan energy --vary pue=1.1..1.6 --format html > energy.html"))
        .with(table)
}

fn plots() -> Section {
    let curve = |factor: f64| {
        (1..=20)
            .map(|x| f64::from(x) * 25.0)
            .map(move |x| (x, 42.0 * (1.0 - (-x / (factor * 60.0)).exp())))
            .collect()
    };
    let lines = Plot::lines(
        "Throughput over channels",
        Axis::new("channels in a virtual machine"),
        Axis::new("throughput").unit("Gbit/s"),
    )
    .series(Series::new("memory only", curve(1.0)))
    .series(Series::new("persistent memory 2-2-1", curve(1.4)))
    .series(Series::new(
        "persistent memory 2-2-2 with a rather long name that needs room in a legend",
        curve(2.2),
    ))
    .limit("wanted", 33.0);
    let log = Plot::lines(
        "Miss ratio over capacity",
        Axis::new("capacity").unit("bytes").log(),
        Axis::new("miss ratio"),
    )
    .series(Series::new(
        "by requests",
        (0..30).map(|i| (1e6 * 1.5f64.powi(i), 0.9 * 0.87f64.powi(i))).collect(),
    ))
    .series(Series::new(
        "by bytes",
        (0..30).map(|i| (1e6 * 1.5f64.powi(i), 0.95 * 0.9f64.powi(i))).collect(),
    ));
    let energy = [
        [29.36, 55.26, 107.06, 214.12, 269.38],
        [17.27, 31.08, 58.71, 117.42, 148.50],
        [6.56, 6.56, 9.67, 15.89, 18.99],
    ];
    let names = ["10 Gbit/s servers", "25 Gbit/s servers", "200 Gbit/s servers"];
    let sites = [
        "100 Gbit/s site",
        "200 Gbit/s site",
        "400 Gbit/s site",
        "800 Gbit/s site",
        "1 Tbit/s site",
    ];
    let bars = names.into_iter().zip(energy).fold(
        Plot::bars("Energy of a site in a year", sites, Axis::new("energy").unit("MWh")),
        |plot, (name, values)| plot.series(Series::values(name, values)),
    );
    let turned = Plot::bars(
        "Many names",
        (1..=14).map(|i| format!("configuration-{i}")),
        Axis::new("balance").unit("USD"),
    )
    .series(Series::values("balance", (0..14).map(|i| f64::from(i - 5) * 1234.0)));
    let percentiles = Plot::percentiles("Time to first byte", Axis::new("time").unit("ms").log())
        .series(Series::new(
            "hit",
            vec![
                (0.0, 0.2),
                (50.0, 0.5),
                (90.0, 0.9),
                (99.0, 4.0),
                (99.9, 9.0),
                (99.99, 31.0),
                (100.0, 40.0),
            ],
        ))
        .series(Series::new(
            "miss",
            vec![
                (0.0, 2.2),
                (50.0, 5.0),
                (90.0, 9.0),
                (99.0, 14.0),
                (99.9, 49.0),
                (99.99, 131.0),
                (100.0, 160.0),
            ],
        ))
        .limit("limit at p99", 20.0);
    let scatter = Plot::scatter(
        "Power and rate",
        Axis::new("power").unit("W"),
        Axis::new("rate").unit("Gbit/s"),
    )
    .series(Series::new(
        "one processor",
        (0..60)
            .map(|i| (150.0 + f64::from(i) * 5.0, 40.0 + f64::from(i * 7919 % 61) * 4.0))
            .collect(),
    ))
    .series(Series::new(
        "two processors",
        (0..60)
            .map(|i| (400.0 + f64::from(i) * 9.0, 300.0 + f64::from(i * 104_729 % 97) * 8.0))
            .collect(),
    ));
    Section::new("Plots")
        .with(lines)
        .with(log)
        .with(bars)
        .with(turned)
        .with(percentiles)
        .with(scatter)
}

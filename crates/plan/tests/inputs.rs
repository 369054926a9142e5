//! Inputs of one's own: what is replaced, what is refused, and how that is said.

use freshet_plan::{File, Model, PlanError, Request, Vary, plan, present};

fn with_file(model: Model, text: &str) -> Result<freshet_plan::outcome::Outcome, PlanError> {
    let file = Some(File { name: "mine.toml", text });
    plan(model, &Request { file, ..Request::default() })
}

fn refusal(model: Model, text: &str) -> String {
    match with_file(model, text) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => error.to_string(),
    }
}

fn flag_refusal(model: Model, key: &str, value: &str) -> String {
    let set = vec![(key.to_owned(), value.to_owned())];
    plan(model, &Request { set, ..Request::default() }).expect_err("it must be refused").to_string()
}

#[test]
fn the_papers_inputs_given_as_a_file_change_nothing() {
    for model in Model::ALL {
        let base = plan(model, &Request::default()).unwrap();
        let same = with_file(model, model.inputs()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(base.figures, same.figures, "{}", model.name());
        assert!(same.inputs.iter().any(|input| input.source.starts_with("mine.toml:")));
    }
}

#[test]
fn what_a_file_gives_replaces_the_paper_and_keeps_its_comment() {
    let outcome =
        with_file(Model::Energy, "pue = 1.2\nyears = \"3 years\" # our contract\n").unwrap();
    assert!(outcome.inputs.iter().all(|input| input.key != "pue"), "energy knows no PUE");
    let cost = with_file(Model::Cost, "years = \"3 years\" # our contract\n").unwrap();
    let years = cost.inputs.iter().find(|input| input.key == "years").unwrap();
    assert_eq!(
        (years.value.as_str(), years.source.as_str()),
        ("3 years", "mine.toml:1, our contract")
    );
}

#[test]
fn servers_of_ones_own_replace_all_of_the_papers() {
    let outcome = with_file(
        Model::Energy,
        "sites = [\"50 Gbit/s\"]\n[[server]]\nname = \"ours\"\nrate = \"25 Gbit/s\"\npower = \"200 W\"\n\
         switch-rate = \"1 Tbit/s\"\nswitch-power = \"0 W\"\n",
    )
    .unwrap();
    let row = &outcome.tables[0].rows;
    assert_eq!(row.len(), 1);
    // Two servers of 200 W at 98.56 % for 8760 hours.
    let energy = 2.0 * 200.0 * 0.9856 * 8760.0 / 1e6;
    assert!(
        matches!(row[0][1], freshet_plan::outcome::Value::Number(e) if (e - energy).abs() < 1e-9)
    );
}

#[test]
fn a_ladder_of_bit_rates_gives_its_segment() {
    let outcome = with_file(
        Model::Channels,
        "segment-time = \"4 s\"\n[[object]]\nname = \"720p\"\nrate = \"4 Mbit/s\"\n[[object]]\nname = \
         \"sound\"\nsize = \"64 kB\"\n[[configuration]]\nname = \"box\"\nstore = \"512 GB\"\n",
    )
    .unwrap();
    // 4 Mbit/s for 4 s are 2 MB; 90 segments of 2.064 MB for six minutes; four machines.
    let channels = (4.0_f64 * 512e9 / (2.064e6 * 90.0)).floor();
    assert_eq!(outcome.figures[0].value, channels, "{:?}", outcome.figures);
}

#[test]
fn each_mistake_is_shown_at_its_line_with_what_to_do() {
    let cases = [
        (
            Model::Cost,
            "\nprcie = \"1 USD/kWh\"\n",
            vec!["mine.toml:2", "prcie", "did you mean `price`?"],
        ),
        (
            Model::Cost,
            "price = \"12 GB\"",
            vec!["mine.toml:1", "an amount of data", "0.12 USD/kWh"],
        ),
        (Model::Cost, "price = \"12.5 USD/mWh\"", vec!["did you mean `MWh`?"]),
        (Model::Cost, "pue = 0.8", vec!["`pue` is 0.8 and must be at least 1"]),
        (Model::Cost, "price = \"-1 USD/kWh\"", vec!["must not be less than zero"]),
        (
            Model::Carbon,
            "[[fuel]]\nname = \"gas\"\nshare = \"60 %\"\nintensity = \"1 kgCO2e/MWh\"",
            vec!["mine.toml:3", "make 60.0000 %, not 100 %"],
        ),
        (
            Model::Energy,
            "[[server]]\nname = \"a\"\nrate = \"1 Gbit/s\"",
            vec!["needs `power`", "1.1 kW"],
        ),
        (
            Model::Energy,
            "[[server]]\nname = \"a\"\nwatts = 3",
            vec!["no input `watts` in `[[server]]`"],
        ),
        (
            Model::Energy,
            "[server]\nname = \"a\"",
            vec!["mine.toml:1", "[[server]]", "two brackets"],
        ),
        (
            Model::Energy,
            "[[replacement]]\nname = \"r\"\nsite = \"1 Gbit/s\"\nold = \"x\"\nnew = \"y\"",
            vec!["no `[[server]]` is called that", "10 Gbit/s servers"],
        ),
        (Model::Tco, "price = \"0.1 EUR/kWh\"", vec!["EUR", "USD", "one currency"]),
        (Model::Tco, "compare-with = \"x\"", vec!["no `[[configuration]]` is called `x`"]),
        (
            Model::Energy,
            "[[server]]\nname = \"a\"\nin-table = \"no\"\nrate = \"1 Gbit/s\"\npower = \"1 W\"\n\
             switch-rate = \"1 Gbit/s\"\nswitch-power = \"1 W\"",
            vec!["mine.toml:3", "`in-table` is `no`", "`true` or `false`"],
        ),
        (Model::Tco, "servers-per-rack = \"x\"", vec!["`servers-per-rack = 8`"]),
        (Model::Cost, "price = \"0,19 EUR/kWh\"", vec!["has a comma", "with a point"]),
        (Model::Tco, "servers-per-rack = 1.5", vec!["must be a whole number"]),
        (Model::Channels, "buffer = \"2 s\"", vec!["shorter than one segment"]),
        (Model::Channels, "[[object]]\nname = \"a\"", vec!["neither a size nor a bit rate"]),
        (
            Model::Endurance,
            "[[medium]]\nname = \"m\"\ncapacity = \"1 TB\"",
            vec!["neither a rating"],
        ),
        (Model::Fleet, "hit-ratio-wanted = \"99 %\"", vec!["does not reach", "[[point]]"]),
        (Model::Fleet, "viewers = 1e40", vec!["too large"]),
        (Model::Fleet, "[[tier]]\nname=\"a\"\n[[tier]]\nname=\"a\"", vec!["two of `[[tier]]`"]),
        (Model::Fleet, "pue = \n", vec!["mine.toml:1"]),
        (
            Model::Forwarding,
            "rate-after = \"2.5 Mpps\"",
            vec!["mine.toml:1", "falls by 14.4 %", "at the higher frequency"],
        ),
        (
            Model::Forwarding,
            "cores = 6\nrate-after = \"4 Mpps\"",
            vec!["mine.toml:2", "grows by 37 %", "frequency by 21.7 %"],
        ),
        (
            Model::Forwarding,
            "frequency-after = \"2 GHz\"",
            vec!["mine.toml:1", "not above the one before"],
        ),
        (
            Model::Forwarding,
            "[[packet]]\nname = \"a\"\nsize = \"64 B\"\nshare = \"60 %\"\n[[packet]]\nname = \"b\"\n\
             size = \"1500 B\"\nshare = \"30 %\"",
            vec!["mine.toml:8", "`[[packet]]` make 90.0000 %, not 100 %"],
        ),
        (
            Model::Forwarding,
            "rate-flat = \"-1 Mpps\"\nrate-before = \"nan Mpps\"",
            vec!["mine.toml:1", "must be more than zero", "mine.toml:2"],
        ),
    ];
    for (model, text, expected) in cases {
        let message = refusal(model, text);
        for part in expected {
            assert!(message.contains(part), "{text:?} should name {part:?}:\n{message}");
        }
    }
}

#[test]
fn a_key_of_another_shape_is_a_mistake_and_not_missing() {
    for (model, text, place, must) in [
        (Model::Cost, "pue = [1.2]", "mine.toml:1", "one value"),
        (Model::Cost, "\nsites = \"200 Gbit/s\"", "mine.toml:2", "a list of values"),
        (Model::Cost, "server = \"x\"", "mine.toml:1", "a repeated table"),
        (Model::Cost, "load = []", "mine.toml:1", "a repeated table"),
        (Model::Cost, "[[sites]]\nname = \"x\"", "mine.toml:1", "a list of values"),
        (Model::Channels, "segment = [\"50 MB\"]", "mine.toml:1", "one value"),
        (Model::Carbon, "carbon-counts-pue = [true]", "mine.toml:1", "one value"),
        (Model::Tco, "compare-with = [\"PMem 2-2-1\"]", "mine.toml:1", "one value"),
        (
            Model::Channels,
            "[[object]]\nname = \"a\"\nrate = \"1 Mbit/s\"\nsize = [\"3 MB\"]",
            "mine.toml:4",
            "one value",
        ),
        (Model::Energy, "[[load]]\nname = [\"low\"]", "mine.toml:2", "one value"),
    ] {
        let message = refusal(model, text);
        assert!(message.contains(place), "{text}: {message}");
        assert!(message.contains(&format!("must be {must}")), "{text}: {message}");
    }
}

#[test]
fn machines_that_fit_to_the_byte_all_count() {
    let host = "memory.384 GB DRAM, 16 GB VMs";
    let set = [("size", "9.6 GB"), ("of-a-vm", "3.2 GB")]
        .map(|(key, value)| (format!("{host}.{key}"), value.to_owned()));
    let outcome =
        plan(Model::Memory, &Request { set: set.to_vec(), ..Request::default() }).unwrap();
    let found = outcome.figures.iter().find(|figure| host.ends_with(&figure.name)).unwrap();
    assert_eq!(found.value, 3.0);
}

#[test]
fn an_object_that_a_flag_changes_is_in_the_segment() {
    let channels = |size: &str| {
        let set = vec![("object.4K video 1.size".to_owned(), size.to_owned())];
        plan(Model::Channels, &Request { set, ..Request::default() }).unwrap().figures[0].value
    };
    assert!(channels("24 MB") < 0.75 * channels("12 MB"));
}

#[test]
fn notes_of_the_papers_inputs_are_gone_with_them() {
    let server = "[[server]]\nname = \"ours\"\nrate = \"100 Gbit/s\"\npower = \"310 W\"\n\
                  switch-rate = \"3 Tbit/s\"\nswitch-power = \"250 W\"\n";
    let box_ = "compare-with = \"ours\"\n[[configuration]]\nname = \"ours\"\ncost = \"1 USD\"\n\
                power = \"1 kW\"\nrack-units = \"1 RU\"\nrate = \"9 Gbit/s\"\nchannels = 3\n";
    let drive = "[[medium]]\nname = \"QLC\"\ncapacity = \"1 TB\"\nrating = \"1 DWPD\"\n";
    for (model, text, note) in [
        (Model::Cost, "price = \"0.2 EUR/kWh\"\n", "0.0125"),
        (Model::Energy, server, "400 Gbit/s servers"),
        (Model::Energy, server, "prints no powers"),
        (Model::Tco, box_, "Rack units"),
        (Model::Tco, box_, "Figure 12"),
        (Model::Endurance, drive, "0.41 DWPD"),
        (Model::Latency, "radio = \"4 ms\"\n", "`20 ms`"),
    ] {
        let says = |notes: &[String]| notes.iter().any(|other| other.contains(note));
        let of_paper = plan(model, &Request::default()).unwrap();
        assert!(says(&of_paper.assumptions), "{note}: {:?}", of_paper.assumptions);
        let own = with_file(model, text).unwrap_or_else(|error| panic!("{error}"));
        assert!(!says(&own.assumptions), "{note}: {:?}", own.assumptions);
    }
}

#[test]
fn servers_can_be_replaced_by_such_as_need_no_switch() {
    let saved = |switches: &str| {
        let key = "replacement.25 by 200, as in the conclusion.new-switches";
        let set = vec![(key.to_owned(), switches.to_owned())];
        let outcome = plan(Model::Energy, &Request { set, ..Request::default() }).unwrap();
        let table = outcome.tables.iter().find(|table| table.name == "replacement").unwrap();
        let name = "25 by 200, as in the conclusion".into();
        match table.rows.iter().find(|row| row[0] == name).unwrap()[1] {
            freshet_plan::outcome::Value::Number(saved) => saved,
            freshet_plan::outcome::Value::Text(_) => f64::NAN,
        }
    };
    let of_a_switch = saved("1") - saved("2");
    assert!(of_a_switch > 1.0 && (saved("0") - saved("1") - of_a_switch).abs() < 1e-9);
}

#[test]
fn all_mistakes_are_shown_at_once() {
    let message = refusal(Model::Cost, "pue = 0.5\nprcie = 1\nyears = \"x\"\n");
    assert_eq!(message.matches("error").count(), 3, "{message}");
}

#[test]
fn flags_are_held_to_the_same() {
    assert!(flag_refusal(Model::Cost, "pue", "0.8").contains("must be at least 1"));
    assert!(flag_refusal(Model::Cost, "pu", "1.8").contains("did you mean `pue`?"));
    assert!(flag_refusal(Model::Tco, "price", "0.1 EUR/kWh").contains("one currency"));
    let message = flag_refusal(Model::Energy, "server.25 Gbit/s servers.powr", "1 W");
    assert!(message.contains("did you mean `server.25 Gbit/s servers.power`?"), "{message}");
    let message = flag_refusal(Model::Forwarding, "rate-before", "3.5 Mpps");
    assert!(message.contains("falls by 0.9 %"), "{message}");
    let message = flag_refusal(Model::Forwarding, "packet.64 B.share", "30 %");
    assert!(message.contains("make 110.0000 %"), "{message}");
}

#[test]
fn a_range_runs_the_model_at_each_point() {
    let vary: Vec<Vary> =
        vec!["pue=1.0..2.0:3".parse().unwrap(), "years=1..2 years:2".parse().unwrap()];
    let outcome = plan(Model::Cost, &Request { vary, ..Request::default() }).unwrap();
    let table = &outcome.range.as_ref().unwrap().table;
    assert_eq!(table.rows.len(), 6);
    let number = |row: usize, column: usize| match table.rows[row][column] {
        freshet_plan::outcome::Value::Number(number) => number,
        freshet_plan::outcome::Value::Text(_) => f64::NAN,
    };
    // Cost is proportional to the PUE and to the years.
    assert!((number(2, 2) / number(0, 2) - 2.0).abs() < 1e-9);
    assert!((number(3, 2) / number(0, 2) - 2.0).abs() < 1e-9);
    let wrong: Vec<Vary> = vec!["pue=0.5..2".parse().unwrap()];
    let error = plan(Model::Cost, &Request { vary: wrong, ..Request::default() }).unwrap_err();
    assert!(error.to_string().contains("must be at least 1"), "{error}");
}

#[test]
fn a_second_range_has_as_many_points_as_it_says_or_is_refused() {
    let rows = |second: &str| {
        let vary = vec!["pue=1.0..2.0:2".parse().unwrap(), second.parse().unwrap()];
        let outcome = plan(Model::Cost, &Request { vary, ..Request::default() });
        outcome.map(|outcome| outcome.range.unwrap().table.rows.len())
    };
    assert_eq!(rows("years=1..8 years:8"), Ok(16));
    assert_eq!(rows("years=1..8 years"), Ok(16));
    let error = rows("years=1..20 years:20").unwrap_err().to_string();
    assert!(error.contains("20 points of a second input; it has 8 at most"), "{error}");
}

#[test]
fn a_range_of_counts_is_told_how_many_points_it_wants() {
    let vary = vec!["sockets=1..4".parse().unwrap()];
    let error = plan(Model::Channels, &Request { vary, ..Request::default() }).unwrap_err();
    assert!(error.to_string().contains("`sockets=1..4:4`"), "{error}");
}

#[test]
fn figures_are_not_named_after_one_point_of_a_range() {
    let vary = vec!["headline-site=100..800 Gbit/s:2".parse().unwrap()];
    let outcome = plan(Model::Cost, &Request { vary, ..Request::default() }).unwrap();
    let csv = present::as_csv(&outcome);
    let head = csv.lines().next().unwrap();
    assert!(head.contains("headline-site of 10 Gbit/s servers"), "{head}");
    assert!(!head.contains("400 Gbit/s of"), "{head}");
}

#[test]
fn every_form_of_every_model_is_usable() {
    for model in Model::ALL {
        for vary in [vec![], vec!["years=1..5 years:3"]] {
            if !vary.is_empty() && !matches!(model, Model::Tco | Model::Cost) {
                continue;
            }
            let vary = vary.into_iter().map(|text| text.parse().unwrap()).collect();
            let outcome = plan(model, &Request { vary, ..Request::default() }).unwrap();
            let text = present::as_text(&outcome);
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{}", model.name());
            let json: serde_json::Value =
                serde_json::from_str(&present::as_json(&outcome)).unwrap();
            assert_eq!(json["model"], model.name());
            assert!(json["inputs"].as_array().unwrap().len() > 3);
            assert!(present::as_csv(&outcome).lines().count() > 3);
            assert!(present::as_html(&outcome).contains("<svg"));
        }
    }
}

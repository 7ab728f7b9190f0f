//! The report, from records of every kind: complete, interrupted, just begun, and hostile.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

#[path = "support/seen.rs"]
mod seen;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use cli::report::{Args, Error, render};
use proptest::prelude::*;
use record::identifiers::analyse;
use record::{
    CertificateUse, Goal, GoalSummary, Interval, Latency, Observation, Outcome, Results, Run, State,
    Steadiness, Summary, Trial, Window,
};

const FIXTURES: [&str; 4] = ["quick", "interrupted", "started", "hostile"];

fn fixture_text(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/results-{name}.json"));
    fs::read_to_string(path).unwrap()
}

fn fixture(name: &str) -> Results {
    serde_json::from_str(&fixture_text(name)).unwrap()
}

/// Everything that the report can say of a record.
fn everything(results: &Results) -> Vec<(String, String)> {
    let mut all = vec![
        ("text".to_owned(), report::text(results)),
        ("verdict".to_owned(), report::verdict(results)),
        ("report.html".to_owned(), report::html(results)),
        ("trials.csv".to_owned(), report::trials_csv(results)),
    ];
    all.extend(report::svg_figures(results));
    all.extend(report::tables(results));
    let trials = results.runs.iter().flat_map(|run| &run.trials);
    all.extend(trials.map(|trial| ("trial".to_owned(), report::trial_text(trial))));
    all
}

#[test]
fn the_terminal_summary_reads_well() {
    insta::assert_snapshot!("text_quick", report::text(&fixture("quick")));
    insta::assert_snapshot!("text_interrupted", report::text(&fixture("interrupted")));
    insta::assert_snapshot!("text_started", report::text(&fixture("started")));
}

#[test]
fn goals_and_steadiness_read_well() {
    let mut results = fixture("quick");
    let goal = |loss_pct, exceed_pct| Goal { loss_pct, exceed_pct, ..Goal::default() };
    results.settings.search = record::SearchMode::Mlr;
    results.settings.goals = vec![goal(0.0, 0.0), goal(0.01, 50.0)];
    let summary = results.summary.clone().unwrap();
    let found = |loss_pct, exceed_pct, by: u64| GoalSummary {
        loss_pct,
        exceed_pct,
        lower: Summary { median: summary.median + by as f64, max: summary.max + by, ..summary.clone() },
        conditional_median_qps: summary.median,
    };
    results.goals = vec![found(0.0, 0.0, 0), found(0.01, 50.0, 500)];
    results.steadiness = Some(Steadiness {
        drift_pct: Some(-2.5),
        drift_p_value: Some(0.017),
        noise_floor_pct: Some(1.25),
        noise_index_pct: Some(0.85),
    });
    insta::assert_snapshot!("text_goals", report::text(&results));
}

#[test]
fn a_trial_reads_well() {
    let results = fixture("quick");
    let mut trials = results.runs.iter().flat_map(|run| &run.trials);
    let failed = trials.clone().find(|trial| trial.invalid > 0).unwrap();
    let void = trials.find(|trial| trial.outcome == Outcome::Void).unwrap();
    insta::assert_snapshot!("trial_failed", report::trial_text(failed));
    insta::assert_snapshot!("trial_void", report::trial_text(void));
}

#[test]
fn tables_for_papers_name_their_deviations() {
    let tables = report::tables(&fixture("quick"));
    let summary = &tables.iter().find(|(name, _)| name == "summary.tex").unwrap().1;
    insta::assert_snapshot!("summary_tex", summary);
}

/// As in a paper: booktabs, and longtable for those that go on over several pages.
#[test]
fn the_latex_tables_compile() {
    if !testing::has_program("pdflatex", "texlive-latex-recommended") {
        return;
    }
    let mut long = fixture("quick");
    let trials = long.runs[0].trials.clone();
    long.runs[0].trials = trials.iter().cycle().take(60).cloned().collect();
    for (name, results) in [("quick", fixture("quick")), ("hostile", fixture("hostile")), ("long", long)] {
        let dir = tempfile::tempdir().unwrap();
        let mut paper = String::from(
            "\\documentclass{article}\\usepackage[T1]{fontenc}\\usepackage[utf8]{inputenc}\n\
             \\usepackage{textcomp,booktabs,longtable}\\begin{document}\n",
        );
        let tables = report::tables(&results);
        for (file, text) in tables.iter().filter(|(file, _)| file.ends_with(".tex")) {
            fs::write(dir.path().join(file), text).unwrap();
            paper += &format!("\\input{{{file}}}\\clearpage\n");
        }
        fs::write(dir.path().join("paper.tex"), paper + "\\end{document}\n").unwrap();
        let mut latex = Command::new("pdflatex");
        latex.args(["-interaction=nonstopmode", "-halt-on-error", "paper.tex"]).current_dir(dir.path());
        let output = latex.stdin(Stdio::null()).output().unwrap();
        let log = String::from_utf8_lossy(&output.stdout);
        let fault: Vec<&str> = log.lines().skip_while(|line| !line.starts_with('!')).take(4).collect();
        assert!(output.status.success(), "{name}: {fault:?}");
        assert!(fs::read(dir.path().join("paper.pdf")).unwrap().starts_with(b"%PDF"), "{name}");
    }
}

#[test]
fn figures_become_png_where_the_program_is() {
    if !testing::has_program("rsvg-convert", "librsvg2-bin") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(report::png_figures(dir.path()).unwrap(), 0, "nothing to draw is no fault");
    report::write_all(&fixture("quick"), dir.path()).unwrap();
    let drawn = report::png_figures(dir.path()).unwrap();
    assert_eq!(drawn, report::svg_figures(&fixture("quick")).len());
    let png = fs::read(dir.path().join("figures/rates.png")).unwrap();
    let side = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    assert_eq!((&png[1..4], side(16), side(20)), (&b"PNG"[..], 3 * 720, 3 * 300));
}

#[test]
fn pages_and_drawings_are_well_formed() {
    for name in FIXTURES {
        for (file, text) in everything(&fixture(name)) {
            if file.ends_with(".html") || file.ends_with(".svg") {
                markup::check(&text, file.ends_with(".svg"))
                    .unwrap_or_else(|fault| panic!("{name} {file}: {fault}"));
            }
        }
    }
}

#[test]
fn the_page_asks_nothing_of_the_network_and_can_be_navigated() {
    for name in FIXTURES {
        let page = report::html(&fixture(name));
        let tags = markup::tags(&page);
        let ids: Vec<&str> = tags.iter().filter_map(|tag| tag.attribute("id")).collect();
        let unique: BTreeSet<&str> = ids.iter().copied().collect();
        assert_eq!(ids.len(), unique.len(), "{name}: an id is used twice");
        let mut level = 0;
        for tag in &tags {
            assert!(
                !["link", "img", "iframe", "object", "embed", "base", "use", "image"].contains(&tag.name),
                "{tag:?}"
            );
            for (attribute, value) in &tag.attributes {
                assert!(
                    !value.contains("://") || attribute.starts_with("aria-") || *attribute == "content",
                    "{tag:?}"
                );
                assert!(!["src", "srcset", "style", "xlink:href", "action"].contains(attribute), "{tag:?}");
                assert!(!attribute.starts_with("on"), "{tag:?}");
            }
            if let Some(target) = tag.attribute("href") {
                let known = ["results.json", "trials.csv", "figures/", "tables/"].contains(&target);
                assert!(known || target.strip_prefix('#').is_some_and(|id| unique.contains(id)), "{tag:?}");
            }
            if let Some(heading) = tag.name.strip_prefix('h').and_then(|digit| digit.parse::<u32>().ok()) {
                assert!(heading <= level + 1, "{name}: <{}> after <h{level}>", tag.name);
                level = heading;
            }
            if tag.name == "svg" {
                assert_eq!(tag.attribute("role"), Some("img"));
                assert!(tag.attribute("aria-label").is_some_and(|label| !label.is_empty()));
            }
        }
    }
}

/// The record of a server that counts its IDs, as an AuthDNS would have seen it.
fn observed() -> Results {
    Results { observed: Some(analyse(&seen::queries(), 4000, Some(2000))), ..fixture("quick") }
}

#[test]
fn a_server_that_counts_is_told_so() {
    let results = observed();
    insta::assert_snapshot!("observed", report::observed_text(results.observed.as_ref().unwrap()));
    for (file, text) in everything(&results) {
        if file.ends_with(".html") || file.ends_with(".svg") {
            markup::check(&text, file.ends_with(".svg")).unwrap_or_else(|fault| panic!("{file}: {fault}"));
        }
    }
    assert!(report::html(&results).contains("IDs follow each other: the step is +3"));
    assert!(report::text(&results).contains("Its own queries"));
    assert_eq!(
        report::svg_figures(&results).iter().filter(|(name, _)| name.starts_with("query-")).count(),
        2
    );
}

#[test]
fn what_confirms_a_certificate_is_not_taken_for_what_it_certifies() {
    let mut results = fixture("quick");
    let selftest = results.selftest.get_or_insert_default();
    let used =
        CertificateUse { required_qps: 2_200_000, trial_s: 60.0, path: "lab".into(), ..Default::default() };
    (selftest.passed, selftest.required_qps, selftest.certified_qps) = (true, 660_000, 1_000_000);
    (selftest.certificate, selftest.trials) = (Some(used), vec![Trial::default()]);
    let page = report::html(&results).replace('\u{a0}', " ");
    assert!(page.contains("confirmed now at 660,000 q/s") && page.contains("2,200,000 q/s for"));
    assert!(!page.contains("answered itself"), "660,000 q/s alone are fit for less");
}

#[test]
fn hostile_figures_of_queries_are_drawn_as_well() {
    let mut results = observed();
    for wild in [f64::NAN, f64::INFINITY, -1e300, 1e300] {
        let analysis = results.observed.as_mut().unwrap();
        (analysis.kept, analysis.tcp, analysis.rate_qps) = (1, u64::MAX, wild);
        (analysis.duration_s, analysis.spoofing.ids, analysis.spoofing.even_chance_s) = (wild, wild, wild);
        (analysis.ids.pool, analysis.ids.tests[0].p_value) = (wild, wild);
        analysis.points = vec![(wild, 1, 2), (-wild, u16::MAX, 0)];
        analysis.findings[0].text = "<script>\u{202e}\u{7}".repeat(1000);
        for (file, text) in everything(&results) {
            if file.ends_with(".html") || file.ends_with(".svg") {
                markup::check(&text, file.ends_with(".svg"))
                    .unwrap_or_else(|fault| panic!("{file}: {fault}"));
                assert!(text.matches("<script").count() <= 1 && !text.contains('\u{202e}'), "{file}");
            }
            assert!(!text.replace("Number.isNaN", "").contains("NaN"), "{file}");
        }
    }
}

#[test]
fn hostile_texts_stay_texts() {
    let results = fixture("hostile");
    for (file, text) in everything(&results) {
        let active = |c: char| (c.is_control() && c != '\n' && c != '\t') || c == '\u{202e}';
        assert!(!text.chars().any(active), "{file}: a control character came through");
        match file.rsplit('.').next().unwrap() {
            "html" => assert_eq!(text.matches("<script").count(), 1, "{file}: a script came through"),
            "svg" => assert_eq!(text.matches("<script").count(), 0, "{file}: a script came through"),
            "tex" => assert!(!text.contains("\\input"), "{file}: a command came through"),
            _ => {}
        }
    }
    let csv = report::trials_csv(&results);
    let rows = csv_rows(&csv);
    assert!(rows.len() > 8 && rows.iter().all(|row| row.len() == rows[0].len()), "a cell broke its row");
}

#[test]
fn every_trial_is_in_the_csv() {
    let results = fixture("quick");
    let rows = csv_rows(&report::trials_csv(&results));
    let column = |name: &str| rows[0].iter().position(|head| head == name).unwrap();
    let found: Vec<(String, String)> =
        rows[1..].iter().map(|row| (row[column("run")].clone(), row[column("sent")].clone())).collect();
    let tested =
        results.selftest.iter().flat_map(|test| &test.trials).map(|trial| (String::new(), trial.sent));
    let searched = results.runs.iter().enumerate();
    let searched = searched
        .flat_map(|(index, run)| run.trials.iter().map(move |trial| ((index + 1).to_string(), trial.sent)));
    let last = results.latency_trial.iter().map(|trial| (String::new(), trial.sent));
    let expected: Vec<(String, String)> =
        tested.chain(searched).chain(last).map(|(run, sent)| (run, sent.to_string())).collect();
    assert_eq!(found, expected);
}

#[test]
fn the_page_leads_with_the_verdict_and_its_limits() {
    let page = report::html(&fixture("quick"));
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("the page lacks {text:?}"));
    assert!(place("P1 (= min, n = 3)") < place("Trials shorter than RFC 8219 asks"));
    assert!(place("Trials shorter than RFC 8219 asks") < place("id=\"rates\""));
    for chart in [
        "Rate found by each",
        "Path of search 3",
        "Latency at 29,375 q/s",
        "got no valid answer",
        "Processors at",
    ] {
        place(chart);
    }
    assert!(report::html(&fixture("interrupted")).contains("Interrupted"));
    let mut results = fixture("quick");
    results.selftest.as_mut().unwrap().passed = false;
    results.runs[0].at_ceiling = true;
    let page = report::html(&results);
    assert!(
        page.contains("Self-test not passed")
            && page.contains("At the ceiling")
            && !page.contains("≥ 58,125")
    );
    results.runs.iter_mut().for_each(|run| run.at_ceiling = true);
    assert!(
        report::html(&results).contains("≥ 58,125") && report::text(&results).contains("at least 58,125 q/s")
    );
}

#[test]
fn a_record_of_very_many_trials_makes_a_page_of_bounded_size() {
    let mut results = fixture("quick");
    let trials = results.runs[0].trials.clone();
    results.runs[0].trials = trials.iter().cycle().take(50_000).cloned().collect();
    let run = Run { trials: trials[..1].to_vec(), qps: 1_000, ..Run::default() };
    results.runs.extend(std::iter::repeat_n(run, 5_000));
    let page = report::html(&results);
    assert!(page.len() < 12_000_000, "{} octets", page.len());
    assert_eq!(
        report::trials_csv(&results).lines().count(),
        1 + 1 + 50_000 + trials_of(&fixture("quick"), 1..) + 5_000 + 1
    );
}

fn trials_of(results: &Results, runs: std::ops::RangeFrom<usize>) -> usize {
    results.runs[runs].iter().map(|run| run.trials.len()).sum()
}

#[test]
fn fixtures_follow_the_schema_and_its_document_names_every_field() {
    let document = include_str!("../../../../docs/results-schema.md");
    for name in FIXTURES {
        let record = serde_json::to_value(fixture(name)).unwrap();
        let mut names = BTreeSet::new();
        field_names(&record, &mut names);
        for field in names {
            assert!(document.contains(&format!("`{field}`")), "docs/results-schema.md lacks `{field}`");
        }
    }
}

fn field_names(value: &serde_json::Value, names: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                names.insert(name.clone());
                // Their keys are data.
                if name != "losses" && name != "invalid_reasons" {
                    field_names(value, names);
                }
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| field_names(item, names)),
        _ => {}
    }
}

fn rendered(dir: &Path, json: bool) -> Result<String, Error> {
    let mut out = Vec::new();
    render(
        &Args { dirs: vec![dir.to_owned()], index: None, out: None, png: false, open: false, json },
        &mut out,
    )?;
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn the_command_renders_a_directory_again() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("results.json"), fixture_text("quick")).unwrap();
    for _ in 0..2 {
        let printed = rendered(dir.path(), false).unwrap();
        assert!(printed.starts_with(&report::text(&fixture("quick"))) && printed.ends_with("report.html\n"));
    }
    let printed = rendered(dir.path(), true).unwrap();
    assert_eq!(serde_json::from_str::<Results>(&printed).unwrap(), fixture("quick"));
    let mut files: Vec<String> = Vec::new();
    for folder in ["", "figures", "tables"] {
        for entry in fs::read_dir(dir.path().join(folder)).unwrap() {
            files.push(Path::new(folder).join(entry.unwrap().file_name()).display().to_string());
        }
    }
    files.sort();
    insta::assert_snapshot!("files", files.join("\n"));
    assert_eq!(fs::read_to_string(dir.path().join("report.html")).unwrap(), report::html(&fixture("quick")));
}

#[test]
fn bad_directories_get_one_clear_line() {
    let dir = tempfile::tempdir().unwrap();
    let fault = |content: Option<&str>| {
        match content {
            Some(content) => fs::write(dir.path().join("results.json"), content).unwrap(),
            None => drop(fs::remove_file(dir.path().join("results.json"))),
        }
        let error = rendered(dir.path(), false).unwrap_err().to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
        error.replace(&dir.path().display().to_string(), "DIR")
    };
    let quick = fixture_text("quick");
    let half = quick.char_indices().nth(quick.len() / 2).unwrap().0;
    let lines = [
        fault(None),
        fault(Some("")),
        fault(Some(&quick[..half])).split(", at line").next().unwrap().to_owned(),
        fault(Some(
            &quick.replacen("\"schema\": 1", "\"schema\": 7", 1).replace("sextant 0.1.0", "sextant 3.2.0"),
        )),
        fault(Some("{\"schema\": 7}")),
        fault(Some("{\"schema\": 8, \"tool\": \"x\\u001b[2J\\ny\"}")),
        fault(Some("{\"latency\": 1}")),
        fault(Some("num_queries,valid\n1,1\n")),
        fault(Some("{\"schema\": 1, \"kind\": \"bench\"}")),
        fault(Some(&"[".repeat(100_000))),
    ];
    insta::assert_snapshot!("faults", lines.join("\n"));
    let gone = rendered(&dir.path().join("none"), false).unwrap_err().to_string();
    assert!(gone.ends_with("none: no such directory; give a result directory"), "{gone}");
}

#[test]
fn a_file_that_cannot_be_written_is_named_and_nothing_half_written_stays() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("results.json"), fixture_text("quick")).unwrap();
    fs::write(dir.path().join("figures"), "in the way").unwrap();
    let error = report::write_all(&fixture("quick"), dir.path()).unwrap_err().to_string();
    assert!(error.contains("figures: cannot be written"), "{error}");
    assert!(
        fs::read_dir(dir.path()).unwrap().all(|entry| !entry
            .unwrap()
            .file_name()
            .to_string_lossy()
            .starts_with('.'))
    );
}

/// Rows and cells of comma-separated values, as RFC 4180 has them.
fn csv_rows(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut letters = text.chars().peekable();
    while let Some(c) = letters.next() {
        match c {
            '"' if quoted && letters.peek() == Some(&'"') => cell.extend(letters.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            _ => cell.push(c),
        }
    }
    assert!(!quoted && row.is_empty() && cell.is_empty(), "the last row does not end");
    rows
}

prop_compose! {
    fn latency()(times in any::<[u64; 5]>(), mean in any::<f64>()) -> Latency {
        Latency { p50: times[0], p90: times[1], p99: times[2], p999: times[3], max: times[4], mean }
    }
}

prop_compose! {
    fn observation()(shares in any::<[Option<f64>; 7]>(), counters in any::<[Option<u64>; 6]>(), elapsed_s in any::<f64>())
        -> Observation {
        Observation {
            elapsed_s,
            dut_cpu_us_per_query: shares[0],
            dut_cpu_pct: shares[1],
            dut_hottest_thread_pct: shares[2],
            dut_hottest_thread: shares[2].map(|_| "worker".to_owned()),
            dut_memory_octets: counters[0],
            dut_socket_drops: counters[1],
            tester_cpu_us_per_query: shares[3],
            foreign_cpu_pct: shares[4],
            steal_pct: shares[5],
            softnet_drops: counters[2],
            auth_queries: counters[3],
            auth_answers: counters[4],
            auth_socket_drops: counters[5],
            auth_queries_per_query: shares[6],
            device: shares[6].map(|_| "eth0".to_owned()),
            device_tx_drops: counters[1],
            device_rx_drops: counters[2],
            ..Observation::default()
        }
    }
}

prop_compose! {
    fn trial()(
        counts in any::<[u64; 10]>(),
        outcome in prop_oneof![Just(Outcome::Pass), Just(Outcome::Fail), Just(Outcome::Void)],
        duration_s in any::<f64>(),
        latency_ns in latency(),
        share in any::<f64>(),
        losses in prop::collection::btree_map(".{0,12}", any::<u64>(), 0..14),
        latency_curve in prop::collection::vec(any::<(f64, u64)>(), 0..8),
        series in prop::collection::vec(any::<(f64, u64, u64, u64)>(), 0..8),
        observation in prop::option::of(observation()),
    ) -> Trial {
        let window = Window { worst_pct: share, cv_pct: -share, off_pct: share, ..Window::default() };
        Trial {
            rate_qps: counts[0], scheduled: counts[1], sent: counts[2], answered: counts[3], valid: counts[4],
            invalid: counts[5], late: counts[6], lost: counts[7], valid_compat: counts[8], duplicates: counts[9],
            duration_s, outcome, latency_ns, latency_from_send_ns: latency_ns,
            windows: record::Windows { ms1: window, ms10: window, ms100: window },
            invalid_reasons: losses.clone(),
            losses: losses.iter().map(|(place, count)| (place.as_str().into(), *count)).collect(), latency_curve, observation,
            series: series.into_iter()
                .map(|(start_s, sent, valid, failed)| Interval { start_s, sent, valid, failed }).collect(),
            ..Trial::default()
        }
    }
}

prop_compose! {
    fn record()(
        runs in prop::collection::vec((any::<u64>(), any::<u64>(), prop::collection::vec(trial(), 0..4)), 0..4),
        latency_trial in prop::option::of(trial()),
        summary in prop::option::of((any::<usize>(), any::<f64>(), any::<[u64; 5]>())),
        state in prop_oneof![Just(State::Running), Just(State::Complete), Just(State::Interrupted), ".*".prop_map(State::Failed)],
        name in ".*",
    ) -> Results {
        let mut results = fixture("started");
        results.runs = runs.into_iter().map(|(rate, stop_width_qps, trials)| {
            // Half of the rates are those of a trial, as in a true record.
            let qps = trials.first().map_or(rate, |trial| if rate % 2 == 0 { trial.rate_qps } else { rate });
            Run { qps, stop_width_qps, trials, ..Run::default() }
        }).collect();
        results.latency_trial = latency_trial;
        results.summary = summary.map(|(n, median, rates)| Summary {
            n, median, p1: rates[0], p99: rates[1], min: rates[2], max: rates[3], dispersion_pct: -median,
            median_interval: None, stop_width_qps: rates[4], stop_width_connections: None,
        });
        results.state = state;
        results.dut.name = name;
        results
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_numbers_make_a_report(results in record()) {
        for (file, text) in everything(&results) {
            if file.ends_with(".html") || file.ends_with(".svg") {
                markup::check(&text, file.ends_with(".svg")).map_err(TestCaseError::fail)?;
                let shapes = markup::tags(&text);
                let attributes = shapes.iter().flat_map(|tag| &tag.attributes);
                // Only these hold coordinates; texts may well say "inf".
                for (name, value) in attributes.filter(|(name, _)| ["d", "x", "y", "x1", "cx", "cy", "width"].contains(name)) {
                    prop_assert!(!value.contains("NaN") && !value.contains("inf"), "{file}: {name}=\"{value}\"");
                }
            }
        }
    }
}

#[test]
fn no_number_is_printed_as_nan_or_infinite() {
    let mut results = fixture("quick");
    for trial in results.runs.iter_mut().flat_map(|run| &mut run.trials).chain(&mut results.latency_trial) {
        trial.latency_ns.mean = f64::NAN;
        trial.duration_s = f64::INFINITY;
        trial.windows.ms10.worst_pct = f64::NEG_INFINITY;
        trial.latency_curve.push((f64::NAN, 1));
        if let Some(seen) = &mut trial.observation {
            (seen.elapsed_s, seen.dut_cpu_pct) = (0.0, Some(f64::NAN));
        }
    }
    results.summary.as_mut().unwrap().median = f64::NAN;
    for (file, text) in everything(&results) {
        let text =
            if file.ends_with("html") { text.split("<script>").next().unwrap().to_owned() } else { text };
        let mut words = text.split(|c: char| !c.is_alphanumeric());
        assert!(
            !words.any(|word| ["nan", "inf", "infinity"].contains(&word.to_lowercase().as_str())),
            "{file}"
        );
    }
}

/// A strict reader of what the report writes: enough of HTML and XML to see that tags, quotes and references
/// are right.
mod markup {
    #[derive(Debug)]
    pub struct Tag<'a> {
        pub name: &'a str,
        pub attributes: Vec<(&'a str, &'a str)>,
        end: bool,
    }

    impl<'a> Tag<'a> {
        pub fn attribute(&self, name: &str) -> Option<&'a str> {
            self.attributes.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
        }
    }

    /// All tags, without checks of their order.
    pub fn tags(text: &str) -> Vec<Tag<'_>> {
        read(text).unwrap().into_iter().filter(|tag| !tag.end).collect()
    }

    /// Whether every element ends where it must; in XML there are no elements without an end.
    pub fn check(text: &str, xml: bool) -> Result<(), String> {
        let mut open: Vec<&str> = Vec::new();
        for tag in read(text)? {
            let mut names: Vec<&str> = tag.attributes.iter().map(|(name, _)| *name).collect();
            names.sort_unstable();
            names.dedup();
            if names.len() < tag.attributes.len() {
                return Err(format!("<{}> has an attribute twice", tag.name));
            }
            if tag.end {
                let begun = open.pop();
                if begun != Some(tag.name) {
                    return Err(format!("</{}> ends {begun:?}", tag.name));
                }
            } else if xml || !["meta", "br", "hr"].contains(&tag.name) {
                open.push(tag.name);
            }
        }
        if open.is_empty() { Ok(()) } else { Err(format!("{open:?} do not end")) }
    }

    fn read(text: &str) -> Result<Vec<Tag<'_>>, String> {
        let mut tags = Vec::new();
        let mut rest = text.strip_prefix("<!DOCTYPE html>").unwrap_or(text);
        if rest.starts_with("<?xml") {
            rest = rest.split_once("?>").ok_or("the declaration does not end")?.1;
        }
        while let Some(start) = rest.find('<') {
            content(&rest[..start])?;
            let (tag, after) = tag(&rest[start + 1..])?;
            rest = after;
            if !tag.end && (tag.name == "script" || tag.name == "style") {
                rest = &rest
                    [rest.find(&format!("</{}>", tag.name)).ok_or("a script or style does not end")?..];
            }
            tags.push(tag);
        }
        content(rest)?;
        Ok(tags)
    }

    fn tag(text: &str) -> Result<(Tag<'_>, &str), String> {
        let (end, text) = text.strip_prefix('/').map_or((false, text), |text| (true, text));
        let length = text.find(|c: char| !c.is_ascii_alphanumeric()).ok_or("a tag does not end")?;
        let (name, mut rest) = text.split_at(length);
        if name.is_empty() {
            return Err(format!(
                "a tag without a name before {:?}",
                rest.chars().take(30).collect::<String>()
            ));
        }
        let mut attributes = Vec::new();
        loop {
            rest = rest.trim_start();
            if let Some(after) = rest.strip_prefix('>') {
                return Ok((Tag { name, attributes, end }, after));
            }
            let length = rest
                .find(|c: char| !(c.is_ascii_alphanumeric() || "-:".contains(c)))
                .ok_or("no end of a tag")?;
            let (attribute, after) = rest.split_at(length);
            if attribute.is_empty() {
                return Err(format!("<{name} has a stray {:?}", rest.chars().next()));
            }
            (rest, attributes) = match after.strip_prefix("=\"") {
                Some(value) => {
                    let (value, after) = value.split_once('"').ok_or("a quote does not end")?;
                    content(value)?;
                    attributes.push((attribute, value));
                    (after, attributes)
                }
                None => {
                    attributes.push((attribute, ""));
                    (after, attributes)
                }
            };
        }
    }

    /// No bare `<` or `&`, no controls.
    fn content(text: &str) -> Result<(), String> {
        for (place, _) in text.match_indices('&') {
            let reference = text[place..].split_inclusive(';').next().unwrap_or("");
            if !["&amp;", "&lt;", "&gt;", "&quot;"].contains(&reference) {
                return Err(format!("a bare & before {:?}", reference.chars().take(20).collect::<String>()));
            }
        }
        match text.chars().find(|c| *c == '<' || (c.is_control() && *c != '\n' && *c != '\t')) {
            Some(c) => Err(format!("a bare {c:?}")),
            None => Ok(()),
        }
    }
}

//! `sextant campaign`: to its end, broken off and resumed, with failures, with bad input, on a full disk.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use record::campaign::{Series, VisitState};

use super::bench::Mount;
use super::running::{Background, alone, command, sextant, stderr};

/// A campaign of two cells, searches of a few tenths of a second, against these servers.
pub(super) fn description(directory: &Path, servers: &[&str], duration_s: &str) -> PathBuf {
    let servers = servers.iter().map(|server| format!("'{server}'")).collect::<Vec<_>>().join(", ");
    let text = format!(
        "name = 'mine'\ntitle = 'Mine'\n[quick]\nrounds = 2\noptions = ['--repetitions', '1', '--width', '50', \
         '--min-rate', '100', '--max-rate', '200', '--duration', '{duration_s}']\n[full]\nrounds = 3\n\
         [[part]]\ncommand = 'search'\n[[part.axis]]\noption = '--first-name'\nvalues = ['0', '1000']\n\
         [[part.axis]]\noption = '--server'\nvalues = [{servers}]\n\
         [[published]]\nwhat = 'theirs'\nsource = 'a paper'\nhardware = 'a machine'\nmedian_qps = 100.0\n"
    );
    // Brackets are no letters of a value: the servers here are on the IPv4 loopback.
    let path = directory.join("mine.toml");
    std::fs::write(&path, text).unwrap();
    path
}

pub(super) fn run(file: &Path, out: &Path, more: &[&str]) -> Output {
    let arguments = ["campaign", "run", file.to_str().unwrap(), "--out", out.to_str().unwrap()];
    sextant(&[&arguments, more].concat())
}

/// An AuthDNS on the IPv4 loopback.
pub(super) fn server() -> (Background, String) {
    let arguments =
        ["auth", "--listen", "127.0.0.1:0", "--aaaa-share", "100", "--aaaa-prefix", "2001:db8:64::/96"];
    let (auth, line) = Background::start(command(&arguments), "");
    let at = line.find("127.0.0.1:").expect("the ready line names the address");
    let address = line[at..].chars().take_while(|c| c.is_ascii_digit() || ".:".contains(*c)).collect();
    (auth, address)
}

fn states(directory: &Path) -> Vec<VisitState> {
    report::series::load(directory).unwrap().visits.into_iter().map(|visit| visit.state).collect()
}

/// Whether the machine spoilt a visit, as a void trial in the visit's record says. No other failure is the
/// machine's.
fn was_spoilt(directory: &Path, series: &Series) -> bool {
    let mut is_spoilt = false;
    for visit in &series.visits {
        let VisitState::Failed(reason) = &visit.state else { continue };
        let record = directory.join(visit.directory.as_ref().unwrap()).join("results.json");
        let text = std::fs::read_to_string(record).unwrap_or_else(|error| panic!("{reason}: {error}"));
        let results: record::Results = serde_json::from_str(&text).unwrap();
        let mut trials = results.runs.iter().flat_map(|run| &run.trials);
        assert!(trials.any(|trial| trial.void.is_some()), "{}: {reason}", visit.cell);
        testing::skip("busy machine", reason);
        is_spoilt = true;
    }
    is_spoilt
}

#[test]
fn a_campaign_is_measured_and_reported() {
    let _alone = alone();
    let base = tempfile::tempdir().unwrap();
    let (_auth, address) = server();
    let file = description(base.path(), &[&address], "0.1");
    let out = base.path().join("out");
    let output = run(&file, &out, &["--json"]);
    let series = report::series::load(&out).unwrap();
    if was_spoilt(&out, &series) {
        assert_eq!(output.status.code(), Some(1));
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let table: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(table["rows"].as_array().unwrap().len(), 2);
    assert_eq!(table["rows"][0]["summary"]["n"], 2, "both rounds count");
    assert_eq!(table["rows"][0]["ratio"], 1.0);
    let order: Vec<_> =
        series.visits.iter().map(|visit| (visit.settings[0].1.as_str(), visit.round)).collect();
    assert_eq!(order, [("0", 1), ("1000", 1), ("1000", 2), ("0", 2)]);
    let files = [
        "report.html",
        "report.md",
        "manifest.json",
        "manifest-after.json",
        "figures/rates.svg",
        "tables/cells.tex",
    ];
    for file in files {
        assert!(out.join(file).metadata().is_ok_and(|file| file.len() > 100), "{file}");
    }
    let visit = out.join(series.visits[0].directory.as_ref().unwrap());
    assert!(visit.join("report.html").exists() && visit.with_extension("log").exists());
    std::fs::remove_file(out.join("report.html")).unwrap();
    let again = sextant(&["report", out.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&again.stdout).into_owned();
    assert!(text.contains("theirs: 100 q/s") && text.contains("Mine, quick form"), "{text}");
    assert!(out.join("report.html").exists());
}

#[test]
fn what_was_broken_off_goes_on_and_what_was_done_is_not_done_again() {
    let _alone = alone();
    let base = tempfile::tempdir().unwrap();
    let (_auth, address) = server();
    let file = description(base.path(), &[&address], "0.5");
    let out = base.path().join("out");
    let arguments = ["campaign", "run", file.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let mut campaign = command(&arguments).spawn().unwrap();
    let pid = campaign.id();
    // The second visit has begun.
    let started = Instant::now();
    while states_or_none(&out).iter().filter(|state| **state == VisitState::Pending).count() != 2 {
        assert!(started.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(10));
    }
    campaign.kill().unwrap();
    campaign.wait().unwrap();
    let before = report::series::load(&out).unwrap();
    assert_eq!(before.visits[1].state, VisitState::Running, "the record says how far it came");
    assert!(before.finished_utc.is_none());
    // The visit ends with the campaign, whatever ends that.
    let started = Instant::now();
    while !super::running::children_pids_of(pid).is_empty() {
        assert!(started.elapsed() < Duration::from_secs(60));
    }

    let mut going_on = command(&["campaign", "resume", out.to_str().unwrap()]);
    let going_on = going_on.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let signalled = std::process::Command::new("kill").args(["-INT", &going_on.id().to_string()]).status();
    assert!(signalled.unwrap().success());
    let ended = going_on.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(3), "{}", stderr(&ended));
    assert!(stderr(&ended).contains("campaign resume"), "{}", stderr(&ended));
    assert!(states(&out).contains(&VisitState::Pending));

    let ended = sextant(&["campaign", "resume", out.to_str().unwrap()]);
    let after = report::series::load(&out).unwrap();
    if was_spoilt(&out, &after) {
        return;
    }
    assert_eq!(ended.status.code(), Some(0), "{}", stderr(&ended));
    assert!(
        after.visits.iter().all(|visit| visit.state == VisitState::Complete) && after.finished_utc.is_some()
    );
    assert_eq!(after.visits[0], before.visits[0], "what was done stays");
    let second = after.visits[1].directory.as_ref().unwrap();
    assert!(second.contains("-again-"), "{second}");
    assert!(out.join(before.visits[1].directory.as_ref().unwrap()).exists(), "and so does what was begun");
}

fn states_or_none(directory: &Path) -> Vec<VisitState> {
    report::series::load(directory)
        .map_or_else(|_| Vec::new(), |series| series.visits.into_iter().map(|v| v.state).collect())
}

#[test]
fn one_that_fails_does_not_end_the_others() {
    let _alone = alone();
    let base = tempfile::tempdir().unwrap();
    let (_auth, address) = server();
    // Nobody is at the discard port.
    let file = description(base.path(), &["127.0.0.1:9", &address], "0.1");
    let out = base.path().join("out");
    let output = run(&file, &out, &[]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("measurements failed; try them again"), "{}", stderr(&output));
    let mut series = report::series::load(&out).unwrap();
    let nobodys: Vec<_> = series.visits.extract_if(.., |visit| visit.settings[1].1.ends_with(":9")).collect();
    assert_eq!((nobodys.len(), series.visits.len()), (4, 4));
    for visit in nobodys {
        assert!(
            matches!(&visit.state, VisitState::Failed(why) if why.contains("127.0.0.1:9")),
            "{:?}",
            visit.state
        );
    }
    assert!(
        was_spoilt(&out, &series) || series.visits.iter().all(|visit| visit.state == VisitState::Complete)
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("failed: "), "{text}");
}

#[test]
fn bad_descriptions_and_records_are_one_line() {
    let base = tempfile::tempdir().unwrap();
    let file = description(base.path(), &["127.0.0.1:9"], "0.1");
    let good = std::fs::read_to_string(&file).unwrap();
    let out = base.path().join("out");
    for (old, new, words) in [
        ("[full]", "colour = 'red'\n[full]", "mine.toml:6: unknown field `colour`"),
        ("'--width', '50'", "'--width', '99'", "--width must be from 0.01"),
        ("--first-name", "--frist-name", "unexpected argument '--frist-name'"),
        ("'search'", "'selftest'", "write bench, search, trial, preflight"),
    ] {
        std::fs::write(&file, good.replace(old, new)).unwrap();
        let output = run(&file, &out, &[]);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(words) && text.lines().count() == 1, "{text}");
        assert!(!out.exists(), "nothing was begun");
    }
    for (arguments, words) in [
        (&["campaign", "run", "dns46"][..], "dns64-shootout, dns64-transports, p000-scaleup"),
        (&["campaign", "resume", base.path().to_str().unwrap()], "holds no campaign.json"),
    ] {
        let output = sextant(arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
    std::fs::create_dir(&out).unwrap();
    std::fs::write(out.join("campaign.json"), "{\"schema\": 99}").unwrap();
    for arguments in
        [["campaign", "resume", out.to_str().unwrap()], ["report", out.to_str().unwrap(), "--json"]]
    {
        let output = sextant(&arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("has schema 99"), "{}", stderr(&output));
    }
    std::fs::write(&file, &good).unwrap();
    let output = run(&file, &out, &[]);
    assert!(stderr(&output).contains("holds a campaign already"), "{}", stderr(&output));
}

#[test]
fn the_shipped_ones_are_listed_and_planned() {
    let listed = sextant(&["campaign", "list"]);
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.status.success() && text.contains("cache-aaaa-grid") && text.contains("quick "), "{text}");
    for line in text.lines() {
        let name = line.split_whitespace().next().unwrap();
        let shown = sextant(&["campaign", "show", name]);
        assert!(String::from_utf8_lossy(&shown.stdout).contains(&format!("name = \"{name}\"")));
        let plan = sextant(&["campaign", "plan", name, "--preset", "full"]);
        let plan = String::from_utf8_lossy(&plan.stdout).into_owned();
        assert!(plan.lines().count() > 1 && plan.starts_with("sextant "), "{plan}");
    }
}

#[test]
fn a_full_disk_is_named_and_what_was_measured_stays() {
    let _alone = alone();
    let Some(mount) = Mount::new("size=8m") else { return };
    let base = tempfile::tempdir().unwrap();
    let (_auth, address) = server();
    let file = description(base.path(), &[&address], "0.5");
    let out = mount.path().join("out");
    let arguments = ["campaign", "run", file.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let campaign = command(&arguments).spawn().unwrap();
    // The second visit has begun.
    let started = Instant::now();
    while states_or_none(&out).iter().filter(|state| **state == VisitState::Pending).count() != 2 {
        assert!(started.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut filler = std::fs::File::create(mount.path().join("filler")).unwrap();
    let full = std::iter::repeat_with(|| filler.write_all(&[1; 4096])).find_map(Result::err).unwrap();
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    let ended = campaign.wait_with_output().unwrap();
    let text = stderr(&ended);
    assert_eq!(ended.status.code(), Some(3), "{text}");
    assert!(text.contains("No space left on device") && !text.contains("panicked"), "{text}");
    let series = report::series::load(&out).unwrap();
    assert!(was_spoilt(&out, &series) || series.visits[0].state == VisitState::Complete, "{series:?}");
    let first = out.join(series.visits[0].directory.as_ref().unwrap()).join("results.json");
    let results: record::Results = serde_json::from_str(&std::fs::read_to_string(first).unwrap()).unwrap();
    assert!(!results.runs[0].trials.is_empty(), "what was measured stays");
}

#[test]
fn two_commands_are_measured_in_turns_and_compared() {
    let _alone = alone();
    let base = tempfile::tempdir().unwrap();
    let (_auth, address) = server();
    let out = base.path().join("ab");
    let out = out.to_str().unwrap();
    let search = |rate: &str| {
        format!(
            "search --server {address} --search fixed --max-rate {rate} --min-rate 100 --duration 0.1 --repetitions 2"
        )
    };
    let output = sextant(&["campaign", "ab", &search("200"), &search("200"), "--rounds", "2", "--out", out]);
    let series = report::series::load(Path::new(out)).unwrap();
    if was_spoilt(Path::new(out), &series) {
        return;
    }
    assert!(series.visits.iter().all(|visit| visit.state == VisitState::Complete), "{:?}", series.visits);
    let cells: String = series.visits.iter().map(|visit| visit.cell.as_str()).collect();
    assert_eq!(cells, "ABBA");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("Inconclusive: ") || text.contains("Same: "), "{text}{}", stderr(&output));
    assert!(text.contains("--cells A,B"), "{text}");
    let again = sextant(&["compare", out, "--cells", "A,B", "--json"]);
    let pair: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!((&pair["a"]["summary"]["n"], &pair["b"]["summary"]["n"]), (&4.into(), &4.into()), "{pair}");
    for (cells, reason) in [("A,C", "no cell 'C': there are A, B"), ("A", "--cells compares two cells")] {
        let refused = sextant(&["compare", out, "--cells", cells]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(stderr(&refused).contains(reason), "{}", stderr(&refused));
    }
    let wrong = sextant(&["campaign", "ab", "rm --all", "bench"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("write bench, search, trial, preflight"), "{}", stderr(&wrong));
}

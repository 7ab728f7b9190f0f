//! The report in a browser, opened from the disk without a network: Debian's Chromium, headless.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use serde_json::Value;

use super::campaign;
use super::running::{alone, sextant, stderr};

/// Runs first: whatever goes wrong from here on is noted.
const WATCH: &str = r#"<script>
const faults = [];
addEventListener("error", (event) => faults.push("error: " + event.message));
addEventListener("securitypolicyviolation", (event) => faults.push("refused: " + event.violatedDirective));
</script>"#;

/// Runs last: looks at the page as a person would, with the pointer, the mouse and a narrow screen.
const LOOK: &str = concat!("<script>", include_str!("look.js"), "</script>");

/// The accessibility checks of axe-core, of this version.
const AXE: &str = "axe-core@4.11.0";

/// axe-core's script; nothing, and a word why, where npm cannot fetch it: then the pages are looked at
/// without it.
fn axe() -> String {
    static AXE_JS: LazyLock<Option<String>> = LazyLock::new(fetch_axe);
    if AXE_JS.is_none() {
        testing::skip("axe-core", format!("accessibility is not looked at: npm cannot fetch {AXE}"));
    }
    AXE_JS.clone().unwrap_or_default()
}

/// Fetches the script, unless an earlier run has.
fn fetch_axe() -> Option<String> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("axe");
    let script = directory.join("package/axe.min.js");
    if !script.exists() {
        fs::create_dir_all(&directory).unwrap();
        let at = directory.to_str().unwrap();
        let packed =
            Command::new("npm").args(["pack", "--silent", AXE, "--pack-destination", at]).output().ok()?;
        let name = String::from_utf8_lossy(&packed.stdout).trim().to_owned();
        let mut unpack = Command::new("tar");
        unpack.args(["-xzf", &name, "package/axe.min.js"]).current_dir(&directory);
        packed.status.success().then_some(())?;
        unpack.status().ok()?.success().then_some(())?;
    }
    fs::read_to_string(script).ok()
}

/// Windows in pixels, and colours: a desktop, a phone, and a desktop in the dark.
const WINDOWS: [(&str, &str); 3] = [("1280,900", LIGHT), ("390,844", LIGHT), ("1280,900", DARK)];
const LIGHT: &str = "--blink-settings=preferredColorScheme=1";
const DARK: &str = "--blink-settings=preferredColorScheme=0";

fn chromium(page: &Path, more: &[&str]) -> std::process::Output {
    let profile = tempfile::tempdir().unwrap();
    let profile = format!("--user-data-dir={}", profile.path().display());
    let fixed = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"];
    // No name has an address: the network is off.
    let quiet = [
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        &profile,
    ];
    // A browser that hangs fails the test instead of holding up all others.
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=5", "120", "chromium"])
        .args(fixed)
        .args(quiet)
        .args(more)
        .arg(format!("file://{}", page.display()));
    command.stdin(Stdio::null()).output().unwrap()
}

/// What the look at a page finds fault with.
fn faults(report: &Path, (window, scheme): (&str, &str), axe: &str) -> Vec<Value> {
    let html = fs::read_to_string(report).unwrap();
    let html = html.replacen("<title>", &format!("{WATCH}<title>"), 1);
    let html = html.replacen("</body>", &format!("<script>{axe}</script>{LOOK}</body>"), 1);
    let copy = report.with_file_name("looked-at.html");
    fs::write(&copy, html).unwrap();
    let window = format!("--window-size={window}");
    let output = chromium(&copy, &[&window, scheme, "--virtual-time-budget=20000", "--dump-dom"]);
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        page.contains(&format!("data-dark=\"{}\"", scheme == DARK)),
        "the colours asked for are not shown"
    );
    let noted = page.split("data-faults=\"").nth(1).and_then(|rest| rest.split('"').next());
    let noted = noted.unwrap_or_else(|| panic!("the page was not looked at: {}", stderr(&output)));
    serde_json::from_str(&noted.replace("&quot;", "\"").replace("&amp;", "&").replace("&gt;", ">")).unwrap()
}

#[test]
fn reports_work_in_a_browser_from_the_disk() {
    if !testing::has_program("chromium", "chromium") {
        return;
    }
    let axe = axe();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/tester/cli/tests/fixtures");
    let all = tempfile::tempdir().unwrap();
    for name in ["quick", "interrupted", "hostile"] {
        let base = tempfile::tempdir().unwrap();
        fs::copy(fixtures.join(format!("results-{name}.json")), base.path().join("results.json")).unwrap();
        let output = sextant(&["report", base.path().to_str().unwrap()]);
        assert!(output.status.success(), "{}", stderr(&output));
        let report = base.path().join("report.html");
        for window in WINDOWS {
            assert_eq!(faults(&report, window, &axe), Vec::<Value>::new(), "{name} at {window:?}");
        }
        fs::create_dir(all.path().join(name)).unwrap();
        fs::copy(base.path().join("results.json"), all.path().join(name).join("results.json")).unwrap();
        let pdf = base.path().join("report.pdf");
        let print = format!("--print-to-pdf={}", pdf.display());
        chromium(&report, &[&print, "--no-pdf-header-footer"]);
        let pdf = fs::read(pdf).unwrap();
        assert!(pdf.starts_with(b"%PDF") && pdf.len() > 10_000, "{name}: {} octets", pdf.len());
    }
    index(all.path(), &axe);
}

#[test]
fn the_page_of_a_campaign_works_in_a_browser() {
    if !testing::has_program("chromium", "chromium") {
        return;
    }
    let _alone = alone();
    let base = tempfile::tempdir().unwrap();
    let (_auth, address) = campaign::server();
    let out = base.path().join("out");
    let file = campaign::description(base.path(), &[&address], "0.1");
    let output = campaign::run(&file, &out, &[]);
    // Some measurements may have failed on a busy machine; the page is there all the same.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    let axe = axe();
    for window in WINDOWS {
        assert_eq!(faults(&out.join("report.html"), window, &axe), Vec::<Value>::new(), "at {window:?}");
    }
}

/// The page of several results, one of them measured twice; what is no result is told.
fn index(all: &Path, axe: &str) {
    let again = all.join("again");
    fs::create_dir(&again).unwrap();
    let text = fs::read_to_string(all.join("quick/results.json")).unwrap();
    let mut record: Value = serde_json::from_str(&text).unwrap();
    record["started_utc"] = "2026-01-01T00:00:00Z".into();
    fs::write(again.join("results.json"), record.to_string()).unwrap();
    let dirs = ["quick", "again", "interrupted", "nothing"].map(|name| all.join(name).display().to_string());
    let page = all.join("index.html");
    let dirs: Vec<&str> = dirs.iter().map(String::as_str).collect();
    let output = sextant(&[&["report"], &dirs[..], &["--index", page.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("left out:") && stderr(&output).contains("nothing"),
        "{}",
        stderr(&output)
    );
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("3 of 4 results: "));
    for window in WINDOWS {
        assert_eq!(faults(&page, window, axe), Vec::<Value>::new(), "index at {window:?}");
    }
    let none = sextant(&["report", "/nonexistent/a", "/nonexistent/b"]);
    assert_eq!(none.status.code(), Some(2), "{}", stderr(&none));
}

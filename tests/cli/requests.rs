//! `sextant trial` with requests as real clients make them, against our AuthDNS and other servers.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::running::{Background, alone, auth, free_port, sextant, stderr};

/// A trial of 100 queries for the names of a small range, over and over.
fn trial(server: &str, options: &[&str]) -> Value {
    let repeated = ["--names", "10.0.0.0/24", "--repeat"];
    ask(server, &[&repeated[..], options].concat())
}

/// A trial of 100 queries.
fn ask(server: &str, options: &[&str]) -> Value {
    let fixed = ["--rate", "200", "--duration", "0.5", "--timeout", "0.5", "--json"];
    let output = sextant(&[&["trial", "--server", server], &fixed[..], options].concat());
    let trial: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{options:?}: {error}: {}", stderr(&output)));
    // A busy machine may void a trial.
    assert_eq!((number(&trial, "sent"), number(&trial, "unexpected")), (100, 0), "{trial}");
    trial
}

fn number(trial: &Value, name: &str) -> u64 {
    trial[name].as_u64().unwrap_or_else(|| panic!("{name} in {trial}"))
}

#[test]
fn options_and_classes_are_sent_as_they_are_asked_for() {
    let _alone = alone();
    let (_auth, server) = auth();
    let all = ["--edns-option", "65001:c0ffee", "--edns-option", "9", "--cookie", "--padding", "128"];
    let asked = trial(&server, &all);
    assert_eq!(number(&asked, "valid"), 100, "{asked}");
    let chaos = trial(&server, &["--qclass", "ch", "--qtype", "txt"]);
    assert_eq!((chaos["validity"].as_str(), number(&chaos, "valid")), (Some("response"), 100), "{chaos}");
    assert_eq!(number(&chaos["rcodes"], "REFUSED"), 100, "{chaos}");
    // The AuthDNS knows no key: a signed query must not pass for answered.
    let base = tempfile::tempdir().unwrap();
    let key = base.path().join("key");
    std::fs::write(&key, "key x { algorithm hmac-sha256; secret \"c2VjcmV0\"; };\n").unwrap();
    let signed = trial(&server, &["--tsig", key.to_str().unwrap()]);
    assert_eq!((number(&signed, "valid"), number(&signed, "invalid")), (0, 100), "{signed}");
    assert_eq!(number(&signed["invalid_reasons"], "no TSIG"), 100, "{signed}");
    for (options, reason) in [
        ("--edns-option cookie", "'cookie' is no option code"),
        ("--qclass 3", "'3' is no class"),
        ("--tsig /nonexistent", "cannot read a key from /nonexistent"),
        ("--tsig /dev/null", "no key as tsig-keygen writes it"),
        ("--qclass ch --input x", "cannot be used with"),
    ] {
        let options: Vec<&str> = options.split(' ').collect();
        let output = sextant(&[&["trial", "--server", &server, "--rate", "9"], &options[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(reason), "{options:?}: {}", stderr(&output));
    }
    let selftest = sextant(&["selftest", "--rate", "9", "--tsig", key.to_str().unwrap()]);
    assert!(stderr(&selftest).contains("leave out --tsig"), "{}", stderr(&selftest));
}

/// A zone with the names of 10.0.0.0/24 and their AAAA records.
fn write_zone(path: &Path) {
    let mut text = String::from("$TTL 300\n@ SOA ns host 1 3600 600 86400 300\n@ NS ns\nns AAAA ::1\n");
    for last in 0..=255 {
        text += &format!("010-000-000-{last:03} AAAA 2001:db8:64::a00:{last:x}\n");
    }
    std::fs::write(path, text).unwrap();
}

/// A new key for each algorithm, in a file named as the algorithm.
fn make_keys(directory: &Path) -> Vec<(&'static str, String, String)> {
    let made = ["hmac-sha256", "hmac-sha384", "hmac-sha512"].map(|algorithm| {
        let output = Command::new("/usr/sbin/tsig-keygen").args(["-a", algorithm, algorithm]).output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        let path = directory.join(algorithm);
        std::fs::write(&path, &text).unwrap();
        (algorithm, path.to_str().unwrap().to_owned(), text)
    });
    made.into()
}

/// BIND answers signed queries alone here, and those with a cookie only if it is BIND's.
#[test]
fn bind_takes_signatures_and_cookies() {
    if !testing::has_program("named", "bind9") {
        return;
    }
    let _alone = alone();
    let base = tempfile::tempdir().unwrap();
    let directory = base.path().display();
    write_zone(&base.path().join("zone"));
    let keys = make_keys(base.path());
    let (port, texts) = (free_port(), keys.iter().map(|(.., text)| text.as_str()).collect::<String>());
    let allowed: String = keys.iter().map(|(name, ..)| format!("key \"{name}\"; ")).collect();
    let config = base.path().join("named.conf");
    let text = format!(
        "{texts}options {{ directory \"{directory}\"; pid-file none; session-keyfile none; recursion no; \
         listen-on {{ none; }}; listen-on-v6 port {port} {{ ::1; }}; require-server-cookie yes; }};\n\
         logging {{ {} }};\ncontrols {{ }};\n\
         zone \"dns64perf.test\" {{ type primary; file \"zone\"; allow-query {{ {allowed} }}; \
         allow-update {{ {allowed} }}; }};\n",
        // What nobody reads would fill the pipe, and BIND would wait.
        ["security", "update", "update-security", "notify", "client"]
            .map(|category| format!("category {category} {{ null; }};"))
            .concat()
    );
    std::fs::write(&config, text).unwrap();
    let mut named = Command::new("/usr/sbin/named");
    named.args(["-g", "-c", config.to_str().unwrap()]).stdin(Stdio::null()).stdout(Stdio::null());
    let (_named, _) = Background::start(named, "all zones loaded");
    let server = format!("[::1]:{port}");
    for (algorithm, key, _) in &keys {
        let signed = trial(&server, &["--tsig", key, "--cookie", "--ports", "4"]);
        let (valid, refused) = (number(&signed, "valid"), number(&signed, "invalid"));
        // The first queries of each source have no cookie of BIND's yet.
        assert!((4..=40).contains(&refused) && valid + refused == 100, "{algorithm}: {signed}");
        assert_eq!(number(&signed["rcodes"], "YXRRSET"), refused, "the low bits of BADCOOKIE: {signed}");
    }
    check_updates(&server, base.path(), &keys[0].1);
    let unsigned = trial(&server, &["--cookie", "--ports", "1"]);
    assert_eq!(number(&unsigned, "valid"), 0);
    assert!(number(&unsigned["rcodes"], "REFUSED") >= 60, "{unsigned}");
    let wrong = base.path().join("wrong");
    std::fs::write(&wrong, "key hmac-sha256 { algorithm hmac-sha256; secret \"c2VjcmV0\"; };\n").unwrap();
    let wrong = trial(&server, &["--cookie", "--tsig", wrong.to_str().unwrap()]);
    assert_eq!(number(&wrong["rcodes"], "NOTAUTH"), number(&wrong, "answered"), "{wrong}");
    assert!(number(&wrong, "valid") == 0 && number(&wrong, "answered") > 0, "{wrong}");
}

/// Dynamic updates and NOTIFY as whole messages: each request has its response, signed where it was signed.
fn check_updates(server: &str, directory: &Path, key: &str) {
    const ZONE: &[u8] = b"\x09dns64perf\x04test\0\0\x06\0\x01";
    let update = [
        &[0, 0, 0x28, 0, 0, 1, 0, 0, 0, 1, 0, 0][..],
        ZONE,
        b"\x03new\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x01",
    ]
    .concat();
    let notify = [&[0, 0, 0x24, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], ZONE].concat();
    let file = directory.join("messages");
    let framed = [&update, &notify].map(|message| [&[0, message.len() as u8], &message[..]].concat());
    std::fs::write(&file, framed.concat()).unwrap();
    let input = ["--input", file.to_str().unwrap(), "--input-format", "wire"];
    let signed = ask(server, &[&input[..], &["--tsig", key]].concat());
    assert_eq!(number(&signed, "valid"), 100, "{signed}");
    assert!(number(&signed["rcodes"], "NOERROR") >= 50, "every update was taken: {signed}");
    let unsigned = ask(server, &input);
    assert!(number(&unsigned["rcodes"], "REFUSED") >= 50, "no update was taken: {unsigned}");
}

/// NSD signs the answers to signed queries.
#[test]
fn nsd_signs_its_answers() {
    if !testing::has_program("nsd", "nsd") || !testing::has_program("tsig-keygen", "bind9") {
        return;
    }
    let _alone = alone();
    let base = tempfile::tempdir().unwrap();
    let directory = base.path().display();
    write_zone(&base.path().join("zone"));
    let keys = make_keys(base.path());
    let port = free_port();
    let mut text = format!(
        "server:\n  ip-address: ::1@{port}\n  server-count: 1\n  username: \"\"\n  zonesdir: \"{directory}\"\n  \
         database: \"\"\n  pidfile: \"{directory}/pid\"\n  xfrdfile: \"{directory}/xfrd\"\n  \
         zonelistfile: \"{directory}/list\"\n  xfrdir: \"{directory}\"\nremote-control:\n  control-enable: no\n\
         zone:\n  name: dns64perf.test\n  zonefile: zone\n"
    );
    for (name, _, key) in &keys {
        let secret = key.split("secret \"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        text += &format!("key:\n  name: {name}\n  algorithm: {name}\n  secret: \"{secret}\"\n");
    }
    let config = base.path().join("nsd.conf");
    std::fs::write(&config, text).unwrap();
    let mut nsd = Command::new("/usr/sbin/nsd");
    nsd.args(["-d", "-c", config.to_str().unwrap()]).stdin(Stdio::null()).stdout(Stdio::null());
    let (nsd, _) = Background::start(nsd, "nsd started");
    let server = format!("[::1]:{port}");
    for (algorithm, key, _) in &keys {
        let signed = trial(&server, &["--tsig", key, "--threads", "2"]);
        assert_eq!((number(&signed, "valid"), number(&signed, "invalid")), (100, 0), "{algorithm}: {signed}");
    }
    nsd.signal("TERM");
}

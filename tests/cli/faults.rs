//! `sextant auth` with faults and an observer, asked by the Measurer: both must count the same.

use record::identifiers::Analysis;
use serde_json::Value;

use super::running::{Background, alone, command, sextant, stderr};

#[test]
fn measurer_and_authdns_agree_on_every_fault() {
    let _alone = alone();
    let arguments = "auth --listen 127.0.0.1:0 --io udp --aaaa-share 100 --aaaa-prefix 2001:db8:64::/96 --observe=500 --json \
                     --fault loss=10% --fault rcode=SERVFAIL,share=5% --fault wrong-id=5% --fault delay=2ms --fault-seed 3";
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let (auth, line) = Background::start(command(&arguments), "sextant auth: ready");
    assert!(line.contains("--fault 4 times with seed 3"), "{line}");
    let at = line.find("127.0.0.1:").unwrap();
    let address: String = line[at..].chars().take_while(|c| !c.is_whitespace() && *c != ',').collect();
    let trial = sextant(&["trial", "--server", &address, "--rate", "1000", "--duration", "1", "--json"]);
    auth.signal("TERM");
    let (code, counters, _) = auth.end();
    assert_eq!(code, Some(0));

    let trial: Value = serde_json::from_slice(&trial.stdout).unwrap_or_else(|_| panic!("{}", stderr(&trial)));
    let counters: Value = serde_json::from_str(&counters).unwrap();
    let (udp, faults) = (&counters["udp"], &counters["udp"]["faults"]);
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{counters}"));
    // What is lost, and what comes with a wrong ID, are both no answers to the Measurer.
    assert!(
        number(&trial["lost"]).abs_diff(number(&faults["loss"]) + number(&faults["wrong-id"])) <= 2,
        "{trial}"
    );
    assert!(number(&trial["invalid"]).abs_diff(number(&faults["rcode"])) <= 2, "{trial}");
    // The trial begins with a question whether anybody is there.
    let all = number(&udp["queries_aaaa"]);
    assert!((1000..1010).contains(&all), "{counters}");
    assert_eq!(number(&faults["delay"]), all - number(&faults["loss"]), "all that are not lost");
    assert_eq!(number(&udp["answers"]) + number(&faults["loss"]), all);
    assert!(number(&trial["latency_ns"]["p50"]) >= 2_000_000, "{trial}");
    for (kind, expected) in [("loss", 100), ("rcode", 50), ("wrong-id", 50)] {
        assert!(number(&faults[kind]).abs_diff(expected) < 40, "{kind}: {faults}");
    }
    let observed: Analysis = serde_json::from_value(counters["observed"].clone()).unwrap();
    assert_eq!((observed.seen, observed.kept, observed.aaaa), (all, 500, 500));
}

#[test]
fn wrong_faults_are_told_with_what_to_write() {
    for (fault, advice) in [
        ("loss=1", "for example 1%"),
        ("los=1%", "no such fault; there are loss, aaaa-silent"),
        ("delay=20", "20ms, 1.5s or 300us"),
        ("rcode=SERVFAI", "SERVFAIL"),
        ("loss,typ=A", "no such condition"),
    ] {
        let output = sextant(&["auth", "--fault", fault]);
        assert_eq!(output.status.code(), Some(2));
        let text = stderr(&output);
        assert!(text.contains("--fault") && text.contains(advice), "{text}");
    }
}

//! dns64d behind an AuthDNS with faults: what RFC 6147 and RFC 5452 ask of it, and what it costs.
//!
//! dns64d asks up to three times, 0.8 s apart; the Measurer waits 1 s. So one lost answer makes a query slow
//! and two make it late.

use authdns::faults::{Counts, Kind};
use engine::pacer::SECOND_NS;
use record::Trial;
use server_core::Stats;

use crate::CLEAN;
use crate::lab::{Lab, Planted};

const QUERIES: u64 = 5000;

/// A trial of [`QUERIES`] queries for names without AAAA.
struct Run {
    trial: Trial,
    faults: Counts,
    stats: Stats,
    /// Queries that the AuthDNS saw for each of the client's.
    per_query: f64,
}

fn run(faults: &[&str]) -> Run {
    let mut lab = Lab::new(Planted { service_ns: 10_000, buffer: 1000, ..Planted::dns64(CLEAN) }, 7);
    lab.misbehave(faults);
    let trial = lab.trial(QUERIES, SECOND_NS);
    let (faults, observation) = lab.seen();
    let per_query = observation.seen as f64 / trial.sent as f64;
    assert_eq!((trial.sent, observation.queries.len() as u64), (QUERIES, observation.seen));
    Run { stats: *lab.stats(), trial, faults, per_query }
}

impl Run {
    /// Asserts that a share of the answers was valid, within three standard deviations.
    fn assert_valid(&self, share: f64) {
        let queries = QUERIES as f64;
        let (expected, deviation) = (share * queries, (share * (1.0 - share) * queries).sqrt());
        let valid = self.trial.valid as f64;
        assert!(
            (valid - expected).abs() <= 3.0 * deviation,
            "{valid} valid instead of {expected} +- {deviation}"
        );
    }

    fn row(&self, name: &str) -> String {
        let Trial { valid, invalid, late, lost, .. } = &self.trial;
        let faults: Vec<String> = self.faults.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        let Stats { retries, upstream_stream_queries, upstream_unexpected, upstream_mismatched, .. } =
            self.stats;
        format!(
            "{name:<16} valid {valid} invalid {invalid} late {late} lost {lost}; {:.3} queries each, retries {retries}, \
             tcp {upstream_stream_queries}, unexpected {upstream_unexpected}, mismatched {upstream_mismatched} [{}]\n",
            self.per_query,
            faults.join(", ")
        )
    }
}

#[test]
fn dns64d_stands_what_an_authdns_does_to_it() {
    let mut table = String::new();
    let mut row = |name: &str, faults: &[&str]| {
        let run = run(faults);
        table += &run.row(name);
        run
    };

    let clean = row("none", &[]);
    assert_eq!((clean.trial.valid, clean.per_query), (QUERIES, 2.0));

    // No fault in either stage, or one: a retry with another ID comes in time.
    let at_most_one = |p: f64| (1.0 - p).powi(2) * (1.0 + 2.0 * p);
    let lossy = row("loss", &["loss=10%"]);
    lossy.assert_valid(at_most_one(0.1));
    assert!(lossy.trial.latency_ns.p99 > 800_000_000, "a loss costs a timeout");
    // But where a query has no try left, or the trial has ended.
    let without_retry = lossy.faults.lost() - lossy.stats.retries;
    assert!(without_retry < QUERIES / 100, "{without_retry}");

    // Both wrong answers must be ignored, not believed (RFC 5452 9.1). A wrong ID leads to a stream, and many
    // lead all queries there: the answers come in time, unless the stream's have wrong IDs, too.
    let wrong_id = row("wrong ID", &["wrong-id=10%"]);
    assert!(wrong_id.trial.valid > QUERIES * 99 / 100, "{}", wrong_id.trial.valid);
    // Another ID may be that of another query in flight, which asks something else.
    let ignored = wrong_id.stats.upstream_unexpected + wrong_id.stats.upstream_mismatched;
    assert!(ignored > 0 && ignored <= wrong_id.faults.of(Kind::WrongId), "{ignored}");
    assert!(wrong_id.stats.upstream_near_misses >= 8, "{}", wrong_id.stats.upstream_near_misses);
    let wrong_question = row("wrong question", &["wrong-question=10%"]);
    wrong_question.assert_valid(at_most_one(0.1));
    assert_eq!(wrong_question.stats.upstream_mismatched, wrong_question.faults.of(Kind::WrongQuestion));

    let delayed = row("delay", &["delay=20ms"]);
    assert_eq!(delayed.trial.valid, QUERIES);
    assert!(delayed.trial.latency_ns.p50 >= 40_000_000 && delayed.trial.latency_ns.max < 45_000_000);
    let tail = row("delay, Pareto", &["delay=pareto(1ms,1.2),max=2s"]);
    assert!(tail.trial.valid > QUERIES * 99 / 100 && tail.trial.latency_ns.p999 > 100_000_000);

    // Three tries take 2.4 s; then it goes on with A (RFC 6147 5.1.3), too late for this Measurer.
    let silent = row("AAAA silent", &["aaaa-silent=10%"]);
    silent.assert_valid(0.9);
    assert_eq!(silent.faults.lost() % 3, 0, "each silent name is asked three times");

    // An error to AAAA counts as no data (RFC 6147 5.1.2), except SERVFAIL if the same question with CD has
    // an answer (RFC 6147 5.5). An error to A is passed on.
    let failing = row("NOTIMP to AAAA", &["rcode=NOTIMP,type=AAAA,share=20%"]);
    assert_eq!((failing.trial.valid, failing.per_query), (QUERIES, 2.0));
    let failing = row("SERVFAIL to all AAAA", &["rcode=SERVFAIL,type=AAAA,share=100%"]);
    assert_eq!((failing.trial.valid, failing.per_query), (QUERIES, 3.0));
    let failing = row("SERVFAIL to AAAA now and then", &["rcode=SERVFAIL,type=AAAA,share=20%"]);
    failing.assert_valid(1.0 - 0.2 * 0.8);
    assert_eq!(failing.trial.valid + failing.trial.invalid, QUERIES);
    let failing = row("SERVFAIL to A", &["rcode=SERVFAIL,type=A,share=20%"]);
    failing.assert_valid(0.8);
    assert_eq!(failing.trial.valid + failing.trial.invalid, QUERIES);

    let truncated = row("truncation", &["truncate=20%"]);
    assert_eq!(truncated.trial.valid, QUERIES);
    assert_eq!(truncated.stats.upstream_stream_queries, truncated.faults.of(Kind::Truncate));
    let doubled = row("duplicates", &["duplicate=20%"]);
    assert_eq!((doubled.trial.valid, doubled.trial.duplicates), (QUERIES, 0));
    assert_eq!(doubled.stats.upstream_unexpected, doubled.faults.of(Kind::Duplicate));

    row("everything", &["loss=2%", "delay=normal(5ms,2ms)", "wrong-id=2%", "truncate=5%", "duplicate=5%"]);
    insta::assert_snapshot!(table);
}

#[test]
fn the_same_faults_befall_the_same_queries() {
    let row = || run(&["loss=5%", "delay=pareto(1ms,1.5),share=30%"]).row("");
    assert_eq!(row(), row());
}

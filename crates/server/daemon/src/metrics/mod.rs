//! The state of the server in the OpenMetrics text format (version 1.0), which Prometheus reads.

mod process;

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};

use crate::snapshot::{Kind, Metric, Snapshot, UpstreamState};

/// The text of a moment. `began_s` is the start of the program in seconds since 1970.
pub fn text(snapshot: &Snapshot, began_s: f64) -> String {
    let mut registry = Registry::with_prefix("dns64d");
    registry.register_collector(Box::new(Page(snapshot.clone())));
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _ = prometheus_client::encoding::text::encode_registry(&mut text, &registry);
    let mut registry = Registry::default();
    registry.register_collector(Box::new(process::Process { began_s }));
    let _ = prometheus_client::encoding::text::encode_registry(&mut text, &registry);
    let _ = prometheus_client::encoding::text::encode_eof(&mut text);
    text
}

#[derive(Debug)]
struct Page(Snapshot);

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Snapshot { stats, cache, program, upstreams } = &self.0;
        encoder
            .encode_descriptor("build", "What runs", None, MetricType::Info)?
            .encode_info(&[("version", env!("CARGO_PKG_VERSION"))])?;
        for counter in stats.list() {
            count(
                encoder.encode_descriptor(counter.name, counter.help, None, MetricType::Counter)?,
                counter.value,
            )?;
        }
        for reading in cache {
            number(&mut encoder, "cache_", reading)?;
        }
        for reading in program {
            number(&mut encoder, "", reading)?;
        }
        encode_upstreams(&mut encoder, upstreams)
    }
}

fn number(encoder: &mut DescriptorEncoder<'_>, prefix: &str, reading: &Metric) -> fmt::Result {
    let name = format!("{prefix}{}", reading.counter.name);
    let kind = match reading.kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
    };
    let mut metric = encoder.encode_descriptor(&name, reading.counter.help, None, kind)?;
    match reading.kind {
        Kind::Counter => count(metric, reading.counter.value),
        Kind::Gauge => metric.encode_gauge(&(reading.counter.value as f64)),
    }
}

/// A count of each upstream server: name, meaning, where it stands.
type UpstreamCount = (&'static str, &'static str, fn(&UpstreamState) -> u64);

const UPSTREAM_COUNTS: [UpstreamCount; 3] = [
    ("upstream_server_queries", "Queries sent to an upstream server", |state| state.queries),
    ("upstream_server_answers", "Answers of an upstream server", |state| state.answers),
    ("upstream_server_timeouts", "Tries that an upstream server did not answer in time", |state| {
        state.timeouts
    }),
];

fn encode_upstreams(encoder: &mut DescriptorEncoder<'_>, upstreams: &[UpstreamState]) -> fmt::Result {
    for (name, help, value) in UPSTREAM_COUNTS {
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for state in upstreams {
            count(metric.encode_family(&[("upstream", state.address.as_str())])?, value(state))?;
        }
    }
    let mut gauge = |name, help, unit: Option<&Unit>, value: fn(&UpstreamState) -> f64| {
        let mut metric = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        for state in upstreams {
            metric.encode_family(&[("upstream", state.address.as_str())])?.encode_gauge(&value(state))?;
        }
        Ok(())
    };
    gauge("upstream_up", "1 if the upstream server answers", None, |state| f64::from(u8::from(!state.down)))?;
    gauge("upstream_in_flight", "Lookups that wait for the upstream server", None, |state| {
        state.in_flight as f64
    })?;
    let help = "Smoothed round-trip time to the upstream server";
    gauge("upstream_round_trip", help, Some(&Unit::Seconds), |state| state.srtt_ns as f64 / 1e9)
}

fn count(mut metric: MetricEncoder<'_>, value: u64) -> fmt::Result {
    metric.encode_counter(&value, None::<&Exemplar<NoLabelSet, u64>>)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::cache_readings;
    use server_core::cache::CacheCounts;
    use server_core::stats::Stats;

    fn snapshot() -> Snapshot {
        Snapshot {
            stats: Stats { synthesized: 5, ..Stats::default() },
            cache: cache_readings(&CacheCounts { entries: 3, hits: 4, ..CacheCounts::default() }),
            program: vec![Metric::counter("reloads", "Reloads that succeeded", 2)],
            upstreams: vec![
                UpstreamState {
                    address: "192.0.2.1:53".into(),
                    queries: 9,
                    srtt_ns: 1_500_000,
                    ..UpstreamState::default()
                },
                UpstreamState { address: "tls://x\"y".into(), down: true, ..UpstreamState::default() },
            ],
        }
    }

    #[test]
    fn the_text_has_every_metric_once_and_its_end() {
        let text = text(&snapshot(), 1e9);
        for line in [
            concat!("dns64d_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
            "# HELP dns64d_retries Tries after the first",
            "dns64d_synthesized_total 5",
            "dns64d_cache_entries 3.0",
            "dns64d_cache_lookups_fresh_total 4",
            "dns64d_reloads_total 2",
            "dns64d_upstream_server_queries_total{upstream=\"192.0.2.1:53\"} 9",
            "dns64d_upstream_up{upstream=\"192.0.2.1:53\"} 1.0",
            "dns64d_upstream_up{upstream=\"tls://x\\\"y\"} 0.0",
            "dns64d_upstream_round_trip_seconds{upstream=\"192.0.2.1:53\"} 0.0015",
            "process_start_time_seconds 1000000000.0",
        ] {
            assert!(text.lines().any(|own| own == line), "{line} is missing in:\n{text}");
        }
        for counter in snapshot().stats.list() {
            assert!(text.contains(&format!("dns64d_{}_total ", counter.name)), "{}", counter.name);
        }
        let mut names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "two metrics have one name");
        assert!(text.ends_with("\n# EOF\n") && text.matches("# EOF").count() == 1);
    }

    /// Every metric that the dashboard asks for is told.
    #[test]
    fn the_dashboard_asks_for_what_is_told() {
        let told = text(&snapshot(), 1e9);
        let board: serde_json::Value =
            serde_json::from_str(include_str!("../../../../../dist/grafana/dns64d.json")).unwrap();
        let expressions = board["panels"].as_array().unwrap().iter().flat_map(|panel| {
            panel["targets"].as_array().unwrap().iter().map(|target| target["expr"].as_str().unwrap())
        });
        let mut asked = 0;
        for name in expressions.flat_map(|text| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'))
        {
            if ["dns64d_", "process_"].iter().any(|family| name.starts_with(family)) {
                assert!(told.contains(&format!("\n{name}")), "nobody tells {name}");
                asked += 1;
            }
        }
        assert!(asked > 10, "{asked}");
    }
}

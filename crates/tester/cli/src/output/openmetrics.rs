//! The state and the counts of a measurement under way in the OpenMetrics text format (version 1.0).

use std::fmt;
use std::fs;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use measurer::live::{Counts, LATENCY_BOUNDS_NS, LATENCY_BUCKETS, Live};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};

use campaign::{Now, Watch};

/// Makes the text of the moment each time it is called; `server` is whom the Measurer asks.
pub fn exposition(watch: Arc<Watch>, server: String) -> impl Fn() -> String + Send + 'static {
    let began_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Measurement { watch, server }));
    registry.register_collector(Box::new(Process { began_s }));
    text_of(registry)
}

/// The same without the metrics of this process: those are taken where another program shows the text beside
/// its own, as node_exporter does.
pub fn measurement(watch: Arc<Watch>, server: String) -> impl Fn() -> String + Send + 'static {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Measurement { watch, server }));
    text_of(registry)
}

fn text_of(registry: Registry) -> impl Fn() -> String + Send + 'static {
    move || {
        let mut text = String::new();
        // Writing into a string cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
        text
    }
}

#[derive(Debug)]
struct Measurement {
    watch: Arc<Watch>,
    server: String,
}

impl Collector for Measurement {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (now, counts) = (self.watch.now(), self.watch.live.counts());
        let labels = [("version", env!("CARGO_PKG_VERSION")), ("server", self.server.as_str())];
        // Readers of Prometheus' older text format know no type "info".
        metric(&mut encoder, "sextant_info", "The program that measures, and the server", MetricType::Gauge)?
            .encode_family(&labels)?
            .encode_gauge(&1i64)?;
        state(&mut encoder, &now)?;
        classes(&mut encoder, &counts)?;
        let lost = "Queries without an answer after their timeout; a late answer reduces the number by one";
        gauge(&mut encoder, "sextant_queries_lost", lost, counts.lost as f64)?;
        latency(&mut encoder, &self.watch.live, &counts)
    }
}

fn state(encoder: &mut DescriptorEncoder<'_>, now: &Now) -> fmt::Result {
    let (low, high) = now.bracket.map_or((0, 0), |bracket| (bracket.passed, bracket.failed));
    for (name, help, value) in [
        ("sextant_trials", "Trials begun, with those of the self-test", now.trials),
        (
            "sextant_trial_rate_qps",
            "Average rate of the trial under way; 0 between trials and in a closed loop",
            now.rate_qps,
        ),
        ("sextant_search_low_qps", "Highest rate that passed in the search under way", low),
        ("sextant_search_high_qps", "Lowest rate above it that failed", high),
    ] {
        gauge(encoder, name, help, value as f64)?;
    }
    let help = "What is being done, for example search 2/3";
    metric(encoder, "sextant_phase", help, MetricType::Gauge)?
        .encode_family(&[("phase", now.phase.as_str())])?
        .encode_gauge(&1i64)
}

fn classes(encoder: &mut DescriptorEncoder<'_>, counts: &Counts) -> fmt::Result {
    for (name, help, value) in [
        ("sextant_queries_sent", "Queries that the kernel took", counts.sent),
        ("sextant_send_errors", "Queries that the kernel did not take", counts.send_errors),
        (
            "sextant_own_drops",
            "Answers dropped by the Measurer's own sockets, by the end of each trial",
            counts.own_drops,
        ),
    ] {
        count(metric(encoder, name, help, MetricType::Counter)?, value)?;
    }
    let mut answers =
        metric(encoder, "sextant_answers", "Datagrams received, by class", MetricType::Counter)?;
    for (class, value) in [
        ("valid", counts.valid),
        ("invalid", counts.invalid),
        ("late", counts.late),
        ("duplicate", counts.duplicates),
        ("unexpected", counts.unexpected),
    ] {
        count(answers.encode_family(&[("class", class)])?, value)?;
    }
    Ok(())
}

fn latency(encoder: &mut DescriptorEncoder<'_>, live: &Live, counts: &Counts) -> fmt::Result {
    let in_buckets = live.latency();
    let bound = |index: usize| LATENCY_BOUNDS_NS.get(index).map_or(f64::INFINITY, |ns| *ns as f64 / 1e9);
    let buckets: [(f64, u64); LATENCY_BUCKETS] =
        std::array::from_fn(|index| (bound(index), in_buckets[index]));
    let help = "Latency of valid answers from the scheduled instant";
    encoder
        .encode_descriptor("sextant_latency", help, Some(&Unit::Seconds), MetricType::Histogram)?
        .encode_histogram::<NoLabelSet>(
            counts.latency_sum_ns as f64 / 1e9,
            in_buckets.iter().sum(),
            &buckets,
            None,
        )
}

#[derive(Debug)]
struct Process {
    began_s: f64,
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let read = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
        let cpu_s = cpu_ticks(&read("stat")) as f64 / sys::process::ticks_per_second() as f64;
        let (seconds, bytes) = (Some(Unit::Seconds), Some(Unit::Bytes));
        encoder
            .encode_descriptor("process_cpu", "Processor time used", seconds.as_ref(), MetricType::Counter)?
            .encode_counter(&cpu_s, None::<&Exemplar<NoLabelSet, f64>>)?;
        encoder
            .encode_descriptor("process_start_time", "Start since 1970", seconds.as_ref(), MetricType::Gauge)?
            .encode_gauge(&self.began_s)?;
        encoder
            .encode_descriptor("process_resident_memory", "Memory in use", bytes.as_ref(), MetricType::Gauge)?
            .encode_gauge(&(resident_octets(&read("status")) as f64))?;
        let open = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        gauge(&mut encoder, "process_open_fds", "Open files and sockets", open as f64)
    }
}

/// User and system time (proc(5): fields 14 and 15; field 2 is in parentheses and may hold any character).
fn cpu_ticks(stat: &str) -> u64 {
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let times = fields.split_ascii_whitespace().skip(11).take(2);
    times.filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

fn resident_octets(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

fn metric<'s>(
    encoder: &'s mut DescriptorEncoder<'_>,
    name: &'s str,
    help: &str,
    kind: MetricType,
) -> Result<MetricEncoder<'s>, fmt::Error> {
    encoder.encode_descriptor(name, help, None, kind)
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: f64) -> fmt::Result {
    metric(encoder, name, help, MetricType::Gauge)?.encode_gauge(&value)
}

fn count(mut metric: MetricEncoder<'_>, value: u64) -> fmt::Result {
    metric.encode_counter(&value, None::<&Exemplar<NoLabelSet, u64>>)
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::search::Bracket;

    #[test]
    fn the_text_has_every_metric_and_its_end() {
        let watch: Arc<Watch> = Arc::default();
        watch.begin("search 1/3", 5000, Some(Bracket { passed: 1000, failed: 9000 }));
        let text = exposition(Arc::clone(&watch), "[::1]:53".into())();
        for line in [
            "# TYPE sextant_info gauge",
            "sextant_trials 1.0",
            "sextant_trial_rate_qps 5000.0",
            "sextant_search_low_qps 1000.0",
            "sextant_search_high_qps 9000.0",
            "sextant_phase{phase=\"search 1/3\"} 1",
            "sextant_queries_sent_total 0",
            "sextant_answers_total{class=\"unexpected\"} 0",
            "# UNIT sextant_latency_seconds seconds",
            "sextant_latency_seconds_bucket{le=\"0.00001\"} 0",
            "sextant_latency_seconds_bucket{le=\"+Inf\"} 0",
            "sextant_latency_seconds_count 0",
        ] {
            assert!(text.lines().any(|own| own == line), "{line} is missing in:\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    /// Every type is one of Prometheus' text format 0.0.4, and no metric is one that node_exporter has.
    #[test]
    fn node_exporter_can_show_the_text_beside_its_own() {
        let text = measurement(Arc::default(), "[::1]:53".into())();
        let kinds = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        let mut families = 0;
        for (name, kind) in kinds {
            assert!(["gauge", "counter", "histogram"].contains(&kind), "{name} {kind}");
            assert!(name.starts_with("sextant_"), "{name}");
            families += 1;
        }
        assert!(families > 8, "{text}");
    }

    /// Every metric that the dashboard asks for is told.
    #[test]
    fn the_dashboard_asks_for_what_is_told() {
        let told = exposition(Arc::default(), "[::1]:53".into())();
        let board: serde_json::Value =
            serde_json::from_str(include_str!("../../../../../dist/grafana/sextant.json")).unwrap();
        let expressions = board["panels"].as_array().unwrap().iter().flat_map(|panel| {
            panel["targets"].as_array().unwrap().iter().map(|target| target["expr"].as_str().unwrap())
        });
        let mut asked = 0;
        for name in expressions.flat_map(|text| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'))
        {
            if ["sextant_", "process_"].iter().any(|family| name.starts_with(family)) {
                assert!(told.contains(&format!("\n{name}")), "nobody tells {name}");
                asked += 1;
            }
        }
        assert!(asked > 10, "{asked}");
    }

    #[test]
    fn the_process_is_read() {
        assert_eq!(cpu_ticks("77 (a) b (c) R 1 77 77 0 -1 4194304 100 0 0 0 250 50 0 0 20"), 300);
        assert_eq!(cpu_ticks(""), 0);
        assert_eq!(resident_octets("Name:\tx\nVmRSS:\t    2048 kB\n"), 2 << 20);
    }
}

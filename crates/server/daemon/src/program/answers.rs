//! Answers of the loop to questions about the server.

use serde_json::{Value, json};

use super::run::Daemon;
use crate::config::{ListenProtocol, Words};
use crate::control::{Command, Reply};
use crate::runtime::Service;
use crate::snapshot::{Metric, Snapshot, UpstreamState, cache_readings};

impl<S: Service> Daemon<S> {
    /// Does a command of the control socket.
    pub(super) fn answer(&mut self, command: &Command) -> Result<Reply, String> {
        match command {
            Command::Status => Ok(self.status()),
            Command::Stats => {
                let counters = self.service.stats().list();
                let pairs = counters.iter().map(|counter| (counter.name.to_owned(), counter.value.into()));
                Ok(Reply::Pairs(pairs.chain(named(&self.readings())).collect()))
            }
            Command::Cache => {
                Ok(Reply::Pairs(named(&cache_readings(&self.service.cache().counts())).collect()))
            }
            Command::Upstreams => Ok(Reply::Table(self.service.upstreams().iter().map(row).collect())),
            Command::Reload => self.reload().map(|()| Reply::Words("reloaded".to_owned())),
            Command::Flush(what) => {
                let count = self.service.forget(what);
                Ok(Reply::Words(format!("{count} entries forgotten")))
            }
            Command::Log(level) => {
                self.log.set_level(*level);
                Ok(Reply::Words(format!("the level is {}", level.word())))
            }
        }
    }

    fn status(&self) -> Reply {
        let (uid, gid) = sys::privileges::user_and_group();
        let gave_up: Vec<String> = self.steps.iter().map(ToString::to_string).collect();
        let pairs = [
            ("version", json!(env!("CARGO_PKG_VERSION"))),
            ("pid", json!(std::process::id())),
            ("user", json!(format!("{uid}:{gid}"))),
            ("uptime_s", json!(self.began.elapsed().as_secs())),
            ("configuration", json!(self.file.display().to_string())),
            ("listen", json!(self.addresses())),
            ("threads", json!(self.service.threads())),
            ("upstreams", json!(self.config.upstreams.len())),
            ("log_level", json!(self.log.level().word())),
            ("reloads", json!(self.reloads)),
            ("reload_failures", json!(self.reload_failures)),
            ("gave_up", json!(gave_up)),
        ];
        Reply::Pairs(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    pub(super) fn metrics_page(&self) -> String {
        let snapshot = Snapshot {
            stats: self.service.stats(),
            cache: cache_readings(&self.service.cache().counts()),
            program: self.readings(),
            upstreams: self.service.upstreams(),
        };
        crate::metrics::text(&snapshot, self.began_s)
    }

    /// What the program and the rooms around the machines counted.
    fn readings(&self) -> Vec<Metric> {
        let mut readings = self.service.readings();
        readings.push(Metric::counter("reloads", "Reloads that succeeded", self.reloads));
        readings.push(Metric::counter(
            "reload_failures",
            "Reloads that failed, so that the old configuration stayed in force",
            self.reload_failures,
        ));
        if let Some(tap) = &self.tap {
            let counts = tap.counts();
            readings.push(Metric::counter("dnstap_sent", "Records written to the receiver", counts.sent));
            readings.push(Metric::counter(
                "dnstap_dropped",
                "Records dropped, because the receiver was slow or gone",
                counts.dropped,
            ));
        }
        readings
    }

    /// The addresses as an operator writes them.
    pub(super) fn addresses(&self) -> Vec<String> {
        let text = |(protocol, address)| match protocol {
            ListenProtocol::Plain => format!("{address}"),
            ListenProtocol::Tls => format!("tls://{address}"),
            ListenProtocol::Https => format!("https://{address}"),
            ListenProtocol::Quic => format!("quic://{address}"),
            ListenProtocol::Http3 => format!("h3://{address}"),
        };
        self.service.addresses().into_iter().map(text).collect()
    }
}

fn named(readings: &[Metric]) -> impl Iterator<Item = (String, Value)> {
    readings.iter().map(|reading| (reading.counter.name.to_owned(), reading.counter.value.into()))
}

fn row(state: &UpstreamState) -> Vec<(String, Value)> {
    let UpstreamState {
        address,
        queries,
        answers,
        timeouts,
        srtt_ns,
        down,
        in_flight,
        near_misses,
        protection,
        forged_packets,
    } = state;
    let pairs = [
        ("address", json!(address)),
        ("up", json!(!down)),
        ("queries", json!(queries)),
        ("answers", json!(answers)),
        ("timeouts", json!(timeouts)),
        ("round_trip_ms", json!((*srtt_ns / 1000) as f64 / 1000.0)),
        ("in_flight", json!(in_flight)),
        ("near_misses", json!(near_misses)),
        ("protection", json!(protection.join(", "))),
        ("forged_packets", json!(forged_packets.map(f64::round))),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

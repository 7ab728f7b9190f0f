//! The summary of all runs of a measurement.

use serde::{Deserialize, Serialize};

/// Over all runs (RFC 8219 section 12; percentiles as RFC 2330 11.3 defines them): of rates in q/s, or of
/// numbers of connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the definition")]
pub struct Summary {
    pub n: usize,
    pub median: f64,
    pub p1: u64,
    pub p99: u64,
    pub min: u64,
    pub max: u64,
    /// (max - min) / median * 100 (Lencse and Pivoda, *Checking and Increasing the Accuracy of the
    /// Dns64perf++ Measurement Tool*, equation 3).
    pub dispersion_pct: f64,
    /// Order-statistic confidence interval of the median, where n allows one.
    pub median_interval: Option<MedianInterval>,
    /// The widest stop width of the runs, in q/s (RFC 9693 6: the error of the search); 0 of numbers of
    /// connections.
    pub stop_width_qps: u64,
    /// The same of numbers of connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_width_connections: Option<u64>,
}

impl Summary {
    /// The widest stop width of the runs, in the unit of what is summarized.
    pub fn stop_width(&self) -> u64 {
        self.stop_width_connections.unwrap_or(self.stop_width_qps)
    }
}

/// How steady the results of a measurement are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Steadiness {
    /// How the rates of the runs moved from the first third to the last, in percent of the first; absent with
    /// fewer than five.
    pub drift_pct: Option<f64>,
    /// How probable at least so much order among the runs is by chance (Kendall's tau, two-sided), from 0
    /// to 1.
    pub drift_p_value: Option<f64>,
    /// How far the rates may differ between two halves of the same measurement, in percent: what a comparison
    /// cannot tell from noise (A/A); absent with fewer than eight runs.
    pub noise_floor_pct: Option<f64>,
    /// By how much the rate with up to 0.01 % loss exceeds the one without loss, in percent; absent without
    /// these goals.
    pub noise_index_pct: Option<f64>,
}

/// A distribution-free confidence interval of a median.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the definition; rates in q/s")]
pub struct MedianInterval {
    pub low: u64,
    pub high: u64,
    pub confidence_pct: f64,
}

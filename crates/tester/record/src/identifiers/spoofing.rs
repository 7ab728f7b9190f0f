//! The effort of an attacker who forges answers and cannot see the queries (RFC 5452 7).

use serde::{Deserialize, Serialize};

use super::Spread;
use super::sequence::VALUES;

/// Estimates for a forger who knows the question, the servers and how this server chose its last ID and port,
/// for one name server of one address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spoofing {
    /// Among how many IDs the next is hidden.
    pub ids: f64,
    /// Among how many ports it is.
    pub ports: f64,
    /// Forged answers for an even chance against a query that is asked again and again: ln 2 * IDs * ports.
    pub answers_for_even_chance: f64,
    /// How long that takes, with as many forged answers a second as the server sent queries; in seconds. 0
    /// where the rate is unknown.
    pub even_chance_s: f64,
    /// How many queries are expected until two share ID and port: sqrt(pi / 2 * IDs * ports), the birthday
    /// collision.
    pub collision_queries: f64,
    /// How long that takes at the rate seen, in seconds; 0 where it is unknown.
    pub collision_s: f64,
}

pub fn estimate(ids: &Spread, ports: &Spread, rate_qps: f64) -> Spoofing {
    let (hidden_ids, hidden_ports) = (hidden(ids), hidden(ports));
    let both = hidden_ids * hidden_ports;
    let answers_for_even_chance = std::f64::consts::LN_2 * both;
    let collision_queries = (std::f64::consts::FRAC_PI_2 * both).sqrt();
    let seconds = |queries: f64| if rate_qps > 0.0 { queries / rate_qps } else { 0.0 };
    Spoofing {
        ids: hidden_ids,
        ports: hidden_ports,
        answers_for_even_chance,
        even_chance_s: seconds(answers_for_even_chance),
        collision_queries,
        collision_s: seconds(collision_queries),
    }
}

/// The size of the pool or, where the next value follows from the last more often, the reciprocal of that.
fn hidden(spread: &Spread) -> f64 {
    let pool = spread.pool.min(VALUES as f64);
    let step_pct = if spread.steps.predictable { spread.steps.common_pct } else { 0.0 };
    let foretold_pct = step_pct.max(spread.congruence_pct);
    if foretold_pct > 0.0 { pool.min(100.0 / foretold_pct) } else { pool }
}

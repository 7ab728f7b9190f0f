//! The settings that an input chooses.

use dns64::reverse::Style;
use dns64::rule::{Policy, PrefixChoice};
use dns64::wire::Name;
use server_core::Settings;
use server_core::settings::{AQuery, RateLimit, Upstream, View};

/// So few that there are soon too many.
const IN_FLIGHT: usize = 8;
const CACHE_OCTETS: usize = 256 << 10;

/// The settings, and the octets of the cache. Each bit is a departure from the defaults.
pub fn chosen(choice: u8) -> (Settings, usize) {
    let bit = |bit: u8| choice >> bit & 1 != 0;
    let mut settings = Settings { in_flight: IN_FLIGHT, ..Settings::default() };
    settings.views[0].rule = Some(policy(&["2001:db8:64::/96"]));
    settings.asking.ports = 2;
    if bit(1) {
        settings.upstreams = vec![Upstream::default(), Upstream { stream_only: true, ..Upstream::default() }];
        settings.groups = vec![vec![0, 1]];
    }
    settings.asking.case_randomization = bit(2);
    settings.asking.a_query = match (bit(3), bit(4)) {
        (false, _) => AQuery::Afterwards,
        (true, false) => AQuery::Together,
        (true, true) => AQuery::WhenLate,
    };
    if bit(4) {
        settings.caching.stale = None;
    }
    for upstream in &mut settings.upstreams {
        upstream.trust_ad = bit(5);
    }
    settings.rate = bit(6).then_some(RateLimit { per_second: 1, burst: 4, slip: 2 });
    if bit(7) {
        settings.views.insert(0, other_view());
    }
    (settings, if bit(0) { 0 } else { CACHE_OCTETS })
}

fn policy(prefixes: &[&str]) -> Policy {
    let prefixes = prefixes.iter().map(|prefix| prefix.parse().expect("a prefix")).collect();
    Policy { prefixes, ..Policy::default() }
}

/// For IPv4 clients: rotated prefixes, pointers without CNAME records, domains that are always or never
/// synthesized.
fn other_view() -> View {
    let domain = |text| Name::from_text(text).expect("a name");
    View {
        clients: vec!["0.0.0.0/0".parse().expect("a range")],
        rule: Some(Policy {
            spread: PrefixChoice::Rotated,
            ..policy(&["2001:db8::/32", "2001:db8:122:344::/64"])
        }),
        ptr: Some(Style::Answer),
        always: [domain("always.example")].into_iter().collect(),
        never: [domain("never.example")].into_iter().collect(),
        ..View::default()
    }
}

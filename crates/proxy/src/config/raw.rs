//! The file as it stands: what may be written, before anything is checked.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

pub(super) type Text = Spanned<String>;
pub(super) type Texts = Spanned<Vec<Text>>;
pub(super) type Number = Spanned<u64>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Raw {
    pub listen: Option<Texts>,
    pub upstreams: Option<Texts>,
    pub prefixes: Option<Texts>,
    pub allow: Option<Texts>,
    pub threads: Option<Number>,
    #[serde(default)]
    pub cpus: Vec<Number>,
    #[serde(default)]
    pub dns64: RawDns64,
    #[serde(default)]
    pub view: Vec<Spanned<RawView>>,
    #[serde(default)]
    pub forward: Vec<Spanned<RawForward>>,
    #[serde(default)]
    pub upstream: RawUpstream,
    #[serde(default)]
    pub cache: RawCache,
    #[serde(default)]
    pub local: RawLocal,
    #[serde(default)]
    pub clients: RawClients,
    #[serde(default)]
    pub limits: RawLimits,
    #[serde(default)]
    pub xdp: RawXdp,
    #[serde(default)]
    pub tls: RawTls,
    #[serde(default)]
    pub control: RawControl,
    #[serde(default)]
    pub metrics: RawMetrics,
    #[serde(default)]
    pub log: RawLog,
    pub dnstap: Option<Spanned<RawDnstap>>,
    #[serde(default)]
    pub process: RawProcess,
}

/// Defines a table with keys of its own and those of the DNS64 rule: serde cannot flatten what has positions.
macro_rules! table_with_rule_keys {
    ($name:ident { $($own:tt)* }) => {
        #[derive(Default, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $name {
            $($own)*
            pub exclude: Option<Texts>,
            pub on_aaaa_error: Option<Text>,
            pub synthesize_with_cd: Option<bool>,
            pub strict_well_known: Option<bool>,
            pub ptr: Option<Text>,
            pub spread: Option<Text>,
            pub never: Option<Texts>,
            pub always: Option<Texts>,
            pub map: Option<BTreeMap<String, Text>>,
        }

        impl $name {
            pub fn rule_keys(&self) -> RuleKeys<'_> {
                RuleKeys {
                    exclude: self.exclude.as_ref(),
                    on_aaaa_error: self.on_aaaa_error.as_ref(),
                    synthesize_with_cd: self.synthesize_with_cd,
                    strict_well_known: self.strict_well_known,
                    ptr: self.ptr.as_ref(),
                    spread: self.spread.as_ref(),
                    never: self.never.as_ref(),
                    always: self.always.as_ref(),
                    map: self.map.as_ref(),
                }
            }
        }
    };
}

table_with_rule_keys!(RawDns64 {});
table_with_rule_keys!(RawView {
    pub name: Option<Text>,
    pub clients: Option<Texts>,
    pub listeners: Option<Texts>,
    pub dns64: Option<bool>,
    pub prefixes: Option<Texts>,
});

/// The keys that `[dns64]` and `[[view]]` share; what is `None` stays as it is.
#[derive(Clone, Copy)]
pub(super) struct RuleKeys<'r> {
    pub exclude: Option<&'r Texts>,
    pub on_aaaa_error: Option<&'r Text>,
    pub synthesize_with_cd: Option<bool>,
    pub strict_well_known: Option<bool>,
    pub ptr: Option<&'r Text>,
    pub spread: Option<&'r Text>,
    pub never: Option<&'r Texts>,
    pub always: Option<&'r Texts>,
    pub map: Option<&'r BTreeMap<String, Text>>,
}

impl RuleKeys<'_> {
    /// Whether any of them is written.
    pub fn is_any(&self) -> bool {
        let Self {
            exclude,
            on_aaaa_error,
            synthesize_with_cd,
            strict_well_known,
            ptr,
            spread,
            never,
            always,
            map,
        } = self;
        [exclude, never, always].iter().any(|texts| texts.is_some())
            || [on_aaaa_error, ptr, spread].iter().any(|text| text.is_some())
            || [synthesize_with_cd, strict_well_known].iter().any(|flag| flag.is_some())
            || map.is_some()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawForward {
    pub domains: Option<Texts>,
    pub upstreams: Option<Texts>,
    pub trust_ad: Option<bool>,
    pub validate: Option<Spanned<bool>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawUpstream {
    pub ports: Option<Number>,
    pub timeout_ms: Option<Number>,
    pub tries: Option<Number>,
    pub deadline_ms: Option<Number>,
    pub a_query: Option<Text>,
    pub case_randomization: Option<bool>,
    pub cookies: Option<bool>,
    pub trust_ad: Option<bool>,
    pub in_flight: Option<Number>,
    pub source: Option<Texts>,
    pub loop_probe: Option<bool>,
    pub roots: Option<Text>,
    pub validate: Option<Spanned<bool>>,
    pub anchors: Option<Text>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCache {
    pub size_mib: Option<Number>,
    pub ttl_max_s: Option<Number>,
    pub negative_ttl_max_s: Option<Number>,
    pub failure_ttl_s: Option<Number>,
    pub stale: Option<bool>,
    pub stale_age_max_s: Option<Number>,
    pub stale_ttl_s: Option<Number>,
    pub stale_client_timer_ms: Option<Number>,
    pub prefetch: Option<bool>,
    pub nxdomain_cut: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLocal {
    pub ipv4only: Option<bool>,
    pub ipv4only_ttl_s: Option<Number>,
    pub special_names: Option<bool>,
    pub minimal_any: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawClients {
    pub cookies: Option<bool>,
    pub extended_errors: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLimits {
    pub in_flight: Option<Number>,
    pub udp_payload_octets: Option<Number>,
    pub connections: Option<Number>,
    pub connections_per_network: Option<Number>,
    pub pipelined: Option<Number>,
    pub idle_ms: Option<Number>,
    pub queries_per_second: Option<Number>,
    pub burst: Option<Number>,
    pub slip: Option<Number>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawXdp {
    pub devices: Option<Texts>,
    pub upstreams: Option<bool>,
    pub repeat: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTls {
    pub certificate: Option<Text>,
    pub key: Option<Text>,
    pub https_path: Option<Text>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawControl {
    pub socket: Option<Text>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMetrics {
    pub listen: Option<Text>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLog {
    pub level: Option<Text>,
    pub format: Option<Text>,
    pub queries: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDnstap {
    pub socket: Option<Text>,
    pub clients: Option<bool>,
    pub upstreams: Option<bool>,
    pub identity: Option<Text>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawProcess {
    pub user: Option<Text>,
    pub sandbox: Option<bool>,
}

//! The options that say what the zone is.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use std::path::Path;

use clap::{Args, ValueEnum};
use dns64::{NameSpace, Prefix};

use super::signing::{SigningArgs, read_text};
use authdns::{ADDRESSES_MAX, RecordsFile, Rules, TEXT_OCTETS_MAX, TTL_S_MAX, ZoneConfig};

/// The longest file of records: some 500,000 of them.
const RECORDS_OCTETS_MAX: u64 = 32 << 20;

/// Names and types that may be added to the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RuleName {
    /// 10-0-0-7.SUFFIX is the same host as 010-000-000-007.SUFFIX
    Short,
    /// Every name below any.SUFFIX has an address, from a hash of the name
    Wildcard,
    /// HOST.cN.SUFFIX and HOST.dN.SUFFIX lead to HOST over N CNAME or DNAME records, N from 1 to 16
    Chains,
    /// Hosts have TXT, MX and HTTPS records; HOST.tN.SUFFIX has a TXT record of N octets
    Types,
    /// PTR records of the names' addresses, below in-addr.arpa and ip6.arpa
    Reverse,
    /// All of these
    All,
}

/// Options of the zone.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Zone")]
pub struct ZoneArgs {
    /// Name of the zone
    #[arg(long, value_name = "NAME", default_value = "dns64perf.test")]
    pub suffix: String,
    /// Percentage of the names that have a AAAA record
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub aaaa_share: u8,
    /// Prefix of the AAAA records: the IPv4 address of the name is embedded in it (RFC 6052)
    #[arg(long, value_name = "PREFIX", default_value_t = ZoneConfig::default().aaaa_prefix)]
    pub aaaa_prefix: Prefix,
    /// Names that exist, as a range of the addresses they stand for [default: all]
    #[arg(long, value_name = "CIDR")]
    pub names: Option<NameSpace>,
    /// TTL of the records, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = ttl_range())]
    pub ttl: u32,
    /// TTL of negative answers, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = ttl_range())]
    pub negative_ttl: u32,
    /// What exists besides nnn-nnn-nnn-nnn.SUFFIX, separated by commas [default: nothing]
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',')]
    pub rules: Vec<RuleName>,
    /// Number of A records of each name, and of AAAA records if the name has any
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=i64::from(ADDRESSES_MAX)))]
    pub addresses_per_name: u8,
    /// Text in the TXT record of a host, in octets (--rules types)
    #[arg(long, value_name = "OCTETS", default_value_t = 64, value_parser = clap::value_parser!(u16).range(..=i64::from(TEXT_OCTETS_MAX)))]
    pub txt_octets: u16,
    /// Master file of fixed records below the suffix; fixed records take precedence over the rules
    #[arg(long, value_name = "FILE", value_parser = records_file)]
    pub records: Option<RecordsFile>,
    /// How it is signed.
    #[command(flatten)]
    pub signing: SigningArgs,
}

fn records_file(path: &str) -> Result<RecordsFile, String> {
    let text = read_text(Path::new(path), RECORDS_OCTETS_MAX)?;
    Ok(RecordsFile { name: path.into(), text: text.into() })
}

fn ttl_range() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(0..=i64::from(TTL_S_MAX))
}

impl ZoneArgs {
    /// The zone whose name server has these addresses.
    pub fn config(&self, listen: &[SocketAddr]) -> ZoneConfig {
        let (ns_ipv4, ns_ipv6) = name_server_addresses(listen);
        ZoneConfig {
            suffix: self.suffix.clone(),
            ttl_s: self.ttl,
            negative_ttl_s: self.negative_ttl,
            aaaa_share_percent: self.aaaa_share,
            aaaa_prefix: self.aaaa_prefix,
            names: self.names,
            ns_ipv4,
            ns_ipv6,
            rules: self.rules(),
            addresses_per_name: self.addresses_per_name,
            txt_octets: self.txt_octets,
            records: self.records.clone(),
            signing: self.signing.signing(),
        }
    }

    fn rules(&self) -> Rules {
        let has = |rule| self.rules.contains(&rule) || self.rules.contains(&RuleName::All);
        Rules {
            short: has(RuleName::Short),
            wildcard: has(RuleName::Wildcard),
            chains: has(RuleName::Chains),
            types: has(RuleName::Types),
            reverse: has(RuleName::Reverse),
        }
    }
}

/// What the zone says about its name server: the first address of each family it listens on.
fn name_server_addresses(listen: &[SocketAddr]) -> (Option<Ipv4Addr>, Option<Ipv6Addr>) {
    let ipv4 = listen.iter().find_map(|address| match address.ip() {
        IpAddr::V4(ip) => Some(if ip.is_unspecified() { Ipv4Addr::LOCALHOST } else { ip }),
        IpAddr::V6(_) => None,
    });
    let ipv6 = listen.iter().find_map(|address| match address.ip() {
        IpAddr::V6(ip) => Some(if ip.is_unspecified() { Ipv6Addr::LOCALHOST } else { ip }),
        IpAddr::V4(_) => None,
    });
    (ipv4, ipv6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use authdns::SigningKey;
    use clap::{Command, FromArgMatches};

    fn parse(arguments: &[&str]) -> Result<ZoneArgs, clap::Error> {
        let command = ZoneArgs::augment_args(Command::new("zone"));
        ZoneArgs::from_arg_matches(&command.try_get_matches_from([&["zone"], arguments].concat())?)
    }

    #[test]
    fn options_become_a_zone() {
        let args = parse(&["--names", "10.0.0.0/16"]).unwrap();
        let listen = ["[::]:53".parse().unwrap(), "198.18.0.1:53".parse().unwrap()];
        let config = args.config(&listen);
        assert_eq!(config.ns_ipv4, Some(Ipv4Addr::new(198, 18, 0, 1)));
        assert_eq!(config.ns_ipv6, Some(Ipv6Addr::LOCALHOST));
        assert_eq!(config.names, Some("10.0.0.0/16".parse().unwrap()));
        let listen = ["127.0.0.1:5300".parse().unwrap(), "[::1]:5300".parse().unwrap()];
        assert_eq!(parse(&[]).unwrap().config(&listen), ZoneConfig::default());
        let rules = |list| parse(&["--rules", list]).unwrap().config(&[]).rules;
        assert_eq!(rules("short,chains"), Rules { short: true, chains: true, ..Rules::default() });
        assert!(rules("all").reverse && rules("all").types && rules("all").wildcard);
        let signed = ["--signed", "--signed-from", "2030-01-01T00:00:00Z", "--signed-days", "2"];
        let signing = parse(&signed).unwrap().config(&[]).signing.unwrap();
        assert_eq!((signing.inception_s, signing.expiration_s), (1_893_456_000, 1_893_628_800));
        assert_eq!(signing.key, SigningKey::from_seed("sextant"));
    }

    #[test]
    fn bad_options_are_told_with_the_reason() {
        let error = |arguments: &[&str]| parse(arguments).unwrap_err().to_string();
        assert!(error(&["--aaaa-prefix", "2001:db8:0:0:100::/96"]).contains("bits 64 to 71 must be zero"));
        assert!(error(&["--aaaa-share", "101"]).contains("101 is not in 0..=100"));
        assert!(error(&["--names", "10.0.0.1/8"]).contains("bits after the first 8 must be zero"));
        assert!(error(&["--ttl", "2147483648"]).contains("not in 0..=2147483647"));
        assert!(error(&["--rules", "short,long"]).contains("invalid value 'long' for '--rules <LIST>'"));
        assert!(error(&["--addresses-per-name", "0"]).contains("0 is not in 1..=64"));
        assert!(error(&["--txt-octets", "4097"]).contains("4097 is not in 0..=4096"));
        assert!(error(&["--records", "/nonexistent"]).contains("cannot read it: No such file"));
        assert!(error(&["--key-seed", "x"]).contains("--signed"));
        assert!(error(&["--signed", "--key", "/dev/null"]).contains("no line 'Algorithm:'"));
        assert!(error(&["--signed", "--signed-from", "soon"]).contains("--signed-from"));
    }
}

//! The options that say what the zone is.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use clap::Args;
use dns64::{NameSpace, Prefix};

use crate::authority::{TTL_S_MAX, ZoneConfig};

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
            ..ZoneConfig::default()
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
    }

    #[test]
    fn bad_options_are_told_with_the_reason() {
        let error = |arguments: &[&str]| parse(arguments).unwrap_err().to_string();
        assert!(error(&["--aaaa-prefix", "2001:db8:0:0:100::/96"]).contains("bits 64 to 71 must be zero"));
        assert!(error(&["--aaaa-share", "101"]).contains("101 is not in 0..=100"));
        assert!(error(&["--names", "10.0.0.1/8"]).contains("bits after the first 8 must be zero"));
        assert!(error(&["--ttl", "2147483648"]).contains("not in 0..=2147483647"));
    }
}

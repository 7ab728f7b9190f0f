//! Where the kernel drops datagrams: at a socket, in the UDP layer, before any socket (proc(5), RFC 4113).

use serde::{Deserialize, Serialize};

/// UDP's counters of errors, and of datagrams, for one address family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UdpErrors {
    /// Datagrams that could not be delivered, whatever the reason.
    pub in_errors: u64,
    /// Of these: the socket's receive buffer was full.
    pub receive_buffer_errors: u64,
    /// Datagrams that could not be sent: the send buffer was full.
    pub send_buffer_errors: u64,
    /// Datagrams to a port where nobody listened.
    pub no_ports: u64,
    /// Datagrams that sockets took.
    pub datagrams_in: u64,
    /// Datagrams that sockets sent.
    pub datagrams_out: u64,
}

/// Datagrams dropped before any socket, on the whole machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Softnet {
    /// Packets dropped because a processor's backlog was full.
    pub dropped: u64,
    /// How often a processor's budget ended before its packets did.
    pub squeezed: u64,
}

/// The sockets of one local port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PortCounters {
    /// UDP sockets bound to the port.
    pub sockets: u64,
    /// Datagrams dropped because a buffer was full.
    pub drops: u64,
    /// Octets waiting to be read, with the kernel's overhead.
    pub queued_octets: u64,
}

impl UdpErrors {
    /// What was counted since an earlier reading.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            in_errors: self.in_errors.saturating_sub(earlier.in_errors),
            receive_buffer_errors: self.receive_buffer_errors.saturating_sub(earlier.receive_buffer_errors),
            send_buffer_errors: self.send_buffer_errors.saturating_sub(earlier.send_buffer_errors),
            no_ports: self.no_ports.saturating_sub(earlier.no_ports),
            datagrams_in: self.datagrams_in.saturating_sub(earlier.datagrams_in),
            datagrams_out: self.datagrams_out.saturating_sub(earlier.datagrams_out),
        }
    }
}

impl Softnet {
    /// What was counted since an earlier reading.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            dropped: self.dropped.saturating_sub(earlier.dropped),
            squeezed: self.squeezed.saturating_sub(earlier.squeezed),
        }
    }
}

/// Reads the two `Udp:` lines of `/proc/net/snmp`: names, then values.
pub(crate) fn parse_snmp(text: &str) -> UdpErrors {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return UdpErrors::default() };
    let pairs = names.split_ascii_whitespace().zip(values.split_ascii_whitespace());
    udp_errors(pairs)
}

/// Reads the lines `Udp6Name value` of `/proc/net/snmp6`.
pub(crate) fn parse_snmp6(text: &str) -> UdpErrors {
    let pairs = text.lines().filter_map(|line| {
        let mut words = line.strip_prefix("Udp6")?.split_ascii_whitespace();
        words.next().zip(words.next())
    });
    udp_errors(pairs)
}

fn udp_errors<'t>(pairs: impl Iterator<Item = (&'t str, &'t str)>) -> UdpErrors {
    let mut errors = UdpErrors::default();
    for (name, value) in pairs {
        let value = value.parse().unwrap_or(0);
        match name {
            "InErrors" => errors.in_errors = value,
            "RcvbufErrors" => errors.receive_buffer_errors = value,
            "SndbufErrors" => errors.send_buffer_errors = value,
            "NoPorts" => errors.no_ports = value,
            "InDatagrams" => errors.datagrams_in = value,
            "OutDatagrams" => errors.datagrams_out = value,
            _ => {}
        }
    }
    errors
}

/// Reads `/proc/net/softnet_stat`: a line for each processor, in hexadecimal: processed, dropped, squeezed,
/// ...
pub(crate) fn parse_softnet(text: &str) -> Softnet {
    let mut sum = Softnet::default();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace().skip(1);
        let mut next = || words.next().and_then(|word| u64::from_str_radix(word, 16).ok()).unwrap_or(0);
        sum.dropped = sum.dropped.saturating_add(next());
        sum.squeezed = sum.squeezed.saturating_add(next());
    }
    sum
}

/// Adds the sockets on `port` that `/proc/net/udp` or `/proc/net/udp6` lists.
pub(crate) fn count_port(text: &str, port: u16, counters: &mut PortCounters) {
    for line in text.lines().skip(1) {
        let Some((local_port, queued_octets, drops)) = parse_socket(line) else { continue };
        if local_port == port {
            counters.sockets += 1;
            counters.drops = counters.drops.saturating_add(drops);
            counters.queued_octets = counters.queued_octets.saturating_add(queued_octets);
        }
    }
}

/// `sl local:port remote:port st tx:rx ... drops`: the local port, the receive queue, the drops.
fn parse_socket(line: &str) -> Option<(u16, u64, u64)> {
    let mut words = line.split_ascii_whitespace();
    let (_, port) = words.nth(1)?.rsplit_once(':')?;
    let (_, queued) = words.nth(2)?.split_once(':')?;
    let drops = words.next_back()?;
    Some((u16::from_str_radix(port, 16).ok()?, u64::from_str_radix(queued, 16).ok()?, drops.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn udp_counters_of_both_families() {
        let snmp = "Ip: Forwarding\nIp: 1\n\
            Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors\n\
            Udp: 101 8 58 168 57 3 0\nUdpLite: InErrors\nUdpLite: 9\n";
        let expected = UdpErrors {
            in_errors: 58,
            receive_buffer_errors: 57,
            send_buffer_errors: 3,
            no_ports: 8,
            datagrams_in: 101,
            datagrams_out: 168,
        };
        assert_eq!(parse_snmp(snmp), expected);
        let snmp6 = "Ip6InReceives 5\nUdp6NoPorts    \t8\nUdp6InErrors 58\nUdp6RcvbufErrors 57\nUdp6SndbufErrors 3\n\
            Udp6InDatagrams 101\nUdp6OutDatagrams 168\nUdpLite6InErrors 9\n";
        assert_eq!(parse_snmp6(snmp6), expected);
        assert_eq!(parse_snmp("Udp: InErrors\n"), UdpErrors::default());
        assert_eq!(expected.since(&expected), UdpErrors::default());
    }

    #[test]
    fn softnet_is_hexadecimal_and_summed() {
        let text = "00001181 0000000a 00000002 00000000\n00000066 00000006\n\n";
        assert_eq!(parse_softnet(text), Softnet { dropped: 16, squeezed: 2 });
    }

    #[test]
    fn the_sockets_of_a_port_are_summed() {
        let text = "   sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
            1234: 00000000000000000000000001000000:14C9 00000000000000000000000000000000:0000 07 00000000:00000300 00:00000000 00000000 65534        0 12345 2 0000000000000000 17\n\
            1235: 00000000000000000000000001000000:14C9 00000000000000000000000000000000:0000 07 00000000:00000100 00:00000000 00000000 65534        0 12346 2 0000000000000000 5\n\
            1236: 00000000000000000000000001000000:14CA 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000 65534        0 12347 2 0000000000000000 99\n\
            broken line\n";
        let mut counters = PortCounters::default();
        count_port(text, 0x14c9, &mut counters);
        assert_eq!(counters, PortCounters { sockets: 2, drops: 22, queued_octets: 0x400 });
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(Udp6?: )?[A-Za-z0-9:. \n]{0,200}", port: u16) {
            let _ = (parse_snmp(&text), parse_snmp6(&text), parse_softnet(&text));
            count_port(&text, port, &mut PortCounters::default());
        }
    }
}

//! Devices and routes, in network namespaces.
#![allow(missing_docs, clippy::unwrap_used)]

mod support;

use std::net::SocketAddr;

use net::link::{Device, PathError, path_to, path_via};
use net::netns;
use support::{DEVICE, Pair, SERVER_V4, SERVER_V6, TESTER_V4, TESTER_V6, ip};

fn mac_in(namespace: &str) -> [u8; 6] {
    netns::within(namespace, || Device::named(DEVICE).unwrap().hardware_address().unwrap()).unwrap()
}

#[test]
fn the_path_leads_to_the_neighbour_or_to_the_router_before_the_server() {
    let Some(pair) = Pair::make(2) else { return };
    let (here, there) = (mac_in(&pair.tester), mac_in(&pair.server));
    assert!(ip(&format!("-n {} route add 192.0.2.0/24 via {SERVER_V4}", pair.tester)));
    assert!(ip(&format!("-n {} route add 203.0.113.0/24 via inet6 {SERVER_V6} dev {DEVICE}", pair.tester)));
    netns::within(&pair.tester, || {
        let cases = [
            (format!("{SERVER_V4}:53"), TESTER_V4),
            (format!("[{SERVER_V6}]:53"), TESTER_V6),
            ("192.0.2.1:53".to_owned(), TESTER_V4),
            ("203.0.113.1:53".to_owned(), TESTER_V4),
        ];
        for (server, source) in cases {
            let server: SocketAddr = server.parse().unwrap();
            let path = path_to(server).unwrap();
            assert_eq!(path.device, Device::named(DEVICE).unwrap());
            assert_eq!(path.source, source.parse::<std::net::IpAddr>().unwrap());
            assert_eq!((path.source_mac, path.next_hop_mac), (here, there), "{server}");
            assert_eq!(path_via(server, &path.device).unwrap(), path);
        }
    })
    .unwrap();
}

#[test]
fn the_device_tells_its_queues_driver_and_offloads() {
    let Some(pair) = Pair::make(2) else { return };
    netns::within(&pair.tester, || {
        let device = Device::named(DEVICE).unwrap();
        assert_eq!((device.rx_queues().unwrap(), device.mtu().unwrap()), (2, 1500));
        assert_eq!(device.driver().unwrap(), "veth");
        assert!(device.is_running().unwrap());
        let features = device.features().unwrap();
        assert!(features.gso && features.tx_udp_segmentation && features.tx_checksum, "{features:?}");
        let statistics = device.statistics().unwrap();
        assert!(statistics.contains_key("link.rx_packets"), "{statistics:?}");
        assert!(statistics.keys().any(|name| name.starts_with("ethtool.rx_queue_1_")), "{statistics:?}");
    })
    .unwrap();
}

#[test]
fn a_path_that_leads_nowhere_is_an_error_that_says_where_it_ends() {
    let Some(pair) = Pair::make(1) else { return };
    assert!(ip(&format!("-n {} route add blackhole 192.0.2.0/24", pair.tester)));
    assert!(ip(&format!("-n {} tuntap add axtun mode tun", pair.tester)));
    assert!(ip(&format!("-n {} addr add 198.51.100.1/24 dev axtun", pair.tester)));
    assert!(ip(&format!("-n {} link set axtun up", pair.tester)));
    netns::within(&pair.tester, || {
        let error = |server: &str| path_to(server.parse().unwrap()).unwrap_err();
        for unreachable in ["203.0.113.1:53", "192.0.2.1:53", "[2001:db8::1]:53"] {
            assert!(matches!(error(unreachable), PathError::NoRoute(..)), "{unreachable}");
        }
        for own in [format!("{TESTER_V4}:53"), format!("[{TESTER_V6}]:53")] {
            assert!(matches!(error(&own), PathError::Loopback(_)), "{own}");
        }
        let tunnel = error("198.51.100.2:53");
        assert!(matches!(tunnel, PathError::NotEthernet(..)), "{tunnel:?}");
        let silent = error("198.18.0.9:53");
        assert!(silent.to_string().starts_with("198.18.0.9 does not answer ARP on ax0"), "{silent}");
        let silent = error("[2001:2::9]:53");
        assert!(silent.to_string().contains("does not answer neighbour discovery"), "{silent}");
    })
    .unwrap();
}

//! Devices and routes, in network namespaces.

mod support;

use std::net::{IpAddr, SocketAddr};

use support::{DEVICE, MACS, PEER, Pair, TESTER, ip, may_make_namespaces};
use sys::link::{Changes, Device, Hop, PathError, next_hop, path_to, path_via};
use sys::poll::{Events, Interest, Poller};

#[test]
fn the_path_leads_to_the_neighbour_or_to_the_router_before_the_server() {
    if !may_make_namespaces() {
        return;
    }
    let pair = Pair::with_queues(2);
    let name = pair.tester_name();
    let [server_v4, server_v6] = PEER;
    let [source_v4, source_v6] = TESTER;
    ip(&format!("-n {name} route add 192.0.2.0/24 via {server_v4}"));
    ip(&format!("-n {name} route add 203.0.113.0/24 via inet6 {server_v6} dev {DEVICE}"));
    pair.tester(|| {
        let cases = [
            (format!("{server_v4}:53"), source_v4),
            (format!("[{server_v6}]:53"), source_v6),
            ("192.0.2.1:53".to_owned(), source_v4),
            ("203.0.113.1:53".to_owned(), source_v4),
        ];
        for (server, source) in cases {
            let server: SocketAddr = server.parse().unwrap();
            let path = path_to(server).unwrap();
            assert_eq!(path.device, Device::named(DEVICE).unwrap());
            assert_eq!(path.source, source.parse::<IpAddr>().unwrap());
            assert_eq!((path.source_mac, path.next_hop_mac), (MACS[0], MACS[1]), "{server}");
            assert_eq!(path_via(server, &path.device).unwrap(), path);
        }
    });
}

#[test]
fn the_next_hop_is_what_the_kernel_knows_and_news_of_it_are_heard() {
    if !may_make_namespaces() {
        return;
    }
    let pair = Pair::new();
    let name = pair.tester_name();
    ip(&format!("-n {name} route add 192.0.2.0/24 via {}", PEER[0]));
    pair.tester(|| {
        let (changes, poller, mut events) =
            (Changes::new().unwrap(), Poller::new().unwrap(), Events::with_capacity(1));
        poller.add(&changes, 0, Interest::Read).unwrap();
        let device = Device::named(DEVICE).unwrap().index;
        for (server, source, neighbour) in [
            (format!("{}:53", PEER[0]), TESTER[0], PEER[0]),
            (format!("[{}]:53", PEER[1]), TESTER[1], PEER[1]),
            ("192.0.2.1:53".to_owned(), TESTER[0], PEER[0]),
        ] {
            let (server, source): (SocketAddr, IpAddr) = (server.parse().unwrap(), source.parse().unwrap());
            assert_eq!(next_hop(server, source).unwrap(), None, "nobody has asked for {neighbour}");
            for (state, certain) in [("permanent", true), ("stale", false)] {
                changes.take();
                ip(&format!(
                    "-n {name} neigh replace {neighbour} lladdr 02:00:00:00:00:02 dev {DEVICE} nud {state}"
                ));
                assert_eq!(poller.wait(&mut events, None).unwrap(), 1);
                let hop = Hop { device, mac: MACS[1], certain };
                assert_eq!(next_hop(server, source).unwrap(), Some(hop), "{server}");
            }
            ip(&format!("-n {name} neigh del {neighbour} dev {DEVICE}"));
            assert!(changes.take() && !changes.take());
        }
    });
}

#[test]
fn the_device_tells_its_queues_driver_and_offloads() {
    if !may_make_namespaces() {
        return;
    }
    let pair = Pair::with_queues(2);
    pair.tester(|| {
        let device = Device::named(DEVICE).unwrap();
        assert_eq!((device.rx_queues().unwrap(), device.mtu().unwrap()), (2, 1500));
        assert_eq!(device.driver().unwrap(), "veth");
        assert!(device.is_running().unwrap());
        let features = device.features().unwrap();
        assert!(features.gso && features.tx_udp_segmentation && features.tx_checksum, "{features:?}");
        let statistics = device.statistics().unwrap();
        assert!(statistics.contains_key("link.rx_packets"), "{statistics:?}");
        assert!(statistics.keys().any(|name| name.starts_with("ethtool.rx_queue_1_")), "{statistics:?}");
    });
}

#[test]
fn a_path_that_leads_nowhere_is_an_error_that_says_where_it_ends() {
    if !may_make_namespaces() {
        return;
    }
    let pair = Pair::new();
    let name = pair.tester_name();
    ip(&format!("-n {name} route add blackhole 192.0.2.0/24"));
    ip(&format!("-n {name} tuntap add axtun mode tun"));
    ip(&format!("-n {name} addr add 198.51.100.1/24 dev axtun"));
    ip(&format!("-n {name} link set axtun up"));
    pair.tester(|| {
        let error = |server: &str| path_to(server.parse().unwrap()).unwrap_err();
        for unreachable in ["203.0.113.1:53", "192.0.2.1:53", "[2001:db8::1]:53"] {
            assert!(matches!(error(unreachable), PathError::NoRoute(..)), "{unreachable}");
        }
        for own in [format!("{}:53", TESTER[0]), format!("[{}]:53", TESTER[1])] {
            assert!(matches!(error(&own), PathError::Loopback(_)), "{own}");
        }
        let tunnel = error("198.51.100.2:53");
        assert!(matches!(tunnel, PathError::NotEthernet(..)), "{tunnel:?}");
        let silent = error("198.18.0.9:53");
        assert!(silent.to_string().starts_with("198.18.0.9 does not answer ARP on veth0"), "{silent}");
        let silent = error("[2001:2::9]:53");
        assert!(silent.to_string().contains("does not answer neighbour discovery"), "{silent}");
    });
}

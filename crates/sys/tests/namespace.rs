//! Network namespaces with names, and devices made in them.

mod support;

use std::io::ErrorKind;
use std::net::{IpAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use support::may_make_namespaces;
use sys::link::{Device, Hop, Network, VethEnd, add_route, add_veth, addresses, next_hop};
use sys::netns::{make, place, remove, within, within_with_sysfs};

/// Two namespaces, whose names go with this value.
struct Two([String; 2]);

impl Two {
    fn new(test: &str) -> Self {
        let names = ["a", "b"].map(|end| format!("ns{}-{test}-{end}", std::process::id()));
        for name in &names {
            make(name, || Device::named("lo")?.set_up()).expect("root may make namespaces");
        }
        Self(names)
    }

    /// Joins both by a pair of devices with this name.
    fn join(&self, name: &str) -> std::io::Result<()> {
        let end =
            |at: usize| VethEnd { name, mac: [2, 0, 0, 0, 0, at as u8], namespace: &self.0[at], queues: 2 };
        add_veth(&end(0), &end(1))
    }
}

impl Drop for Two {
    fn drop(&mut self) {
        for name in &self.0 {
            let _ = remove(name);
        }
    }
}

#[test]
fn a_namespace_is_there_from_its_preparation_until_its_name_is_removed() {
    if !may_make_namespaces() {
        return;
    }
    let name = format!("ns{}-life", std::process::id());
    let failed = make(&name, || Err(std::io::Error::other("not today"))).unwrap_err();
    assert_eq!(failed.to_string(), format!("network namespace {name}: not today"));
    assert_eq!(within(&name, || ()).unwrap_err().kind(), ErrorKind::NotFound, "it got no name");

    make(&name, || Device::named("lo")?.set_alias("prepared")).unwrap();
    let alias = || Device::named("lo")?.alias();
    assert_eq!(within(&name, alias).unwrap().unwrap().as_deref(), Some("prepared"));
    assert_eq!(alias().unwrap(), None, "the lo of another namespace");
    let taken = make(&name, || Ok(())).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
    assert!(taken.to_string().starts_with(&format!("network namespace {name}: mounting it at /run/netns/")));
    within(&name, || ()).expect("it is as it was");

    remove(&name).unwrap();
    assert_eq!(remove(&name).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(make("a/b", || Ok(())).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn sysfs_shows_the_devices_of_the_namespace_to_those_inside_alone() {
    if !may_make_namespaces() {
        return;
    }
    let two = Two::new("sysfs");
    two.join("only").unwrap();
    let names = || {
        let devices = std::fs::read_dir("/sys/class/net").unwrap();
        let mut names: Vec<String> =
            devices.map(|device| device.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(within_with_sysfs(&two.0[0], names).unwrap(), ["lo", "only"]);
    assert!(!names().contains(&"only".to_owned()));
    let mut list = Command::new("ls");
    let listed = place(list.arg("/sys/class/net"), &two.0[1]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&listed.stdout), "lo\nonly\n");
    let mut nowhere = Command::new("ls");
    assert_eq!(place(&mut nowhere, "no-such-namespace").output().unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn devices_are_what_they_are_told_to_be() {
    if !may_make_namespaces() {
        return;
    }
    let two = Two::new("set");
    two.join("veth0").unwrap();
    let again = two.join("veth0").unwrap_err().to_string();
    assert!(again.starts_with("cannot make the link of veth0 in ns"), "{again}");
    let set = || {
        let device = Device::named("veth0").unwrap();
        assert_eq!(device.hardware_address().unwrap(), [2, 0, 0, 0, 0, 0]);
        assert_eq!(device.rx_queues().unwrap(), 2);
        for on in [false, true, false] {
            device.switch_offloads(|name| name == "tx-udp-segmentation", on).unwrap();
            assert_eq!(device.features().unwrap().tx_udp_segmentation, on);
        }
        let refused = device.switch_offloads(|name| name == "no-such-offload", true).unwrap_err();
        assert_eq!(refused.to_string(), "cannot switch offloads of veth0 on: none of them is on");
        device.silence().unwrap();
        device.set_up().unwrap();
        for (own, peer) in [("192.0.2.1", "192.0.2.2"), ("2001:db8::1", "2001:db8::2")] {
            let [own, peer] = [own, peer].map(|address| address.parse::<IpAddr>().unwrap());
            device.add_address(own, if own.is_ipv4() { 24 } else { 64 }).unwrap();
            let twice = device.add_address(own, 24).unwrap_err().to_string();
            assert!(twice.starts_with(&format!("cannot give veth0 the address {own}/24: ")), "{twice}");
            device.fix_neighbour(peer, [2, 0, 0, 0, 0, 1]).unwrap();
            let hop = Hop { device: device.index, mac: [2, 0, 0, 0, 0, 1], certain: true };
            assert_eq!(next_hop((peer, 53).into(), own).unwrap(), Some(hop));
        }
        device.set_queue(100).unwrap();
        device.index
    };
    within(&two.0[0], set).unwrap();
    let own = within(&two.0[0], addresses).unwrap().unwrap();
    let own: Vec<String> =
        own.iter().filter(|one| one.device == "veth0").map(|one| one.address.to_string()).collect();
    assert_eq!(own, ["192.0.2.1", "2001:db8::1"], "no link-local address");
    within(&two.0[0], || Device::named("veth0")?.remove()).unwrap().unwrap();
    assert!(within(&two.0[1], || Device::named("veth0")).unwrap().is_err(), "the other end is gone, too");
}

#[test]
fn routes_lead_to_a_network_that_the_other_side_has_taken() {
    if !may_make_namespaces() {
        return;
    }
    let two = Two::new("route");
    two.join("veth0").unwrap();
    let all = Network { address: "198.51.100.0".parse().unwrap(), bits: 24 };
    let up = |address: &str| {
        let device = Device::named("veth0")?;
        device.add_address(address.parse().unwrap(), 24)?;
        device.set_up()
    };
    let far = || {
        up("192.0.2.2").unwrap();
        Device::named("lo").unwrap().take_network(all).unwrap();
        UdpSocket::bind("198.51.100.77:0").unwrap()
    };
    let far = within(&two.0[1], far).unwrap();
    far.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let send = || {
        up("192.0.2.1").unwrap();
        add_route(all, "192.0.2.2".parse().unwrap()).unwrap();
        let twice = add_route(all, "192.0.2.2".parse().unwrap()).unwrap_err().to_string();
        assert!(twice.starts_with("cannot add the route to 198.51.100.0/24 via 192.0.2.2: "), "{twice}");
        UdpSocket::bind("192.0.2.1:0").unwrap().send_to(b"there", far.local_addr().unwrap()).unwrap();
    };
    within(&two.0[0], send).unwrap();
    assert_eq!(far.recv(&mut [0; 16]).unwrap(), 5);
}

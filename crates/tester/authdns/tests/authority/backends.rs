//! The same queries by every back-end, over IPv4 and IPv6 and with VLAN tags, on a veth between namespaces;
//! and what each refuses.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use authdns::xdp_service::{ServiceRing, XdpService};
use authdns::{
    ANSWER_OCTETS_MAX, Authority, AuthorityConfig, Counters, Io, IoRefusal, StartError, Transport, Zone,
    ZoneConfig,
};
use lab::network::{Lab, LabSpec, Role};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use sys::frame::{HEADERS_V4_OCTETS, HEADERS_V6_OCTETS, QueryFrame, Template};
use sys::link::Device;
use sys::netns;

use super::frames::{QueryFrame as Asking, asked};
use super::kernel::can_run;
use super::server::until;

/// Of the clients that send frames.
const CLIENT_PORT: u16 = 4096;
const PATIENCE: Duration = Duration::from_secs(10);

fn lab(name: &str) -> Lab {
    let name = format!("ab{}{name}", std::process::id());
    // The wire of these tests listens at one queue.
    Lab::up(&LabSpec { name, queues: 1, ..LabSpec::default() }).unwrap()
}

/// The addresses that the AuthDNS listens on.
fn listen(lab: &Lab) -> Vec<SocketAddr> {
    let end = lab.end(Role::Auth, Role::Tester);
    [end.ipv4.into(), end.ipv6.into()].map(|ip| SocketAddr::new(ip, 53)).to_vec()
}

fn start(lab: &Lab, zone: &Arc<Zone>, config: &AuthorityConfig) -> Result<Authority, StartError> {
    netns::within(&lab.namespace(Role::Auth), || Authority::start(zone.clone(), config)).unwrap()
}

/// The same where nothing stands in the way, but for children of other tests that are just being started:
/// they hold the sockets of the server before until they run.
fn start_soon(lab: &Lab, zone: &Arc<Zone>, config: &AuthorityConfig) -> Authority {
    let until = Instant::now() + PATIENCE;
    loop {
        match start(lab, zone, config) {
            Err(StartError::Bind { error, .. })
                if error.kind() == ErrorKind::AddrInUse && Instant::now() < until =>
            {
                std::thread::sleep(Duration::from_millis(10));
            }
            started => return started.unwrap(),
        }
    }
}

/// Asks a server so many random queries; every answer must be the answer function's. Returns how many were
/// sent.
fn ask(lab: &Lab, zone: &Zone, server: SocketAddr, queries: usize) -> u64 {
    let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = netns::within(&lab.namespace(Role::Tester), || UdpSocket::bind(any)).unwrap().unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut runner = TestRunner::deterministic();
    let (mut expected, mut answer) = ([0; ANSWER_OCTETS_MAX], [0; 2048]);
    for _ in 0..queries {
        let asked = asked().new_tree(&mut runner).unwrap().current();
        let query = asked.message(&zone.config().suffix);
        socket.send(&query).unwrap();
        let octets = zone.respond(&query, Transport::Udp, &mut expected);
        if octets > 0 {
            let length = socket.recv(&mut answer).unwrap_or_else(|error| panic!("{asked:?}: {error}"));
            assert_eq!(answer[..length], expected[..octets], "{asked:?} to {server}");
        }
    }
    queries as u64
}

/// The way from the Tester to the AuthDNS, for frames.
struct Wire {
    device: XdpService,
    ring: ServiceRing,
}

impl Wire {
    /// Takes what comes to the ports of the clients.
    fn open(lab: &Lab) -> Self {
        let end = lab.end(Role::Tester, Role::Auth);
        let clients = [end.ipv4.into(), end.ipv6.into()].map(|ip| SocketAddr::new(ip, CLIENT_PORT));
        let open = || {
            let mut device = XdpService::open(Device::named(&end.device).unwrap(), &clients, None).unwrap();
            let ring = device.ring(0).unwrap();
            Self { device, ring }
        };
        netns::within(&lab.namespace(Role::Tester), open).unwrap()
    }

    /// Sends a frame and returns the payload of the one that comes back, and where it stands there.
    fn exchange(&mut self, frame: &[u8]) -> (Vec<u8>, usize) {
        assert!(self.ring.send(frame));
        self.ring.flush().unwrap();
        let until = Instant::now() + PATIENCE;
        let mut back = None;
        while back.is_none() {
            assert!(Instant::now() < until, "nothing came: {:?}", self.device.counters());
            let take = |asked: &QueryFrame<'_>, _: &mut [u8]| {
                back = Some((asked.datagram.payload.to_vec(), asked.payload_offset()));
                0
            };
            self.ring.serve(take).unwrap();
        }
        back.unwrap()
    }
}

/// A frame from the Tester to the AuthDNS, with VLAN tags and padding.
fn tagged_frame(lab: &Lab, server: SocketAddr, tags: &[[u8; 4]], query: &[u8]) -> Vec<u8> {
    let (from, to) = (lab.end(Role::Tester, Role::Auth), lab.end(Role::Auth, Role::Tester));
    let mac = |text: &str| {
        let octets: Vec<u8> = text.split(':').map(|octet| u8::from_str_radix(octet, 16).unwrap()).collect();
        octets.try_into().unwrap()
    };
    let client = if server.is_ipv4() { from.ipv4.into() } else { from.ipv6.into() };
    let client = SocketAddr::new(client, CLIENT_PORT);
    let template = Template::new(mac(&from.mac), mac(&to.mac), client, server).unwrap();
    let mut frame = vec![0; template.payload_offset()];
    frame.extend(query);
    template.complete(&mut frame, query.len());
    frame.splice(12..12, tags.concat());
    // Frames of sockets have little room to grow on a veth, and nobody serves tagged ones that pass.
    frame.resize(400, 0);
    frame
}

/// Asks by frames with VLAN tags, which must come back with the answers.
fn ask_through_vlans(io: Io, lab: &Lab, zone: &Arc<Zone>) {
    let config = AuthorityConfig { listen: listen(lab), io, ..AuthorityConfig::default() };
    let authority = start_soon(lab, zone, &config);
    let mut wire = Wire::open(lab);
    let one = [[0x81, 0, 0x20, 7]];
    let two = [[0x88, 0xa8, 0, 7], [0x81, 0, 0, 9]];
    let opt = Some(vec![0, 0, 41, 4, 208, 0, 0, 128, 0, 0, 0]);
    for &server in &config.listen {
        for (id, tags) in [(1, &[][..]), (2, &one), (3, &two)] {
            for qtype in [1, 28] {
                let asked = Asking { id, qtype, upper_case: 0x5555, opt: opt.clone(), ..Asking::default() };
                let query = asked.message(&zone.config().suffix);
                let (answer, at) = wire.exchange(&tagged_frame(lab, server, tags, &query));
                let headers = if server.is_ipv4() { HEADERS_V4_OCTETS } else { HEADERS_V6_OCTETS };
                assert_eq!(at, headers + 4 * tags.len());
                let mut expected = [0; ANSWER_OCTETS_MAX];
                let octets = zone.respond(&query, Transport::Udp, &mut expected);
                assert_eq!(answer, expected[..octets]);
            }
        }
    }
    // An answer is counted when it has left.
    until("all answers are counted", || authority.counters().udp.answers == 12);
}

#[test]
fn vlan_tags_come_back_with_the_answers() {
    if !can_run() {
        return;
    }
    let lab = lab("vlan");
    let zone = Arc::new(Zone::new(ZoneConfig { aaaa_share_percent: 50, ..ZoneConfig::default() }).unwrap());
    ask_through_vlans(Io::Xdp, &lab, &zone);
    ask_through_vlans(Io::Kernel, &lab, &zone);
}

/// Runs `ip` with these words; what it says where it fails.
fn ip(words: &str) -> Result<(), String> {
    let done = std::process::Command::new("ip").args(words.split(' ')).output().unwrap();
    let why = || format!("ip {words}: {}", String::from_utf8_lossy(&done.stderr).trim());
    if done.status.success() { Ok(()) } else { Err(why()) }
}

/// A device that takes off VLAN tags before programs see them, as a veth does: the answers would leave
/// without.
#[test]
fn vlan_devices_whose_tags_are_hidden_are_served_by_sockets_or_on_themselves() {
    if !can_run() || !testing::has_program("ip", "iproute2") {
        return;
    }
    let lab = lab("hid");
    for (role, to, number) in [(Role::Tester, Role::Auth, 1), (Role::Auth, Role::Tester, 2)] {
        let (namespace, below) = (lab.namespace(role), lab.end(role, to).device);
        if let Err(why) = ip(&format!("-n {namespace} link add link {below} name v7 type vlan id 7")) {
            testing::skip("vlan", format!("no VLAN devices here: {why}"));
            return;
        }
        ip(&format!("-n {namespace} address add 192.0.2.{number}/24 dev v7")).unwrap();
        ip(&format!("-n {namespace} link set v7 up")).unwrap();
    }
    let zone = Arc::new(Zone::new(ZoneConfig { aaaa_share_percent: 50, ..ZoneConfig::default() }).unwrap());
    let server: SocketAddr = "192.0.2.2:53".parse().unwrap();
    let config = |io, device: Option<&str>| AuthorityConfig {
        listen: vec![server],
        io,
        device: device.map(str::to_owned),
        ..AuthorityConfig::default()
    };
    for io in [Io::Kernel, Io::Xdp] {
        let (is_usage, text) = refusal(&lab, &zone, &config(io, None));
        assert!(is_usage && text.contains("takes off the VLAN tags of v7"), "{text}");
    }
    for (io, device) in [(Io::Auto, None), (Io::Kernel, Some("v7")), (Io::Xdp, Some("v7"))] {
        let authority = start_soon(&lab, &zone, &config(io, device));
        assert_eq!(authority.io(), if io == Io::Auto { Io::Udp } else { io });
        ask(&lab, &zone, server, 50);
    }
}

/// Asks all addresses and returns what was counted.
fn ask_by(io: Io, lab: &Lab, zone: &Arc<Zone>) -> Counters {
    let config = AuthorityConfig { listen: listen(lab), io, ..AuthorityConfig::default() };
    let authority = start_soon(lab, zone, &config);
    assert_eq!(authority.io(), io, "{}", authority.io_in_words());
    let sent: u64 = config.listen.iter().map(|&server| ask(lab, zone, server, 300)).sum();
    let counters = authority.stop();
    assert_eq!(counters.udp.queries(), sent, "{io}: {counters:?}");
    assert_eq!(counters.udp.answers + counters.udp.dropped, sent, "{io}: {counters:?}");
    counters
}

#[test]
fn every_back_end_gives_the_same_octets_over_every_path() {
    if !can_run() {
        return;
    }
    let lab = lab("same");
    let config = ZoneConfig { aaaa_share_percent: 50, ttl_s: 7, ..ZoneConfig::default() };
    let zone = Arc::new(Zone::new(config).unwrap());
    let by_sockets = ask_by(Io::Udp, &lab, &zone);
    let by_rings = ask_by(Io::Xdp, &lab, &zone);
    let by_program = ask_by(Io::Kernel, &lab, &zone);
    assert_eq!((by_sockets.udp, by_sockets.udp), (by_rings.udp, by_program.udp), "all count alike");
    let sent = by_program.udp.queries();
    assert!((sent / 20..sent).contains(&by_program.kernel_passed), "{by_program:?}");
}

#[test]
fn auto_takes_the_kernel_where_it_can_and_says_why_not_elsewhere() {
    if !can_run() {
        return;
    }
    let lab = lab("auto");
    let zone = Arc::new(Zone::new(ZoneConfig::default()).unwrap());
    let any = vec!["[::]:53".parse().unwrap(), "0.0.0.0:53".parse().unwrap()];
    let config = AuthorityConfig { listen: any, io: Io::Auto, ..AuthorityConfig::default() };
    let authority = start_soon(&lab, &zone, &config);
    assert_eq!(authority.io(), Io::Kernel);
    let words = authority.io_in_words();
    assert!(words.contains("native XDP on tester0") && words.contains("dut0"), "{words}");
    ask(&lab, &zone, SocketAddr::new(lab.end(Role::Auth, Role::Tester).ipv6.into(), 53), 50);
    assert!(authority.counters().udp.answers > authority.counters().kernel_passed);
    drop(authority);

    let lo = AuthorityConfig { listen: vec!["127.0.0.1:53".parse().unwrap()], ..config.clone() };
    let authority = start_soon(&lab, &zone, &lo);
    assert_eq!(authority.io(), Io::Udp);
    assert_eq!(authority.io_in_words(), "udp");
    drop(authority);

    let suffix = ["abcdefgh"; 8].join(".");
    let long = Arc::new(Zone::new(ZoneConfig { suffix, ..ZoneConfig::default() }).unwrap());
    let authority = start_soon(&lab, &long, &config);
    assert_eq!(authority.io(), Io::Xdp);
    assert!(authority.io_in_words().contains("not kernel: suffix 'abcdefgh."), "{}", authority.io_in_words());
    drop(authority);

    let in_threads = AuthorityConfig { in_threads: true, ..config };
    let authority = start_soon(&lab, &zone, &in_threads);
    let words = authority.io_in_words();
    assert!(authority.io() == Io::Xdp && words.contains("not in chosen threads"), "{words}");
}

/// The one line with which a start is refused, and whether asking for something else would help.
fn refusal(lab: &Lab, zone: &Arc<Zone>, config: &AuthorityConfig) -> (bool, String) {
    let Err(error) = start(lab, zone, config) else { panic!("it was started") };
    let is_usage = matches!(error, StartError::Io(_, IoRefusal::Usage(_)));
    (is_usage, error.to_string())
}

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    if !can_run() {
        return;
    }
    let lab = lab("bad");
    let (namespace, end) = (lab.namespace(Role::Auth), lab.end(Role::Auth, Role::Tester));
    let zone = Arc::new(Zone::new(ZoneConfig::default()).unwrap());
    let listen = vec![SocketAddr::new(end.ipv4.into(), 53)];
    let config = |io| AuthorityConfig { listen: listen.clone(), io, ..AuthorityConfig::default() };

    let foreign = lab.attach_pass(Role::Auth, Role::Tester).unwrap();
    let program = || {
        let device = Device::named(&end.device).unwrap();
        sys::bpf::attached_program(device.index).unwrap()
    };
    let before = netns::within(&namespace, program).unwrap();
    for io in [Io::Kernel, Io::Xdp] {
        let (is_usage, text) = refusal(&lab, &zone, &config(io));
        assert!(!is_usage && text.contains("tester0 has another XDP program already"), "{text}");
        assert!(text.contains("'pass'") && text.contains(&before.unwrap().to_string()), "{text}");
    }
    assert_eq!(netns::within(&namespace, program).unwrap(), before, "it was left alone");
    drop(foreign);

    // A port in use: no program stays on the device.
    let taken = netns::within(&namespace, || UdpSocket::bind(listen[0])).unwrap().unwrap();
    let (_, text) = refusal(&lab, &zone, &config(Io::Kernel));
    assert!(text.contains("198.18.13.3:53") && text.contains("stop the server that uses it"), "{text}");
    assert_eq!(netns::within(&namespace, program).unwrap(), None);
    drop(taken);

    for io in [Io::Kernel, Io::Xdp] {
        let device = Some("nonesuch".to_owned());
        let (is_usage, text) = refusal(&lab, &zone, &AuthorityConfig { device, ..config(io) });
        assert!(is_usage && text.contains("--device: there is no network device \"nonesuch\""), "{text}");
        let lo = AuthorityConfig { listen: vec!["[::1]:53".parse().unwrap()], ..config(io) };
        let (is_usage, text) = refusal(&lab, &zone, &lo);
        assert!(is_usage && text.contains("lo has no Ethernet") && text.contains("--io udp"), "{text}");
    }
    let suffix = ["abcdefgh"; 8].join(".");
    let long = Arc::new(Zone::new(ZoneConfig { suffix, ..ZoneConfig::default() }).unwrap());
    let (is_usage, text) = refusal(&lab, &long, &config(Io::Kernel));
    assert!(is_usage && text.contains("has 73 octets") && text.contains("takes 64"), "{text}");
    let (is_usage, text) = refusal(&lab, &zone, &AuthorityConfig { threads: 1000, ..config(Io::Xdp) });
    assert!(is_usage && text.contains("1000 threads need a receive queue each, and tester0 has"), "{text}");
}

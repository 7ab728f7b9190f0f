//! `sextant lab`: what it makes is there, what it removes is gone, and what is not its own stays.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use authdns::{Authority, AuthorityConfig, Io, Zone, ZoneConfig};
use lab::network::{Lab, LabSpec, Role, remove};
use sys::link::Device;

use crate::running::{Background, command, sextant, stderr, stdout};

/// Whether labs can be made here; says why not.
pub fn can() -> bool {
    let checked = lab::network::check();
    if let Err(error) = &checked {
        testing::skip("lab", error);
    }
    checked.is_ok()
}

/// The name of a lab for one test; nothing of that name exists.
pub fn name(test: &str) -> String {
    format!("lb{}-{test}", std::process::id())
}

fn namespaces(lab: &str) -> Vec<String> {
    let here = |role: &Role| Path::new("/run/netns").join(format!("{lab}-{role}")).exists();
    Role::ALL.iter().filter(|role| here(role)).map(ToString::to_string).collect()
}

#[test]
fn lb_up_run_status_down() {
    if !can() {
        return;
    }
    let lab = name("up");
    let up = sextant(&["lab", "up", "--name", &lab, "--queues", "2", "--napi-cpu", "0", "--json"]);
    assert!(up.status.success(), "{}", stderr(&up));
    let made: serde_json::Value = serde_json::from_slice(&up.stdout).unwrap();
    assert_eq!(made["namespaces"][1]["namespace"], format!("{lab}-dut"));
    assert_eq!(made["namespaces"][1]["ends"][0]["ipv6"], "2001:2:0:12::2");

    let again = sextant(&["lab", "up", "--name", &lab]);
    assert_eq!(again.status.code(), Some(3));
    assert!(stderr(&again).contains("is up already"), "{}", stderr(&again));

    let script = "ls /sys/class/net/tester0/queues; cat /sys/class/net/tester0/threaded; exit 7";
    let run = sextant(&["lab", "run", "--name", &lab, "--in", "dut", "--", "sh", "-c", script]);
    assert_eq!(run.status.code(), Some(7), "{}", stderr(&run));
    assert_eq!(stdout(&run), "rx-0\nrx-1\ntx-0\ntx-1\n1\n");
    let features = || Device::named("dut0")?.features();
    let features = sys::netns::within(&format!("{lab}-tester"), features).unwrap().unwrap();
    assert!(features.gro && !features.tx_udp_segmentation && !features.tso, "{features:?}");

    let status = sextant(&["lab", "status"]);
    assert!(stdout(&status).contains(&format!("The lab '{lab}' is up:")), "{}", stdout(&status));
    assert_eq!(namespaces(&lab).len(), 3, "a command in a standing lab leaves it standing");
    let down = sextant(&["lab", "down", "--name", &lab]);
    assert!(stdout(&down).contains(&format!("{lab}-tester, {lab}-dut, {lab}-auth")), "{}", stdout(&down));
    assert_eq!(namespaces(&lab), [""; 0]);
    let down = sextant(&["lab", "down", "--name", &lab]);
    assert!(down.status.success() && stdout(&down).contains("There is no lab"), "{}", stdout(&down));
}

/// Sends a datagram from a role's address and says where the other side saw it come from.
fn crossing(lab: &Lab, role: Role, towards: Role, ends: [SocketAddr; 2]) -> SocketAddr {
    let bind = |role, at: SocketAddr| {
        sys::netns::within(&lab.namespace(role), move || UdpSocket::bind(at)).unwrap().unwrap()
    };
    let (near, far) = (bind(role, ends[0]), bind(towards, ends[1]));
    far.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    near.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    near.send_to(b"there", far.local_addr().unwrap()).unwrap();
    let from = far.recv_from(&mut [0; 16]).unwrap().1;
    far.send_to(b"and back", from).unwrap();
    assert_eq!(near.recv(&mut [0; 16]).unwrap(), 8);
    from
}

#[test]
fn lb_datagrams_cross_every_link_in_both_families_and_from_client_sources() {
    if !can() {
        return;
    }
    let lab = Lab::up(&LabSpec { name: name("udp"), ..LabSpec::default() }).unwrap();
    for role in Role::ALL {
        for towards in role.peers() {
            let (near, far) = (lab.end(role, towards), lab.end(towards, role));
            let ipv4 = [(near.ipv4, 0).into(), (far.ipv4, 0).into()];
            assert_eq!(crossing(&lab, role, towards, ipv4).ip(), near.ipv4);
            let ipv6 = [(near.ipv6, 0).into(), (far.ipv6, 0).into()];
            assert_eq!(crossing(&lab, role, towards, ipv6).ip(), near.ipv6);
        }
    }
    for source in ["198.19.77.7:0", "[2001:2:0:cfff::7]:0"] {
        let source: SocketAddr = source.parse().unwrap();
        for towards in Role::Tester.peers() {
            let far = lab.end(towards, Role::Tester);
            let to = if source.is_ipv4() { (far.ipv4, 0).into() } else { SocketAddr::from((far.ipv6, 0)) };
            assert_eq!(crossing(&lab, Role::Tester, towards, [source, to]).ip(), source.ip());
        }
    }
    let label = lab.name().to_owned();
    drop(lab);
    assert_eq!(namespaces(&label), [""; 0]);
}

/// The query for a AAAA of `010-000-000-007.dns64perf.test`, without or with an OPT of 1232 octets.
fn query(id: u16, opt: bool) -> Vec<u8> {
    let mut query = id.to_be_bytes().to_vec();
    query.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(opt)]);
    for label in ["010-000-000-007", "dNs64perf", "test", ""] {
        query.push(label.len() as u8);
        query.extend(label.bytes());
    }
    query.extend([0, 28, 0, 1]);
    query.extend_from_slice(if opt { &[0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 0] } else { &[] });
    query
}

#[test]
fn lb_the_program_finds_room_for_answers_in_frames_of_sockets() {
    if !can() {
        return;
    }
    if let Err(error) = sys::bpf::available() {
        testing::skip("xdp", error);
        return;
    }
    let lab = Lab::up(&LabSpec { name: name("room"), ..LabSpec::default() }).unwrap();
    let far = lab.end(Role::Auth, Role::Dut);
    let at = |port| vec![SocketAddr::from((far.ipv4, port)), SocketAddr::from((far.ipv6, port))];
    let zone = Arc::new(Zone::new(ZoneConfig::default()).unwrap());
    let start = |io, port| {
        let config = AuthorityConfig { listen: at(port), io, ..AuthorityConfig::default() };
        let start = || Authority::start(zone.clone(), &config);
        sys::netns::within(&lab.namespace(Role::Auth), start).unwrap().unwrap()
    };
    let (program, sockets) = (start(Io::Kernel, 53), start(Io::Udp, 5353));
    let _pass = lab.attach_pass(Role::Dut, Role::Auth).unwrap();
    let ask = |server: SocketAddr, query: &[u8]| {
        let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket.send_to(query, server).unwrap();
        let mut answer = vec![0; 1500];
        let length = socket.recv(&mut answer).unwrap();
        answer.truncate(length);
        answer
    };
    sys::netns::within(&lab.namespace(Role::Dut), || {
        for (ours, theirs) in at(53).into_iter().zip(at(5353)) {
            // No name has a AAAA record: these are the longest answers, with an SOA record.
            for query in (0..40).map(|id| query(id, id % 2 == 1)) {
                let answer = ask(ours, &query);
                assert!(answer.len() > query.len() + 40, "{}", answer.len());
                assert_eq!(answer, ask(theirs, &query));
            }
        }
    })
    .unwrap();
    assert_eq!((program.counters().udp.queries(), sockets.counters().udp.queries()), (80, 80));
    assert_eq!(program.counters().kernel_no_room, 0);
}

#[test]
fn lb_a_temporary_lab_ends_with_its_command_however_that_ends() {
    if !can() {
        return;
    }
    let lab = name("run");
    for (script, code) in [("exit 3", 3), ("kill -9 $$", 137)] {
        let run = sextant(&["lab", "run", "--name", &lab, "--", "sh", "-c", script]);
        assert_eq!(run.status.code(), Some(code), "{}", stderr(&run));
        assert_eq!(namespaces(&lab), [""; 0]);
    }
    let missing = sextant(&["lab", "run", "--name", &lab, "--", "no-such-program"]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(stderr(&missing).contains("there is no program 'no-such-program'"));

    let script = "trap 'exit 5' TERM; echo ready >&2; while :; do sleep 0.05; done";
    let (running, _) =
        Background::start(command(&["lab", "run", "--name", &lab, "--", "sh", "-c", script]), "ready");
    let intruder = sextant(&["lab", "run", "--name", &lab, "--", "true"]);
    assert_eq!(intruder.status.code(), Some(3));
    assert!(stderr(&intruder).contains("belongs to process"), "{}", stderr(&intruder));
    running.signal("TERM");
    assert_eq!(running.end().0, Some(5), "the signal was passed on");
    assert_eq!(namespaces(&lab), [""; 0]);
}

#[test]
fn lb_what_a_killed_run_leaves_is_removed_by_the_next_command() {
    if !can() {
        return;
    }
    let lab = name("kill");
    // It replaces the shell: the process that the kernel kills with its parent is the one that says its
    // number.
    let script = "echo ready $$ >&2; exec sleep 300";
    let (running, line) =
        Background::start(command(&["lab", "run", "--name", &lab, "--", "sh", "-c", script]), "ready");
    let sleeper: u32 = line.trim().trim_start_matches("ready ").parse().unwrap();
    assert_eq!(namespaces(&lab).len(), 3);
    running.signal("KILL");
    running.end();
    let deadline = Instant::now() + Duration::from_secs(30);
    let runs = || fs::read_to_string(format!("/proc/{sleeper}/cmdline")).is_ok_and(|line| !line.is_empty());
    while runs() {
        assert!(Instant::now() < deadline, "the command outlives the lab");
        std::thread::sleep(Duration::from_millis(10));
    }
    // Whatever the next command is about.
    let down = sextant(&["lab", "down", "--name", &name("other")]);
    assert!(down.status.success(), "{}", stderr(&down));
    assert_eq!(namespaces(&lab), [""; 0]);
}

#[test]
fn lb_a_lab_that_was_killed_while_it_was_made_is_removed() {
    if !can() {
        return;
    }
    let lab = name("half");
    for after_ms in [0, 5, 10, 20, 40, 80] {
        let mut making = command(&["lab", "up", "--name", &lab]).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(after_ms));
        making.kill().unwrap();
        making.wait().unwrap();
        let down = sextant(&["lab", "down", "--name", &lab]);
        assert!(down.status.success(), "after {after_ms} ms: {}", stderr(&down));
        assert_eq!(namespaces(&lab), [""; 0], "after {after_ms} ms");
    }
}

#[test]
fn lb_namespaces_of_others_are_left_alone_and_debris_is_not() {
    if !can() {
        return;
    }
    let lab = name("own");
    let foreign = format!("{lab}-dut");
    sys::netns::make(&foreign, || Ok(())).unwrap();
    for action in [&["up"][..], &["down"], &["run"]] {
        let command: &[&str] = if action == ["run"] { &["--", "true"] } else { &[] };
        let output = sextant(&[&["lab"], action, &["--name", &lab], command].concat());
        assert_eq!(output.status.code(), Some(3));
        assert!(stderr(&output).contains("is not a lab's, and is left alone"), "{}", stderr(&output));
    }
    assert_eq!(namespaces(&lab), ["dut"]);
    sys::netns::remove(&foreign).unwrap();

    // As when a process is killed between making the file and the namespace.
    fs::write(format!("/run/netns/{foreign}"), "").unwrap();
    drop(Lab::up(&LabSpec { name: lab.clone(), ..LabSpec::default() }).unwrap());
    assert_eq!(namespaces(&lab), [""; 0]);
    assert_eq!(remove::down(&lab).unwrap(), remove::Removal::default());
}

#[test]
fn lb_no_other_program_is_needed() {
    if !can() {
        return;
    }
    let lab = name("bare");
    let up = ["lab", "up", "--name", &lab, "--napi-cpu", "0"];
    for arguments in [&up[..], &["lab", "status"], &["lab", "down", "--name", &lab]] {
        let output = command(arguments).env("PATH", "/nonexistent").output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        assert_eq!(namespaces(&lab).len(), if arguments[1] == "down" { 0 } else { 3 });
    }
}

#[test]
fn lb_ip_knows_our_namespaces_and_we_know_those_of_ip() {
    if !can() || !testing::has_program("ip", "iproute2") {
        return;
    }
    let ip = |arguments: &[&str]| {
        let output = std::process::Command::new("ip").args(arguments).output().unwrap();
        assert!(output.status.success(), "ip {}: {}", arguments.join(" "), stderr(&output));
        stdout(&output)
    };
    let lab = Lab::up(&LabSpec { name: name("ip"), ..LabSpec::default() }).unwrap();
    let inside = lab.namespace(Role::Auth);
    assert!(ip(&["netns", "list"]).lines().any(|line| line.split(' ').next() == Some(&inside)));
    // What earlier versions asked ip(8) for.
    let addresses = ip(&["-n", &inside, "-brief", "address"]);
    assert!(addresses.contains("198.18.23.3/24 2001:2:0:23::3/64"), "{addresses}");
    let routes = ip(&["-n", &inside, "route"]) + &ip(&["-n", &inside, "-6", "route"]);
    assert!(routes.contains("198.19.0.0/16 via 198.18.13.1 dev tester0"), "{routes}");
    assert!(routes.contains("2001:2:0:c000::/52 via 2001:2:0:13::1 dev tester0"), "{routes}");
    let local = ip(&["-n", &lab.namespace(Role::Tester), "route", "show", "table", "local"]);
    assert!(local.contains("local 198.19.0.0/16 dev lo"), "{local}");
    assert_eq!(ip(&["netns", "exec", &inside, "ls", "/sys/class/net"]), "dut0\nlo\ntester0\n");
    // What earlier versions made, by ip(8), is removed, too.
    let old = name("old");
    let left = format!("{old}-tester");
    ip(&["netns", "add", &left]);
    ip(&["-n", &left, "link", "set", "dev", "lo", "alias", &format!("sextant lab {old} stays")]);
    assert!(remove::down(&old).unwrap().namespaces.contains(&left));
    assert_eq!(namespaces(&old), [""; 0]);
}

#[test]
fn lb_missing_capabilities_and_bad_usage_are_told() {
    for (arguments, reason) in [
        (&["lab", "up", "--name", "a/b"][..], "no name for a lab"),
        (&["lab", "up", "--queues", "0"], "1 to 256"),
        (&["lab", "up", "--napi-cpu", "dut=x"], "not the number of a processor"),
        (&["lab", "run"], "COMMAND"),
    ] {
        let output = sextant(arguments);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(reason), "{}", stderr(&output));
    }
    if !can() {
        return;
    }
    let mut bounded = std::process::Command::new("setpriv");
    bounded.args(["--bounding-set", "-sys_admin", "--", env!("CARGO_BIN_EXE_sextant"), "lab", "up"]);
    let output = bounded.args(["--name", &name("caps")]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("need CAP_SYS_ADMIN, which"), "{}", stderr(&output));
}

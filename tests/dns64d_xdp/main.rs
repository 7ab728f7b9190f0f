//! The real dns64d past the kernel's stack, between a client and an upstream server in network namespaces of
//! their own.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod site;
#[path = "../support/mod.rs"]
mod support;

use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use lab::network::Role;
use site::Site;
use support::PATIENCE;
use support::client::{Answer, Ask, ask, ask_dnssec, ask_edns};
use support::server::{File, Server, TERMINATE};

const KILL: i32 = 9;

/// Whether this can run here; says why not.
fn can() -> bool {
    let lab = lab::network::check().map_err(|error| error.to_string());
    let can = lab.and_then(|()| sys::bpf::available().map_err(|error| error.to_string()));
    if let Err(why) = &can {
        testing::skip("xdp", why);
    }
    can.is_ok()
}

/// What clients ask, and some of what they should not.
fn questions() -> Vec<(&'static str, Ask)> {
    let mut status = ask("www.example.com AAAA");
    status.octets[2] |= 0x10;
    let mut header = ask("www.example.com AAAA");
    header.octets[5] = 2;
    vec![
        ("synthesized", ask("www.example.com AAAA")),
        ("with EDNS", ask_edns("www.example.com AAAA")),
        ("with DO", ask_dnssec("www.example.com AAAA")),
        ("in another case", ask("WWW.example.COM AAAA")),
        ("native", ask_edns("six.example.com AAAA")),
        ("A", ask("www.example.com A")),
        ("of a name that is not there", ask("no.example.com AAAA")),
        ("that fails", ask_edns("bad.example.com AAAA")),
        ("ANY", ask("www.example.com ANY")),
        ("PTR", ask("1.0.2.0.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa PTR")),
        ("of our own", ask_edns("ipv4only.arpa AAAA")),
        ("too long without EDNS", ask("big.example.com AAAA")),
        ("too long with EDNS", ask_edns("big.example.com AAAA")),
        ("without RD", ask("www.example.com AAAA").without_recursion()),
        ("of another opcode", status),
        ("malformed", header),
    ]
}

/// Asks dns64d at port 5302, past the stack, what dns64d at port 5301 answers by sockets, twice: the second
/// time from the cache. Returns how many questions each was asked.
fn compare(site: &Site) -> u64 {
    let mut asked = 0;
    for round in ["miss", "hit"] {
        for (what, question) in questions() {
            for (by_socket, past) in site.listen(5301).into_iter().zip(site.listen(5302)) {
                let answers = [by_socket, past].map(|server| site.ask(&question, server).unwrap());
                let [by_socket, by_frame] = answers.map(|answer| in_words(&answer));
                assert_eq!(by_socket, by_frame, "a question {what}, {round}, to {past}");
                asked += 1;
            }
        }
    }
    // The counters are published ten times a second.
    eventually("all questions are counted", || site.count("past", "client_messages") == asked);
    asked
}

/// Header, length and records; TTLs may have gone down in the meantime.
fn in_words(answer: &Answer) -> (Vec<u8>, usize, Vec<String>) {
    let words = |line: String| {
        line.split(' ').enumerate().filter(|(n, _)| *n != 2).map(|(_, word)| word.to_owned() + " ").collect()
    };
    // A malformed question is not repeated.
    let lines = if answer.octets.len() > 12 { answer.records() } else { Vec::new() };
    let records = lines.into_iter().map(words).collect();
    (answer.octets[..12].to_vec(), answer.octets.len(), records)
}

/// The synthesized answer of `www.example.com`, with any TTL.
fn is_synthesized(answer: &Answer) {
    let [record] = &answer.records()[..] else { panic!("RCODE {}: {:?}", answer.rcode(), answer.records()) };
    assert!(record.ends_with(" AAAA 2001:db8:64::c000:201"), "{record}");
}

fn eventually(what: &str, mut happens: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !happens() {
        assert!(start.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn dx_clients_have_the_answers_of_sockets() {
    if !can() {
        return;
    }
    let site = Site::new("clients", 4);
    let _sockets = site.spawn(&site.config("sockets", 5301, ""));
    let _past = site.spawn(&site.config("past", 5302, "[xdp]\ndevices = ['tester0']\n"));
    let asked = compare(&site);
    let count = |counter| site.count("past", counter);
    // What was asked twice within a second the program may have repeated.
    eventually("all questions are counted", || count("client_messages") == asked);
    let repeated = count("xdp_repeated");
    assert_eq!((count("xdp_received"), count("xdp_sent")), (asked - repeated, asked - repeated));
    assert_eq!((count("xdp_by_socket"), count("xdp_damaged"), count("xdp_dropped")), (0, 0, 0));
    assert!(count("upstream_queries") > 0);
}

#[test]
fn dx_upstream_servers_are_asked_past_the_stack_as_by_sockets() {
    if !can() {
        return;
    }
    for family in [4, 6] {
        let site = Site::new(&format!("both{family}"), family);
        let _sockets = site.spawn(&site.config("sockets", 5301, ""));
        let more = "[xdp]\ndevices = ['tester0', 'auth0']\n";
        let _past = site.spawn(&site.config("past", 5302, more));
        let asked = compare(&site);
        let count = |counter| site.count("past", counter);
        let queries = count("upstream_queries");
        assert!(queries > 5, "{queries}");
        // The longest of the answers came in fragments, and so to the socket.
        eventually("all questions are counted", || count("client_messages") == asked);
        let come = asked - count("xdp_repeated");
        assert_eq!((count("xdp_received"), count("xdp_sent")), (come + queries - 1, come + queries));
        assert_eq!((count("xdp_by_socket"), count("xdp_damaged"), count("timeouts")), (0, 0, 0));
        assert_eq!(queries, site.count("sockets", "upstream_queries"));
        let ports: std::collections::BTreeSet<u16> =
            site.upstream.received().iter().map(|query| query.from.port()).collect();
        assert!(ports.len() > 4, "both servers' ports are drawn: {ports:?}");
    }
}

#[test]
fn dx_ways_are_followed_and_sockets_are_there_where_none_is_known() {
    if !can() || !testing::has_program("ip", "iproute2") {
        return;
    }
    let site = Site::new("ways", 4);
    let more = "upstream.case_randomization = true\ncache.size_mib = 0\n[xdp]\ndevices = ['auth0']\n";
    let _past = site.spawn(&site.config("past", 5302, more));
    let [v4, _] = site.listen(5302);
    let neighbour = site.lab.end(Role::Auth, Role::Dut);
    let ip = |words: &str| {
        let words = words.split_whitespace();
        assert!(site.lab.command(Role::Dut, "ip").args(words).status().unwrap().success());
    };
    // How many of the two queries of a question left past the stack.
    let past = || {
        let before = site.count("past", "xdp_sent");
        is_synthesized(&site.ask(&ask("www.example.com AAAA"), v4).unwrap());
        site.count("past", "xdp_sent") - before
    };
    assert_eq!(past(), 2);
    // The kernel is made to confirm an entry in doubt, by one query.
    ip(&format!("neighbour replace {} lladdr {} dev auth0 nud stale", neighbour.ipv4, neighbour.mac));
    eventually("a query by a socket", || past() == 1);
    ip(&format!("neighbour delete {} dev auth0", neighbour.ipv4));
    eventually("the kernel has to find the next hop", || past() < 2);
    eventually("it has found it", || past() == 2);
}

#[test]
fn dx_it_goes_on_without_privileges_and_through_a_reload_and_leaves_nothing_behind() {
    if !can() {
        return;
    }
    let site = Site::new("life", 6);
    let more = "process.user = 'nobody'\n[xdp]\ndevices = ['tester0', 'auth0']\n";
    let text = site.config("past", 5302, more);
    let file = File::new(&text);
    for directory in [file.directory.path(), site.directory.path()] {
        std::fs::set_permissions(directory, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let command = site.command(&file);
    let mut server = Server::spawn(file, command);
    assert!(server.log.contains("event=xdp") && server.log.contains("device=auth0"), "{}", server.log);
    for task in std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap() {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        assert!(status.contains("Uid:\t65534\t65534\t65534\t65534"), "{status}");
        // CAP_NET_BIND_SERVICE at most.
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:\t")).unwrap();
        assert!(["0000000000000000", "0000000000000400"].contains(&effective), "{status}");
    }
    let sent = |server: SocketAddr| {
        let before = site.count("past", "xdp_sent");
        is_synthesized(&site.ask(&ask("www.example.com AAAA"), server).unwrap());
        site.count("past", "xdp_sent") - before
    };
    let [[v4, v6], [late_v4, late_v6], any] = [5302, 5303, 5304].map(|port| site.listen(port));
    assert_eq!((sent(v4), sent(v6)), (3, 1), "a miss takes two queries");
    // Other listeners, other sockets towards the server, no cache.
    let other = text.replace(":5302", ":5303") + "[cache]\nsize_mib = 0\n";
    server.file.write(&other);
    server.reload();
    assert_eq!((sent(late_v4), sent(late_v6)), (3, 3));
    let gone = site.ask_within(Duration::from_millis(300), &ask("www.example.com AAAA"), v4);
    assert!(gone.is_none(), "the listener is closed");
    // One that stands for all addresses.
    server.file.write(&other.replace(&format!("'{late_v4}', '{late_v6}'"), "'0.0.0.0:5304', '[::]:5304'"));
    server.reload();
    assert_eq!((sent(any[0]), sent(any[1])), (3, 3));

    assert!(site.program(Role::Tester).is_some() && site.program(Role::Auth).is_some());
    let (code, words) = server.end(TERMINATE);
    assert_eq!(code, Some(0), "{words}");
    assert_eq!((site.program(Role::Tester), site.program(Role::Auth)), (None, None));

    let server = site.spawn(&site.config("killed", 5302, "[xdp]\ndevices = ['tester0']\n"));
    assert!(site.program(Role::Tester).is_some());
    assert_eq!(server.end(KILL).0, None);
    eventually("the program is gone", || site.program(Role::Tester).is_none());
}

#[test]
fn dx_what_is_not_possible_is_one_line_and_exit_code_3() {
    if !can() {
        return;
    }
    let site = Site::new("errors", 4);
    let refused = |devices: &str, wrap: &[&str]| {
        let file = File::new(&site.config("refused", 5302, &format!("[xdp]\ndevices = [{devices}]\n")));
        let mut words = wrap.to_vec();
        words.extend([env!("CARGO_BIN_EXE_dns64d"), "--config", file.path.to_str().unwrap()]);
        let output = site.lab.command(Role::Dut, words[0]).args(&words[1..]).output().unwrap();
        assert_eq!(output.status.code(), Some(3));
        let stderr = String::from_utf8(output.stderr).unwrap();
        let last = stderr.lines().last().unwrap_or_default().to_owned();
        assert!(last.starts_with("dns64d: xdp.devices '"), "{stderr}");
        assert_eq!(site.program(Role::Tester), None, "nothing is left behind");
        last
    };
    let line = refused("'tester0', 'eth9'", &[]);
    assert!(line.contains("'eth9'") && line.contains("no network device"), "{line}");
    let held = site.lab.attach_pass(Role::Dut, Role::Auth).unwrap();
    let line = refused("'auth0'", &[]);
    assert!(line.contains("another XDP program already"), "{line}");
    drop(held);
    let without = ["setpriv", "--bounding-set=-bpf,-net_raw", "--inh-caps=-bpf,-net_raw"];
    let line = refused("'tester0'", &without);
    assert!(line.contains("CAP_BPF, CAP_NET_RAW are missing"), "{line}");
}

#[test]
fn dx_answers_that_do_not_fit_into_a_frame_leave_by_the_socket() {
    if !can() {
        return;
    }
    let site = Site::new("long", 4);
    let _past = site.spawn(&site.config(
        "past",
        5302,
        "limits.udp_payload_octets = 4096\n[xdp]\ndevices = ['tester0']\n",
    ));
    let mut question = ask_edns("big.example.com AAAA");
    let payload_at = question.octets.len() - 8;
    question.octets[payload_at..payload_at + 2].copy_from_slice(&4096u16.to_be_bytes());
    for server in site.listen(5302) {
        let answer = site.ask(&question, server).unwrap();
        assert_eq!(answer.records().len(), 100);
        assert!(answer.octets.len() > 1500);
        // Clients at the lab's other addresses are reached by the way back, not by a route of ours.
        let host: IpAddr = if server.is_ipv4() { "198.19.7.7" } else { "2001:2:0:c777::7" }.parse().unwrap();
        let answer = site.from(PATIENCE, host, &ask("www.example.com AAAA"), server).unwrap();
        assert_eq!(answer.rcode(), 0);
    }
    assert_eq!((site.count("past", "xdp_by_socket"), site.count("past", "xdp_sent")), (2, 2));
}

#[test]
fn dx_queues_and_threads_need_not_be_as_many() {
    if !can() {
        return;
    }
    // With more queues than threads, and with fewer; answers also come by queues of other threads than the
    // one that asked.
    for (queues, threads) in [(4, 2), (1, 3)] {
        let site = Site::with_queues(queues, &format!("queues{queues}"), 6);
        let more =
            format!("threads = {threads}\ncache.size_mib = 0\n[xdp]\ndevices = ['tester0', 'auth0']\n");
        let _past = site.spawn(&site.config("past", 5302, &more));
        for server in site.listen(5302) {
            for _ in 0..40 {
                is_synthesized(&site.ask(&ask("www.example.com AAAA"), server).unwrap());
            }
        }
        eventually("all questions are counted", || site.count("past", "client_messages") == 80);
        let count = |counter| site.count("past", counter);
        assert_eq!((count("upstream_queries"), count("timeouts"), count("upstream_mismatched")), (160, 0, 0));
        assert_eq!(count("xdp_sent"), 80 + 160, "{queues} queues, {threads} threads");
        assert!((80..=80 + 160).contains(&count("xdp_received")));
    }
}

#[test]
fn dx_answers_of_the_cache_are_repeated_by_the_program_and_counted() {
    if !can() {
        return;
    }
    let site = Site::new("repeat", 4);
    let text = site.config("past", 5302, "[xdp]\ndevices = ['tester0']\n");
    let mut server = site.spawn(&text);
    let count = |counter| site.count("past", counter);
    let questions =
        [ask("www.example.com AAAA"), ask_edns("wWw.eXample.com AAAA"), ask("six.example.com AAAA")];
    let mut asked = 0;
    let mut ask_all = |times: usize| {
        for server in site.listen(5302) {
            for question in &questions {
                let answers = (0..times).map(|_| site.ask(question, server).unwrap());
                let bodies: std::collections::BTreeSet<Vec<u8>> =
                    answers.map(|answer| answer.octets[2..].to_vec()).collect();
                // The TTL may have lost a second meanwhile, or two on a busy machine.
                assert!((1..=3).contains(&bodies.len()), "{}", bodies.len());
            }
        }
        asked += times as u64 * 6;
        asked
    };
    let total = ask_all(20);
    eventually("all questions are counted", || count("client_messages") == total);
    let repeated = count("xdp_repeated");
    assert!(repeated > total / 2, "{repeated} of {total}");
    assert_eq!(count("xdp_received") + repeated, total);
    let counts = ["accepted", "answered", "synthesized", "passed_aaaa"].map(count);
    assert_eq!(counts, [total, total, total / 3 * 2, total / 3]);
    // Two questions each were asked upstream, one for the name that has AAAA; both are in the counts of the
    // cache.
    assert_eq!(count("upstream_queries"), 3);
    assert_eq!(count("cache_hits") + count("cache_misses") + count("coalesced"), total / 3 * 5);

    // What is forgotten is asked for again at once.
    let v4 = site.listen(5302)[0];
    site.control("past", &["flush", "all"]);
    is_synthesized(&site.ask(&questions[0], v4).unwrap());
    eventually("it is asked for again", || count("upstream_queries") == 5);
    // Another configuration holds for the next question, though the cache stays.
    is_synthesized(&site.ask(&questions[0], v4).unwrap());
    server.file.write(&text.replace("allow = [", "allow = ['192.0.2.0/24'] # ["));
    server.reload();
    assert_eq!(site.ask(&questions[0], v4).unwrap().rcode(), 5);
}

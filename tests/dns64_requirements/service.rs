//! dns64d as a service: reload, socket activation, the service manager, privileges.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use crate::support::PATIENCE;
use crate::support::client::ask;
use crate::support::server::{File, HANGUP, Server, TERMINATE, config_text};
use crate::support::upstream::Upstream;
use crate::{A, A_RECORD, AAAA, SOA, SYNTHESIZED};

fn site(more: &str) -> (Upstream, Server) {
    let upstream = Upstream::saying(&[(AAAA, 0, &[SOA]), (A, 0, &[A_RECORD])]);
    let server = Server::before(&upstream, more);
    (upstream, server)
}

#[test]
fn a_reload_changes_the_prefixes_and_keeps_the_cache() {
    let (upstream, mut server) = site("");
    server.ask(AAAA).is(0, &[SYNTHESIZED]);
    server.file.write(&config_text(&[upstream.address], "prefixes = ['2001:db8:2::/96']"));
    server.reload();
    let records = server.ask(AAAA).records();
    assert!(records[0].ends_with(" AAAA 2001:db8:2::c000:201"), "{records:?}");
    upstream.was_asked(&[AAAA, A]);
}

#[test]
fn a_reload_loses_no_query() {
    let (upstream, mut server) = site("threads = 2");
    upstream.replies("slow.example.com A", |query| {
        std::thread::sleep(Duration::from_millis(600));
        query.reply(0, &["an slow.example.com 60 A 192.0.2.7"])
    });
    let address = server.address();
    let slow = std::thread::spawn(move || ask("slow.example.com A").over_udp(address));
    let ended = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(AtomicU32::new(0));
    let client = {
        let (ended, answered) = (Arc::clone(&ended), Arc::clone(&answered));
        std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                assert_eq!(ask(AAAA).over_udp(address).rcode(), 0);
                assert_eq!(ask(AAAA).over_tcp(address).rcode(), 0);
                answered.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    for prefix in ["2001:db8:2::/96", "2001:db8:3::/96", "2001:db8:64::/96"] {
        let before = answered.load(Ordering::Relaxed);
        let more = format!("prefixes = ['{prefix}']\nthreads = 2");
        server.file.write(&config_text(&[upstream.address], &more));
        server.reload();
        while answered.load(Ordering::Relaxed) < before + 3 && !client.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    ended.store(true, Ordering::Relaxed);
    client.join().expect("every query is answered");
    slow.join().unwrap().is(0, &["an slow.example.com 60 A 192.0.2.7"]);
}

#[test]
fn a_bad_configuration_at_a_reload_changes_nothing() {
    let (_upstream, mut server) = site("");
    server.file.write("upstreams = ['192.0.2.1']\nprefixes = ['2001:db8::/95']\n");
    server.signal(HANGUP);
    let line = server.hear(" event=reload ");
    assert!(line.contains("level=error") && line.contains("prefixes"), "{line}");
    server.ask(AAAA).is(0, &[SYNTHESIZED]);
    let (code, words) = server.end(TERMINATE);
    assert_eq!(code, Some(0));
    assert!(words.contains("1 synthesized"), "{words}");
}

#[test]
fn the_service_manager_hears_what_happens() {
    let upstream = Upstream::start();
    let file = File::new(&config_text(&[upstream.address], ""));
    let path = file.directory.path().join("manager");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = file.command();
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "100000");
    let server = Server::spawn(file, command);
    let hear = |words: &str| loop {
        let mut octets = [0; 512];
        let length = manager.recv(&mut octets).unwrap_or_else(|error| panic!("{words}: {error}"));
        let heard = String::from_utf8_lossy(&octets[..length]).into_owned();
        if heard.lines().any(|line| line.starts_with(words)) {
            return;
        }
    };
    hear("READY=1");
    hear("WATCHDOG=1");
    server.signal(HANGUP);
    hear("MONOTONIC_USEC=");
    hear("READY=1");
    server.signal(TERMINATE);
    hear("STOPPING=1");
}

#[test]
fn sockets_can_come_from_the_service_manager() {
    let upstream = Upstream::saying(&[(AAAA, 0, &[SOA]), (A, 0, &[A_RECORD])]);
    let address = {
        let socket = TcpListener::bind("[::1]:0").unwrap();
        socket.local_addr().unwrap()
    };
    let file = File::new(&config_text(&[upstream.address], &format!("listen = ['{address}']")));
    let mut command = Command::new("systemd-socket-activate");
    command
        .args([&format!("--listen={address}"), env!("CARGO_BIN_EXE_dns64d"), "--config"])
        .arg(&file.path)
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    sys::process::die_with_parent(&mut command);
    let child = match command.spawn() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            testing::skip(
                "program systemd-socket-activate",
                "systemd-socket-activate is not installed: apt-get install systemd",
            );
            return;
        }
        child => child.unwrap(),
    };
    // The first connection has dns64d started, and is answered by it.
    let start = std::time::Instant::now();
    let stream = loop {
        match std::net::TcpStream::connect(address) {
            Ok(stream) => break stream,
            Err(error) => assert!(start.elapsed() < PATIENCE, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let server = Server::adopt(file, child);
    drop(stream);
    assert_eq!(server.addresses, [address]);
    ask(AAAA).over_tcp(address).is(0, &[SYNTHESIZED]);
    ask(AAAA).over_udp(address).is(0, &[SYNTHESIZED]);
}

/// A line of `/proc/PID/status`, or of one of its threads.
fn status(path: &std::path::Path, key: &str) -> String {
    let text = std::fs::read_to_string(path.join("status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).unwrap_or_default();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn user_capabilities_and_system_calls_are_given_up_by_all_threads() {
    if !sys::process::is_root() {
        testing::skip("root", "becoming another user takes root");
        return;
    }
    let upstream = Upstream::saying(&[(AAAA, 0, &[SOA]), (A, 0, &[A_RECORD])]);
    let file = File::new(&config_text(&[upstream.address], "threads = 2\nprocess.user = 'nobody'"));
    // The user reads the configuration again at a reload.
    std::fs::set_permissions(file.directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let command = file.command();
    let mut server = Server::spawn(file, command);
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
    let seccomp = !server.log.contains("step=calls done=false");
    let mut threads = 0;
    for task in tasks.map(|task| task.unwrap().path()) {
        assert_eq!(status(&task, "Uid"), "65534 65534 65534 65534", "{}", task.display());
        assert_eq!(status(&task, "Gid"), "65534 65534 65534 65534");
        assert!(status(&task, "Groups").is_empty() || status(&task, "Groups") == "65534");
        assert_eq!(status(&task, "NoNewPrivs"), "1");
        // CAP_NET_BIND_SERVICE is number 10: a reload may open a low port.
        assert!(["0000000000000000", "0000000000000400"].contains(&status(&task, "CapEff").as_str()));
        assert_eq!(status(&task, "Seccomp"), if seccomp { "2" } else { "0" });
        threads += 1;
    }
    assert!(threads >= 3, "{threads}");
    if !seccomp {
        testing::skip("seccomp", "the kernel has no seccomp filters");
    }
    server.ask(AAAA).is(0, &[SYNTHESIZED]);
    server.reload();
}

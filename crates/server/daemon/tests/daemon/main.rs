//! The program around the server, from outside: signals, service manager, control socket, metrics,
//! privileges.
//!
//! This test runs itself as the program, with a server that does nothing but echo: so it has a `main` of its
//! own.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod echo;
mod program;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::time::Duration;

use program::{Program, Surroundings};

/// Says to this program that it is the one under test.
const SERVE: &str = "DNS64D_TEST_SERVE";

fn main() -> ExitCode {
    if std::env::var_os(SERVE).is_some() {
        return daemon::main(echo::Echo::start);
    }
    let tests: [(&str, fn()); 10] = [
        ("a_bad_configuration_is_told_in_one_line", a_bad_configuration_is_told_in_one_line),
        ("the_service_manager_hears_each_step", the_service_manager_hears_each_step),
        ("attack_a_thread_that_hangs_is_not_alive", attack_a_thread_that_hangs_is_not_alive),
        ("the_control_socket_does_what_it_is_told", the_control_socket_does_what_it_is_told),
        ("a_reload_is_whole_or_nothing", a_reload_is_whole_or_nothing),
        ("metrics_are_served", metrics_are_served),
        ("a_thread_that_ends_ends_the_program", a_thread_that_ends_ends_the_program),
        ("sockets_of_the_service_manager_are_taken", sockets_of_the_service_manager_are_taken),
        ("what_is_given_up_is_gone", what_is_given_up_is_gone),
        ("attack_a_required_sandbox_is_whole", attack_a_required_sandbox_is_whole),
    ];
    for (name, test) in tests {
        println!("test {name}");
        test();
    }
    println!("all {} tests passed", tests.len());
    ExitCode::SUCCESS
}

fn a_bad_configuration_is_told_in_one_line() {
    let here = Surroundings::new("");
    let check = here.run(&["--config", here.config_text(), "--check-config"]);
    assert!(check.status.success() && String::from_utf8(check.stdout).unwrap().ends_with("is good\n"));
    here.write("upstreams = ['192.0.2.1']\nthreads = 'many'\n");
    for words in [&["--check-config"][..], &[]] {
        let bad = here.run(&[&["--config", here.config_text()], words].concat());
        let error = String::from_utf8(bad.stderr).unwrap();
        assert_eq!(bad.status.code(), Some(2), "{error}");
        assert!(error.contains("dns64d.toml:2: threads") && error.lines().count() == 1, "{error}");
    }
    assert_eq!(here.run(&["--nonsense"]).status.code(), Some(2));
    let nobody = here.run(&["control", "--socket", "/no/such/socket", "status"]);
    assert_eq!(nobody.status.code(), Some(3));
}

fn the_service_manager_hears_each_step() {
    let here = Surroundings::new("");
    let program = Program::start(&here, &[("WATCHDOG_USEC", "200000")]);
    program.signal(libc::SIGHUP);
    let reloading = program.hear("RELOADING=1\nMONOTONIC_USEC=");
    assert!(reloading.rsplit('=').next().unwrap().parse::<u64>().unwrap() > 0);
    assert!(program.hear("READY=1").contains("STATUS=ready on 127.0.0.1:"));
    program.hear("WATCHDOG=1");
    program.hear("WATCHDOG=1");
    program.signal(libc::SIGTERM);
    program.hear("STOPPING=1");
    let (status, log) = program.end();
    assert!(status.success(), "{log}");
    assert!(log.contains("level=info event=ready message=\"ready on 127.0.0.1:"), "{log}");
    assert!(
        log.contains("event=reload") && log.contains("event=stopped message=\"stopped after 7 queries"),
        "{log}"
    );
}

/// The loop of the program goes on while a thread hangs; the service manager must learn of it.
fn attack_a_thread_that_hangs_is_not_alive() {
    let here = Surroundings::new("");
    let program = Program::start(&here, &[("WATCHDOG_USEC", "200000")]);
    program.hear("WATCHDOG=1");
    assert_eq!(program.talk("hush"), "hush");
    // Signs of life that were given before may still wait to be heard. In the time of two periods, at least
    // one beat falls that is not given, and from the first of these on there is none.
    program.signal(libc::SIGHUP);
    program.hear("READY=1");
    std::thread::sleep(Duration::from_millis(400));
    program.signal(libc::SIGTERM);
    let (status, log) = program.end_without("WATCHDOG=1");
    assert!(status.success(), "{log}");
    assert!(log.contains("event=silent") && log.contains("threads=echo-thread"), "{log}");
}

fn the_control_socket_does_what_it_is_told() {
    let here = Surroundings::new("");
    let program = Program::start(&here, &[]);
    let status = here.control(&["status"]).unwrap();
    assert!(status.contains("reloads          0\n"), "{status}");
    let stats: serde_json::Value =
        serde_json::from_str(&here.control(&["stats", "--json"]).unwrap()).unwrap();
    assert_eq!((&stats["accepted"], &stats["echoed"]), (&7.into(), &0.into()));
    let upstreams = here.control(&["upstreams"]).unwrap();
    assert!(
        upstreams.starts_with("address       up  ") && upstreams.contains("192.0.2.1:53  no"),
        "{upstreams}"
    );
    let cache: serde_json::Value =
        serde_json::from_str(&here.control(&["cache", "--json"]).unwrap()).unwrap();
    assert_eq!(cache["entries"], 0);
    assert_eq!(here.control(&["flush", "below", "example.com"]).unwrap(), "0 entries forgotten\n");
    assert_eq!(here.control(&["flush", "below"]).unwrap_err(), 1);
    assert_eq!(here.control(&["log", "error"]).unwrap(), "the level is error\n");
    assert!(here.control(&["status"]).unwrap().contains("log_level        error\n"));
    let second = here.run(&["--config", here.config_text()]);
    let error = String::from_utf8(second.stderr).unwrap();
    assert!(second.status.code() == Some(3) && error.contains("another server listens there"), "{error}");
    let (status, _) = program.finish();
    assert!(status.success() && !here.socket().exists());
}

fn a_reload_is_whole_or_nothing() {
    let here = Surroundings::new("");
    let program = Program::start(&here, &[]);
    here.write(&format!("{}threads = 13\n", here.base("")));
    assert_eq!(here.control(&["reload"]).unwrap_err(), 1);
    here.write("nonsense");
    assert_eq!(here.control(&["reload"]).unwrap_err(), 1);
    here.write(&format!("{}cpus = [0]\n[log]\nlevel = 'warning'\nformat = 'json'\n", here.base("")));
    assert_eq!(here.control(&["reload"]).unwrap(), "reloaded\n");
    let status = here.control(&["status"]).unwrap();
    assert!(status.contains("reloads          1\nreload_failures  2\n"), "{status}");
    assert!(status.contains("log_level        warning\n"), "{status}");
    let (_, log) = program.finish();
    assert!(log.contains("the old configuration stays in force: thirteen threads"), "{log}");
    assert!(log.contains("a reload does not change cpus, log.format: new values count"), "{log}");
    assert!(!log.contains("event=stopped"), "{log}");
}

fn metrics_are_served() {
    let here = Surroundings::new("");
    let at = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    here.write(&format!("{}[metrics]\nlisten = '{at}'\n", here.base("")));
    let program = Program::start(&here, &[]);
    let mut stream = TcpStream::connect(at).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    for line in ["dns64d_accepted_total 7", "dns64d_echoed_total 0", "dns64d_cache_entries 0.0", "# EOF"] {
        assert!(page.lines().any(|own| own == line), "{line} is missing in:\n{page}");
    }
    assert!(page.contains("dns64d_upstream_up{upstream=\"192.0.2.1:53\"} 0.0"), "{page}");
    assert!(program.finish().0.success());
}

fn a_thread_that_ends_ends_the_program() {
    let here = Surroundings::new("");
    let program = Program::start(&here, &[]);
    assert_eq!(program.talk("end"), "ending");
    let (status, log) = program.end();
    assert_eq!(status.code(), Some(3), "{log}");
    assert!(log.ends_with("dns64d: a thread of the server ended by itself; please report this\n"), "{log}");
}

fn sockets_of_the_service_manager_are_taken() {
    let here = Surroundings::new("");
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let program = Program::activate(&here, socket);
    assert_eq!(program.address(), address);
    assert_eq!(program.talk("hello"), "hello");
    assert!(program.finish().0.success());
}

fn what_is_given_up_is_gone() {
    if !sys::process::is_root() {
        testing::skip("root", "only root has privileges to give up");
        return;
    }
    let here = Surroundings::new("[process]\nuser = 'nobody'\nsandbox = true\n");
    let outside = tempfile::tempdir().unwrap();
    let file = outside.path().join("secret");
    std::fs::write(&file, "x").unwrap();
    let program = Program::start(&here, &[]);
    let uid = sys::privileges::Account::named("nobody").unwrap().unwrap().uid;
    let expected = [
        (format!("read {}", here.config_text()), "yes"),
        (format!("read {}", file.display()), "no"),
        ("read /etc/passwd".into(), "no"),
        ("write /tmp/dns64d-was-here".into(), "no"),
        ("uid".into(), &uid.to_string()),
        ("execute /bin/true".into(), "no"),
        ("netlink".into(), "no"),
        ("tcp".into(), "yes"),
        ("thread".into(), "yes"),
        ("read /dev/urandom".into(), "yes"),
        ("capabilities".into(), "0000000000000000"),
    ];
    for (probe, answer) in &expected {
        let unlisted =
            here.has_no_landlock() && (probe.starts_with("read /etc") || probe.starts_with("write"));
        if unlisted {
            testing::skip("landlock", format!("{probe}: this kernel has no landlock"));
        } else {
            assert_eq!(program.talk(probe), *answer, "{probe}");
        }
    }
    let status = here.control(&["status"]).unwrap();
    assert!(status.contains("became nobody") && status.contains("calls: only those"), "{status}");
    // The file is still there for a reload, and sockets, threads and time go on.
    assert_eq!(here.control(&["reload"]).unwrap(), "reloaded\n");
    std::thread::sleep(Duration::from_millis(20));
    let (status, log) = program.finish();
    assert!(status.success(), "{log}");
    assert!(log.contains("event=stopped"), "{log}");
    let unknown = Surroundings::new("[process]\nuser = 'no-such-user-here'\n");
    let refused = unknown.run(&["--config", unknown.config_text()]);
    let error = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(3), "{error}");
    assert!(error.contains("no-such-user-here"), "{error}");
}

/// If the kernel does not support all of the sandbox, dns64d does not start. Otherwise no TCP port is left
/// but those of the configuration.
fn attack_a_required_sandbox_is_whole() {
    let able = Surroundings::new("[process]\nsandbox = true\n");
    let program = Program::start(&able, &[]);
    let status = able.control(&["status"]).unwrap();
    let is_whole = status.contains("files: only those") && !status.contains("as far as");
    program.finish();
    let here = Surroundings::new("[process]\nsandbox = 'required'\n");
    if !is_whole {
        let refused = here.run(&["--config", here.config_text()]);
        let error = String::from_utf8(refused.stderr).unwrap();
        assert_eq!((refused.status.code(), error.lines().count()), (Some(3), 1), "{error}");
        assert!(error.contains("process.sandbox is required and cannot be applied: files: "), "{error}");
        return;
    }
    let program = Program::start(&here, &[]);
    // A connection to a port that is no upstream server's.
    assert_eq!(program.talk("tcp"), "no");
    let status = here.control(&["status"]).unwrap();
    assert!(status.contains("no other TCP ports") && !status.contains("as far as"), "{status}");
    let base = here.base("[process]\nsandbox = 'required'\n");
    here.write(&base.replace("'192.0.2.1'", "'192.0.2.1:5353'"));
    assert_eq!(here.control(&["reload"]), Err(1), "another port");
    here.write(&base.replace("'192.0.2.1'", "'192.0.2.2'"));
    assert_eq!(here.control(&["reload"]).unwrap(), "reloaded\n");
    let (status, log) = program.finish();
    assert!(status.success(), "{log}");
    assert!(log.contains("gave up a TCP port"), "{log}");
}

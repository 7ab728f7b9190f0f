//! Zone transfers from servers that do what they should not.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use dns64::wire::{CLASS_IN, Header, Name, Question, Section, Writer, rtype};
use engine::pacer::Schedule;
use engine::transfer::Ask;
use measurer::transfer::{TransferPlan, at_rate, check_rate, transfer};
use measurer::transport::stream::{Protocol, Tls, TlsOptions};
use record::{Transfer, TransferAnswer, TransferEnd};
use sys::clock;

const SECOND_NS: u64 = 1_000_000_000;
/// Where a server does answer, as soon as a busy machine lets it.
const PATIENCE_NS: u64 = 20 * SECOND_NS;
/// Where a server does not answer in time.
const TIMEOUT_NS: u64 = SECOND_NS / 4;

fn name(text: &str) -> Name {
    Name::from_text(text).unwrap()
}

/// A server of one connection on loopback, which reads `read` octets first.
fn serve(read: usize, act: impl FnOnce(TcpStream, u16) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut query = vec![0; read.max(4)];
        if stream.read_exact(&mut query[..read]).is_ok() {
            act(stream, u16::from_be_bytes([query[2], query[3]]));
        }
    });
    address
}

/// The octets of the query for zone.test behind its length.
const QUERY: usize = 2 + 12 + 11 + 4;

fn soa(serial: u32) -> Vec<u8> {
    let mut rdata = [name("ns.zone.test").as_wire(), name("host.zone.test").as_wire()].concat();
    [serial, 1, 2, 3, 4].iter().for_each(|number| rdata.extend(number.to_be_bytes()));
    rdata
}

/// A message behind its length, with the SOA record at its beginning and at its end, as asked for, and so
/// many A records between.
fn message(id: u16, flags: u16, begins: bool, addresses: u32, ends: bool) -> Vec<u8> {
    let mut buffer = vec![0; 60_000];
    let question = Question { name: name("zone.test"), qtype: 252, qclass: CLASS_IN };
    let mut writer = Writer::new(&mut buffer, id, Header::QR | flags, &question).unwrap();
    let mut add = |rtype, rdata: &[u8]| {
        writer.record(Section::Answer, &name("zone.test"), rtype, CLASS_IN, 60, rdata).unwrap();
    };
    if begins {
        add(rtype::SOA, &soa(1));
    }
    (0..addresses).for_each(|address| add(rtype::A, &address.to_be_bytes()));
    if ends {
        add(rtype::SOA, &soa(1));
    }
    let length = writer.finish();
    [&(length as u16).to_be_bytes()[..], &buffer[..length]].concat()
}

fn plan(server: SocketAddr) -> TransferPlan {
    TransferPlan::new(server, Ask { zone: name("zone.test"), since: None, key: None }, PATIENCE_NS)
}

fn impatient(server: SocketAddr) -> TransferPlan {
    TransferPlan { timeout_ns: TIMEOUT_NS, ..plan(server) }
}

fn ask(plan: &TransferPlan) -> Transfer {
    within(plan, 60 * SECOND_NS, false)
}

/// A transfer that begins now and has so much time.
fn within(plan: &TransferPlan, time_ns: u64, is_stopped: bool) -> Transfer {
    let now_ns = clock::monotonic_ns();
    transfer(plan, 4660, now_ns..now_ns + time_ns, &AtomicBool::new(is_stopped))
}

/// The place and the reason of a failure.
fn failure(transfer: &Transfer) -> (TransferEnd, String) {
    let failure = transfer.failure.clone().unwrap_or_else(|| panic!("complete: {transfer:?}"));
    (failure.place, failure.reason)
}

/// A server that sends these octets and waits.
fn sending(octets: impl FnOnce(u16) -> Vec<u8> + Send + 'static) -> SocketAddr {
    serve(QUERY, move |mut stream, id| {
        let _ = stream.write_all(&octets(id));
        let _ = stream.read(&mut [0]);
    })
}

/// What becomes of a transfer from it.
fn after(octets: impl FnOnce(u16) -> Vec<u8> + Send + 'static) -> Transfer {
    ask(&plan(sending(octets)))
}

#[test]
fn a_whole_zone_has_its_counts_and_times() {
    let transfer = after(|id| [message(id, 0, true, 1000, false), message(id, 0, false, 500, true)].concat());
    assert_eq!(transfer.failure, None);
    assert_eq!((transfer.messages, transfer.records, transfer.serial), (2, 1501, Some(1)));
    let (first_ns, last_ns) = (transfer.first_message_ns.unwrap(), transfer.last_message_ns.unwrap());
    assert!(transfer.connect_ns.is_some() && transfer.handshake_ns.is_none() && first_ns <= last_ns);
    assert!(transfer.answer == Some(TransferAnswer::Full) && transfer.whole_ns >= last_ns, "{transfer:?}");
}

#[test]
fn each_fault_has_its_place_and_its_reason() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(failure(&ask(&plan(free))).0, TransferEnd::Refused);
    for (transfer, place, reason) in [
        (after(|id| message(id, 5, false, 0, false)), TransferEnd::Rcode, "REFUSED"),
        (after(|id| message(id, 0, false, 1, true)), TransferEnd::Malformed, "first record is not the SOA"),
        (after(|id| message(id ^ 1, 0, true, 0, true)), TransferEnd::Malformed, "has the ID 4661"),
        (after(|_| vec![0, 3, 1, 2, 3]), TransferEnd::Malformed, "shorter than a header"),
    ] {
        let (found, why) = failure(&transfer);
        assert!(found == place && why.contains(reason), "{place}: {transfer:?}");
    }
    for silent in [sending(|id| message(id, 0, true, 3, false)), sending(|_| Vec::new())] {
        let (place, why) = failure(&ask(&impatient(silent)));
        assert_eq!((place, why.as_str()), (TransferEnd::TimedOut, "timeout while waiting for a message"));
    }
    let closing = serve(QUERY, |mut stream, id| stream.write_all(&message(id, 0, true, 7, false)).unwrap());
    let closed = ask(&plan(closing));
    assert_eq!(failure(&closed).0, TransferEnd::ClosedEarly, "{closed:?}");
    assert_eq!((closed.messages, closed.records), (1, 8), "what came is told");
    let resetting =
        serve(0, |stream, _| socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap());
    assert_eq!(failure(&ask(&plan(resetting))).0, TransferEnd::ClosedEarly);
}

/// Sends octets one by one, each sooner than the timeout.
fn trickle(mut stream: TcpStream, octets: &[u8]) {
    for octet in octets {
        if stream.write_all(&[*octet]).is_err() {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_slow_or_endless_server_ends_within_the_limits() {
    let began = Instant::now();
    let slow = serve(QUERY, |stream, id| trickle(stream, &message(id, 0, true, 100, true)));
    assert_eq!(failure(&ask(&impatient(slow))).0, TransferEnd::TimedOut);
    let endless = || {
        serve(QUERY, |mut stream, id| {
            let mut sent = stream.write_all(&message(id, 0, true, 1, false));
            let more = message(id, 0, false, 1, false);
            while sent.is_ok() {
                sent = stream.write_all(&more);
            }
        })
    };
    let counted = ask(&TransferPlan { messages_max: 100, ..plan(endless()) });
    assert_eq!((failure(&counted).0, counted.messages), (TransferEnd::TooLarge, 100));
    let weighed = ask(&TransferPlan { octets_max: 10_000, ..plan(endless()) });
    assert!(failure(&weighed).0 == TransferEnd::TooLarge && weighed.octets < 11_000, "{weighed:?}");
    let timed = within(&plan(endless()), SECOND_NS / 4, false);
    let (place, reason) = failure(&timed);
    assert!(place == TransferEnd::TimedOut && reason.contains("the time was over"), "{timed:?}");
    let stopped = within(&plan(endless()), SECOND_NS, true);
    assert_eq!(failure(&stopped).0, TransferEnd::Interrupted);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[test]
fn what_is_no_tls_is_a_failed_handshake() {
    let tls = |plan: TransferPlan| {
        let tls = Tls::new(Protocol::Dot, &TlsOptions::default(), plan.server.ip()).unwrap();
        ask(&TransferPlan { tls: Some(tls), ..plan })
    };
    let plain = serve(5, |mut stream, _| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        let _ = stream.read(&mut [0; 1000]);
    });
    let closing = serve(5, |stream, _| drop(stream));
    for server in [plain, closing] {
        let transfer = tls(plan(server));
        assert_eq!(failure(&transfer).0, TransferEnd::Handshake, "{transfer:?}");
        assert!(transfer.connect_ns.is_some() && transfer.handshake_ns.is_none());
    }
    // The head of a record of the handshake, and then its octets one by one.
    let slow =
        serve(5, |stream, _| trickle(stream, &[&[22, 3, 3, 16, 0, 2, 0, 15, 0][..], &[0; 1000]].concat()));
    let began = Instant::now();
    assert_eq!(failure(&tls(impatient(slow))).0, TransferEnd::TimedOut);
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

/// A server whose every odd connection gets the zone after a quarter of a second, and every even one nothing.
fn serve_half(connections: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for number in 0..connections {
            let (mut stream, _) = listener.accept().unwrap();
            thread::spawn(move || {
                let mut query = [0; QUERY];
                stream.read_exact(&mut query).unwrap();
                thread::sleep(Duration::from_millis(250));
                let id = u16::from_be_bytes([query[2], query[3]]);
                let whole = message(id, 0, true, 1, true);
                let _ = if number % 2 == 0 { stream.read(&mut [0]) } else { stream.write(&whole) };
            });
        }
    });
    address
}

#[test]
fn a_rate_does_not_wait_for_transfers() {
    let stop = AtomicBool::new(false);
    let plan = TransferPlan { timeout_ns: 4 * SECOND_NS, ..plan(serve_half(20)) };
    let began = Instant::now();
    let schedule = Schedule::new(clock::monotonic_ns(), 20, SECOND_NS);
    assert!(check_rate(&plan, &schedule).is_ok());
    let all = at_rate(&plan, &schedule, 1, &stop);
    // Ten of them take four seconds each.
    assert!((4..20).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    let instants: Vec<u64> = all.iter().map(|transfer| transfer.instant_ns).collect();
    assert_eq!(instants, (0..20).map(|number| number * SECOND_NS / 20).collect::<Vec<_>>());
    let complete: Vec<&Transfer> = all.iter().filter(|transfer| transfer.failure.is_none()).collect();
    assert!(complete.len() == 10 && complete.iter().all(|one| one.whole_ns >= SECOND_NS / 4), "{all:?}");
    let timed_out = all.iter().filter_map(|transfer| transfer.failure.as_ref());
    assert!(
        timed_out.clone().count() == 10 && timed_out.clone().all(|one| one.place == TransferEnd::TimedOut)
    );
}

#[test]
fn a_user_ends_a_rate_and_what_is_under_way() {
    let plan = plan(serve_half(20));
    let stop = AtomicBool::new(false);
    let schedule = Schedule::new(clock::monotonic_ns(), 1, 60 * SECOND_NS);
    let all = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(200));
            stop.store(true, Ordering::Relaxed);
        });
        at_rate(&plan, &schedule, 1, &stop)
    });
    assert_eq!(all.len(), 1);
    assert_eq!(failure(&all[0]).0, TransferEnd::Interrupted);
}

#[test]
fn rates_that_cannot_be_are_refused() {
    let at = |server: &str, rate: u64, timeout_s: u64| {
        let plan = TransferPlan { timeout_ns: timeout_s * SECOND_NS, ..plan(server.parse().unwrap()) };
        check_rate(&plan, &Schedule::new(0, rate, 60 * SECOND_NS)).map_err(|error| error.to_string())
    };
    assert_eq!(at("192.0.2.1:53", 10, 60), Ok(()));
    let threads = at("127.0.0.1:53", 100, 21).unwrap_err();
    assert!(threads.contains("2100 at a time, and 2000 can be: lower --rate or --timeout"), "{threads}");
    // The kernel keeps ports for a minute, unless it is told otherwise.
    let is_reused = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_tw_reuse").unwrap().trim() == "1";
    let ports = at("192.0.2.1:53", 2000, 1);
    assert!(ports.as_ref().is_err_and(|why| why.contains("122000 ports")) != is_reused, "{ports:?}");
}

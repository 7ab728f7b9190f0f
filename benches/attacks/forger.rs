//! The forger alone: against dns64d, which it must not hit, and where it must.

use std::io;
use std::net::UdpSocket;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use figures::attacks::{Attacker, Fixed, Forger, Open};
use lab::network::Role;
use record::random::Sequence;

use crate::crew::{self, Post, Shared};
use crate::site::{ASKS_FROM, Site, victim_server};
use crate::stage::Seen;
use crate::wire::draw;
use crate::{flood, stage, text};

/// Each part ends then, however few packets were sent.
const LONGEST: Duration = Duration::from_secs(3600);
/// Names are not spelled at random: the forger has to guess port and ID alone. A try is short, so that there
/// are many.
const CONFIGURATION: &str = "upstream.case_randomization = false\nupstream.timeout_ms = 300";
/// The one server in whose name it forges, by its number.
const ONE: Range<u16> = 0..1;
/// The servers of the case in which a query is always open. 300,000 packets a second make five near misses; a
/// server is asked over UDP as long as there are fewer than eight within a minute.
const MANY: Range<u16> = 1..129;
/// The ports that dns64d draws from: 1024 to 65535, without its own listener.
const DRAWN_PORTS: u64 = 64_511;
/// The ports of the model: as many as sockets that stay open.
const FIXED: Range<u16> = 40_000..40_004;
/// Questions of which the forger knows port and ID.
const BETRAYED: u64 = 20;
/// Hits of the model: one for each million packets against dns64d, within these bounds.
const HITS_MIN: u64 = 16;
/// See [`HITS_MIN`].
const HITS_MAX: u64 = 100;
const ASK: Post = Post {
    what: "client",
    from: Role::Tester,
    unit: "questions",
    least_per_s: 0.0,
    is_flood: false,
    attack: flood::ask_what_is_forged,
};
const FORGE: Post = Post {
    what: "forger",
    from: Role::Auth,
    unit: "packets",
    least_per_s: 0.0,
    is_flood: true,
    attack: flood::forge,
};

/// Forges so many packets against dns64d, with one upstream server and with many; before that, fewer against
/// the model, and some with a traitor.
///
/// # Errors
/// The lab or dns64d cannot be started.
pub fn measure(site: &Site, packets: u64) -> io::Result<Forger> {
    let fixed = fixed(site, (packets / 1_000_000).clamp(HITS_MIN, HITS_MAX))?;
    eprintln!("  {fixed:?}");
    let _authority = site.authority(None)?;
    let seen = stage::victims(site, ONE)?;
    seen.betrays.store(true, Ordering::Relaxed);
    let betrayed = ask(site, &seen, &[ASK], |counts, _| counts[0].load(Ordering::Relaxed) >= BETRAYED)?;
    eprintln!("  port and ID known: {} of {} taken", betrayed.taken, betrayed.answered);
    seen.betrays.store(false, Ordering::Relaxed);
    let tried = ask(site, &seen, &[ASK, FORGE], |counts, _| counts[1].load(Ordering::Relaxed) >= packets)?;
    eprintln!("  one server: {} packets, {} of them met an open query", tried.done[1].count, tried.met);
    let open = open(site, packets)?;
    eprintln!("  {open:?}");
    Ok(Forger {
        origin: text::origin(),
        packets: tried.done[1].count,
        met: Some(tried.met),
        duration_s: tried.duration_s,
        questions: tried.done[0].count,
        answered: tried.answered,
        over_udp: tried.over_udp,
        over_tcp: tried.over_tcp,
        hits: tried.taken,
        near_misses: tried.near_misses,
        betrayed_hits: betrayed.taken,
        betrayed: betrayed.answered,
        fixed,
        open: Some(open),
    })
}

/// Forges until so many packets met an open query over UDP: near misses at one server leave others.
fn open(site: &Site, packets: u64) -> io::Result<Open> {
    let seen = stage::victims(site, MANY)?;
    let tried = ask(site, &seen, &[ASK, FORGE], |_, met| met.load(Ordering::Relaxed) >= packets)?;
    Ok(Open {
        servers: MANY.len() as u64,
        packets: tried.done[1].count,
        met: tried.met,
        duration_s: tried.duration_s,
        questions: tried.done[0].count,
        over_udp: tried.over_udp,
        near_misses: tried.near_misses,
        ports: DRAWN_PORTS,
        hits: tried.taken,
    })
}

/// What became of the questions.
struct Asked {
    done: Vec<Attacker>,
    duration_s: f64,
    met: u64,
    answered: u64,
    taken: u64,
    over_udp: u64,
    over_tcp: u64,
    near_misses: u64,
}

/// Starts dns64d and asks it what is forged, until `is_enough` says so of what each has done and of the
/// packets that met an open query.
fn ask(
    site: &Site,
    seen: &Arc<Seen>,
    posts: &[Post],
    is_enough: impl Fn(&[AtomicU64], &AtomicU64) -> bool,
) -> io::Result<Asked> {
    let server = site.dns64d(seen.servers.clone(), CONFIGURATION)?;
    let shared = Shared::new(server.pid(), seen.clone(), LONGEST);
    let (over_udp, over_tcp, begun) = (seen.over_udp(), seen.over_tcp(), Instant::now());
    let (done, ()) = crew::attack(site, &shared, posts, |counts| {
        while !is_enough(counts, &shared.met) && Instant::now() < shared.latest {
            site.goes_on()?;
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    })?;
    let duration_s = begun.elapsed().as_secs_f64();
    let near_misses = server.counters()?.get("upstream_near_misses").copied().unwrap_or(0);
    server.end()?;
    Ok(Asked {
        done,
        duration_s,
        met: shared.met.into_inner(),
        answered: shared.answered.into_inner(),
        taken: shared.taken.into_inner(),
        over_udp: seen.over_udp() - over_udp,
        over_tcp: seen.over_tcp() - over_tcp,
        near_misses,
    })
}

/// The forger against a client that draws its IDs, and its port among a few that stay, and that waits for the
/// right answer whatever else comes.
fn fixed(site: &Site, hits: u64) -> io::Result<Fixed> {
    let attack: crew::Attack = |turn| {
        let ports = u16::try_from(FIXED.len()).unwrap_or(u16::MAX);
        flood::forge_to(turn, |numbers| FIXED.start + draw(numbers) % ports)
    };
    let shared = Shared::new(std::process::id(), Arc::new(Seen::of(ONE)), LONGEST);
    let (_, packets) = crew::attack(site, &shared, &[Post { attack, ..FORGE }], |counts| {
        sys::netns::within(&site.namespace(Role::Dut), || hit(&shared, &counts[0], hits))?
    })?;
    Ok(Fixed { ports: FIXED.len() as u64, hits, packets })
}

/// How many packets were sent until so many hit.
fn hit(shared: &Shared, sent: &AtomicU64, hits: u64) -> io::Result<u64> {
    let sockets = FIXED.map(|port| {
        let socket = UdpSocket::bind((ASKS_FROM, port))?;
        socket.connect(victim_server(ONE.start))?;
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        Ok(socket)
    });
    let sockets = sockets.collect::<io::Result<Vec<_>>>()?;
    let (mut numbers, mut octets, mut packets) = (Sequence::new(4, 4), [0; 4096], 0);
    for _ in 0..hits {
        let socket = &sockets[usize::from(draw(&mut numbers)) % sockets.len()];
        let id = draw(&mut numbers).to_be_bytes();
        drain(socket)?;
        let before = sent.load(Ordering::Relaxed);
        while !socket.recv(&mut octets).is_ok_and(|length| length > 12 && octets[..2] == id) {
            if Instant::now() > shared.latest {
                return Err(io::Error::other("the forger does not hit four ports that stay"));
            }
        }
        packets += sent.load(Ordering::Relaxed) - before;
    }
    Ok(packets)
}

/// Takes what came before the question.
fn drain(socket: &UdpSocket) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    while socket.recv(&mut [0; 64]).is_ok() {}
    socket.set_nonblocking(false)
}

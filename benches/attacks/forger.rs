//! The forger alone: against dns64d, which it must not hit, and where it must.

use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use figures::attacks::{Attacker, Fixed, Forger};
use lab::network::Role;
use record::random::Sequence;

use crate::crew::{self, Post, Shared};
use crate::site::{ASKS_FROM, Site, VICTIM_SERVER};
use crate::wire::draw;
use crate::{flood, stage, text};

/// Each part ends then, however few packets were sent.
const LONGEST: Duration = Duration::from_secs(3600);
/// Names are not spelled at random: the forger has to guess port and ID alone. A try is short, so that there
/// are many.
const CONFIGURATION: &str = "upstream.case_randomization = false\nupstream.timeout_ms = 300";
/// The ports of the model: as many as sockets that stay open.
const FIXED: std::ops::Range<u16> = 40_000..40_004;
/// Questions of which the forger knows port and ID.
const BETRAYED: u64 = 20;
/// Hits of the model: one for each million packets against dns64d, within these bounds.
const HITS_MIN: u64 = 16;
/// See [`HITS_MIN`].
const HITS_MAX: u64 = 100;
const ASK: Post =
    Post { what: "client", from: Role::Tester, unit: "questions", attack: flood::ask_what_is_forged };
const FORGE: Post = Post { what: "forger", from: Role::Auth, unit: "packets", attack: flood::forge };

/// Forges so many packets against dns64d; before that, fewer against the model, and some with a traitor.
///
/// # Errors
/// The lab or dns64d cannot be started.
pub fn measure(site: &Site, packets: u64) -> io::Result<Forger> {
    let fixed = fixed(site, (packets / 1_000_000).clamp(HITS_MIN, HITS_MAX))?;
    eprintln!("  {fixed:?}");
    let _authority = site.authority(None)?;
    let seen = stage::victim(site)?;
    seen.betrays.store(true, Ordering::Relaxed);
    let betrayed = ask(site, &[ASK], |counts| counts[0].load(Ordering::Relaxed) >= BETRAYED)?;
    eprintln!("  port and ID known: {} of {} taken", betrayed.taken, betrayed.answered);
    seen.betrays.store(false, Ordering::Relaxed);
    let (over_udp, over_tcp) = (seen.over_udp(), seen.over_tcp());
    let begun = Instant::now();
    let tried = ask(site, &[ASK, FORGE], |counts| counts[1].load(Ordering::Relaxed) >= packets)?;
    Ok(Forger {
        origin: text::origin(),
        packets: tried.done[1].count,
        duration_s: begun.elapsed().as_secs_f64(),
        questions: tried.done[0].count,
        answered: tried.answered,
        over_udp: seen.over_udp() - over_udp,
        over_tcp: seen.over_tcp() - over_tcp,
        hits: tried.taken,
        near_misses: tried.near_misses,
        betrayed_hits: betrayed.taken,
        betrayed: betrayed.answered,
        fixed,
    })
}

/// What became of the questions.
struct Asked {
    done: Vec<Attacker>,
    answered: u64,
    taken: u64,
    near_misses: u64,
}

/// Starts dns64d and asks it what is forged, until `is_enough` says so.
fn ask(site: &Site, posts: &[Post], is_enough: impl Fn(&[AtomicU64]) -> bool) -> io::Result<Asked> {
    let server = site.dns64d(CONFIGURATION)?;
    let shared = Shared::new(server.pid(), LONGEST);
    let (done, ()) = crew::attack(site, &shared, posts, |counts| {
        while !is_enough(counts) && Instant::now() < shared.latest {
            site.goes_on()?;
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    })?;
    let near_misses = server.counters()?.get("upstream_near_misses").copied().unwrap_or(0);
    server.end()?;
    let (answered, taken) = (shared.answered.load(Ordering::Relaxed), shared.taken.load(Ordering::Relaxed));
    Ok(Asked { done, answered, taken, near_misses })
}

/// The forger against a client that draws its IDs, and its port among a few that stay, and that waits for the
/// right answer whatever else comes.
fn fixed(site: &Site, hits: u64) -> io::Result<Fixed> {
    let attack: crew::Attack = |turn| {
        let ports = u16::try_from(FIXED.len()).unwrap_or(u16::MAX);
        flood::forge_to(turn, |numbers| FIXED.start + draw(numbers) % ports)
    };
    let shared = Shared::new(std::process::id(), LONGEST);
    let (_, packets) = crew::attack(site, &shared, &[Post { attack, ..FORGE }], |counts| {
        sys::netns::within(&site.namespace(Role::Dut), || hit(&shared, &counts[0], hits))?
    })?;
    Ok(Fixed { ports: FIXED.len() as u64, hits, packets })
}

/// How many packets were sent until so many hit.
fn hit(shared: &Shared, sent: &AtomicU64, hits: u64) -> io::Result<u64> {
    let sockets = FIXED.map(|port| {
        let socket = UdpSocket::bind((ASKS_FROM, port))?;
        socket.connect(VICTIM_SERVER)?;
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

//! The attackers: threads on the processor of all others. The client is before them there, and rests most of
//! the time. Attackers with a pace of their own are before the floods, which take all that is left.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use figures::attacks::Attacker;
use lab::network::Role;

use crate::site::Site;
use crate::stage::{Question, Seen};

/// What an attacker does until [`Turn::goes_on`] says no.
pub type Attack = fn(&Turn<'_>) -> io::Result<()>;

/// An attack, and where it comes from.
pub struct Post {
    /// In the words of the document.
    pub what: &'static str,
    /// In whose namespace.
    pub from: Role,
    /// What is counted.
    pub unit: &'static str,
    /// So many each second make it an attack; 0 where nobody asks.
    pub least_per_s: f64,
    /// It keeps no pace: it takes all the processor that others leave.
    pub is_flood: bool,
    /// What it does.
    pub attack: Attack,
}

/// What attackers know in common.
pub struct Shared {
    /// What is asked while answers to it are forged.
    question: Mutex<Question>,
    /// What comes to the servers in whose names the forger answers.
    pub seen: Arc<Seen>,
    /// Packets of the forger that met an open query over UDP.
    pub met: AtomicU64,
    /// Forged answers that dns64d took.
    pub taken: AtomicU64,
    /// Questions for the forger that were answered.
    pub answered: AtomicU64,
    /// The process of dns64d.
    pub pid: u32,
    /// An attack ends then in any case.
    pub latest: Instant,
    /// Set to end the attacks.
    pub end: AtomicBool,
}

impl Shared {
    /// For attacks of at most this length.
    pub fn new(pid: u32, seen: Arc<Seen>, longest: Duration) -> Self {
        Self {
            question: Mutex::new(seen.question(0)),
            seen,
            met: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            pid,
            latest: Instant::now() + longest,
            end: AtomicBool::new(false),
        }
    }

    /// What is asked now.
    pub fn question(&self) -> Question {
        self.question.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets what is asked now.
    pub fn ask(&self, question: &Question) {
        self.question.lock().unwrap_or_else(PoisonError::into_inner).clone_from(question);
    }
}

/// An attacker's view.
pub struct Turn<'a> {
    /// What all know.
    pub shared: &'a Shared,
    /// What it has done so often.
    pub count: &'a AtomicU64,
}

impl Turn<'_> {
    /// Whether the attack goes on.
    pub fn goes_on(&self) -> bool {
        !self.shared.end.load(Ordering::Relaxed) && Instant::now() < self.shared.latest
    }

    /// Adds to what it has done.
    pub fn add(&self, count: u64) {
        self.count.fetch_add(count, Ordering::Relaxed);
    }

    /// How often it was done.
    pub fn done(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Keeps a rate: rests until `begun` is this long ago for each thing that it has done, or the attack
    /// ends.
    pub fn pace(&self, begun: Instant, each: Duration) {
        let due = begun + each.mul_f64(self.done() as f64);
        while self.goes_on() && Instant::now() < due {
            std::thread::sleep(due.saturating_duration_since(Instant::now()).min(Duration::from_millis(100)));
        }
    }
}

/// Has all attack while `meanwhile` runs, which sees how often each has done it so far. Returns what each of
/// them did, and what `meanwhile` returned.
///
/// # Errors
/// An attacker failed, which ends all.
pub fn attack<T>(
    site: &Site,
    shared: &Shared,
    posts: &[Post],
    meanwhile: impl FnOnce(&[AtomicU64]) -> io::Result<T>,
) -> io::Result<(Vec<Attacker>, T)> {
    let counts: Vec<AtomicU64> = posts.iter().map(|_| AtomicU64::new(0)).collect();
    let begun = Instant::now();
    let (returned, elapsed_s) = std::thread::scope(|scope| {
        let start = |(post, count)| {
            let turn = Turn { shared, count };
            scope.spawn(move || begin(site, post, &turn))
        };
        let threads: Vec<_> = posts.iter().zip(&counts).map(start).collect();
        let returned = meanwhile(&counts);
        shared.end.store(true, Ordering::Relaxed);
        let elapsed_s = begun.elapsed().as_secs_f64();
        for (thread, post) in threads.into_iter().zip(posts) {
            let ended = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            ended.map_err(|error| io::Error::other(format!("{}: {error}", post.what)))?;
        }
        returned.map(|returned| (returned, elapsed_s))
    })?;
    let done = |(post, count): (&Post, AtomicU64)| {
        let count = count.into_inner();
        let per_s = count as f64 / elapsed_s;
        let (what, unit) = (post.what.into(), post.unit.into());
        Attacker { what, unit, count, per_s, least_per_s: post.least_per_s }
    };
    Ok((posts.iter().zip(counts).map(done).collect(), returned))
}

/// Takes the attacker to its place.
fn begin(site: &Site, post: &Post, turn: &Turn<'_>) -> io::Result<()> {
    sys::netns::enter(&site.namespace(post.from))?;
    sys::cpu::pin(site.other_cpu())?;
    if post.is_flood {
        sys::cpu::give_way();
    }
    (post.attack)(turn)
}

//! A server that echoes, and says of itself what it may still do.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use daemon::config::{Config, ListenProtocol};
use daemon::runtime::{OnEnd, Service, Services, Settle};
use daemon::snapshot::{Metric, UpstreamState};
use server_core::cache::Cache;
use server_core::stats::Stats;
use sys::given::{GivenSocket, Socket};

pub struct Echo {
    address: SocketAddr,
    thread: JoinHandle<()>,
    echoed: Arc<AtomicU64>,
    cache: Cache,
    /// Its thread was told to give no sign of life.
    silent: Arc<AtomicBool>,
}

impl Echo {
    pub fn start(
        config: &Config,
        given: Vec<GivenSocket>,
        _services: &Services,
        on_end: &OnEnd,
        settle: Settle<'_>,
    ) -> Result<Self, String> {
        let taken = given.into_iter().find_map(|given| match given.socket {
            Socket::Udp(socket) => Some(Ok(socket)),
            Socket::Tcp(_) => None,
        });
        let socket = taken
            .unwrap_or_else(|| UdpSocket::bind(config.listen[0].address))
            .map_err(|error| error.to_string())?;
        let address = socket.local_addr().map_err(|error| error.to_string())?;
        settle()?;
        let echoed = Arc::new(AtomicU64::new(0));
        let silent = Arc::new(AtomicBool::new(false));
        let (count, hushed) = (Arc::clone(&echoed), Arc::clone(&silent));
        let (process, on_end) = (config.process.clone(), OnEnd::clone(on_end));
        let thread = std::thread::spawn(move || {
            daemon::privileges::shed_thread(&process).unwrap();
            echo(&socket, &count, &hushed);
            on_end();
        });
        let cache = Cache::new(config.cache_octets.min(1 << 20), [7; 32]);
        Ok(Self { address, thread, echoed, cache, silent })
    }
}

fn echo(socket: &UdpSocket, count: &AtomicU64, silent: &AtomicBool) {
    let mut octets = [0; 512];
    loop {
        let (length, client) = socket.recv_from(&mut octets).unwrap();
        let words = String::from_utf8_lossy(&octets[..length]).into_owned();
        let answer = answer(&words);
        count.fetch_add(1, Ordering::Relaxed);
        silent.fetch_or(words == "hush", Ordering::Relaxed);
        // The client may be gone.
        let _ = socket.send_to(answer.as_bytes(), client);
        if answer == "ending" {
            return;
        }
    }
}

fn answer(words: &str) -> String {
    let said = |done: io::Result<()>| if done.is_ok() { "yes" } else { "no" }.to_owned();
    match words.split_once(' ').unwrap_or((words, "")) {
        ("end", _) => "ending".to_owned(),
        ("read", path) => said(std::fs::File::open(path).map(drop)),
        ("write", path) => said(std::fs::write(path, "x")),
        ("execute", path) => said(std::process::Command::new(path).status().map(drop)),
        ("uid", _) => sys::privileges::user_and_group().0.to_string(),
        ("netlink", _) => {
            let netlink = socket2::Domain::from(libc::AF_NETLINK);
            said(socket2::Socket::new(netlink, socket2::Type::RAW, None).map(drop))
        }
        ("tcp", _) => said(talk_tcp()),
        ("thread", _) => said(std::thread::Builder::new().spawn(|| ()).map(|thread| thread.join().unwrap())),
        ("capabilities", _) => {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("CapPrm:\t"));
            line.unwrap_or("unknown").to_owned()
        }
        _ => words.to_owned(),
    }
}

fn talk_tcp() -> io::Result<()> {
    use std::io::{Read, Write};
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    let (mut server, _) = listener.accept()?;
    client.set_nodelay(true)?;
    client.set_nonblocking(false)?;
    client.write_all(b"x")?;
    server.try_clone()?.read_exact(&mut [0])?;
    server.write_all(b"y")?;
    client.read_exact(&mut [0])
}

impl Service for Echo {
    type Error = String;

    fn addresses(&self) -> Vec<(ListenProtocol, SocketAddr)> {
        vec![(ListenProtocol::Plain, self.address)]
    }

    fn threads(&self) -> usize {
        1
    }

    fn reload(&mut self, config: &Config) -> Result<(), String> {
        if config.threads == 13 { Err("thirteen threads bring bad luck".to_owned()) } else { Ok(()) }
    }

    fn stats(&self) -> Stats {
        Stats { accepted: 7, ..Stats::default() }
    }

    fn upstreams(&self) -> Vec<UpstreamState> {
        vec![UpstreamState { address: "192.0.2.1:53".to_owned(), down: true, ..UpstreamState::default() }]
    }

    fn cache(&self) -> &Cache {
        &self.cache
    }

    fn readings(&self) -> Vec<Metric> {
        vec![Metric::counter("echoed", "Datagrams echoed", self.echoed.load(Ordering::Relaxed))]
    }

    fn silent_threads(&self) -> Vec<String> {
        if self.silent.load(Ordering::Relaxed) { vec!["echo-thread".to_owned()] } else { Vec::new() }
    }

    fn stop(self) -> Result<Stats, String> {
        let stats = self.stats();
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        socket.send_to(b"end", self.address).map_err(|error| error.to_string())?;
        self.thread.join().map_err(|_| "the thread panicked".to_owned())?;
        Ok(stats)
    }
}

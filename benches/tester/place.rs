//! Where it is measured: a lab of namespaces, and a server in it that is no bottleneck, or a real one.

mod servers;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lab::network::{Lab, LabSpec, Role};
use serde_json::Value;
use signal_hook::consts::{SIGINT, SIGTERM};
use sys::bpf::Attached;
use sys::process;

/// The processor of the tool that is measured.
pub const TESTER_CPU: &str = "0";
/// The processor of the server.
const SERVER_CPU: &str = "1";
/// Where the servers listen.
const PORT: u16 = 5300;
/// Where they listen with TLS and QUIC, and with HTTPS.
const TLS_PORT: u16 = 8853;
const HTTPS_PORT: u16 = 8443;
/// Names in the short file.
const FEW_NAMES: u32 = 1 << 14;
/// The longest that a tool may run, in seconds.
const TOOL_SECONDS_MAX: &str = "60";
/// What servers of the zone file are asked for, and how their answers are checked: each name has its own
/// address.
const FROM_ZONE: [&str; 4] = ["--names", "10.0.0.0/12", "--prefix", "2001:2:0:aaaa::/96"];
/// The AuthDNS has more names than a closed loop asks for.
const FROM_RULE: [&str; 4] = ["--names", "10.0.0.0/8", "--prefix", "2001:2:0:aaaa::/96"];

/// A server to measure against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// `sextant echo --io udp`, one thread.
    Sockets,
    /// `sextant echo --io kernel`: XDP_TX.
    Xdp,
    /// NSD with one server process and a zone of 2^20 names.
    Nsd,
    /// The same over TCP and TLS too.
    NsdTls,
    /// Unbound with one thread and the same zone, over HTTPS too.
    Unbound,
    /// Knot with one worker over AF_XDP and the same zone, over QUIC too.
    Knot,
    /// `sextant auth` over sockets, TLS, HTTPS, QUIC and HTTP/3.
    Auth,
}

impl Target {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sockets => figures::tester::SOCKETS,
            Self::Xdp => figures::tester::XDP,
            Self::Nsd | Self::NsdTls => figures::tester::NSD,
            Self::Unbound => figures::tester::UNBOUND,
            Self::Knot => figures::tester::KNOT,
            Self::Auth => figures::tester::AUTH,
        }
    }

    /// What `sextant trial` asks and expects of it.
    pub fn sextant_options(self) -> Vec<String> {
        let options: &[&str] = match self {
            Self::Sockets | Self::Xdp => &["--validity", "response"],
            Self::Nsd | Self::NsdTls | Self::Unbound | Self::Knot => &FROM_ZONE,
            Self::Auth => &FROM_RULE,
        };
        options.iter().map(|&option| option.to_owned()).collect()
    }
}

/// The lab and what lies in it.
pub struct Placement {
    lab: Lab,
    directory: tempfile::TempDir,
    /// Address and port of the server, as the Tester reaches it.
    pub server: SocketAddr,
    /// The names in dnsperf's format.
    pub query_file: PathBuf,
    /// The first of them, for a tool that reads all names before it asks, and asks few.
    pub short_query_file: PathBuf,
}

/// A server at work; dropped, it ends.
pub struct Server(Child);

impl Placement {
    /// Builds the lab and writes the files.
    ///
    /// # Errors
    /// No privileges, no room, a tool is missing.
    pub fn new() -> io::Result<Self> {
        // One queue, because kxdpgun reads no other.
        Self::made(LabSpec { queues: 1, ..LabSpec::default() })
    }

    /// The same in a lab with a queue for each processor.
    ///
    /// # Errors
    /// Likewise.
    pub fn with_queues() -> io::Result<Self> {
        Self::made(LabSpec::default())
    }

    fn made(spec: LabSpec) -> io::Result<Self> {
        let lab = Lab::up(&LabSpec { name: "bench-tester".into(), ..spec })?;
        let directory = tempfile::tempdir()?;
        let at = |name: &str| directory.path().join(name);
        let (query_file, short_query_file) = (at("queries.txt"), at("few-queries.txt"));
        for (path, names) in [(&query_file, servers::NAMES), (&short_query_file, FEW_NAMES)] {
            servers::write_names((path, names), "", |label, _| format!("{label}.dns64perf.test AAAA\n"))?;
        }
        let server = (lab.end(Role::Dut, Role::Tester).ipv4, PORT).into();
        Ok(Self { lab, directory, server, query_file, short_query_file })
    }

    /// A command at the Tester's end, on its processor and bounded in time.
    pub fn tester_command(&self, program: &str) -> Command {
        let mut command = self.lab.command(Role::Tester, "taskset");
        command.args(["-c", TESTER_CPU, "timeout", "-k", "1", TOOL_SECONDS_MAX, program]);
        command.stdin(Stdio::null());
        command
    }

    /// The same on all processors.
    pub fn command_on_all(&self, program: &str) -> Command {
        let mut command = self.lab.command(Role::Tester, "timeout");
        command.args(["-k", "1", TOOL_SECONDS_MAX, program]).stdin(Stdio::null());
        command
    }

    /// A program on the Tester's device, without which a veth does not take what an XDP reflector sends.
    /// Tools that bring their own cannot start while it is there.
    ///
    /// # Errors
    /// The device has a program.
    pub fn pass(&self) -> io::Result<Attached> {
        self.lab.attach_pass(Role::Tester, Role::Dut)
    }

    /// Takes a program that a tool or a server has left behind from the device of its role.
    ///
    /// # Errors
    /// `ip` cannot be started.
    pub fn remove_xdp(&self, role: Role) -> io::Result<()> {
        let towards = if role == Role::Dut { Role::Tester } else { Role::Dut };
        let device = self.lab.end(role, towards).device;
        self.lab.command(role, "ip").args(["link", "set", &device, "xdp", "off"]).status().map(drop)
    }

    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    /// It cannot be started or does not answer.
    pub fn serve(&self, target: Target) -> io::Result<Server> {
        let server = self.start(target, &[])?;
        self.wait_for_answers(self.server, target)?;
        if target == Target::Knot {
            // It has bound its worker to the first processor, which is the Tester's.
            let pid = server.pid().to_string();
            Command::new("taskset")
                .args(["-a", "-p", "-c", SERVER_CPU, &pid])
                .stdout(Stdio::null())
                .status()?;
        }
        Ok(server)
    }

    /// Starts an AuthDNS beside others, with DNS over TLS, and waits until it answers; returns where it takes
    /// connections.
    ///
    /// # Errors
    /// It cannot be started or does not answer.
    pub fn serve_beside(&self, number: u16) -> io::Result<(Server, SocketAddr)> {
        let at = |port: u16| SocketAddr::new(self.server.ip(), port + number);
        let mut command = self.server_command();
        self.auth_beside(&mut command, at(PORT), at(TLS_PORT));
        let server = spawned(command)?;
        self.wait_for_answers(at(PORT), Target::Auth)?;
        Ok((server, at(TLS_PORT)))
    }

    /// Starts a reflector that notes what arrives; nothing is sent to try it.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn receive(&self, target: Target, nominal_qps: u64) -> io::Result<Server> {
        const READY_AFTER: Duration = Duration::from_millis(700);
        let server = self.start(target, &["--pacing", "--nominal", &nominal_qps.to_string()])?;
        std::thread::sleep(READY_AFTER);
        Ok(server)
    }

    /// A path for a file that goes with the lab.
    pub fn scratch(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn start(&self, target: Target, more: &[&str]) -> io::Result<Server> {
        // Knot leaves its program on the device.
        self.remove_xdp(Role::Dut)?;
        let mut command = self.server_command();
        let (listen, device) = (self.server.to_string(), self.lab.end(Role::Dut, Role::Tester).device);
        let echo = [env!("CARGO_BIN_EXE_sextant"), "echo", "--json", "--listen", &listen];
        match target {
            Target::Sockets => command.args(echo).args(["--io", "udp", "--threads", "1"]).args(more),
            Target::Xdp => command.args(echo).args(["--io", "kernel", "--device", &device]).args(more),
            Target::Nsd => command.args(["nsd", "-d", "-c"]).arg(self.nsd(false)?),
            Target::NsdTls => command.args(["nsd", "-d", "-c"]).arg(self.nsd(true)?),
            Target::Unbound => command.args(["unbound", "-d", "-c"]).arg(self.unbound()?),
            Target::Knot => command.args(["knotd", "-c"]).arg(self.knot()?),
            Target::Auth => self.auth(&mut command),
        };
        spawned(command)
    }

    /// A command at the server's end, on its processor.
    fn server_command(&self) -> Command {
        let mut command = self.lab.command(Role::Dut, "taskset");
        command.args(["-c", SERVER_CPU]);
        command
    }

    fn wait_for_answers(&self, server: SocketAddr, target: Target) -> io::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(30);
        let server = server.to_string();
        let _pass = self.pass()?;
        while Instant::now() < deadline {
            let mut command = self.tester_command(env!("CARGO_BIN_EXE_sextant"));
            command.args(["trial", "--json", "--rate", "50", "--duration", "0.1", "--timeout", "0.2"]);
            command.args(["--server", &server]).args(target.sextant_options());
            let output = command.output()?;
            let trial: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            if trial.get("valid").and_then(Value::as_u64).unwrap_or(0) > 0 {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Err(io::Error::other(format!("{} does not answer", target.name())))
    }

    /// Where the server answers over a transport.
    pub fn server_over(&self, transport: &str) -> SocketAddr {
        let port = match transport {
            "dot" | "doq" => TLS_PORT,
            "doh" | "doh3" => HTTPS_PORT,
            _ => PORT,
        };
        SocketAddr::new(self.server.ip(), port)
    }

    /// A program at the Tester's end, on its processor: the command's process is the program's.
    pub fn tester_program(&self, program: &str) -> Command {
        let mut command = self.lab.command(Role::Tester, "taskset");
        command.args(["-c", TESTER_CPU, program]).stdin(Stdio::null());
        command
    }
}

fn spawned(mut command: Command) -> io::Result<Server> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().map(Server)
}

impl Server {
    /// Its process.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Ends it and returns the last JSON object that it printed.
    ///
    /// # Errors
    /// It printed none.
    pub fn finish(mut self) -> io::Result<Value> {
        process::signal(self.pid(), SIGINT)?;
        let mut text = String::new();
        if let Some(mut out) = self.0.stdout.take() {
            io::Read::read_to_string(&mut out, &mut text)?;
        }
        let last = text.lines().rev().find(|line| line.starts_with('{')).unwrap_or_default();
        serde_json::from_str(last)
            .map_err(|error| io::Error::other(format!("the reflector's report: {error}")))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGTERM first: a server may have something to detach.
        let _ = process::signal(self.pid(), SIGTERM);
        for _ in 0..50 {
            if matches!(self.0.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

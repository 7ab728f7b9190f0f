//! Where it is measured: a lab of namespaces, and a server in it that is no bottleneck, or a real one.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dns64::names::{self, LABEL_LENGTH};
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
/// Connections that the AuthDNS may have at a time.
const AUTH_CONNECTIONS: &str = "100000";
/// Names in NSD's zone and in the query file: 10.0.0.0/12.
const NAMES: u32 = 1 << 20;
/// The longest that a tool may run, in seconds.
const TOOL_SECONDS_MAX: &str = "60";
/// What NSD is asked for, and how its answers are checked: each name has its own address.
const FROM_ZONE: [&str; 4] = ["--names", "10.0.0.0/12", "--prefix", "2001:2:0:aaaa::/96"];

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
    /// `sextant auth` over sockets, TLS, HTTPS and QUIC.
    Auth,
}

impl Target {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sockets => figures::tester::SOCKETS,
            Self::Xdp => figures::tester::XDP,
            Self::Nsd | Self::NsdTls => figures::tester::NSD,
            Self::Auth => figures::tester::AUTH,
        }
    }

    /// What `sextant trial` asks and expects of it.
    pub fn sextant_options(self) -> Vec<String> {
        let options: &[&str] = match self {
            Self::Sockets | Self::Xdp => &["--validity", "response"],
            Self::Nsd | Self::NsdTls | Self::Auth => &FROM_ZONE,
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
        let lab = Lab::up(&LabSpec { name: "bench-tester".into(), queues: 1, ..LabSpec::default() })?;
        let directory = tempfile::tempdir()?;
        let query_file = directory.path().join("queries.txt");
        write_names(&query_file, "", |label, _| format!("{label}.dns64perf.test AAAA\n"))?;
        let server = (lab.end(Role::Dut, Role::Tester).ipv4, PORT).into();
        Ok(Self { lab, directory, server, query_file })
    }

    /// A command at the Tester's end, on its processor and bounded in time.
    pub fn tester_command(&self, program: &str) -> Command {
        let mut command = self.lab.command(Role::Tester, "taskset");
        command.args(["-c", TESTER_CPU, "timeout", "-k", "1", TOOL_SECONDS_MAX, program]);
        command.stdin(Stdio::null());
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

    /// Takes a program that a tool has left behind from the Tester's device.
    ///
    /// # Errors
    /// `ip` cannot be started.
    pub fn remove_xdp(&self) -> io::Result<()> {
        let device = self.lab.end(Role::Tester, Role::Dut).device;
        self.lab.command(Role::Tester, "ip").args(["link", "set", &device, "xdp", "off"]).status().map(drop)
    }

    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    /// It cannot be started or does not answer.
    pub fn serve(&self, target: Target) -> io::Result<Server> {
        let server = self.start(target, &[])?;
        self.wait_for_answers(target)?;
        Ok(server)
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
        let mut command = self.lab.command(Role::Dut, "taskset");
        command.args(["-c", SERVER_CPU]);
        let (listen, device) = (self.server.to_string(), self.lab.end(Role::Dut, Role::Tester).device);
        let echo = [env!("CARGO_BIN_EXE_sextant"), "echo", "--json", "--listen", &listen];
        match target {
            Target::Sockets => command.args(echo).args(["--io", "udp", "--threads", "1"]).args(more),
            Target::Xdp => command.args(echo).args(["--io", "kernel", "--device", &device]).args(more),
            Target::Nsd => command.args(["nsd", "-d", "-c"]).arg(self.nsd_configuration("")?),
            Target::NsdTls => {
                command.args(["nsd", "-d", "-c"]).arg(self.nsd_configuration(&self.nsd_tls()?)?)
            }
            Target::Auth => self.auth(&mut command),
        };
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().map(Server)
    }

    fn wait_for_answers(&self, target: Target) -> io::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(30);
        let server = self.server.to_string();
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
            "doh" => HTTPS_PORT,
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

    fn auth<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let over = |transport| self.server_over(transport).to_string();
        command.args([env!("CARGO_BIN_EXE_sextant"), "auth", "--json", "--io", "udp", "--aaaa-share", "100"]);
        command.args(["--listen", &over("udp"), "--dot", &over("dot"), "--doh", &over("doh")]);
        command.args(["--doq", &over("doq"), "--connections", AUTH_CONNECTIONS])
    }

    /// What NSD is told of TCP and TLS, with a certificate.
    fn nsd_tls(&self) -> io::Result<String> {
        let made = rcgen::generate_simple_self_signed(["nsd.test".to_owned()]).map_err(io::Error::other)?;
        let (certificate, key) = (self.scratch("certificate.pem"), self.scratch("key.pem"));
        fs::write(&certificate, made.cert.pem())?;
        fs::write(&key, made.signing_key.serialize_pem())?;
        Ok(format!(
            "  ip-address: {}@{TLS_PORT}\n  tls-port: {TLS_PORT}\n  tls-service-pem: \"{}\"\n  tls-service-key: \"{}\"\n  \
             tcp-count: 2000\n  tcp-query-count: 0\n",
            self.server.ip(),
            certificate.display(),
            key.display()
        ))
    }

    fn nsd_configuration(&self, more: &str) -> io::Result<PathBuf> {
        let directory = self.directory.path();
        let (zone, configuration) = (directory.join("zone"), directory.join("nsd.conf"));
        if !zone.exists() {
            const APEX: &str = "$ORIGIN dns64perf.test.\n$TTL 60\n@ SOA ns hostmaster 1 3600 600 86400 60\n@ NS ns\nns A 198.18.0.2\n";
            write_names(&zone, APEX, |label, address| {
                format!("{label} AAAA 2001:2:0:aaaa::{:x}:{:x}\n", address >> 16, address & 0xffff)
            })?;
        }
        let at = |name: &str| directory.join(name).display().to_string();
        let text = format!(
            "server:\n  ip-address: {}@{PORT}\n  server-count: 1\n  username: \"\"\n  chroot: \"\"\n  database: \"\"\n  \
             zonesdir: \"{}\"\n  pidfile: \"{}\"\n  xfrdfile: \"{}\"\n  zonelistfile: \"{}\"\n  xfrdir: \"{}\"\n  \
             rrl-ratelimit: 0\n  rrl-whitelist-ratelimit: 0\n  cookie-secret-file: \"\"\n{more}remote-control:\n  \
             control-enable: no\nzone:\n  name: dns64perf.test\n  zonefile: zone\n",
            self.server.ip(),
            directory.display(),
            at("nsd.pid"),
            at("xfrd.state"),
            at("zone.list"),
            directory.display(),
        );
        fs::write(&configuration, text)?;
        Ok(configuration)
    }
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

fn write_names(path: &Path, head: &str, line: impl Fn(&str, u32) -> String) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    out.write_all(head.as_bytes())?;
    for index in 0..NAMES {
        let (address, mut label) = (0x0a00_0000 + index, [0; LABEL_LENGTH]);
        names::write_label(Ipv4Addr::from_bits(address), &mut label);
        out.write_all(line(&String::from_utf8_lossy(&label), address).as_bytes())?;
    }
    out.flush()
}

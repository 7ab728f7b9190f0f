//! A lab in which dns64d is the DUT, a scripted upstream server behind it and clients before it.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use lab::network::{Lab, LabSpec, Role};

use crate::support::PATIENCE;
use crate::support::client::{Answer, Ask};
use crate::support::server::{File, Server, config_text};
use crate::support::upstream::Upstream;

const SOA: &str = "ns example.com 60 SOA 60";

/// A lab with a scripted upstream server, in which dns64d is the DUT.
pub struct Site {
    pub lab: Lab,
    pub upstream: Upstream,
    pub directory: tempfile::TempDir,
}

impl Site {
    /// `family` is that of the upstream server: 4 or 6.
    pub fn new(name: &str, family: u8) -> Self {
        Self::with_queues(1, name, family)
    }

    /// Every device has so many queues.
    pub fn with_queues(queues: u16, name: &str, family: u8) -> Self {
        let name = format!("dx{}-{name}", std::process::id());
        let lab = Lab::up(&LabSpec { name, queues, ..LabSpec::default() }).unwrap();
        let end = lab.end(Role::Auth, Role::Dut);
        let at = if family == 4 { format!("{}:0", end.ipv4) } else { format!("[{}]:0", end.ipv6) };
        let upstream = sys::netns::within(&lab.namespace(Role::Auth), || Upstream::at(&at)).unwrap();
        upstream.says("www.example.com AAAA", 0, &[SOA]);
        upstream.says("www.example.com A", 0, &["an www.example.com 300 A 192.0.2.1"]);
        upstream.says("six.example.com AAAA", 0, &["an six.example.com 300 AAAA 2001:db8::6"]);
        upstream.says("bad.example.com AAAA", 2, &[]);
        upstream.says("bad.example.com A", 5, &[]);
        upstream.says(
            "1.2.0.192.in-addr.arpa PTR",
            0,
            &["an 1.2.0.192.in-addr.arpa 300 PTR www.example.com"],
        );
        let many: Vec<String> = (1..=100).map(|n| format!("an big.example.com 300 A 192.0.2.{n}")).collect();
        upstream.says("big.example.com A", 0, &many.iter().map(String::as_str).collect::<Vec<_>>());
        upstream.says("big.example.com AAAA", 0, &[SOA]);
        Self { lab, upstream, directory: tempfile::tempdir().unwrap() }
    }

    /// The addresses of dns64d as the client sees them.
    pub fn listen(&self, port: u16) -> [SocketAddr; 2] {
        let end = self.lab.end(Role::Dut, Role::Tester);
        [SocketAddr::new(end.ipv4.into(), port), SocketAddr::new(end.ipv6.into(), port)]
    }

    /// dns64d listening at a port of both addresses, with more keys and tables; `name` is that of its control
    /// socket.
    pub fn config(&self, name: &str, port: u16, more: &str) -> String {
        let [v4, v6] = self.listen(port);
        let control = self.control_path(name).display().to_string();
        // Spellings at random make answers differ in length: names are compressed where they are spelled
        // alike.
        let spelling =
            if more.contains("case_randomization") { "" } else { "upstream.case_randomization = false\n" };
        let top = format!(
            "listen = ['{v4}', '{v6}']\nallow = ['198.18.0.0/15', '2001:2::/48']\ncontrol.socket = '{control}'\n{spelling}"
        );
        config_text(&[self.upstream.address], &(top + more))
    }

    fn control_path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn spawn(&self, text: &str) -> Server {
        let file = File::new(text);
        let mut command = self.command(&file);
        sys::process::die_with_parent(&mut command);
        Server::spawn(file, command)
    }

    pub fn command(&self, file: &File) -> Command {
        let mut command = self.lab.command(Role::Dut, env!("CARGO_BIN_EXE_dns64d"));
        command.arg("--config").arg(&file.path);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Asks as the client does, from its own address.
    pub fn ask(&self, question: &Ask, server: SocketAddr) -> Option<Answer> {
        self.ask_within(PATIENCE, question, server)
    }

    pub fn ask_within(&self, patience: Duration, question: &Ask, server: SocketAddr) -> Option<Answer> {
        let end = self.lab.end(Role::Tester, Role::Dut);
        let host: IpAddr = if server.is_ipv4() { end.ipv4.into() } else { end.ipv6.into() };
        self.from(patience, host, question, server)
    }

    pub fn from(
        &self,
        patience: Duration,
        host: IpAddr,
        question: &Ask,
        server: SocketAddr,
    ) -> Option<Answer> {
        let ask = || question.within(patience, host, server);
        sys::netns::within(&self.lab.namespace(Role::Tester), ask).unwrap()
    }

    /// What `dns64d control` says to a command.
    pub fn control(&self, name: &str, command: &[&str]) -> Vec<u8> {
        let mut control = Command::new(env!("CARGO_BIN_EXE_dns64d"));
        control.args(["control", "--socket", self.control_path(name).to_str().unwrap()]).args(command);
        let output = control.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output.stdout
    }

    /// A number of `dns64d control stats`.
    pub fn count(&self, name: &str, counter: &str) -> u64 {
        let stats = self.control(name, &["stats", "--json"]);
        let stats: serde_json::Value = serde_json::from_slice(&stats).unwrap();
        stats[counter].as_u64().unwrap_or_else(|| panic!("no {counter} in {stats}"))
    }

    /// The XDP program on a device of the DUT.
    pub fn program(&self, towards: Role) -> Option<u32> {
        let device = self.lab.end(Role::Dut, towards).device;
        let look = || sys::bpf::attached_program(sys::link::Device::named(&device)?.index);
        sys::netns::within(&self.lab.namespace(Role::Dut), look).unwrap().unwrap()
    }
}

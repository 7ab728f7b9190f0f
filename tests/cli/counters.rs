//! The Measurer's counts against those of servers that count for themselves.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::running::{alone, sextant};

const NSD: &str = "/usr/sbin/nsd";
const NSD_CONTROL: &str = "/usr/sbin/nsd-control";

/// NSD with 4096 names, ended when dropped.
struct Nsd {
    child: std::process::Child,
    config: std::path::PathBuf,
    _directory: tempfile::TempDir,
}

impl Nsd {
    fn start(port: u16) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let mut zone = String::from(
            "$ORIGIN dns64perf.test.\n$TTL 60\n@ SOA ns hostmaster 1 3600 600 86400 60\n@ NS ns\nns AAAA ::1\n",
        );
        for n in 0..4096u32 {
            let (c, d) = (n >> 8, n & 255);
            zone += &format!("010-000-{c:03}-{d:03} AAAA 2001:db8:64::a00:{n:x}\n");
        }
        std::fs::write(path.join("zone"), zone).unwrap();
        let text = format!(
            "server:\n ip-address: ::1@{port}\n server-count: 1\n username: \"\"\n chroot: \"\"\n database: \"\"\n zonesdir: \"{0}\"\n \
             pidfile: \"{0}/pid\"\n xfrdfile: \"{0}/xfrd\"\n zonelistfile: \"{0}/list\"\n xfrdir: \"{0}\"\n \
             rrl-ratelimit: 0\n rrl-whitelist-ratelimit: 0\nremote-control:\n control-enable: yes\n \
             control-interface: {0}/control\nzone:\n name: dns64perf.test\n zonefile: zone\n",
            path.display()
        );
        let config = path.join("nsd.conf");
        std::fs::write(&config, text).unwrap();
        let child = Command::new(NSD)
            .arg("-d")
            .arg("-c")
            .arg(&config)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, config, _directory: directory }
    }

    /// All queries so far, by NSD's own count.
    fn queries(&self) -> u64 {
        let output =
            Command::new(NSD_CONTROL).arg("-c").arg(&self.config).arg("stats_noreset").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let count = text.lines().find_map(|line| line.strip_prefix("num.queries=")).map(str::parse);
        count.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr))).unwrap()
    }
}

impl Drop for Nsd {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

#[test]
fn nsd_counts_what_we_sent() {
    let _alone = alone();
    if !Path::new(NSD).exists() || !Path::new(NSD_CONTROL).exists() {
        testing::skip("peer nsd", "NSD is not installed: apt-get install nsd");
        return;
    }
    let port = std::net::UdpSocket::bind("[::1]:0").unwrap().local_addr().unwrap().port();
    let nsd = Nsd::start(port);
    let server = format!("[::1]:{port}");
    let trial = |rate: &str| {
        let options = ["trial", "--server", &server, "--names", "10.0.0.0/20", "--first-name", "1", "--json"];
        sextant(&[&options[..], &["--rate", rate, "--duration", "1"]].concat())
    };
    let started = Instant::now();
    while trial("10").status.code() == Some(1) {
        assert!(started.elapsed() < Duration::from_secs(20), "NSD does not answer");
    }
    let before = nsd.queries();
    let output = trial("4000");
    let counted = nsd.queries() - before;
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["sent"], 4000);
    assert_eq!(result["invalid"], 0, "{result}");
    // One more: the question whether the server is there at all.
    let lost = result["lost"].as_u64().unwrap();
    assert!(
        counted == 4001 || (lost > 0 && counted + lost >= 4001),
        "NSD counted {counted}, {lost} were lost"
    );
}

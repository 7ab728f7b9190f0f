//! `sextant bench --dut` past the kernel's network stack, as with a Tester and a server on two hosts
//! (docs/two-hosts.md): namespaces of a lab are in place of the hosts.

use lab::network::{Lab, LabSpec, Role};
use record::Results;

use super::lab::{can, name};
use super::running::{Background, alone, sextant, stderr};

#[test]
fn a_server_on_another_host_is_measured_past_the_stack() {
    if !can() {
        return;
    }
    if let Err(error) = sys::bpf::available() {
        return testing::skip("xdp", error);
    }
    let _alone = alone();
    let lab = Lab::up(&LabSpec { name: name("hosts"), ..LabSpec::default() }).unwrap();
    let (tester, dut) = (lab.end(Role::Tester, Role::Dut), lab.end(Role::Dut, Role::Tester));
    let base = tempfile::tempdir().unwrap();
    let config = base.path().join("dns64d.toml");
    let text = format!(
        "listen = ['[{}]:53']\nupstreams = ['{}']\nprefixes = ['2001:db8:64::/96']\nallow = ['2001:2::/48']\n",
        dut.ipv6, tester.ipv4
    );
    std::fs::write(&config, text).unwrap();
    let mut dns64d = lab.command(Role::Dut, env!("CARGO_BIN_EXE_dns64d"));
    dns64d.arg("--config").arg(&config);
    let (_server, _) = Background::start(dns64d, "event=ready");
    let (server, auth) = (format!("[{}]:53", dut.ipv6), format!("{}:53", tester.ipv4));
    let out = base.path().join("record");
    let namespace = lab.namespace(Role::Tester);
    let bench = ["--netns", &namespace, "bench", "--dut", &server, "--auth-listen", &auth, "--io", "kernel"];
    let fixed =
        ["--search", "fixed", "--max-rate", "500", "--duration", "0.5", "--repetitions", "1", "--out"];
    // One device leads to the server and back to the AuthDNS: it holds one XDP program.
    let others = ["--auth-io", "udp", "--certificates", base.path().to_str().unwrap()];
    let output = sextant(&[&bench[..], &fixed, &[out.to_str().unwrap()], &others].concat());
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    let results: Results =
        serde_json::from_str(&std::fs::read_to_string(out.join("results.json")).unwrap()).unwrap();
    assert_eq!((results.settings.io.as_str(), results.selftest.is_none()), ("kernel", true));
    let counted = results.runs[0].trials.iter().find(|trial| trial.void.is_none()).unwrap();
    assert_eq!((counted.scheduled, counted.invalid), (250, 0), "{counted:?}");
    let seen = counted.observation.as_ref().unwrap();
    assert!(seen.auth_queries >= Some(counted.valid * 2), "the AuthDNS is watched: {seen:?}");
    let devices = |finding: &&record::Finding| finding.what.starts_with("device ");
    assert_eq!(results.environment.findings.iter().filter(devices).count(), 1, "the one to the server");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("No self-test: RFC 8219 9.2.1 asks for"), "{said}");

    for (option, why) in
        [("--full-selftest", "sextant selftest --server"), ("--auth-threads=0", "both sides")]
    {
        let output = sextant(&[&bench[..], &[option]].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
}

#[test]
fn no_program_passes_by_the_loopback_device() {
    let output = sextant(&["bench", "--dut", "[::1]:9", "--io", "kernel"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("over lo, and lo has no Ethernet") && stderr(&output).lines().count() == 1,
        "{}",
        stderr(&output)
    );
}

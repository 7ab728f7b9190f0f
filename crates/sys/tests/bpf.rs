//! XDP programs on real devices: they come, exclude each other, and are gone whatever ends their process.

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use support::{Pair, can_run, device};
use sys::bpf::{self, BpfError, Mode};

#[test]
fn a_program_is_attached_while_it_is_held() {
    if !can_run() {
        return;
    }
    Pair::new().tester(|| {
        let attached = bpf::attach_pass(device(), None).unwrap();
        assert_eq!(attached.mode(), Mode::Native);
        assert!(bpf::attached_program(device()).unwrap().is_some());
        drop(attached);
        assert_eq!(bpf::attached_program(device()).unwrap(), None);
    });
}

#[test]
fn a_device_without_native_xdp_takes_the_generic_mode() {
    if !can_run() {
        return;
    }
    Pair::new().tester(|| {
        // The loopback device is number 1 in every namespace.
        assert_eq!(bpf::attach_pass(1, None).unwrap().mode(), Mode::Generic);
        let refused = bpf::attach_pass(1, Some(Mode::Native));
        let Err(error @ BpfError::Unsupported { .. }) = refused else {
            panic!("native mode on the loopback device")
        };
        assert!(error.to_string().contains("lo takes no XDP program: native mode: "), "{error}");
    });
}

#[test]
fn a_foreign_program_is_named_and_left_alone() {
    if !can_run() {
        return;
    }
    Pair::new().tester(|| {
        let foreign = bpf::attach_pass(device(), None).unwrap();
        let id = bpf::attached_program(device()).unwrap().unwrap();
        for mode in [None, Some(Mode::Native), Some(Mode::Generic)] {
            let refused = bpf::attach_pass(device(), mode);
            let Err(error @ BpfError::Occupied { .. }) = refused else { panic!("{mode:?} was attached") };
            let text = error.to_string();
            assert!(text.contains(&format!("id {id} 'pass'")), "{text}");
            assert!(text.contains("ip link set veth0 xdp off"), "{text}");
        }
        assert_eq!(bpf::attached_program(device()).unwrap(), Some(id));
        drop(foreign);
        assert_eq!(bpf::attach_pass(device(), None).unwrap().mode(), Mode::Native);
    });
}

/// The namespace in which [`holder`] holds a program.
const HOLD_IN: &str = "KT_HOLD_IN";

/// Run by the next test as a process of its own; alone it does nothing.
#[test]
fn holder() {
    let Ok(namespace) = std::env::var(HOLD_IN) else { return };
    support::enter(&namespace);
    let _attached = bpf::attach_pass(device(), None).unwrap();
    println!("held");
    std::thread::sleep(std::time::Duration::from_secs(60));
}

#[test]
fn a_killed_process_leaves_no_program() {
    if !can_run() {
        return;
    }
    let pair = Pair::new();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "holder", "--nocapture"])
        .env(HOLD_IN, pair.tester_name())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    assert!(output.lines().any(|line| line.unwrap().contains("held")));
    pair.tester(|| assert!(bpf::attached_program(device()).unwrap().is_some()));
    child.kill().unwrap();
    child.wait().unwrap();
    pair.tester(|| {
        assert_eq!(bpf::attached_program(device()).unwrap(), None);
        drop(bpf::attach_pass(device(), None).unwrap());
    });
}

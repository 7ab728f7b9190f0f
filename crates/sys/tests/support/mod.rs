//! Two network namespaces joined by a veth pair, for tests that need devices.
#![allow(dead_code, reason = "each test program uses a part")]

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A pair of namespaces; removed when dropped. The Tester is in the first, its peer in the second.
pub struct Pair {
    names: [String; 2],
}

/// The addresses of the two ends.
pub const TESTER: [&str; 2] = ["198.18.0.1", "2001:2::1"];
pub const PEER: [&str; 2] = ["198.18.0.2", "2001:2::2"];
/// The name of the device in either namespace.
pub const DEVICE: &str = "veth0";
/// The hardware addresses of the two ends.
pub const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

/// Whether XDP programs can be used here; if not, says so as a skipped test must.
pub fn can_run() -> bool {
    match sys::bpf::available() {
        Ok(()) => true,
        Err(why) => {
            testing::skip("xdp", why);
            false
        }
    }
}

/// Whether namespaces can be made here; if not, says so as a skipped test must.
pub fn may_make_namespaces() -> bool {
    let may = sys::process::is_root();
    if !may {
        testing::skip("root", "network namespaces need root");
    }
    may
}

impl Pair {
    pub fn new() -> Self {
        Self::with_queues(1)
    }

    /// A pair whose devices have so many queues in each direction.
    pub fn with_queues(queues: usize) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let names = ["a", "b"].map(|end| format!("kt{}-{number}{end}", std::process::id()));
        let pair = Self { names };
        let [one, other] = &pair.names;
        ip(&format!("netns add {one}"));
        ip(&format!("netns add {other}"));
        let end = format!("{DEVICE} numrxqueues {queues} numtxqueues {queues} netns");
        ip(&format!("link add {end} {one} type veth peer name {end} {other}"));
        for (index, name) in pair.names.iter().enumerate() {
            let mac = MACS[index].map(|octet| format!("{octet:02x}")).join(":");
            ip(&format!("-n {name} link set {DEVICE} address {mac}"));
            for address in [TESTER, PEER][index] {
                let plain = if address.contains(':') { "/64 nodad" } else { "/24" };
                ip(&format!("-n {name} address add {address}{plain} dev {DEVICE}"));
            }
            ip(&format!("-n {name} link set {DEVICE} up"));
        }
        pair
    }

    /// Runs something in the Tester's namespace.
    pub fn tester<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        inside(&self.names[0], work)
    }

    /// Runs something in the peer's namespace.
    pub fn peer<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        inside(&self.names[1], work)
    }

    /// The name of the Tester's namespace.
    pub fn tester_name(&self) -> &str {
        &self.names[0]
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "delete", name]).status();
        }
    }
}

/// Runs ip(8) and wants it to succeed.
pub fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split_whitespace()).output().expect("ip(8) is there");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Runs something in a thread that has entered a namespace.
fn inside<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            enter(name);
            work()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Moves the calling thread, and those it starts, into a namespace.
pub fn enter(name: &str) {
    let file = File::open(format!("/run/netns/{name}")).expect("the namespace is there");
    // SAFETY: the call takes a descriptor that is open, and touches no memory.
    let result = unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) };
    assert_eq!(result, 0, "setns: {}", std::io::Error::last_os_error());
}

/// Takes all capabilities from the calling thread (capset(2)).
pub fn drop_capabilities() {
    const VERSION_3: u32 = 0x2008_0522;
    let (header, none) = ([VERSION_3, 0], [0u32; 6]);
    // SAFETY: a header for the calling thread and two sets of three words each, as this version wants them.
    let result = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) };
    assert_eq!(result, 0, "capset: {}", std::io::Error::last_os_error());
}

/// The number of the test's device in the thread's namespace.
pub fn device() -> u32 {
    let name = std::ffi::CString::new(DEVICE).expect("no zero in it");
    // SAFETY: a string with its end.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    assert_ne!(index, 0, "{DEVICE} is there");
    index
}

/// A socket of the thread's namespace that sends frames as they are.
pub fn frame_socket() -> OwnedFd {
    // SAFETY: on success the call returns a new descriptor that nobody else owns.
    unsafe {
        let socket = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
        assert!(socket >= 0, "AF_PACKET: {}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(socket)
    }
}

/// Sends a frame by a device.
pub fn send_frame(socket: &OwnedFd, device: u32, frame: &[u8]) {
    // SAFETY: all zeros is a valid value of a struct of numbers.
    let mut to: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    to.sll_family = libc::AF_PACKET as u16;
    to.sll_ifindex = device as libc::c_int;
    // SAFETY: the kernel reads the frame and the address, with their lengths.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            frame.as_ptr().cast(),
            frame.len(),
            0,
            std::ptr::from_ref(&to).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    assert_eq!(usize::try_from(sent).ok(), Some(frame.len()), "sendto: {}", std::io::Error::last_os_error());
}

/// Gives a socket room for bursts: a frame from an XDP program counts as a whole page of its buffer.
pub fn enlarge_buffer(socket: &impl AsRawFd) {
    let octets: libc::c_int = 1 << 23;
    // SAFETY: the kernel reads one c_int.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVBUFFORCE,
            std::ptr::from_ref(&octets).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    assert_eq!(result, 0, "SO_RCVBUFFORCE: {}", std::io::Error::last_os_error());
}

//! Waiting for many sockets at once (epoll, level-triggered).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Until there is something to read.
    Read,
    /// Until something can be written.
    Write,
    /// Either.
    Both,
}

impl Interest {
    fn bits(self) -> u32 {
        let bits = match self {
            Self::Read => libc::EPOLLIN | libc::EPOLLRDHUP,
            Self::Write => libc::EPOLLOUT,
            Self::Both => libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLOUT,
        };
        bits as u32
    }
}

/// One file descriptor that is ready.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// The token it was added with.
    pub token: u64,
    /// It can be read.
    pub readable: bool,
    /// It can be written.
    pub writable: bool,
    /// The other side closed it, or it failed.
    pub closed: bool,
}

/// Room for the events of one wait.
pub struct Events {
    list: Vec<libc::epoll_event>,
    ready: usize,
}

impl Events {
    /// Room for `capacity` events, at least one.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { list: vec![libc::epoll_event { events: 0, u64: 0 }; capacity.max(1)], ready: 0 }
    }

    /// The events of the last wait.
    pub fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        (0..self.ready).filter_map(|index| self.get(index))
    }

    /// One of them, in the order of [`Events::iter`].
    pub fn get(&self, index: usize) -> Option<Event> {
        let event = self.list[..self.ready].get(index)?;
        let bits = event.events as i32;
        Some(Event {
            token: event.u64,
            readable: bits & (libc::EPOLLIN | libc::EPOLLHUP | libc::EPOLLERR) != 0,
            writable: bits & (libc::EPOLLOUT | libc::EPOLLERR) != 0,
            closed: bits & (libc::EPOLLHUP | libc::EPOLLERR | libc::EPOLLRDHUP) != 0,
        })
    }
}

/// An epoll instance.
pub struct Poller {
    epoll: OwnedFd,
}

impl Poller {
    /// Makes one.
    ///
    /// # Errors
    /// The limit of open files is reached.
    pub fn new() -> io::Result<Self> {
        // SAFETY: on success the call returns a new descriptor that nobody else owns.
        let epoll = unsafe { OwnedFd::from_raw_fd(crate::check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        Ok(Self { epoll })
    }

    /// Waits for `source` from now on; its events carry `token`.
    ///
    /// # Errors
    /// It is there already, or cannot be waited for.
    pub fn add(&self, source: &impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, source.as_fd(), token, interest.bits())
    }

    /// Changes what is waited for.
    ///
    /// # Errors
    /// It was not added.
    pub fn modify(&self, source: &impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, source.as_fd(), token, interest.bits())
    }

    /// Waits for it no longer.
    ///
    /// # Errors
    /// It was not added.
    pub fn remove(&self, source: &impl AsFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, source.as_fd(), 0, 0)
    }

    fn control(&self, operation: i32, source: BorrowedFd<'_>, token: u64, bits: u32) -> io::Result<()> {
        let mut event = libc::epoll_event { events: bits, u64: token };
        // SAFETY: both descriptors are open for the length of the call and `event` is valid.
        let result =
            unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, source.as_raw_fd(), &mut event) };
        crate::check(result).map(drop)
    }

    /// Waits until something is ready or the time is over; `None` waits for ever, zero does not wait. Waits
    /// of under a millisecond are kept exactly (`epoll_pwait2`). An interrupted wait returns 0.
    ///
    /// # Errors
    /// The kernel is older than 5.11, or the descriptor is broken.
    pub fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<usize> {
        events.ready = 0;
        let timeout = timeout.map(|duration| libc::timespec {
            tv_sec: libc::time_t::try_from(duration.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: duration.subsec_nanos().into(),
        });
        let timeout_pointer = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let room = i32::try_from(events.list.len()).unwrap_or(i32::MAX);
        // SAFETY: the event list has `room` entries; the timeout is null or a valid timespec; no signal mask
        // is passed.
        let result = unsafe {
            libc::epoll_pwait2(
                self.epoll.as_raw_fd(),
                events.list.as_mut_ptr(),
                room,
                timeout_pointer,
                std::ptr::null(),
            )
        };
        match crate::check(result) {
            Ok(ready) => events.ready = ready as usize,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(events.ready)
    }
}

/// Ends another thread's wait (an eventfd).
pub struct Waker {
    event: OwnedFd,
}

impl Waker {
    /// Makes one; add it to a [`Poller`] for reading.
    ///
    /// # Errors
    /// The limit of open files is reached.
    pub fn new() -> io::Result<Self> {
        // SAFETY: on success the call returns a new descriptor that nobody else owns.
        let event = unsafe {
            OwnedFd::from_raw_fd(crate::check(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?)
        };
        Ok(Self { event })
    }

    /// Ends the wait, now or the next time.
    pub fn wake(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the buffer holds the eight octets that an eventfd takes.
        let written = unsafe { libc::write(self.event.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        // A full counter is awake already.
        debug_assert!(written == 8 || io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock);
    }

    /// Takes the wake-up back, after it was seen.
    pub fn drain(&self) {
        let mut counter = [0u8; 8];
        // SAFETY: the buffer holds the eight octets that an eventfd gives.
        let read = unsafe { libc::read(self.event.as_raw_fd(), counter.as_mut_ptr().cast(), counter.len()) };
        // Without a wake-up there is nothing to take back.
        debug_assert!(read == 8 || io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waker_ends_a_wait() {
        let (poller, waker) = (Poller::new().unwrap(), std::sync::Arc::new(Waker::new().unwrap()));
        poller.add(&*waker, 7, Interest::Read).unwrap();
        let mut events = Events::with_capacity(4);
        assert_eq!(poller.wait(&mut events, Some(Duration::ZERO)).unwrap(), 0);
        let other = waker.clone();
        let thread = std::thread::spawn(move || other.wake());
        assert_eq!(poller.wait(&mut events, None).unwrap(), 1);
        thread.join().unwrap();
        assert_eq!(events.iter().next().unwrap().token, 7);
        waker.drain();
        assert_eq!(poller.wait(&mut events, Some(Duration::from_micros(50))).unwrap(), 0);
    }
}

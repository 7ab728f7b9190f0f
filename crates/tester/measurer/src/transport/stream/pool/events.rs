//! What happens at connections while queries wait for them or for answers.

use std::cmp::Reverse;
use std::io;
use std::time::Duration;

use engine::connections::{Breakdown, Fate};
use sys::clock;

use super::{SWEEPS_IN_IDLE_TIME, StreamTransport};
use crate::transport::stream::link::{News, Waiting};

impl StreamTransport {
    /// Takes what has arrived, and looks after the connections whose time has come. Returns how many
    /// connections had something.
    pub(in crate::transport::stream) fn turn(
        &mut self,
        wait: Duration,
        deliver: &mut dyn FnMut(u64, usize, &[u8]) -> bool,
    ) -> io::Result<usize> {
        let ready = match std::mem::take(&mut self.found) {
            0 => self.poller.wait(&mut self.events, Some(wait))?,
            found => found,
        };
        if ready > 0 {
            for index in 0..ready {
                if let Some(event) = self.events.get(index) {
                    self.serve(event.token, deliver);
                }
            }
        }
        let now_ns = clock::monotonic_ns();
        while self.timers.front().is_some_and(|&(at_ns, _)| at_ns <= now_ns) {
            let token = self.timers.pop_front().map_or(0, |(_, token)| token);
            self.look_at(token, now_ns);
        }
        self.wake(now_ns, deliver);
        self.sweep(now_ns);
        Ok(ready)
    }

    /// Drives the connections whose own time has come.
    fn wake(&mut self, now_ns: u64, deliver: &mut dyn FnMut(u64, usize, &[u8]) -> bool) {
        while self.alarms.peek().is_some_and(|Reverse((at_ns, _))| *at_ns <= now_ns) {
            let Some(Reverse((at_ns, token))) = self.alarms.pop() else { return };
            let Some(slot) = self.slot_of(token) else { continue };
            let Some(connection) = self.slots[slot].connection.as_deref_mut() else { continue };
            if connection.alarm_ns != Some(at_ns) {
                continue;
            }
            connection.alarm_ns = None;
            if connection.link.alarm_ns().is_some_and(|at_ns| at_ns <= now_ns) {
                self.serve(token, deliver);
            }
            self.set_alarm(slot);
        }
    }

    /// The slot of a token, if the connection is still the same.
    fn slot_of(&self, token: u64) -> Option<usize> {
        let slot = (token & u64::from(u32::MAX)) as usize;
        let found = self.slots.get(slot)?;
        (u64::from(found.generation) == token >> 32 && found.connection.is_some()).then_some(slot)
    }

    /// Does what a connection is ready for.
    fn serve(&mut self, token: u64, deliver: &mut dyn FnMut(u64, usize, &[u8]) -> bool) {
        let Some(slot) = self.slot_of(token) else { return };
        let now_ns = clock::monotonic_ns();
        let Some(connection) = self.slots[slot].connection.as_deref_mut() else { return };
        let (stats, client, before) = (&mut self.stats, connection.client, self.before);
        let (outstanding, ready) = (&mut connection.outstanding, &mut connection.ready);
        let (opening, fates) = (&mut self.opening, &mut self.fates);
        let mut tell = |news: News<'_>| match news {
            News::Message(at_ns, octets) => {
                if deliver(at_ns, client, octets) {
                    *outstanding = outstanding.saturating_sub(1);
                }
            }
            News::Ready { connect_ns, handshake_ns, resumed } => {
                *ready = true;
                *opening -= 1;
                stats.opened += 1;
                stats.opened_before += u64::from(before);
                stats.resumed += u64::from(resumed);
                connect_ns.into_iter().for_each(|ns| stats.connect_ns.saturating_record(ns));
                handshake_ns.into_iter().for_each(|ns| stats.handshake_ns.saturating_record(ns));
            }
            News::Lost(place, why) => {
                *outstanding = outstanding.saturating_sub(1);
                let places = place..place + 1;
                fates.push(Fate::Lost { client, left_before: places.end, places, at_ns: now_ns, why });
            }
            News::Refused(reason) => stats.note_refusal(reason),
            News::GivenUp(queries) => *outstanding = outstanding.saturating_sub(queries),
        };
        let waiting = Waiting { poller: &self.poller, token };
        if let Err(end) = connection.link.drive(now_ns, (&mut self.scratch, waiting), &mut tell) {
            return self.end(slot, end, now_ns);
        }
        if connection.link.is_leaving() && (connection.left > 0 || !connection.queue.is_empty()) {
            self.leave(slot, now_ns);
        }
        if self.is_done(slot, now_ns) {
            return self.close(slot, now_ns);
        }
        self.set_alarm(slot);
        self.pump(slot, now_ns);
    }

    fn is_done(&self, slot: usize, now_ns: u64) -> bool {
        let connection = self.slots[slot].connection.as_deref();
        connection.is_some_and(|connection| connection.is_done(now_ns, self.config.timeout_ns))
    }

    /// The server takes no more queries by this connection: those that wait will not leave, and the client's
    /// next one goes by a new connection.
    fn leave(&mut self, slot: usize, now_ns: u64) {
        let Some(connection) = self.slots[slot].connection.as_deref_mut() else { return };
        connection.left = 0;
        let (client, queue) = (connection.client, std::mem::take(&mut connection.queue));
        if self.clients[client].current == Some(slot) {
            self.clients[client].current = None;
        }
        queue.into_iter().for_each(|one| self.lose(client, one.place, Breakdown::GoAway, now_ns));
        self.look_again(slot, now_ns);
    }

    /// A timeout has passed since the connection was begun, or since a query was handed over to it.
    fn look_at(&mut self, token: u64, now_ns: u64) {
        let timeout_ns = self.config.timeout_ns;
        let Some(slot) = self.slot_of(token) else { return };
        let Some(connection) = self.slots[slot].connection.as_deref_mut() else { return };
        if !connection.ready {
            if now_ns.saturating_sub(connection.began_ns) > timeout_ns {
                self.end(slot, Breakdown::TimedOut.into(), now_ns);
            }
            return;
        }
        let given_up = connection.link.expire(now_ns);
        connection.outstanding = connection.outstanding.saturating_sub(given_up);
        self.give_up_queue(slot, now_ns);
        if given_up > 0 {
            self.flush(slot, 0, now_ns);
        }
        let Some(connection) = self.slots[slot].connection.as_deref_mut() else { return };
        if connection.is_done(now_ns, timeout_ns) {
            return self.close(slot, now_ns);
        }
        if now_ns.saturating_sub(connection.used_ns) > timeout_ns {
            // Nobody waits for those answers any more.
            connection.outstanding = 0;
        }
        self.pump(slot, now_ns);
    }

    /// Queries whose time is over while they waited for their turn.
    fn give_up_queue(&mut self, slot: usize, now_ns: u64) {
        let timeout_ns = self.config.timeout_ns;
        let pipelined = self.config.streams.pipelined;
        let Some(connection) = self.slots[slot].connection.as_deref_mut() else { return };
        let client = connection.client;
        let mut given_up = Vec::new();
        while connection.queue.front().is_some_and(|one| now_ns.saturating_sub(one.since_ns) > timeout_ns) {
            given_up.extend(connection.queue.pop_front().map(|one| one.place));
        }
        let why = if pipelined { Breakdown::FlowControl } else { Breakdown::OwnLimit };
        given_up.into_iter().for_each(|place| self.lose(client, place, why, now_ns));
    }

    /// The trial is over: what still waits will not leave.
    pub(super) fn give_up_queues(&mut self, now_ns: u64) {
        for slot in 0..self.slots.len() {
            let Some(connection) = self.slots[slot].connection.as_deref_mut() else { continue };
            if !connection.ready && connection.next > connection.first {
                self.end(slot, Breakdown::TimedOut.into(), now_ns);
            } else {
                connection.queue.iter_mut().for_each(|one| one.since_ns = 0);
                self.give_up_queue(slot, now_ns);
            }
        }
    }

    /// Closes connections that nobody has used for their idle time.
    fn sweep(&mut self, now_ns: u64) {
        let Some(idle_ns) = self.config.streams.idle_ns else { return };
        if now_ns.saturating_sub(self.swept_ns) < idle_ns / SWEEPS_IN_IDLE_TIME {
            return;
        }
        self.swept_ns = now_ns;
        for slot in 0..self.slots.len() {
            let Some(connection) = self.slots[slot].connection.as_deref() else { continue };
            let unused = now_ns.saturating_sub(connection.used_ns) > idle_ns;
            if connection.ready && unused && connection.is_idle(now_ns, self.config.timeout_ns) {
                self.close(slot, now_ns);
            }
        }
    }
}

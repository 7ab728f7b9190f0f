//! dns64d's state machine, without sockets or clock, and the threads that drive it.

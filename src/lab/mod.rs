//! The servers around a measurement: embedded ones, real peers, and the machine itself.

//! The control socket: a Unix socket on which an operator queries and controls a running server.
//!
//! One command for each connection: a line in, then `ok` or `error` on a line of its own and the answer until
//! the end. A word `--json` in the line asks for JSON. The permissions of the file decide who may use the
//! socket.

mod client;
mod reply;
mod request;
mod server;

pub use client::{ClientError, ask};
pub use reply::Reply;
pub use request::{Command, Request};
pub use server::{ControlSocket, Owner};

#[cfg(test)]
mod tests;

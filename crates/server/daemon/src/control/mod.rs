//! The control socket: a Unix socket on which an operator asks a running server, or tells it something.
//!
//! One command for each connection: a line in, then `ok` or `error` on a line of its own and the answer until
//! the end. A word `--json` in the line asks for JSON. Who may use it is the file's permissions.

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

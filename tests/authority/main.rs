//! The AuthDNS from outside: its answers as another DNS library reads them, its sockets, and real resolvers before it.

mod cost;
mod zone;

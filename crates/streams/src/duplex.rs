//! TCP and TLS as one kind of stream, so that each loop is compiled once.

use std::io;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

/// A stream of octets both ways.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Duplex for T {}

pub(crate) type Octets = Pin<Box<dyn Duplex>>;

/// Writes what the peer takes, and returns how much; flushes when nothing is left to write, and returns 0.
pub(crate) async fn write_some(writer: &mut (impl AsyncWrite + Unpin), output: &[u8]) -> io::Result<usize> {
    if output.is_empty() {
        return writer.flush().await.map(|()| 0);
    }
    match writer.write(output).await {
        Ok(0) => Err(io::ErrorKind::WriteZero.into()),
        written => written,
    }
}

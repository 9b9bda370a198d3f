//! Connections of the listeners: how many there are, how long they may be silent, and how they end.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;

/// Time that running answers have after a request to stop.
const STOP_TIME: Duration = Duration::from_secs(30);

/// Number of open connections of a listener; others wait until one ends.
const MAX_CONNECTIONS: usize = 1_000;

/// Time in which a client must send the head of a request.
pub(crate) const HEAD_TIME: Duration = Duration::from_secs(10);

/// Time for which a client may read nothing of an answer before its connection is closed.
const STALL_TIME: Duration = Duration::from_secs(30);

/// Time for which a connection without a request stays open, in addition to the time of a query.
const IDLE_TIME: Duration = Duration::from_secs(90);

/// Accepts connections until `stop` is ready, and waits for the end of those that are open then,
/// for at most half a minute. The receiver changes when they are to end.
pub(crate) async fn serve_connections<C: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    stop: impl Future<Output = ()>,
    connection: impl Fn(TcpStream, watch::Receiver<bool>) -> C,
) {
    let (stopping, stopped) = watch::channel(false);
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = async {
            // The semaphore is never closed.
            let slot = Arc::clone(&slots).acquire_owned().await.ok();
            Ok((listener.accept().await?.0, slot))
        };
        tokio::select! {
            () = &mut stop => break,
            accepted = accepted => match accepted {
                Ok((stream, slot)) => {
                    let served = connection(stream, stopped.clone());
                    connections.spawn(async move {
                        served.await;
                        drop(slot);
                    });
                }
                Err::<_, std::io::Error>(error) => {
                    // For example too many open files: others may end meanwhile.
                    tracing::warn!(%error, "can't accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    let _ = stopping.send(true);
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(STOP_TIME, ended).await.is_err() {
        tracing::warn!("some answers weren't finished in time; their connections are closed");
        connections.shutdown().await;
    }
}

/// A connection whose reads and writes end after a time, with or without TLS.
pub(crate) type TimedStream = TimeoutStream<Pin<Box<dyn ByteStream>>>;

/// A stream of bytes in both directions, with or without TLS.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send + Sync {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + Sync> ByteStream for S {}

/// Negotiates TLS if there is a certificate; `None` if that fails or takes too long. `query_time`
/// is the longest time of a query.
pub(crate) async fn timed_stream(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    query_time: Duration,
) -> Option<Pin<Box<TimedStream>>> {
    let _ = stream.set_nodelay(true);
    let stream: Pin<Box<dyn ByteStream>> = match tls {
        None => Box::pin(stream),
        Some(tls) => match tokio::time::timeout(HEAD_TIME, tls.accept(stream)).await {
            Ok(Ok(stream)) => Box::pin(stream),
            Ok(Err(error)) => {
                tracing::debug!(%error, "negotiation of TLS");
                return None;
            }
            Err(_) => return None,
        },
    };
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(STALL_TIME));
    // Nothing is read while an answer is waited for, so that an idle connection can be
    // distinguished from a busy one after the time of a query only.
    stream.set_read_timeout(Some(query_time + IDLE_TIME));
    Some(Box::pin(stream))
}

/// Waits for the end of a connection over HTTP. `shut_down` makes it finish its answers when
/// `stopped` changes.
pub(crate) async fn until_ended<C: Future<Output = hyper::Result<()>>>(
    connection: C,
    mut stopped: watch::Receiver<bool>,
    shut_down: impl FnOnce(Pin<&mut C>),
) {
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        _ = stopped.changed() => {
            shut_down(connection.as_mut());
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection");
    }
}

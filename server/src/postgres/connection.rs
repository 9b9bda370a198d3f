//! One connection: the negotiation of TLS, its messages, and its end.
//!
//! Before a client has shown its token it has a few seconds and a few kilobytes. A message has a
//! limit at any time, and a client that takes no bytes for as long as a query may run loses the
//! connection, so that it doesn't hold the slot of a query.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::StreamExt;
use futures::future::poll_fn;
use gristmill_engine::decoder_panic::caught;
use pgwire::api::store::PortalStore;
use pgwire::api::{ClientInfo, ClientPortalStore, DefaultClient, NoopHandler};
use pgwire::api::{PgWireConnectionState, cancel::DefaultCancelHandler};
use pgwire::error::PgWireError;
use pgwire::messages::PgWireFrontendMessage;
use pgwire::tokio::server::{PgWireMessageServerCodec, process_error, process_message};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep, timeout_at};
use tokio_util::codec::{Framed, FramedParts};

use super::Listener;
use super::failure::{error, stopped_error, unreadable};
use super::prepared::Prepared;
use super::queries::Handler;
use super::session::Session;
use crate::connections::ByteStream;
use crate::http::MAX_BODY;

/// Time in which a client must have shown its token.
const STARTUP_TIME: Duration = Duration::from_secs(10);

/// Bytes of a message before the client has shown its token.
const STARTUP_BYTES: usize = 16 << 10;

/// Bytes of later messages: a statement and its parameters as long as over HTTP, and their frame.
const MESSAGE_BYTES: usize = MAX_BODY + (64 << 10);

/// The first eight bytes of a connection that requests TLS.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// The first eight bytes of a connection that requests encryption by GSSAPI.
const GSS_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x30];

type Messages = Framed<LimitedStream, PgWireMessageServerCodec<Arc<Prepared>>>;

/// Serves a connection until the client or the server ends it.
pub(super) async fn serve(
    listener: Arc<Listener>,
    stream: TcpStream,
    stopped: watch::Receiver<bool>,
) {
    let startup = Instant::now() + STARTUP_TIME;
    match timeout_at(startup, negotiated(&listener, stream)).await {
        Ok(Ok(Some(messages))) => {
            if let Err(error) = answer_all(listener, messages, startup, stopped).await {
                tracing::debug!(%error, "connection");
            }
        }
        Ok(Ok(None)) => {}
        Ok(Err(error)) => tracing::debug!(%error, "connection"),
        Err(_) => tracing::debug!("a client began no session in time"),
    }
}

/// Negotiates TLS; `None` if the client ends the connection.
async fn negotiated(listener: &Listener, mut stream: TcpStream) -> io::Result<Option<Messages>> {
    let address = stream.peer_addr()?;
    stream.set_nodelay(true)?;
    let mut first = [0; 8];
    loop {
        if stream.read_exact(&mut first).await.is_err() {
            return Ok(None);
        }
        let tls = match first {
            SSL_REQUEST => listener.tls.as_ref(),
            GSS_REQUEST => None,
            _ => {
                let client = DefaultClient::new(address, false);
                return Ok(Some(framed(listener, Box::new(stream), client, &first)));
            }
        };
        let Some(tls) = tls else {
            stream.write_all(b"N").await?;
            continue;
        };
        stream.write_all(b"S").await?;
        let stream = tls.accept(stream).await?;
        let client = DefaultClient::new(address, true);
        return Ok(Some(framed(listener, Box::new(stream), client, &[])));
    }
}

/// Returns the messages of a client's stream, of which `first` was read already.
fn framed(
    listener: &Listener,
    stream: Box<dyn ByteStream>,
    client: DefaultClient<Arc<Prepared>>,
    first: &[u8],
) -> Messages {
    let stream = LimitedStream {
        stream,
        bytes_left: STARTUP_BYTES,
        write_time: listener.server.options.limits.time,
        stalled: None,
        is_broken: false,
    };
    let mut parts = FramedParts::new(stream, PgWireMessageServerCodec::new(client));
    parts.read_buf.extend_from_slice(first);
    let mut messages = Framed::from_parts(parts);
    messages.set_state(PgWireConnectionState::AwaitingStartup);
    messages
}

/// What happened while a connection waited for a message.
enum Event {
    Message(Result<PgWireFrontendMessage, PgWireError>),
    /// A query that the client doesn't read on has had its time.
    PortalsExpired,
    /// The server stops.
    Stopped,
    /// The client has ended the connection, or its time to begin a session is over.
    Ended,
}

/// Answers the messages of a client.
async fn answer_all(
    listener: Arc<Listener>,
    mut messages: Messages,
    startup: Instant,
    mut stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let session = Arc::new(Session::new(Arc::clone(&listener)));
    // A batch of messages is answered to its end before the server stops.
    let mut is_between_batches = true;
    loop {
        let waited = next_event(
            &session,
            &mut messages,
            startup,
            &mut stopped,
            is_between_batches,
        );
        let message = match waited.await {
            Event::Message(Ok(PgWireFrontendMessage::Terminate(_))) | Event::Ended => return Ok(()),
            Event::Message(Ok(message)) => message,
            Event::Message(Err(error)) => {
                return process_error(&mut messages, unreadable(error), false).await;
            }
            Event::PortalsExpired => {
                messages.portal_store().clear_portals();
                continue;
            }
            Event::Stopped => return process_error(&mut messages, stopped_error(), false).await,
        };
        let is_extended = message.is_extended_query();
        is_between_batches = !is_extended || matches!(message, PgWireFrontendMessage::Sync(_));
        let is_cancel = matches!(message, PgWireFrontendMessage::CancelRequest(_));
        if let Err(error) = answer(&listener, &session, &mut messages, message).await {
            let is_fatal = error.is_fatal();
            process_error(&mut messages, error, is_extended).await?;
            if is_fatal {
                return Ok(());
            }
        }
        if is_cancel {
            return Ok(());
        }
    }
}

async fn next_event(
    session: &Session,
    messages: &mut Messages,
    startup: Instant,
    stopped: &mut watch::Receiver<bool>,
    is_between_batches: bool,
) -> Event {
    let has_started = session.has_started();
    messages.get_mut().bytes_left = match has_started {
        true => MESSAGE_BYTES,
        false => STARTUP_BYTES,
    };
    let holds_rows = session.holds_rows();
    let query_time = messages.get_ref().write_time;
    tokio::select! {
        message = next_message(messages) => message,
        () = tokio::time::sleep_until(startup), if !has_started => Event::Ended,
        () = sleep(query_time), if holds_rows => Event::PortalsExpired,
        _ = stopped.wait_for(|stopped| *stopped), if is_between_batches => Event::Stopped,
    }
}

/// Waits for the next message. The decoder panics on messages that are shorter than their kind
/// requires.
async fn next_message(messages: &mut Messages) -> Event {
    let next = poll_fn(
        |context| match caught(|| messages.poll_next_unpin(context)) {
            Some(polled) => polled.map(Ok),
            None => Poll::Ready(Err(error(
                "08P01",
                "a message is shorter than its kind requires",
            ))),
        },
    );
    match next.await {
        Ok(message) => message.map_or(Event::Ended, Event::Message),
        Err(error) => Event::Message(Err(error)),
    }
}

async fn answer(
    listener: &Listener,
    session: &Arc<Session>,
    messages: &mut Messages,
    message: PgWireFrontendMessage,
) -> Result<(), PgWireError> {
    session.check_token()?;
    let handler = Arc::new(Handler::new(Arc::clone(session)));
    process_message(
        message,
        messages,
        Arc::clone(session),
        Arc::clone(&handler),
        handler,
        Arc::new(NoopHandler),
        Arc::new(DefaultCancelHandler::new(Arc::clone(&listener.connections))),
    )
    .await
}

/// The stream of a client, limited in what it reads for a message and in how long a write waits.
pub(super) struct LimitedStream {
    stream: Box<dyn ByteStream>,
    /// Bytes that may be read until the next message is complete.
    bytes_left: usize,
    /// Time in which the client must take some bytes.
    write_time: Duration,
    /// The end of this time, while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
    is_broken: bool,
}

impl LimitedStream {
    /// Passes on the result of a write, or fails if the client takes nothing for too long.
    fn watched<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let time = self.write_time;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(time)));
        if self.is_broken || stalled.as_mut().poll(context).is_ready() {
            self.is_broken = true;
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }
}

impl AsyncRead for LimitedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.bytes_left == 0 {
            let error = "a message is longer than the server accepts";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let bytes = buffer.filled().len() - before;
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        read
    }
}

impl AsyncWrite for LimitedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watched(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.watched(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watched(context, shut)
    }
}

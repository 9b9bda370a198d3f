//! Listeners for the members of a cluster. Ballista's servers use plain HTTP/2, so they listen on
//! loopback, and a listener with the key of the cluster forwards the connections of members.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::cluster_key::ClusterKey;

/// How long a connection may take to prove that it is one of a member.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// The pause after a connection couldn't be accepted, such as for lack of file handles.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Largest number of connections of a listener.
const MAX_CONNECTIONS: usize = 4_096;

/// A listener for members.
pub(crate) struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl TlsListener {
    /// Listens at `address` for members that have `key`.
    ///
    /// # Errors
    /// If the address is in use, or isn't one of this machine.
    pub(crate) async fn bind(address: SocketAddr, key: &ClusterKey) -> io::Result<TlsListener> {
        let listener = TcpListener::bind(address).await?;
        let acceptor = key.acceptor();
        Ok(TlsListener { listener, acceptor })
    }

    /// Forwards the connections of members to `target`, until the process ends.
    pub(crate) async fn forward_to(self, target: SocketAddr) {
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            if connections.len() >= MAX_CONNECTIONS {
                connections.join_next().await;
                continue;
            }
            let (stream, peer) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection couldn't be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let acceptor = self.acceptor.clone();
            connections.spawn(async move {
                if let Err(error) = forward(stream, &acceptor, target).await {
                    tracing::debug!(%error, %peer, "a connection of the cluster ended");
                }
            });
        }
    }
}

/// Forwards one connection after its handshake.
async fn forward(stream: TcpStream, acceptor: &TlsAcceptor, target: SocketAddr) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut outer = timeout(HANDSHAKE_TIME, acceptor.accept(stream)).await??;
    let mut inner = TcpStream::connect(target).await?;
    inner.set_nodelay(true)?;
    copy_bidirectional(&mut outer, &mut inner).await.map(drop)
}

/// Returns the loopback address of servers behind a listener at `public`: not the listener's own,
/// because both use the same port.
pub(crate) fn inner_address(public: IpAddr) -> IpAddr {
    let last = match public {
        IpAddr::V4(Ipv4Addr::LOCALHOST) => 2,
        _ => 1,
    };
    Ipv4Addr::new(127, 0, 0, last).into()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tonic::transport::Endpoint;

    use super::*;

    fn key() -> ClusterKey {
        ClusterKey::from_pem(ClusterKey::generate().unwrap().as_bytes()).unwrap()
    }

    /// Starts a listener with `key` in front of a server that answers everything with silence, and
    /// returns its address.
    async fn listener(key: &ClusterKey) -> SocketAddr {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = server.local_addr().unwrap();
        let listener = TlsListener::bind("127.0.0.1:0".parse().unwrap(), key)
            .await
            .unwrap();
        let address = listener.listener.local_addr().unwrap();
        tokio::spawn(listener.forward_to(target));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = server.accept().await {
                tokio::spawn(async move {
                    // The settings of HTTP/2, so that a client is connected.
                    let _ = stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await;
                    let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
                });
            }
        });
        address
    }

    #[tokio::test]
    async fn only_members_are_forwarded() {
        let ours = key();
        let address = listener(&ours).await;
        let plain = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let member = ours.endpoint(&plain).unwrap();
        member.connect().await.unwrap();
        // Another key, and none.
        assert!(key().endpoint(&plain).unwrap().connect().await.is_err());
        let mut stranger = TcpStream::connect(address).await.unwrap();
        stranger
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            .await
            .unwrap();
        let mut answer = Vec::new();
        let _ = stranger.read_to_end(&mut answer).await;
        // An alert of TLS at most, not a frame of HTTP/2.
        assert!(answer.first().is_none_or(|byte| *byte == 21), "{answer:?}");
    }

    #[test]
    fn servers_behind_a_listener_have_another_address() {
        for public in ["127.0.0.1", "127.0.0.2", "10.0.0.1", "::1", "fd00::7"] {
            let public: IpAddr = public.parse().unwrap();
            let inner = inner_address(public);
            assert!(inner.is_loopback() && inner != public);
        }
    }
}

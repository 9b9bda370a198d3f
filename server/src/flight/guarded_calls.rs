//! Calls are refused by their head, before the message is read: a client without a token can't have
//! the server hold the beginnings of messages, or connections that others need.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_flight::flight_service_server::FlightServiceServer;
use hyper::body::Incoming;
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::service::TowerToHyperService;
use tonic::Status;
use tonic::body::Body;
use tonic::metadata::MetadataMap;

use super::authority::authority_of;
use super::calls::FlightCalls;
use crate::connections::HEAD_TIME;
use crate::http::{BODY_TIME, Server};

/// The calls of a connection.
#[derive(Clone)]
pub(super) struct GuardedCalls {
    server: Arc<Server>,
    calls: TowerToHyperService<FlightServiceServer<FlightCalls>>,
    /// Whether a call had a token.
    is_known: Arc<AtomicBool>,
}

impl GuardedCalls {
    pub(super) fn new(
        server: Arc<Server>,
        calls: FlightServiceServer<FlightCalls>,
    ) -> GuardedCalls {
        GuardedCalls {
            server,
            calls: TowerToHyperService::new(calls),
            is_known: Arc::default(),
        }
    }

    /// Answers a call. It ends with `DEADLINE_EXCEEDED` if its message doesn't arrive in time; its
    /// query has a limit of its own, after which its answer begins.
    pub(super) async fn answer(
        self,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Infallible> {
        let metadata = MetadataMap::from_headers(request.headers().clone());
        if let Err(refused) = authority_of(&self.server, &metadata) {
            return Ok(refused.into_http());
        }
        self.is_known.store(true, Ordering::Relaxed);
        let time = 2 * BODY_TIME + self.server.options.limits.time;
        let answered = tokio::time::timeout(time, self.calls.call(request)).await;
        answered.unwrap_or_else(|_| {
            let late = Status::deadline_exceeded("the call didn't arrive in time");
            Ok(late.into_http())
        })
    }

    /// Is ready if no call has shown a token in time, and never otherwise.
    pub(super) async fn unknown(&self) {
        tokio::time::sleep(HEAD_TIME).await;
        if self.is_known.load(Ordering::Relaxed) {
            std::future::pending().await
        }
    }
}

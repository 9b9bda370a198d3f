//! The calls of Arrow Flight, most of which Flight SQL defines. `GetSchema` isn't among those, so
//! the crate `arrow-flight` refuses it; here its answer is the schema of `GetFlightInfo`.

use arrow_flight::flight_service_server::FlightService;
use arrow_flight::{
    Action, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest, PollInfo,
    SchemaResult, Ticket,
};
use tonic::{Request, Response, Streaming};

use super::service::{Answer, FlightSql};

/// The answers of a server to the calls of Flight.
pub(super) struct FlightCalls(FlightSql);

impl FlightCalls {
    pub(super) fn new(sql: FlightSql) -> FlightCalls {
        FlightCalls(sql)
    }
}

#[tonic::async_trait]
impl FlightService for FlightCalls {
    type HandshakeStream = <FlightSql as FlightService>::HandshakeStream;
    type ListFlightsStream = <FlightSql as FlightService>::ListFlightsStream;
    type DoGetStream = <FlightSql as FlightService>::DoGetStream;
    type DoPutStream = <FlightSql as FlightService>::DoPutStream;
    type DoExchangeStream = <FlightSql as FlightService>::DoExchangeStream;
    type DoActionStream = <FlightSql as FlightService>::DoActionStream;
    type ListActionsStream = <FlightSql as FlightService>::ListActionsStream;

    /// Answers the columns of a statement or of a command about the catalog.
    async fn get_schema(&self, request: Request<FlightDescriptor>) -> Answer<SchemaResult> {
        let FlightInfo { schema, .. } = self.0.get_flight_info(request).await?.into_inner();
        Ok(Response::new(SchemaResult { schema }))
    }

    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Answer<Self::HandshakeStream> {
        self.0.handshake(request).await
    }

    async fn list_flights(&self, request: Request<Criteria>) -> Answer<Self::ListFlightsStream> {
        self.0.list_flights(request).await
    }

    async fn get_flight_info(&self, request: Request<FlightDescriptor>) -> Answer<FlightInfo> {
        self.0.get_flight_info(request).await
    }

    async fn poll_flight_info(&self, request: Request<FlightDescriptor>) -> Answer<PollInfo> {
        self.0.poll_flight_info(request).await
    }

    async fn do_get(&self, request: Request<Ticket>) -> Answer<Self::DoGetStream> {
        self.0.do_get(request).await
    }

    async fn do_put(&self, request: Request<Streaming<FlightData>>) -> Answer<Self::DoPutStream> {
        self.0.do_put(request).await
    }

    async fn do_exchange(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Answer<Self::DoExchangeStream> {
        self.0.do_exchange(request).await
    }

    async fn do_action(&self, request: Request<Action>) -> Answer<Self::DoActionStream> {
        self.0.do_action(request).await
    }

    async fn list_actions(&self, request: Request<Empty>) -> Answer<Self::ListActionsStream> {
        self.0.list_actions(request).await
    }
}

//! The watched flows of a subscriber.

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;

use super::refusal::Refusal;
use super::request::Most;
use super::view::Problem;
use super::{Api, PAGE, ask};
use crate::gate::view::felt::FlowsJson;

/// The watched flows of one subscriber, those with the most bytes first
#[utoipa::path(get, path = "/v1/subscribers/{name}/flows",
    params(("name", description = "The subscriber's name"), Most), responses(
    (status = 200, description = "Flows with packets in the last minute, as they are now", body = FlowsJson),
    (status = 404, description = "There is no such subscriber", body = Problem),
    (status = 422, description = "No flows are watched", body = Problem),
    (status = "default", description = "What went wrong", body = Problem)))]
pub(super) async fn flows(
    State(api): State<Api>,
    name: Result<Path<String>, PathRejection>,
    query: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Result<Json<FlowsJson>, Refusal> {
    let Path(name) = name?;
    let Query(query) = query?;
    let most = Most::new(query).map_err(|text| Refusal::new(StatusCode::BAD_REQUEST, text))?;
    let found = ask(api, move |api| {
        let flows = api.gate.flows(&name)?;
        Ok(FlowsJson::new(&flows, most.limit.unwrap_or(PAGE)))
    });
    Ok(Json(found.await?))
}

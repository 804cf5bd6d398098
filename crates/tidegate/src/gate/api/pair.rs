//! The other gate of a pair: its state, and what it asks for. It asks by POST, which a token that may only read does not
//! allow.

use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::header;
use axum::response::IntoResponse;
use serde_json::Value;
use tidegate_gate::control::ControlError;

use super::refusal::Refusal;
use super::request::{Since, Within};
use super::{Api, Json, Problem, ask};
use crate::gate::pair::Told;
use crate::gate::view::pair::PairJson;

/// How this gate follows the other one of a pair, and whether that one follows it
#[utoipa::path(get, path = "/v1/pair", responses(
    (status = 200, description = "The other gate", body = PairJson),
    (status = 404, description = "This gate is none of a pair: its file has no `[pair]`", body = Problem),
    (status = "default", description = "What went wrong", body = Problem)))]
pub async fn state(State(api): State<Api>) -> Result<Json<PairJson>, Refusal> {
    let pair = api.pair.as_ref().map(|pair| pair.status());
    let none = "this gate is none of a pair: its file has no [pair]";
    Ok(Json(
        pair.ok_or_else(|| ControlError::Unknown(none.into()))?,
    ))
}

/// Live changes and volumes, for the other gate of a pair
#[utoipa::path(post, path = "/v1/pair", request_body = Since, responses(
    (status = 200, description = "Live changes and volumes of this gate, for a gate of the same version", body = Object),
    (status = "default", description = "What went wrong", body = Problem)))]
pub async fn changes(
    State(api): State<Api>,
    body: Result<Json<Value>, JsonRejection>,
) -> Result<Json<Told>, Refusal> {
    let Json(body) = body?;
    let Since { since, volumes } = Since::new(body).map_err(ControlError::Invalid)?;
    let told = ask(api, move |api| {
        let volumes = volumes.then(|| api.keeper.shared()).flatten();
        api.gate.pair(|gate| {
            Ok(Told {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                hash: gate.hash(),
                changes: gate.changes_since(since),
                volumes,
            })
        })
    });
    Ok(Json(told.await?))
}

/// Limiters that had packets lately, for the other gate of a pair
#[utoipa::path(post, path = "/v1/pair/limiters", request_body = Within, responses(
    (status = 200, description = "The memory of these limiters, for a gate of the same version",
        content_type = "application/octet-stream", body = Vec<u8>),
    (status = "default", description = "What went wrong", body = Problem)))]
pub async fn limiters(
    State(api): State<Api>,
    body: Result<Json<Value>, JsonRejection>,
) -> Result<impl IntoResponse, Refusal> {
    let Json(body) = body?;
    let Within { within_ms } = Within::new(body).map_err(ControlError::Invalid)?;
    let within = within_ms.saturating_mul(1_000_000);
    let bytes = ask(api, move |api| {
        let bytes = api.gate.pair(|gate| gate.export(within))?;
        // A gate asks for limiters last: so far all went well there.
        if let Some(pair) = &api.pair {
            pair.was_asked();
        }
        Ok(bytes)
    })
    .await?;
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], bytes))
}

//! Who has which address: routes for servers that give addresses, such as DHCP and PPPoE servers.

use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{Path, State};
use axum::{Extension, Json};
use serde_json::Value;
use tidegate_gate::control::{Adjustment, ControlError};
use tidegate_gate::live::MatchChange;
use tidegate_gate::table::Match;

use super::request::lease;
use super::{Api, Peer, Refusal, ask, detail};
use crate::gate::events::Taken;
use crate::gate::logs;
use crate::gate::view::{Lease, Problem, Released, SubscriberJson};

/// An address, prefix, tag or session in a path.
fn one_match(text: &str) -> Result<Match, Refusal> {
    let read = text.parse::<Match>();
    read.map_err(|error| ControlError::Invalid(error.to_string()).into())
}

/// The subscriber that has an address
#[utoipa::path(get, path = "/v1/addresses/{address}",
    params(("address", description = "An address, prefix, `vlan N`, `qinq N.N` or `pppoe N`, as in `matches`")),
    responses(
    (status = 200, description = "The subscriber that has exactly this, with its queues", body = SubscriberJson),
    (status = 404, description = "Nobody has it", body = Problem),
    (status = "default", description = "What went wrong", body = Problem)))]
pub async fn holder(
    State(api): State<Api>,
    address: Result<Path<String>, PathRejection>,
) -> Result<Json<SubscriberJson>, Refusal> {
    let Path(address) = address?;
    let what = one_match(&address)?;
    detail(api, move |api| api.gate.holder(&what)).await
}

/// Give an address to a subscriber
///
/// For DHCP and PPPoE servers. Another subscriber that has it loses it. It holds across reloads and restarts of the daemon.
#[utoipa::path(put, path = "/v1/addresses/{address}",
    params(("address", description = "An address, prefix, `vlan N`, `qinq N.N` or `pppoe N`")),
    request_body = Lease, responses(
    (status = 200, description = "The subscriber, as it is now", body = SubscriberJson),
    (status = 404, description = "There is no such subscriber", body = Problem),
    (status = "default", description = "What went wrong", body = Problem)))]
pub async fn assign(
    State(api): State<Api>,
    peer: Option<Extension<Peer>>,
    address: Result<Path<String>, PathRejection>,
    body: Result<Json<Value>, JsonRejection>,
) -> Result<Json<SubscriberJson>, Refusal> {
    let (Path(address), Json(body)) = (address?, body?);
    let what = one_match(&address)?;
    let Lease { subscriber, only } = lease(body).map_err(ControlError::Invalid)?;
    let moves = match only {
        true => MatchChange::only_these(&[what]),
        false => vec![MatchChange::Assign(what)],
    };
    let adjustment = Adjustment {
        moves,
        ..Adjustment::default()
    };
    let by = peer.map_or_else(String::new, |Extension(Peer(peer))| peer);
    let done = detail(api, move |api| {
        let taken = api.events.taken(&api.gate, &subscriber, &adjustment);
        let done = api.gate.set(&subscriber, &adjustment)?;
        logs::set(&subscriber, &adjustment, &by);
        api.events.set(&by, &subscriber, &adjustment, &taken);
        Ok(done)
    });
    done.await
}

/// Take an address from the subscriber that has it
///
/// It goes back to the subscriber that has it in the configuration, if this is another one.
#[utoipa::path(delete, path = "/v1/addresses/{address}",
    params(("address", description = "An address, prefix, `vlan N`, `qinq N.N` or `pppoe N`")),
    responses(
    (status = 200, description = "The subscriber that lost it", body = Released),
    (status = 404, description = "Nobody has it", body = Problem),
    (status = "default", description = "What went wrong", body = Problem)))]
pub async fn release(
    State(api): State<Api>,
    peer: Option<Extension<Peer>>,
    address: Result<Path<String>, PathRejection>,
) -> Result<Json<Released>, Refusal> {
    let Path(address) = address?;
    let what = one_match(&address)?;
    let by = peer.map_or_else(String::new, |Extension(Peer(peer))| peer);
    let done = ask(api, move |api| {
        let subscriber = api.gate.release(what)?;
        let release = Adjustment {
            moves: vec![MatchChange::Release(what)],
            ..Adjustment::default()
        };
        api.events.set(&by, &subscriber, &release, &Taken::new());
        tracing::info!(subscriber, released = %what, by, "set");
        Ok(subscriber)
    });
    let subscriber = done.await?;
    Ok(Json(Released { subscriber }))
}

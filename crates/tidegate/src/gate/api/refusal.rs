//! Answers that refuse a request, in words that say what to do.

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tidegate_gate::control::ControlError;

use super::BODY;
use crate::gate::view::Problem;

/// An answer with an error.
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) reason: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, reason: String) -> Self {
        Self { status, reason }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let problem = Problem { error: self.reason };
        let mut response = (self.status, Json(problem)).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let bearer = header::HeaderValue::from_static("Bearer");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, bearer);
        }
        response
    }
}

impl From<ControlError> for Refusal {
    fn from(error: ControlError) -> Self {
        let status = match error {
            ControlError::Down(_) => StatusCode::SERVICE_UNAVAILABLE,
            ControlError::Unknown(_) => StatusCode::NOT_FOUND,
            ControlError::Invalid(_) => StatusCode::UNPROCESSABLE_ENTITY,
            // The daemon lacks the rights, not the client.
            ControlError::Rights(_) | ControlError::Other(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}

/// The innermost cause of an error: the libraries above it only repeat where it happened.
fn cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

impl From<JsonRejection> for Refusal {
    fn from(rejection: JsonRejection) -> Self {
        let cause = cause(&rejection);
        let text = match rejection {
            // Every JSON is a value, so the data cannot be wrong here.
            JsonRejection::JsonDataError(_) | JsonRejection::JsonSyntaxError(_) => {
                let place = cause.rfind(" at line ").map_or("", |at| &cause[at..]);
                format!(
                    "the body is not JSON{place}: check quotes, commas and brackets up to there"
                )
            }
            JsonRejection::MissingJsonContentType(_) => {
                "the body must be sent with the header `Content-Type: application/json`".into()
            }
            _ => format!("the body cannot be read: {cause}; at most {BODY} bytes are allowed"),
        };
        Self::new(rejection.status(), text)
    }
}

impl From<PathRejection> for Refusal {
    fn from(rejection: PathRejection) -> Self {
        let text = "the subscriber's name in the path is no text in UTF-8: write each byte that is \
                    not a letter or a digit as %XX";
        Self::new(rejection.status(), text.into())
    }
}

impl From<QueryRejection> for Refusal {
    fn from(rejection: QueryRejection) -> Self {
        let text = "the query cannot be read: write name=value, with & between parameters, and %XX for \
                    each byte that is not a letter or a digit";
        Self::new(rejection.status(), text.into())
    }
}

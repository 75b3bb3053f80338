//! Fields of forms and queries, read strictly: what cannot be decoded is refused instead of guessed.

use super::trouble::Trouble;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use http_body_util::BodyExt;
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::time::Duration;

/// The largest form, in bytes.
const FORM_BYTES: usize = 64 * 1024;

/// How much of a form that is too large is still read, in bytes: a browser that is cut off while sending shows
/// its own error instead of our answer.
const DRAINED_BYTES: usize = 32 * 1024 * 1024;

/// How long a form may take to arrive.
const PATIENCE: Duration = Duration::from_secs(20);

/// Names and values, each name once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    /// Reads `application/x-www-form-urlencoded` (WHATWG URL standard, 5.1), except that bytes which are not UTF-8 and
    /// names that come twice are refused.
    pub(super) fn parse(text: &str) -> Result<Self, Trouble> {
        let mut fields: Vec<(String, String)> = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decode(name)?, decode(value)?);
            if fields.iter().any(|(known, _)| *known == name) {
                return Err(Trouble::bad_request(format!("The field “{name}” was sent twice.")));
            }
            fields.push((name, value));
        }
        Ok(Self(fields))
    }

    /// A field; empty if it was not sent.
    pub(super) fn get(&self, name: &str) -> &str {
        self.optional(name).unwrap_or_default()
    }

    /// A field, if it was sent.
    pub(super) fn optional(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }
}

fn decode(text: &str) -> Result<String, Trouble> {
    let text = text.replace('+', " ");
    let decoded = percent_decode_str(&text).decode_utf8().map(Cow::into_owned);
    decoded.map_err(|_| Trouble::bad_request("What was sent is not text in UTF-8."))
}

/// The variable parts of an address. Those that cannot be read name nothing that exists.
pub(super) struct Address<T>(pub(super) T);

impl<T, S: Send + Sync> FromRequestParts<S> for Address<T>
where
    Path<T>: FromRequestParts<S, Rejection = PathRejection>,
{
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Trouble> {
        match Path::<T>::from_request_parts(parts, state).await {
            Ok(Path(address)) => Ok(Self(address)),
            Err(_) => {
                let detail = "There is nothing at this address; it is not even text in UTF-8.";
                Err(Trouble::new(StatusCode::NOT_FOUND, "No such page", detail))
            }
        }
    }
}

/// A form that was posted.
pub(super) struct Form(pub(super) Fields);

impl<S: Send + Sync> FromRequest<S> for Form {
    type Rejection = Trouble;

    async fn from_request(request: Request, _: &S) -> Result<Self, Trouble> {
        let kind = request.headers().get(CONTENT_TYPE).and_then(|kind: &HeaderValue| kind.to_str().ok());
        let (kind, parameters) =
            kind.unwrap_or_default().split_once(';').unwrap_or((kind.unwrap_or_default(), ""));
        let utf_8 = parameters.split(';').filter_map(|parameter| parameter.trim().split_once('=')).all(
            |(name, value)| {
                !name.eq_ignore_ascii_case("charset") || value.trim_matches('"').eq_ignore_ascii_case("utf-8")
            },
        );
        let plain = request.headers().get(CONTENT_ENCODING).is_none_or(|coding| coding == "identity");
        let form = kind.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded");
        let fits = form && utf_8 && plain;
        let body = tokio::time::timeout(PATIENCE, read(request.into_body())).await;
        let body = body.map_err(|_| {
            Trouble::new(
                StatusCode::REQUEST_TIMEOUT,
                "Too slow",
                "The form did not arrive in time. Send it again.",
            )
        })?;
        if !fits {
            let detail = "A booking is sent as application/x-www-form-urlencoded in UTF-8, not compressed, as the form does it.";
            return Err(Trouble::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Not a form", detail));
        }
        let body = String::from_utf8(body?);
        let body = body.map_err(|_| Trouble::bad_request("What was sent is not text in UTF-8."))?;
        Fields::parse(&body).map(Self)
    }
}

async fn read(mut body: Body) -> Result<Vec<u8>, Trouble> {
    let (mut bytes, mut seen) = (Vec::new(), 0_usize);
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|_| Trouble::bad_request("The form did not arrive whole. Send it again."))?;
        let Ok(data) = frame.into_data() else { continue };
        seen = seen.saturating_add(data.len());
        if seen <= FORM_BYTES {
            bytes.extend_from_slice(&data);
        } else {
            bytes = Vec::new();
        }
        if seen > DRAINED_BYTES {
            break;
        }
    }
    if seen > FORM_BYTES {
        let detail = format!("A form can have {} KiB at most.", FORM_BYTES / 1024);
        return Err(Trouble::new(StatusCode::PAYLOAD_TOO_LARGE, "Too much", detail));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_decoded_and_what_cannot_be_is_refused() {
        let fields = Fields::parse("name=Ada+%C3%89%26%3D&&empty=&bare&odd=100%").unwrap();
        assert_eq!(fields.get("name"), "Ada É&=");
        assert_eq!((fields.optional("empty"), fields.optional("bare")), (Some(""), Some("")));
        assert_eq!((fields.get("odd"), fields.optional("none")), ("100%", None));
        assert!(Fields::parse("a=%FF").is_err());
        assert!(Fields::parse("a=1&a=2").is_err());
    }
}

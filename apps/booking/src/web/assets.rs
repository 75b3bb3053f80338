//! The style sheet, the scripts and the icon, compiled in.

use super::fields::Address;
use super::trouble::Trouble;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

pub(super) async fn get(Address(name): Address<String>) -> Response {
    let (kind, content) = match &*name {
        "booking.css" => ("text/css; charset=utf-8", include_str!("../../assets/booking.css")),
        "calendar.js" => ("text/javascript; charset=utf-8", include_str!("../../assets/calendar.js")),
        "receipt.js" => ("text/javascript; charset=utf-8", include_str!("../../assets/receipt.js")),
        "icon.svg" => ("image/svg+xml", include_str!("../../assets/icon.svg")),
        _ => {
            let detail = "There is no such file.";
            return Trouble::new(StatusCode::NOT_FOUND, "No such file", detail).into_response();
        }
    };
    ([(CONTENT_TYPE, kind), (CACHE_CONTROL, "max-age=60")], content).into_response()
}

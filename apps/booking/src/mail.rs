//! Tells guests by mail what became of their bookings: one letter per event that concerns them.

use crate::capacity::{Capacity, CapacityEvent};
use crate::day::Day;
use crate::mailbox::Mailbox;
use highwater::{HandlerError, Processor, Recorded, Subscriber};
use lettre::message::header::ContentTransferEncoding;
use lettre::message::{Body, Mailbox as Correspondent, Message};
use std::time::{Duration, SystemTime};

/// Who signs the letters.
const SENDER: &str = "The Highwater Table <tables@booking.local>";

/// Writes a letter for every event that a guest must hear of. A letter is named by its event, so that handling
/// an event again changes nothing.
pub fn subscriber(mailbox: Mailbox) -> Processor {
    Subscriber::<Capacity>::named("mail").handler(move |event| {
        let mailbox = mailbox.clone();
        async move {
            let letter = match letter(&event) {
                Ok(letter) => letter,
                Err(fault) => {
                    // Waiting would not make it better, and others wait behind it.
                    tracing::warn!(event = %event.id, fault, "nobody can be written to about this event");
                    return Ok(());
                }
            };
            let Some(letter) = letter else { return Ok(()) };
            let (id, at) = (event.id, time(event.at));
            let written =
                tokio::task::spawn_blocking(move || mailbox.put(&id, at, &letter.formatted())).await;
            written.map_err(HandlerError::transient)?.map_err(HandlerError::transient)
        }
    })
}

fn time(at: highwater::Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(at.as_micros()).unwrap_or(0))
}

/// The letter about an event; `None` if it concerns no guest. Its bytes depend on the event alone.
///
/// # Errors
/// Why it cannot be addressed.
pub fn letter(event: &Recorded<CapacityEvent>) -> Result<Option<Message>, String> {
    let id = event.key().id.as_str();
    let day = Day::parse(id).map_or_else(|| id.to_owned(), Day::words);
    let (reservation, name, email, subject, news) = match &event.event {
        CapacityEvent::Reserved { reservation, name, email, quantity, .. } => {
            let news = format!(
                "your table for {} on {day} is booked. We look forward to seeing you.",
                people(*quantity)
            );
            (reservation, name, email, format!("Booked: your table on {day}"), news)
        }
        CapacityEvent::Declined { reservation, name, email, quantity, reason } => {
            let news =
                format!("we are sorry: we cannot seat {} on {day}. The reason: {reason}.", people(*quantity));
            (reservation, name, email, format!("Not booked: your table on {day}"), news)
        }
        CapacityEvent::Cancelled { reservation, name, email, quantity } => {
            let news = format!("your table for {} on {day} is cancelled, as you asked.", people(*quantity));
            (reservation, name, email, format!("Cancelled: your table on {day}"), news)
        }
        CapacityEvent::SoldOut | CapacityEvent::Reopened => return Ok(None),
    };
    let address = email.parse().map_err(|error| format!("the address cannot be used: {error}"))?;
    // As readable in the file as in a mail program: names are checked, so no line breaks come with them, and the
    // longest line is far below the 998 bytes that mail allows (RFC 5322, 2.1.1).
    let text =
        format!("Dear {name},\r\n\r\n{news}\r\n\r\nReservation {reservation}\r\n\r\nThe Highwater Table\r\n");
    let body = Body::dangerous_pre_encoded(text.into_bytes(), ContentTransferEncoding::EightBit);
    let message = Message::builder()
        .from(SENDER.parse::<Correspondent>().map_err(|error| error.to_string())?)
        .to(Correspondent::new(Some(name.clone()), address))
        .subject(subject)
        .date(time(event.at))
        .message_id(Some(format!("<{}@booking.local>", Mailbox::stem(&event.id))))
        .header(lettre::message::header::ContentType::TEXT_PLAIN)
        .body(body);
    message.map(Some).map_err(|error| format!("the letter cannot be put together: {error}"))
}

fn people(quantity: u32) -> String {
    if quantity == 1 { "1 person".into() } else { format!("{quantity} people") }
}

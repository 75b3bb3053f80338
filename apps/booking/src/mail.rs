//! Tells guests by mail what became of their bookings: one letter per event that concerns them.

use crate::Settings;
use crate::capacity::{Capacity, CapacityEvent};
use crate::day::Day;
use crate::mailbox::Mailbox;
use highwater::{HandlerError, Processor, Recorded, Subscriber};
use lettre::message::header::ContentTransferEncoding;
use lettre::message::{Body, Mailbox as Correspondent, Message};
use std::time::{Duration, SystemTime};

/// Who signs the letters unless somebody else does.
pub const SENDER: &str = "The Highwater Table <tables@booking.local>";

/// How often a sender looks for letters that the owner wants to be sent again.
const AGAIN: Duration = Duration::from_secs(2);

/// Writes a letter for every event that a guest must hear of, and sends it if there is a mail server. A letter is named by
/// its event, so that handling an event again changes nothing.
pub fn subscriber(settings: &Settings) -> Processor {
    let settings = settings.clone();
    Subscriber::<Capacity>::named("mail").handler(move |event| {
        let settings = settings.clone();
        async move {
            let letter = match letter(&event, &settings) {
                Ok(letter) => letter,
                Err(fault) => {
                    // Waiting would not make it better, and others wait behind it.
                    tracing::warn!(event = %event.id, fault, "nobody can be written to about this event");
                    return Ok(());
                }
            };
            let Some(letter) = letter else { return Ok(()) };
            let (id, at, mailbox) = (event.id, time(event.at), settings.mailbox);
            if let Some(smtp) = &settings.smtp {
                return smtp.deliver(&mailbox, &id, at, &letter).await;
            }
            let written =
                tokio::task::spawn_blocking(move || mailbox.put(&id, at, &letter.formatted())).await;
            written.map_err(HandlerError::transient)?.map_err(HandlerError::transient)
        }
    })
}

/// Sends the letters that the owner wants to be sent again, for as long as it is awaited.
pub async fn send_again(settings: Settings) {
    let Some(smtp) = &settings.smtp else { return std::future::pending().await };
    loop {
        let asked = settings.mailbox.asked_again().unwrap_or_else(|error| {
            tracing::warn!(%error, "the mail folder cannot be read");
            Vec::new()
        });
        for stem in asked {
            if let Err(error) = smtp.send_again(&settings.mailbox, &stem).await {
                tracing::warn!(letter = stem, %error, "a letter cannot be sent again");
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

fn time(at: highwater::Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(at.as_micros()).unwrap_or(0))
}

/// The letter about an event; `None` if it concerns no guest. Its bytes depend on the event and the settings
/// alone.
///
/// # Errors
/// Why it cannot be addressed.
pub fn letter(event: &Recorded<CapacityEvent>, settings: &Settings) -> Result<Option<Message>, String> {
    let id = event.key().id.as_str();
    let day = Day::parse(id).map_or_else(|| id.to_owned(), Day::words);
    let (reservation, name, email, subject, news) = match &event.event {
        CapacityEvent::Reserved { reservation, name, email, quantity, .. } => {
            let link = settings.links.cancel(*reservation);
            let news = format!(
                "your table for {} on {day} is booked. We look forward to seeing you.\r\n\r\n\
                 If you cannot come, please give the table back here:\r\n{link}",
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
        _ => return Ok(None),
    };
    let address = email.parse().map_err(|error| format!("the address cannot be used: {error}"))?;
    // As readable in the file as in a mail program: names are checked, so no line breaks come with them, and the
    // longest line is far below the 998 bytes that mail allows (RFC 5322, 2.1.1).
    let text =
        format!("Dear {name},\r\n\r\n{news}\r\n\r\nReservation {reservation}\r\n\r\nThe Highwater Table\r\n");
    let body = Body::dangerous_pre_encoded(text.into_bytes(), ContentTransferEncoding::EightBit);
    let message = Message::builder()
        .from(settings.sender.clone())
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

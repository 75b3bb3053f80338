//! The events of one change as one blob, read back by slicing: nothing is parsed, nothing is copied.
//!
//! A format byte (1), the number of events (u16), then per event the length of its name (u16), its schema (u32),
//! the length of its data (u32), its name, its data. Numbers are little-endian.

use bytes::{Buf, Bytes};
use highwater_core::{Event, Json};
use std::sync::Arc;

const FORMAT: u8 = 1;

/// The blob for some events; `None` for none. `None` inside when a name or the number of events has no room.
pub(crate) fn encode(events: &[Event]) -> Option<Vec<u8>> {
    let size: usize = events.iter().map(|event| 10 + event.name.len() + event.data.as_bytes().len()).sum();
    let mut frame = Vec::with_capacity(3 + size);
    frame.push(FORMAT);
    frame.extend(u16::try_from(events.len()).ok()?.to_le_bytes());
    for event in events {
        frame.extend(u16::try_from(event.name.len()).ok()?.to_le_bytes());
        frame.extend(event.schema.to_le_bytes());
        frame.extend(u32::try_from(event.data.as_bytes().len()).ok()?.to_le_bytes());
        frame.extend(event.name.as_bytes());
        frame.extend(event.data.as_bytes());
    }
    Some(frame)
}

/// The events of a blob, sharing its memory; `None` when it is not one. `name` turns a name into a shared one.
pub(crate) fn decode(mut frame: Bytes, mut name: impl FnMut(&str) -> Arc<str>) -> Option<Vec<Event>> {
    if frame.try_get_u8().ok()? != FORMAT {
        return None;
    }
    let count = frame.try_get_u16_le().ok()?;
    let mut events = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        let name_length = usize::from(frame.try_get_u16_le().ok()?);
        let schema = frame.try_get_u32_le().ok()?;
        let data_length = usize::try_from(frame.try_get_u32_le().ok()?).ok()?;
        if frame.len() < name_length.checked_add(data_length)? {
            return None;
        }
        let text = frame.split_to(name_length);
        let data = Json::from_stored(frame.split_to(data_length));
        events.push(Event::new(name(std::str::from_utf8(&text).ok()?), schema, data));
    }
    frame.is_empty().then_some(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_survive_the_frame_and_a_broken_frame_is_refused() {
        let event =
            |name: &str, schema, data: &'static str| Event::new(name, schema, Json::parse(data).unwrap());
        let events = vec![event("Reserved", 1, r#"{"seats":2}"#), event("", 7, "null"), event("Ü", 2, "[]")];
        let frame = Bytes::from(encode(&events).unwrap());
        assert_eq!(decode(frame.clone(), |name| name.into()), Some(events));
        for end in 0..frame.len() {
            assert_eq!(decode(frame.slice(..end), |name| name.into()), None, "cut at {end}");
        }
    }
}

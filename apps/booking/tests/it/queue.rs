//! What comes through the queue without being a booking.

use crate::site::{DAY, Site, reserve};
use booking::Capacity;
use highwater::{CommandId, Name};
use highwater_core::{MessageId, NewMessage};
use serde_json::json;

#[tokio::test]
async fn what_cannot_be_read_is_parked_with_its_reason_while_others_go_on() {
    let site = Site::new().await;
    let queue = Name::new("commands").unwrap();
    let envelope = |kind: &str, container: &str, schema: u32| {
        let id = CommandId::random();
        json!({
            "specversion": "1.0", "id": id, "source": "/test", "type": kind, "subject": DAY,
            "container": container, "partitionkey": DAY, "schemaversion": schema, "data": { "quantity": 1 },
        })
        .to_string()
        .into_bytes()
    };
    let strange = [
        (b"\xff\x00 not JSON".to_vec(), "cannot be decoded"),
        (b"{}".to_vec(), "cannot be decoded"),
        (envelope("Explode", "capacity", 1), "`Explode` is not one of Reserve, Cancel"),
        (envelope("Reserve", "capacity", 1), "the data of `Reserve` does not fit"),
    ];
    let first = site.book(DAY, 1).await;
    for (body, _) in &strange {
        site.engine.backend().queue.put(&queue, NewMessage::new(body.clone())).await.unwrap();
    }
    let last = site.book(DAY, 1).await;
    let settled = site.engine.settle().await.unwrap();
    assert_eq!(settled.decided(), ["Reserve", "Reserve"]);
    let parked = site.engine.backend().queue.parked(&queue, None, 32).await.unwrap();
    assert_eq!(parked.len(), strange.len());
    for (body, why) in &strange {
        let one = parked.iter().find(|parked| parked.message.body == *body).unwrap();
        assert!(one.parking.reason.contains(why), "{why}: {:?}", one.parking);
    }
    for id in [first, last] {
        assert_eq!(site.status(id).await.0, "accepted");
    }
    let status = site.engine.status().await.unwrap();
    assert_eq!((status.worker.parked, status.worker.visible), (4, 0));
}

#[tokio::test]
async fn a_parked_command_shows_on_its_receipt() {
    let site = Site::new().await;
    let queue = Name::new("commands").unwrap();
    let id = CommandId::random();
    // The message of this id is there already when the command is sent, and it is damaged.
    let damaged = NewMessage::new(&b"<b>damaged</b>"[..]).id(MessageId(id.0));
    site.engine.backend().queue.put(&queue, damaged).await.unwrap();
    site.engine.send::<Capacity>(DAY, reserve(1)).id(id).await.unwrap();
    site.engine.settle().await.unwrap();
    assert_eq!(site.status(id).await, ("parked".into(), None));
    let page = site.get(&format!("/booking/receipts/{id}")).await.body;
    assert!(
        page.contains("is looking at it") && page.contains(&format!("<p class=\"reference\">{id}")),
        "{page}"
    );
    assert!(!page.contains("decoded") && page.contains(r#"data-until="answer""#), "{page}");
    let owner = crate::owner::Owner::log_in(&site).await;
    let page = owner.get("/booking/owner/").await.body;
    assert!(page.contains(&id.to_string()) && page.contains("cannot be decoded"), "{page}");
    assert!(!page.contains("<b>damaged"), "{page}");
    site.engine.backend().queue.discard(&queue, MessageId(id.0)).await.unwrap();
    assert_eq!(site.status(id).await, ("discarded".into(), None));
    let page = site.get(&format!("/booking/receipts/{id}")).await.body;
    assert!(page.contains("put your booking aside") && !page.contains("data-poll"), "{page}");
}

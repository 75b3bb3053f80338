use highwater::{HandlerError, Processor, Subscriber};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

fn slips(printer: UnboundedSender<String>) -> Processor {
    Subscriber::<Book>::named("slips").handler(move |event| {
        let printer = printer.clone();
        async move {
            if let Event::Lent { to, until } = &event.event {
                let title = &event.key().id;
                printer.send(format!("{to}: bring {title} back by {until} [{}]", event.id))?;
            }
            Ok::<(), HandlerError>(())
        }
    })
}

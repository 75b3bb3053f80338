//! The handler holds something that must not move to another thread.
use highwater::{HandlerError, Processor};
use std::rc::Rc;

fn main() {
    let _ = Processor::named("audit").handler(async |_, changes| {
        let count = Rc::new(changes.len());
        tokio::task::yield_now().await;
        println!("{count}");
        Ok::<(), HandlerError>(())
    });
}

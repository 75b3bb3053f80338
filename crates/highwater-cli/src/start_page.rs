//! The page at `/`: what runs here and how it is doing, and the same for programs at `/status.json`.

use axum::Json;
use axum::response::Html;
use booking::web::{Page, Problem, Trouble, page};
use highwater::{Engine, Failure, PartitionStatus, ProcessorStatus, Status, Timestamp, WorkerStatus};
use maud::{Markup, html};
use std::collections::BTreeMap;
use std::time::Duration;

/// `GET /status.json`.
pub(crate) async fn status(engine: &Engine) -> Result<Json<Status>, Problem> {
    engine.status().await.map(Json).map_err(|error| Problem(Trouble::store_failing(&error)))
}

/// `GET /`.
pub(crate) async fn show(engine: &Engine) -> Result<Html<String>, Trouble> {
    let status = engine.status().await.map_err(|error| Trouble::store_failing(&error))?;
    let body = html! {
        h1 { "Highwater" }
        p { "Everything below runs on one embedded store." }
        ul class="cards" {
            li {
                h2 { a href="/booking/" { "Book a table" } }
                p { "A restaurant's calendar: ask for a table, watch the answer arrive, sell a day out." }
            }
            li {
                h2 { a href="/booking/mails" { "Mail" } }
                p { "The letters that guests were sent." }
            }
            li {
                h2 { a href="/booking/owner/" { "Owner" } }
                p { "Who comes on a day, and how many may. The password was told when this program started." }
            }
            li {
                h2 { a href="/status.json" { "Status" } }
                p { "The state below as JSON; the counters for Prometheus are at " a href="/metrics" { "/metrics" } "." }
            }
        }
        h2 { "How it is doing" }
        dl {
            div { dt { "Commands" } dd { (commands(&status.worker, engine.now())) } }
            @for processor in &status.processors {
                div { dt { (title(&processor.name)) } dd { (following(processor)) } }
            }
            div { dt { "This process" } dd { (status.instance) } }
        }
        p class="hint" {
            "In brackets stands the name in metrics and logs. The number in it counts the builds of a view: month.1 is the \
             first one of the view “month”."
        }
    };
    Ok(page(Page { title: "Highwater", ..Page::default() }, &body))
}

fn commands(worker: &WorkerStatus, now: Timestamp) -> Markup {
    let WorkerStatus { visible, in_flight, delayed, parked, .. } = worker;
    let longest = worker.oldest_waiting.map(|since| now.since(since));
    html! {
        @if !worker.running { "Not decided by this process. " }
        @match (visible + in_flight + delayed, longest) {
            (0, _) => { "None are waiting." }
            (_, Some(longest)) => {
                (visible) " waiting, the first for " (words(longest)) "; " (in_flight) " being decided; " (delayed)
                " put off."
            }
            _ => { (in_flight) " being decided; " (delayed) " put off." }
        }
        " " (worker.decided) " decided since this process started"
        @if worker.failed > 0 { ", " (worker.failed) " attempts failed" }
        "."
        @if *parked > 0 {
            " " strong { (parked) " set aside" } " because they could not be decided: somebody has to look at them."
        }
    }
}

/// What a processor of the booking site is for, and its name as metrics and logs have it.
fn title(name: &str) -> Markup {
    // A view's name carries its generation.
    let words = match name.split('.').next().unwrap_or_default() {
        "month" => "Calendar",
        "receipts" => "Receipts",
        "sheets" => "Day sheets",
        "mail" => "Letters",
        _ => return html! { (name) },
    };
    html! { (words) " (" (name) ")" }
}

fn following(processor: &ProcessorStatus) -> Markup {
    let partitions = &processor.partitions;
    let (mine, others): (Vec<_>, Vec<_>) =
        partitions.iter().partition(|partition| partition.position.is_some());
    let behind: u64 = mine.iter().filter_map(|partition| partition.behind).sum();
    let handled: u64 = mine.iter().filter_map(|partition| partition.position).sum();
    let orphans = others.iter().filter(|partition| partition.owner.is_none()).count();
    let failing = failures(partitions);
    html! {
        @if partitions.is_empty() {
            "Not run by this process."
        } @else if mine.is_empty() && failing.is_empty() && orphans == 0 {
            "Standing by: another process has it."
        } @else if !mine.is_empty() {
            @if !failing.is_empty() { "Failing" }
            @else if behind == 0 { "Up to date" }
            @else { "Catching up" }
            @if behind > 0 { ", " (behind) " changes behind" }
            ": " (handled) " changes read in " (mine.len()) " of " (partitions.len()) " partitions."
            @if others.len() > orphans { " Another process has " (others.len() - orphans) " of them." }
        }
        @if orphans > 0 { " Nobody works on " (orphans) " of " (partitions.len()) " partitions." }
        @for (error, rows) in &failing { (notice(error, rows)) }
    }
}

type Failing<'a> = BTreeMap<&'a str, Vec<(&'a PartitionStatus, &'a Failure)>>;

/// What keeps partitions from moving: what all of them suffer from is said once.
fn failures(partitions: &[PartitionStatus]) -> Failing<'_> {
    let mut failing = Failing::new();
    for row in partitions {
        if let Some(failure) = &row.failure {
            failing.entry(&failure.error).or_default().push((row, failure));
        }
    }
    failing
}

fn notice(error: &str, rows: &[(&PartitionStatus, &Failure)]) -> Markup {
    let numbers: Vec<String> = rows.iter().map(|(row, _)| row.partition.to_string()).collect();
    let attempts = rows.iter().map(|(_, failure)| failure.attempt).max();
    let last = rows.iter().map(|(_, failure)| failure).max_by_key(|failure| failure.at);
    html! {
        p class="notice" {
            "Failing: " (error) ". "
            @if let [number] = &numbers[..] { "Partition " (number) } @else { "Partitions " (numbers.join(", ")) }
            @if let (Some(attempts), Some(last)) = (attempts, last) {
                ", tried " (attempts) " times in a row, last at " (last.at)
                @if let (Some(position), 1) = (last.position, rows.len()) { ", at position " (position) }
            }
            "."
        }
    }
}

fn words(span: Duration) -> String {
    match span.as_secs() {
        0 => "less than a second".into(),
        seconds @ 1..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use booking::{Capacity, CapacityCommand, CapacityEvent, Restaurant};
    use highwater::{Engine, EngineBuilder, Folded, Follow, ManualClock, Recorded, Role, Sources, View};

    struct Breaks;

    impl View for Breaks {
        const NAME: &'static str = "breaks";
        type Document = ();

        fn sources(sources: Sources<Self>) -> Sources<Self> {
            sources.follow::<Capacity>()
        }
    }

    impl Follow<Capacity> for Breaks {
        fn keys(&self, _: &Recorded<CapacityEvent>) -> Vec<String> {
            vec!["\u{1}".repeat(600)]
        }

        fn fold(&self, _: &str, (): (), _: &Recorded<CapacityEvent>) -> Folded<()> {
            Folded::Put(())
        }
    }

    fn set_up(builder: EngineBuilder) -> EngineBuilder {
        builder.aggregate::<Capacity>(Restaurant::new("UTC", 10).unwrap()).view(Breaks)
    }

    async fn said(engine: &Engine) -> String {
        let status = engine.status().await.unwrap();
        following(&status.processors[0]).into_string()
    }

    #[tokio::test]
    async fn what_all_partitions_suffer_from_is_said_once_and_is_not_up_to_date() {
        let engine = set_up(Engine::in_memory()).start().await.unwrap();
        engine.settle().await.unwrap();
        assert!(said(&engine).await.starts_with("Up to date: 0 changes read in 16 of 16 partitions."));
        for day in 1..=20 {
            let command =
                CapacityCommand::Reserve { name: "Ada".into(), email: "ada@example.org".into(), quantity: 1 };
            engine.execute::<Capacity>(format!("2026-12-{day:02}"), command).await.unwrap();
        }
        engine.settle().await.unwrap();
        let said = said(&engine).await;
        assert!(said.starts_with("Failing, 40 changes behind: 0 changes read in 16 of 16"), "{said}");
        assert_eq!(said.matches("class=\"notice\"").count(), 1, "{said}");
        assert!(said.contains("Failing: ") && said.contains("Partitions 0, "), "{said}");
        assert!(!said.contains("Up to date"), "{said}");
    }

    #[tokio::test]
    async fn a_process_that_stands_by_or_does_not_take_part_says_so() {
        let owner = set_up(Engine::in_memory()).start().await.unwrap();
        owner.settle().await.unwrap();
        let beside = async |role| {
            let (backend, clock): (_, &ManualClock) = (owner.backend().clone(), owner.clock().unwrap());
            let engine = set_up(Engine::driven_on(backend, clock.clone())).role(role).start().await.unwrap();
            engine.settle().await.unwrap();
            said(&engine).await
        };
        assert_eq!(beside(Role::All).await, "Standing by: another process has it.");
        assert_eq!(beside(Role::Web).await, "Not run by this process.");
    }
}

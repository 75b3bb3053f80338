//! The page at `/`: what runs here and how it is doing, and the same for programs at `/status.json`.

use axum::Json;
use axum::response::Html;
use booking::web::{Page, Problem, Trouble, page};
use highwater::{Engine, PartitionStatus, ProcessorStatus, Status, Timestamp, WorkerStatus};
use maud::{Markup, html};
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
                h2 { a href="/status.json" { "Status" } }
                p { "The state below as JSON; the counters for Prometheus are at " a href="/metrics" { "/metrics" } "." }
            }
        }
        h2 { "How it is doing" }
        dl {
            div { dt { "Commands" } dd { (commands(&status.worker, engine.now())) } }
            @for processor in &status.processors {
                div { dt { (processor.name) } dd { (following(processor)) } }
            }
            div { dt { "This process" } dd { (status.instance) } }
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

fn following(processor: &ProcessorStatus) -> Markup {
    let partitions = &processor.partitions;
    let (mine, others): (Vec<_>, Vec<_>) =
        partitions.iter().partition(|partition| partition.position.is_some());
    let behind: u64 = mine.iter().filter_map(|partition| partition.behind).sum();
    let handled: u64 = mine.iter().filter_map(|partition| partition.position).sum();
    let orphans = others.iter().filter(|partition| partition.owner.is_none()).count();
    html! {
        @if partitions.is_empty() {
            "Not run by this process."
        } @else {
            @if behind == 0 { "Up to date" } @else { (behind) " changes behind" }
            ", " (handled) " changes read in " (mine.len()) " of " (partitions.len()) " partitions."
            @if orphans > 0 { " Nobody works on " (orphans) " of the others." }
        }
        @for PartitionStatus { partition, failure, .. } in partitions {
            @if let Some(failure) = failure {
                p class="notice" {
                    "Partition " (partition) " has failed " (failure.attempt) " times in a row, last at " (failure.at)
                    @if let Some(position) = failure.position { ", at position " (position) }
                    ": " (failure.error)
                }
            }
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

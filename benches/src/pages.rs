//! The booking site's sold-out days over HTTP, beside the same bytes from a constant in the same server.

use crate::{Outcome, median};
use booking::{Capacity, CapacityCommand, Links, Mailbox, Restaurant, Settings};
use highwater::Engine;
use highwater_axum::SigningKeys;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// How many connections ask, each as soon as it has its answer.
const CONNECTIONS: usize = 32;

/// The month that is asked for.
const MONTH: &str = "2099-12";

pub(crate) fn run(folder: &Path, seconds: u64, rounds: usize) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(compare(folder, Duration::from_secs(seconds), rounds))
}

async fn compare(folder: &Path, span: Duration, rounds: usize) -> Outcome {
    let settings = Settings {
        restaurant: Restaurant::new("Europe/Zurich", 2)?,
        mailbox: Mailbox::in_folder(folder.join("mails")),
        links: Links::new(SigningKeys::generate()?, "http://tables.example.org"),
        smtp: None,
        sender: booking::mail::SENDER.parse()?,
        owner: None,
    };
    let builder = Engine::open(format!("sqlite:{}", folder.join("pages.db").display()));
    let engine = booking::install(builder, &settings).start().await?;
    for day in [5, 24, 25, 31] {
        let command = CapacityCommand::Close { reason: String::new() };
        let _ = engine.execute::<Capacity>(format!("{MONTH}-{day:02}"), command).await?;
    }
    let router = booking::routes(engine.clone(), settings);
    let (year, month) = MONTH.split_once('-').unwrap_or_default();
    let view = format!("/booking/disabled-days?year={year}&month={month}");
    let address = serve(router.clone()).await?;
    let mut stream = TcpStream::connect(address).await?;
    let body = ask(&mut stream, request(&view).as_bytes(), &mut Vec::new()).await?;
    let constant = axum::Router::new()
        .route(
            "/constant",
            axum::routing::get(move || {
                std::future::ready(([("content-type", "application/json")], body.clone()))
            }),
        )
        .merge(router);
    let address = serve(constant).await?;
    println!(
        "{:>14} {:>14} {:>12}   GET over {CONNECTIONS} connections, client on the same cores",
        "disabled-days/s", "constant/s", "of constant"
    );
    let (mut views, mut constants) = (vec![], vec![]);
    for _ in 0..rounds {
        views.push(rate(address, &view, span).await?);
        constants.push(rate(address, "/constant", span).await?);
    }
    let (view, constant) = (median(views), median(constants));
    println!("{view:>14.0} {constant:>14.0} {:>11.0}%", 100.0 * view / constant);
    println!();
    engine.stop().await;
    Ok(())
}

async fn serve(router: axum::Router) -> Outcome<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(address)
}

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// Requests per second.
async fn rate(address: SocketAddr, path: &str, span: Duration) -> Outcome<f64> {
    let (request, started) = (request(path), Instant::now());
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..CONNECTIONS {
        let request = request.clone();
        tasks.spawn(async move {
            let mut stream = TcpStream::connect(address).await?;
            let (mut done, mut memory) = (0_u64, Vec::new());
            while started.elapsed() < span {
                ask(&mut stream, request.as_bytes(), &mut memory).await?;
                done += 1;
            }
            Outcome::Ok(done)
        });
    }
    let mut done = 0;
    while let Some(result) = tasks.join_next().await {
        done += result??;
    }
    Ok(done as f64 / started.elapsed().as_secs_f64())
}

/// Sends a request and reads the whole answer; returns its body.
async fn ask(stream: &mut TcpStream, request: &[u8], memory: &mut Vec<u8>) -> Outcome<String> {
    stream.write_all(request).await?;
    memory.clear();
    loop {
        if stream.read_buf(memory).await? == 0 {
            return Err("the server hung up".into());
        }
        let Some(end) = memory.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = std::str::from_utf8(memory.get(..end).unwrap_or_default())?;
        if !head.starts_with("HTTP/1.1 200") {
            return Err(format!("an answer that is not 200: {head}").into());
        }
        let length = head
            .lines()
            .find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length:").map(|n| n.trim().to_owned())
            })
            .ok_or("an answer without length")?
            .parse::<usize>()?;
        if let Some(body) = memory.get(end + 4..end + 4 + length) {
            return Ok(String::from_utf8_lossy(body).into_owned());
        }
    }
}

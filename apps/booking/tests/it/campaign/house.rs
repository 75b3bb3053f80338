//! A restaurant under fire: its processes, its guests, and what they were told.

use super::plan::{Deed, Harm, Plan, STAFF, When};
use super::witness::{Witness, has_come_to, look_at};
use crate::crashes::Wish;
use crate::evidence::{Asked, Evidence};
use crate::processes::{Answer, Process, get, post};
use booking::month::SoldOutDays;
use booking::receipt::{Booking, cancellation};
use booking::{Capacity, CapacityCommand, Mailbox, Restaurant, install};
use highwater::{CommandId, Engine, Role, Token, Verdict};
use highwater_core::{Name, NewMessage};
use rusqlite::{Connection, OptionalExtension};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The work of the dead, and of those who pause, is taken over after so many seconds: the least there is.
const TAKEOVER: &str = "1";

/// The pause between two looks.
const LOOK: Duration = Duration::from_millis(15);

/// How long a paused process may keep others from its work before it goes on.
const LONGEST_PAUSE: Duration = Duration::from_millis(2_500);

/// The same for one that may hold the lock on a file, so that nobody can take anything over.
const LOCKED_PAUSE: Duration = Duration::from_millis(250);

/// How long one falters: shorter than its messages are invisible to others.
const FALTERING: Duration = Duration::from_millis(500);

/// What guests know.
#[derive(Default)]
struct Book {
    wishes: Vec<Wish>,
    asked: BTreeMap<CommandId, Asked>,
    seen: BTreeMap<CommandId, Verdict>,
    faults: Vec<String>,
}

pub(super) struct House {
    folder: tempfile::TempDir,
    staff: Mutex<Vec<Option<Process>>>,
    address: Mutex<String>,
    book: Mutex<Book>,
    witness: Option<Witness>,
    engine: Engine,
    runtime: tokio::runtime::Runtime,
    store: Mutex<Connection>,
    views: Mutex<Connection>,
    sabotage: Option<&'static str>,
    patience: Duration,
    /// The places where somebody was struck.
    pub(super) reached: BTreeSet<&'static str>,
}

impl House {
    /// A house with its whole staff, which may have been told to break an invariant. What is not in order after
    /// `patience` counts as broken.
    pub(super) fn open(sabotage: Option<&'static str>, patience: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let web = start(&data, 0, None, sabotage);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let engine = runtime.block_on(observer(&data));
        let witness = Some(Witness::begin(&data, &engine, runtime.handle()));
        let mut house = Self {
            address: Mutex::new(web.address().to_owned()),
            staff: Mutex::new(vec![Some(web), None, None, None, None]),
            book: Mutex::default(),
            store: Mutex::new(look_at(&data.join("booking.db"))),
            views: Mutex::new(look_at(&data.join("booking.views.db"))),
            folder,
            witness,
            engine,
            runtime,
            sabotage,
            patience,
            reached: BTreeSet::new(),
        };
        for index in 1..STAFF.len() {
            house.hire(index, None);
        }
        house
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn place(&mut self, index: usize) -> &mut Option<Process> {
        &mut self.staff.get_mut().unwrap()[index]
    }

    /// Starts a process; with a crash point for one that is to come there.
    fn hire(&mut self, index: usize, crash_point: Option<&str>) {
        let process = start(&self.data(), index, crash_point, self.sabotage);
        if index == 0 && !process.line.is_empty() {
            *self.address.lock().unwrap() = process.address().to_owned();
        }
        *self.place(index) = Some(process);
    }

    /// Replaces the victim by one that will come to the place. Partitions are held until somebody dies, so both
    /// projectors leave, and the victim comes first.
    fn prepare(&mut self, victim: usize, place: &str, times: u32, harm: Harm) {
        let pause = if harm == Harm::Dies { "" } else { ":pause" };
        let point = format!("{place}:{times}{pause}");
        if STAFF[victim] == "projector" {
            for index in [3, 4] {
                self.place(index).take().unwrap().stop();
            }
            self.hire(victim, Some(&point));
            // Nobody can start while the victim stands at a commit: it holds a lock. Then its colleague comes later.
            if !place.starts_with("sqlite") {
                self.hire(7 - victim, None);
            }
        } else {
            self.place(victim).take().unwrap().kill();
            self.hire(victim, Some(&point));
        }
    }

    /// Plays one round. Returns what is broken afterwards.
    pub(super) fn play(&mut self, plan: &Plan) -> Vec<String> {
        if let When::At(place, times) = plan.when {
            self.prepare(plan.victim, place, times, plan.harm);
        }
        let mut victim = self.place(plan.victim).take().unwrap();
        let (house, over) = (&*self, AtomicBool::new(false));
        let (reached, dead) = std::thread::scope(|scope| {
            scope.spawn(|| {
                house.guests(&plan.deeds);
                over.store(true, Relaxed);
            });
            let reached = wait_for(&mut victim, plan.when, &over);
            if plan.harm != Harm::Dies {
                house.pause(&victim, plan, reached, &over);
                // One that was struck before it could say where it listens is of no use to guests.
                if plan.victim != 0 || !victim.line.is_empty() {
                    return (reached, Some(victim));
                }
            }
            victim.kill();
            // Guests wait for the site, so it is there again before they leave.
            let heir = (plan.victim == 0).then(|| start(&house.data(), 0, None, house.sabotage));
            if let Some(heir) = &heir {
                *house.address.lock().unwrap() = heir.address().to_owned();
            }
            (reached, heir)
        });
        match dead {
            Some(process) => *self.place(plan.victim) = Some(process),
            None => self.hire(plan.victim, None),
        }
        for index in 0..STAFF.len() {
            if self.place(index).is_none() {
                self.hire(index, None);
            }
        }
        if let (true, When::At(place, _)) = (reached, plan.when) {
            self.reached.insert(place);
        }
        self.come_to_rest()
    }

    /// Stops the victim and lets it go on when others have done its work.
    fn pause(&self, victim: &Process, plan: &Plan, reached: bool, over: &AtomicBool) {
        if !reached {
            victim.signal("STOP");
        }
        let locked = matches!(plan.when, When::At(place, _) if place.starts_with("sqlite"));
        let limit = if locked { LOCKED_PAUSE } else { LONGEST_PAUSE };
        let (began, epochs) = (Instant::now(), self.owner_epochs());
        while began.elapsed() < limit {
            let moved = match STAFF[plan.victim] {
                _ if plan.harm == Harm::Falters => began.elapsed() > FALTERING,
                "web" => began.elapsed() > LOCKED_PAUSE / 2,
                "worker" => over.load(Relaxed) && self.waiting() == 0,
                _ => self.owner_epochs() > epochs,
            };
            if moved {
                // An heir gets some time to go ahead of the one that comes back.
                if plan.harm == Harm::Pauses {
                    std::thread::sleep(LOCKED_PAUSE);
                }
                break;
            }
            std::thread::sleep(LOOK);
        }
        victim.signal("CONT");
    }

    fn number(&self, sql: &str) -> i64 {
        let store = self.store.lock().unwrap();
        store.prepare_cached(sql).unwrap().query_row([], |row| row.get(0)).unwrap()
    }

    fn waiting(&self) -> i64 {
        self.number("SELECT count(*) FROM message")
    }

    /// Rises whenever a lease moves.
    fn owner_epochs(&self) -> i64 {
        self.number("SELECT coalesce(sum(json_extract(CAST(value AS TEXT), '$.owner_epoch')), 0) FROM cell WHERE space = 'leases'")
    }

    /// Does what guests do, one deed after the other, as often as it takes until the site has answered.
    fn guests(&self, deeds: &[Deed]) {
        for deed in deeds {
            let last = self.book.lock().unwrap().wishes.last().cloned();
            match (deed, last) {
                (Deed::Book { day, quantity }, _) => {
                    let wish = Wish::new(day, *quantity);
                    self.ask(&wish);
                    self.book.lock().unwrap().wishes.push(wish.clone());
                    self.look(wish.id);
                }
                (Deed::SendAgain, Some(_)) => {
                    let earlier = {
                        let wishes = &self.book.lock().unwrap().wishes;
                        wishes[wishes.len() / 2].clone()
                    };
                    self.ask(&earlier);
                }
                (Deed::ReuseNumber, Some(wish)) => self.reuse(&wish),
                (Deed::Deliver { after }, Some(wish)) => self.deliver(wish.id, *after),
                (Deed::Cancel, _) => self.cancel(),
                (_, None) => {}
            }
        }
        self.read_own_write();
    }

    /// Posts until the site answers with something that is no failure of its own.
    fn posted(&self, body: &str) -> Option<Answer> {
        let began = Instant::now();
        while began.elapsed() < self.patience {
            let address = self.address.lock().unwrap().clone();
            match post(&address, "/booking/", body) {
                Ok(answer) if answer.status < 500 => return Some(answer),
                _ => std::thread::sleep(LOOK),
            }
        }
        None
    }

    fn fault(&self, fault: String) {
        self.book.lock().unwrap().faults.push(fault);
    }

    fn ask(&self, wish: &Wish) {
        match self.posted(&wish.form(wish.quantity)) {
            Some(answer) if answer.status == 303 => {
                let asked = Asked::Reserve { day: wish.day.clone(), quantity: wish.quantity };
                self.book.lock().unwrap().asked.insert(wish.id, asked);
            }
            other => self.fault(format!("5, what is asked is taken: {} got {other:?}", wish.id)),
        }
    }

    fn reuse(&self, wish: &Wish) {
        let known = "SELECT count(*) FROM cell WHERE space = 'commands' AND key = '";
        if self.number(&format!("{known}{}'", wish.id)) == 0 {
            return self.fault(format!("5, what was taken is kept: {} is not known any more", wish.id));
        }
        let answer = self.posted(&wish.form(wish.quantity % super::SEATS + 1));
        if answer.as_ref().is_none_or(|answer| answer.status != 409) {
            self.fault(format!("7, an id is not used twice: {} with other content got {answer:?}", wish.id));
        }
    }

    /// Puts a copy of a command's message beside it, if it is still there.
    fn deliver(&self, id: CommandId, after: Duration) {
        let found = self
            .store
            .lock()
            .unwrap()
            .prepare_cached(
                "SELECT name, body FROM message JOIN queue ON queue.id = message.queue WHERE message.id = ?1",
            )
            .unwrap()
            .query_row([id.0.into_bytes()], |row| Ok((row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?)))
            .optional()
            .unwrap();
        let Some((queue, body)) = found else { return };
        let copy = NewMessage::new(body).delay(after);
        let queue = Name::new(queue).unwrap();
        let put = async || self.engine.backend().queue.put(&queue, copy.clone()).await;
        // A copy that does not arrive is no fault; most do.
        let _ = self.runtime.block_on(put());
    }

    /// Gives back the newest table that somebody was told they have.
    fn cancel(&self) {
        let chosen = {
            let book = self.book.lock().unwrap();
            let mut wishes = book.wishes.iter().rev();
            wishes
                .find(|wish| {
                    book.seen.get(&wish.id) == Some(&Verdict::Accepted)
                        && !book.asked.contains_key(&cancellation(wish.id))
                })
                .cloned()
        };
        let Some(Wish { id: reservation, day, .. }) = chosen else { return };
        let id = cancellation(reservation);
        let began = Instant::now();
        let send = async || {
            let command = CapacityCommand::Cancel { reservation };
            self.engine.send::<Capacity>(&day, command).id(id).await
        };
        while let Err(error) = self.runtime.block_on(send()) {
            if began.elapsed() > self.patience {
                return self.fault(format!("5, what is asked is taken: {id} got {error}"));
            }
        }
        self.book.lock().unwrap().asked.insert(id, Asked::Cancel { reservation });
    }

    /// Asks what has become of a command, and remembers what the guest was told. Returns its token.
    fn look(&self, id: CommandId) -> Option<Token> {
        let address = self.address.lock().unwrap().clone();
        let answer = get(&address, &format!("/booking/receipts/{id}.json"), "").ok()?;
        let json: serde_json::Value = serde_json::from_str(&answer.body).ok()?;
        let verdict = match json["status"].as_str()? {
            "accepted" => Verdict::Accepted,
            "rejected" => Verdict::Rejected { reason: json["reason"].as_str()?.into() },
            _ => return None,
        };
        let mut book = self.book.lock().unwrap();
        let before = book.seen.entry(id).or_insert_with(|| verdict.clone()).clone();
        if before != verdict {
            book.faults.push(format!("7, a verdict stays: {id} was {before:?} and is {verdict:?}"));
        }
        json["token"].as_str()?.parse().ok()
    }

    /// As soon as the last booking is decided its guest opens the calendar, which must not be older without saying so.
    fn read_own_write(&self) {
        let Some(wish) = self.book.lock().unwrap().wishes.last().cloned() else { return };
        let began = Instant::now();
        while began.elapsed() < LONGEST_PAUSE {
            let Some(token) = self.look(wish.id) else {
                std::thread::sleep(Duration::from_millis(2));
                continue;
            };
            let address = self.address.lock().unwrap().clone();
            let Ok(page) =
                get(&address, "/booking/?year=2999&month=12", &format!("highwater-at-least: {token}\r\n"))
            else {
                return;
            };
            let claims = page.status == 200 && !page.body.contains("has not caught up");
            if claims && !has_come_to(&self.views.lock().unwrap(), "month", &token) {
                self.fault(format!("8, a token is answered truly: the calendar says it has come to {token}"));
            }
            return;
        }
    }

    /// Waits until nothing is left to do, and says what is wrong then.
    fn come_to_rest(&mut self) -> Vec<String> {
        let began = Instant::now();
        loop {
            let late = began.elapsed() > self.patience;
            for (role, process) in STAFF.iter().zip(self.staff.get_mut().unwrap()) {
                if let Some(why) = process.as_mut().and_then(Process::ended) {
                    return vec![format!("10, nothing stops silently: a {role} ended by itself, {why}")];
                }
            }
            let open: Vec<CommandId> = {
                let book = self.book.lock().unwrap();
                book.asked.keys().filter(|id| !book.seen.contains_key(id)).copied().collect()
            };
            let rests = open.is_empty() && self.waiting() == 0;
            for id in open {
                self.look(id);
            }
            if rests || late {
                let evidence = self.evidence();
                let faults = self.faults(&evidence, late);
                let heals = |fault: &String| ["3", "4", "5"].contains(&super::number(fault));
                if late || faults.iter().any(|fault| !heals(fault)) {
                    return super::first_causes(faults);
                }
                let read = self.witness.as_ref().is_some_and(|witness| witness.has_read(&evidence.log));
                if faults.is_empty() && read {
                    return faults;
                }
            }
            std::thread::sleep(LOOK);
        }
    }

    fn faults(&self, evidence: &Evidence, late: bool) -> Vec<String> {
        let mut faults = evidence.faults();
        faults.extend(self.book.lock().unwrap().faults.iter().cloned());
        if let Some(witness) = &self.witness {
            faults.extend(witness.faults(&evidence.log));
            if late && !witness.has_read(&evidence.log) {
                faults.push("2, no late arrivals: a reader was never given some of the changes".into());
            }
        }
        let untouched = "SELECT count(*) FROM message WHERE dequeue_count = 0 AND visible_at < (SELECT last FROM moment) - 3000000";
        if late && self.number(untouched) > 0 {
            faults.push("9, waking is a hint: messages that nobody announced were never taken".into());
        }
        faults
    }

    fn evidence(&self) -> Evidence {
        let log = self.runtime.block_on(whole_log(&self.engine));
        let mail = Mailbox::in_folder(self.data().join("mail"));
        let mut letters = BTreeMap::new();
        for entry in std::fs::read_dir(mail.folder()).into_iter().flatten() {
            let entry = entry.unwrap();
            let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
            letters.insert(entry.file_name().into_string().unwrap(), text);
        }
        let views = self.views.lock().unwrap();
        let book = self.book.lock().unwrap();
        Evidence {
            seats: super::SEATS,
            asked: book.asked.clone(),
            seen: book.seen.clone(),
            log,
            months: documents::<SoldOutDays>(&views, "month"),
            receipts: documents::<Booking>(&views, "receipts"),
            mail: letters,
            waiting: self.waiting().unsigned_abs(),
            parked: self.number("SELECT count(*) FROM parked").unsigned_abs(),
        }
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.witness.take();
        self.runtime.block_on(self.engine.stop());
    }
}

fn start(data: &Path, index: usize, crash_point: Option<&str>, sabotage: Option<&str>) -> Process {
    let options = ["--seats", &super::SEATS.to_string(), "--takeover", TAKEOVER];
    let variables = [("HIGHWATER_FAILPOINT", crash_point), ("HIGHWATER_SABOTAGE", sabotage)];
    Process::start_with(data, STAFF[index], &options, &variables)
}

/// An engine of the test's own, which works on nothing.
async fn observer(data: &Path) -> Engine {
    let mailbox = Mailbox::in_folder(data.join("mail"));
    let restaurant = Restaurant::new(Restaurant::DEFAULT_ZONE, super::SEATS).unwrap();
    let url = format!("sqlite:{}", data.join("booking.db").display());
    let settings = crate::site::settings(restaurant, mailbox);
    install(Engine::open(url).role(Role::Web), &settings).start().await.unwrap()
}

async fn whole_log(engine: &Engine) -> Vec<highwater::Change> {
    let (mut log, mut feed) = (Vec::new(), engine.feed(&[]).unwrap());
    loop {
        // Nobody writes to a log that rests, but a paused process may still hold its lock.
        let page = feed.page(1_000).await.unwrap();
        log.extend(page.changes);
        if page.at_end {
            return log;
        }
    }
}

/// A view's documents, by their rows.
fn documents<D: serde::de::DeserializeOwned>(views: &Connection, view: &str) -> BTreeMap<String, D> {
    let mut rows = views
        .prepare_cached(
            "SELECT key, body FROM document JOIN view ON view.id = document.view
             WHERE name = ?1 AND body IS NOT NULL",
        )
        .unwrap();
    let rows = rows.query_map([view], |row| Ok((row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?)));
    rows.unwrap()
        .map(Result::unwrap)
        .map(|(key, body)| (key, serde_json::from_slice(&body).unwrap()))
        .collect()
}

/// Waits until it is time to strike; true if the victim stands at its place.
fn wait_for(victim: &mut Process, when: When, over: &AtomicBool) -> bool {
    if let When::After(time) = when {
        std::thread::sleep(time);
        return false;
    }
    let mut since = None;
    while !victim.has_reached() {
        if over.load(Relaxed) && since.get_or_insert_with(Instant::now).elapsed() > Duration::from_secs(1) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

//! What a restaurant is left with when everything has come to rest, and whether it keeps the engine's invariants.

use booking::month::SoldOutDays;
use booking::receipt::Booking;
use booking::{Capacity, CapacityEvent, Mailbox, MonthView, ReceiptView, Restaurant, install};
use highwater::{Change, ChangeOp, CommandId, Engine, EventId, Role, Token, Verdict};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

/// How long a view may take to reach the end of the log.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a guest asked for, and was told had arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    Reserve { day: String, quantity: u32 },
    Cancel { reservation: CommandId },
}

/// Everything there is to see.
#[derive(Debug, Clone)]
pub(crate) struct Evidence {
    pub(crate) seats: u32,
    pub(crate) asked: BTreeMap<CommandId, Asked>,
    /// The verdicts that guests have seen, each when it was first seen.
    pub(crate) seen: BTreeMap<CommandId, Verdict>,
    pub(crate) log: Vec<Change>,
    pub(crate) months: BTreeMap<String, SoldOutDays>,
    pub(crate) receipts: BTreeMap<String, Booking>,
    /// The files in the mail folder.
    pub(crate) mail: BTreeMap<String, String>,
    /// Messages in the queue, and in the poison queue.
    pub(crate) waiting: u64,
    pub(crate) parked: u64,
}

/// What the log says, event by event.
#[derive(Default)]
struct Folded {
    days: BTreeMap<String, Day>,
    months: BTreeMap<String, SoldOutDays>,
    receipts: BTreeMap<String, Booking>,
    letters: BTreeMap<String, CommandId>,
    faults: Vec<String>,
}

#[derive(Default)]
struct Day {
    version: u64,
    parties: BTreeMap<CommandId, u32>,
    sold_out: bool,
    state: Option<Capacity>,
}

impl Evidence {
    /// Looks at a data folder, whoever else is at work on it.
    pub(crate) async fn of(data: &Path, seats: u32) -> Self {
        let mailbox = Mailbox::in_folder(data.join("mail"));
        let restaurant = Restaurant::new(Restaurant::DEFAULT_ZONE, seats).unwrap();
        let settings = crate::site::settings(restaurant, mailbox.clone());
        let url = format!("sqlite:{}", data.join("booking.db").display());
        let engine = install(Engine::open(url).role(Role::Web), &settings).start().await.unwrap();
        let evidence = Self::gather(&engine, &mailbox, seats).await;
        engine.stop().await;
        evidence
    }

    /// Looks at everything once the views have reached the end of the log.
    async fn gather(engine: &Engine, mailbox: &Mailbox, seats: u32) -> Self {
        let head = engine.head().await.unwrap();
        let mut log = Vec::new();
        let mut feed = engine.feed(&[]).unwrap();
        loop {
            let page = feed.page(1_000).await.unwrap();
            log.extend(page.changes);
            if page.at_end {
                break;
            }
        }
        let status = engine.status().await.unwrap().worker;
        let mut mail = BTreeMap::new();
        for entry in std::fs::read_dir(mailbox.folder()).into_iter().flatten() {
            let entry = entry.unwrap();
            // A draft may be renamed while this looks; then the letter is found the next time.
            let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
            mail.insert(entry.file_name().into_string().unwrap(), text);
        }
        Self {
            seats,
            asked: BTreeMap::new(),
            seen: BTreeMap::new(),
            log,
            months: documents::<MonthView>(engine, &head).await,
            receipts: documents::<ReceiptView>(engine, &head).await,
            mail,
            waiting: status.visible + status.in_flight + status.delayed,
            parked: status.parked,
        }
    }

    /// The events of this name on a day.
    pub(crate) fn count(&self, day: &str, name: &str) -> usize {
        let changes = self.log.iter().filter(|change| change.key.id.as_str() == day);
        changes.flat_map(|change| &change.events).filter(|event| &*event.name == name).count()
    }

    /// What is wrong, each with the invariant that it breaks; nothing, if all is well.
    pub(crate) fn faults(&self) -> Vec<String> {
        let folded = self.fold();
        let mut faults = self.verdicts(&folded);
        faults.extend(self.seats(&folded));
        let mut wrong = |so: bool, text: String| faults.extend(so.then_some(text));
        wrong(
            self.months != folded.months,
            format!(
                "4, a view equals a fold of the log: months {:?}, the log says {:?}",
                self.months, folded.months
            ),
        );
        wrong(
            self.receipts != folded.receipts,
            format!(
                "4, a view equals a fold of the log: receipts {:?}, the log says {:?}",
                self.receipts, folded.receipts
            ),
        );
        wrong(self.waiting > 0, format!("5, decided messages leave the queue: {} are left", self.waiting));
        wrong(self.parked > 0, format!("5, only what cannot be decided is parked: {} are", self.parked));
        for (name, reservation) in &folded.letters {
            match self.mail.get(name) {
                None => wrong(true, format!("3, every event reaches the mail: no letter {name}")),
                Some(text) => {
                    let whole = text.contains(&format!("Reservation {reservation}\r\n"));
                    wrong(!whole, format!("4, a letter is whole or not there: {name} is {text:?}"));
                }
            }
        }
        for name in self.mail.keys().filter(|name| !folded.letters.contains_key(*name)) {
            wrong(true, format!("4, effects once: {name} is left over in the mail folder"));
        }
        faults.extend(folded.faults);
        faults
    }

    /// Nothing lost, nothing decided twice, and what guests were told is what the log says.
    fn verdicts(&self, folded: &Folded) -> Vec<String> {
        let mut faults = Vec::new();
        let mut decided: BTreeMap<CommandId, Vec<&Verdict>> = BTreeMap::new();
        for mark in self.log.iter().filter_map(|change| change.command.as_ref()) {
            decided.entry(mark.id).or_default().push(&mark.verdict);
        }
        for (id, asked) in &self.asked {
            match decided.get(id).map(Vec::as_slice) {
                None => faults.push(format!("5, nothing is lost: {id} was never decided ({asked:?})")),
                Some([verdict]) => {
                    if let Some(seen) = self.seen.get(id).filter(|seen| seen != verdict) {
                        faults.push(format!("7, a verdict stays: {id} was {seen:?}, is {verdict:?}"));
                    }
                    let (reserved, refused) = (folded.reserved(*id), folded.refused(*id));
                    let accepted = **verdict == Verdict::Accepted;
                    if matches!(asked, Asked::Reserve { .. }) && (reserved, refused) != (accepted, !accepted)
                    {
                        faults.push(format!(
                            "1, one write: {id} is {verdict:?}, but reserved {reserved}, declined {refused}"
                        ));
                    }
                }
                Some(several) => faults.push(format!("7, a command decides once: {id} has {several:?}")),
            }
            if decided.contains_key(id) && !self.seen.contains_key(id) {
                faults.push(format!("7, an outcome can be asked for: none of {id} ({asked:?})"));
            }
        }
        let unasked = decided.keys().filter(|id| !self.asked.contains_key(id));
        faults.extend(unasked.map(|id| format!("7, a command is what somebody sent: nobody sent {id}")));
        faults
    }

    /// The state and the reservations say what the events say.
    fn seats(&self, folded: &Folded) -> Vec<String> {
        let mut faults = Vec::new();
        for (name, day) in &folded.days {
            let taken: u32 = day.parties.values().sum();
            let stored = day.state.as_ref().map(Capacity::taken);
            if stored != Some(taken) {
                faults.push(format!(
                    "1, state and events are one write: {name} has {taken} taken by its events, {stored:?} in its state"
                ));
            }
        }
        let mut items = BTreeSet::new();
        for change in self.log.iter().filter(|change| change.key.container.as_str() == "reservations") {
            let id: CommandId = change.key.id.as_str().parse().unwrap();
            match change.op {
                ChangeOp::Delete { .. } => items.remove(&id),
                _ => items.insert(id),
            };
        }
        let parties: BTreeSet<_> = folded.days.values().flat_map(|day| day.parties.keys().copied()).collect();
        if items != parties {
            faults.push(format!(
                "1, items of one commit stand together: reservations {items:?}, the days have {parties:?}"
            ));
        }
        faults
    }

    fn fold(&self) -> Folded {
        let mut folded = Folded::default();
        for change in self.log.iter().filter(|change| change.key.container.as_str() == "capacity") {
            let name = change.key.id.to_string();
            let day = folded.days.entry(name.clone()).or_default();
            if change.version.get() != day.version + 1 {
                let text = format!("2, in order: version {} of {name} after {}", change.version, day.version);
                folded.faults.push(text);
            }
            day.version = change.version.get();
            if let ChangeOp::Put(body) = &change.op {
                day.state = Some(body.json.decode().unwrap());
            }
            for (index, event) in change.events.iter().enumerate() {
                let data: serde_json::Value = event.data.decode().unwrap();
                let tagged = if data.is_null() {
                    serde_json::json!(&*event.name)
                } else {
                    serde_json::json!({ &*event.name: data })
                };
                let event: CapacityEvent = serde_json::from_value(tagged).unwrap();
                folded.apply(&name, self.seats, &change.event_id(index), &event);
            }
            folded.turn_is_due(&name, self.seats);
        }
        folded
    }
}

impl Folded {
    fn apply(&mut self, name: &str, seats: u32, id: &EventId, event: &CapacityEvent) {
        let day = self.days.entry(name.to_owned()).or_default();
        let (month, number) = (name[..7].to_owned(), name[8..].parse().unwrap());
        let faults = &mut self.faults;
        let mut letter = |reservation: &CommandId| {
            self.letters.insert(format!("{}.eml", Mailbox::stem(id)), *reservation);
        };
        let booking = |name: &str, quantity: u32| {
            let day = id.key.id.to_string();
            Booking { day, name: name.to_owned(), quantity, cancelled: false }
        };
        match event {
            CapacityEvent::Reserved { reservation, name: guest, quantity, remaining, .. } => {
                if day.parties.insert(*reservation, *quantity).is_some() {
                    faults.push(format!("7, nothing is doubled: {reservation} is reserved twice on {name}"));
                }
                let taken: u32 = day.parties.values().sum();
                if taken > seats || taken + remaining != seats {
                    faults.push(format!(
                        "1, a decision stands on what it was made on: {taken} of {seats} taken on {name}, said to leave {remaining}"
                    ));
                }
                self.receipts.insert(reservation.to_string(), booking(guest, *quantity));
                letter(reservation);
            }
            CapacityEvent::Declined { reservation, name: guest, quantity, .. } => {
                if self.receipts.insert(reservation.to_string(), booking(guest, *quantity)).is_some() {
                    faults.push(format!("7, nothing is doubled: {reservation} is declined twice on {name}"));
                }
                letter(reservation);
            }
            CapacityEvent::Cancelled { reservation, .. } => {
                if day.parties.remove(reservation).is_none() {
                    faults.push(format!("7, nothing is doubled: {reservation} is cancelled twice on {name}"));
                }
                if let Some(booking) = self.receipts.get_mut(&reservation.to_string()) {
                    booking.cancelled = true;
                }
                letter(reservation);
            }
            CapacityEvent::SoldOut => {
                if std::mem::replace(&mut day.sold_out, true) {
                    faults.push(format!("1, one sold-out per sold-out period: {name} has two"));
                }
                self.months.entry(month).or_default().days.insert(number);
            }
            CapacityEvent::Reopened => {
                if !std::mem::replace(&mut day.sold_out, false) {
                    faults.push(format!("1, one sold-out per sold-out period: {name} reopened without one"));
                }
                self.months.entry(month).or_default().days.remove(&number);
            }
            // No campaign changes days.
            CapacityEvent::SeatsSet { .. } | CapacityEvent::Closed { .. } | CapacityEvent::Opened => {}
        }
    }

    /// After every commit the day is sold out exactly if nothing is left.
    fn turn_is_due(&mut self, name: &str, seats: u32) {
        let Some(day) = self.days.get(name) else { return };
        let taken: u32 = day.parties.values().sum();
        if day.sold_out != (taken >= seats) {
            let what = if day.sold_out { "is" } else { "is not" };
            let text =
                format!("1, one sold-out per sold-out period: {name} {what} sold out with {taken} taken");
            self.faults.push(text);
        }
    }

    /// Whether it ever had seats, though it may have given them back.
    fn reserved(&self, id: CommandId) -> bool {
        let booking = self.receipts.get(&id.to_string());
        booking.is_some_and(|booking| booking.cancelled)
            || self.days.values().any(|day| day.parties.contains_key(&id))
    }

    fn refused(&self, id: CommandId) -> bool {
        self.receipts.contains_key(&id.to_string()) && !self.reserved(id)
    }
}

async fn documents<V: highwater::View>(engine: &Engine, head: &Token) -> BTreeMap<String, V::Document> {
    let view = engine.view::<V>();
    let reached = view.get("-").at_least(head).wait(PATIENCE).await.unwrap();
    assert!(
        reached.is_fresh(),
        "3, every view gets every change: {} has come to {} of {head} only",
        V::NAME,
        reached.token
    );
    view.list(None, 10_000).await.unwrap().into_iter().collect()
}

mod tests {
    use super::*;
    use crate::site::{DAY, Site};

    async fn sound() -> Evidence {
        let site = Site::new().await;
        let mut asked = BTreeMap::new();
        let mut reserve = async |day: &str, quantity| {
            let id = site.book(day, quantity).await;
            site.settle().await;
            asked.insert(id, Asked::Reserve { day: day.into(), quantity });
            id
        };
        let first = reserve(DAY, 10).await;
        reserve(DAY, 1).await;
        reserve("2026-12-25", 3).await;
        asked.insert(site.cancel(first).await, Asked::Cancel { reservation: first });
        site.settle().await;
        let mut evidence = Evidence::gather(&site.engine, &site.mailbox, 10).await;
        for mark in evidence.log.iter().filter_map(|change| change.command.as_ref()) {
            evidence.seen.insert(mark.id, mark.verdict.clone());
        }
        Evidence { asked, ..evidence }
    }

    #[tokio::test]
    async fn the_checker_finds_no_fault_where_there_is_none_and_names_each_one_that_is_made() {
        let sound = sound().await;
        assert_eq!(sound.faults(), [""; 0]);
        type Harm = fn(&mut Evidence);
        let harms: [(&str, Harm); 14] = [
            ("nothing is lost", |it| it.log.retain(|change| change.key.id.as_str() == DAY)),
            ("an outcome can be asked for", |it| drop(it.seen.pop_first())),
            ("a verdict stays", |it| {
                it.seen.values_mut().for_each(|seen| *seen = Verdict::Rejected { reason: "full".into() })
            }),
            ("a command decides once", |it| it.log.push(it.log[0].clone())),
            ("nobody sent", |it| drop(it.asked.pop_first())),
            ("a decision stands on", |it| it.seats = 9),
            ("one sold-out per sold-out period", |it| {
                it.log.iter_mut().for_each(|change| change.events.retain(|event| &*event.name != "SoldOut"))
            }),
            ("one write", |it| {
                it.log.iter_mut().for_each(|change| change.events.retain(|event| &*event.name != "Declined"))
            }),
            ("state and events are one write", |it| {
                let all = it.log.iter_mut().filter(|change| change.key.id.as_str() == "2026-12-25");
                all.for_each(|change| change.op = ChangeOp::Keep)
            }),
            ("items of one commit", |it| {
                it.log.retain(|change| change.key.container.as_str() != "reservations")
            }),
            ("months", |it| drop(it.months.pop_first())),
            ("receipts", |it| drop(it.receipts.pop_first())),
            ("every event reaches the mail", |it| drop(it.mail.pop_first())),
            ("effects once", |it| drop(it.mail.insert(".x.draft".into(), String::new()))),
        ];
        for (wanted, harm) in harms {
            let mut harmed = sound.clone();
            harm(&mut harmed);
            let faults = harmed.faults();
            assert!(faults.iter().any(|fault| fault.contains(wanted)), "{wanted}: {faults:#?}");
        }
        for (wanted, harmed) in [
            ("leave the queue", Evidence { waiting: 1, ..sound.clone() }),
            ("is parked", Evidence { parked: 1, ..sound.clone() }),
        ] {
            assert!(harmed.faults().iter().any(|fault| fault.contains(wanted)), "{wanted}");
        }
    }
}

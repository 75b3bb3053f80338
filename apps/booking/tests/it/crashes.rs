//! Processes that are killed at every place where it could hurt. Whatever dies, and wherever: once the work of the
//! dead was taken over, nothing is lost, nothing doubled, and everything says the same.

use crate::evidence::{Asked, Evidence};
use crate::processes::{PATIENCE, POLL, Process, post, until};
use booking::receipt::cancellation;
use highwater::{CommandId, Token, Verdict};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

const SEATS: u32 = 4;

/// The work of the dead is taken over after this many seconds: soon enough not to wait for it, late enough not to
/// take a process on a busy machine for dead.
const TAKEOVER: &str = "2";

/// A restaurant that is served by processes, and everything that was asked of it.
struct House {
    folder: tempfile::TempDir,
    web: Option<Process>,
    asked: BTreeMap<CommandId, Asked>,
    seen: BTreeMap<CommandId, Verdict>,
}

/// A booking that was not sent yet.
#[derive(Clone)]
pub(crate) struct Wish {
    pub(crate) id: CommandId,
    pub(crate) day: String,
    pub(crate) quantity: u32,
}

impl Wish {
    pub(crate) fn new(day: &str, quantity: u32) -> Self {
        Self { id: CommandId::random(), day: day.into(), quantity }
    }

    /// The form as a browser sends it, for so many people.
    pub(crate) fn form(&self, quantity: u32) -> String {
        let Self { id, day, .. } = self;
        format!("id={id}&date={day}&name=Ada&email={id}%40example.org&quantity={quantity}")
    }

    /// Sends it; true once the site says that it has arrived.
    fn send(&self, address: &str) -> std::io::Result<bool> {
        let answer = post(address, "/booking/", &self.form(self.quantity))?;
        Ok(answer.status == 303 && answer.location == Some(format!("/booking/receipts/{}", self.id)))
    }
}

impl House {
    /// A house with two bookings that were accepted, one of which sold its day out, and nobody at work.
    fn with_a_past() -> (Self, CommandId) {
        let folder = tempfile::tempdir().unwrap();
        let mut house = Self { folder, web: None, asked: BTreeMap::new(), seen: BTreeMap::new() };
        house.web = Some(house.start("all"));
        let whole_day = house.book("2999-12-01", SEATS);
        let table = house.book("2999-12-02", 2);
        for id in [whole_day, table] {
            assert_eq!(house.decided(id), Verdict::Accepted);
        }
        // Cancelling needs the receipt's view.
        until("the receipt can be cancelled", || {
            house
                .web()
                .get(&format!("/booking/receipts/{whole_day}"))
                .body
                .contains("Cancel this")
                .then_some(())
        });
        house.web.take().unwrap().stop();
        (house, whole_day)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn start(&self, role: &str) -> Process {
        Process::start(&self.data(), role, &["--seats", &SEATS.to_string(), "--takeover", TAKEOVER])
    }

    /// One that will come to a crash point. What it has taken is free again after `takeover` seconds.
    fn start_to_die(&self, role: &str, crash_point: &str, takeover: &str) -> Process {
        let options = ["--seats", &SEATS.to_string(), "--takeover", takeover];
        Process::start_to_die(&self.data(), role, &options, Some(crash_point))
    }

    fn web(&self) -> &Process {
        self.web.as_ref().unwrap()
    }

    fn send(&mut self, wish: &Wish) {
        assert!(wish.send(self.web().address()).unwrap(), "the site takes every booking");
        let Wish { id, day, quantity } = wish.clone();
        self.asked.insert(id, Asked::Reserve { day, quantity });
    }

    fn book(&mut self, day: &str, quantity: u32) -> CommandId {
        let wish = Wish::new(day, quantity);
        self.send(&wish);
        wish.id
    }

    fn cancel(&mut self, reservation: CommandId) -> CommandId {
        let id = cancellation(reservation);
        let path = format!("/booking/receipts/{reservation}/cancel");
        let answer = post(self.web().address(), &path, &format!("id={id}")).unwrap();
        assert_eq!(answer.status, 303, "{}", answer.body);
        self.asked.insert(id, Asked::Cancel { reservation });
        id
    }

    /// What a guest sees at this moment.
    fn look(&self, id: CommandId) -> (Option<Verdict>, Option<Token>) {
        let answer = self.web().get(&format!("/booking/receipts/{id}.json"));
        let json: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        let token = json["token"].as_str().map(|token| token.parse().unwrap());
        let verdict = match json["status"].as_str().unwrap() {
            "accepted" => Some(Verdict::Accepted),
            "rejected" => Some(Verdict::Rejected { reason: json["reason"].as_str().unwrap().into() }),
            "pending" => None,
            other => panic!("{id} is {other}: {json}"),
        };
        (verdict, token)
    }

    /// Waits for the verdict, and remembers it.
    fn decided(&mut self, id: CommandId) -> Verdict {
        let verdict = until(&format!("invariant 5, nothing is lost: {id} is decided"), || self.look(id).0);
        self.seen.entry(id).or_insert_with(|| verdict.clone());
        verdict
    }

    /// More work than one moment can hold: days of their own, a day that sells out, losers, a cancellation.
    fn wishes() -> Vec<Wish> {
        let mut wishes = Vec::new();
        for (day, quantities) in [
            ("2999-12-03", &[1, 1, 1, 1][..]),
            ("2999-12-04", &[3, 3]),
            ("2999-11-05", &[4]),
            ("2999-12-06", &[1]),
            ("2999-12-02", &[2, 1]),
            ("2999-12-01", &[2]),
        ] {
            wishes.extend(quantities.iter().map(|quantity| Wish::new(day, *quantity)));
        }
        wishes
    }

    /// Waits until all is decided and shown, as a guest would see it, and then checks the invariants.
    fn check(mut self) -> Evidence {
        let mut token = Token::default();
        for id in self.asked.keys().copied().collect::<Vec<_>>() {
            self.decided(id);
            let (verdict, reached) = self.look(id);
            assert_eq!(verdict.as_ref(), self.seen.get(&id), "invariant 7: the verdict on {id} has changed");
            token.merge(&reached.unwrap());
        }
        for month in ["11", "12"] {
            until("invariant 3, every view gets every change: the calendar catches up", || {
                let page = self.web().get_at_least(&format!("/booking/?year=2999&month={month}"), &token);
                assert_eq!(page.status, 200);
                (!page.body.contains("has not caught up")).then_some(())
            });
        }
        let letters = self.asked.iter().filter(|(id, asked)| {
            matches!(asked, Asked::Reserve { .. }) || self.seen[id] == Verdict::Accepted
        });
        // The page shows so many; the checker looks at all of them.
        let letters = letters.count().min(100);
        until("invariant 3, every event reaches the mail: every guest has a letter", || {
            (self.web().get("/booking/mails").body.matches("<li>").count() >= letters).then_some(())
        });
        self.gather()
    }

    fn look_around(&self) -> Evidence {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let evidence = runtime.block_on(Evidence::of(&self.data(), SEATS));
        Evidence { asked: self.asked.clone(), seen: self.seen.clone(), ..evidence }
    }

    fn gather(&self) -> Evidence {
        let began = Instant::now();
        loop {
            let evidence = self.look_around();
            // The message of the dead comes back, and is removed, when its time is over.
            let faults = evidence.faults();
            if faults.is_empty() {
                return evidence;
            }
            assert!(began.elapsed() < PATIENCE, "broken invariants: {faults:#?}");
            std::thread::sleep(POLL);
        }
    }
}

/// Lets a worker or a projector die at a crash point in the middle of its work, and another go on.
fn dies(role: &str, crash_point: &str) {
    let (mut house, whole_day) = House::with_a_past();
    house.web = Some(house.start("web"));
    let wishes = House::wishes();
    for wish in &wishes {
        house.send(wish);
    }
    house.cancel(whole_day);
    house.send(&wishes[0]);
    let other = if role == "worker" { "projector" } else { "worker" };
    let other = house.start(other);
    let mut victim = house.start_to_die(role, crash_point, TAKEOVER);
    let name = crash_point.split(':').next().unwrap();
    victim.wait_for_line(&format!("failpoint {name} reached"));
    victim.kill();
    house.book("2999-12-06", 1);
    let heir = house.start(role);
    let evidence = house.check();
    for (day, name, times) in [
        ("2999-12-03", "SoldOut", 1),
        ("2999-12-04", "Reserved", 1),
        ("2999-12-04", "Declined", 1),
        ("2999-12-06", "Reserved", 2),
        ("2999-11-05", "SoldOut", 1),
    ] {
        assert_eq!(evidence.count(day, name), times, "{name} on {day}");
    }
    drop((heir, other));
}

/// Lets the web role die while it takes bookings. Its guests send their forms again.
fn web_dies(crash_point: &str) {
    let (mut house, _) = House::with_a_past();
    let (worker, projector) = (house.start("worker"), house.start("projector"));
    let mut victim = house.start_to_die("web", crash_point, TAKEOVER);
    let arrived = Arc::new(Mutex::new(Vec::new()));
    let wishes = House::wishes();
    let guests = std::thread::spawn({
        let (address, arrived, wishes) = (victim.address().to_owned(), arrived.clone(), wishes.clone());
        move || {
            // Until there is nobody to answer any more.
            for wish in &wishes {
                match wish.send(&address) {
                    Ok(true) => arrived.lock().unwrap().push(wish.clone()),
                    Ok(false) => panic!("the site takes every booking"),
                    Err(_) => break,
                }
            }
        }
    });
    let name = crash_point.split(':').next().unwrap();
    victim.wait_for_line(&format!("failpoint {name} reached"));
    victim.kill();
    guests.join().unwrap();
    house.web = Some(house.start("web"));
    // What was taken is not lost, even if it is never sent again.
    for Wish { id, day, quantity } in arrived.lock().unwrap().clone() {
        house.asked.insert(id, Asked::Reserve { day, quantity });
        house.decided(id);
    }
    for wish in &wishes {
        house.send(wish);
    }
    house.check();
    drop((worker, projector));
}

macro_rules! deaths {
    ($($name:ident: $($role:literal at $point:literal),+;)+) => {
        pub(crate) const POINTS: &[&str] = &[$($($point),+),+];

        $(#[test]
        fn $name() {
            $(println!("{} dies at {}", $role, $point);
            if $role == "web" { web_dies($point) } else { dies($role, $point) })+
        })+
    };
}

deaths! {
    a_worker_that_dies_when_it_has_read_the_state: "worker" at "worker.read:1", "worker" at "worker.read:6";
    a_worker_that_dies_when_it_has_decided: "worker" at "worker.decided:1", "worker" at "worker.decided:5";
    a_worker_that_dies_between_commit_and_delete: "worker" at "worker.committed:1", "worker" at "worker.committed:6";
    a_worker_that_dies_when_it_has_deleted: "worker" at "worker.deleted:1", "worker" at "worker.deleted:5";
    a_worker_that_dies_in_its_first_transactions_before_they_are_durable:
        "worker" at "sqlite.commit.before:1", "worker" at "sqlite.commit.before:2";
    a_worker_that_dies_in_later_transactions_before_they_are_durable:
        "worker" at "sqlite.commit.before:3", "worker" at "sqlite.commit.before:5";
    a_worker_that_dies_when_its_first_transactions_are_durable_and_nobody_knows:
        "worker" at "sqlite.commit.after:1", "worker" at "sqlite.commit.after:2";
    a_worker_that_dies_when_later_transactions_are_durable_and_nobody_knows:
        "worker" at "sqlite.commit.after:3", "worker" at "sqlite.commit.after:5";
    a_projector_that_dies_when_it_has_folded: "projector" at "view.folded:1", "projector" at "view.folded:7";
    a_projector_that_dies_when_it_has_written_a_view:
        "projector" at "view.written:1", "projector" at "view.written:7";
    a_projector_that_dies_when_it_has_read: "projector" at "processor.read:1", "projector" at "processor.read:4";
    a_projector_that_dies_before_its_checkpoint:
        "projector" at "processor.handled:1", "projector" at "processor.handled:4";
    a_projector_that_dies_before_a_letter_has_its_name:
        "projector" at "mail.written:1", "projector" at "mail.written:5";
    a_projector_that_dies_when_a_letter_has_its_name:
        "projector" at "mail.renamed:1", "projector" at "mail.renamed:5";
    a_projector_that_dies_before_its_views_are_durable:
        "projector" at "sqlite.views.commit.before:1", "projector" at "sqlite.views.commit.before:4";
    a_projector_that_dies_when_its_views_are_durable_and_nobody_knows:
        "projector" at "sqlite.views.commit.after:1", "projector" at "sqlite.views.commit.after:4";
    a_projector_that_dies_before_its_leases_are_durable:
        "projector" at "sqlite.commit.before:2", "projector" at "sqlite.commit.before:5";
    a_projector_that_dies_when_its_checkpoints_are_durable_and_nobody_knows:
        "projector" at "sqlite.commit.after:2", "projector" at "sqlite.commit.after:5";
    a_web_process_that_dies_before_a_booking_is_durable:
        "web" at "sqlite.commit.before:1", "web" at "sqlite.commit.before:4";
    a_web_process_that_dies_when_a_booking_is_durable_and_nobody_was_told:
        "web" at "sqlite.commit.after:1", "web" at "sqlite.commit.after:4";
}

/// The crash points in a folder of sources.
fn crash_points(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap().path();
        let name = entry.file_name().unwrap();
        if entry.is_dir() && name != "tests" {
            crash_points(&entry, found);
        } else if entry.extension().is_some_and(|ending| ending == "rs") && name != "tests.rs" {
            let text = std::fs::read_to_string(&entry).unwrap();
            for before in ["failpoint::hit(\"", "_COMMIT: &'static str = \""] {
                let names = text.split(before).skip(1).map(|rest| rest.split('"').next().unwrap());
                found.extend(names.map(String::from));
            }
        }
    }
}

#[test]
fn at_every_crash_point_there_is_a_process_dies() {
    let mut there = BTreeSet::new();
    for folder in ["src", "../../crates/highwater/src", "../../crates/highwater-sqlite/src"] {
        crash_points(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut there);
    }
    assert!(there.contains("worker.read") && there.contains("sqlite.views.commit.after"), "{there:?}");
    let mut visited: BTreeSet<String> =
        POINTS.iter().map(|point| point.split(':').next().unwrap().to_owned()).collect();
    // Only with a mail server: the tests of that kill a process there.
    visited.insert("mail.sent".into());
    // A booking needs no unique value (a day knows its guests), no timer and no large command; the runtime's own tests
    // of those stop at their points.
    there.retain(|point| {
        !point.starts_with("unique.") && !point.starts_with("timer.") && point != "worker.cleared"
    });
    assert_eq!(visited, there);
}

/// Invariant 7. The worker dies between the commit of a rejection and the removal of its message; before the message
/// comes back, seats become free.
#[test]
fn a_rejection_stays_one_although_seats_are_cancelled_before_its_message_comes_again() {
    let (mut house, whole_day) = House::with_a_past();
    house.web = Some(house.start("web"));
    let projector = house.start("projector");
    let loser = house.book("2999-12-01", 1);
    // Long enough that the cancellation comes first.
    let mut victim = house.start_to_die("worker", "worker.committed", "8");
    victim.wait_for_line("failpoint worker.committed reached");
    victim.kill();
    let verdict = house.decided(loser);
    assert!(matches!(verdict, Verdict::Rejected { .. }), "{verdict:?}");
    let worker = house.start("worker");
    let cancel = house.cancel(whole_day);
    assert_eq!(house.decided(cancel), Verdict::Accepted);
    assert_eq!(house.look_around().waiting, 1, "its message has not come again yet");
    let evidence = house.check();
    assert_eq!(evidence.seen[&loser], verdict);
    assert_eq!(evidence.count("2999-12-01", "Reserved"), 1, "only the booking that was cancelled");
    assert_eq!(evidence.count("2999-12-01", "Declined"), 1);
    assert_eq!(evidence.count("2999-12-01", "Reopened"), 1);
    drop((worker, projector));
}

/// Two workers and two projectors; each round one of the four dies, wherever it is at that moment.
#[test]
fn processes_that_are_killed_at_random_moments_lose_and_double_nothing() {
    let seed =
        std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut house, whole_day) = House::with_a_past();
    house.web = Some(house.start("web"));
    let roles = ["worker", "worker", "projector", "projector"];
    let mut staff: Vec<Process> = roles.iter().map(|role| house.start(role)).collect();
    house.cancel(whole_day);
    for round in 0..8 {
        let mut wishes: Vec<Wish> = (0..12)
            .map(|_| Wish::new(&format!("2999-12-{:02}", 10 + random.u32(0..6)), random.u32(1..=SEATS)))
            .collect();
        random.shuffle(&mut wishes);
        let victim = random.usize(0..staff.len());
        let moment = random.usize(0..wishes.len());
        let after = std::time::Duration::from_micros(random.u64(0..15_000));
        println!("round {round}: a {} after {moment} bookings and {after:?}", roles[victim]);
        for (number, wish) in wishes.iter().enumerate() {
            house.send(wish);
            if number == moment {
                // Only draws the moment: nothing is expected to have happened by then.
                std::thread::sleep(after);
                staff.remove(victim).kill();
            }
        }
        let first = house.decided(wishes[0].id);
        if first == Verdict::Accepted && random.bool() {
            until("the receipt can be cancelled", || {
                let page = house.web().get(&format!("/booking/receipts/{}", wishes[0].id));
                page.body.contains("Cancel this").then_some(())
            });
            house.cancel(wishes[0].id);
        }
        staff.insert(victim, house.start(roles[victim]));
    }
    house.check();
}

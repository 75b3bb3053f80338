//! The small bank that the tests share.

use highwater::{
    Aggregate, Context, Decision, Folded, Follow, Old, OldKind, Recorded, Sources, Storage, View,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Command {
    Deposit {
        cents: u64,
    },
    Withdraw {
        cents: u64,
    },
    /// Fails while deciding, as a defect would.
    Explode,
    /// Carried out without anything happening.
    Touch,
    /// Deposits, and writes a receipt as an item of its own.
    DepositWithReceipt {
        cents: u64,
        receipt: String,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Event {
    Deposited { cents: u64 },
    Withdrawn { cents: u64 },
}

#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Account {
    pub cents: u64,
    pub applied: u32,
}

impl Account {
    fn decide_on(&self, command: Command) -> Result<Vec<Event>, String> {
        match command {
            Command::Deposit { cents } | Command::DepositWithReceipt { cents, .. } => {
                Ok(vec![Event::Deposited { cents }])
            }
            Command::Withdraw { cents } if cents > self.cents => Err(format!("only {} cents", self.cents)),
            Command::Withdraw { cents } => Ok(vec![Event::Withdrawn { cents }]),
            Command::Touch => Ok(vec![]),
            Command::Explode => panic!("boom"),
        }
    }

    fn fold(&mut self, event: &Event) {
        self.applied += 1;
        match event {
            Event::Deposited { cents } => self.cents += cents,
            Event::Withdrawn { cents } => self.cents -= cents,
        }
    }
}

impl Aggregate for Account {
    const CONTAINER: &'static str = "accounts";
    type Command = Command;
    type Event = Event;
    type Settings = ();

    fn decide(&self, command: Command, _: &Context<Self>) -> Decision<Self> {
        let receipt = match &command {
            Command::DepositWithReceipt { receipt, .. } => Some(receipt.clone()),
            _ => None,
        };
        let decision = match self.decide_on(command) {
            Ok(events) => Decision::accept(events),
            Err(reason) => Decision::reject(reason),
        };
        match receipt {
            Some(id) => decision.put_item("receipts", &id, &"paid in"),
            None => decision,
        }
    }

    fn apply(&mut self, event: &Event) {
        self.fold(event);
    }
}

/// The same bank, event-sourced, with a snapshot every third commit.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ledger(pub Account);

impl Aggregate for Ledger {
    const CONTAINER: &'static str = "ledgers";
    const STORAGE: Storage = Storage::Events { snapshot_every: 3 };
    type Command = Command;
    type Event = Event;
    type Settings = ();

    fn decide(&self, command: Command, _: &Context<Self>) -> Decision<Self> {
        match self.0.decide_on(command) {
            Ok(events) => Decision::accept(events),
            Err(reason) => Decision::reject(reason),
        }
    }

    fn apply(&mut self, event: &Event) {
        self.0.fold(event);
    }
}

/// The bank's next release: amounts have a currency, and `Deposit` is called `PayIn`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum CommandV2 {
    PayIn { amount: u64, currency: String },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum EventV2 {
    PaidIn { amount: u64, currency: String },
    Withdrawn { cents: u64 },
}

#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AccountV2 {
    pub amounts: BTreeMap<String, u64>,
}

impl Aggregate for AccountV2 {
    const CONTAINER: &'static str = "accounts";
    const SCHEMA: u32 = 2;
    type Command = CommandV2;
    type Event = EventV2;
    type Settings = ();

    fn decide(&self, command: CommandV2, _: &Context<Self>) -> Decision<Self> {
        let CommandV2::PayIn { amount, currency } = command;
        Decision::accept([EventV2::PaidIn { amount, currency }])
    }

    fn apply(&mut self, event: &EventV2) {
        if let EventV2::PaidIn { amount, currency } = event {
            *self.amounts.entry(currency.clone()).or_default() += amount;
        }
    }

    fn upcast(old: &mut Old) -> Result<(), String> {
        match (old.kind, old.name.as_str()) {
            (OldKind::Command, "Deposit") => old.name = "PayIn".into(),
            (OldKind::Event, "Deposited") => old.name = "PaidIn".into(),
            (OldKind::Event, "Withdrawn") => return Ok(()),
            (OldKind::Body, _) => {
                let cents = old.data["cents"].as_u64().ok_or("no cents")?;
                old.data = serde_json::json!({ "amounts": { "EUR": cents } });
                return Ok(());
            }
            (_, name) => return Err(format!("`{name}` was never released")),
        }
        old.data = serde_json::json!({ "amount": old.data["cents"], "currency": "EUR" });
        Ok(())
    }
}

/// Every account's balance in one document, so that all partitions meet in it.
pub(crate) struct Balances;

pub(crate) type Sheet = BTreeMap<String, i64>;

impl View for Balances {
    const NAME: &'static str = "balances";
    type Document = Sheet;
    fn sources(sources: Sources<Self>) -> Sources<Self> {
        sources.follow::<Account>()
    }
}

impl Follow<Account> for Balances {
    fn keys(&self, _: &Recorded<Event>) -> Vec<String> {
        vec!["all".into()]
    }

    fn fold(&self, _: &str, mut sheet: Sheet, event: &Recorded<Event>) -> Folded<Sheet> {
        let balance = sheet.entry(event.key().id.to_string()).or_default();
        *balance += match event.event {
            Event::Deposited { cents } => cents as i64,
            Event::Withdrawn { cents } => -(cents as i64),
        };
        Folded::Put(sheet)
    }
}

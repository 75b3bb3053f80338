use highwater::{Folded, Follow, Recorded, Sources, View};

struct Loans;

impl View for Loans {
    const NAME: &'static str = "loans";
    type Document = BTreeSet<String>; // the titles that one reader has

    fn sources(sources: Sources<Self>) -> Sources<Self> {
        sources.follow::<Book>()
    }
}

impl Follow<Book> for Loans {
    fn keys(&self, event: &Recorded<Event>) -> Vec<String> {
        match &event.event {
            Event::Acquired { .. } => vec![],
            Event::Lent { to, .. } => vec![to.clone()],
            Event::TakenBack { from } => vec![from.clone()],
        }
    }

    fn fold(&self, _: &str, mut titles: BTreeSet<String>, event: &Recorded<Event>) -> Folded<BTreeSet<String>> {
        let title = event.key().id.to_string();
        match &event.event {
            Event::Lent { .. } => titles.insert(title),
            _ => titles.remove(&title),
        };
        if titles.is_empty() { Folded::Delete } else { Folded::Put(titles) }
    }
}

//! What the site stores can be read by the programs before and after this one.

use booking::capacity::Capacity;
use booking::month::MonthView;
use booking::receipt::ReceiptView;
use booking::sheet::SheetView;
use highwater_testkit::SchemaLock;

#[test]
fn what_is_stored_fits_what_was_stored() {
    SchemaLock::new(concat!(env!("CARGO_MANIFEST_DIR"), "/schema.lock"))
        .aggregate::<Capacity>()
        .view::<MonthView>()
        .view::<ReceiptView>()
        .view::<SheetView>()
        .check();
}

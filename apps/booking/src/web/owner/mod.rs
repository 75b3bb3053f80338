//! The owner's page: who comes on a day, and how many may. Closed without the password.

mod days;
mod letters;
mod page;
mod session;

pub(super) use days::change_days;
pub(super) use letters::send_again;
pub(super) use page::show;
pub(super) use session::{log_in, log_out};

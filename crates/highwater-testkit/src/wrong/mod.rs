//! Engines that are wrong on purpose, in one way each.

mod cells;
mod commands;
mod commits;
mod feeds;
mod lives;
mod poison;
mod queues;
mod views;

use crate::{Factory, Problem, TestClock};
use highwater_core::{Backend, async_trait};
use std::{fmt, sync::Arc};

/// A way to make a right backend wrong, and the rule that must notice.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Wrong {
    /// What it does wrong, in a name.
    pub name: &'static str,
    /// What it does wrong, in a sentence.
    pub says: &'static str,
    /// The one rule that it breaks.
    pub breaks: &'static str,
    /// Makes a right backend, on this clock, wrong.
    pub wrap: fn(&Backend, &Arc<TestClock>) -> Backend,
}

impl fmt::Debug for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Wrong {
    /// Makes backends as `right` does, and then wrong ones of them.
    pub fn around(self, right: impl Factory) -> impl Factory {
        Around { right, wrap: self.wrap }
    }

    /// Runs every rule against the wrong backend.
    ///
    /// # Errors
    /// What was broken, when it is anything but the one rule that should be.
    pub fn caught(self, right: impl Factory) -> Result<(), crate::Report> {
        let report = crate::run(self.around(right));
        if report.broken() == [self.breaks] { Ok(()) } else { Err(report) }
    }
}

struct Around<F> {
    right: F,
    wrap: fn(&Backend, &Arc<TestClock>) -> Backend,
}

#[async_trait]
impl<F: Factory> Factory for Around<F> {
    async fn fresh(&self, clock: Arc<TestClock>) -> Result<Backend, Problem> {
        let right = self.right.fresh(clock.clone()).await?;
        Ok((self.wrap)(&right, &clock))
    }
}

/// Hands the list to another macro: `__every_wrong! { [macro] arguments }`.
#[doc(hidden)]
#[macro_export]
macro_rules! __every_wrong {
    ([$($then:tt)*] $($arguments:tt)*) => { $($then)*! { $($arguments)*
        commits {
            ignores_etags
                "Lets a write through although the item has another ETag."
                breaks a_write_with_an_outdated_etag_is_a_conflict;
            keeps_the_writes_before_a_failed_condition
                "Leaves the first writes of a batch behind when the condition of a later one fails."
                breaks if_one_condition_fails_nothing_is_written;
            starts_versions_again_after_a_deletion
                "Forgets how far an item had counted when it is deleted."
                breaks versions_go_on_after_a_deletion;
            checks_an_etag_before_it_writes
                "Checks the ETag in one step and writes in another."
                breaks of_racing_writers_exactly_one_wins_each_version;
            checks_absence_before_it_writes
                "Checks that there is no item in one step and writes in another."
                breaks of_racing_creators_exactly_one_wins;
        }
        commands {
            writes_again_when_a_command_is_replayed
                "Answers a replayed command as it should, and carries it out once more."
                breaks a_replayed_command_writes_nothing;
            looks_at_conditions_before_the_command
                "Refuses a replayed command when its conditions fail by this time."
                breaks a_replay_is_answered_before_any_condition_is_looked_at;
            returns_the_old_result_for_other_content
                "Takes a command with a used id and other content for the old one."
                breaks a_reused_command_id_with_other_content_is_refused;
            forgets_rejections
                "Leaves no trace of a command that was rejected."
                breaks a_rejection_is_decided_once_too;
            takes_ids_as_unique_in_a_partition
                "Takes the same id under another key of the partition for the same command."
                breaks the_same_id_under_another_partition_key_is_another_command;
            looks_for_the_command_before_it_writes
                "Looks whether a command was decided in one step and commits it in another."
                breaks of_racing_copies_of_a_command_exactly_one_writes;
        }
        feeds {
            lets_changes_arrive_late
                "Shows a change only after readers have got past it."
                breaks a_reader_that_follows_misses_nothing;
            scans_past_what_it_returned
                "Says of a full page that everything up to the head was scanned."
                breaks pages_neither_repeat_nor_skip;
            jumps_over_pages_without_a_fit
                "Says of a page without a fit that more was scanned than was looked at."
                breaks narrowed_pages_skip_no_fit;
            stands_still_on_pages_without_a_fit
                "Says of a page without a fit that nothing was scanned."
                breaks a_page_without_any_fit_still_moves_on;
            splits_commits
                "Ends a page at its size, within a commit."
                breaks a_commit_is_delivered_whole_even_past_the_page_size;
            follows_the_clock_backwards
                "Takes the time of a change from the clock as it is."
                breaks the_time_of_changes_never_runs_backwards;
        }
        lives {
            shows_items_until_they_are_swept
                "Shows an item for a while after its time to live has passed."
                breaks an_expired_item_is_absent_at_once;
            takes_expired_items_for_living_ones
                "Lets a write through that expects the ETag of an item which has expired."
                breaks an_expired_item_fits_only_conditions_of_absence;
            writes_over_expired_items_in_silence
                "Leaves the expiry of an item out of the log."
                breaks a_write_over_an_expired_item_shows_its_expiry_first;
            keeps_the_first_life_of_an_item
                "Lets an item expire at the time that was set first."
                breaks a_put_sets_the_life_anew_and_a_kept_document_leaves_it;
            accepts_any_life
                "Cuts a time to live that is out of its range."
                breaks a_life_out_of_range_is_refused;
            shows_kept_documents_without_their_body
                "Shows only the last change in the latest mode, and no body if that kept it."
                breaks the_latest_mode_shows_each_changed_item_once_with_its_body;
            shows_deletions_in_the_latest_mode
                "Shows deletions in the latest mode."
                breaks the_latest_mode_shows_no_deletion;
            shows_expired_items_in_the_latest_mode
                "Goes on showing in the latest mode what has expired."
                breaks a_marked_item_is_shown_in_the_latest_mode_until_it_expires;
            gives_the_body_after_a_change_as_the_one_before
                "Gives the body after a change where the one before is asked for."
                breaks bodies_before_the_changes_come_on_request;
            lists_expired_cells
                "Lists cells whose time to live has passed."
                breaks an_expired_cell_is_absent_at_once;
            forgets_commands_after_a_week
                "Forgets decided commands after a week, whatever the horizon."
                breaks a_decided_command_is_remembered_within_the_horizon;
        }
        queues {
            accepts_stale_receipts
                "Lets the former owner of a message delete it although somebody else has taken it."
                breaks a_receipt_dies_when_the_message_is_taken_again;
            does_not_count
                "Says each time that a message was taken for the first time."
                breaks every_get_counts_and_gives_its_own_receipt;
            forgets_the_ids_of_deleted_messages
                "Puts a message again once the first of that id was deleted."
                breaks an_id_is_remembered_after_its_message_is_gone;
            puts_the_message_despite_the_cell
                "Names the cell in the way, and puts the message all the same."
                breaks a_cell_in_the_way_keeps_the_message_out;
            looks_before_it_takes
                "Reads what is visible in one step and takes it in another."
                breaks competing_getters_never_hold_the_same_message;
            looks_for_the_id_before_it_puts
                "Looks whether an id is remembered in one step and puts the message in another."
                breaks racing_puts_of_one_id_are_one_message;
            counts_only_what_is_visible
                "Leaves messages that are delayed or taken out of the count when a depth limit is given."
                breaks a_message_over_the_depth_limit_is_refused;
            looks_at_the_depth_before_it_puts
                "Reads the depth of a queue in one step and puts the message in another."
                breaks racing_puts_never_exceed_the_depth_limit;
        }
        poison {
            loses_the_history_when_parking
                "Parks a message without what happened to it."
                breaks a_parked_message_keeps_what_it_was;
            parks_by_deleting
                "Deletes a message instead of parking it."
                breaks a_parked_message_stands_in_the_poison_queue_with_its_reason;
            cannot_park_what_is_large
                "Loses a message that is too large with its reason beside it."
                breaks a_message_of_the_greatest_size_can_be_parked;
            clears_the_poison_too
                "Clears the poison queue with the queue."
                breaks clearing_a_queue_leaves_its_poison_alone;
        }
        cells {
            ignores_the_etags_of_cells
                "Lets a write through although the cell has another ETag."
                breaks a_write_of_a_cell_with_an_outdated_etag_is_a_conflict;
            starts_cells_again_after_a_deletion
                "Forgets how far a cell had counted when it is deleted."
                breaks the_versions_of_a_cell_go_on_after_its_deletion;
            checks_a_cell_before_it_writes
                "Checks the ETag of a cell in one step and writes in another."
                breaks of_racing_writers_of_a_cell_exactly_one_wins_each_version;
        }
        views {
            ignores_the_owner
                "Lets a former owner of a view write."
                breaks an_owner_that_was_taken_over_cannot_write;
            ignores_the_position
                "Lets a batch through although the view has moved on."
                breaks a_batch_made_at_another_position_is_refused;
            ignores_the_versions_of_documents
                "Overwrites a document that was changed since it was read."
                breaks a_document_that_was_changed_meanwhile_is_a_conflict;
            writes_documents_one_by_one
                "Writes several documents, and last of all the position, in a transaction each."
                breaks a_conflict_on_one_document_writes_nothing;
            writes_the_position_later
                "Hands a view over before the position of its last documents is written."
                breaks a_take_over_starts_where_the_last_batch_ended;
            mixes_stores
                "Takes the positions and documents of one store for those of another."
                breaks a_generation_of_a_view_belongs_to_one_store;
            carries_over_what_has_diverged
                "Goes on with a view that knows changes which the store has lost."
                breaks a_view_beyond_the_shared_history_is_not_carried_over;
            begins_again_in_every_life
                "Empties a view that could go on."
                breaks a_view_within_the_shared_history_goes_on_in_the_next_life;
            clears_without_an_aim
                "Empties a view and does not say that it has to come as far again."
                breaks a_cleared_view_has_nothing_and_says_how_far_it_has_to_come;
            clears_for_anybody
                "Lets a former owner empty a view."
                breaks clearing_a_view_fences_everybody_else_and_no_other_view;
            drops_tombstones
                "Forgets the marks of a deleted document."
                breaks a_deleted_document_leaves_its_marks;
        }
    } };
}

macro_rules! table {
    ($($module:ident { $($name:ident $says:literal breaks $rule:ident;)* })*) => {
        /// Every wrong store.
        pub const WRONG: &[Wrong] = &[$($(Wrong {
            name: stringify!($name),
            says: $says,
            breaks: stringify!($rule),
            wrap: $module::$name,
        },)*)*];
    };
}

__every_wrong! { [table] }

/// Makes one `#[test]` for each wrong store, in a module; the expression makes the [`Factory`] of the right one:
/// `wrong_stores! { in_memory: InMemory::default() }`.
#[macro_export]
macro_rules! wrong_stores {
    ($module:ident: $factory:expr) => {
        mod $module {
            #[allow(unused_imports)]
            use super::*;
            $crate::__every_wrong! { [$crate::__wrong_tests] [$factory] }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __wrong_tests {
    ([$factory:expr] $($file:ident { $($name:ident $says:literal breaks $rule:ident;)* })*) => { $($(
        #[doc = $says]
        #[test]
        fn $name() -> Result<(), $crate::Report> {
            $crate::WRONG
                .iter()
                .filter(|wrong| wrong.name == stringify!($name))
                .try_for_each(|wrong| wrong.caught($factory))
        }
    )*)* };
}

//! The one list of rules. Each names the function of the same name in the module of its area, the invariant of
//! the design it belongs to, what it needs of the factory, and the sentence.

mod cells;
mod command;
mod commit;
mod feed;
mod item;
mod life;
mod limits;
mod poison;
mod queue;
mod races;
mod receipt;
mod views;

use crate::rule::{Area, Need, Rule};

/// Hands the list to another macro: `__every_rule! { [macro] arguments }`.
#[doc(hidden)]
#[macro_export]
macro_rules! __every_rule {
    ([$($then:tt)*] $($arguments:tt)*) => { $($then)*! { $($arguments)*
        commit Commit {
            an_item_is_created_once []
                "A write that expects no item is a conflict where there is one, names it and changes nothing.";
            a_write_with_an_outdated_etag_is_a_conflict []
                "A write that expects an ETag the item no longer has is a conflict that names both.";
            a_write_with_the_current_etag_is_accepted []
                "A write that expects the ETag which the last commit returned, and a read shows, is accepted.";
            an_etag_never_fits_an_item_that_was_never_written []
                "A write that expects an ETag is a conflict, found nothing, where no item was ever written.";
            a_write_to_an_item_that_must_exist_is_refused_without_one []
                "A write that expects an item is refused as not found where none was written or it was deleted.";
            a_deleted_item_is_absent_and_keeps_the_etag_of_its_deletion []
                "After a deletion a write may expect no item, or the ETag of the deletion, but no older one.";
            versions_go_on_after_a_deletion []
                "Every change of an item has the next version; a deletion does not start them again.";
            a_write_of_the_same_content_changes_the_etag []
                "Writing what is already there changes the ETag all the same.";
            if_one_condition_fails_nothing_is_written [1]
                "If one condition of a batch fails, the error names that write and nothing of the batch is there.";
            conditions_hold_for_deletions_and_kept_documents_too []
                "Deletions and writes that keep the document are as conditional as any other write.";
            etags_come_in_the_order_of_the_writes []
                "A commit returns the new ETag of each item, in the order of its writes.";
            a_kept_document_without_events_leaves_an_absent_item_absent [7]
                "Keeping the document without events takes a version and leaves an absent item absent.";
            a_kept_document_with_events_brings_an_item_into_being []
                "Keeping the document with events brings an item without a body into being.";
            deleting_what_does_not_exist_is_recorded []
                "Deleting what does not exist is allowed, takes a version and stands in the log.";
            container_partition_key_and_id_tell_items_apart []
                "Items that differ in container, partition key or id only are different items.";
            what_was_acknowledged_is_there_after_opening_again [1] (needs Reopen)
                "Whatever a commit returned for is there after opening again, and its positions are not given twice.";
        }
        command Command {
            a_replayed_command_returns_its_first_result [7]
                "A command that was decided returns its first token, ETags and verdict, marked as replayed.";
            a_replayed_command_writes_nothing [7]
                "A command that was decided writes nothing when it is committed again.";
            a_replay_is_answered_before_any_condition_is_looked_at [7]
                "A command that was decided is answered although the conditions would fail by this time.";
            a_reused_command_id_with_other_content_is_refused [7]
                "A command id that comes again with another fingerprint is refused and writes nothing.";
            the_same_id_under_another_partition_key_is_another_command [7]
                "The same command id under another partition key, even of the same partition, is another command.";
            a_rejection_is_decided_once_too [7]
                "A rejection is recorded, read back and repeated; a later attempt cannot turn it round.";
            a_command_is_undecided_until_it_is_committed [7]
                "A command has no decision before its commit succeeds, nor after one that failed.";
            a_decision_read_back_is_what_the_commit_returned [7]
                "A decision read back has the mark, the token, the ETags and the first position of its commit.";
            the_mark_stands_on_the_first_change_of_its_commit [1]
                "In the log the command's mark stands on the first change of its commit and on no other.";
            a_decision_is_remembered_after_opening_again [7] (needs Reopen)
                "A command is decided once across a restart.";
        }
        item Item {
            an_item_that_was_never_written_is_nothing []
                "An item that was never written is nothing and has no history.";
            an_item_is_its_newest_body_and_the_events_after_it []
                "An item is read as its newest body, that body's version, and the later changes with events.";
            after_a_deletion_only_later_events_count []
                "After a deletion an item has neither body nor earlier events.";
            a_history_is_newest_first_and_leaves_rejections_out []
                "A history lists the changes with a body, events or a deletion, newest first, and no rejection.";
            a_history_is_read_in_pages []
                "A history can be read a few changes at a time, below a version.";
            hostile_text_in_keys_survives []
                "Any text that is a key comes back as it was, and keys that look alike are different keys.";
            bodies_and_events_come_back_as_they_were_written []
                "Bodies and events come back with their schema versions and every character.";
            a_container_exists_as_soon_as_it_is_named []
                "Every name is a container, without being created first.";
        }
        feed Feed {
            an_empty_log_has_nothing_and_is_at_its_end []
                "An empty partition has no change, scans nothing, is at its end and is not in the head.";
            a_change_carries_what_was_committed [1]
                "One change carries position, time, item, version, body, events and the command's mark.";
            changes_stand_in_commit_order_at_rising_positions [3]
                "Changes stand in the order in which they were committed, at rising positions.";
            the_changes_of_a_commit_are_numbered_and_stand_together []
                "The changes of a commit stand at consecutive positions in the order of its writes, numbered.";
            a_commit_is_delivered_whole_even_past_the_page_size [3]
                "A page never ends within a commit, even if the commit is larger than the page.";
            pages_neither_repeat_nor_skip [2]
                "Reading on from where a page says it has scanned to, every change comes once.";
            a_page_says_whether_more_follows []
                "A page says whether it is at the end of the log.";
            narrowing_returns_what_fits_and_nothing_else []
                "A page narrowed to containers or a partition key has exactly the changes that fit.";
            a_page_without_any_fit_still_moves_on [3]
                "A page on which nothing fits says how far it has scanned all the same.";
            narrowed_pages_skip_no_fit [2]
                "Narrowed pages of any size, read one after the other, have every change that fits.";
            a_position_beyond_the_end_has_diverged [8]
                "Reading on from beyond the end of the log is refused; reading on from the very end is not.";
            a_partition_that_does_not_exist_is_named []
                "A partition that the store does not have is refused by its number.";
            the_head_is_the_end_of_every_partition_with_changes [8]
                "The head is the merger of the tokens of all commits.";
            the_token_of_a_commit_is_its_last_position [8]
                "The token of a commit asks for the position of its last change.";
            a_key_has_its_changes_in_one_partition [3]
                "All changes of a partition key stand in the partition that its hash picks.";
            a_moment_leads_to_the_last_position_before_it [11]
                "A moment leads to the last position that was committed before it, not at it.";
            the_time_of_changes_never_runs_backwards [11]
                "The time of changes does not fall when the clock is set back.";
            time_does_not_run_backwards_over_a_restart [11] (needs Reopen)
                "The time of changes does not fall when the clock was set back during a restart.";
            cells_messages_and_views_enter_no_feed []
                "Writing a cell or putting a message leaves the log alone.";
            a_commit_held_open_is_not_passed_by_readers [2] (needs Hold)
                "While a commit is held open no reader gets past its position, and none misses it afterwards.";
        }
        life Life {
            an_expired_item_is_absent_at_once []
                "An item whose time to live has passed is absent from that microsecond on.";
            an_expired_item_fits_only_conditions_of_absence []
                "An expired item fits a write that expects none, no older ETag, and its versions go on.";
            a_write_over_an_expired_item_shows_its_expiry_first []
                "A write over an expired item stands in the log after the item's expiry.";
            a_put_sets_the_life_anew_and_a_kept_document_leaves_it []
                "A body sets or removes the time to live; a kept document leaves it, or sets another.";
            a_life_out_of_range_is_refused []
                "A time to live under a second or over the longest is refused; at the limits it is accepted.";
            the_latest_mode_shows_each_changed_item_once_with_its_body []
                "The latest mode shows each item once, at its last change, with its body, and again when it changed.";
            the_latest_mode_shows_no_deletion []
                "The latest mode shows nothing of an item that was deleted.";
            a_marked_item_is_shown_in_the_latest_mode_until_it_expires []
                "A marker with a time to live is shown in the latest mode until it expires.";
            bodies_before_the_changes_come_on_request []
                "A feed that asks for them has the body before each change, of kept documents too.";
            an_expired_cell_is_absent_at_once []
                "An expired cell is absent for reads, lists and conditions; written anew it goes on counting.";
            a_decided_command_is_remembered_within_the_horizon [12]
                "A decided command is remembered as long as the horizon says, for ever without one.";
        }
        limits Limits {
            a_batch_has_as_many_writes_as_allowed_and_no_more []
                "A batch with as many writes as allowed is accepted; one more is refused.";
            a_change_is_as_large_as_allowed_and_no_larger []
                "A change whose body and events are as large as allowed is accepted; one byte more is refused.";
            a_batch_is_as_large_as_allowed_and_no_larger []
                "A batch as large as allowed is accepted; one byte more is refused.";
            a_change_has_as_many_events_as_allowed_and_no_more []
                "A change with as many events as allowed is accepted; one more is refused.";
            an_events_name_is_as_long_as_allowed_and_no_longer []
                "An event under the longest name is accepted; one byte more is refused.";
            the_reason_of_a_rejection_counts_in_the_first_change []
                "A rejection whose reason fills what a change may have is accepted; one byte more is refused.";
            a_batch_without_a_write_is_refused []
                "A batch without a write is refused.";
            a_batch_writes_each_item_once []
                "A batch that writes an item twice is refused; the same id in two containers is not the same item.";
            a_message_is_as_large_as_allowed_and_no_larger []
                "A message as large as allowed is put and updated; one byte more is refused.";
            a_cell_is_as_large_as_allowed_and_no_larger []
                "A cell as large as allowed under the longest key is written; one byte more of either is refused.";
        }
        queue Queue {
            a_message_can_be_taken_at_once []
                "A message put without a delay can be taken at once, with any bytes in it.";
            a_delayed_message_waits_until_its_time []
                "A delayed message is invisible until its time has come, to the microsecond.";
            delays_and_lives_out_of_range_are_refused []
                "A delay over the longest and a life under a second are refused; at the limit they are accepted.";
            a_second_put_of_an_id_is_the_same_message [7]
                "A second put of an id changes nothing and gives no receipt; in another queue it is another message.";
            an_id_is_remembered_after_its_message_is_gone [7]
                "A second put of an id puts nothing even after the message was deleted.";
            a_message_disappears_when_its_life_is_over []
                "A message with a time to live that nobody took disappears when it is over; without one, never.";
            a_message_that_was_taken_in_time_does_not_disappear [5]
                "A message that was taken within its time to live stays until it is deleted.";
            a_get_takes_as_many_as_asked_for []
                "A get or peek takes one message to as many as the limit; none and one more are refused.";
            a_visibility_out_of_range_is_refused []
                "A visibility of nothing, under a second or over the longest is refused; the longest is accepted.";
            a_taken_message_is_invisible_for_exactly_its_visibility []
                "A taken message is invisible until its visibility has passed, to the microsecond.";
            every_get_counts_and_gives_its_own_receipt [5]
                "Every get raises the dequeue count by one and gives a receipt of its own.";
            looking_at_a_message_changes_nothing []
                "Looking shows visible messages only and leaves them and their counts as they are.";
            messages_come_by_the_time_they_became_visible_then_as_put []
                "Messages come in the order of the time they became visible, then of their putting.";
            the_depth_counts_visible_in_flight_delayed_and_parked [10]
                "The depth counts visible, in flight and delayed messages, and says since when the oldest is visible.";
            clearing_takes_every_message_visible_or_not []
                "Clearing removes every message of the one queue, visible or not, and says how many.";
            a_cell_is_written_with_its_message []
                "A message put with a cell leaves both.";
            a_cell_in_the_way_keeps_the_message_out []
                "If the condition of the cell fails, it is named and no message is put.";
            a_message_over_the_depth_limit_is_refused []
                "A message with a depth limit is refused when so many lie in the queue, parked and expired ones not counted.";
        }
        receipt Queue {
            the_sender_can_take_a_message_back_before_anyone_took_it []
                "The receipt of a put deletes the message before anyone took it.";
            the_sender_can_set_another_time_before_anyone_took_it []
                "The receipt of a put sets another time for the message before anyone took it.";
            a_receipt_dies_when_the_message_is_taken_again [6]
                "A receipt, the sender's too, can neither update nor park nor delete what was taken again.";
            a_receipt_dies_when_the_message_is_updated [6]
                "A receipt that was used to update can do nothing more; the one returned can.";
            a_lapsed_receipt_is_good_until_somebody_else_took_the_message [6]
                "A receipt whose visibility has lapsed is good as long as nobody else took the message.";
            a_gone_message_is_not_found [6]
                "A receipt for a message that is gone is answered as not found, not as somebody else's.";
            an_update_sets_time_body_and_history_and_leaves_the_count []
                "An update sets the time, the body and a note in the history; id, putting and count stay.";
            a_message_can_be_released_at_once []
                "An update to no delay makes the message visible at once, body unchanged.";
            a_history_keeps_its_newest_entries []
                "A message keeps the newest entries of its history, up to the limit.";
        }
        poison Poison {
            a_parked_message_stands_in_the_poison_queue_with_its_reason [5]
                "A parked message stands in the poison queue with reason, error, by whom and since when.";
            a_parked_message_keeps_what_it_was [5]
                "A parked message keeps body, time of putting, dequeue count and history.";
            a_parked_message_has_left_its_queue [5]
                "A parked message can no longer be taken, is not counted in the queue, and its id stays remembered.";
            a_parked_message_never_expires [5]
                "A parked message stays for ever, whatever its time to live was.";
            a_message_of_the_greatest_size_can_be_parked [5]
                "A message as large as allowed can be parked, reason, error and history included.";
            a_replayed_message_starts_afresh_with_its_history [5]
                "A replayed message is visible at once with id, history, count 0 and a note why it was parked.";
            long_notes_and_reasons_are_cut []
                "A note in a history and the texts of a parking are cut at their limits, and nothing is refused.";
            a_message_is_replayed_once [5]
                "A parked message can be replayed once; a second replay finds nothing parked.";
            a_discarded_message_is_gone_for_good []
                "A discarded message is in neither queue, and cannot be discarded or replayed again.";
            a_discarded_message_may_be_put_again []
                "The id of a discarded message is forgotten: a put of it is a new message.";
            clearing_a_queue_leaves_its_poison_alone [5]
                "Clearing a queue leaves its parked messages alone.";
            parked_messages_are_read_in_pages_by_id []
                "Parked messages of one queue are read a few at a time in the order of their ids.";
            messages_and_their_state_survive_opening_again [5] (needs Reopen)
                "Messages, counts, receipts, remembered ids and parked messages are there after opening again.";
        }
        cells Cells {
            a_cell_is_read_as_it_was_written []
                "A cell is read as it was written; every write changes its ETag; spaces are kept apart.";
            a_cell_is_created_once []
                "A write that expects no cell is a conflict where there is one and changes nothing.";
            a_write_of_a_cell_with_an_outdated_etag_is_a_conflict [6]
                "A write that expects an ETag the cell no longer has is a conflict and changes nothing.";
            a_write_of_a_cell_that_must_exist_is_refused_without_one []
                "A write that expects a cell is a conflict where there is none.";
            a_cell_is_deleted_under_a_condition [6]
                "A deletion of a cell keeps its condition; deleting what is not there is fine without one.";
            the_versions_of_a_cell_go_on_after_its_deletion [6]
                "A deleted and rewritten cell has a later version, and no ETag from before fits.";
            cells_are_listed_in_pages_by_key []
                "The cells of one space are listed a few at a time in the order of the bytes of their keys.";
            cells_survive_opening_again [] (needs Reopen)
                "Cells, and the versions of deleted ones, are there after opening again.";
        }
        views Views {
            every_claim_raises_the_owners_epoch [6]
                "Every claim of a slot has a higher owner epoch; the first has no position.";
            documents_and_position_are_written_together [4]
                "A batch leaves its documents, their marks and its position.";
            a_take_over_starts_where_the_last_batch_ended [6]
                "A claim returns the position of the last batch that was written.";
            an_owner_that_was_taken_over_cannot_write [6]
                "A batch under a claim that somebody else has followed is refused and leaves nothing.";
            a_batch_made_at_another_position_is_refused [4]
                "A batch made at a position that the view has left is refused, by the right owner too.";
            a_document_that_was_changed_meanwhile_is_a_conflict [4]
                "A document that another partition wrote since it was read is a conflict that names it.";
            a_conflict_on_one_document_writes_nothing [4]
                "If one document of a batch is a conflict, no document and no position is written.";
            a_deleted_document_leaves_its_marks [4]
                "A deleted document leaves a tombstone with its marks, which is read, goes on counting and is not listed.";
            documents_come_in_the_order_asked_for []
                "Documents come in the order of the keys asked for, nothing for one that was never written.";
            documents_are_listed_in_pages_by_key []
                "The documents of a view are listed a few at a time in the order of the bytes of their keys.";
            a_view_says_how_far_it_has_come_in_every_partition [8]
                "A view says how far it has come in each partition that has a position, and nothing before it began.";
            a_view_is_in_the_lowest_epoch_of_its_partitions [8]
                "A view whose partitions stand in several epochs of a store says the lowest.";
            generations_and_stores_are_kept_apart []
                "The next generation of a view has documents and positions of its own.";
            a_generation_of_a_view_belongs_to_one_store [4]
                "A generation of a view that was claimed for one store is refused to any other, by both their names.";
            a_document_is_as_large_as_allowed_and_no_larger []
                "A document as large as allowed is written; one byte more is refused.";
            a_batch_has_as_many_documents_as_allowed_and_no_more []
                "A batch with as many documents as allowed is written; one more is refused.";
            a_documents_key_is_as_long_as_allowed_and_no_longer []
                "A document under the longest key is written; one byte more is refused.";
            marks_keep_many_sources_and_the_greatest_numbers [4]
                "The marks of a document keep every source as written and every version.";
            a_view_within_the_shared_history_goes_on_in_the_next_life [8]
                "A view no slot of which is beyond what two lives share goes on, all of it, in the next life.";
            a_view_beyond_the_shared_history_is_not_carried_over [8]
                "A view with one slot beyond what two lives share has diverged, is told so and stays as it is.";
            a_cleared_view_has_nothing_and_says_how_far_it_has_to_come [8]
                "A view that is cleared has no document and no position, and says why and how far it has to come.";
            clearing_a_view_fences_everybody_else_and_no_other_view [6]
                "Only the owner of a slot clears a view; every other claim of it ends, and no other view is touched.";
            views_survive_opening_again [4] (needs Reopen)
                "Documents, tombstones, positions and owner epochs are there after opening again.";
        }
        races Races {
            of_racing_writers_exactly_one_wins_each_version [1]
                "Of several writers that expect the same ETag one wins; no increment is lost.";
            of_racing_creators_exactly_one_wins [1]
                "Of several writers that expect no item one wins.";
            of_racing_copies_of_a_command_exactly_one_writes [7]
                "Of several commits of one command one writes and the others return what it returned.";
            a_reader_that_follows_misses_nothing [2]
                "Readers that follow the log while many write see every change, in order, as a later reader does.";
            competing_getters_never_hold_the_same_message [6]
                "Messages taken by several at once are taken once each.";
            of_racing_owners_of_a_message_exactly_one_settles_it [6]
                "Of several deletions with the same receipt one succeeds and the others find nothing.";
            racing_puts_of_one_id_are_one_message [7]
                "Several puts of one id at once are one message, and one of them gets the receipt.";
            racing_puts_never_exceed_the_depth_limit []
                "Of several puts at once as many succeed as the depth limit allows.";
            of_racing_writers_of_a_cell_exactly_one_wins_each_version [6]
                "Of several writers that expect the same ETag of a cell one wins; no increment is lost.";
            racing_owners_of_a_view_apply_each_change_once [4]
                "While several claim a view and write to it, each accepted batch counts once.";
        }
    } };
}

macro_rules! table {
    ($($module:ident $area:ident {
        $($name:ident [$($invariant:literal)?] $((needs $need:ident))? $says:literal;)*
    })*) => {
        /// Every rule.
        pub const RULES: &[Rule] = &[$($(Rule {
            name: stringify!($name),
            says: $says,
            invariant: optional!($($invariant)?),
            area: Area::$area,
            needs: optional!($(Need::$need)?),
            check: |subject| Box::pin($module::$name(subject)),
        },)*)*];
    };
}

macro_rules! optional {
    () => {
        None
    };
    ($value:expr) => {
        Some($value)
    };
}

__every_rule! { [table] }

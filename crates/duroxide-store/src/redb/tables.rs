//! The tables of the file. Only this file names them.
//!
//! What is in a queue lies in `messages` (never rewritten) and `states`; the other queue tables are indexes and
//! leases, changed together with them.

use ::redb::{ReadOnlyTable, ReadTransaction, TableDefinition, WriteTransaction};

use super::error::Result;
use super::lazy_table::LazyTable;

/// Rows that one deletion, or one step behind it, removes at most: a few milliseconds.
pub(super) const STEP: usize = 512;

type Text = &'static str;
type Label = Option<&'static str>;
/// Last partition of a range, and how many of its events are left.
pub(super) type Listed = (u64, u64);

macro_rules! tables {
    (
        read { $($(#[$doc:meta])* $name:ident: $key:ty => $value:ty;)* }
        write_only { $($(#[$wdoc:meta])* $wname:ident: $wkey:ty => $wvalue:ty;)* }
    ) => {
        /// All tables, to be written; each is opened when it is first touched.
        pub(super) struct Tables<'t> {
            $($(#[$doc])* pub(super) $name: LazyTable<'t, $key, $value>,)*
            $($(#[$wdoc])* pub(super) $wname: LazyTable<'t, $wkey, $wvalue>,)*
            /// Whether something may be deleted and still in the file. Where nothing is, nobody looks for it.
            pub(super) has_remains: bool,
            /// Whether this transaction added to it.
            pub(super) has_listed: bool,
            /// Rows that one deletion, or one step behind it, removes at most.
            pub(super) step: usize,
        }

        impl<'t> Tables<'t> {
            pub(super) fn of(txn: &'t WriteTransaction) -> Self {
                Self {
                    $($name: LazyTable::new(txn, definition::$name),)*
                    $($wname: LazyTable::new(txn, definition::$wname),)*
                    has_remains: true,
                    has_listed: false,
                    step: STEP,
                }
            }
        }

        impl Tables<'_> {
            /// Something was deleted and is still in the file.
            pub(super) fn has_left_some(&mut self) {
                self.has_remains = true;
                self.has_listed = true;
            }
        }

        /// Makes all tables, so that queries find them.
        pub(super) fn create(txn: &WriteTransaction) -> Result<()> {
            $(txn.open_table(definition::$name)?;)*
            $(txn.open_table(definition::$wname)?;)*
            Ok(())
        }

        /// The tables that queries read, as they were at one moment.
        pub(super) struct Views {
            $($(#[$doc])* pub(super) $name: ReadOnlyTable<$key, $value>,)*
        }

        impl Views {
            pub(super) fn open(txn: &ReadTransaction) -> Result<Self> {
                Ok(Self { $($name: txn.open_table(definition::$name)?,)* })
            }
        }

        #[allow(non_upper_case_globals, reason = "named like the fields")]
        mod definition {
            use super::{Label, Listed, TableDefinition, Text};
            $(pub(super) const $name: TableDefinition<'static, $key, $value> =
                TableDefinition::new(stringify!($name));)*
            $(pub(super) const $wname: TableDefinition<'static, $wkey, $wvalue> =
                TableDefinition::new(stringify!($wname));)*
        }
    };
}

tables! {
    read {
        /// Entity, partition, number.
        events: (Text, u64, u64) => &'static [u8];
        /// Entity, first partition: deleted events that are still in `events`.
        discarded: (Text, u64) => Listed;
        /// Queue, group: deleted messages that are still in `messages` and its indexes. No queue, scope: deleted
        /// entries that are still in `entries`.
        discarded_names: (Label, Text) => ();
        /// Scope, key.
        entries: (Text, Text) => &'static [u8];
        /// How each queue delivers: whether in groups.
        queues: Text => bool;
        /// Queue, message to group, key, affinity, label, kind, role, stamp, payload, time of enqueueing.
        messages: (Text, u64) => (Text, Label, Label, Label, Label, u8, Option<u64>, &'static [u8], u64);
        /// Message to visible time, attempts, place, lease. The place of a single message is 0 if it is ready, else
        /// until when it waits; that of a message of a group is its time in `by_group`.
        states: u64 => (u64, u32, Option<u64>, Label);
        /// Queue, group, time, message. Grouped delivery: the time is when it is due, 0 once it was seen to be visible.
        by_group: (Text, Text, u64, u64) => ();
        /// Queue, group to label, kind, lease, end of rest, place in the ready line, kind of that line, until when it
        /// rests, place among the alarms.
        groups: (Text, Text) => (Label, Label, Label, u64, Option<(u64, u64)>, Label, Option<u64>, Option<(u64, u64)>);
        /// Queue, group, key, message.
        by_key: (Text, Text, Text, u64) => ();
        /// Grouped delivery: queue, label, kind, since when, oldest message, group.
        schedule: (Text, Label, Label, u64, u64, Text) => ();
        /// Queue, group, list of roles, message.
        roles: (Text, Text, u8, u64) => ();
        /// Grouped delivery: queue, until when, group.
        resting: (Text, u64, Text) => ();
        /// Single delivery: queue, label, kind, affinity, message.
        ready: (Text, Label, Label, Label, u64) => ();
        /// Single delivery: queue, time, message.
        waiting: (Text, u64, u64) => ();
        /// Token to queue, group, end, claimed messages.
        leases: Text => (Text, Text, u64, Vec<u64>);
    }
    write_only {
        /// Numbers of the file itself: `format`, `last_message` and `clock`.
        numbers: Text => u64;
        /// Grouped delivery: queue, label, time of the alarm, message, group.
        alarms: (Text, Label, u64, u64, Text) => ();
        /// Queue, affinity, message.
        by_affinity: (Text, Text, u64) => ();
        /// Queue, affinity to owner, end, when it was last active.
        affinities: (Text, Text) => (Text, u64, u64);
    }
}

/// The one table that is read before the format is known.
pub(super) fn numbers() -> TableDefinition<'static, Text, u64> {
    definition::numbers
}

/// What `numbers["format"]` must say.
pub(super) const FORMAT: u64 = 4;

/// What it said before there were the tables `discarded` (2) and `discarded_names` (3).
pub(super) const FORMATS_BEFORE: std::ops::RangeInclusive<u64> = 2..=3;

/// Which of `numbers` says how late it was at one of the last writes, so that a clock that was set back while the file
/// was closed lengthens no lease.
pub(super) const CLOCK: &str = "clock";

//! How much one transaction may still delete or write. In: the payload of a row that goes. Out: what is left. Tables
//! spend it, operations hand it on from table to table.

/// About how many bytes of a payload lie on one page of the file, each of which is freed by itself.
const PAGE: i64 = 4_096;

/// Takes what it costs to delete a row with such a payload: one, and one more for each page that the payload fills. One
/// row always fits while anything is left, whatever its size.
pub(crate) fn spend(left: &mut usize, payload_bytes: i64) {
    *left = left.saturating_sub(cost(payload_bytes));
}

/// What a row with such a payload costs, to delete or to write.
pub(crate) fn cost(payload_bytes: i64) -> usize {
    1 + usize::try_from(payload_bytes / PAGE).unwrap_or(0)
}

/// At most so many rows are worth looking at.
pub(super) fn rows(left: usize) -> i64 {
    i64::try_from(left).unwrap_or(i64::MAX)
}

/// Rows that are to go, as far as an index tells.
#[derive(Debug, Default)]
pub(crate) struct Going {
    pub(crate) ids: Vec<i64>,
    /// Whether there are others that were passed over.
    pub(crate) leaves_some: bool,
}

impl Going {
    /// Takes a row or passes it over; returns whether another one is wanted.
    pub(super) fn meet(&mut self, id: i64, is_passed_over: bool, max: usize) -> bool {
        if is_passed_over {
            self.leaves_some = true;
        } else {
            self.ids.push(id);
        }
        self.ids.len() < max
    }
}

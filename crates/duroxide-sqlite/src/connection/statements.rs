//! Prepared statements of one connection. In: SQL literals. Out: the statement prepared for each, once.
//!
//! Found by address and length of the literal, which together are its identity: a cache keyed by text would hash a few
//! hundred bytes twice for every statement, which is a sixth of the cost of a short one. Among some sixty literals a
//! few comparisons cost less than a hash.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use rusqlite::{Connection, PrepFlags, Statement};

/// Runs one prepared statement. A trait, so that a transaction need not name the lifetime of the connection behind
/// its statements.
pub(crate) trait Prepared {
    /// Calls `work` once with the statement prepared for this literal.
    fn visit(&self, sql: &'static str, work: StatementFn<'_>) -> rusqlite::Result<()>;
}

pub(crate) type StatementFn<'w> = &'w mut dyn FnMut(&mut Statement<'_>) -> rusqlite::Result<()>;

impl dyn Prepared + '_ {
    /// Runs `work` with the statement prepared for this literal.
    pub(crate) fn with<T>(
        &self,
        sql: &'static str,
        work: impl FnOnce(&mut Statement<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let mut work = Some(work);
        let mut answer = None;
        self.visit(sql, &mut |statement| {
            answer = work.take().map(|work| work(statement)).transpose()?;
            Ok(())
        })?;
        answer.ok_or(rusqlite::Error::InvalidQuery)
    }
}

/// Address and length of a literal.
type Literal = (usize, usize);

pub(crate) struct Statements<'c> {
    conn: &'c Connection,
    prepared: RefCell<BTreeMap<Literal, Rc<RefCell<Statement<'c>>>>>,
}

impl<'c> Statements<'c> {
    pub(crate) fn new(conn: &'c Connection) -> Self {
        Self {
            conn,
            prepared: RefCell::default(),
        }
    }

    pub(crate) fn connection(&self) -> &'c Connection {
        self.conn
    }

    /// Runs a statement without parameters and rows.
    pub(crate) fn run(&self, sql: &'static str) -> rusqlite::Result<()> {
        self.visit(sql, &mut |statement| statement.execute([]).map(drop))
    }

    fn prepared(&self, sql: &'static str) -> rusqlite::Result<Rc<RefCell<Statement<'c>>>> {
        // One literal may begin another one, at the same address.
        let key = (sql.as_ptr().addr(), sql.len());
        if let Some(known) = self.prepared.borrow().get(&key) {
            return Ok(Rc::clone(known));
        }
        // With the flag for kept statements, SQLite leaves its lookaside memory to cursors and values: a few dozen kept
        // statements would use it up, and every cursor of every statement would be a call of the allocator.
        let flags = PrepFlags::SQLITE_PREPARE_PERSISTENT;
        let fresh = Rc::new(RefCell::new(self.conn.prepare_with_flags(sql, flags)?));
        self.prepared.borrow_mut().insert(key, Rc::clone(&fresh));
        Ok(fresh)
    }
}

impl Prepared for Statements<'_> {
    fn visit(&self, sql: &'static str, work: StatementFn<'_>) -> rusqlite::Result<()> {
        let statement = self.prepared(sql)?;
        match statement.try_borrow_mut() {
            Ok(mut statement) => work(&mut statement),
            // In use further up: a walk asks the same question about one of its rows.
            Err(_) => work(&mut self.conn.prepare(sql)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_that_begins_another_one_is_another_statement() {
        const LONG: &str = "SELECT 1 + 1";
        let short: &'static str = &LONG[..8];
        let conn = Connection::open_in_memory().unwrap();
        let statements = Statements::new(&conn);
        let statements: &dyn Prepared = &statements;
        let value = |sql| statements.with(sql, |it| it.query_row([], |row| row.get::<_, i64>(0)));
        assert_eq!((value(short).unwrap(), value(LONG).unwrap()), (1, 2));
    }
}

//! What was claimed for a caller that is gone. In: a turn or an activity. Out: it is back in its queue, or its lease
//! lapses.

use std::sync::Arc;

use crate::calls::claim_turns::RawTurn;
use crate::calls::claim_work::RawWork;
use crate::connection::call::Call;
use crate::connection::db::Db;
use crate::error::PgError;

/// Gives a turn back whose caller is gone.
pub(super) fn give_back_turn(db: &Arc<Db>) -> impl FnMut(RawTurn) + use<> {
    let db = Arc::clone(db);
    move |turn| {
        let db = Arc::clone(&db);
        tokio::spawn(async move {
            let call = Call::new("abandon_turn")
                .int(db.expected.now())
                .text(&turn.instance)
                .uuid(turn.random)
                .opt_int(None)
                .flag(true);
            if let Err(error) = db.transact(&[call]).await {
                lapses(&error);
            }
        });
    }
}

/// Gives an activity back whose caller is gone.
pub(super) fn give_back_work(db: &Arc<Db>) -> impl FnMut(RawWork) {
    let db = Arc::clone(db);
    move |work| {
        let db = Arc::clone(&db);
        tokio::spawn(async move {
            let call = Call::new("abandon_work")
                .int(db.expected.now())
                .int(work.id)
                .uuid(work.random)
                .opt_int(None)
                .flag(true);
            if let Err(error) = db.transact(&[call]).await {
                lapses(&error);
            }
        });
    }
}

fn lapses(error: &PgError) {
    tracing::debug!(target: "duroxide::providers::postgres", %error, "a claim that nobody waits for could not be given back, it lapses");
}

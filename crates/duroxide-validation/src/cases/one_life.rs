//! What is meant for one life of an id reaches no other.

use duroxide_core::provider::{
    IdState, Incarnation, InstanceQuery, InstanceSummary, MessageRule, Pausing, Submission,
    Submitted, TurnClaim,
};

use crate::ProviderFactory;
use crate::fixture::{Bench, Commit, items};

async fn listed<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, id: &str) -> InstanceSummary {
    let query = InstanceQuery::new().with_id_prefix(id);
    let page = bench.admin().query_instances(&query).await;
    page.expect("a query is answered").items.remove(0)
}

async fn life_of<F: ProviderFactory + ?Sized>(bench: &Bench<'_, F>, id: &str) -> Incarnation {
    let life = listed(bench, id).await.incarnation;
    life.expect("a summary tells the life")
}

/// Ends a life of the id and begins another; both lives.
async fn two_lives<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    second: Commit,
) -> [Incarnation; 2] {
    bench.create("i").await;
    let earlier = life_of(bench, "i").await;
    let deleted = bench.admin().delete_instance("i", true).await;
    deleted.expect("an instance can be deleted");
    bench.create_with("i", second).await;
    [earlier, life_of(bench, "i").await]
}

async fn send<F: ProviderFactory + ?Sized>(
    bench: &Bench<'_, F>,
    rule: MessageRule,
    life: Incarnation,
) -> Submitted {
    let message = items::queue_message("i", "data");
    let submission = Submission::messages("i", rule, vec![message]).of_life(life);
    let submitted = bench.store.submit(submission).await;
    submitted.expect("a submission is answered")
}

/// A list tells the same life as a claim, over all executions.
pub async fn a_list_tells_which_life_it_is<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let [earlier, later] = two_lives(&bench, Commit::first()).await;
    assert_ne!(earlier, later);
    bench.send(items::signal("i", "go")).await;
    let claim = TurnClaim::one(bench.lock, std::time::Duration::ZERO, None);
    let turns = bench.store.claim_turns(claim).await.expect("a claim");
    assert_eq!(turns[0].incarnation, Some(later));
    let told = bench.admin().incarnation("i").await;
    assert_eq!(told.expect("it can be asked"), Some(later));
    let nobody = bench.admin().incarnation("nobody").await;
    assert_eq!(nobody.expect("it can be asked"), None);
}

/// To a message for an earlier life it is as if nothing had the id; nothing is stored, whatever the rule.
pub async fn a_message_for_one_life_reaches_no_other<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let [earlier, later] = two_lives(&bench, Commit::first()).await;
    for rule in [
        MessageRule::MustBeAlive,
        MessageRule::MustNotHaveEnded,
        MessageRule::MustHaveEnded,
    ] {
        let sent = send(&bench, rule, earlier).await;
        assert_eq!(sent, Submitted::Refused(IdState::Unknown), "{rule:?}");
    }
    bench.idle("nothing was stored").await;
    let sent = send(&bench, MessageRule::MustHaveEnded, later).await;
    assert_eq!(sent, Submitted::Refused(IdState::Running));
    let sent = send(&bench, MessageRule::MustBeAlive, later).await;
    assert_eq!(sent, Submitted::Joined(IdState::Running));
    let turn = bench.turn_of("i").await;
    assert_eq!(turn.item.messages, [items::queue_message("i", "data")]);
}

/// Also if nothing, or only a start that is queued, has the id.
pub async fn a_message_for_a_life_that_is_gone_is_not_kept<F: ProviderFactory + ?Sized>(
    factory: &F,
) {
    let bench = Bench::open(factory).await;
    bench.create("i").await;
    let gone = life_of(&bench, "i").await;
    let deleted = bench.admin().delete_instance("i", true).await;
    deleted.expect("an instance can be deleted");
    let rule = MessageRule::MustNotHaveEnded;
    let refused = Submitted::Refused(IdState::Unknown);
    assert_eq!(send(&bench, rule, gone).await, refused);
    bench.start("i").await;
    assert_eq!(send(&bench, rule, gone).await, refused);
    let turn = bench.turn_of("i").await;
    assert_eq!(turn.item.messages, [items::start("i")]);
}

/// A request about the end of an instance is taken once it has ended, for that life alone.
pub async fn what_has_ended_takes_what_is_about_its_end<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let [earlier, later] = two_lives(&bench, Commit::first().failed("no")).await;
    let rule = MessageRule::MustHaveEnded;
    let sent = send(&bench, rule, earlier).await;
    assert_eq!(sent, Submitted::Refused(IdState::Unknown));
    bench.idle("nothing was stored").await;
    let sent = send(&bench, MessageRule::MustBeAlive, later).await;
    assert_eq!(sent, Submitted::Refused(IdState::Ended));
    let sent = send(&bench, rule, later).await;
    assert_eq!(sent, Submitted::Joined(IdState::Ended));
    let turn = bench.turn_of("i").await;
    assert_eq!(turn.item.messages.len(), 1);
}

/// An earlier life is no such instance.
pub async fn a_pause_of_one_life_leaves_others_alone<F: ProviderFactory + ?Sized>(factory: &F) {
    let bench = Bench::open(factory).await;
    let [earlier, later] = two_lives(&bench, Commit::first()).await;
    let admin = bench.admin();
    let pause = async |life| admin.pause_life("i", life).await.expect("it is answered");
    let resume = async |life| admin.resume_life("i", life).await.expect("it is answered");
    assert_eq!(pause(earlier).await, Some(Pausing::NoSuchInstance));
    assert_eq!(listed(&bench, "i").await.paused_at_ms, None);
    assert_eq!(pause(later).await, Some(Pausing::Done));
    assert_eq!(pause(later).await, Some(Pausing::Unchanged));
    bench.send(items::signal("i", "go")).await;
    bench.idle("it is paused").await;
    assert_eq!(resume(earlier).await, Some(Pausing::NoSuchInstance));
    bench.idle("it is still paused").await;
    assert_eq!(resume(later).await, Some(Pausing::Done));
    assert_eq!(resume(later).await, Some(Pausing::Unchanged));
    bench.turn_of("i").await;
}

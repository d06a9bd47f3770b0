//! Flaws of claims: in what is asked for, and in what is handed out.

use std::time::Duration;

use duroxide_store::{After, Claim, Claimed, Labels, MessageQueue as _, StoreError};

use super::Mutant;
use super::flaws::Flaw;

/// Longer than any case lets pass.
pub(super) const FOR_EVER_MS: u64 = 1 << 50;

impl Mutant {
    pub(super) async fn flawed_claim(&self, claim: Claim) -> Result<Vec<Claimed>, StoreError> {
        if self.has(Flaw::StepBackHides) && self.is_set_back() {
            return Ok(Vec::new());
        }
        if self.has(Flaw::StepBackLengthens) && self.is_set_back() {
            self.lengthen_leases().await;
        }
        let claimed = match self.flaw {
            Flaw::LooksEveryNineSeconds => self.claim_looking(claim).await?,
            _ => self.inner.claim(self.asked(claim)).await?,
        };
        Ok(self.handed_out(claimed))
    }

    fn asked(&self, mut claim: Claim) -> Claim {
        self.split(&mut claim.queue);
        match self.flaw {
            Flaw::LeaseIsNoLease => claim.lease_ms = 0,
            Flaw::LeaseIsEndless => claim.lease_ms = FOR_EVER_MS,
            Flaw::LabelsIgnored => claim.labels = Labels::Any,
            Flaw::KindsIgnored => claim.kinds = Labels::Any,
            Flaw::AlarmOpensNothing => claim.any_kind_after_ms = None,
            Flaw::AlarmOpensAtOnce => claim.any_kind_after_ms = claim.any_kind_after_ms.map(|_| 0),
            Flaw::BatchOfOne => claim.max = claim.max.min(1),
            Flaw::BatchTooLarge => claim.max += 1,
            Flaw::MessageBoundIgnored => claim.messages_max = usize::MAX,
            Flaw::MessageBoundOfAllIgnored => claim.messages_in_all_max = usize::MAX,
            Flaw::ByteBoundOfAllIgnored => claim.bytes_in_all_max = usize::MAX,
            Flaw::ByteBoundIgnored => claim.bytes_max = usize::MAX,
            Flaw::FollowerBoundIgnored => claim.followers_max = usize::MAX,
            Flaw::OwnersIgnored => claim.owner = None,
            Flaw::NeverWaits => claim.wait = Duration::ZERO,
            Flaw::AlwaysWaits => claim.wait = claim.wait.max(Duration::from_secs(600)),
            Flaw::ClaimGuardsIgnored => claim.guards.clear(),
            Flaw::NothingAttached => claim.attach = None,
            _ => {}
        }
        if let Some(owner) = &mut claim.owner {
            match self.flaw {
                Flaw::NewKeysUnbounded => owner.new_keys_max = usize::MAX,
                Flaw::KeysAreForEver => owner.lease_ms = FOR_EVER_MS,
                _ => {}
            }
        }
        claim
    }

    async fn claim_looking(&self, claim: Claim) -> Result<Vec<Claimed>, StoreError> {
        let mut left = claim.wait;
        loop {
            let look = Claim {
                wait: Duration::ZERO,
                ..claim.clone()
            };
            let found = self.inner.claim(look).await?;
            if !found.is_empty() || left.is_zero() {
                return Ok(found);
            }
            let pause = left.min(Duration::from_secs(9));
            tokio::time::sleep(pause).await;
            left -= pause;
        }
    }

    fn handed_out(&self, mut claimed: Vec<Claimed>) -> Vec<Claimed> {
        if self.has(Flaw::NewestGroupFirst) {
            claimed.reverse();
        }
        if self.has(Flaw::HandedOutTwice) {
            claimed.extend(claimed.last().cloned());
        }
        for one in &mut claimed {
            let mut notes = self.notes();
            notes.tokens.insert(one.group.clone(), one.token.clone());
            match self.flaw {
                Flaw::MessagesReversed => one.messages.reverse(),
                Flaw::LastMessageLost if one.messages.len() > 1 => drop(one.messages.pop()),
                Flaw::LeadToComeHidden => one.lead_to_come = false,
                _ => {}
            }
            for message in &mut one.messages {
                match self.flaw {
                    Flaw::AttemptsFromZero => message.attempts -= 1,
                    Flaw::AttemptsForgotten => message.attempts = 1,
                    _ => {}
                }
            }
        }
        claimed
    }

    async fn lengthen_leases(&self) {
        if std::mem::replace(&mut self.notes().was_set_back, true) {
            return;
        }
        let tokens: Vec<_> = self.notes().tokens.values().cloned().collect();
        for token in tokens {
            // One that is lost stays so.
            let _renewed = self.inner.renew(&token, FOR_EVER_MS).await;
        }
    }

    pub(super) async fn release_all(&self) {
        let tokens: Vec<_> = self.notes().tokens.values().cloned().collect();
        for token in tokens {
            let _released = self.inner.release(&token, After::Now, true).await;
        }
    }
}

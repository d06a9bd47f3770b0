//! Flaws of the list of nodes.

use std::time::Duration;

use duroxide_core::provider::{NodeInfo, NodeTerm, ProviderError, SeenNode};

use super::{Flaw, Mutant};

type Result<T> = std::result::Result<T, ProviderError>;

const AGES: Duration = Duration::from_secs(1 << 30);

impl Mutant {
    pub(super) async fn announce(&self, node: &NodeInfo, mut term: NodeTerm) -> Result<bool> {
        match self.flaw {
            Flaw::NodesAreNeverGone => term.gone_after = AGES,
            Flaw::GoneNodesStay => term.forgotten_after = AGES,
            _ => {}
        }
        let mut node = node.clone();
        if self.has(Flaw::NodesHaveNoCode) {
            node.orchestrations.clear();
        }
        self.reference().announce_node(&node, term).await
    }

    pub(super) async fn leave(&self, id: &str) -> Result<()> {
        match self.flaw {
            Flaw::NodesNeverLeave => Ok(()),
            _ => self.reference().forget_node(id).await,
        }
    }

    pub(super) async fn duty(
        &self,
        duty: &str,
        holder: &str,
        time: Duration,
    ) -> Result<Option<bool>> {
        let (holder, time) = match self.flaw {
            Flaw::DutiesHaveManyHolders => ("everybody", time),
            Flaw::DutiesLastForEver if !time.is_zero() => (holder, AGES),
            Flaw::ClosedStoreGivesDuties if self.reference().closed_because().await?.is_some() => {
                return Ok(Some(true));
            }
            Flaw::DutiesAreNotGivenBack if time.is_zero() => return Ok(Some(false)),
            _ => (holder, time),
        };
        self.reference().hold_duty(duty, holder, time).await
    }

    pub(super) async fn nodes(&self) -> Result<Option<Vec<SeenNode>>> {
        self.reference().list_nodes().await
    }
}

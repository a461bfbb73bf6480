//! `scatter`: each trial takes a context that clean runs reached on a node, then one of its faults,
//! then one of its hits, each drawn uniformly. It never ends and learns nothing.

use temblor_model::plan::{Plan, Trigger};

use super::draw::Draw;
use super::space::{Context, contexts, plan};
use super::{Policy, Scope};

/// See the module.
pub struct Scatter {
    contexts: Vec<Context>,
    /// Every (context, node): index into `contexts` and its `nodes`.
    places: Vec<(usize, usize)>,
    draw: Draw,
}

impl Scatter {
    pub fn new(scope: &Scope<'_>) -> Scatter {
        let contexts = contexts(scope);
        let places = contexts
            .iter()
            .enumerate()
            .flat_map(|(i, c)| (0..c.nodes.len()).map(move |n| (i, n)))
            .collect();
        Scatter {
            contexts,
            places,
            draw: Draw::new(scope.seed),
        }
    }
}

impl Policy for Scatter {
    fn next(&mut self) -> Option<Plan> {
        if self.places.is_empty() {
            return None;
        }
        let (context, node) = self.places[self.draw.below(self.places.len())];
        let context = &self.contexts[context];
        let node = &context.nodes[node];
        let choice = self.draw.below(context.faults.len() + context.more.len());
        let fault = context.faults.iter().chain(&context.more).nth(choice)?;
        let when = Trigger::Hit {
            site: context.site.clone(),
            node: Some(node.node.clone()),
            stack: Some(context.stack.clone()),
            state: None,
            nth: 1 + self.draw.below(node.hits as usize) as u32,
        };
        Some(plan(self.draw.plan_seed(), when, fault.clone()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::simulate::Simulated;

    #[test]
    fn every_reached_context_node_fault_and_hit_can_come() {
        let target = Simulated::small();
        let mut policy = target.policy("scatter", 11);
        let mut seen = BTreeSet::new();
        for _ in 0..20_000 {
            let step = policy.next().unwrap().steps.remove(0);
            seen.insert(format!("{} {}", step.when, step.fault));
        }
        assert_eq!(seen.len(), target.injections());
    }

    #[test]
    fn nothing_reached_is_nothing_to_try() {
        let target = Simulated::small().unreached();
        assert_eq!(target.policy("scatter", 1).next(), None);
    }
}

//! `replay`: exactly the given plan, so many times.

use temblor_model::plan::Plan;

use super::Policy;

/// See the module.
pub struct Replay {
    plan: Plan,
    left: u64,
}

impl Replay {
    pub fn new(plan: Plan, times: u64) -> Replay {
        Replay { plan, left: times }
    }
}

impl Policy for Replay {
    fn next(&mut self) -> Option<Plan> {
        self.left = self.left.checked_sub(1)?;
        Some(self.plan.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_comes_as_often_as_asked_and_unchanged() {
        let plan = Plan::clean();
        let mut replay = Replay::new(plan.clone(), 3);
        let all: Vec<Plan> = std::iter::from_fn(|| replay.next()).collect();
        assert_eq!(all, vec![plan; 3]);
        assert_eq!(replay.next(), None);
    }
}

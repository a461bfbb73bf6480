//! Seeded draws: the same numbers for the same seed, in every version and on every machine.

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

/// A source of draws for one purpose of one campaign.
pub struct Draw(ChaCha8Rng);

impl Draw {
    pub fn new(seed: u64) -> Draw {
        Draw(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A number below `bound`, which is not 0. The product's high half keeps the draw uniform
    /// to within 2^-32 for the bounds that occur here.
    pub fn below(&mut self, bound: usize) -> usize {
        let wide = u128::from(self.0.next_u64()) * bound as u128;
        (wide >> 64) as usize
    }

    /// A seed for a plan: non-negative as a signed number, which is all TOML can hold.
    pub fn plan_seed(&mut self) -> u64 {
        self.0.next_u64() >> 1
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_below_their_bound_and_reach_all_of_it() {
        let mut draw = Draw::new(1);
        let mut seen = [0u32; 7];
        for _ in 0..7_000 {
            seen[draw.below(7)] += 1;
        }
        assert!(seen.iter().all(|&n| (800..1_200).contains(&n)), "{seen:?}");
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..50).collect();
        Draw::new(2).shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}

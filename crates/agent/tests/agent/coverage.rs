//! Coverage bytes: blocks that ran, and only those.

use std::sync::atomic::Ordering;

use crate::jdk;
use crate::trial::{Trial, catalog};

#[test]
fn blocks_that_ran_are_marked() {
    for jdk in jdk::all() {
        let covered = |arguments: &[&str]| {
            let trial = Trial::new(catalog("Blocks"), |_| {});
            let expected = if arguments.is_empty() { "2" } else { "1" };
            let program: Vec<&str> = [&["Blocks"], arguments].concat();
            assert_eq!(trial.run(jdk, "n1", &program).lines(), [expected]);
            let method = &trial.catalog.classes[0]
                .blocks
                .iter()
                .find(|m| m.method == "choose");
            let first = method.unwrap().first as usize;
            let bytes = trial.board().coverage(0);
            [0, 1, 2].map(|i| bytes[first + i].load(Ordering::Relaxed))
        };
        assert_eq!(covered(&["x"]), [1, 1, 0]);
        assert_eq!(covered(&[]), [1, 0, 1]);
    }
}

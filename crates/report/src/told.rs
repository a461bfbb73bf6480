//! What nodes say of themselves, remembered, so that only what changes is news.

use std::collections::BTreeMap;

use temblor_model::event::What;

/// The last words of each node about its health and its role.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    healthy: BTreeMap<String, bool>,
    roles: BTreeMap<String, String>,
}

impl Told {
    /// The node, what it now is, and whether that is bad. Every answer of a node that is
    /// not well counts as news: how often it said so is part of the story.
    pub(crate) fn change<'a>(&mut self, what: &'a What) -> Option<(&'a str, String, bool)> {
        let (node, ok, role, answer) = match what {
            What::Health {
                node,
                ok,
                role,
                answer,
                ..
            } => (node, *ok, role, answer),
            What::NodeExited { node, .. } => {
                // Whoever starts again has everything to say again.
                self.healthy.remove(node);
                self.roles.remove(node);
                return None;
            }
            _ => return None,
        };
        let well_before = self.healthy.insert(node.clone(), ok);
        let new_role = self.new_role(node, role.as_deref());
        let words = match (ok, well_before, new_role) {
            (false, ..) => format!("not healthy: {answer}"),
            (true, Some(false), Some(role)) => format!("healthy again, and {role}"),
            (true, Some(false), None) => "healthy again".into(),
            (true, _, Some(role)) => role,
            (true, _, None) => return None,
        };
        Some((node, words, !ok))
    }

    fn new_role(&mut self, node: &str, role: Option<&str>) -> Option<String> {
        let role = role?;
        match self.roles.insert(node.to_owned(), role.to_owned()) {
            Some(had) if had == role => None,
            Some(had) => Some(format!("{role}, no longer {had}")),
            None => Some(role.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(answers: &[(bool, Option<&str>)], expected: &[&str]) {
        let mut told = Told::default();
        let mut news = Vec::new();
        for (ok, role) in answers {
            let health = What::Health {
                node: "n1".into(),
                ok: *ok,
                role: role.map(str::to_owned),
                silent: !*ok,
                answer: "late".into(),
            };
            news.extend(told.change(&health).map(|(_, words, _)| words));
        }
        assert_eq!(news, expected);
    }

    #[test]
    fn only_what_changes_is_news() {
        check(&[(true, None), (true, None)], &[]);
        check(
            &[(true, Some("leader")), (true, Some("leader"))],
            &["leader"],
        );
        check(
            &[(true, Some("leader")), (true, Some("follower"))],
            &["leader", "follower, no longer leader"],
        );
        check(
            &[(false, None), (false, None), (true, None), (true, None)],
            &["not healthy: late", "not healthy: late", "healthy again"],
        );
        check(
            &[
                (true, Some("leader")),
                (false, None),
                (true, Some("follower")),
            ],
            &[
                "leader",
                "not healthy: late",
                "healthy again, and follower, no longer leader",
            ],
        );
    }

    #[test]
    fn a_node_that_starts_again_says_everything_again() {
        let mut told = Told::default();
        let health = What::Health {
            node: "n1".into(),
            ok: true,
            role: Some("leader".into()),
            silent: false,
            answer: String::new(),
        };
        let exit = What::NodeExited {
            node: "n1".into(),
            code: None,
            signal: Some(9),
            injected: true,
        };
        assert!(told.change(&health).is_some());
        assert!(told.change(&health).is_none());
        assert!(told.change(&exit).is_none());
        assert!(told.change(&health).is_some());
    }
}

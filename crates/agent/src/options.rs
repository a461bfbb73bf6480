//! The agent's options: `board=PATH,hooks=PATH,node=NAME`, as they stand behind `-agentpath:…=`.

use std::path::PathBuf;

use thiserror::Error;

/// What the lab tells the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub board: PathBuf,
    pub hooks: PathBuf,
    pub node: String,
}

/// Why the options cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadOptions {
    #[error("unknown option {0:?}; known are board, hooks and node")]
    Unknown(String),
    #[error("option {0} is given twice")]
    Twice(&'static str),
    #[error("option {0} is missing; use board=PATH,hooks=PATH,node=NAME")]
    Missing(&'static str),
}

impl Options {
    pub fn parse(text: &str) -> Result<Options, BadOptions> {
        let (mut board, mut hooks, mut node) = (None, None, None);
        for option in text.split(',').filter(|o| !o.is_empty()) {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            let (key, place) = match key {
                "board" => ("board", &mut board),
                "hooks" => ("hooks", &mut hooks),
                "node" => ("node", &mut node),
                _ => return Err(BadOptions::Unknown(key.to_owned())),
            };
            if place.replace(value).is_some() {
                return Err(BadOptions::Twice(key));
            }
        }
        let given = |value: Option<&str>, key| {
            value
                .filter(|v| !v.is_empty())
                .map(str::to_owned)
                .ok_or(BadOptions::Missing(key))
        };
        Ok(Options {
            board: given(board, "board")?.into(),
            hooks: given(hooks, "hooks")?.into(),
            node: given(node, "node")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_three_options_are_read() {
        let options = Options::parse("board=/b,hooks=/h=1,node=n1").unwrap();
        assert_eq!(options.board, PathBuf::from("/b"));
        assert_eq!(options.hooks, PathBuf::from("/h=1"));
        assert_eq!(options.node, "n1");
    }

    #[test]
    fn bad_options_are_named() {
        let check =
            |text: &str, expected| assert_eq!(Options::parse(text), Err(expected), "{text}");
        check(
            "board=/b,hook=/h,node=n",
            BadOptions::Unknown("hook".into()),
        );
        check("hooks=/h,node=n", BadOptions::Missing("board"));
        check("board=/b,node=n", BadOptions::Missing("hooks"));
        check("board=/b,hooks=/h,node=", BadOptions::Missing("node"));
        check("board=/b,board=/c", BadOptions::Twice("board"));
        check("", BadOptions::Missing("board"));
    }
}

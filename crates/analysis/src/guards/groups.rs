//! Groups: the guarded sites of one basic block, of which the last stands for all (Sieve §4.4).

use temblor_model::catalog::Group;

use crate::found::FoundSite;

/// Groups the guarded sites and tells each of them its group. A group names its sites by their
/// places in the list: they are numbered when the catalog is put together.
pub fn find(sites: &mut [FoundSite]) -> Vec<Group> {
    let guarded = |at: &usize| !sites[*at].site.guards.is_empty();
    let mut order: Vec<usize> = (0..sites.len()).filter(guarded).collect();
    order.sort_by_key(|at| {
        let found = &sites[*at];
        (found.method, found.block, found.site.pc)
    });
    let mut groups: Vec<Group> = Vec::new();
    let mut last = None;
    for at in order {
        let found = &mut sites[at];
        let block = (found.method, found.block);
        if last != Some(block) {
            groups.push(Group {
                id: groups.len() as u32,
                sites: Vec::new(),
            });
            last = Some(block);
        }
        if let Some(group) = groups.last_mut() {
            group.sites.push(at as u32);
            found.site.group = Some(group.id);
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use temblor_model::catalog::{Guard, GuardedBy};
    use temblor_model::site::{Direction, Io, Medium, Site};

    use super::*;
    use crate::program::MethodId;

    fn site(id: u32, method: u32, block: u32, guarded: bool) -> FoundSite {
        let io = Io {
            medium: Medium::Disk,
            direction: Direction::Write,
        };
        let guard = Guard {
            by: GuardedBy::Region(0),
            via: Vec::new(),
        };
        FoundSite {
            method: MethodId(method),
            call: id,
            block,
            site: Site {
                pc: id,
                io: Some(io),
                guards: if guarded { vec![guard] } else { Vec::new() },
                ..Site::default()
            },
        }
    }

    #[test]
    fn the_guarded_sites_of_a_block_are_a_group_and_the_last_stands_for_it() {
        let mut sites = vec![
            site(0, 1, 0, true),
            site(1, 1, 0, false),
            site(2, 1, 0, true),
            site(3, 1, 1, true),
            site(4, 2, 1, true),
        ];
        let groups = find(&mut sites);
        let members: Vec<&[u32]> = groups.iter().map(|g| &g.sites[..]).collect();
        assert_eq!(members, [&[0, 2][..], &[3], &[4]]);
        assert_eq!(groups[0].representative(), Some(2));
        let of_sites: Vec<Option<u32>> = sites.iter().map(|s| s.site.group).collect();
        assert_eq!(of_sites, [Some(0), None, Some(0), Some(1), Some(2)]);
    }
}

//! Puts what the passes found together: one catalog, ids in the order of class, method, position.

use temblor_model::catalog::{ClassEntry, MethodBlocks, SiteCatalog};
use temblor_model::site::Site;

use crate::program::Program;

/// The own classes with their basic blocks.
pub fn classes(program: &Program) -> Vec<ClassEntry> {
    let entry = |class: &crate::ir::Class| ClassEntry {
        name: program.str(class.name).into(),
        hash: class.hash,
        blocks: class
            .methods
            .iter()
            .filter(|m| !m.coverage.is_empty())
            .map(|m| MethodBlocks {
                method: program.str(m.name).into(),
                desc: program.str(m.desc).into(),
                first: 0,
                pcs: m.coverage.iter().copied().map(u32::from).collect(),
            })
            .collect(),
    };
    program
        .own_classes()
        .map(|(_, class)| entry(class))
        .collect()
}

/// Numbers sites and blocks; `catalog` holds everything else already.
pub fn finish(catalog: &mut SiteCatalog) {
    catalog.format = SiteCatalog::FORMAT;
    catalog.classes.sort_by(|a, b| a.name.cmp(&b.name));
    let mut block_count = 0;
    for method in catalog.classes.iter_mut().flat_map(|c| &mut c.blocks) {
        method.first = block_count;
        block_count += method.pcs.len() as u32;
    }
    catalog.block_count = block_count;
    // Groups name sites by where they stood before.
    let place = |s: &Site| (s.class.clone(), s.method.clone(), s.desc.clone(), s.pc);
    let mut order: Vec<usize> = (0..catalog.sites.len()).collect();
    order.sort_by_cached_key(|i| place(&catalog.sites[*i]));
    let mut new_id = vec![0u32; order.len()];
    for (id, old) in order.iter().enumerate() {
        new_id[*old] = id as u32;
    }
    let mut sites: Vec<Option<Site>> = std::mem::take(&mut catalog.sites)
        .into_iter()
        .map(Some)
        .collect();
    catalog.sites = order
        .into_iter()
        .filter_map(|old| sites[old].take())
        .collect();
    for (id, site) in catalog.sites.iter_mut().enumerate() {
        site.id = id as u32;
    }
    for group in &mut catalog.groups {
        for site in &mut group.sites {
            *site = new_id[*site as usize];
        }
    }
    catalog.removed.sort_by(|a, b| a.name.cmp(&b.name));
}

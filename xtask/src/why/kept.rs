// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads runs stored in a directory, one file each: `3-root-with-00000000deadbeef`. All runs
//! together take longer than a machine can be kept idle, so they can be stored in parts and
//! evaluated together. The current rules are applied to the stored observations again, so that a
//! changed rule can be tried on all stored runs at once.

use super::scene::{self, Ran, Rights};
use super::score::Tried;
use super::seeds::Seed;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Reads the runs in a directory, in seed order. Runs without their counterpart count as failed.
pub(super) fn read<'a>(folder: &Path, seeds: &'a [Seed]) -> Result<Vec<Tried<'a>>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut runs = BTreeMap::<String, Ran>::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let text = fs::read_to_string(entry.path()).map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        runs.insert(name, scene::explained_again(&text)?);
    }
    let all = [Rights::Root, Rights::User];
    let of_each = seeds.iter().flat_map(|seed| all.iter().map(move |rights| (seed, *rights)));
    let tried = of_each.map(|(seed, rights)| tried(seed, rights, &runs));
    Ok(tried.filter(|tried| !tried.pairs.is_empty() || !tried.failed.is_empty()).collect())
}

fn tried<'a>(seed: &'a Seed, rights: Rights, runs: &BTreeMap<String, Ran>) -> Tried<'a> {
    let head = format!("{}-{}-", seed.id, rights.word());
    let mut tried = Tried { seed, rights, pairs: Vec::new(), failed: Vec::new() };
    for (name, with) in runs {
        let Some(random) = name.strip_prefix(&format!("{head}with-")) else { continue };
        let without = runs.get(&format!("{head}without-{random}"));
        match without.is_some() || seed.is_null {
            true => tried.pairs.push((with.clone(), without.cloned())),
            false => tried.failed.push("the control run is missing".to_owned()),
        }
    }
    tried
}

#[cfg(test)]
mod tests {
    use super::super::seeds;
    use super::*;

    #[test]
    fn runs_are_put_together_with_their_control() {
        let seeds = seeds::all().unwrap();
        let ran = |finding: &str| Ran { finding: finding.to_owned(), ..Ran::default() };
        let names = ["3-root-with-1", "3-root-without-1", "3-root-with-2", "n1-user-with-1"];
        let runs = names.iter().map(|name| ((*name).to_owned(), ran(name))).collect();
        let of = |id: &str, rights| {
            tried(seeds.iter().find(|seed| seed.id == id).unwrap(), rights, &runs)
        };
        let quota = of("3", Rights::Root);
        assert_eq!((quota.pairs.len(), quota.failed.len()), (1, 1));
        assert_eq!(quota.pairs[0].1.as_ref().unwrap().finding, "3-root-without-1");
        assert_eq!(of("3", Rights::User).pairs.len(), 0);
        assert_eq!(of("n1", Rights::User).pairs.len(), 1);
    }
}

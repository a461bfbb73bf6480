//! The processor time and memory that the processes of a cell use, read from outside.

use std::fs;

/// Seconds used by a process, its descendants, and those of them that have ended.
pub fn seconds_below(pid: i32) -> f64 {
    // SAFETY: it takes a number and touches no memory.
    let ticks_per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as f64;
    let ticks = sum_below(pid, "stat", ticks_of);
    ticks as f64 / ticks_per_second
}

/// Bytes used by a process and its descendants, each shared page by its share.
pub fn memory_below(pid: i32) -> u64 {
    sum_below(pid, "smaps_rollup", pss_of)
}

/// What a file of every process from `pid` down says, together.
fn sum_below(pid: i32, file: &str, read: fn(&str) -> Option<u64>) -> u64 {
    let mut sum = 0;
    let mut left = vec![pid];
    while let Some(pid) = left.pop() {
        sum += fs::read_to_string(format!("/proc/{pid}/{file}"))
            .ok()
            .and_then(|text| read(&text))
            .unwrap_or(0);
        left.extend(children(pid));
    }
    sum
}

fn pss_of(rollup: &str) -> Option<u64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kilobytes * 1024)
}

/// Its own time and that of the children it has waited for.
fn ticks_of(stat: &str) -> Option<u64> {
    // The name, in parentheses, may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields = rest.split_whitespace().skip(11).take(4);
    fields.map(|field| field.parse::<u64>().ok()).sum()
}

/// Every thread of a process may have started some.
fn children(pid: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let mut children = Vec::new();
    for thread in threads.flatten() {
        let list = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        children.extend(
            list.split_whitespace()
                .filter_map(|pid| pid.parse::<i32>().ok()),
        );
    }
    children
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_stand_behind_the_name_whatever_it_is() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194560 9 8 7 6 100 20 3 4 20 0 1 0 5";
        assert_eq!(ticks_of(stat), Some(127));
        assert_eq!(ticks_of("7 (cut"), None);
    }

    #[test]
    fn work_of_children_counts_before_and_after_their_end() {
        let me = std::process::id() as i32;
        let before = seconds_below(me);
        let burn = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        let status = std::process::Command::new("sh").args(["-c", burn]).status();
        assert!(status.unwrap().success());
        assert!(seconds_below(me) > before + 0.05);
    }
}

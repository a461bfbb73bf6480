//! A full disk: a clear error, nothing lost, and the campaign goes on when there is room again.

use std::path::Path;
use std::process::Command;

use crate::mini::Mini;
use crate::program::{LIMIT, Output, Running, Turn, assert_nothing_runs};

/// In a mount namespace of its own: `$1` is the program, `$2` the test's folder. The first run
/// finds no room at all, the second loses it in mid-campaign, the third has enough.
const SCRIPT: &str = r#"
program=$1 folder=$2 store=$2/store
mkdir -p "$store"
mount -t tmpfs -o size=3m none "$store" || exit 90
"$program" --store "$store" run "$folder/mini" --baselines 1 --confirm 0 --confirm-unwarped 0 \
    --jobs 1 --delay 3s --sites 'mini\.Node\.(put|get)\(' --trials 6 >"$folder/1.out" 2>&1
echo $? >"$folder/1.code"
mount -o remount,size=300m none "$store" || exit 91
{
    until [ -e "$store"/latest/trials/3/outcome.json ]; do sleep 0.05; done
    cp -r "$store/latest/trials/3" "$folder/kept"
    dd if=/dev/zero of="$store/filler" bs=64k 2>/dev/null
} &
filler=$!
"$program" --store "$store" resume --json >"$folder/2.out" 2>&1
echo $? >"$folder/2.code"
wait $filler
rm "$store/filler"
"$program" --store "$store" resume --json >"$folder/3.out" 2>"$folder/3.err"
echo $? >"$folder/3.code"
cmp "$store/latest/trials/3/outcome.json" "$folder/kept/outcome.json" || exit 92
"#;

fn part(folder: &Path, number: u32) -> Output {
    let read = |name: String| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    Output {
        code: read(format!("{number}.code")).trim().parse().unwrap_or(-1),
        stdout: read(format!("{number}.out")),
        stderr: read(format!("{number}.err")),
    }
}

#[test]
fn a_full_disk_stops_the_campaign_until_there_is_room() {
    let _turn = Turn::wait(1);
    let mini = Mini::new();
    // SAFETY: plain system call without arguments.
    let root = unsafe { libc::geteuid() } == 0;
    let mut command = Command::new("unshare");
    command.arg(if root { "-m" } else { "-rm" });
    command
        .args(["sh", "-c", SCRIPT, "sh"])
        .arg(crate::program::temblor())
        .arg(mini.folder());
    let script = Running::start(command, mini.folder()).wait(LIMIT);
    assert_nothing_runs(mini.folder());
    let parts = [1, 2, 3].map(|number| part(mini.folder(), number));
    assert_eq!(script.code, 0, "{script:#?} {parts:#?}");
    parts[0].check(
        255,
        &[
            "No space left on device",
            "free some space",
            "temblor resume",
        ],
    );
    parts[1].check(
        255,
        &[
            "No space left on device",
            "free some space",
            "temblor resume",
        ],
    );
    assert_eq!(parts[2].json()["trials"], 6, "{parts:#?}");
}

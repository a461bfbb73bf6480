//! Ordinary programs under the preload: with no setting, a bad one or a fast clock they do what
//! they always do.

#[allow(dead_code, reason = "each test file uses its part")]
mod preload;

use std::process::{Command, Output};

use preload::{Base, preload, warp};

fn programs() -> Vec<Command> {
    let command = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments);
        command
    };
    vec![
        command("ls", &["/usr/bin"]),
        command("sh", &["-c", "(exit 3); echo $? | cat; echo to stderr >&2"]),
        command(
            "bash",
            &[
                "-c",
                "for i in 1 2 3; do (sleep 0.01; echo $i) & wait; done; exit 4",
            ],
        ),
        command("env", &["-u", "LD_PRELOAD", "-i", "printf", "%s", "plain"]),
    ]
}

fn run(command: &mut Command) -> Output {
    command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Runs the program as it is and then as set up; only the complaint may differ.
fn check(command: &mut Command, set_up: impl Fn(&mut Command), complaint: &str) {
    let plain = run(command);
    set_up(command);
    let preloaded = run(command);
    assert_eq!(plain.status, preloaded.status, "{command:?}: {preloaded:?}");
    assert_eq!(plain.stdout, preloaded.stdout, "{command:?}");
    // Each process says it once, so a shell's children say it again.
    let stderr = String::from_utf8_lossy(&preloaded.stderr);
    let others: String = stderr
        .split_inclusive('\n')
        .filter(|line| line.trim_end() != complaint)
        .collect();
    assert_eq!(
        String::from_utf8_lossy(&plain.stderr),
        others,
        "{command:?}"
    );
    assert_eq!(
        stderr.contains("temblor-warp"),
        !complaint.is_empty(),
        "{command:?}: {stderr}"
    );
}

#[test]
fn without_settings_nothing_changes() {
    for mut command in programs() {
        check(
            &mut command,
            |command| {
                preload(command);
            },
            "",
        );
    }
}

#[test]
fn on_a_fast_clock_programs_print_the_same() {
    for mut command in programs() {
        check(
            &mut command,
            |command| {
                warp(command, "50", Base::now());
            },
            "",
        );
    }
}

fn check_complaint(name: &str, value: &str, complaint: &str) {
    for mut command in programs() {
        let set_up = |command: &mut Command| {
            warp(command, "10", Base::now()).env(name, value);
        };
        check(&mut command, set_up, complaint);
    }
}

#[test]
fn malformed_settings_are_one_line_on_stderr_and_change_nothing() {
    check_complaint(
        "TEMBLOR_WARP_FACTOR",
        "fast",
        "temblor-warp: TEMBLOR_WARP_FACTOR=fast is not a decimal number such as 10 or 2.5; \
         the clock is left alone",
    );
    check_complaint(
        "TEMBLOR_WARP_MONO_NS",
        "1.5",
        "temblor-warp: TEMBLOR_WARP_MONO_NS=1.5 is not a number of nanoseconds; \
         the clock is left alone",
    );
    check_complaint(
        "TEMBLOR_SOURCE_ADDR",
        "10.0.0.1",
        "temblor-warp: TEMBLOR_SOURCE_ADDR=10.0.0.1 is not an address in 127.0.0.0/8; \
         connections are left alone",
    );
}

#[test]
fn a_clock_without_its_base_is_left_alone() {
    let set_up = |command: &mut Command| {
        preload(command).env("TEMBLOR_WARP_FACTOR", "1000000");
    };
    let complaint = "temblor-warp: TEMBLOR_WARP_FACTOR is set but TEMBLOR_WARP_MONO_NS is not; \
         the clock is left alone";
    check(Command::new("date").arg("+%Y"), set_up, complaint);
}

#[test]
fn a_long_malformed_setting_is_cut_and_harms_nobody() {
    let mut command = Command::new("true");
    preload(&mut command).env("TEMBLOR_WARP_FACTOR", "9".repeat(10_000));
    let output = run(&mut command);
    assert!(output.status.success(), "{output:?}");
    assert!(
        output.stderr.len() < 300 && output.stderr.ends_with(b"\n"),
        "{output:?}"
    );
}

//! The program that opens cells: see `temblor_cluster::cell`.

use std::process::ExitCode;

fn main() -> ExitCode {
    temblor_cluster::cell::program_main(std::env::args_os().collect())
}

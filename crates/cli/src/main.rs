//! `temblor`: arguments in, exit code out. Each command is a file in `command/`.

mod args;
mod command;
mod exit;
mod prepare;
mod print;
mod stop;
mod stream;

fn main() -> std::process::ExitCode {
    exit::code_of(command::run(args::parse()))
}

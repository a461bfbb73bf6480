//! The places of images: gone with their owner, however it ends.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use temblor_cluster::snapshot::ImagePlace;

/// Set for a test that runs itself again, as the process to be killed.
pub const LAB: &str = "TEMBLOR_TEST_LAB";

/// The same test in a process of its own, which is killed at the latest when this value goes.
pub struct Lab(pub Child);

impl Lab {
    pub fn start(test: &str, order: &str) -> Lab {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(LAB, order)
            .stdout(Stdio::piped())
            .spawn();
        Lab(child.unwrap())
    }

    pub fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.end();
    }
}

/// For the process that is to be killed: does nothing more until then.
pub fn wait_to_be_killed() -> ! {
    loop {
        std::thread::park();
    }
}

#[test]
fn places_of_killed_owners_are_removed_and_no_others() {
    let otherwise = tempfile::tempdir().unwrap();
    let make = || ImagePlace::make(otherwise.path()).unwrap();
    let name = "places::places_of_killed_owners_are_removed_and_no_others";
    if std::env::var_os(LAB).is_some() {
        let place = make();
        fs::write(place.dir().join("image"), "frozen").unwrap();
        println!("\nplace {}", place.dir().display());
        std::io::stdout().flush().unwrap();
        wait_to_be_killed();
    }
    let mut lab = Lab::start(name, "");
    let lines = BufReader::new(lab.0.stdout.take().unwrap()).lines();
    let theirs = lines
        .map(|line| line.unwrap())
        .find_map(|line| line.strip_prefix("place ").map(PathBuf::from))
        .expect("the other's place");

    let ours = make();
    let image = theirs.join("image");
    assert!(image.exists(), "its owner lives");
    let second = make();
    assert_ne!(ours.dir(), second.dir());
    // Killed after it had made its folder and before it could say that it owns it.
    let half_made = theirs.with_file_name("half-made");
    fs::create_dir_all(&half_made).unwrap();
    lab.kill();
    let third = make();
    assert!(!theirs.exists(), "its owner was killed");
    assert!(!half_made.exists());
    for place in [&ours, &second, &third] {
        assert!(place.dir().is_dir(), "ours");
        assert!(place.budget() > 0);
    }
    let dirs = [ours, second, third].map(|place| place.dir().to_path_buf());
    for dir in dirs {
        assert!(!dir.exists(), "{} goes with its value", dir.display());
    }
}

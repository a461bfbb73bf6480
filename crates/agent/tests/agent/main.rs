//! The agent in real JVMs: every test runs on each JDK of `TEMBLOR_TEST_JDKS` (colon-separated
//! homes), else on `JAVA_HOME`, else on the `java` of the PATH.

mod bench;
mod coverage;
mod faults;
mod guest;
mod jdk;
mod jdk_classes;
mod questions;
mod states;
mod trial;
mod triggers;

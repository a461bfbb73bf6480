//! The settings the lab hands down in the environment, parsed and checked.

use std::net::Ipv4Addr;

use crate::clock::{Clock, Factor, FactorError};
use thiserror::Error;

pub const FACTOR: &str = "TEMBLOR_WARP_FACTOR";
pub const MONO_NS: &str = "TEMBLOR_WARP_MONO_NS";
pub const REAL_NS: &str = "TEMBLOR_WARP_REAL_NS";
pub const SOURCE_ADDR: &str = "TEMBLOR_SOURCE_ADDR";

#[derive(Debug, Error, PartialEq, Eq)]
pub enum SettingsError<'a> {
    #[error("{FACTOR}={value} is {reason}")]
    Factor { value: &'a str, reason: FactorError },
    #[error("{name}={value} is not a number of nanoseconds")]
    Nanos { name: &'static str, value: &'a str },
    #[error("{FACTOR} is set but {name} is not")]
    MissingBase { name: &'static str },
    #[error("{SOURCE_ADDR}={value} is not an address in 127.0.0.0/8")]
    SourceAddr { value: &'a str },
}

/// The trial's clock, or `None` if time is to be left alone.
pub fn clock<'a>(
    factor: Option<&'a str>,
    mono_ns: Option<&'a str>,
    real_ns: Option<&'a str>,
) -> Result<Option<Clock>, SettingsError<'a>> {
    let Some(value) = factor else { return Ok(None) };
    let factor = Factor::parse(value).map_err(|reason| SettingsError::Factor { value, reason })?;
    if factor.is_one() {
        return Ok(None);
    }
    let base_mono = base(MONO_NS, mono_ns)?;
    let base_wall = base(REAL_NS, real_ns)?;
    Ok(Some(Clock {
        factor,
        base_mono,
        base_wall,
        gap: 0,
    }))
}

fn base<'a>(name: &'static str, value: Option<&'a str>) -> Result<i64, SettingsError<'a>> {
    let value = value.ok_or(SettingsError::MissingBase { name })?;
    value
        .parse()
        .ok()
        .filter(|nanos| *nanos >= 0)
        .ok_or(SettingsError::Nanos { name, value })
}

/// The address this node's packets shall carry, or `None` if connections are to be left alone.
pub fn source_addr(value: Option<&str>) -> Result<Option<Ipv4Addr>, SettingsError<'_>> {
    let Some(value) = value else { return Ok(None) };
    match value.parse::<Ipv4Addr>() {
        Ok(address) if address.is_loopback() => Ok(Some(address)),
        _ => Err(SettingsError::SourceAddr { value }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_factor_or_one_leaves_the_clock_alone() {
        assert_eq!(clock(None, None, None), Ok(None));
        assert_eq!(clock(None, Some("junk"), None), Ok(None));
        assert_eq!(clock(Some("1"), None, None), Ok(None));
        assert_eq!(clock(Some("1.0"), Some("5"), Some("6")), Ok(None));
    }

    #[test]
    fn a_whole_setting_makes_a_clock() {
        let clock = clock(Some("2.5"), Some("5"), Some("6"))
            .expect("good")
            .expect("a clock");
        assert_eq!((clock.base_mono, clock.base_wall), (5, 6));
        assert_eq!(clock.scale_timeout(5), 2);
    }

    fn check(factor: &str, mono: Option<&str>, real: Option<&str>, message: &str) {
        let error = clock(Some(factor), mono, real).expect_err("malformed");
        assert_eq!(error.to_string(), message);
    }

    #[test]
    fn malformed_settings_say_which_and_why() {
        let not_decimal = "TEMBLOR_WARP_FACTOR=fast is not a decimal number such as 10 or 2.5";
        check("fast", Some("5"), Some("6"), not_decimal);
        check(
            "0",
            None,
            None,
            "TEMBLOR_WARP_FACTOR=0 is out of range, 0.001 to 1000000",
        );
        check(
            "2",
            None,
            None,
            "TEMBLOR_WARP_FACTOR is set but TEMBLOR_WARP_MONO_NS is not",
        );
        check(
            "2",
            Some("5"),
            None,
            "TEMBLOR_WARP_FACTOR is set but TEMBLOR_WARP_REAL_NS is not",
        );
        check(
            "2",
            Some("-5"),
            None,
            "TEMBLOR_WARP_MONO_NS=-5 is not a number of nanoseconds",
        );
        let long = "99999999999999999999";
        let message = format!("TEMBLOR_WARP_REAL_NS={long} is not a number of nanoseconds");
        check("2", Some("5"), Some(long), &message);
    }

    #[test]
    fn a_source_address_is_on_the_loopback() {
        assert_eq!(source_addr(None), Ok(None));
        assert_eq!(
            source_addr(Some("127.0.0.2")),
            Ok(Some(Ipv4Addr::new(127, 0, 0, 2)))
        );
        for value in ["", "10.0.0.1", "::1", "localhost", "127.0.0"] {
            assert_eq!(
                source_addr(Some(value)),
                Err(SettingsError::SourceAddr { value })
            );
        }
    }
}

//! Values as people write them: times, sizes, the speed of the clock.

use std::str::FromStr;

use temblor_model::campaign::WarpSpec;

/// A length of time: `500ms`, `90s`, `30m`, `2h`; a bare number is seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub ms: u64,
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let scale = match &text[digits.len()..] {
            "ms" => 1,
            "" | "s" => 1_000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            unit => return Err(format!("`{unit}` is no unit of time; use ms, s, m or h")),
        };
        let number: f64 = digits
            .parse()
            .map_err(|_| "expected a time such as 90s or 30m")?;
        match number.is_finite() && number >= 0.0 {
            true => Ok(Span {
                ms: (number * scale as f64) as u64,
            }),
            false => Err("a time cannot be negative".into()),
        }
    }
}

/// A size on disk: `500MB`, `2GB`, `1.5TB`; a bare number is megabytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub mb: u64,
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let scale = match text[digits.len()..].to_ascii_uppercase().as_str() {
            "" | "M" | "MB" => 1,
            "G" | "GB" => 1_000,
            "T" | "TB" => 1_000_000,
            unit => return Err(format!("`{unit}` is no unit of size; use MB, GB or TB")),
        };
        match digits.parse::<f64>() {
            Ok(number) if number.is_finite() && number >= 0.0 => Ok(Size {
                mb: (number * scale as f64) as u64,
            }),
            _ => Err("expected a size such as 500MB or 2GB".into()),
        }
    }
}

/// `auto`, `off` or a factor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Warp(pub WarpSpec);

impl FromStr for Warp {
    type Err = String;

    fn from_str(text: &str) -> Result<Warp, String> {
        match text {
            "auto" => Ok(Warp(WarpSpec::Auto)),
            "off" => Ok(Warp(WarpSpec::Off)),
            number => match number.parse::<f64>() {
                Ok(k) if (1.0..=1000.0).contains(&k) => Ok(Warp(WarpSpec::Factor(k))),
                _ => Err("expected `auto`, `off` or a number from 1 to 1000".into()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_sizes_and_factors_read_as_people_write_them() {
        for (text, ms) in [
            ("90s", 90_000),
            ("2m", 120_000),
            ("1.5h", 5_400_000),
            ("7", 7_000),
        ] {
            assert_eq!(text.parse::<Span>().unwrap().ms, ms, "{text}");
        }
        assert!("5d".parse::<Span>().is_err() && "x".parse::<Span>().is_err());
        for (text, mb) in [
            ("500MB", 500),
            ("2gb", 2_000),
            ("1.5T", 1_500_000),
            ("7", 7),
        ] {
            assert_eq!(text.parse::<Size>().unwrap().mb, mb, "{text}");
        }
        assert!("5KB".parse::<Size>().is_err() && "-1GB".parse::<Size>().is_err());
        assert_eq!("10".parse::<Warp>().unwrap().0, WarpSpec::Factor(10.0));
        assert!("0.5".parse::<Warp>().is_err());
    }
}

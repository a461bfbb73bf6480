//! The arithmetic of the virtual clock: pure, exact and total (nothing overflows or panics).
//!
//! The factor is a fixed-point number with 32 fractional bits. Reading the clock is then a
//! multiplication and a shift, every process gets the same number, and no precision is lost over
//! days, as it would be with floats. Real waits are rounded up, virtual readings down: who waited
//! until a virtual deadline never reads a time before it.

use thiserror::Error;

const FRACTION_BITS: u32 = 32;
const ONE: u64 = 1 << FRACTION_BITS;
/// More digits than the fixed point can hold mean nothing.
const MAX_FRACTION_DIGITS: usize = 9;
const MIN_FACTOR: u64 = ONE / 1000;
const MAX_FACTOR: u64 = 1_000_000 * ONE;
pub const NANOS_PER_SEC: i64 = 1_000_000_000;

/// How many times faster than the real clock the virtual one runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factor(u64);

#[derive(Debug, Error, PartialEq, Eq)]
pub enum FactorError {
    #[error("not a decimal number such as 10 or 2.5")]
    NotDecimal,
    #[error("out of range, 0.001 to 1000000")]
    OutOfRange,
}

impl Factor {
    /// Reads a plain decimal; no sign, no exponent.
    pub fn parse(text: &str) -> Result<Self, FactorError> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(fraction) || fraction.len() > MAX_FRACTION_DIGITS {
            return Err(FactorError::NotDecimal);
        }
        let whole: u32 = whole.parse().map_err(|_| FactorError::OutOfRange)?;
        let scale = 10u64.pow(fraction.len() as u32);
        let fraction: u64 = fraction.parse().map_err(|_| FactorError::NotDecimal)?;
        let bits = (u64::from(whole) << FRACTION_BITS)
            .saturating_add(((fraction << FRACTION_BITS) + scale / 2) / scale);
        if (MIN_FACTOR..=MAX_FACTOR).contains(&bits) {
            Ok(Self(bits))
        } else {
            Err(FactorError::OutOfRange)
        }
    }

    /// The fixed-point number itself, to be kept in an atomic.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The inverse of [`Factor::bits`], for bits that came from there; 0 would be a clock that
    /// stands still, which no deadline survives.
    #[inline]
    pub const fn from_bits(bits: u64) -> Self {
        debug_assert!(bits >= MIN_FACTOR && bits <= MAX_FACTOR);
        Self(bits)
    }

    pub const fn is_one(self) -> bool {
        self.0 == ONE
    }

    /// `nanos * k`, rounded down. In this form it is one machine multiplication, since both sides
    /// are 64 bits wide and the factor has room for a sign.
    #[inline]
    fn multiply(self, nanos: i64) -> i64 {
        clamp((i128::from(nanos) * i128::from(self.0 as i64)) >> FRACTION_BITS)
    }

    /// `nanos / k`, rounded up.
    const fn divide_up(self, nanos: i128) -> i128 {
        let (numerator, factor) = (nanos << FRACTION_BITS, self.0 as i128);
        let quotient = numerator.div_euclid(factor);
        if numerator.rem_euclid(factor) == 0 {
            quotient
        } else {
            quotient + 1
        }
    }
}

/// Which of the two origins a virtual time counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// CLOCK_MONOTONIC and its kin.
    Mono,
    /// CLOCK_REALTIME.
    Wall,
}

/// The virtual clock of one trial; all times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    pub factor: Factor,
    pub base_mono: i64,
    pub base_wall: i64,
    /// Real time since the base in which the clock stood still.
    pub gap: i64,
}

impl Clock {
    #[inline]
    const fn base(&self, origin: Origin) -> i64 {
        match origin {
            Origin::Mono => self.base_mono,
            Origin::Wall => self.base_wall,
        }
    }

    /// The real time at which the clock would have stood at its base.
    #[inline]
    const fn start(&self) -> i64 {
        self.base_mono.saturating_add(self.gap)
    }

    /// The virtual time at a real CLOCK_MONOTONIC.
    #[inline]
    pub fn to_virtual(&self, origin: Origin, real_mono: i64) -> i64 {
        let elapsed = real_mono.saturating_sub(self.start());
        self.base(origin)
            .saturating_add(self.factor.multiply(elapsed))
    }

    /// The first real CLOCK_MONOTONIC at which the virtual deadline has come; never negative,
    /// because the kernel refuses negative times.
    pub fn to_real_deadline(&self, origin: Origin, virtual_deadline: i64) -> i64 {
        let ahead = i128::from(virtual_deadline) - i128::from(self.base(origin));
        clamp(i128::from(self.start()) + self.factor.divide_up(ahead)).max(0)
    }

    /// The shortest real time in which that much virtual time passes.
    pub fn scale_timeout(&self, virtual_nanos: i64) -> i64 {
        clamp(self.factor.divide_up(i128::from(virtual_nanos)))
    }

    /// What is left of a real wait, as virtual time, but never more than was asked for.
    pub fn scale_remaining(&self, real_nanos: i64, virtual_asked: i64) -> i64 {
        // Rounded up: who sleeps the rest must not wake early.
        let product = i128::from(real_nanos) * i128::from(self.factor.0);
        clamp((product + i128::from(ONE - 1)) >> FRACTION_BITS).min(virtual_asked)
    }

    /// The origin a deadline was probably counted from. A condition variable or timer does not tell
    /// its clock, but the two are decades apart, and deadlines are near the time they were set.
    pub fn nearest_origin(&self, virtual_deadline: i64, real_mono: i64) -> Origin {
        let distance = |origin| {
            self.to_virtual(origin, real_mono)
                .abs_diff(virtual_deadline)
        };
        if distance(Origin::Mono) <= distance(Origin::Wall) {
            Origin::Mono
        } else {
            Origin::Wall
        }
    }
}

#[inline]
fn clamp(nanos: i128) -> i64 {
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

/// Seconds and nanoseconds as nanoseconds; JVMs ask for i64::MAX seconds, which becomes 292 years.
#[inline]
pub const fn nanos(seconds: i64, nanos: i64) -> i64 {
    seconds.saturating_mul(NANOS_PER_SEC).saturating_add(nanos)
}

/// The inverse of [`nanos`], the second part always in 0..1e9.
#[inline]
pub const fn seconds_and_nanos(nanos: i64) -> (i64, i64) {
    if nanos >= 0 {
        // Unsigned division by a constant is the cheaper one, and this is every reading.
        let (nanos, unit) = (nanos as u64, NANOS_PER_SEC as u64);
        ((nanos / unit) as i64, (nanos % unit) as i64)
    } else {
        (
            nanos.div_euclid(NANOS_PER_SEC),
            nanos.rem_euclid(NANOS_PER_SEC),
        )
    }
}

/// Nanoseconds in a coarser unit, rounded up so that no wait gets shorter.
pub const fn round_up(nanos: i64, unit: i64) -> i64 {
    let quotient = nanos.div_euclid(unit);
    if nanos.rem_euclid(unit) == 0 {
        quotient
    } else {
        quotient.saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn clock(factor: &str) -> Clock {
        let factor = Factor::parse(factor).expect("a good factor");
        Clock {
            factor,
            base_mono: 5_000 * NANOS_PER_SEC,
            base_wall: 1_700_000_000 * NANOS_PER_SEC,
            gap: 0,
        }
    }

    #[test]
    fn a_factor_is_a_plain_decimal_in_range() {
        assert_eq!(Factor::parse("1"), Ok(Factor(ONE)));
        assert_eq!(Factor::parse("2.5"), Ok(Factor(ONE * 5 / 2)));
        assert!(Factor::parse("1.000").expect("one").is_one());
        for text in [
            "", ".", "1.", ".5", "-1", "+1", "1e3", "ten", "nan", " 1", "1,5", "1.1.1",
        ] {
            assert_eq!(Factor::parse(text), Err(FactorError::NotDecimal), "{text}");
        }
        for text in ["0", "0.0", "0.0009", "1000001", "99999999999"] {
            assert_eq!(Factor::parse(text), Err(FactorError::OutOfRange), "{text}");
        }
    }

    #[test]
    fn ten_times_faster_is_ten_times_faster() {
        let clock = clock("10");
        let later = clock.base_mono + 6 * NANOS_PER_SEC;
        let minute = 60 * NANOS_PER_SEC;
        assert_eq!(
            clock.to_virtual(Origin::Mono, later),
            clock.base_mono + minute
        );
        assert_eq!(
            clock.to_virtual(Origin::Wall, later),
            clock.base_wall + minute
        );
        assert_eq!(
            clock.to_real_deadline(Origin::Wall, clock.base_wall + minute),
            later
        );
        assert_eq!(clock.scale_timeout(minute), 6 * NANOS_PER_SEC);
        assert_eq!(clock.scale_timeout(1), 1);
        assert_eq!(clock.scale_remaining(6 * NANOS_PER_SEC, i64::MAX), minute);
    }

    #[test]
    fn time_that_stood_still_has_not_passed() {
        let before = clock("10");
        let hour = 3_600 * NANOS_PER_SEC;
        let after = Clock {
            gap: hour,
            ..before
        };
        let now = before.base_mono + NANOS_PER_SEC;
        for origin in [Origin::Mono, Origin::Wall] {
            let read = before.to_virtual(origin, now);
            assert_eq!(after.to_virtual(origin, now + hour), read);
            assert_eq!(after.to_real_deadline(origin, read), now + hour);
        }
    }

    #[test]
    fn a_week_keeps_every_nanosecond_of_a_decimal_factor() {
        let clock = clock("2.5");
        let week = 7 * 86_400 * NANOS_PER_SEC + 2;
        let elapsed = clock.to_virtual(Origin::Mono, clock.base_mono + week) - clock.base_mono;
        assert_eq!(elapsed, week / 2 * 5);
    }

    #[test]
    fn endless_and_past_deadlines_stay_so() {
        for factor in ["0.001", "0.5", "10", "1000000"] {
            let clock = clock(factor);
            let forever = nanos(i64::MAX, 999_999_999);
            assert_eq!(forever, i64::MAX);
            let now = clock.base_mono;
            assert!(
                clock.to_real_deadline(Origin::Mono, forever) > now,
                "{factor}"
            );
            let past = clock.to_real_deadline(Origin::Wall, 0);
            assert!((0..now).contains(&past), "{factor}: {past}");
            assert!(
                clock.scale_timeout(i64::MAX) > 9_000 * NANOS_PER_SEC / 1000,
                "{factor}"
            );
        }
    }

    #[test]
    fn a_deadline_tells_its_clock() {
        let clock = clock("100");
        let now = clock.base_mono + NANOS_PER_SEC;
        for origin in [Origin::Mono, Origin::Wall] {
            let virtual_now = clock.to_virtual(origin, now);
            // HotSpot's longest wait is 1e8 seconds.
            for ahead in [
                -NANOS_PER_SEC,
                0,
                30 * NANOS_PER_SEC,
                100_000_000 * NANOS_PER_SEC,
            ] {
                assert_eq!(clock.nearest_origin(virtual_now + ahead, now), origin);
            }
        }
    }

    fn any_clock() -> impl Strategy<Value = Clock> {
        (MIN_FACTOR..=MAX_FACTOR, 0..i64::MAX / 4, 0..i64::MAX / 4).prop_map(
            |(bits, base_mono, base_wall)| Clock {
                factor: Factor::from_bits(bits),
                base_mono,
                base_wall,
                gap: 0,
            },
        )
    }

    fn any_origin() -> impl Strategy<Value = Origin> {
        prop_oneof![Just(Origin::Mono), Just(Origin::Wall)]
    }

    /// Days either side of the base: the range in which nothing is clamped.
    const DAYS: i64 = 20 * 86_400 * NANOS_PER_SEC;

    proptest! {
        #[test]
        fn virtual_time_is_monotone(
            clock in any_clock(), origin in any_origin(), a in any::<i64>(), b in any::<i64>(),
        ) {
            let (a, b) = (a.min(b), a.max(b));
            prop_assert!(clock.to_virtual(origin, a) <= clock.to_virtual(origin, b));
            prop_assert!(clock.to_real_deadline(origin, a) <= clock.to_real_deadline(origin, b));
        }

        #[test]
        fn no_deadline_comes_early_nor_a_nanosecond_late(
            bits in MIN_FACTOR..=1000 * ONE, origin in any_origin(), ahead in 0..DAYS,
        ) {
            let clock = Clock { factor: Factor::from_bits(bits), ..clock("1") };
            let deadline = clock.base(origin) + ahead;
            let real = clock.to_real_deadline(origin, deadline);
            prop_assert!(clock.to_virtual(origin, real) >= deadline);
            prop_assert!(ahead == 0 || clock.to_virtual(origin, real - 1) < deadline);
        }

        #[test]
        fn no_timeout_is_shorter_than_asked(
            bits in MIN_FACTOR..=1000 * ONE, start in 0..DAYS, timeout in 1..DAYS,
        ) {
            let clock = Clock { factor: Factor::from_bits(bits), ..clock("1") };
            let real = clock.scale_timeout(timeout);
            prop_assert!(real > 0);
            prop_assert!(clock.scale_remaining(real, i64::MAX) >= timeout);
            let start = clock.base_mono + start;
            // One nanosecond may be lost, because the reading at the start was rounded down.
            let passed = clock.to_virtual(Origin::Mono, start + real)
                - clock.to_virtual(Origin::Mono, start);
            prop_assert!(passed + 1 >= timeout);
        }

        #[test]
        fn there_and_back_loses_only_rounding(
            clock in any_clock(), origin in any_origin(), elapsed in 0..NANOS_PER_SEC,
        ) {
            let real = clock.base_mono + elapsed;
            let virtual_time = clock.to_virtual(origin, real);
            let back = clock.to_real_deadline(origin, virtual_time);
            // A slowed clock stands still for 1/k nanoseconds: back is the first of them.
            let step = (ONE / clock.factor.bits()) as i64 + 1;
            prop_assert!(back <= real && real - back <= step, "{back} {real}");
        }

        #[test]
        fn nothing_overflows(
            clock in any_clock(), origin in any_origin(), a in any::<i64>(), b in any::<i64>(),
        ) {
            let real = clock.to_real_deadline(origin, a);
            prop_assert!(real >= 0);
            prop_assert!(clock.scale_remaining(a, b) <= b);
            let scaled = clock.scale_timeout(a);
            prop_assert!(scaled.signum() * a.signum() >= 0);
            let (seconds, rest) = seconds_and_nanos(a.max(i64::MIN + NANOS_PER_SEC));
            prop_assert_eq!(nanos(seconds, rest), a.max(i64::MIN + NANOS_PER_SEC));
            prop_assert!((0..NANOS_PER_SEC).contains(&rest));
            prop_assert!(round_up(a, 1_000_000) >= a / 1_000_000);
        }
    }
}

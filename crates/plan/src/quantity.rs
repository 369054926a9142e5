//! Quantities that carry their dimension in their type: power times time is an energy, and nothing
//! else compiles.
//!
//! A number with a unit is read once, at the edge ([`crate::unit`]); from there on a formula that
//! mixes what does not mix is a compile error. Currencies are no part of the type: one plan has one
//! currency, which the reader of inputs enforces.

use crate::unit::{self, UnitError};
use std::cmp::Ordering;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Add, Div, Mul, Sub};

/// Powers of the base dimensions: data (bit), time (second), energy (joule), money (one of the
/// currency), carbon (gram of CO₂ equivalent), rack units.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Exponents(pub [i8; 6]);

impl Exponents {
    /// No dimension: a ratio or a count.
    pub const NONE: Self = Self([0; 6]);

    /// The powers of a product.
    #[must_use]
    pub const fn times(self, other: Self) -> Self {
        self.with(other, 1)
    }

    /// The powers of a quotient.
    #[must_use]
    pub const fn over(self, other: Self) -> Self {
        self.with(other, -1)
    }

    const fn with(self, other: Self, sign: i8) -> Self {
        let mut sum = self.0;
        let mut index = 0;
        while index < sum.len() {
            sum[index] += sign * other.0[index];
            index += 1;
        }
        Self(sum)
    }

    const fn is(self, other: Self) -> bool {
        let mut index = 0;
        while index < self.0.len() {
            if self.0[index] != other.0[index] {
                return false;
            }
            index += 1;
        }
        true
    }
}

/// What kind of quantity something is.
pub trait Dimension: Copy + fmt::Debug + PartialEq + 'static {
    /// Its powers.
    const EXPONENTS: Exponents;
    /// What it is called in messages, with its article.
    const NAME: &'static str;
    /// How one is written.
    const EXAMPLE: &'static str;
}

macro_rules! dimensions {
    ($($(#[$doc:meta])* $name:ident $exponents:expr, $called:literal, $example:literal;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq)]
            pub struct $name;

            impl Dimension for $name {
                const EXPONENTS: Exponents = Exponents($exponents);
                const NAME: &'static str = $called;
                const EXAMPLE: &'static str = $example;
            }
        )*

        /// All dimensions with the name and an example of each.
        pub(crate) const DIMENSIONS: &[(Exponents, &str, &str)] =
            &[$((Exponents($exponents), $called, $example)),*];
    };
}

dimensions! {
    /// A share, a factor or a count.
    Ratio [0, 0, 0, 0, 0, 0], "a plain number or a share", "1.3";
    /// An amount of data.
    Data [1, 0, 0, 0, 0, 0], "an amount of data", "25 MB";
    /// A span of time.
    Time [0, 1, 0, 0, 0, 0], "a time", "6 min";
    /// Data in a time.
    Rate [1, -1, 0, 0, 0, 0], "a data rate", "100 Gbit/s";
    /// How often in a time.
    Frequency [0, -1, 0, 0, 0, 0], "a number of times in a time", "3 DWPD";
    /// Energy.
    Energy [0, 0, 1, 0, 0, 0], "an energy", "29.36 MWh";
    /// Energy in a time.
    Power [0, -1, 1, 0, 0, 0], "a power", "1.1 kW";
    /// An amount of money.
    Money [0, 0, 0, 1, 0, 0], "an amount of money", "25053 USD";
    /// Money in a time.
    Spending [0, -1, 0, 1, 0, 0], "an amount of money in a time", "300 USD/month";
    /// What energy costs.
    EnergyPrice [0, 0, -1, 1, 0, 0], "a price of energy", "0.12 USD/kWh";
    /// What data costs.
    DataPrice [-1, 0, 0, 1, 0, 0], "a price of data", "0.03 USD/TB";
    /// Room in a rack.
    Space [0, 0, 0, 0, 0, 1], "a number of rack units", "2 RU";
    /// What room in a rack costs.
    SpacePrice [0, -1, 0, 1, 0, -1], "a price of room in a rack", "75.76 USD/year/RU";
    /// Mass of CO₂ equivalent.
    Carbon [0, 0, 0, 0, 1, 0], "a mass of carbon dioxide", "26.65 tCO2e";
    /// Carbon of an energy.
    Intensity [0, 0, -1, 0, 1, 0], "a carbon intensity", "182.54 kgCO2e/MWh";
    /// Data delivered with an energy.
    Efficiency [1, 0, -1, 0, 0, 0], "an efficiency of delivery", "1.18 Gbit/s/W";
}

/// A quantity of one dimension, in base units inside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantity<D> {
    base: f64,
    dimension: PhantomData<D>,
}

impl<D: Dimension> Quantity<D> {
    /// None of it.
    pub const ZERO: Self = Self::of_base(0.0);

    /// From a number of base units.
    pub(crate) const fn of_base(base: f64) -> Self {
        Self { base, dimension: PhantomData }
    }

    /// A number of a unit that stands in the source.
    ///
    /// # Panics
    /// When the unit is not one of this dimension: units in the source are literals.
    pub fn of(number: f64, unit: &str) -> Self {
        let unit = unit::parse_unit(unit).expect("units in the source are known");
        assert_eq!(unit.exponents, D::EXPONENTS, "the unit is one of {}", D::NAME);
        Self::of_base(number * unit.factor)
    }

    /// How many of a unit that stands in the source it is.
    ///
    /// # Panics
    /// When the unit is not one of this dimension: units in the source are literals.
    pub fn to(self, unit: &str) -> f64 {
        self / Self::of(1.0, unit)
    }

    /// From text such as `25 MB`.
    ///
    /// # Errors
    /// Names what is wrong with the text and how this dimension is written.
    pub fn parse(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = unit::parse(text)?;
        if unit.exponents != D::EXPONENTS {
            return Err(UnitError::WrongDimension {
                text: text.trim().to_owned(),
                is: unit::name_of(unit.exponents),
                expected: D::NAME,
            });
        }
        Ok(Self::of_base(number * unit.factor))
    }

    /// The larger of the two.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self::of_base(self.base.max(other.base))
    }
}

impl Quantity<Ratio> {
    /// A plain number.
    pub const fn ratio(number: f64) -> Self {
        Self::of_base(number)
    }

    /// The number.
    pub const fn number(self) -> f64 {
        self.base
    }
}

impl<D: Dimension> PartialOrd for Quantity<D> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.base.partial_cmp(&other.base)
    }
}

impl<D: Dimension> Add for Quantity<D> {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::of_base(self.base + other.base)
    }
}

impl<D: Dimension> Sub for Quantity<D> {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self::of_base(self.base - other.base)
    }
}

impl<D: Dimension> Mul<f64> for Quantity<D> {
    type Output = Self;

    fn mul(self, factor: f64) -> Self {
        Self::of_base(self.base * factor)
    }
}

impl<D: Dimension> Div<f64> for Quantity<D> {
    type Output = Self;

    fn div(self, divisor: f64) -> Self {
        Self::of_base(self.base / divisor)
    }
}

impl<D: Dimension> Div for Quantity<D> {
    type Output = f64;

    fn div(self, other: Self) -> f64 {
        self.base / other.base
    }
}

impl<D: Dimension> std::iter::Sum for Quantity<D> {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::ZERO, Self::add)
    }
}

/// `$a × $b = $c`, in both orders, with both quotients; the powers are checked when it compiles.
macro_rules! products {
    ($($a:ident * $b:ident = $c:ident;)*) => {
        $(
            const _: () = assert!($a::EXPONENTS.times($b::EXPONENTS).is($c::EXPONENTS));

            impl Mul<Quantity<$b>> for Quantity<$a> {
                type Output = Quantity<$c>;

                fn mul(self, other: Quantity<$b>) -> Quantity<$c> {
                    Quantity::of_base(self.base * other.base)
                }
            }

            impl Mul<Quantity<$a>> for Quantity<$b> {
                type Output = Quantity<$c>;

                fn mul(self, other: Quantity<$a>) -> Quantity<$c> {
                    Quantity::of_base(self.base * other.base)
                }
            }

            impl Div<Quantity<$a>> for Quantity<$c> {
                type Output = Quantity<$b>;

                fn div(self, other: Quantity<$a>) -> Quantity<$b> {
                    Quantity::of_base(self.base / other.base)
                }
            }

            impl Div<Quantity<$b>> for Quantity<$c> {
                type Output = Quantity<$a>;

                fn div(self, other: Quantity<$b>) -> Quantity<$a> {
                    Quantity::of_base(self.base / other.base)
                }
            }
        )*
    };
}

products! {
    Rate * Time = Data;
    Frequency * Time = Ratio;
    Frequency * Data = Rate;
    Power * Time = Energy;
    EnergyPrice * Energy = Money;
    DataPrice * Data = Money;
    Spending * Time = Money;
    SpacePrice * Space = Spending;
    Intensity * Energy = Carbon;
    Efficiency * Power = Rate;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn power_over_time_is_energy_and_costs_money() {
        let energy = Quantity::<Power>::of(1.1, "kW") * Quantity::<Time>::of(2.0, "h");
        assert!((energy.to("kWh") - 2.2).abs() < 1e-12);
        let money = energy * Quantity::<EnergyPrice>::of(0.12, "USD/kWh");
        assert!((money.to("USD") - 0.264).abs() < 1e-12);
    }

    #[test]
    fn what_is_of_another_dimension_is_refused_with_both_names() {
        let error = Quantity::<EnergyPrice>::parse("12 GB").unwrap_err();
        assert_eq!(error.to_string(), "`12 GB` is an amount of data, not a price of energy");
    }

    #[test]
    fn every_example_is_of_its_dimension() {
        for (exponents, name, example) in DIMENSIONS {
            let (_, unit) = unit::parse(example).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(unit.exponents, *exponents, "{name}: {example}");
        }
    }

    proptest! {
        #[test]
        fn quotients_undo_products(power in 1e-3f64..1e9, hours in 1e-3f64..1e6) {
            let power = Quantity::<Power>::of(power, "W");
            let time = Quantity::<Time>::of(hours, "h");
            let energy = power * time;
            prop_assert!((energy / time / power - 1.0).abs() < 1e-12);
            prop_assert!((energy / power / time - 1.0).abs() < 1e-12);
        }
    }
}

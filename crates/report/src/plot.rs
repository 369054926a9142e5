//! Plots: what is drawn, on which axes. How it is drawn is in `svg`.

/// A plot with its two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// Says what it shows.
    pub title: String,
    /// The axis from left to right; of bars and percentiles only its label is used.
    pub x: Axis,
    /// The axis from bottom to top.
    pub y: Axis,
    /// What is drawn.
    pub shape: Shape,
    /// Lines across the plot at a value of `y` that something is judged by.
    pub limits: Vec<Limit>,
}

impl Plot {
    /// Points of each series joined in the order given.
    pub fn lines(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self::new(title, x, y, Shape::Lines(Vec::new()))
    }

    /// Points of each series by themselves.
    pub fn scatter(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self::new(title, x, y, Shape::Scatter(Vec::new()))
    }

    /// For each category a bar of each series beside each other, from zero. The values of a series
    /// are the `y` of its points, in the order of the categories.
    pub fn bars<T: Into<String>>(
        title: impl Into<String>,
        categories: impl IntoIterator<Item = T>,
        y: Axis,
    ) -> Self {
        let categories = categories.into_iter().map(Into::into).collect();
        Self::new(title, Axis::new(""), y, Shape::Bars { categories, series: Vec::new() })
    }

    /// Percentiles (`x`, 0 to 100) and their values (`y`), with the tail stretched: each further
    /// nine takes the same room.
    pub fn percentiles(title: impl Into<String>, y: Axis) -> Self {
        Self::new(title, Axis::new("percentile"), y, Shape::Percentiles(Vec::new()))
    }

    fn new(title: impl Into<String>, x: Axis, y: Axis, shape: Shape) -> Self {
        Self { title: title.into(), x, y, shape, limits: Vec::new() }
    }

    /// The same with one more series.
    #[must_use]
    pub fn series(mut self, series: Series) -> Self {
        self.push(series);
        self
    }

    /// Adds a series.
    pub fn push(&mut self, series: Series) {
        match &mut self.shape {
            Shape::Lines(all) | Shape::Scatter(all) | Shape::Percentiles(all) => all.push(series),
            Shape::Bars { series: all, .. } => all.push(series),
        }
    }

    /// The same with a line across it at a value of `y`.
    #[must_use]
    pub fn limit(mut self, label: impl Into<String>, value: f64) -> Self {
        self.limits.push(Limit { label: label.into(), value });
        self
    }

    /// All series.
    pub(crate) fn all(&self) -> &[Series] {
        match &self.shape {
            Shape::Lines(all) | Shape::Scatter(all) | Shape::Percentiles(all) => all,
            Shape::Bars { series, .. } => series,
        }
    }
}

/// What is drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Points joined by lines.
    Lines(Vec<Series>),
    /// Points alone.
    Scatter(Vec<Series>),
    /// Bars from zero, grouped by category.
    Bars {
        /// Names below the groups.
        categories: Vec<String>,
        /// One bar of each in every group.
        series: Vec<Series>,
    },
    /// Values over percentiles.
    Percentiles(Vec<Series>),
}

/// An axis: what it shows, in which unit, on which scale.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// What it shows.
    pub label: String,
    /// Its unit; empty for counts and shares.
    pub unit: String,
    /// Its scale.
    pub scale: Scale,
    /// Values that it shows at least, the lower one first; what is drawn alone decides without.
    pub least: Option<(f64, f64)>,
}

impl Axis {
    /// A linear axis without a unit.
    pub fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), ..Self::default() }
    }

    /// The same with a unit.
    #[must_use]
    pub fn unit(mut self, unit: impl Into<String>) -> Self {
        self.unit = unit.into();
        self
    }

    /// The same, logarithmic: values at or below zero are not drawn.
    #[must_use]
    pub fn log(mut self) -> Self {
        self.scale = Scale::Log;
        self
    }

    /// The same, showing at least the values from `low` to `high`: 0 to 100 for percent.
    #[must_use]
    pub fn least(mut self, low: f64, high: f64) -> Self {
        self.least = Some((low, high));
        self
    }

    /// Label and unit as they stand at the axis.
    pub(crate) fn title(&self) -> String {
        match (self.label.is_empty(), self.unit.is_empty()) {
            (_, true) => self.label.clone(),
            (true, false) => self.unit.clone(),
            (false, false) => format!("{}, {}", self.label, self.unit),
        }
    }
}

/// How values are laid out on an axis.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Scale {
    /// Equal steps.
    #[default]
    Linear,
    /// Equal factors.
    Log,
}

/// One line, cloud or colour of bars.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub label: String,
    /// Points as `(x, y)`; one that is not finite leaves a gap.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// A series of points.
    pub fn new(label: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { label: label.into(), points }
    }

    /// A series of values for bars, one for each category.
    pub fn values(label: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Self {
        let points = values.into_iter().enumerate().map(|(index, y)| (index as f64, y)).collect();
        Self::new(label, points)
    }
}

/// A line across a plot that something is judged by.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// Its name in the legend.
    pub label: String,
    /// Where it crosses the axis from bottom to top.
    pub value: f64,
}

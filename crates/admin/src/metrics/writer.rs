//! How families of metrics are written.

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeLabelSet, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// What a family is.
pub(super) struct Family {
    pub(super) name: String,
    pub(super) help: String,
    pub(super) kind: MetricType,
    pub(super) labels: &'static [&'static str],
}

/// What families there were.
pub(super) type Families = Arc<Mutex<Vec<Family>>>;

/// Writes families one after another; those that have no value are left out.
pub(crate) struct Writer<'a> {
    encoder: DescriptorEncoder<'a>,
    /// Where all families are put down, those that are left out as well, if anybody asks for them.
    listed: Option<Families>,
}

/// Name, help and place of a figure.
pub(super) type Row<S, N> = (&'static str, &'static str, fn(&S) -> N);

/// A histogram: the sum of all values, their count, and the upper end and count of each bucket alone.
pub(super) type Buckets = (f64, u64, Vec<(f64, u64)>);

impl<'a> Writer<'a> {
    pub(super) fn new(encoder: DescriptorEncoder<'a>, listed: Option<Families>) -> Self {
        Self { encoder, listed }
    }

    /// A count that only grows, where there is one; `_total` is added to its name.
    pub(super) fn counter(
        &mut self,
        name: &str,
        help: &str,
        value: impl Into<Option<u64>>,
    ) -> fmt::Result {
        self.alone((name, help, MetricType::Counter), value.into(), encode_counter)
    }

    /// A sum of seconds that only grows.
    pub(super) fn seconds(&mut self, name: &str, help: &str, value: Option<f64>) -> fmt::Result {
        self.alone((name, help, MetricType::Counter), value, encode_counter)
    }

    /// A value that comes and goes.
    pub(super) fn gauge(
        &mut self,
        name: &str,
        help: &str,
        value: impl Into<Option<f64>>,
    ) -> fmt::Result {
        self.alone((name, help, MetricType::Gauge), value.into(), encode_gauge)
    }

    /// Values by how often they came.
    pub(super) fn histogram(&mut self, name: &str, help: &str, value: Buckets) -> fmt::Result {
        self.alone((name, help, MetricType::Histogram), Some(value), encode_histogram)
    }

    /// Counts by one label.
    pub(super) fn counters<'l>(
        &mut self,
        name: &str,
        help: &str,
        label: &'static [&'static str; 1],
        values: impl IntoIterator<Item = (&'l str, u64)>,
    ) -> fmt::Result {
        let values = values.into_iter().map(|(text, value)| ([(label[0], text)], value));
        self.counters_by(name, help, label, values)
    }

    /// Counts by several labels.
    pub(super) fn counters_by<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        labels: &'static [&'static str],
        values: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        self.family((name, help, MetricType::Counter), labels, values, encode_counter)
    }

    /// Sums of seconds by one label.
    pub(super) fn seconds_by<'l>(
        &mut self,
        name: &str,
        help: &str,
        label: &'static [&'static str; 1],
        values: impl IntoIterator<Item = (&'l str, f64)>,
    ) -> fmt::Result {
        let values = values.into_iter().map(|(text, value)| ([(label[0], text)], value));
        self.family((name, help, MetricType::Counter), label, values, encode_counter)
    }

    /// Values by one label.
    pub(super) fn gauges<'l>(
        &mut self,
        name: &str,
        help: &str,
        label: &'static [&'static str; 1],
        values: impl IntoIterator<Item = (&'l str, f64)>,
    ) -> fmt::Result {
        let values = values.into_iter().map(|(text, value)| ([text], value));
        self.gauges_by(name, help, label, values)
    }

    /// Values by several labels.
    pub(super) fn gauges_by<'l, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        labels: &'static [&'static str; N],
        values: impl IntoIterator<Item = ([&'l str; N], f64)>,
    ) -> fmt::Result {
        let values = values.into_iter().map(|(texts, value)| {
            (std::array::from_fn::<_, N, _>(|at| (labels[at], texts[at])), value)
        });
        self.family((name, help, MetricType::Gauge), labels, values, encode_gauge)
    }

    /// Histograms by labels.
    pub(super) fn histograms<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        labels: &'static [&'static str],
        values: impl IntoIterator<Item = (L, Buckets)>,
    ) -> fmt::Result {
        self.family((name, help, MetricType::Histogram), labels, values, encode_histogram)
    }

    /// A family of one value, if there is one.
    fn alone<V>(
        &mut self,
        (name, help, kind): (&str, &str, MetricType),
        value: Option<V>,
        encode: impl Fn(MetricEncoder<'_>, V) -> fmt::Result,
    ) -> fmt::Result {
        self.list(name, help, kind, &[]);
        let Some(value) = value else { return Ok(()) };
        encode(self.encoder.encode_descriptor(name, help, None, kind)?, value)
    }

    /// A family with the labels of each value.
    fn family<L: EncodeLabelSet, V>(
        &mut self,
        (name, help, kind): (&str, &str, MetricType),
        labels: &'static [&'static str],
        values: impl IntoIterator<Item = (L, V)>,
        encode: impl Fn(MetricEncoder<'_>, V) -> fmt::Result,
    ) -> fmt::Result {
        self.list(name, help, kind, labels);
        let mut values = values.into_iter().peekable();
        if values.peek().is_none() {
            return Ok(());
        }
        let mut metric = self.encoder.encode_descriptor(name, help, None, kind)?;
        for (labels, value) in values {
            encode(metric.encode_family(&labels)?, value)?;
        }
        Ok(())
    }

    fn list(&self, name: &str, help: &str, kind: MetricType, labels: &'static [&'static str]) {
        let Some(listed) = &self.listed else { return };
        let family = Family { name: name.to_owned(), help: help.to_owned(), kind, labels };
        listed.lock().unwrap_or_else(PoisonError::into_inner).push(family);
    }
}

fn encode_counter<V: EncodeCounterValue>(mut metric: MetricEncoder<'_>, value: V) -> fmt::Result {
    metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
}

fn encode_gauge(mut metric: MetricEncoder<'_>, value: f64) -> fmt::Result {
    metric.encode_gauge(&value)
}

fn encode_histogram(mut metric: MetricEncoder<'_>, value: Buckets) -> fmt::Result {
    let (sum, count, buckets) = value;
    let exemplars: Option<&HashMap<usize, Exemplar<NoLabelSet, f64>>> = None;
    metric.encode_histogram(sum, count, &buckets, exemplars)
}

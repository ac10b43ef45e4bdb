//! Reads `.hgrm`: the text of percentiles that HdrHistogram's own tools write and plot.

/// A distribution as a list of percentiles.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    /// Share of values (0 to 1) and the value that so many do not exceed, in the file's unit; both rising.
    pub points: Vec<(f64, f64)>,
    /// Number of values.
    pub count: u64,
}

impl Distribution {
    /// Reads the text of a `.hgrm`.
    ///
    /// # Errors
    /// A line that is neither four columns nor a comment: its number and what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut distribution = Distribution::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') || line.starts_with("Value") {
                continue;
            }
            let wrong = |what| format!("line {}: {what}: '{line}'", number + 1);
            let mut columns = line.split_whitespace();
            let mut column = |what| columns.next().ok_or_else(|| wrong(what));
            let value: f64 = column("no value")?.parse().map_err(|_| wrong("no number"))?;
            let share: f64 = column("no percentile")?.parse().map_err(|_| wrong("no number"))?;
            let count: u64 = column("no count")?.parse().map_err(|_| wrong("no count"))?;
            let in_order = distribution.points.last().is_none_or(|(s, v)| *s <= share && *v <= value);
            if !(0.0..=1.0).contains(&share) || !value.is_finite() || !in_order {
                return Err(wrong("out of order"));
            }
            distribution.points.push((share, value));
            distribution.count = count;
        }
        if distribution.points.is_empty() { Err("no percentiles in it".into()) } else { Ok(distribution) }
    }

    /// The value that a share of all does not exceed.
    pub fn at(&self, share: f64) -> f64 {
        let point = self.points.iter().find(|(s, _)| *s >= share).or(self.points.last());
        point.map_or(0.0, |(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "       Value     Percentile TotalCount 1/(1-Percentile)\n\n\
        \x20      1.000 0.000000000000          1           1.00\n\
        \x20      5.000 0.500000000000         50           2.00\n\
        \x20     20.000 0.990000000000         99         100.00\n\
        \x20     25.000 1.000000000000        100\n\
        #[Mean    =        6.000, StdDeviation   =        3.000]\n\
        #[Max     =       25.000, Total count    =          100]\n";

    #[test]
    fn percentiles_are_read_as_hdrhistogram_writes_them() {
        let d = Distribution::parse(TEXT).expect("as written");
        assert_eq!((d.count, d.points.len()), (100, 4));
        assert_eq!([0.0, 0.5, 0.9, 0.99, 1.0].map(|s| d.at(s)), [1.0, 5.0, 20.0, 20.0, 25.0]);
    }

    #[test]
    fn what_is_no_distribution_is_refused_with_its_line() {
        assert_eq!(Distribution::parse("1.0 0.5 x"), Err("line 1: no count: '1.0 0.5 x'".into()));
        assert_eq!(Distribution::parse("2 0.5 1 2\n1 0.6 2 3"), Err("line 2: out of order: '1 0.6 2 3'".into()));
        assert_eq!(Distribution::parse("# nothing\n"), Err("no percentiles in it".into()));
    }
}

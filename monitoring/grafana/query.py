"""Expressions over the series that the variables of a dashboard choose."""

CHOSEN = 'service=~"$service",instance=~"$instance"'


def chosen(metric, more=""):
    """A selector of a metric, narrowed to what is chosen on the dashboard."""
    return f"{metric}{{{CHOSEN}{',' + more if more else ''}}}"


def of_crawl(more=""):
    """The matcher of the chosen crawl."""
    return f'crawl="$crawl"{"," + more if more else ""}'


def aggregate(function, inner, by=""):
    """An aggregation, by some labels."""
    return f"{function} by ({by}) ({inner})" if by else f"{function}({inner})"


def total(metric, by="", more=""):
    """The sum of a level."""
    return aggregate("sum", chosen(metric, more), by)


def largest(metric, by="", more=""):
    """The largest of a level."""
    return aggregate("max", chosen(metric, more), by)


def rate(metric, by="", more=""):
    """The sum of the rates of a counter."""
    return aggregate("sum", f"rate({chosen(metric, more)}[$__rate_interval])", by)


def increase(metric, by="", more=""):
    """The sum of the increases of a counter."""
    return aggregate("sum", f"increase({chosen(metric, more)}[$__rate_interval])", by)


def quantile(share, metric, by="", more=""):
    """A quantile of a histogram."""
    labels = f"{by}, le" if by else "le"
    return f"histogram_quantile({share}, {rate(metric + '_bucket', labels, more)})"


def quantiles(metric, *shares):
    """Expressions and legends of some quantiles of a histogram."""
    names = {0.5: "median", 0.9: "90th", 0.95: "95th", 0.99: "99th"}
    return [(quantile(share, metric), names[share]) for share in shares]


def share(part, whole):
    """A ratio of two expressions."""
    return f"{part} / {whole}"

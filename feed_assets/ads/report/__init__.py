"""The worked example's report: figures of ad effectiveness, plots and a page. Not here: computing the feed (`ads`)."""

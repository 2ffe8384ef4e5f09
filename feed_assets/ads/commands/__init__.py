"""The commands that only the worked example has, besides those of every project: see `feed_assets.cli.commands`."""

COMMANDS = {
    "demo": ("feed_assets.ads.commands.demo:demo", "The main job on real logs, shown step by step."),
    "report": ("feed_assets.ads.commands.report:report", "How effective the ads were, as a table and a plot."),
}

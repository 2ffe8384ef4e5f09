// The page of runs: the steps that run now, and a row for each series. Plots are `plots.js`.

import { request } from "./api.js";
import { element, prose } from "./elements.js";
import { keepLive } from "./live_page.js";
import { forecastPlot, sharePlot } from "./plots.js";

const EVERY = 60_000;
const WHILE_RUNNING = 5_000;
const find = (id) => document.getElementById(id);

let shown = "";

function row(found) {
  const warned = Object.keys(found.warnings).length > 0;
  const plots = [
    found.deadline === null || found.deadline.limit === null ? null : forecastPlot(found.deadline),
    found.overlap === null ? null : sharePlot(found.overlap),
  ].filter((each) => each !== null);
  return element("section", { class: warned ? "series warned" : "series" },
    element("h2", {}, found.series, warned ? element("span", { class: "badge" }, "warning") : null),
    ...found.sentences.map((each) => element("p", {}, each)),
    plots.length ? element("div", { class: "plots" }, ...plots) : null);
}

function nothing() {
  return element("p", { id: "nothing" }, ...prose("No run is known yet. The sensor `run_history` fills the history, also with "
    + "earlier runs: start `feed-assets dev`, or switch the sensor on in Dagster."));
}

function show(all) {
  const warned = all.filter((each) => Object.keys(each.warnings).length > 0).length;
  const counted = all.length === 1 ? "1 series" : `${all.length} series`;
  find("summary").textContent = all.length ? `${counted}, ${warned || "none"} with a warning. The last 28 days, in UTC.` : "";
  find("series").replaceChildren(...(all.length ? all.map(row) : [nothing()]));
}

function step(found) {
  const { progress } = found;
  return element("li", {}, found.sentence,
    progress === null ? null : element("progress", { max: progress.tasks, value: progress.tasks_done,
      "aria-label": `tasks of ${found.step}` }));
}

keepLive(async () => {
  const [all, steps] = await Promise.all([request("/v1/runs"), request("/v1/runs/steps")]);
  find("running").hidden = steps.length === 0;
  find("steps").replaceChildren(...steps.map(step));
  const text = JSON.stringify(all);
  if (text !== shown) show(all);
  shown = text;
  return steps.length ? WHILE_RUNNING : EVERY;
});

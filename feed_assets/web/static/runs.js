// The page of runs: signing in, asking again, the steps that run now, and a row for each series. Plots are `plots.js`.

import { request, useToken } from "./api.js";
import { element, prose, signIn } from "./elements.js";
import { forecastPlot, sharePlot } from "./plots.js";

const EVERY = 60_000;
const WHILE_RUNNING = 5_000;
const AGAIN = 5_000;
const find = (id) => document.getElementById(id);

let timer = null;
let shown = "";

function live(isLive, problem) {
  const text = isLive ? "Live" : `Not live: ${problem}`;
  if (find("live").textContent !== text) find("live").textContent = text;
  find("live").classList.toggle("off", !isLive);
}

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

async function refresh() {
  clearTimeout(timer);
  let wait = EVERY;
  try {
    const [all, steps] = await Promise.all([request("/v1/runs"), request("/v1/runs/steps")]);
    find("running").hidden = steps.length === 0;
    find("steps").replaceChildren(...steps.map(step));
    if (steps.length) wait = WHILE_RUNNING;
    find("sign-in").hidden = true;
    find("main").hidden = false;
    const text = JSON.stringify(all);
    if (text !== shown) show(all);
    shown = text;
    live(true, "");
  } catch (error) {
    if (error.status === 401) return signIn(error);
    live(false, error.message);
    wait = AGAIN;
  }
  timer = setTimeout(() => (document.hidden ? null : refresh()), wait);
}

find("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  useToken(find("token").value.trim());
  find("token").value = "";
  refresh();
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && find("sign-in").hidden) refresh();
});
refresh();

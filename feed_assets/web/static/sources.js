// The page of sources: a section for each, those with warnings first. Plots are `plots.js`.

import { request } from "./api.js";
import { element, prose } from "./elements.js";
import { keepLive } from "./live_page.js";
import { recordsPlot } from "./plots.js";

const EVERY = 30_000;
const find = (id) => document.getElementById(id);

let shown = "";

function section(found) {
  const warned = found.warnings.length > 0;
  const arrives = Object.values(found.days).some(({ landings }) => landings > 0);
  return element("section", { class: warned ? "series warned" : "series" },
    element("h2", {}, found.source, warned ? element("span", { class: "badge" }, "warning") : null),
    ...found.warnings.map((each) => element("p", { class: "warning" }, ...prose(each))),
    ...found.sentences.map((each) => element("p", {}, ...prose(each))),
    arrives ? element("div", { class: "plots" }, recordsPlot(found.days)) : null);
}

function nothing() {
  return element("p", { id: "nothing" }, ...prose("This project has no source. The variable `FEED_ASSETS_SOURCES` names the "
    + "directory of their descriptions."));
}

function show(all) {
  const warned = all.filter((each) => each.warnings.length > 0).length;
  const counted = all.length === 1 ? "1 source" : `${all.length} sources`;
  find("summary").textContent = all.length ? `${counted}, ${warned || "none"} with a warning. Times and days are in UTC.` : "";
  find("sources").replaceChildren(...(all.length ? all.map(section) : [nothing()]));
}

keepLive(async () => {
  const all = await request("/v1/sources");
  const text = JSON.stringify(all);
  if (text !== shown) show(all);
  shown = text;
  return EVERY;
});

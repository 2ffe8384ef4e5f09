// The page of sources: a section for each, those with warnings first, and where a pushed request is. Plots are `plots.js`.

import { request } from "./api.js";
import { element, facts, number, prose, section as part, table } from "./elements.js";
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

const time = (text) => `${text.slice(0, 10)} ${text.slice(11, 19)} UTC`;

function readBy(readers) {
  return readers.map(({ feed, update }) => `${feed}: ${update ?? "not yet"}`).join(", ");
}

/** A row for each day: its raw files, one for each hour, together. */
function byDay(files) {
  const rows = new Map();
  for (const { day, records, resubmitted, readers } of files) {
    const [note, by] = [resubmitted ? "corrected" : "", readBy(readers)];
    const name = JSON.stringify([day, note, by]);
    rows.set(name, [day, records + (rows.get(name)?.[1] ?? 0), note, by]);
  }
  return [...rows.values()].map(([day, records, ...others]) => [day, number(records), ...others]);
}

function story(found) {
  const waits = found.state === "waiting" ? "It is durable, and waits in the journal: it lands a minute after it came." : "";
  const raw = byDay(found.raw);
  const bad = found.quarantined.map((each) =>
    [each.index, each.reason, each.partition ?? "", each.resubmitted ? "corrected, landed again" : ""]);
  return [
    element("h2", {}, `Request ${found.request_id}`),
    ...found.problems.map((each) => element("p", { class: "warning" }, each)),
    facts([
      ["Partner", found.partner], ["Source", found.source], ["Received", time(found.received)],
      ["Accepted", number(found.accepted)], ["Rejected", number(found.rejected)],
      ["Landed", found.landed ? time(found.landed) : waits],
      ["Left out", found.left_out ? `${number(found.left_out)} by the filter of the source` : ""],
    ]),
    ...part("In raw files", raw.length ? table(["Day", "Records", "Note", "Read by"], raw) : null),
    ...part("In quarantine", bad.length ? table(["Index", "Reason", "Day", "Note"], bad) : null),
  ];
}

async function follow(event) {
  event.preventDefault();
  const id = find("request-id").value.trim();
  if (!id) return;
  const shows = find("story");
  shows.hidden = false;
  shows.setAttribute("aria-busy", "true");
  shows.replaceChildren(element("p", {}, "Looking …"));
  try {
    shows.replaceChildren(...story(await request(`/v1/sources/requests/${encodeURIComponent(id)}`)));
  } catch (error) {
    shows.replaceChildren(element("p", { role: "alert" }, error.message));
  }
  shows.removeAttribute("aria-busy");
}

find("follow").addEventListener("submit", follow);

keepLive(async () => {
  const all = await request("/v1/sources");
  const text = JSON.stringify(all);
  if (text !== shown) show(all);
  shown = text;
  return EVERY;
});

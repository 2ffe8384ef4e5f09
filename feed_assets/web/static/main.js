// The page: which dataset and days it shows, by its address; keeping it current; signing in.

import { ApiError, ask, follow } from "./api.js";
import { Calendar } from "./calendar.js";
import { element } from "./elements.js";
import { Panel, slotOf } from "./panel.js";
import { onToken, signIn } from "./signing_in.js";
import { STATES, onScheme, shapeOf } from "./states.js";

const ALL = "";
const DAY = 86400000;
const SPANS = { "5min": 1, "10min": 1, hour: 2, day: 21, week: 182, month: 365, quarter: 1095, "-": 1 };
const find = (id) => document.getElementById(id);

const controls = { dataset: find("dataset"), grain: find("grain"), from: find("from"), to: find("to") };
let datasets = [];
let now = new Date();
let shown = [];
let asking = null;
let note = "";

const calendar = new Calendar(find("calendar"), (row, column) => {
  const { dataset, member, grain } = shown[row];
  if (column === null) {
    if (!controls.dataset.value) show({ dataset });
    return;
  }
  openSlot({ dataset, member, grain, start: calendar.columns[column] });
});
const panel = new Panel(find("panel"), goTo, () => {
  writeAddress();
  find("calendar").focus();
});

const text = (date) => date.toISOString().slice(0, 10);
const plus = (day, days) => text(new Date(Date.parse(day) + days * DAY));
const named = (name) => datasets.find((each) => each.name === name);

function say(problem) {
  find("problem").textContent = problem;
  find("problem").hidden = !problem;
}

function legend() {
  find("legend").replaceChildren(...Object.entries(STATES).map(([letter, { name }]) =>
    element("li", {}, shapeOf(letter), name)));
}

/** The grains to choose from; the first one that fits. */
function fillGrains(wanted) {
  const dataset = named(controls.dataset.value);
  const grains = dataset ? dataset.grains : ["day"];
  controls.grain.replaceChildren(...grains.map((each) => element("option", { value: each }, each === "-" ? "whole" : each)));
  controls.grain.value = grains.includes(wanted) ? wanted : grains[0];
  controls.grain.disabled = !dataset;
}

function about() {
  const dataset = named(controls.dataset.value);
  if (!dataset) return "Each dataset as a whole, by day. Open a row's name to see its members and finer slots.";
  const rules = {
    assumed: "Its slots count as complete when their buffer has passed.",
    published: "Its slots are complete while an update is in force.",
    counted: `Its slots are complete when ${dataset.threshold / 1000} % of the records that ${dataset.witnesses.join(" and ")} counted are there.`,
    covered: "Its slots are complete when all positions of the source are covered.",
    mixed: "Each member has a rule of its own.",
  };
  const made = dataset.flow ? ` The asset ${dataset.flow} makes it of ${dataset.reads.join(" and ") || "nothing with slots"}.` : "";
  return `${rules[dataset.basis] ?? ""}${made}`;
}

/** Change what is shown; a span that fits is chosen unless the days are given. `why` stays above the calendar. */
function show({ dataset = controls.dataset.value, grain = "", from = "", to = "" }, why = "") {
  note = why;
  controls.dataset.value = named(dataset) ? dataset : ALL;
  fillGrains(grain);
  controls.to.value = to || (from > text(now) ? from : text(now));
  controls.from.value = from || plus(controls.to.value, 1 - (SPANS[controls.grain.value] ?? 14));
  find("about").textContent = about();
  writeAddress();
  return load();
}

function writeAddress() {
  const address = new URLSearchParams();
  for (const [name, control] of Object.entries(controls)) if (control.value) address.set(name, control.value);
  if (panel.slot) address.set("slot", Object.values(panel.slot).join(" "));
  history.replaceState(null, "", `#${address}`);
}

const isDay = (given) => /^(19[7-9]|20\d)\d-\d\d-\d\d$/.test(given) && !Number.isNaN(Date.parse(given))
  && text(new Date(Date.parse(given))) === given;

/** What the address asks for: a view, a slot, and a sentence about the rest, which makes no sense. */
function readAddress() {
  const address = new URLSearchParams(location.hash.slice(1));
  const [dataset, grain, from, to, slot] = ["dataset", "grain", "from", "to", "slot"].map((name) => address.get(name) ?? "");
  const view = { dataset: "" };
  const faults = [];
  if (!dataset || named(dataset)) view.dataset = dataset;
  else faults.push(`there is no dataset ${dataset}`);
  const grains = view.dataset ? named(view.dataset).grains : ["day"];
  if (grains.includes(grain)) view.grain = grain;
  else if (grain && !faults.length) faults.push(`${view.dataset || "the view of all datasets"} has no slots of the length ${grain}`);
  for (const [name, given] of Object.entries({ from, to })) {
    if (isDay(given)) view[name] = given;
    else if (given) faults.push(`${given} is no day such as ${text(now)}`);
  }
  if (view.from > (view.to ?? "9999")) {
    faults.push(`${view.from} is after ${view.to}`);
    delete view.from;
  }
  const words = slot.split(" ");
  const opened = words.length === 4 && named(words[0])?.grains.includes(words[2]) ? slotOf(slot) : null;
  if (slot && !opened) faults.push(`${slot} is no slot of these datasets`);
  return { view, slot: opened, why: faults.length ? `The address of this page does not fit: ${faults.join("; ")}.` : "" };
}

/** Show what the address asks for. */
async function followAddress() {
  const { view, slot, why } = readAddress();
  if (!slot && panel.isOpen) panel.close();
  await show(view, why);
  if (slot) await goTo(slot, why);
}

/** Ask for the calendar, and show it. */
async function load() {
  asking?.abort();
  const mine = (asking = new AbortController());
  const { grain, from, to } = Object.fromEntries(Object.entries(controls).map(([name, each]) => [name, each.value]));
  const chosen = controls.dataset.value ? [named(controls.dataset.value)] : datasets.filter((each) => each.grains.includes("day"));
  const started = performance.now();
  const slow = setTimeout(() => {
    if (mine === asking) find("summary").textContent = "Loading …";
  }, 700);
  try {
    const answers = await Promise.all(chosen.map((each) => ask("/calendar", { dataset: each.name, grain, from, to }, mine.signal)));
    say(note);
    merge(answers, Boolean(controls.dataset.value));
  } catch (error) {
    if (error.name === "AbortError") return;
    if (error.status === 401) return signIn(error);
    say(error.message);
  } finally {
    clearTimeout(slow);
  }
  pause = Math.max(300, 5 * (performance.now() - started));
}

/** Rows of one dataset, or the first row of each of several, below the same columns. */
function merge(answers, one) {
  const starts = [...new Set(answers.flatMap((each) => each.starts))].sort();
  const places = new Map(starts.map((each, number) => [each, number]));
  const rows = [];
  const notes = new Map();
  shown = [];
  for (const answer of answers) {
    const used = one ? answer.rows : answer.rows.slice(0, 1);
    used.forEach(([member, letters], number) => {
      const cells = new Array(starts.length).fill(" ");
      answer.starts.forEach((start, column) => { cells[places.get(start)] = letters[column]; });
      for (const [row, column, note] of answer.notes) {
        if (row === number) notes.set(`${rows.length},${places.get(answer.starts[column])}`, note);
      }
      const label = one ? (member === "-" ? (answer.rows.length > 1 ? "all" : answer.dataset) : member) : answer.dataset;
      rows.push({ label, letters: cells });
      shown.push({ dataset: answer.dataset, member, grain: answer.grain });
    });
  }
  calendar.show(starts, rows, notes);
  summarize(rows);
}

function summarize(rows) {
  const counts = new Map();
  for (const { letters } of rows) for (const each of letters) counts.set(each, (counts.get(each) ?? 0) + 1);
  const told = Object.entries(STATES).filter(([letter]) => counts.get(letter))
    .map(([letter, { name }]) => `${counts.get(letter).toLocaleString("en")} ${name}`);
  find("summary").textContent = told.length ? `${told.join(", ")}.` : "There are no slots in these days.";
}

const letterOf = ({ dataset, member, grain, start }) => {
  const row = shown.findIndex((each) => each.dataset === dataset && each.member === member && each.grain === grain);
  return calendar.rows[row]?.letters[calendar.columns.indexOf(start)];
};

function openSlot(slot, options) {
  const opened = panel.open(slot, letterOf(slot) ?? panel.letterOf(slot), options);
  writeAddress();
  return opened;
}

/** Show a slot that may be of another dataset or day. */
async function goTo(slot, why = "") {
  const date = /^\d{4}-\d\d-\d\d/.exec(slot.start)?.[0];
  const same = controls.dataset.value === slot.dataset && controls.grain.value === slot.grain;
  if (!(same && calendar.columns.includes(slot.start)) && letterOf(slot) === undefined) {
    const span = SPANS[slot.grain] ?? 14;
    const range = date ? { from: plus(date, -Math.floor(span / 2)), to: plus(date, Math.floor(span / 2)) } : {};
    await show({ dataset: slot.dataset, grain: slot.grain, ...range }, why);
  }
  const row = shown.findIndex((each) => each.dataset === slot.dataset && each.member === slot.member);
  if (row >= 0) calendar.select(calendar.rows[row].label, slot.start);
  await openSlot(slot);
}

let pause = 300;
let later = null;
let timer = null;

/** Load again soon; many events are one load. A panel that is open is kept current. */
function refresh() {
  later ??= setTimeout(async () => {
    later = null;
    await load();
    if (panel.isOpen) openSlot(panel.slot, { focus: false });
  }, pause);
}

function live(isLive, problem) {
  find("live").textContent = isLive ? "Live" : `Not live: ${problem}`;
  find("live").classList.toggle("off", !isLive);
}

async function start() {
  let answer;
  try {
    answer = await ask("/datasets");
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return signIn(error);
    live(false, error.message);
    setTimeout(start, 3000);
    return;
  }
  find("sign-in").hidden = true;
  find("main").hidden = false;
  ({ datasets } = answer);
  now = new Date(answer.now);
  controls.dataset.replaceChildren(
    element("option", { value: ALL }, "All datasets"),
    ...datasets.map((each) => element("option", { value: each.name }, each.flow ? `${each.name} (${each.flow})` : each.name)),
  );
  legend();
  if (!datasets.length) say("No asset of this project has a trigger yet, or the token reads no dataset. Add trigger() to an asset's metadata.");
  await followAddress();
  live(true, "");
  follow(answer.newest, {
    onEvents: (events) => {
      const names = new Set(events.map((each) => each.details.dataset));
      if (!controls.dataset.value || names.has(controls.dataset.value) || named(controls.dataset.value)?.flow) refresh();
    },
    onGone: refresh,
    onState: live,
  });
  // Runs begin and end without an event, and time passes.
  timer ??= setInterval(() => { if (!document.hidden && !find("main").hidden) refresh(); }, 15000);
}

controls.dataset.addEventListener("change", () => show({}));
controls.grain.addEventListener("change", () => show({ grain: controls.grain.value }));
for (const name of ["from", "to"]) {
  controls[name].addEventListener("change", () => {
    if (controls.from.value && controls.to.value) show(Object.fromEntries(Object.entries(controls).map(([each, control]) => [each, control.value])));
  });
}
function shift(direction) {
  const days = Math.max(1, Math.round((Date.parse(controls.to.value) - Date.parse(controls.from.value)) / DAY) + 1);
  const [from, to] = [controls.from.value, controls.to.value].map((each) => plus(each, direction * days));
  show({ grain: controls.grain.value, from, to });
}
find("earlier").addEventListener("click", () => shift(-1));
find("later").addEventListener("click", () => shift(1));
find("today").addEventListener("click", () => show({ grain: controls.grain.value }));
find("controls").addEventListener("submit", (event) => event.preventDefault());
onToken(start);
window.addEventListener("hashchange", () => {
  if (location.hash === "#calendar") writeAddress(); // the link to the calendar was used
  else if (!find("main").hidden) followAddress();
});
onScheme(legend);
start();

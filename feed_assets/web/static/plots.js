// Plots, as SVG that is drawn anew for each width: the share of the interval, the forecast, and the records of days.

import { element, span } from "./elements.js";

const SVG = "http://www.w3.org/2000/svg";
const DAY = 86_400_000;
const MARGIN = { left: 48, right: 10, top: 18, bottom: 22 };
const DATE = 74;
const DAYS = 28;
const STEPS = [60, 300, 600, 1200, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400];
const AHEAD = 28;
const AFTER_A_MISS = 7;

const number = (day) => Date.parse(day) / DAY;
const dayOf = (count) => new Date(count * DAY).toISOString().slice(0, 10);
const plain = (count) => count.toLocaleString("en");
const short = (count) => count.toLocaleString("en", { notation: "compact" });
const percent = (share) => `${Math.round(100 * share)} %`;

function shape(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

/** A figure that draws itself whenever its width changes. `label` says in words what it shows. */
function figure(caption, label, height, draw) {
  const drawn = shape("svg", { class: "plot", role: "img", "aria-label": label, height });
  const made = element("figure", {}, element("figcaption", {}, caption), drawn);
  new ResizeObserver(([entry]) => {
    const width = Math.max(200, Math.floor(entry.contentRect.width));
    drawn.setAttribute("viewBox", `0 0 ${width} ${height}`);
    drawn.replaceChildren(...draw(width, height));
  }).observe(made);
  return made;
}

/** Places of days and values in a plot, and what all plots have: a line below, and the values beside it. */
function axes(width, height, [first, last], most) {
  const right = width - MARGIN.right, bottom = height - MARGIN.bottom;
  const x = (day) => MARGIN.left + (right - MARGIN.left) * (day - first) / Math.max(1, last - first);
  const y = (value) => bottom - (bottom - MARGIN.top) * Math.min(1.02, value / most);
  // Of days whose names would overlap, the first in the list is named.
  const dates = (days) => {
    const named = [];
    for (const day of days) {
      const left = Math.min(Math.max(x(day) - DATE / 2, MARGIN.left - 10), width - DATE);
      if (named.every(([, other]) => Math.abs(left - other) > DATE + 6)) named.push([day, left]);
    }
    return named.map(([day, left]) => shape("text", { x: left, y: height - 6 }, dayOf(day)));
  };
  const values = (marks, text) => marks.flatMap((value) => [
    shape("line", { class: "axis", x1: MARGIN.left, x2: right, y1: y(value), y2: y(value) }),
    shape("text", { x: MARGIN.left - 6, y: y(value) + 4, "text-anchor": "end" }, text(value)),
  ]);
  const limit = (value, text) => [
    shape("line", { class: "limit", x1: MARGIN.left, x2: right, y1: y(value), y2: y(value) }),
    shape("text", { class: "limit", x: MARGIN.left + 2, y: y(value) - 4 }, text),
  ];
  // A bar for each day; those whose value `isOver` is true of stand out.
  const bars = (days, text, isOver = () => false) => {
    const wide = Math.max(1, (x(1) - x(0)) * 0.75);
    return days.map(([day, value]) => {
      const bar = shape("rect", {
        class: isOver(value) ? "bar over" : "bar", x: x(day) - wide / 2, width: wide, y: y(value), height: bottom - y(value),
      });
      bar.append(shape("title", {}, `${dayOf(day)}: ${text(value)}`));
      return bar;
    });
  };
  return { x, y, right, bottom, dates, values, limit, bars };
}

/** The share of the interval that delay and run take, by day. */
export function sharePlot({ days, limit }) {
  const shares = Object.entries(days).map(([day, share]) => [number(day), share]);
  const newest = shares.at(-1)[0], first = newest - DAYS + 1;
  const [highest, most] = shares.reduce((best, each) => (each[1] > best[1] ? each : best));
  const label = `Share of the interval by day: last ${percent(shares.at(-1)[1])}, highest ${percent(most)} on `
    + `${dayOf(highest)}. From ${percent(limit)} on there is a warning.`;
  return figure("Share of the interval that is taken, by day", label, 150, (width, height) => {
    const place = axes(width, height, [first - 0.5, newest + 0.5], 1.1 * Math.max(1, most));
    return [
      ...place.values([0, 0.5, 1], percent),
      ...place.bars(shares, percent, (share) => share > limit),
      ...place.limit(limit, `warning: ${percent(limit)}`),
      ...place.dates([first, newest]),
    ];
  });
}

/** The records of each day of arrival; `days` has a day without any, too. */
export function recordsPlot(days) {
  const counts = Object.entries(days).map(([day, { records }]) => [number(day), records]);
  const first = counts[0][0], newest = counts.at(-1)[0];
  const most = Math.max(1, ...counts.map(([, records]) => records));
  const empty = counts.filter(([, records]) => records === 0).length;
  const label = `Records by day of arrival: ${plain(counts.at(-1)[1])} on ${dayOf(newest)}, at most ${plain(most)}. `
    + `${empty} of ${counts.length} days have none.`;
  return figure("Records by day of arrival", label, 110, (width, height) => {
    const place = axes(width, height, [first - 0.5, newest + 0.5], 1.1 * most);
    return [
      ...place.values([0, most], short),
      ...place.bars(counts, plain),
      ...place.dates([first, newest]),
    ];
  });
}

/** The time that each day took, and that of the days ahead with its band, below the line of the deadline. */
export function forecastPlot({ time, limit, missed_on: missed, taken, expected }) {
  const past = Object.entries(taken).map(([day, seconds]) => [number(day), seconds]);
  const today = number(Object.keys(expected)[0]) - 1;
  const last = Math.max(today + AHEAD, missed === null ? 0 : number(missed) + AFTER_A_MISS);
  const ahead = Object.entries(expected).map(([day, seconds]) => [number(day), ...seconds]).filter(([day]) => day <= last);
  // A single outlier would hide the others.
  const usual = past.map(([, seconds]) => seconds).sort((a, b) => a - b).at(-3) ?? 0;
  const most = 1.15 * Math.max(limit, usual, ...ahead.map(([, , , high]) => high));
  const step = STEPS.find((each) => most / each < 3) ?? STEPS.at(-1);
  const label = missed === null
    ? `Time until the end, by day, and the forecast: the deadline ${time} UTC is kept.`
    : `Time until the end, by day, and the forecast: the deadline ${time} UTC is missed from ${missed} on.`;
  return figure("From the wanted start to the end: taken (dots), expected (line), 90 of 100 such days (band)", label, 190, (width, height) => {
    const place = axes(width, height, [past[0][0] - 0.5, last], most);
    const line = (values) => values.map(([day, value]) => `${place.x(day)},${place.y(value)}`).join(" ");
    const upper = ahead.map(([day, , , high]) => [day, high]), lower = ahead.map(([day, , low]) => [day, low]);
    const upright = (name, day) => shape("line", { class: name, x1: place.x(day), x2: place.x(day), y1: MARGIN.top, y2: place.bottom });
    const marked = missed === null ? null : number(missed);
    return [
      ...place.values([0, step, 2 * step].filter((each) => each < most), span),
      shape("polygon", { class: "band", points: line([...upper, ...lower.reverse()]) }),
      shape("polyline", { class: "expected", points: line(ahead) }),
      upright("today", today),
      shape("text", { x: place.x(today), y: MARGIN.top - 5, "text-anchor": "middle" }, "today"),
      ...(marked === null ? [] : [upright("missed", marked)]),
      ...past.map(([day, seconds]) => {
        const dot = shape("circle", { class: "taken", cx: place.x(day), cy: place.y(seconds), r: 2.5 });
        dot.append(shape("title", {}, `${dayOf(day)}: ${span(seconds)}`));
        return dot;
      }),
      ...place.limit(limit, `deadline ${time} UTC`),
      ...place.dates([marked ?? today, past[0][0], last]),
    ];
  });
}

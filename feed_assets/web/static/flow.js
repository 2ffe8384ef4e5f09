// A workflow: its master, its groups from stage to stage, and its leased and dead tasks.

import { element, moment, number, prose, span } from "./elements.js";

const SHORT = 120;
const SVG = "http://www.w3.org/2000/svg";

/** A button that opens the story of a unit. `key` tells it from other buttons for the same unit. */
export function unitButton(unit, open, key = "unit") {
  return element("button", { type: "button", class: "link", "data-key": `${key} ${unit}`, onclick: () => open(unit) }, `unit ${unit}`);
}

/** Reasons in order; those that repeat are one line. */
export function reasonList(reasons) {
  const lines = [];
  for (const each of reasons) {
    const last = lines.at(-1);
    if (last?.reason === each) last.times += 1;
    else lines.push({ reason: each, times: 1 });
  }
  return element("ol", { class: "reasons" }, ...lines.map(({ reason, times }) =>
    element("li", {}, times > 1 ? element("span", { class: "soft" }, `${times} times: `) : null, reason)));
}

/** Buttons that retry or drop a dead task. */
export function mending(workflow, task, order) {
  const what = `unit ${task.unit} of ${task.group}`;
  return element("span", { class: "buttons" }, ...["retry", "drop"].map((verb) => element("button", {
    type: "button", "data-key": `${verb} ${task.unit}`, "aria-label": `${verb} ${what}`,
    onclick: () => order({ workflow, verb, target: String(task.unit), what }),
  }, verb === "retry" ? "Retry" : "Drop")));
}

export class Flow {
  /** `open(unit)` shows a unit's story, `order(...)` asks for the reason of an order. */
  constructor(name, { open, order }) {
    this.name = name;
    this.open = open;
    this.order = order;
    this.state = element("div", { class: "state-of" }, element("p", { class: "soft" }, "Loading …"));
    const wanted = element("input", { id: `unit-${name}`, inputmode: "numeric", pattern: "[0-9]{1,18}", size: "8", required: "" });
    const form = element("form", { class: "find" }, element("label", { for: `unit-${name}` }, "Unit"), wanted,
      element("button", {}, "Show"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      open(Number(wanted.value));
    });
    this.element = element("section", { "aria-labelledby": `title-${name}`, class: "workflow", id: `workflow-${name}` },
      element("div", { class: "head" }, element("h2", { id: `title-${name}` }, name), form), this.state);
    new ResizeObserver(() => this.#connect()).observe(this.state);
  }

  /** Show how the workflow is now. The keyboard stays where it is. */
  show(state) {
    this.now = state.now;
    this.problem = state.problem;
    this.mayControl = state.may_control && !state.problem;
    this.feeds = state.feeds;
    const held = this.state.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
    const scrolled = this.flow?.scrollLeft ?? 0;
    const groups = state.columns.flat();
    const total = (status) => groups.reduce((sum, each) => sum + each[status], 0);
    this.state.replaceChildren(...[
      state.problem ? element("p", { class: "why problem" }, ...prose(state.problem)) : this.#master(state),
      ...state.hints.map((each) => element("p", { class: "why" }, ...prose(each))),
      this.#groups(state.columns),
      ...this.#dead(state.dead, total("dead")),
      ...this.#leased(state.leased, total("leased")),
    ].filter((each) => each !== null));
    if (this.flow) this.flow.scrollLeft = scrolled;
    this.#connect();
    if (held !== undefined) this.state.querySelector(`[data-key="${CSS.escape(held)}"]`)?.focus();
  }

  #master({ master, position, sessions }) {
    return element("p", { class: "master" }, element("strong", {}, "Master"), " ", element("code", {}, master.url),
      ` on ${master.host}, process ${master.process}, since `, moment(master.since), ` UTC (${span(this.now - master.since)}). `,
      `Epoch ${number(master.epoch)}, position ${number(position)}, ${number(sessions)} ${sessions === 1 ? "session" : "sessions"}.`);
  }

  #groups(columns) {
    if (!columns.length) return null;
    this.cards = new Map();
    this.depths = new Map();
    // Before any task has gone from one group to the next, nothing is known of their order.
    const isFlat = columns.length === 1 && columns[0].length > 1;
    const made = (isFlat ? columns[0].map((each) => [each]) : columns).map((column, depth) =>
      element("ul", { class: "column" }, ...column.map((group) => {
        const card = this.#card(group);
        this.cards.set(group.name, card);
        this.depths.set(group.name, depth);
        return card;
      })));
    this.lines = document.createElementNS(SVG, "svg");
    this.lines.setAttribute("class", "feeds");
    this.lines.setAttribute("aria-hidden", "true");
    this.flow = element("div", { class: "flow", role: "group", "aria-label": `Groups of ${this.name}`, tabindex: "0", "data-key": "flow" },
      this.lines, ...made);
    return this.flow;
  }

  #card(group) {
    const targets = this.feeds.filter(([source]) => source === group.name).map(([, target]) => target);
    const count = (status) => element("div", { class: `count ${status}${group[status] ? "" : " none"}` },
      element("dt", {}, status), element("dd", {}, number(group[status])));
    const notes = [];
    if (group.gathering) notes.push(`${number(group.gathering)} of ${number(group.waiting)} wait for their bundle`);
    if (group.oldest !== null) {
      const isDelayed = group.oldest > this.now;
      notes.push(isDelayed ? `first may start in ${span(group.oldest - this.now + 1)}` : `oldest waits ${span(this.now - group.oldest)}`);
    }
    const kinds = { pause: "paused", interdict: "interdicted" };
    const badges = [...new Set(group.orders.map(({ order }) => kinds[order] ?? order)), ...(group.is_full ? ["full"] : [])];
    return element("li", { class: "card", "data-group": group.name },
      element("h3", {}, group.name, ...badges.map((each) => element("span", { class: `badge ${each}` }, each))),
      element("dl", { class: "counts" }, count("waiting"), count("leased"), count("dead")),
      ...notes.map((each) => element("p", { class: "note" }, each)),
      group.is_full ? element("p", { class: "note" }, "The stages before it get no work, and inserts are refused.") : null,
      group.is_spent ? element("p", { class: "note" }, "Retries of the last 10 minutes are used up.") : null,
      ...group.orders.flatMap((each) => [
        element("p", { class: "note said" }, this.#standing(each)),
        each.order === "interdict" ? element("p", { class: "note" }, ...prose(`\`feed-assets workflow lift ${each.target}\` ends it.`)) : null,
      ]),
      targets.length ? element("p", { class: "hidden" }, `feeds ${targets.join(", ")}`) : null,
      this.mayControl ? this.#pausing(group) : null);
  }

  #standing({ order, target, by, reason, since }) {
    const what = order === "pause" ? "Paused" : order === "interdict" ? "Interdicted" : order;
    return `${what}${target === "all" ? " with all groups" : ""} by ${by}, ${span(this.now - since)} ago: ${reason}`;
  }

  #pausing(group) {
    const pause = group.orders.find(({ order }) => order === "pause");
    const [verb, target] = pause ? ["resume", pause.target] : ["pause", group.name];
    const what = target === "all" ? "all groups" : `the group ${target}`;
    return element("button", {
      type: "button", "data-key": `pause ${group.name}`, "aria-label": `${verb} ${what}`,
      onclick: () => this.order({ workflow: this.name, verb, target, what }),
    }, verb === "pause" ? "Pause" : target === "all" ? "Resume all" : "Resume");
  }

  #leased(tasks, total) {
    if (!total) return [];
    const rows = [...tasks].sort((one, other) => (one.began ?? 0) - (other.began ?? 0)).map((each) => {
      const progress = each.progress ?? 0;
      const percent = `${Math.round(100 * progress)} %`;
      const who = each.worker || `session ${each.holder.slice(0, 8)}`;
      const since = each.began ? `for ${span(this.now - each.began)}` : "since before this master";
      const attempt = each.attempt ? `, attempt ${each.attempt + 1}` : "";
      return element("li", {},
        element("span", { class: "what" }, element("strong", {}, each.group), " ", unitButton(each.unit, this.open)),
        element("span", { class: "how-far" },
          element("progress", { max: "1", value: String(progress), "aria-label": `progress of unit ${each.unit}` }), ` ${percent}`),
        element("span", { class: "who" }, `${who}, ${since}${attempt}`));
    });
    return [this.#title("Leased", tasks, total), element("ul", { class: "leased plain" }, ...rows)];
  }

  #dead(tasks, total) {
    if (!total) return [];
    const rows = tasks.map((each) => element("li", {},
      element("div", { class: "head" },
        element("span", { class: "what" }, element("strong", {}, each.group), " ", unitButton(each.unit, this.open, "dead"), " ",
          element("span", { class: "soft" }, `${each.attempt} attempts, dead for ${span(this.now - each.since)}`)),
        this.mayControl ? mending(this.name, each, this.order) : null),
      reasonList(each.reasons ?? []),
      element("p", { class: "note" }, element("code", {}, short(JSON.stringify(each.payload))))));
    return [this.#title("Dead", tasks, total), element("ul", { class: "dead-tasks plain" }, ...rows)];
  }

  #title(text, tasks, total) {
    const part = tasks.length < total ? `the first ${number(tasks.length)} of ${number(total)}` : number(total);
    return element("h3", {}, `${text} `, element("span", { class: "soft" }, `(${part})`));
  }

  /** Draw a line for each feed, from card to card: forward along the columns, or dashed back below them. */
  #connect() {
    if (!this.flow?.isConnected) return;
    const origin = this.flow.getBoundingClientRect();
    const isDown = getComputedStyle(this.flow).flexDirection === "column";
    const paths = [];
    for (const [source, target] of this.feeds) {
      const [from, to] = [this.cards.get(source), this.cards.get(target)];
      if (!from || !to || from === to) continue;
      const [a, b] = [from, to].map((each) => each.getBoundingClientRect());
      const x = (value) => value - origin.left + this.flow.scrollLeft;
      const y = (value) => value - origin.top + this.flow.scrollTop;
      const isBack = this.depths.get(target) <= this.depths.get(source);
      paths.push([isDown ? down(a, b, x, y, isBack) : across(a, b, x, y, isBack), isBack]);
    }
    this.lines.setAttribute("width", this.flow.scrollWidth);
    this.lines.setAttribute("height", this.flow.scrollHeight);
    this.lines.replaceChildren(...paths.map(([[path, tip], isBack]) => {
      const line = document.createElementNS(SVG, "g");
      for (const [name, shape] of [["line", path], ["tip", tip]]) {
        const made = document.createElementNS(SVG, "path");
        made.setAttribute("d", shape);
        made.setAttribute("class", isBack && name === "line" ? "line back" : name);
        line.append(made);
      }
      return line;
    }));
  }
}

function across(a, b, x, y, isBack) {
  if (isBack) {
    const [from, to, low] = [x(a.left + a.width / 3), x(b.left + (2 * b.width) / 3), y(Math.max(a.bottom, b.bottom)) + 14];
    const end = y(b.bottom) + 1;
    return [`M${from},${y(a.bottom)} C${from},${low} ${to},${low} ${to},${end + 5}`, `M${to - 4},${end + 6} L${to},${end} L${to + 4},${end + 6} Z`];
  }
  const [x1, y1, x2, y2] = [x(a.right), y(a.top + a.height / 2), x(b.left) - 1, y(b.top + b.height / 2)];
  const middle = (x1 + x2) / 2;
  return [`M${x1},${y1} C${middle},${y1} ${middle},${y2} ${x2 - 6},${y2}`, `M${x2 - 7},${y2 - 4} L${x2},${y2} L${x2 - 7},${y2 + 4} Z`];
}

function down(a, b, x, y, isBack) {
  if (isBack) {
    const [from, to, right] = [y(a.top + a.height / 3), y(b.top + (2 * b.height) / 3), x(Math.max(a.right, b.right)) + 12];
    const end = x(b.right) + 1;
    return [`M${x(a.right)},${from} C${right},${from} ${right},${to} ${end + 5},${to}`, `M${end + 6},${to - 4} L${end},${to} L${end + 6},${to + 4} Z`];
  }
  const [x1, y1, x2, y2] = [x(a.left + a.width / 2), y(a.bottom), x(b.left + b.width / 2), y(b.top) - 1];
  const middle = (y1 + y2) / 2;
  return [`M${x1},${y1} C${x1},${middle} ${x2},${middle} ${x2},${y2 - 6}`, `M${x2 - 4},${y2 - 7} L${x2},${y2} L${x2 + 4},${y2 - 7} Z`];
}

const short = (text) => (text.length > SHORT ? `${text.slice(0, SHORT)} …` : text);

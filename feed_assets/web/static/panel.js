// The panel of a slot: what is known of it, why it waits, what it is made of, its runs and its events.

import { ask } from "./api.js";
import { element, facts, number, section, table } from "./elements.js";
import { STATES, shapeOf } from "./states.js";

const moment = (text) => (text ? `${text.slice(0, 10)} ${text.slice(11, 19)}` : "–");

/** A time that a narrow table breaks only between its date and its time of day. */
function time(text) {
  if (!text) return "–";
  const parts = [text.slice(0, 10), text.slice(11, 19)].map((each) => element("span", { class: "whole" }, each));
  return element("time", { datetime: text }, parts[0], " ", parts[1]);
}

/** The four words of a slot's text. */
export function slotOf(text) {
  const [dataset, member, grain, start] = text.split(" ");
  return { dataset, member, grain, start };
}

const HOLDS = new Map([[true, "✓ yes"], [false, "✗ no"], [null, "– open"]]);
const COUNTS = ["counted", "covered"];

export class Panel {
  /** `go(slot)` shows another slot; `closed()` is called after the panel was closed. */
  constructor(panel, go, closed) {
    this.panel = panel;
    this.title = panel.querySelector("#panel-title");
    this.content = panel.querySelector("#panel-content");
    this.go = go;
    this.closed = closed;
    this.slot = null;
    panel.querySelector("#close").addEventListener("click", () => this.close());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !panel.hidden) this.close();
    });
  }

  get isOpen() {
    return !this.panel.hidden;
  }

  /** The state of the slot that is shown: its calendar may show other days by now. */
  letterOf(slot) {
    return this.isOpen && JSON.stringify(slot) === JSON.stringify(this.slot) ? this.letter : undefined;
  }

  close() {
    this.asking?.abort();
    this.panel.hidden = true;
    this.slot = null;
    this.closed();
  }

  /** Show a slot. `letter` is its state in the calendar; `focus` moves the keyboard into the panel. */
  async open(slot, letter, { focus = true } = {}) {
    const same = this.isOpen && JSON.stringify(slot) === JSON.stringify(this.slot);
    this.slot = slot;
    this.letter = letter;
    this.asking?.abort();
    const asking = (this.asking = new AbortController());
    this.panel.hidden = false;
    this.title.textContent = `${slot.dataset}${slot.member === "-" ? "" : ` ${slot.member}`} ${slot.grain} ${slot.start}`;
    if (!same) this.content.replaceChildren(element("p", { class: "soft" }, "Loading …"));
    if (focus) this.panel.focus();
    try {
      const details = await ask("/slot/details", slot, asking.signal);
      this.content.replaceChildren(...this.#shown(details, STATES[letter] ? letter : this.#guessed(details)));
      if (details.flow && details.partition) await this.#explain(details, asking.signal);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.content.replaceChildren(element("p", { role: "alert" }, error.message));
    }
  }

  /** The state of a slot that the calendar does not show. */
  #guessed({ slot, partition }) {
    if (slot.complete) return "c";
    return partition ? "q" : "i";
  }

  #shown(details, letter) {
    const { slot } = details;
    const state = STATES[letter];
    const words = slot.complete && state !== STATES.c ? `complete: ${state.name}` : state.name;
    const sentence = `${words[0].toUpperCase()}${words.slice(1)}`;
    const revision = slot.revision ? `, revision ${slot.revision}` : ", no revision yet";
    this.why = element("div", { id: "why" });
    if (slot.why) this.why.append(element("p", { class: "why" }, slot.why));
    return [
      element("p", { class: "state" }, shapeOf(letter), sentence + revision),
      ...(slot.complete && !details.partition ? [] : [element("h3", {}, slot.complete ? "Does it run again?" : "Why not yet?")]),
      this.why,
      ...section("Facts", this.#numbers(slot)),
      ...section("Rows", this.#output(details.output)),
      ...section("Missing", this.#slots(slot.complete ? [] : slot.first_missing.filter((each) => each !== slot.slot))),
      ...section("Quality", ...this.#quality(details)),
      ...section("Made of", this.#inputs(details.reads)),
      ...section("Used by", this.#slots(details.read_by)),
      ...section("Parts", this.#parts(details.parts)),
      ...section("Runs", this.#runs(details)),
      ...section("Events", this.#events(details.events)),
    ];
  }

  #numbers(slot) {
    const counts = COUNTS.includes(slot.basis);
    return facts([
      ["records", slot.accounted || counts ? number(slot.accounted) : ""],
      ["expected", slot.expected !== null ? number(slot.expected) : counts ? "nobody has said" : ""],
      ["missing slots", slot.missing && slot.first_missing[0] !== slot.slot ? number(slot.missing) : ""],
      ["basis", slot.basis],
      ["flags", slot.flags.join(", ")],
      ["waived", slot.waived.join("; ")],
      ["window", `${moment(slot.begins)} to ${moment(slot.ends)} UTC`],
    ]);
  }

  #output(output) {
    if (!output) return null;
    const range = ({ smallest, largest }) => (smallest === null ? "–" : `${number(smallest)} to ${number(largest)}`);
    const columns = Object.entries(output.columns).map(([name, each]) =>
      [name, number(each.nulls), number(each.distinct), range(each)]);
    return element("div", {},
      facts([
        ["update", output.update],
        ["rows", number(output.rows)],
        ["run", output.run],
        ["unusual", output.unusual.join("; ")],
      ]),
      columns.length ? table(["column", "nulls", "distinct, about", "range"], columns) : null);
  }

  #quality(details) {
    const marks = details.marks.map((each) =>
      element("li", {}, `${moment(each.at)}: ${each.how}`));
    return [element("p", {}, details.slot.quality), marks.length ? element("ul", { class: "plain" }, ...marks) : null];
  }

  #slots(texts) {
    if (!texts.length) return null;
    return element("ul", { class: "plain" }, ...texts.map((each) => element("li", {}, this.#link(each))));
  }

  #link(text) {
    return element("button", { type: "button", class: "slot", onclick: () => this.go(slotOf(text)) }, text);
  }

  #inputs(inputs) {
    if (!inputs.length) return null;
    return element("ul", { class: "plain" }, ...inputs.map((each) => element("li", {}, this.#link(each.slot),
      ` ${each.complete ? "✓ complete" : "✗ not complete"}, revision ${each.revision}${each.optional ? ", optional" : ""}`)));
  }

  #parts(parts) {
    if (parts === null || !parts.length) return null;
    return table(["part", "records", "object"], parts.map((each) => [each.id, number(each.records), each.object]));
  }

  #runs(details) {
    if (!details.partition) return null;
    if (details.runs === null) return element("p", { class: "soft" }, "There is no Dagster home, so runs are not known.");
    if (!details.runs.length) return element("p", { class: "soft" }, "None yet.");
    return table(["run", "status", "begun", "ended"],
      details.runs.map((each) => [element("code", {}, each.id.slice(0, 8)), each.status, time(each.begun), time(each.ended)]));
  }

  #events(events) {
    if (!events.length) return element("p", { class: "soft" }, "None yet: time alone completes slots of which nobody says anything.");
    return table(["time", "event", "what"], events.map((each) => [time(each.at), each.kind, this.#told(each.details)]));
  }

  #told(details) {
    const told = details.revision ? [`revision ${details.revision}`] : [];
    if (details.count > 1) told.push(`${number(details.count)} slots, ${details.first} to ${details.last}`);
    if (details.accounted) told.push(`${number(details.accounted)} records`);
    for (const name of ["reason", "flags"]) {
      if (details[name]?.length) told.push(Array.isArray(details[name]) ? details[name].join(", ") : details[name]);
    }
    return told.join("; ") || "–";
  }

  /** Two answers to the question of a flow, for exactly the inputs that were shown. */
  #question(verdict, details) {
    const said = element("span", { role: "status" });
    const answer = async (reply) => {
      said.textContent = " Sending …";
      try {
        const given = { flow: verdict.flow, partition: details.partition, answer: reply, digest: verdict.digest };
        await ask("/questions/answer", {}, undefined, given);
        await this.open(this.slot, this.letter, { focus: false });
      } catch (error) {
        said.textContent = ` ${error.message}`;
      }
    };
    return element("p", { id: "question" },
      element("button", { type: "button", onclick: () => answer("rerun") }, "Run again"), " ",
      element("button", { type: "button", onclick: () => answer("keep") }, `Keep ${verdict.in_force}`), said);
  }

  /** The gate's answer about a flow's slot, which takes a look at storage. */
  async #explain(details, signal) {
    const waiting = element("p", { class: "soft" }, "Asking the gate …");
    this.why.append(waiting);
    try {
      const verdict = await ask("/explain", { flow: details.flow, partition: details.partition }, signal);
      this.why.replaceChildren(
        element("p", { class: "why" }, `${verdict.flow} ${details.partition} ${verdict.sentence}`),
        verdict.asks ? this.#question(verdict, details) : "",
        table(["stage", "holds", "why"], verdict.stages.map((each) => [each.stage, HOLDS.get(each.holds), each.why])),
        facts([["update in force", verdict.in_force ?? "none"]]),
      );
    } catch (error) {
      if (error.name === "AbortError") throw error;
      waiting.replaceWith(element("p", { role: "alert" }, error.message));
    }
  }
}

// The panel of a unit: what it is now, and its story from the journal.

import { element, facts, moment, number, prose, section, span } from "./elements.js";
import { mending, reasonList, unitButton } from "./flow.js";

const MADE = /^(.*made units )([\d, ]+)$/;

export class UnitPanel {
  /** `ask(path, signal)` asks the API, `order(...)` asks for the reason of an order; `moved()` is called on each change. */
  constructor(panel, { ask, order, moved }) {
    this.panel = panel;
    this.title = panel.querySelector("#panel-title");
    this.content = panel.querySelector("#panel-content");
    this.ask = ask;
    this.order = order;
    this.moved = moved;
    this.shown = null;
    panel.querySelector("#close").addEventListener("click", () => this.close());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !panel.hidden && !document.querySelector("dialog[open]")) this.close();
    });
  }

  close() {
    this.asking?.abort();
    this.panel.hidden = true;
    this.shown = null;
    this.moved();
    const back = this.back?.isConnected ? this.back : document.querySelector(`[data-key="${CSS.escape(this.key ?? "")}"]`);
    (back ?? document.getElementById("main")).focus();
  }

  /** Show the same unit as it is now. A story is a look at the whole journal, so nothing does this every few seconds. */
  readAgain() {
    return this.shown ? this.open(this.shown.workflow, this.shown.unit, { focus: false }) : undefined;
  }

  /** Show a unit; `focus` moves the keyboard into the panel. */
  async open(workflow, unit, { focus = true } = {}) {
    const same = this.shown?.workflow === workflow && String(this.shown.unit) === String(unit);
    if (focus && !this.panel.contains(document.activeElement)) {
      this.back = document.activeElement;
      this.key = this.back.dataset?.key;
    }
    this.shown = { workflow, unit };
    this.asking?.abort();
    const asking = (this.asking = new AbortController());
    this.panel.hidden = false;
    this.title.textContent = `${workflow}: unit ${unit}`;
    if (!same) this.content.replaceChildren(element("p", { class: "soft" }, "Reading the journal …"));
    if (focus) this.panel.focus();
    if (!same) this.moved();
    try {
      const found = await this.ask(`/${workflow}/units/${encodeURIComponent(unit)}`, asking.signal);
      const held = this.content.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
      this.content.replaceChildren(...this.#shown(workflow, found));
      if (held !== undefined) this.content.querySelector(`[data-key="${CSS.escape(held)}"]`)?.focus();
    } catch (error) {
      if (error.name === "AbortError") return;
      this.content.replaceChildren(element("p", { role: "alert" }, error.message));
    }
  }

  #shown(workflow, { unit, now, may_control: mayControl, task, problem, story }) {
    const last = story.at(-1);
    if (!task && !last) {
      return [element("p", { class: "why" }, `The journal that is kept says nothing of unit ${unit}: it may be older than the last `
        + "snapshots, or never was."), problem ? element("p", { class: "soft" }, ...prose(problem)) : ""];
    }
    const open = (other) => this.open(workflow, other);
    const is = task ? task.status : last.id ? "not known" : `gone: ${last.what}`;
    return [
      element("p", { class: "state" }, is),
      !task && last.id ? element("p", { class: "why" }, ...prose(problem)) : "",
      task?.status === "dead" && mayControl ? element("p", {}, mending(workflow, task, this.order)) : "",
      ...(task ? this.#facts(task, now, open) : []),
      ...section("Why it failed", task?.reasons?.length ? reasonList(task.reasons) : null),
      ...section("Payload", task ? element("pre", {}, JSON.stringify(task.payload, null, 2)) : null),
      ...section("Files", task?.files?.length ? element("ul", { class: "plain" }, ...task.files.map((each) =>
        element("li", {}, element("code", {}, each)))) : null),
      ...section("Story", story.length ? this.#story(story, open) : element("p", { class: "soft" },
        "It is older than the journal that is kept.")),
      element("p", { class: "hint" }, "Read at ", moment(now), " UTC. ", element("button", {
        type: "button", class: "link", "data-key": "again", onclick: () => this.readAgain(),
      }, "Read again")),
    ];
  }

  #facts(task, now, open) {
    const since = { waiting: "could start", leased: "could start", dead: "dead" }[task.status];
    return [facts([
      ["group", task.group],
      ["stage", task.type === task.group ? "" : task.type],
      [since, element("span", {}, moment(task.since), ` UTC, ${task.since > now ? `in ${span(task.since - now)}` : `${span(now - task.since)} ago`}`)],
      ["worker", task.holder ? task.worker || `session ${task.holder.slice(0, 8)}` : ""],
      ["leased", task.began ? `for ${span(now - task.began)}` : ""],
      ["progress", task.status === "leased" ? `${Math.round(100 * (task.progress ?? 0))} %` : ""],
      ["attempts", task.attempt ? number(task.attempt) : ""],
      ["key", task.key ?? ""],
      ["bundle", task.bundle ? `${task.bundle}, of ${number(task.size)}` : ""],
      ["priority", task.priority ? number(task.priority) : ""],
      ["checkpoint", task.checkpoint ?? ""],
      ["made from", task.origin === task.unit ? "" : unitButton(task.origin, open, "origin")],
      ["id", number(task.id)],
    ])];
  }

  #story(story, open) {
    return element("ol", { class: "story" }, ...story.map((each) => element("li", {},
      moment(each.at), " ", element("strong", {}, ...told(each.what, open)),
      element("span", { class: "soft" }, ` position ${number(each.position)}${each.id ? `, id ${number(each.id)}` : ""}`
        + `${each.who ? `, session ${each.who.slice(0, 8)}` : ""}`))));
  }
}

/** What happened; units that were made are buttons. */
function told(what, open) {
  const found = MADE.exec(what);
  if (!found) return [what];
  const units = found[2].split(", ").flatMap((each, place) => [place ? ", " : "", unitButton(each, open, "made")]);
  return [found[1].replace("made units ", "made "), ...units];
}

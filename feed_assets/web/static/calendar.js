// The calendar: rows of slots on one canvas, of which only the visible part is drawn, so that 1,000 rows stay fluent.
// Here: drawing, and moving a cursor by keys, mouse and touch. Not here: where rows come from (`main.js`).

import { STATES, drawState, onScheme, palette } from "./states.js";

const HEAD = 40;
const ROOMY = 24;
const LEAST = 13;
const FONT = "12px system-ui, sans-serif";

/** The two lines above a column: what is the same for its neighbours, and its own part. */
function titles(start) {
  const time = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d)/.exec(start);
  if (time) return [time[1], time[2]];
  const day = /^(\d{4}-\d\d)-(\d\d)$/.exec(start);
  if (day) return [day[1], day[2]];
  const other = /^(\d{4})-(.+)$/.exec(start);
  return other ? [other[1], other[2]] : ["", start];
}

export class Calendar {
  /** `opened(row, column)` is called when somebody opens a slot, `opened(row, null)` for a row's name. */
  constructor(scroll, opened) {
    this.scroll = scroll;
    this.canvas = scroll.querySelector("canvas");
    this.space = scroll.querySelector("#space");
    this.cell = scroll.querySelector("#cell");
    this.rowElement = scroll.querySelector("#row");
    this.context = this.canvas.getContext("2d");
    this.opened = opened;
    this.rows = [];
    this.columns = [];
    this.notes = new Map();
    this.at = { row: 0, column: 0 };
    this.patterns = new Map();
    scroll.addEventListener("scroll", () => this.#soon());
    scroll.addEventListener("keydown", (event) => this.#key(event));
    scroll.addEventListener("focus", () => this.draw());
    scroll.addEventListener("blur", () => this.draw());
    this.canvas.addEventListener("click", (event) => this.#click(event));
    this.canvas.addEventListener("mousemove", (event) => this.#hover(event));
    new ResizeObserver(() => this.#fit()).observe(scroll);
    onScheme(() => this.#fit());
  }

  /** Show rows {label, letters, notes} of these columns. The cursor stays on its slot; at first it is on the newest. */
  show(columns, rows, notes) {
    const before = { label: this.rows[this.at.row]?.label, column: this.columns[this.at.column] };
    Object.assign(this, { columns, rows, notes });
    const row = rows.findIndex((each) => each.label === before.label);
    const column = columns.indexOf(before.column);
    this.at = { row: Math.max(row, 0), column: column >= 0 ? column : this.#newest() };
    this.scroll.setAttribute("aria-rowcount", rows.length);
    this.scroll.setAttribute("aria-colcount", columns.length);
    this.#fit();
    if (column < 0 && rows.length && columns.length) this.#move(this.at.row, this.at.column);
    this.#say();
  }

  /** Put the cursor on a slot, if it is shown. */
  select(label, column) {
    const found = { row: this.rows.findIndex((each) => each.label === label), column: this.columns.indexOf(column) };
    if (found.row >= 0 && found.column >= 0) this.#move(found.row, found.column);
  }

  /** What a cell says in words. */
  text(row, column) {
    const letter = this.rows[row]?.letters[column];
    const state = STATES[letter];
    const note = this.notes.get(`${row},${column}`);
    return `${this.rows[row]?.label} ${this.columns[column]}: ${state ? state.name : "no slot"}${note ? `, ${note}` : ""}`;
  }

  /** The last column in which a slot has ended; the last one if none has. */
  #newest() {
    for (let column = this.columns.length - 1; column >= 0; column -= 1) {
      if (this.rows.some(({ letters }) => letters[column] !== " " && letters[column] !== "o")) return column;
    }
    return Math.max(this.columns.length - 1, 0);
  }

  #fit() {
    const width = this.scroll.clientWidth;
    this.context.font = FONT;
    const widest = Math.max(60, ...this.rows.slice(0, 2000).map((each) => this.context.measureText(each.label).width));
    this.label = Math.min(Math.ceil(widest) + 16, Math.floor(width * 0.42));
    const room = (width - this.label) / Math.max(this.columns.length, 1);
    this.size = Math.max(this.columns.length > 120 ? LEAST : ROOMY, Math.min(30, Math.floor(room)));
    const full = { width: this.label + this.size * this.columns.length, height: HEAD + this.size * this.rows.length };
    this.space.style.width = `${full.width}px`;
    this.space.style.height = `${full.height}px`;
    const height = Math.min(full.height, Math.floor(window.innerHeight * 0.7));
    this.scroll.style.height = `${height + 2}px`;
    const bar = this.scroll.offsetHeight - this.scroll.clientHeight - 2;  // some browsers draw scroll bars over the content
    if (bar > 0) this.scroll.style.height = `${height + 2 + bar}px`;
    const ratio = window.devicePixelRatio || 1;
    this.view = { width: Math.max(this.scroll.clientWidth, 1), height: Math.max(this.scroll.clientHeight, 1) };
    this.canvas.width = this.view.width * ratio;
    this.canvas.height = this.view.height * ratio;
    this.canvas.style.width = `${this.view.width}px`;
    this.canvas.style.height = `${this.view.height}px`;
    this.patterns.clear();
    this.draw();
  }

  /** Draw once in the next frame, however often the calendar scrolls before. */
  #soon() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.draw();
    });
  }

  draw() {
    if (!this.view) return;
    const { context, size, label, view } = this;
    const colours = palette();
    const ratio = window.devicePixelRatio || 1;
    const [left, top] = [Math.round(this.scroll.scrollLeft), Math.round(this.scroll.scrollTop)];
    const firstColumn = Math.floor(left / size);
    const lastColumn = Math.min(this.columns.length, Math.ceil((left + view.width - label) / size));
    const firstRow = Math.floor(top / size);
    const lastRow = Math.min(this.rows.length, Math.ceil((top + view.height - HEAD) / size));
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = colours.paper;
    context.fillRect(0, 0, view.width, view.height);
    context.font = FONT;
    context.textBaseline = "middle";
    for (let row = firstRow; row < lastRow; row += 1) {
      const y = HEAD + row * size - top;
      const { letters } = this.rows[row];
      context.setTransform(ratio, 0, 0, ratio, (label - left) * ratio, y * ratio);
      for (let column = firstColumn; column < lastColumn;) {
        const begin = column, letter = letters[begin];
        while (column < lastColumn && letters[column] === letter) column += 1;
        if (letter === " ") continue;
        context.fillStyle = this.#pattern(letter);
        context.fillRect(begin * size, 0, (column - begin) * size, size);
      }
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.#cursor(left, top);
    this.#labels(firstRow, lastRow, top);
    this.#head(firstColumn, lastColumn, left);
  }

  /** Cells in this state, one beside the other: neighbours in one state are drawn at once. */
  #pattern(letter) {
    let pattern = this.patterns.get(letter);
    if (!pattern) {
      const ratio = window.devicePixelRatio || 1;
      const picture = document.createElement("canvas");
      picture.width = picture.height = Math.round(this.size * ratio);
      const context = picture.getContext("2d");
      context.scale(picture.width / this.size, picture.height / this.size);
      context.fillStyle = palette().cell;
      context.fillRect(0.5, 0.5, this.size - 1, this.size - 1);
      drawState(context, letter, 1, 1, this.size - 2);
      pattern = this.context.createPattern(picture, "repeat");
      pattern.setTransform(new DOMMatrix().scale(this.size / picture.width));
      this.patterns.set(letter, pattern);
    }
    return pattern;
  }

  #cursor(left, top) {
    if (!this.rows.length || !this.columns.length) return;
    const { context, size, label } = this;
    const active = document.activeElement === this.scroll;
    context.strokeStyle = active ? palette().focus : palette().soft;
    context.lineWidth = active ? 3 : 1.5;
    const x = label + this.at.column * size - left, y = HEAD + this.at.row * size - top;
    context.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
  }

  #labels(first, last, top) {
    const { context, size, label, view } = this;
    const colours = palette();
    context.fillStyle = colours.paper;
    context.fillRect(0, 0, label, view.height);
    context.fillStyle = colours.ink;
    context.textAlign = "left";
    for (let row = first; row < last; row += 1) {
      context.fillText(this.#shortened(this.rows[row].label), 6, HEAD + row * size - top + size / 2);
    }
    context.strokeStyle = colours.line;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(label - 0.5, 0);
    context.lineTo(label - 0.5, view.height);
    context.stroke();
  }

  /** The end of a name says most: `…/par1`. */
  #shortened(text) {
    const room = this.label - 12;
    if (this.context.measureText(text).width <= room) return text;
    let from = 1;
    while (from < text.length && this.context.measureText(`…${text.slice(from)}`).width > room) from += 1;
    return `…${text.slice(from)}`;
  }

  #head(first, last, left) {
    const { context, size, label, view } = this;
    const colours = palette();
    context.fillStyle = colours.paper;
    context.fillRect(0, 0, view.width, HEAD);
    context.save();
    context.beginPath();
    context.rect(label, 0, view.width - label, HEAD);
    context.clip();
    context.textAlign = "left";
    const widest = Math.max(...this.columns.slice(first, last).map((each) => context.measureText(titles(each)[1]).width), 1);
    const step = Math.ceil((widest + 5) / size);
    let major = "", clear = -Infinity;
    for (let column = first; column < last; column += 1) {
      const [above, own] = titles(this.columns[column]);
      const x = label + column * size - left;
      if (above !== major) {
        const at = Math.max(x, label) + 3;
        if (at > clear) {
          context.fillStyle = colours.soft;
          context.fillText(above, at, 11);
          clear = at + context.measureText(above).width + 8;
        }
        major = above;
      }
      if (column % step === 0) {
        context.fillStyle = column === this.at.column ? colours.focus : colours.ink;
        context.fillText(own, x + (step === 1 ? (size - context.measureText(own).width) / 2 : 2), 29);
      }
    }
    context.restore();
  }

  #place(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    const column = Math.floor((x - this.label + this.scroll.scrollLeft) / this.size);
    const row = Math.floor((y - HEAD + this.scroll.scrollTop) / this.size);
    if (y < HEAD || row >= this.rows.length || row < 0) return null;
    if (x < this.label) return { row, column: null };
    return column < this.columns.length ? { row, column } : null;
  }

  #click(event) {
    const place = this.#place(event);
    if (!place) return;
    if (place.column !== null) this.#move(place.row, place.column);
    if (place.column === null || this.rows[place.row].letters[place.column] !== " ") this.opened(place.row, place.column);
  }

  #hover(event) {
    const place = this.#place(event);
    this.canvas.style.cursor = place ? "pointer" : "";
    const shown = place && (place.column === null ? this.rows[place.row].label : this.text(place.row, place.column));
    if (this.canvas.title !== (shown || "")) this.canvas.title = shown || "";
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.rows.length) return;
    const page = Math.max(1, Math.floor((this.view.height - HEAD) / this.size) - 1);
    const { row, column } = this.at;
    const last = { row: this.rows.length - 1, column: this.columns.length - 1 };
    const moves = {
      ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1], ArrowUp: [row - 1, column], ArrowDown: [row + 1, column],
      PageUp: [row - page, column], PageDown: [row + page, column], Home: [row, 0], End: [row, last.column],
    };
    if (moves[event.key]) {
      const [newRow, newColumn] = moves[event.key];
      this.#move(Math.min(Math.max(newRow, 0), last.row), Math.min(Math.max(newColumn, 0), last.column));
    } else if (event.key === "Enter" || event.key === " ") {
      if (this.rows[row].letters[column] !== " ") this.opened(row, column);
    } else {
      return;
    }
    event.preventDefault();
  }

  #move(row, column) {
    this.at = { row, column };
    const { scroll, size, label, view } = this;
    const x = label + column * size, y = HEAD + row * size;
    if (x - scroll.scrollLeft < label) scroll.scrollLeft = x - label;
    if (x + size - scroll.scrollLeft > view.width) scroll.scrollLeft = x + size - view.width;
    if (y - scroll.scrollTop < HEAD) scroll.scrollTop = y - HEAD;
    if (y + size - scroll.scrollTop > view.height) scroll.scrollTop = y + size - view.height;
    this.draw();
    this.#say();
  }

  /** Let screen readers say the cell under the cursor. */
  #say() {
    const { row, column } = this.at;
    this.rowElement.setAttribute("aria-rowindex", row + 1);
    this.cell.setAttribute("aria-colindex", column + 1);
    this.cell.textContent = this.rows.length && this.columns.length ? this.text(row, column) : "No slots";
  }
}

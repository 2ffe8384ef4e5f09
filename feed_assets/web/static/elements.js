// Building blocks of pages. Texts are never read as HTML.

/** An element with children; `onclick` is a function, the others are attributes. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "onclick") made.addEventListener("click", value);
    else if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((each) => each !== null && each !== undefined));
  return made;
}

export const number = (value) => (value === null || value === undefined ? "unknown" : value.toLocaleString("en"));

export function table(heads, rows) {
  return element("table", {},
    element("thead", {}, element("tr", {}, ...heads.map((each) => element("th", { scope: "col" }, each)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((each) => element("td", {}, each))))));
}

export function section(title, ...content) {
  const shown = content.filter((each) => each !== null);
  return shown.length ? [element("h3", {}, title), ...shown] : [];
}

export function facts(pairs) {
  const list = element("dl");
  for (const [name, value] of pairs) {
    if (value !== null && value !== "") list.append(element("dt", {}, name), element("dd", {}, value));
  }
  return list;
}

/** The parts of a text in which `backticks` mark code. */
export function prose(text) {
  return text.split("`").map((part, place) => (place % 2 ? element("code", {}, part) : part)).filter((each) => each !== "");
}

/** A span of seconds, as people say it. */
export function span(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const sizes = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = sizes.findIndex(([size]) => whole >= size);
  if (first < 0) return "0 s";
  const [[size, unit], next] = [sizes[first], sizes[first + 1]];
  const rest = next ? Math.floor((whole % size) / next[0]) : 0;
  const more = rest && first < 2 ? ` ${rest} ${next[1]}` : "";
  return `${Math.floor(whole / size)} ${unit}${more}`;
}

/** A time in seconds since 1970, in UTC. */
export function moment(seconds) {
  const text = new Date(1000 * seconds).toISOString();
  return element("time", { datetime: text, class: "whole" }, `${text.slice(0, 10)} ${text.slice(11, 19)}`);
}

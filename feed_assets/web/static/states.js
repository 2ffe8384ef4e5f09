// The states of a slot: their names, colours and shapes. A shape differs from each other shape without its colour.

/** name, colour (of `style.css`), shape, in the order of the legend; the letters are those of the API's calendar. */
export const STATES = {
  c: { name: "complete", colour: "complete", shape: "full" },
  e: { name: "empty", colour: "empty", shape: "ring" },
  w: { name: "waived", colour: "waived", shape: "tick" },
  b: { name: "bad", colour: "bad", shape: "slash" },
  r: { name: "running", colour: "running", shape: "play" },
  f: { name: "failed", colour: "failed", shape: "cross" },
  d: { name: "may start", colour: "due", shape: "diamond" },
  q: { name: "waiting", colour: "waiting", shape: "hourglass" },
  n: { name: "reopened", colour: "incomplete", shape: "half" },
  i: { name: "incomplete", colour: "incomplete", shape: "hollow" },
  o: { name: "not ended yet", colour: "open", shape: "dot" },
};

let colours = null;

/** The colours of the scheme in use. */
export function palette() {
  if (colours === null) {
    const style = getComputedStyle(document.documentElement);
    colours = {};
    for (const name of ["paper", "ink", "soft", "line", "cell", "focus", "on", "raised"]) {
      colours[name] = style.getPropertyValue(`--${name}`).trim();
    }
    for (const { colour } of Object.values(STATES)) colours[colour] = style.getPropertyValue(`--${colour}`).trim();
  }
  return colours;
}

/** Call `changed` when the user's scheme changes. */
export function onScheme(changed) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    colours = null;
    changed();
  });
}

/** Draw the shape of a state into a square. */
export function drawState(context, letter, left, top, size) {
  const state = STATES[letter];
  if (!state) return;
  const found = palette();
  const colour = found[state.colour];
  const gap = size > 14 ? 2 : 1;
  const x = left + gap, y = top + gap, side = size - 2 * gap;
  const thick = Math.max(1.5, side / 8);
  context.fillStyle = colour;
  context.strokeStyle = colour;
  context.lineWidth = thick;
  context.lineCap = "square";
  const inside = (share) => [x + side * share, y + side * share, side * (1 - 2 * share)];
  const line = (...points) => {
    context.beginPath();
    points.forEach(([px, py], number) => {
      const at = [x + side * px, y + side * py];
      if (number) context.lineTo(...at); else context.moveTo(...at);
    });
  };
  const frame = () => context.strokeRect(x + thick / 2, y + thick / 2, side - thick, side - thick);
  switch (state.shape) {
    case "full":
      context.fillRect(x, y, side, side);
      break;
    case "ring": {
      context.fillRect(x, y, side, side);
      const [hx, hy, hole] = inside(0.3);
      context.fillStyle = found.paper;
      context.fillRect(hx, hy, hole, hole);
      break;
    }
    case "tick":
      context.fillRect(x, y, side, side);
      context.strokeStyle = found.on;
      line([0.22, 0.52], [0.43, 0.74], [0.8, 0.28]);
      context.stroke();
      break;
    case "slash":
      context.fillRect(x, y, side, side);
      context.strokeStyle = found.on;
      line([0.15, 0.85], [0.85, 0.15]);
      context.stroke();
      line([0.15, 0.15], [0.85, 0.85]);
      context.stroke();
      break;
    case "play":
      line([0.12, 0.05], [0.95, 0.5], [0.12, 0.95]);
      context.closePath();
      context.fill();
      break;
    case "cross":
      context.lineWidth = thick * 1.6;
      line([0.15, 0.15], [0.85, 0.85]);
      context.stroke();
      line([0.15, 0.85], [0.85, 0.15]);
      context.stroke();
      break;
    case "diamond":
      line([0.5, 0], [1, 0.5], [0.5, 1], [0, 0.5]);
      context.closePath();
      context.fill();
      break;
    case "hourglass":
      line([0.08, 0.05], [0.92, 0.05], [0.5, 0.5], [0.92, 0.95], [0.08, 0.95], [0.5, 0.5]);
      context.closePath();
      context.fill();
      break;
    case "half":
      frame();
      context.fillRect(x, y + side / 2, side, side / 2);
      break;
    case "hollow":
      frame();
      break;
    case "dot":
      context.beginPath();
      context.arc(x + side / 2, y + side / 2, Math.max(1.5, side / 6), 0, 2 * Math.PI);
      context.fill();
      break;
  }
}

/** A canvas with the shape of a state, beside its name in text. */
export function shapeOf(letter) {
  const canvas = document.createElement("canvas");
  const ratio = window.devicePixelRatio || 1;
  canvas.width = canvas.height = 16 * ratio;
  canvas.className = "shape";
  canvas.setAttribute("aria-hidden", "true");
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  drawState(context, letter, 0, 0, 16);
  return canvas;
}

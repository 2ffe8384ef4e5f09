// The page of workflows: signing in, asking again every few seconds, and orders. What a workflow looks like is `flow.js`.

import { request } from "./api.js";
import { element, prose } from "./elements.js";
import { Flow } from "./flow.js";
import { onToken, signIn } from "./signing_in.js";
import { UnitPanel } from "./unit.js";

const ROOT = "/v1/workflows";
const EVERY = 3000;
const LONGEST = 15000;
const find = (id) => document.getElementById(id);

const EFFECTS = {
  pause: "No task of it is leased from now on. What is under way is committed.",
  resume: "Its tasks are leased again.",
  retry: "It waits again, from its first attempt. So does what is dead of its bundle.",
  drop: "It is given up for good. Its bundle gets it as an empty one.",
};
const named = (verb) => `${verb[0].toUpperCase()}${verb.slice(1)}`;

const flows = new Map();
let ordered = null;
let timer = null;
let wait = EVERY;

const ask = (path, signal, sent) => request(`${ROOT}${path}`, {}, signal, sent);

const panel = new UnitPanel(find("panel"), {
  ask,
  order: askReason,
  moved: writeAddress,
});

function writeAddress() {
  const address = panel.shown ? `#${new URLSearchParams(panel.shown)}` : location.pathname;
  history.replaceState(null, "", address);
}

/** Say whether the page is current, and which workflows have no master; a screen reader hears each change once. */
function live(isLive, problem) {
  const silent = [...flows.values()].filter((each) => each.problem).map((each) => each.name);
  const text = isLive ? (silent.length ? `Live; no answer of ${silent.join(", ")}` : "Live") : `Not live: ${problem}`;
  if (find("live").textContent !== text) find("live").textContent = text;
  find("live").classList.toggle("off", !isLive || silent.length > 0);
}

/** Ask for a reason, and give an order: `{ workflow, verb, target, what }`, where `what` names the target to people. */
function askReason(order) {
  ordered = order;
  find("order-title").textContent = `${named(order.verb)} ${order.what}?`;
  find("order-effect").textContent = EFFECTS[order.verb];
  find("order-do").textContent = named(order.verb);
  find("order-do").disabled = false;
  find("order-problem").hidden = true;
  find("reason").value = "";
  find("order").showModal();
  find("reason").focus();
}

async function give() {
  const { workflow, verb, target } = ordered;
  find("order-do").disabled = true;
  try {
    await ask(`/${workflow}/orders`, undefined, { order: verb, target, reason: find("reason").value.trim() });
    find("order").close();
    panel.readAgain();
    refresh();
  } catch (error) {
    find("order-problem").textContent = error.message;
    find("order-problem").hidden = false;
    find("order-do").disabled = false;
  }
}

/** Ask for all workflows, and show them; then again after a while. */
async function refresh() {
  clearTimeout(timer);
  try {
    await Promise.all([...flows].map(async ([name, flow]) => flow.show(await ask(`/${name}`))));
    live(true, "");
    wait = EVERY;
  } catch (error) {
    if (error.status === 401) return signIn(error);
    live(false, error.message);
    wait = Math.min(2 * wait, LONGEST);
  }
  clearTimeout(timer);
  timer = setTimeout(() => (document.hidden ? null : refresh()), wait);
}

function nothing(signedIn) {
  const reads = signedIn ? " Or the token reads none: it takes the grant `read:NAME`." : "";
  return element("p", { id: "nothing" }, ...prose("This project has no workflow. Make one with `fa.Workflow`, and name it in "
    + `\`project.definitions(workflows=[...])\`.${reads}`));
}

async function start() {
  let answer;
  try {
    answer = await ask("");
  } catch (error) {
    if (error.status === 401) return signIn(error);
    live(false, error.message);
    setTimeout(start, EVERY);
    return;
  }
  find("sign-in").hidden = true;
  find("main").hidden = false;
  flows.clear();
  for (const { name } of answer.workflows) {
    flows.set(name, new Flow(name, { open: (unit) => panel.open(name, unit), order: askReason }));
  }
  const shown = [...flows.values()].map((each) => each.element);
  find("workflows").replaceChildren(...(shown.length ? shown : [nothing(sessionStorage.length)]));
  const address = new URLSearchParams(location.hash.slice(1));
  if (flows.has(address.get("workflow")) && address.get("unit")) panel.open(address.get("workflow"), address.get("unit"));
  await refresh();
}

find("order-form").addEventListener("submit", (event) => {
  event.preventDefault();
  give();
});
find("order-cancel").addEventListener("click", () => find("order").close());
onToken(start);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && !find("main").hidden) refresh();
});
start();

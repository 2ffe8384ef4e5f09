// A page that asks again and again: the line that says whether it is live, signing in, and when it asks next.

import { onToken, signIn } from "./signing_in.js";

const AGAIN = 5_000;
const find = (id) => document.getElementById(id);

let timer = null;

function live(isLive, problem) {
  const text = isLive ? "Live" : `Not live: ${problem}`;
  if (find("live").textContent !== text) find("live").textContent = text;
  find("live").classList.toggle("off", !isLive);
}

/** Show the page by `refresh` now, and again each time after the milliseconds that it returns; not while it is hidden. */
export function keepLive(refresh) {
  async function look() {
    clearTimeout(timer);
    let wait = AGAIN;
    try {
      wait = await refresh();
      find("sign-in").hidden = true;
      find("main").hidden = false;
      live(true, "");
    } catch (error) {
      if (error.status === 401) return signIn(error);
      live(false, error.message);
    }
    timer = setTimeout(() => (document.hidden ? null : look()), wait);
  }

  onToken(look);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && find("sign-in").hidden) look();
  });
  look();
}

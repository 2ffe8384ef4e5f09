// Requests to the API, with the token of this tab. Nothing else is asked for.

const ROOT = "/v1/dependencies";
const TOKEN = "feed_assets token";

/** An answer that is no success; `status` is 0 if there was none. */
export class ApiError extends Error {
  constructor(status, message, content) {
    super(message);
    this.status = status;
    this.content = content;
  }
}

export function useToken(text) {
  sessionStorage.setItem(TOKEN, text);
}

/** The JSON at a path below the API of dependencies. See `request`. */
export const ask = (path, parameters = {}, signal = undefined, sent = undefined) =>
  request(`${ROOT}${path}`, parameters, signal, sent);

/** The JSON at a path with these parameters; those that are empty are left out. `sent` is posted, if it is given. */
export async function request(path, parameters = {}, signal = undefined, sent = undefined) {
  const given = Object.entries(parameters).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const query = new URLSearchParams(given).toString();
  const token = sessionStorage.getItem(TOKEN);
  let answer;
  try {
    answer = await fetch(`${path}${query ? `?${query}` : ""}`, {
      method: sent === undefined ? "GET" : "POST",
      body: sent === undefined ? undefined : JSON.stringify(sent),
      headers: {
        ...(token ? { Authorization: `Bearer ${token}` } : {}),
        ...(sent === undefined ? {} : { "Content-Type": "application/json" }),
      },
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The service does not answer.");
  }
  let content = null;
  try {
    content = await answer.json();
  } catch { /* the status says enough */ }
  if (!answer.ok) throw new ApiError(answer.status, content?.detail ?? `The service answered ${answer.status}.`, content);
  return content;
}

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

/**
 * Follow the events for ever. `onEvents` gets each answer with events, `onGone` is called when some are lost, and
 * `onState` with true or false when the connection comes or goes.
 */
export async function follow(after, { onEvents, onGone, onState }) {
  let wait = 500;
  for (;;) {
    try {
      const answer = await ask("/events", { after, wait: 25, limit: 1000 });
      onState(true, "");
      wait = 500;
      after = answer.next;
      if (answer.events.length) onEvents(answer.events);
    } catch (error) {
      if (error.status === 410) {
        after = error.content.next;
        onGone();
      } else {
        onState(false, error.message);
        if (error.status === 401 || error.status === 403) return;
        await pause(wait);
        wait = Math.min(2 * wait, 15000);
      }
    }
  }
}

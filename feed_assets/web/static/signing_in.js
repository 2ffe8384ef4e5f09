// The form for a token, on each page.

import { useToken } from "./api.js";

const find = (id) => document.getElementById(id);

/** Show the form for a token instead of the page, as an answer with this error wants one. */
export function signIn(error) {
  find("main").hidden = true;
  find("sign-in").hidden = false;
  find("live").textContent = "Signed out";
  if (sessionStorage.length) find("sign-in-why").textContent = error.message;
  find("token").focus();
}

/** Keep the token that somebody enters, and call `start` with it. */
export function onToken(start) {
  find("sign-in").addEventListener("submit", (event) => {
    event.preventDefault();
    useToken(find("token").value.trim());
    find("token").value = "";
    start();
  });
}

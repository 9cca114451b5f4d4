// The view of the page is the part of its address after #. Going there is a link like any other.

import { Signal } from "./signal.js";

/** @type {Signal<void>} */
export const moved = new Signal();

export function here() {
  const [view = "", ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  const decoded = rest.map((each) => {
    try {
      return decodeURIComponent(each);
    } catch {
      return each;
    }
  });
  return { view: view || "start", rest: decoded };
}

/** @param {string} path */
export function go(path) {
  if (location.hash !== `#${path}`) history.pushState(null, "", `#${path}`);
  moved.send();
}

addEventListener("hashchange", () => moved.send());

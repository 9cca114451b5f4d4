// Where the page is: the part of the address after #. Moving there is a link like any other.

export const places = new EventTarget();

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

export function go(path) {
  if (location.hash !== `#${path}`) history.pushState(null, "", `#${path}`);
  places.dispatchEvent(new Event("change"));
}

addEventListener("hashchange", () => places.dispatchEvent(new Event("change")));

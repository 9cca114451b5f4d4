// What was written and not sent yet, for as long as the page is open: other views do not cost it.

const written = new Map();

export function draft(key) {
  return written.get(key) ?? "";
}

export function keep(key, what) {
  if (what) written.set(key, what);
  else written.delete(key);
}

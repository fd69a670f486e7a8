// Looks for news of runs that go on; what was opened stays open, and the reader stays where they are.
const every = 3000;
let tag = null;
const news = document.getElementById("news");

async function look() {
  try {
    const answer = await fetch(location.pathname, { headers: tag ? { "If-None-Match": tag } : {} });
    if (answer.status === 200) {
      tag = answer.headers.get("ETag");
      replace(new DOMParser().parseFromString(await answer.text(), "text/html"));
    }
    news.textContent = answer.ok || answer.status === 304 ? "" : await answer.text();
  } catch {
    news.textContent = "The server has stopped; this is what there was.";
  }
  setTimeout(look, every);
}

// What an element is, whichever version of the page it is in.
function key(element) {
  const run = element.closest("[data-run]");
  const details = element.closest("details");
  const figure = element.closest("figure");
  return [run && run.dataset.run, details && details.className, details && details.dataset.client,
    figure && figure.dataset.name, element.tagName, element.getAttribute("aria-label"),
    element.getAttribute("href")].join(" ");
}

function replace(fresh) {
  const kept = (all, value) => new Map([...document.querySelectorAll(all)].map((e) => [key(e), value(e)]));
  const open = kept("main details", (e) => e.open);
  const scrolled = kept("main .wide", (e) => e.scrollLeft);
  const active = document.activeElement;
  const focused = active && active.closest("main, nav") ? key(active) : null;
  for (const details of fresh.querySelectorAll("main details"))
    if (open.has(key(details))) details.open = open.get(key(details));
  for (const part of ["main", "nav"])
    document.querySelector(part).replaceWith(fresh.querySelector(part));
  find();
  for (const wide of document.querySelectorAll("main .wide"))
    wide.scrollLeft = scrolled.get(key(wide)) ?? 0;
  if (focused)
    [...document.querySelectorAll("main *, nav *")].find((e) => key(e) === focused)
      ?.focus({ preventScroll: true });
}

setTimeout(look, every);

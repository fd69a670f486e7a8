// Looks for news of runs that go on; what was opened stays open, and the page stays where it is.
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
    if (answer.ok || answer.status === 304) news.textContent = "";
  } catch {
    news.textContent = "The server has stopped; this is what there was.";
  }
  setTimeout(look, every);
}

function key(details) {
  const run = details.closest("[data-run]");
  return [run && run.dataset.run, details.className, details.dataset.client].join(" ");
}

function replace(fresh) {
  const open = new Map([...document.querySelectorAll("main details")].map((d) => [key(d), d.open]));
  for (const details of fresh.querySelectorAll("main details"))
    if (open.has(key(details))) details.open = open.get(key(details));
  document.querySelector("main").replaceWith(fresh.querySelector("main"));
  document.querySelector("nav").replaceWith(fresh.querySelector("nav"));
}

setTimeout(look, every);

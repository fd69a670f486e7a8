// Writes the OpenAPI description as a page. All of it is set as text.
"use strict";

function add(parent, tag, text) {
  const made = document.createElement(tag);
  made.textContent = text;
  parent.append(made);
  return made;
}

const asJson = (value) => JSON.stringify(value, null, 1);

// Puts the schemas that others refer to in their places.
function resolved(value, schemas) {
  if (Array.isArray(value)) return value.map((part) => resolved(part, schemas));
  if (value === null || typeof value !== "object") return value;
  if (value.$ref) return resolved(schemas[value.$ref.split("/").pop()], schemas);
  return Object.fromEntries(Object.entries(value)
    .filter(([name, part]) => name !== "title" || typeof part !== "string")
    .map(([name, part]) => [name, resolved(part, schemas)]));
}

function writeRoute(page, method, path, route, schemas) {
  const section = add(page, "section", "");
  add(section, "h2", `${method.toUpperCase()} ${path}`);
  add(section, "p", route.description ?? "");
  for (const parameter of route.parameters ?? []) {
    const { type, default: usual } = parameter.schema;
    add(section, "p", `?${parameter.name}= ${type}; ${usual} unless given. ${parameter.description ?? ""}`);
  }
  for (const [kind, { schema }] of Object.entries(route.requestBody?.content ?? {})) {
    add(section, "p", `Body as ${kind}:`);
    add(section, "pre", asJson(resolved(schema, schemas)));
  }
  const answer = route.responses["200"]?.content?.["application/json"]?.schema;
  if (answer && Object.keys(answer).length) {
    add(section, "p", "Answer:");
    add(section, "pre", asJson(resolved(answer, schemas)));
  }
}

async function write() {
  const api = await (await fetch("/openapi.json")).json();
  document.getElementById("about").textContent = `${api.info.title} ${api.info.version}. ${api.info.description}`;
  const page = document.getElementById("routes");
  for (const [path, methods] of Object.entries(api.paths))
    for (const [method, route] of Object.entries(methods))
      writeRoute(page, method, path, route, api.components?.schemas ?? {});
}

write().catch(() => {
  document.getElementById("problem").textContent = "The service does not answer; is it still running?";
});

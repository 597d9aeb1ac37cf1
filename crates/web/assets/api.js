// Requests to the API that openapi.json describes.

export class Failed extends Error {
  constructor(status, text) { super(text); this.status = status; }
}

async function answer(response) {
  const json = await response.json().catch(() => ({}));
  if (!response.ok) throw new Failed(response.status, json.error ?? response.statusText);
  return json;
}

export const get = async (path) => answer(await fetch(`api/${path}`, { headers: { Accept: "application/json" } }));

export const post = async (path, body) => answer(await fetch(`api/${path}`, {
  method: "POST",
  headers: { "Content-Type": "application/json", "X-Nacre-Request": "1" },
  body: JSON.stringify(body),
}));

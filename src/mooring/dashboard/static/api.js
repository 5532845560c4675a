// Requests to the scheduler, and its live updates.

const ROOT = "/dashboard/api/";

export class RequestError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function answered(response) {
  if (response.ok) return response.json();
  if (response.status === 401) location.assign("/dashboard");
  const text = (await response.text()).slice(0, 2000).trim();
  throw new RequestError(response.status, text || `HTTP ${response.status}`);
}

async function sent(path, options) {
  try {
    return await fetch(path, { credentials: "same-origin", ...options });
  } catch {
    throw new RequestError(0, "The scheduler does not answer. The page tries again.");
  }
}

export async function get(name, query = {}) {
  const given = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null));
  return answered(await sent(`${ROOT}${name}${given.size ? `?${given}` : ""}`));
}

export async function post(name, body) {
  const headers = { "Content-Type": "application/json" };
  return answered(await sent(`${ROOT}${name}`, { method: "POST", headers, body: JSON.stringify(body) }));
}

// One stream for the page. `onstate` is called with live or lost, `on[event]` with the data of an event.
export class Updates {
  constructor(on, onstate) {
    this.on = on;
    this.onstate = onstate;
    this.resource = "cpu";
    this.source = null;
  }

  open(resource) {
    if (this.source && this.resource === resource && this.source.readyState !== EventSource.CLOSED) return;
    this.close();
    this.resource = resource;
    const source = new EventSource(`${ROOT}events?${new URLSearchParams({ resource })}`);
    source.onopen = () => this.onstate("live");
    source.onerror = () => {
      this.onstate("lost");
      // After an HTTP error the browser does not connect again by itself.
      if (source.readyState === EventSource.CLOSED && this.source === source) {
        this.source = null;
        setTimeout(() => this.source === null && this.open(this.resource), 5000);
      }
    };
    for (const name of ["summary", "nodes", "resync"]) {
      source.addEventListener(name, (event) => this.on(name, JSON.parse(event.data)));
    }
    this.source = source;
  }

  close() {
    this.source?.close();
    this.source = null;
  }
}

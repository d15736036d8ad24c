// Refreshes the page: an event requests the state again, at most once a second, and less often
// where that takes long.
"use strict";

const state = document.getElementById("state");
const link = document.getElementById("link");
const SHORTEST_WAIT = 1000;
const LONGEST_WAIT = 10000;
const WAIT_PER_READ = 10;
let timer = null;
let lastRead = 0;
let shortestWait = SHORTEST_WAIT;

function readIn(milliseconds) {
  if (timer !== null) clearTimeout(timer);
  timer = setTimeout(read, milliseconds);
}

async function read() {
  timer = null;
  lastRead = Date.now();
  try {
    const answer = await fetch("/state", { signal: AbortSignal.timeout(8000) });
    if (!answer.ok) throw new Error(String(answer.status));
    state.innerHTML = await answer.text();
    link.textContent = "live, as of " + answer.headers.get("X-As-Of");
  } catch {
    link.textContent = "the daemon does not answer; this page is outdated";
  }
  const took = Date.now() - lastRead;
  shortestWait = Math.min(LONGEST_WAIT, Math.max(SHORTEST_WAIT, WAIT_PER_READ * took));
  readIn(LONGEST_WAIT);
}

const stream = new EventSource("/api/v1/events/stream");
function refreshSoon() {
  readIn(Math.max(0, shortestWait - (Date.now() - lastRead)));
}
for (const type of ["queued", "started", "succeeded", "failed", "canceled", "lost", "detailed"]) {
  stream.addEventListener("run." + type, refreshSoon);
}
for (const type of ["fired", "reminded", "resolved", "silenced", "flapping"]) {
  stream.addEventListener("alert." + type, refreshSoon);
}
stream.addEventListener("workspace.changed", refreshSoon);
readIn(SHORTEST_WAIT);

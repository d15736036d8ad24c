// Lets times tick in local time, reports the state of the live link, and pauses it. What is shown
// comes from the server; htmx asks for it again and morphs what has changed into place.
"use strict";

(() => {
  const main = document.getElementById("main");
  const link = document.getElementById("link");
  const gone = document.getElementById("gone");
  const pause = document.getElementById("pause");
  const icon = document.getElementById("icon");
  const TICK = 1000;
  const PROBE = 3000;
  const PROBE_LIMIT = 5000;
  const ASLEEP_AFTER = 10000;
  const ASLEEP_PROBE = 30000;
  const SILENT_AFTER = 30000; // the server reports a change every 12 s at least
  let isLinked = false;
  let isPaused = false;
  let hasFailed = false; // the last request for the page
  let heardAt = Date.now();
  let probe = null;
  let source = null;
  let falling = null;
  let asleep = null;

  const clock = new Intl.DateTimeFormat([], { timeStyle: "medium" });
  const day = new Intl.DateTimeFormat([], { dateStyle: "medium", timeStyle: "short" });
  const second = new Intl.DateTimeFormat([], { dateStyle: "medium", timeStyle: "medium" });
  const axis = new Intl.DateTimeFormat([], { weekday: "short", hour: "2-digit", minute: "2-digit" });
  const formats = { seconds: second, tick: axis };

  // The same words as the server's.
  function rough(seconds) {
    for (const [size, unit, least] of [[86400, "d", 2], [3600, "h", 2], [60, "min", 1]]) {
      if (seconds >= size * least) return Math.floor(seconds / size) + " " + unit;
    }
    return Math.floor(seconds) + " s";
  }

  function relative(at) {
    const seconds = (Date.now() - at) / 1000;
    if (Math.abs(seconds) < 1) return "just now";
    return seconds >= 0 ? rough(seconds) + " ago" : "in " + rough(-seconds);
  }

  function write(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }

  function tick() {
    for (const element of document.querySelectorAll("time[data-ago], time[data-local]")) {
      const at = new Date(element.dateTime);
      write(element, element.hasAttribute("data-ago") ? relative(at) : (formats[element.dataset.local] ?? day).format(at));
      if (!element.dataset.hover) {
        element.dataset.hover = "1";
        element.title = day.format(at) + " (" + element.title + ")";
      }
    }
  }

  function offerMorning() {
    const field = document.getElementById("morning");
    const option = document.querySelector("#lasts option[value=tomorrow]");
    if (!field || !option) return;
    const at = new Date();
    at.setDate(at.getDate() + 1);
    at.setHours(8, 0, 0, 0);
    field.value = at.toISOString();
    write(option, "until tomorrow " + at.toLocaleTimeString([], { timeStyle: "short" }));
  }

  function asOf() {
    const status = document.getElementById("status");
    return status ? clock.format(new Date(status.dataset.asOf)) : "an unknown time";
  }

  function showLink() {
    const [state, text] = !isLinked
      ? ["lost", "Live link lost, reconnecting"]
      : hasFailed ? ["lost", "The daemon cannot show this now; it is from " + asOf()]
      : isPaused ? ["paused", "Paused at " + asOf()] : ["live", "Live"];
    link.dataset.state = state;
    write(link, text);
  }

  function showIcon(level) {
    icon.href = icon.href.replace(/icons\/\w+\.svg.*/, "icons/" + level + ".svg");
  }

  function showLevel() {
    const status = document.getElementById("status");
    if (status) showIcon(status.dataset.level);
  }

  // What a tab in the background shows: its title and icon. No link is kept open for that.
  function showShort(short, level) {
    document.title = [short, ...document.title.split(" \u00b7 ").slice(-2)].join(" \u00b7 ");
    showIcon(level);
  }

  async function askStatus() {
    try {
      const answer = await fetch("/api/v1/status", { signal: AbortSignal.timeout(PROBE_LIMIT) });
      if (!answer.ok) throw new Error(String(answer.status));
      const status = await answer.json();
      showShort(status.short, status.level);
    } catch {
      showShort("not reachable", "unknown");
    }
  }

  // What people have chosen and not sent yet; what was sent is in the server's answer.
  function isTyped(element, wanted) {
    if (element.tagName === "SELECT") {
      const options = [...element.options];
      const sent = options.find((option) => option.defaultSelected) ?? options[0];
      return element.value !== sent?.value && element.value !== wanted.value;
    }
    if (element.tagName !== "INPUT" && element.tagName !== "TEXTAREA") return false;
    if (element.type === "checkbox" || element.type === "radio") return element.checked !== element.defaultChecked;
    return element.value !== element.defaultValue && element.value !== wanted.defaultValue;
  }

  function refresh() {
    htmx.trigger(main, "refresh");
  }

  async function ask() {
    try {
      const answer = await fetch("/healthz", { cache: "no-store", signal: AbortSignal.timeout(PROBE_LIMIT) });
      if (!answer.ok) throw new Error(String(answer.status));
      gone.hidden = true;
      refresh();
    } catch {
      gone.hidden = false;
      write(gone, "The daemon does not answer. What you see is from " + asOf() + ".");
    }
  }

  function lost() {
    isLinked = false;
    showLink();
    if (probe === null) {
      ask();
      probe = setInterval(ask, PROBE);
    }
  }

  function found() {
    isLinked = true;
    heardAt = Date.now();
    if (probe !== null) {
      clearInterval(probe);
      probe = null;
      gone.hidden = true;
      refresh();
    }
    showLink();
  }

  // The extension opens a new link after an error of one that is closed.
  function reconnect() {
    if (!isLinked || source === null) return;
    source.close();
    source.dispatchEvent(new Event("error"));
  }

  function fail(isFailure) {
    hasFailed = isFailure;
    showLink();
  }

  // A frozen daemon, or a network that has gone, closes nothing.
  function watchSilence() {
    if (isLinked && !document.hidden && Date.now() - heardAt > SILENT_AFTER) reconnect();
  }

  // A browser opens six connections to one server: a hidden page must hold none of them.
  function watchVisibility() {
    htmx.createEventSource = (url) => {
      source = new EventSource(url);
      return source;
    };
    document.addEventListener("visibilitychange", () => {
      clearTimeout(falling);
      clearInterval(asleep);
      if (document.hidden) {
        falling = setTimeout(() => source?.close(), ASLEEP_AFTER);
        asleep = setInterval(askStatus, ASLEEP_PROBE);
        return;
      }
      heardAt = Date.now();
      if (source?.readyState === EventSource.CLOSED) reconnect();
      if (!isPaused) refresh();
    });
  }

  function listen() {
    watchVisibility();
    setInterval(watchSilence, TICK);
    main.addEventListener("htmx:sseOpen", found);
    main.addEventListener("htmx:sseMessage", () => { heardAt = Date.now(); });
    main.addEventListener("htmx:sseError", lost);
    main.addEventListener("htmx:sseClose", lost);
    for (const failure of ["htmx:sendError", "htmx:timeout"]) {
      main.addEventListener(failure, () => fail(true));
    }
    main.addEventListener("htmx:configRequest", (event) => {
      if (event.target !== main) return;
      // The address may have changed since the page was loaded: by a filter, or by going back.
      event.detail.path = location.pathname + location.search;
      if (event.detail.triggeringEvent?.type !== "sse:changed") return;
      if (isPaused || document.hidden) event.preventDefault();
    });
    main.addEventListener("htmx:beforeSwap", (event) => {
      const status = event.detail.xhr.status;
      fail(status >= 500 || status === 429);
      // What cannot be shown any more, such as a run that was forgotten, has a page that says so.
      if (!hasFailed && status >= 400) location.reload();
    });
    pause.hidden = false;
    pause.addEventListener("click", () => {
      isPaused = !isPaused;
      pause.setAttribute("aria-pressed", String(isPaused));
      write(pause, isPaused ? "Resume" : "Pause");
      showLink();
      if (!isPaused) refresh();
    });
  }

  if (pause) {
    // What people have opened or typed stays as it is, and what a script of the page keeps.
    const keeps = Idiomorph.defaults.callbacks.beforeNodeMorphed;
    Idiomorph.defaults.ignoreActiveValue = true;
    Idiomorph.defaults.callbacks.beforeNodeMorphed = (element, wanted) =>
      isTyped(element, wanted) ? false : keeps(element, wanted);
    Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, element) =>
      !(name === "open" && element.tagName === "DETAILS");
    listen();
  }
  document.body.addEventListener("htmx:afterSettle", () => {
    tick();
    showLevel();
  });
  offerMorning();
  tick();
  setInterval(tick, TICK);
})();

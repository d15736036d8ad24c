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
  let isPaused = false;
  let probe = null;
  let source = null;
  let falling = null;

  const clock = new Intl.DateTimeFormat([], { timeStyle: "medium" });
  const day = new Intl.DateTimeFormat([], { dateStyle: "medium", timeStyle: "short" });
  const second = new Intl.DateTimeFormat([], { dateStyle: "medium", timeStyle: "medium" });

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
      write(element, element.hasAttribute("data-ago") ? relative(at) : (element.dataset.local === "seconds" ? second : day).format(at));
      if (!element.dataset.hover) {
        element.dataset.hover = "1";
        element.title = day.format(at) + " (" + element.title + ")";
      }
    }
  }

  function asOf() {
    const status = document.getElementById("status");
    return status ? clock.format(new Date(status.dataset.asOf)) : "an unknown time";
  }

  function show(state, text) {
    link.dataset.state = state;
    write(link, text);
  }

  function showLevel() {
    const status = document.getElementById("status");
    if (!status) return;
    icon.href = icon.href.replace(/icons\/\w+\.svg.*/, "icons/" + status.dataset.level + ".svg");
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
    show("lost", "Live link lost, reconnecting");
    if (probe === null) {
      ask();
      probe = setInterval(ask, PROBE);
    }
  }

  function found() {
    if (probe !== null) {
      clearInterval(probe);
      probe = null;
      gone.hidden = true;
      refresh();
    }
    if (!isPaused) show("live", "Live");
  }

  // A browser opens six connections to one server: a page that nobody sees must hold none of them.
  function watchVisibility() {
    htmx.createEventSource = (url) => {
      source = new EventSource(url);
      return source;
    };
    document.addEventListener("visibilitychange", () => {
      clearTimeout(falling);
      if (document.hidden) {
        falling = setTimeout(() => source?.close(), ASLEEP_AFTER);
        return;
      }
      // The extension opens a new link after an error of one that is closed.
      if (source?.readyState === EventSource.CLOSED) source.dispatchEvent(new Event("error"));
      if (!isPaused) refresh();
    });
  }

  function listen() {
    watchVisibility();
    main.addEventListener("htmx:sseOpen", found);
    main.addEventListener("htmx:sseError", lost);
    main.addEventListener("htmx:sseClose", lost);
    main.addEventListener("htmx:configRequest", (event) => {
      if (event.target !== main) return;
      // The address may have changed since the page was loaded: by a filter, or by going back.
      event.detail.path = location.pathname + location.search;
      if (event.detail.triggeringEvent?.type !== "sse:changed") return;
      if (isPaused || document.hidden) event.preventDefault();
    });
    // What cannot be shown is shown as that, such as a filter that is mistyped.
    main.addEventListener("htmx:beforeSwap", (event) => {
      const status = event.detail.xhr.status;
      if (status >= 400 && status < 500) event.detail.shouldSwap = true;
    });
    pause.hidden = false;
    pause.addEventListener("click", () => {
      isPaused = !isPaused;
      pause.setAttribute("aria-pressed", String(isPaused));
      write(pause, isPaused ? "Resume" : "Pause");
      show(isPaused ? "paused" : "live", isPaused ? "Paused at " + asOf() : "Live");
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
  tick();
  setInterval(tick, TICK);
})();

// Suggests the browser's time zone for the days of the calendar; the server knows only UTC.
"use strict";

(() => {
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;

  function suggest() {
    const field = document.getElementById("zone");
    if (!field || !own || field.value === own || document.getElementById("own-zone")) return;
    const link = document.createElement("a");
    const url = new URL(location.href);
    url.searchParams.set("zone", own);
    link.id = "own-zone";
    link.className = "button";
    link.href = url.pathname + url.search;
    link.textContent = "Use " + own;
    field.form.append(link);
  }

  document.addEventListener("htmx:afterSettle", suggest);
  suggest();
})();

// Lets a live page hold still. Known rows are brought up to date where they stand, and boxes keep
// their height. New rows wait behind a button; while a list is not in use they take the places
// of rows that have gone. All is put in its order on request, and alerts when a new one fires.
"use strict";

(() => {
  const main = document.getElementById("main");
  const LISTS = "tbody, .groups";
  const held = new Set(); // elements whose size is fixed
  let asked = null; // id of the box whose button was pressed

  const rowsOf = (list) => [...list.children].filter((row) => row.id);

  function isUsed(box) {
    const selection = getSelection();
    return box.matches(":hover, :focus-within") || (!selection.isCollapsed && box.contains(selection.anchorNode));
  }

  const hasNewAlert = (list) => [...list.querySelectorAll("li[id^=alert-]")].some((alert) => !document.getElementById(alert.id));

  // The server's policy refuses styles in what is parsed.
  function copy(element) {
    const made = element.cloneNode(true);
    for (const each of [made, ...made.querySelectorAll("[style]")]) each.removeAttribute("style");
    return made;
  }

  // A new row fits into a place if the server shows it after all rows before that place.
  function fits(row, order, before) {
    const at = order.indexOf(row.id);
    return before.every((id) => order.indexOf(id) < at);
  }

  // Puts the rows of `next` where those of `old` stand. Returns how many wait, and whether
  // something else does.
  function keep(old, next, used) {
    const wanted = new Map(rowsOf(next).map((row) => [row.id, row]));
    const known = rowsOf(old);
    if (!known.length) return [0, false];
    if (!used && hasNewAlert(next)) {
      old.replaceChildren(); // drawn again, in the server's order
      return [0, true];
    }
    const order = [...wanted.keys()];
    const isFeed = old.closest(".feed") !== null; // newest first: its new rows belong on top
    let fresh = order.filter((id) => known.every((row) => row.id !== id)).map((id) => wanted.get(id));
    const shown = [];
    for (const row of known) {
      if (wanted.has(row.id)) {
        shown.push({ row: wanted.get(row.id) });
        continue;
      }
      const before = shown.filter(({ isGone }) => !isGone).map((each) => each.row.id);
      const filling = used || isFeed ? undefined : fresh.find((each) => fits(each, order, before));
      fresh = fresh.filter((each) => each !== filling);
      shown.push(filling ? { row: filling } : { row: copy(row), isGone: true });
    }
    // What newer rows have pushed to the next page has not gone.
    let pushed = isFeed ? fresh.length : 0;
    for (const each of [...shown].reverse()) {
      if (!each.isGone || pushed-- <= 0) break;
      each.isPushed = true;
    }
    for (const { row, isGone, isPushed } of shown) row.classList.toggle("past", Boolean(isGone && !isPushed));
    next.replaceChildren(...shown.map(({ row }) => row));
    const left = shown.filter(({ isGone }) => !isGone).map(({ row }) => row.id);
    const isOther = left.length < shown.length || left.join() !== order.filter((id) => left.includes(id)).join();
    return [fresh.length, isOther];
  }

  function offer(box, count, isOther) {
    if (!count && !isOther) return;
    const news = document.createElement("p");
    news.className = "news";
    news.id = "news-" + box.id;
    news.innerHTML = '<button type="button"></button>';
    news.firstChild.textContent = count ? count + " new, show" : "Changed, show";
    box.prepend(news);
  }

  function keepBox(box, next) {
    const used = isUsed(box);
    const [olds, nexts] = [box, next].map((each) => [...each.querySelectorAll(LISTS)]);
    if (olds.length !== nexts.length) {
      if (!used && (!olds.length || nexts.length < olds.length)) return;
      const kept = copy(box);
      kept.querySelector(".news")?.remove();
      offer(kept, 0, true);
      next.replaceWith(kept);
      return;
    }
    const found = olds.map((old, index) => keep(old, nexts[index], used));
    offer(next, found.reduce((sum, [count]) => sum + count, 0), found.some(([, isOther]) => isOther));
  }

  // A box that is over leaves its height.
  function leaveGap(box, following) {
    const gap = box.cloneNode(false);
    gap.removeAttribute("style");
    gap.removeAttribute("aria-labelledby");
    offer(gap, 0, true);
    following?.before(gap);
  }

  function fix(element, property, value) {
    if (element.style[property]) return;
    element.style[property] = value;
    held.add(element);
  }

  function hold() {
    for (const box of main.querySelectorAll(".box, #status")) {
      box.style.minHeight = box.offsetHeight + "px";
      held.add(box);
      for (const groups of box.querySelectorAll(".groups")) fix(groups, "height", groups.offsetHeight + "px");
      for (const table of box.querySelectorAll("table")) {
        const heads = [...table.querySelectorAll("thead th")];
        if (getComputedStyle(table).display !== "table" || !heads.length) continue;
        const widths = heads.map((head) => head.getBoundingClientRect().width + "px"); // before any is fixed
        heads.forEach((head, index) => fix(head, "width", widths[index]));
        fix(table, "tableLayout", "fixed");
        for (const row of table.querySelectorAll("tbody > tr")) fix(row, "height", row.getBoundingClientRect().height + "px");
      }
    }
  }

  function release() {
    for (const element of held) element.removeAttribute("style");
    held.clear();
  }

  main.addEventListener("htmx:beforeSwap", (event) => {
    const detail = event.detail;
    if (detail.target !== main || detail.xhr.status !== 200) return;
    if (detail.requestConfig.triggeringEvent?.type !== "sse:changed") return release();
    const next = new DOMParser().parseFromString(detail.serverResponse, "text/html");
    for (const box of main.querySelectorAll(".box[id]")) {
      const same = next.getElementById(box.id);
      if (same) keepBox(box, same);
      else leaveGap(box, next.getElementById(box.nextElementSibling?.id));
    }
    detail.serverResponse = next.head.innerHTML + next.body.innerHTML;
  });
  main.addEventListener("htmx:afterSettle", () => {
    hold();
    const title = asked && document.getElementById(asked)?.querySelector("h2");
    if (!title || document.activeElement !== document.body) return;
    title.tabIndex = -1;
    title.focus({ preventScroll: true });
    asked = null;
  });
  main.addEventListener("click", (event) => {
    const news = event.target.closest(".news");
    if (!news) return;
    asked = news.parentNode.id;
    htmx.trigger(main, "refresh");
  });
  addEventListener("resize", () => {
    release();
    hold();
  });
  hold();
})();

// Draws the charts of a pipeline by uPlot over those that the server has made. A chart is made
// once: when the page is morphed, only its numbers change, so that zoom and cursor stay.
"use strict";

(() => {
  const HEIGHT = 170;
  const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400, 172800]; // seconds
  const charts = new Map(); // id of the element -> { plot, series }

  function color(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function words(seconds) {
    if (seconds == null) return "";
    if (seconds < 60) return Math.round(seconds) + " s";
    if (seconds < 3600) return +(seconds / 60).toFixed(1) + " min";
    return +(seconds / 3600).toFixed(1) + " h";
  }

  function numbers(series) {
    const failed = series.seconds.map((value, index) => (series.failed[index] ? value : null));
    const others = series.seconds.map((value, index) => (series.failed[index] ? null : value));
    const drawn = [series.times, others, failed];
    return series.limit === null ? drawn : [...drawn, series.times.map(() => series.limit)];
  }

  function options(element, series) {
    const axis = { stroke: color("--faint"), grid: { stroke: color("--line") }, ticks: { stroke: color("--line") } };
    const value = (_, seconds) => words(seconds);
    const dots = (label, name) => ({ label, value, paths: () => null, points: { show: true, size: 6, fill: color(name), stroke: color(name) } });
    const limit = { label: "limit", value, stroke: color("--odd-fill"), width: 1.5, dash: [5, 4], points: { show: false } };
    return {
      width: element.clientWidth, height: HEIGHT,
      scales: { x: { range: (_, least, most) => (least === most ? [series.from, series.until] : [least, most]) }, y: { range: (_, __, most) => [0, most * 1.1 || 1] } },
      axes: [axis, { ...axis, size: 64, incrs: STEPS, values: (_, marks) => marks.map(words) }],
      series: [
        {},
        dots("took", "--busy-fill"),
        dots("failed", "--bad-fill"),
        ...(series.limit === null ? [] : [limit]),
      ],
    };
  }

  function draw(element) {
    const text = element.dataset.series;
    const known = charts.get(element.id);
    if (known && known.text === text) return;
    const series = JSON.parse(text);
    if (known && known.plot.series.length === numbers(series).length) {
      known.text = text;
      known.plot.setData(numbers(series), false);
      return;
    }
    if (known) known.plot.destroy(); // a limit has been learned since
    element.classList.add("drawn");
    const plot = new uPlot(options(element, series), numbers(series), element);
    plot.setScale("x", { min: series.from, max: series.until });
    charts.set(element.id, { element, text, plot });
  }

  function drawAll() {
    for (const [id, chart] of charts) {
      if (chart.element.isConnected) continue;
      chart.plot.destroy();
      charts.delete(id);
    }
    document.querySelectorAll(".plot").forEach(draw);
  }

  // The element of a chart keeps what uPlot has made in it: only its numbers are taken over.
  const before = Idiomorph.defaults.callbacks.beforeNodeMorphed;
  Idiomorph.defaults.callbacks.beforeNodeMorphed = (old, node) => {
    if (old.nodeType === Node.ELEMENT_NODE && old.matches(".plot.drawn") && node.matches(".plot")) {
      old.dataset.series = node.dataset.series;
      return false;
    }
    return before(old, node);
  };

  const resized = new ResizeObserver(() => {
    for (const { element, plot } of charts.values()) {
      if (element.clientWidth && element.clientWidth !== plot.width) plot.setSize({ width: element.clientWidth, height: HEIGHT });
    }
  });
  resized.observe(document.getElementById("main"));
  document.body.addEventListener("htmx:afterSettle", drawAll);
  drawAll();
})();

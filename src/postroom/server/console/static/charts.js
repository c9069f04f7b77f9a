// Figures over time, drawn by ECharts: each element with data-chart is one chart; samples come with the page's stream.
"use strict";

(() => {
  const MAX_SAMPLES = 900;
  const SMALL_PX = 480;
  const LEAST_MS = 20000; // an axis is no shorter
  const charts = [];

  function color(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  }

  function clock(ms) { // UTC, as all times of the console
    return new Date(ms).toISOString().slice(11, 19);
  }

  const numbers = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
  const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

  class Chart {
    constructor(element) {
      this.element = element;
      this.spec = JSON.parse(element.dataset.chart);
      this.times = [];
      this.values = Object.fromEntries(this.spec.series.map((each) => [each.counter, []]));
      element.replaceChildren();
      this.chart = window.echarts.init(element, null, { renderer: "canvas" });
      new ResizeObserver(() => this.chart.resize()).observe(element);
      this.draw();
    }

    add({ times, values }) {
      this.times.push(...times);
      for (const { counter } of this.spec.series) this.values[counter].push(...(values[counter] || times.map(() => 0)));
      const surplus = this.times.length - MAX_SAMPLES;
      if (surplus > 0) for (const list of [this.times, ...Object.values(this.values)]) list.splice(0, surplus);
      this.draw();
    }

    points(counter) {
      const values = this.values[counter];
      if (this.spec.kind !== "rate") return this.times.map((time, i) => [time, values[i]]);
      const found = [];
      for (let i = 1; i < values.length; i++) {
        const seconds = (this.times[i] - this.times[i - 1]) / 1000;
        const difference = values[i] - values[i - 1];
        if (difference >= 0 && seconds > 0) found.push([this.times[i], difference / seconds]);
      }
      return found;
    }

    draw() {
      this.element.dataset.samples = this.times.length;
      const stacked = this.spec.kind === "depth";
      const used = this.spec.series.filter((each, i) => !stacked || i === 0 || this.values[each.counter].some(Boolean));
      const text = { color: color("ink2"), fontFamily: "system-ui, sans-serif", fontSize: 12 };
      const last = this.times.at(-1) ?? Date.now();
      const small = this.element.clientWidth < SMALL_PX;
      this.chart.setOption({
        animation: false, useUTC: true,
        textStyle: text,
        grid: { left: 8, right: 12, top: 36, bottom: 4, containLabel: true },
        legend: { top: 0, left: 0, icon: "roundRect", itemWidth: 11, itemHeight: 11, textStyle: text, type: "scroll" },
        tooltip: {
          trigger: "axis", renderMode: "richText", confine: true, backgroundColor: color("card"), borderColor: color("axis"),
          textStyle: { ...text, color: color("ink") }, order: "valueDesc",
          formatter: (rows) => [clock(rows[0].value[0]), ...rows.map((row) => `${row.seriesName}: ${numbers.format(row.value[1])}`)].join("\n"),
        },
        xAxis: {
          type: "time", min: Math.min(this.times[0] ?? last, last - LEAST_MS), max: last, axisLine: { lineStyle: { color: color("axis") } }, splitNumber: small ? 3 : 5,
          axisLabel: { color: color("muted"), hideOverlap: true, formatter: (ms) => clock(ms) },
        },
        yAxis: {
          type: "value", min: 0, minInterval: stacked ? 1 : undefined, splitNumber: 3, splitLine: { lineStyle: { color: color("grid") } },
          axisLabel: { color: color("muted"), formatter: (value) => short.format(value) },
        },
        series: used.map((each) => ({
          name: each.title, type: "line", data: this.points(each.counter), showSymbol: false, sampling: "lttb",
          lineStyle: { width: stacked ? 1 : 2 }, color: color(each.color), emphasis: { disabled: true },
          stack: stacked ? "all" : undefined, areaStyle: stacked ? { opacity: 0.75 } : undefined,
        })),
      }, { notMerge: true });
    }
  }

  // The library is large: the page is painted first. What comes meanwhile is kept for it.
  const early = [];
  const library = document.createElement("script");
  library.src = document.currentScript.dataset.library;
  library.addEventListener("load", () => {
    for (const element of document.querySelectorAll("[data-chart]")) charts.push(new Chart(element));
    for (const detail of early.splice(0)) for (const each of charts) each.add(detail);
  });
  requestAnimationFrame(() => setTimeout(() => document.head.append(library)));
  document.addEventListener("postroom:samples", (event) => {
    if (charts.length) for (const each of charts) each.add(event.detail);
    else early.push(event.detail);
  });
  document.addEventListener("postroom:theme", () => { for (const each of charts) each.draw(); });
})();

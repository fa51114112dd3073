"use strict";
// Draws bands of lanes on one time axis, as SVG. All texts go in as text, never as markup.
const SVG = "http://www.w3.org/2000/svg";
const BAD = new Set(["failed", "timed_out", "stalled"]);
const CUT = new Set(["cancelled", "skipped"]);

function make(tag, attributes, ...content) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === true) node.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...content.filter((part) => part !== null && part !== undefined));
  return node;
}

function draw(tag, attributes, ...content) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
  node.append(...content);
  return node;
}

// The time at a tick: 2 min 30 s, or with as many places as the step needs.
function clock(seconds, step) {
  if (step < 1) return `${seconds.toFixed(-Math.floor(Math.log10(step)))} s`;
  const rest = Math.round(seconds);
  const parts = [[Math.floor(rest / 3600), "h"], [Math.floor(rest / 60) % 60, "min"], [rest % 60, "s"]];
  const told = parts.filter(([count]) => count).map(([count, unit]) => `${count} ${unit}`);
  return told.join(" ") || (step < 60 ? "0 s" : step < 3600 ? "0 min" : "0 h");
}

function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 10) return `${seconds.toFixed(3)} s`;
  if (seconds < 120) return `${seconds.toFixed(2)} s`;
  const whole = Math.round(seconds);
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor((whole % 3600) / 60);
  return hours ? `${hours} h ${String(minutes).padStart(2, "0")} min` : `${minutes} min ${String(whole % 60).padStart(2, "0")} s`;
}

const ROUND = [2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

function tickStep(span, room) {
  const least = span / Math.max(2, Math.floor(room / 95));
  const round = least > 1 && ROUND.find((step) => step >= least);
  if (round) return round;
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((n) => n * power).find((step) => step >= least) || least;
}

class Timeline {
  constructor(root, data, onPick) {
    this.root = root;
    this.data = data;
    this.onPick = onPick;
    this.zoom = 1;
    this.colour = "stage";
    this.pinned = null;
    this.end = Math.max(...data.bands.map((band) => band.end), 1e-9);
    this.bands = data.bands.map((band) => this.index(band));
    this.keys = {
      stage: this.values((job) => job.stage),
      candidate: this.values((job) => job.candidate),
    };
    this.chart = make("div", { class: "chart show-path" });
    this.legend = make("ul", { class: "legend" });
    this.detail = make("div", { class: "detail", "aria-live": "polite" });
    root.append(this.tools(), this.legend, this.chart, make("div", { class: "place" }, this.detail));
    this.chart.addEventListener("scroll", () => this.slide());
    this.listen();
    this.render();
    this.show(null);
    let width = this.chart.clientWidth;
    new ResizeObserver(() => {
      if (this.chart.clientWidth !== width) {
        width = this.chart.clientWidth;
        this.render();
      }
    }).observe(this.chart);
    addEventListener("beforeprint", () => this.render(680));
    addEventListener("afterprint", () => this.render());
  }

  // What follows from the data, once.
  index(band) {
    const neededBy = band.jobs.map(() => []);
    band.jobs.forEach((job, place) => job.needs.forEach((other) => neededBy[other].push(place)));
    const lanes = band.lanes.map(() => []);
    band.jobs.forEach((job, place) => {
      if (job.lane !== null) lanes[job.lane].push(place);
    });
    lanes.forEach((lane) => lane.sort((a, b) => band.jobs[a].start - band.jobs[b].start));
    return { ...band, neededBy, order: lanes, onPath: new Set(band.path.map((step) => step.job)) };
  }

  values(get) {
    const found = new Map();
    for (const band of this.bands) {
      for (const job of band.jobs) {
        const value = get(job);
        if (value !== null && value !== undefined && !found.has(value)) found.set(value, found.size);
      }
    }
    return found;
  }

  tools() {
    const row = make("div", { class: "tools" });
    const button = (label, name, act) => {
      const node = make("button", { type: "button", "aria-label": name, title: name }, label);
      node.addEventListener("click", act);
      row.append(node);
    };
    button("−", "zoom out", () => this.zoomBy(1 / 1.6));
    button("+", "zoom in", () => this.zoomBy(1.6));
    button("whole", "show all of it", () => this.zoomBy(0));
    if (this.keys.candidate.size) {
      const select = make("select", { "aria-label": "colour by" });
      select.append(make("option", { value: "stage" }, "colour by stage"));
      select.append(make("option", { value: "candidate" }, "colour by candidate"));
      select.addEventListener("change", () => {
        this.colour = select.value;
        this.render();
      });
      row.append(select);
    }
    const path = make("input", { type: "checkbox", checked: true });
    path.addEventListener("change", () => this.chart.classList.toggle("show-path", path.checked));
    row.append(make("label", null, path, "critical path"));
    row.append(make("span", { class: "quiet keys" }, "Arrow keys go from job to job, Enter keeps one, Escape lets go."));
    return row;
  }

  zoomBy(factor) {
    const middle = (this.chart.scrollLeft + this.chart.clientWidth / 2) / this.width;
    this.zoom = factor ? Math.min(400, Math.max(1, this.zoom * factor)) : 1;
    this.render();
    this.chart.scrollLeft = middle * this.width - this.chart.clientWidth / 2;
  }

  render(room) {
    const visible = room || this.chart.clientWidth || 800;
    this.width = Math.max(280, visible) * (room ? 1 : this.zoom);
    const scale = (this.width - 12) / this.end;
    this.x = (seconds) => 4 + seconds * scale;
    const focused = this.current;
    const parts = [];
    const labels = draw("g", { class: "lanes" });
    this.labels = labels;
    this.nodes = this.bands.map(() => new Map());
    let y = 6;
    this.bands.forEach((band, number) => {
      if (band.title) {
        labels.append(draw("text", { class: "band", x: 4, y: y + 13 }, band.title));
        y += 20;
      }
      y = this.renderBand(band, number, y, parts, labels);
      y += 10;
    });
    this.height = y + 18;
    const svg = draw("svg", {
      width: this.width, height: this.height, viewBox: `0 0 ${this.width} ${this.height}`,
      role: "group", "aria-label": "timeline",
    });
    svg.append(this.patterns(), ...this.axis(y), ...parts, labels);
    this.edges = draw("g", null);
    svg.append(this.edges);
    this.svg = svg;
    this.chart.replaceChildren(svg);
    this.slide();
    this.renderLegend();
    this.current = null;
    const first = focused || this.first();
    if (first) this.settle(first);
    if (this.pinned) this.light(this.pinned);
  }

  first() {
    for (let band = 0; band < this.bands.length; band += 1) {
      for (const lane of this.bands[band].order) if (lane.length) return { band, job: lane[0] };
    }
    return null;
  }

  patterns() {
    const hatch = draw("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse" });
    hatch.append(draw("path", { d: "M0 6L6 0" }));
    return draw("defs", null, hatch);
  }

  axis(bottom) {
    const step = tickStep(this.end, this.width);
    const parts = [];
    for (let n = 0; n * step <= this.end * 1.0001; n += 1) {
      const at = this.x(n * step);
      parts.push(draw("line", { class: "tick", x1: at, x2: at, y1: 0, y2: bottom }));
      const anchor = n === 0 ? "start" : at > this.width - 24 ? "end" : "middle";
      parts.push(draw("text", { class: "quiet", x: at, y: bottom + 13, "text-anchor": anchor }, clock(n * step, step)));
    }
    return parts;
  }

  renderBand(band, number, top, parts, labels) {
    const many = band.lanes.length > 40;
    const label = many ? 0 : 15;
    const bar = many ? 10 : 20;
    const pitch = label + bar + (many ? 2 : 6);
    const height = band.lanes.length * pitch;
    let lastLabel = -Infinity;
    const begins = [...band.waves.map((wave) => [wave.start, `wave ${wave.number}`]), ...band.sessions.map((start) => [start, "resumed"])];
    for (const [start, name] of begins) {
      const at = this.x(start);
      parts.push(draw("line", { class: "wave", x1: at, x2: at, y1: top, y2: top + height + 12 }));
      const near = at > this.width - 60;
      if (at - lastLabel > (near ? 104 : 52)) {
        parts.push(draw("text", { class: "quiet", x: near ? at - 2 : at + 2, y: top + height + 10, "text-anchor": near ? "end" : "start" }, name));
        lastLabel = at;
      }
    }
    band.lanes.forEach((lane, row) => {
      const y = top + row * pitch + label;
      parts.push(draw("rect", { class: "rail", x: this.x(0), y, width: this.x(band.end) - this.x(0), height: bar }));
      parts.push(...this.gaps(band, lane, y, bar));
      const name = draw("text", { x: 4, y: many ? y + 9 : y - 4 }, lane.name);
      if (lane.idle !== null && !many) {
        const share = lane.share === null ? "" : ` (${(lane.share * 100).toFixed(0)}%)`;
        name.append(draw("tspan", { class: "quiet" }, `  idle ${duration(lane.idle)}${share}`));
      }
      labels.append(name);
      for (const place of band.order[row]) parts.push(this.bar(band, number, place, y, bar));
    });
    return top + height + (begins.length ? 14 : 0);
  }

  gaps(band, lane, y, height) {
    const parts = [];
    let small = "";
    for (const [start, end, step] of lane.gaps) {
      const x = this.x(start);
      const width = this.x(end) - x;
      if (width > 5) {
        const gap = draw("rect", { class: "gap", x, y, width, height });
        gap.append(draw("title", null, `${lane.name} idle for ${duration(end - start)}${this.endedBy(band, step)}`));
        parts.push(gap);
        const text = duration(end - start);
        if (height > 12 && width > 6.3 * text.length + 14) {
          parts.push(draw("text", { class: "idle", x: x + width / 2, y: y + height - 6, "text-anchor": "middle" }, text));
        }
      } else if (width > 0.5) small += `M${x.toFixed(1)} ${y}h${width.toFixed(1)}v${height}h${-width.toFixed(1)}z`;
    }
    // Thousands of slivers are one shape.
    if (small) parts.push(draw("path", { class: "gap", d: small }));
    return parts;
  }

  endedBy(band, step) {
    if (!step) return "; no job came then";
    const [phrase, withJob] = this.data.causes[step.cause];
    return `; then ${band.jobs[step.job].id}, which ${phrase}${withJob ? ` ${band.jobs[step.before].id}` : ""}`;
  }

  paint(index) {
    return this.data.colours[index] || `hsl(${Math.round(index * 137.508) % 360} 55% 72%)`;
  }

  bar(band, number, place, y, height) {
    const job = band.jobs[place];
    const x = this.x(job.start);
    const width = Math.max(1, this.x(job.end) - x);
    const node = draw("g", { class: this.classes(band, place), tabindex: "-1", role: "button", "aria-label": this.describe(band, job) });
    const index = this.keys[this.colour].get(job[this.colour]);
    if (index === undefined) node.classList.add("plain");
    else node.style.setProperty("--c", this.paint(index));
    node.append(draw("rect", { x, y, width, height, rx: Math.min(3, width / 3) }));
    if (band.onPath.has(place)) {
      node.append(draw("line", { x1: x, x2: x + width, y1: y + height - 1.5, y2: y + height - 1.5 }));
    }
    const mark = BAD.has(job.status) ? "✗ " : "";
    const fits = Math.floor((width - 6) / 6.3);
    const text = mark + job.id;
    if (fits >= 3 && height > 12) {
      node.append(draw("text", { x: x + 3, y: y + height - 6 }, text.length > fits ? `${text.slice(0, fits - 1)}…` : text));
    }
    node.dataset.place = place;
    node.dataset.band = number;
    this.nodes[number].set(place, node);
    return node;
  }

  classes(band, place) {
    const status = band.jobs[place].status;
    const fate = BAD.has(status) ? " bad" : CUT.has(status) ? " cut" : "";
    return `bar${fate}${band.onPath.has(place) ? " critical" : ""}`;
  }

  describe(band, job) {
    const lane = job.lane === null ? "" : ` on ${band.lanes[job.lane].name}`;
    return `${job.id}${lane}, ${duration(job.end - job.start)} from ${duration(job.start)}, ${job.status}`;
  }

  // The lanes' names stay in sight.
  slide() {
    this.labels.setAttribute("transform", `translate(${this.chart.scrollLeft} 0)`);
  }

  renderLegend() {
    const entries = [...this.keys[this.colour].entries()].slice(0, 24).map(([name, index]) => {
      const swatch = draw("svg", { width: 14, height: 14, "aria-hidden": "true" }, draw("rect", { class: "swatch", x: 1, y: 1, width: 12, height: 12, rx: 2 }));
      swatch.style.setProperty("--c", this.paint(index));
      return make("li", null, swatch, name);
    });
    const more = this.keys[this.colour].size - entries.length;
    if (more > 0) entries.push(make("li", null, `and ${more} more`));
    const hatch = draw("svg", { width: 14, height: 14, "aria-hidden": "true" }, draw("path", { class: "hatch", d: "M1 7L7 1M1 13L13 1M7 13L13 7" }));
    entries.push(make("li", null, hatch, "idle"));
    this.legend.replaceChildren(...entries);
  }

  // Pointer and keys. One bar at a time can be reached with Tab.
  listen() {
    const of = (event) => {
      const node = event.target.closest && event.target.closest(".bar");
      return node ? { band: Number(node.dataset.band), job: Number(node.dataset.place) } : null;
    };
    this.chart.addEventListener("pointerover", (event) => {
      if (!this.pinned) this.show(of(event));
    });
    this.chart.addEventListener("pointerleave", () => {
      if (!this.pinned) this.show(null);
    });
    this.chart.addEventListener("click", (event) => {
      const at = of(event);
      if (at) {
        this.settle(at);
        this.pin(at);
      } else this.pin(null);
    });
    this.chart.addEventListener("focusin", (event) => {
      const at = of(event);
      if (at) {
        this.settle(at);
        if (!this.pinned) this.show(at);
      }
    });
    this.chart.addEventListener("keydown", (event) => this.key(event, of(event)));
    addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.pin(null);
    });
  }

  key(event, at) {
    if (event.key === "+" || event.key === "=") this.zoomAtFocus(1.6);
    else if (event.key === "-") this.zoomAtFocus(1 / 1.6);
    else if (!at) return;
    else if (event.key === "Enter" || event.key === " ") this.pin(at);
    else {
      const next = this.neighbour(at, event.key);
      if (next === undefined) return;
      if (next) {
        if (this.pinned) this.pin(null);
        this.focus(next);
      }
    }
    event.preventDefault();
  }

  zoomAtFocus(factor) {
    const at = this.current;
    this.zoomBy(factor);
    if (at) this.focus(at);
  }

  neighbour(at, key) {
    const band = this.bands[at.band];
    const job = band.jobs[at.job];
    const lane = band.order[job.lane];
    const here = lane.indexOf(at.job);
    const to = { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: lane.length - 1 }[key];
    if (to !== undefined) return lane[to] === undefined ? null : { band: at.band, job: lane[to] };
    if (key !== "ArrowUp" && key !== "ArrowDown") return undefined;
    const step = key === "ArrowUp" ? -1 : 1;
    let number = at.band;
    let row = job.lane + step;
    for (;;) {
      const lanes = this.bands[number].order;
      if (row < 0 || row >= lanes.length) {
        number += step;
        if (!this.bands[number]) return null;
        row = step > 0 ? 0 : this.bands[number].order.length - 1;
        continue;
      }
      if (lanes[row].length) break;
      row += step;
    }
    const there = this.bands[number];
    const nearest = there.order[row].reduce((best, place) =>
      Math.abs(there.jobs[place].start - job.start) < Math.abs(there.jobs[best].start - job.start) ? place : best);
    return { band: number, job: nearest };
  }

  focus(at) {
    this.settle(at);
    const node = this.nodes[at.band].get(at.job);
    if (node) {
      node.focus({ preventScroll: false });
      this.reveal(at);
    }
  }

  reveal(at) {
    const job = this.bands[at.band].jobs[at.job];
    const left = this.chart.scrollLeft;
    const x = this.x(job.start);
    if (x < left || x > left + this.chart.clientWidth - 40) this.chart.scrollLeft = x - 60;
  }

  settle(at) {
    const before = this.current && this.nodes[this.current.band].get(this.current.job);
    if (before) before.setAttribute("tabindex", "-1");
    this.current = at;
    const node = this.nodes[at.band].get(at.job);
    if (node) node.setAttribute("tabindex", "0");
  }

  pin(at) {
    this.pinned = at;
    const within = this.detail.contains(document.activeElement);
    this.show(at);
    // What had the focus is gone: back to the job.
    if (!at && within && this.current) this.focus(this.current);
    if (at && this.onPick) this.onPick(at.job);
  }

  // One job with all that is known of it, and what it is tied to.
  show(at) {
    this.light(at);
    const parts = at ? this.about(at) : [make("p", { class: "quiet" }, "Point at a job or tap it, or go to it with Tab and the arrow keys.")];
    if (this.pinned) {
      const close = make("button", { type: "button", class: "close", "aria-label": "close" }, "×");
      close.addEventListener("click", () => this.pin(null));
      parts.unshift(close);
    }
    this.detail.replaceChildren(...parts);
    this.put(at);
    // The last line of stderr tells most.
    for (const pre of this.detail.querySelectorAll(".stderr")) pre.scrollTop = pre.scrollHeight;
  }

  // Below the chart if that is in sight; else at the edge of the window away from the job.
  put(at) {
    const style = this.detail.style;
    this.detail.classList.remove("float");
    for (const name of ["top", "bottom", "left", "width"]) style.removeProperty(name);
    const node = at && this.nodes[at.band].get(at.job);
    if (!node) return;
    const box = this.detail.getBoundingClientRect();
    if (box.top >= 0 && box.bottom <= innerHeight) return;
    const place = this.chart.getBoundingClientRect();
    const bar = node.getBoundingClientRect();
    this.detail.classList.add("float");
    style.left = `${place.left}px`;
    style.width = `${place.width}px`;
    style[bar.top + bar.height / 2 < innerHeight / 2 ? "bottom" : "top"] = "0";
  }

  light(at) {
    this.chart.classList.toggle("lit", Boolean(at));
    this.svg.querySelectorAll(".self, .kin").forEach((node) => node.classList.remove("self", "kin"));
    this.edges.replaceChildren();
    if (!at) return;
    const band = this.bands[at.band];
    const many = band.jobs[at.job].needs.length + band.neededBy[at.job].length > 12;
    this.edges.setAttribute("class", many ? "many" : "");
    const node = this.nodes[at.band].get(at.job);
    if (node) node.classList.add("self");
    for (const [others, kind] of [[band.jobs[at.job].needs, "before"], [band.neededBy[at.job], "after"]]) {
      for (const other of others) {
        const kin = this.nodes[at.band].get(other);
        if (!kin || !node) continue;
        kin.classList.add("kin");
        const [from, to] = kind === "before" ? [kin, node] : [node, kin];
        this.edges.append(this.edge(from, to, kind));
      }
    }
  }

  edge(from, to, kind) {
    const a = from.firstChild;
    const b = to.firstChild;
    const number = (node, name) => Number(node.getAttribute(name));
    const x1 = number(a, "x") + number(a, "width");
    const y1 = number(a, "y") + number(a, "height") / 2;
    const x2 = number(b, "x");
    const y2 = number(b, "y") + number(b, "height") / 2;
    const bend = Math.max(14, (x2 - x1) / 2);
    return draw("path", { class: `edge ${kind}`, d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` });
  }

  about(at) {
    const band = this.bands[at.band];
    const job = band.jobs[at.job];
    const parts = [make("h3", null, job.id), " ", fate(job.status)];
    const times = job.start === null ? "never started" : `${duration(job.end - job.start)}, from ${duration(job.start)} to ${duration(job.end)}`;
    const facts = [
      ["time", times],
      ["waited", job.wait === undefined || job.wait === null ? null : duration(job.wait)],
      ["slot", job.lane === null ? job.slot : band.lanes[job.lane].name],
      ["device", device(job.device)],
      ["stage", job.stage], ["candidate", job.candidate], ["seed", job.seed],
      ["exit", job.signal || job.code],
      ["cpu time", job.cpu === undefined || job.cpu === null ? null : duration(job.cpu)],
      ["memory", job.rss ? `${(job.rss / 2 ** 20).toFixed(0)} MiB` : null],
    ];
    const list = make("dl", { class: "facts" });
    for (const [name, value] of facts) {
      if (value !== null && value !== undefined && value !== "") {
        list.append(make("div", null, make("dt", null, name), make("dd", null, String(value))));
      }
    }
    parts.push(list);
    if (job.why) parts.push(make("p", null, job.why));
    if (job.stderr) parts.push(make("pre", { class: "stderr" }, job.stderr));
    if (job.command) parts.push(make("pre", { class: "command" }, job.command));
    parts.push(...this.tied(at, "needs", job.needs), ...this.tied(at, "needed by", band.neededBy[at.job]));
    for (const name of ["inputs", "outputs"]) {
      if (job[name] && job[name].length) parts.push(this.artifacts(name, job[name], job[`more_${name}`]));
    }
    if (job.logs && job.logs.length) {
      const logs = make("p", null, "logs: ");
      job.logs.forEach(([path, href], n) => logs.append(n ? ", " : "", make("a", { href }, path)));
      parts.push(logs);
    }
    if (job.record) parts.push(make("p", null, "record: ", make("code", null, job.record)));
    return parts;
  }

  tied(at, title, places) {
    if (!places.length) return [];
    const row = make("p", null, `${title}: `);
    for (const place of places.slice(0, 20)) {
      const node = make("button", { type: "button" }, this.bands[at.band].jobs[place].id);
      node.addEventListener("click", () => this.go({ band: at.band, job: place }));
      row.append(node, " ");
    }
    if (places.length > 20) row.append(`and ${places.length - 20} more`);
    return [row];
  }

  // To a job, wherever it was named.
  go(at) {
    if (this.nodes[at.band].has(at.job)) this.focus(at);
    this.pin(at);
  }

  artifacts(title, numbers, more) {
    const list = make("ul", null);
    for (const number of numbers) {
      const [role, path, size, sha256] = this.data.artifacts[number];
      const bytes = size === null ? "" : `, ${size.toLocaleString("en")} bytes`;
      list.append(make("li", null, `${role}: ${path}${bytes} `, make("code", null, sha256 || "not read")));
    }
    if (more) list.append(make("li", null, `and ${more} more, in hloop_run.json`));
    return make("div", null, make("strong", null, title), list);
  }
}

function device(entry) {
  if (!entry) return null;
  const parts = [`logical ${entry.logical}`, entry.token, entry.uuid === entry.token ? null : entry.uuid, entry.name];
  return parts.filter(Boolean).join(", ") + (entry.simulated ? ", simulated" : "");
}

function fate(status) {
  const kind = BAD.has(status) ? "bad" : CUT.has(status) ? "cut" : status;
  return make("span", { class: `fate ${kind}` }, (kind === "bad" ? "✗ " : "") + status);
}

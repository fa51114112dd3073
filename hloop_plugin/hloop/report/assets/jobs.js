// The table of all jobs: sorted, filtered, what failed first and with its reason.
class JobTable {
  constructor(root, band, onPick) {
    this.band = band;
    this.onPick = onPick;
    this.rank = { failed: 0, timed_out: 0, stalled: 0, cancelled: 1, running: 1, skipped: 2, waiting: 2, completed: 3 };
    this.columns = [
      ["job", (job) => job.id, ""],
      ["status", (job) => this.rank[job.status], ""],
      ["stage", (job) => job.stage, "minor"],
      ["candidate", (job) => job.candidate, "minor"],
      ["slot", (job) => job.slot, ""],
      ["start", (job) => job.start, "number minor"],
      ["seconds", (job) => (job.start === null ? null : job.end - job.start), "number"],
      ["waited", (job) => job.wait, "number minor"],
    ];
    this.sorted = { column: 1, down: false };
    this.rows = band.jobs.map((job, place) => this.row(job, place));
    this.texts = band.jobs.map((job) =>
      [job.id, job.status, job.stage, job.candidate, job.slot, job.why].join("\n").toLowerCase());
    this.body = make("tbody", null);
    this.count = make("span", { class: "quiet", "aria-live": "polite" });
    const table = make("table", null, make("thead", null, this.head()), this.body);
    root.append(this.tools(), make("div", { class: "scroll" }, table));
    this.fill();
  }

  tools() {
    this.search = make("input", { type: "search", placeholder: "filter by any text", "aria-label": "filter" });
    this.search.addEventListener("input", () => this.fill());
    this.status = make("select", { "aria-label": "status" }, make("option", { value: "" }, "every status"));
    for (const name of new Set(this.band.jobs.map((job) => job.status))) {
      this.status.append(make("option", { value: name }, name));
    }
    this.status.addEventListener("change", () => this.fill());
    return make("div", { class: "tools" }, this.search, this.status, this.count);
  }

  head() {
    this.heads = this.columns.map(([name, , kind], column) => {
      const button = make("button", { type: "button" }, name);
      button.addEventListener("click", () => {
        this.sorted = { column, down: this.sorted.column === column && !this.sorted.down };
        this.fill();
      });
      return make("th", { scope: "col", class: kind }, button);
    });
    return make("tr", null, ...this.heads);
  }

  row(job, place) {
    const time = (seconds) => (seconds === null || seconds === undefined ? "" : seconds.toFixed(3));
    const values = [
      job.id, fate(job.status), job.stage, job.candidate || "", job.slot || "",
      time(job.start), job.start === null ? "" : time(job.end - job.start), time(job.wait),
    ];
    // A reason without output of the job's own is short: it stands beside the status.
    const short = Boolean(job.why) && !job.stderr && CUT.has(job.status);
    if (short) values[1] = make("span", null, fate(job.status), make("span", { class: "quiet" }, ` ${job.why}`));
    const cells = values.map((value, column) => make("td", { class: this.columns[column][2] }, value));
    const row = make("tr", { class: job.why && !short ? "job with-why" : "job", tabindex: "-1" }, ...cells);
    row.addEventListener("click", () => this.onPick(place));
    row.addEventListener("focus", () => this.settle(row));
    row.addEventListener("keydown", (event) => {
      const to = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
      if (event.key === "Enter") this.onPick(place);
      else if (to) {
        let next = row[to];
        while (next && !next.matches(".job")) next = next[to];
        if (next) next.focus();
      } else return;
      event.preventDefault();
    });
    if (!job.why || short) return [row];
    const cell = make("td", { colspan: values.length }, job.why);
    if (job.stderr) cell.append(make("pre", null, job.stderr));
    return [row, make("tr", { class: "why" }, cell)];
  }

  // One row at a time can be reached with Tab: else thousands lie in the way.
  settle(row) {
    if (this.settled) this.settled.setAttribute("tabindex", "-1");
    this.settled = row;
    if (row) row.setAttribute("tabindex", "0");
  }

  fill() {
    const wanted = this.search.value.trim().toLowerCase();
    const status = this.status.value;
    const jobs = this.band.jobs;
    const places = [...jobs.keys()].filter((place) =>
      (!wanted || this.texts[place].includes(wanted)) && (!status || jobs[place].status === status));
    const { column, down } = this.sorted;
    const get = this.columns[column][1];
    const sign = down ? -1 : 1;
    places.sort((a, b) => {
      const left = get(jobs[a]);
      const right = get(jobs[b]);
      // What has no value stands at the end either way.
      const lacks = (value) => value === null || value === undefined;
      if (lacks(left) || lacks(right)) return lacks(left) - lacks(right) || a - b;
      return (left < right ? -sign : left > right ? sign : 0) || a - b;
    });
    this.heads.forEach((head, n) =>
      head.setAttribute("aria-sort", n === column ? (down ? "descending" : "ascending") : "none"));
    this.body.replaceChildren(...places.flatMap((place) => this.rows[place]));
    this.settle(places.length ? this.rows[places[0]][0] : null);
    this.count.textContent = `${places.length} of ${jobs.length} jobs`;
  }
}

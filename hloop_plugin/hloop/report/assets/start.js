// Puts the parts of a page together.
{
  const data = JSON.parse(document.getElementById("data").textContent);
  const timeline = new Timeline(document.getElementById("timeline"), data);
  const jobs = document.getElementById("jobs");
  if (jobs) {
    new JobTable(jobs, data.bands[0], (place) => {
      document.getElementById("timeline").scrollIntoView({ block: "nearest" });
      timeline.go({ band: 0, job: place });
    });
  }
  addEventListener("beforeprint", () => {
    for (const node of document.querySelectorAll("details")) node.open = true;
  });
}

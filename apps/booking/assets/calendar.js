// Fetches the sold-out and closed days of the month that is shown and lets each day show its true face. Without this script
// the page is as true as it was when it was loaded.
const table = document.querySelector("[data-disabled-days]");

async function refresh() {
  if (document.hidden) return;
  try {
    const answer = await fetch(table.dataset.disabledDays, { cache: "no-store" });
    if (!answer.ok) return;
    const soldOut = new Set(await answer.json());
    for (const cell of table.querySelectorAll("[data-day]")) {
      const closed = soldOut.has(cell.dataset.day);
      cell.querySelector(".open").hidden = closed;
      cell.querySelector(".sold").hidden = !closed;
    }
  } catch {
    // Not reachable at the moment: the next round may be luckier.
  }
}

refresh();
setInterval(refresh, 5000);
document.addEventListener("visibilitychange", refresh);

// Asks what became of the command and loads the page again once what it waits for is known.
const { poll: address, until } = document.querySelector("[data-poll]").dataset;
let pause = 250;

async function ask() {
  try {
    const answer = await fetch(address, { cache: "no-store" });
    if (answer.ok) {
      const { status, day } = await answer.json();
      const known = { day: day !== null, status: status !== "pending", answer: !["pending", "parked"].includes(status) };
      if (known[until]) {
        location.reload();
        return;
      }
    }
  } catch {
    // Not reachable at the moment: ask again.
  }
  pause = Math.min(pause * 1.5, 5000);
  setTimeout(ask, pause);
}

setTimeout(ask, pause);

// Asks what became of the command and loads the page again once that is known.
const address = document.querySelector("[data-poll]").dataset.poll;
let pause = 250;

async function ask() {
  try {
    const answer = await fetch(address, { cache: "no-store" });
    if (answer.ok && (await answer.json()).status !== "pending") {
      location.reload();
      return;
    }
  } catch {
    // Not reachable at the moment: ask again.
  }
  pause = Math.min(pause * 1.5, 5000);
  setTimeout(ask, pause);
}

setTimeout(ask, pause);

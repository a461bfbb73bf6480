for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    const code = button.previousElementSibling;
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Press Ctrl-C";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}
for (const input of document.querySelectorAll("[data-filter]")) {
  const rows = document.getElementById(input.dataset.filter).tBodies[0].rows;
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(" ").filter(Boolean);
    for (const row of rows) {
      const text = (row.textContent + (row.dataset.more ?? "")).toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });
}

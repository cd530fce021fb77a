"use strict";
// The rows are in the page; this only hides and orders them, and keeps the question in the address.
(() => {
  const body = document.querySelector("#steps tbody");
  const heads = [...document.querySelectorAll("#steps thead th")];
  const rows = [...body.rows].map((row, index) => ({
    row, index,
    text: row.textContent.toLowerCase(),
    keys: [...row.cells].map((cell) => cell.dataset.sort === undefined ? cell.textContent.trim().toLowerCase() : Number(cell.dataset.sort)),
  }));
  const fields = { filter: document.querySelector("#filter"), state: document.querySelector("#state"), rule: document.querySelector("#rule") };
  const shown = document.querySelector("#shown");
  let sorted = { name: "", down: false };

  function compare(column) {
    return (one, other) => {
      const [a, b] = [one.keys[column], other.keys[column]];
      const order = a < b ? -1 : a > b ? 1 : 0;
      return (sorted.down ? -order : order) || one.index - other.index;
    };
  }

  function draw() {
    const words = fields.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const { row, text } of rows) {
      const matches = words.every((word) => text.includes(word))
        && (!fields.state.value || row.dataset.state === fields.state.value)
        && (!fields.rule.value || row.dataset.rule === fields.rule.value);
      row.hidden = !matches;
      count += matches;
    }
    const column = heads.findIndex((head) => head.dataset.name === sorted.name);
    heads.forEach((head, index) => head.setAttribute("aria-sort", index !== column ? "none" : sorted.down ? "descending" : "ascending"));
    const ordered = column < 0 ? rows : [...rows].sort(compare(column));
    body.append(...ordered.map(({ row }) => row));
    shown.textContent = `${count.toLocaleString("en")} of ${rows.length.toLocaleString("en")} steps shown`;
  }

  function write() {
    const values = new URLSearchParams();
    for (const [name, field] of Object.entries(fields)) if (field.value) values.set(name, field.value);
    if (sorted.name) values.set("sort", (sorted.down ? "-" : "") + sorted.name);
    history.replaceState(null, "", `#${values}`);
    draw();
  }

  function read() {
    const values = new URLSearchParams(location.hash.slice(1));
    for (const [name, field] of Object.entries(fields)) field.value = values.get(name) ?? "";
    const sort = values.get("sort") ?? "";
    sorted = { name: sort.replace(/^-/, ""), down: sort.startsWith("-") };
    draw();
  }

  for (const head of heads) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => {
      sorted = { name: head.dataset.name, down: sorted.name === head.dataset.name && !sorted.down };
      write();
    });
    head.append(button);
  }
  for (const field of Object.values(fields)) field.addEventListener("input", write);
  document.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
  document.querySelector("form").hidden = false;
  window.addEventListener("hashchange", read);
  read();
})();

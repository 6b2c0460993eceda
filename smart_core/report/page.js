"use strict";
const PAPER_WIDTH = 690;
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const charts = new Map();
for (const script of document.querySelectorAll("script[data-chart]")) {
  charts.set(document.getElementById(script.dataset.chart), JSON.parse(script.textContent));
}

function draw(theme, width) {
  for (const [plot, themes] of charts) {
    const { data, layout } = themes[theme];
    const size = width ? { width, autosize: false } : { autosize: true };
    Plotly.react(plot, data, { ...layout, ...size }, { displaylogo: false, responsive: !width, modeBarButtonsToRemove: ["toImage"] });
  }
}

const onScreen = () => draw(dark.matches ? "dark" : "light");
onScreen();
dark.addEventListener("change", onScreen);
window.addEventListener("beforeprint", () => draw("light", PAPER_WIDTH));
window.addEventListener("afterprint", onScreen);

function rows(figure) {
  const lines = [...figure.querySelectorAll("details tr")];
  return lines.map((line) => [...line.children].map((cell) => cell.textContent));
}

function csv(table) {
  const quoted = (cell) => (/[",\n\r]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
  return table.map((line) => line.map(quoted).join(",") + "\r\n").join("");
}

function json([names, ...table]) {
  const value = (cell) => (cell === "" ? null : Number.isNaN(Number(cell)) ? cell : Number(cell));
  return JSON.stringify(table.map((line) => Object.fromEntries(line.map((cell, k) => [names[k], value(cell)]))), null, 1);
}

function keep(text, kind, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: kind }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Plotly refuses to save a picture while it still makes another one
let saving = Promise.resolve();

document.addEventListener("click", (event) => {
  const kind = event.target.dataset?.save;
  if (!kind) return;
  const figure = event.target.closest("figure");
  const plot = figure.querySelector(".plot");
  const name = figure.dataset.name;
  if (kind === "csv") keep(csv(rows(figure)), "text/csv", `${name}.csv`);
  else if (kind === "json") keep(json(rows(figure)), "application/json", `${name}.json`);
  else {
    const options = { format: kind, filename: name, width: plot.offsetWidth, height: plot.offsetHeight, scale: kind === "png" ? 2 : 1 };
    saving = saving.catch(() => {}).then(() => Plotly.downloadImage(plot, options));
  }
});

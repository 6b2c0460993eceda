"use strict";
const PAPER_WIDTH = 690;
const PICTURE_WIDTH = 900;
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

const zipLink = document.getElementById("zip");
const onScreen = () => draw(dark.matches ? "dark" : "light");
if (!zipLink) onScreen();
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

const CRC = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let bit = 0; bit < 8; bit++) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n;
});

// A zip archive of [name, bytes] pairs, stored without compression: pictures hardly shrink
function zip(files) {
  const parts = [], index = [];
  let at = 0;
  for (const [name, bytes] of files) {
    const title = new TextEncoder().encode(name);
    const crc = ~bytes.reduce((sum, byte) => CRC[(sum ^ byte) & 0xff] ^ (sum >>> 8), -1) >>> 0;
    const fields = [20, 0x800, 0, 0, 0x21, crc & 0xffff, crc >>> 16, bytes.length & 0xffff, bytes.length >>> 16, bytes.length & 0xffff, bytes.length >>> 16, title.length, 0];
    parts.push(new Uint16Array([0x4b50, 0x0403, ...fields]), title, bytes);
    index.push(new Uint16Array([0x4b50, 0x0201, 20, ...fields, 0, 0, 0, 0, 0, at & 0xffff, at >>> 16]), title);
    at += 30 + title.length + bytes.length;
  }
  const size = index.reduce((sum, part) => sum + part.byteLength, 0);
  const end = new Uint16Array([0x4b50, 0x0605, 0, 0, files.length, files.length, size & 0xffff, size >>> 16, at & 0xffff, at >>> 16, 0]);
  return new Blob([...parts, ...index, end], { type: "application/zip" });
}

// Every figure as SVG, PNG, CSV and JSON, in the light theme and at one width
async function figures() {
  const text = (content) => new TextEncoder().encode(content), files = [];
  for (const [plot, { light }] of charts) {
    const figure = plot.closest("figure"), name = figure.dataset.name;
    const size = { width: PICTURE_WIDTH, height: light.layout.height || 450 };
    const svg = await Plotly.toImage(light, { format: "svg", ...size });
    files.push([`${name}.svg`, text(decodeURIComponent(svg.slice(svg.indexOf(",") + 1)))]);
    const png = await Plotly.toImage(light, { format: "png", scale: 2, ...size });
    files.push([`${name}.png`, Uint8Array.from(atob(png.slice(png.indexOf(",") + 1)), (byte) => byte.charCodeAt(0))]);
    files.push([`${name}.csv`, text(csv(rows(figure)))], [`${name}.json`, text(json(rows(figure)))]);
  }
  return zip(files);
}

document.getElementById("all-figures")?.addEventListener("click", async (event) => {
  event.target.disabled = true;
  keep(await figures(), "application/zip", "figures.zip");
  event.target.disabled = false;
});

if (zipLink) {
  figures().then((archive) => {
    zipLink.href = URL.createObjectURL(archive);
    zipLink.hidden = false;
    document.getElementById("state").textContent = ` ${4 * charts.size} files, ${(archive.size / 1e6).toFixed(1)} MB`;
  });
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

// Hover and legend. The plots are drawn already (feddep/reports/charts.py); this script reads where
// their points are from data- attributes, hides series, and fits the value axis to what is left.
"use strict";

const SVG = document.querySelector("svg.panel")?.namespaceURI;
const REACH = 28; // how near a point must be to be told of, in units of the drawing
const tip = document.getElementById("tip");

function draw(parent, name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

// The same rules as padded() and round_ticks() in charts.py.
function padded(values) {
  const low = Math.min(...values), high = Math.max(...values);
  const room = 0.06 * (high - low) || Math.max(Math.abs(high), 0.1) * 0.05;
  return [low - room, high + room];
}

function roundTicks(low, high) {
  const rough = (high - low) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => power * factor).find((size) => size >= rough * 0.7);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const ticks = [];
  for (let n = Math.ceil(low / step - 1e-9); n <= Math.floor(high / step + 1e-9); n += 1) {
    ticks.push([n * step, (n * step + 0).toFixed(digits).replace("-", "−")]);
  }
  return ticks;
}

class Panel {
  constructor(svg) {
    this.svg = svg;
    this.vertical = svg.dataset.value !== "x";
    this.scale = svg.dataset.scale ? JSON.parse(svg.dataset.scale) : null;
    this.factor = 1;
    this.shift = 0;
    this.series = [...svg.querySelectorAll(".series")].map((element) => ({
      element,
      keys: JSON.parse(element.dataset.keys),
      points: JSON.parse(element.dataset.points),
      marks: [...element.querySelectorAll(".mark")],
    }));
    svg.addEventListener("pointermove", (event) => this.point(event));
    svg.addEventListener("pointerdown", (event) => this.point(event));
    svg.addEventListener("pointerleave", () => this.leave());
  }

  visible() {
    return this.series.filter((one) => !one.element.classList.contains("hidden"));
  }

  show(off) {
    for (const one of this.series) {
      one.element.classList.toggle("hidden", one.keys.some((key) => off.has(key)));
    }
    this.leave();
    if (this.scale) this.fit();
  }

  // Finds the range of what is visible, moves everything there, and draws the ticks anew.
  fit() {
    const [low, high, start, end, from, to] = this.scale;
    const value = (place) => low + ((place - start) / (end - start)) * (high - low);
    const values = this.visible().flatMap((one) =>
      one.points.flatMap(([x, y, , ...ends]) => [this.vertical ? y : x, ...ends].map(value)));
    if (!values.length) return;
    if (this.svg.dataset.guide) values.push(Number(this.svg.dataset.guide));
    const [lowest, newHigh] = padded(values);
    const newLow = this.svg.dataset.floor ? Number(this.svg.dataset.floor) : lowest;
    const place = (v) => start + ((v - newLow) / (newHigh - newLow)) * (end - start);
    this.factor = (high - low) / (newHigh - newLow);
    this.shift = place(low) - this.factor * start;
    const move = this.vertical
      ? `matrix(1 0 0 ${this.factor} 0 ${this.shift})`
      : `matrix(${this.factor} 0 0 1 ${this.shift} 0)`;
    this.svg.querySelectorAll(".stretch").forEach((line) => line.setAttribute("transform", move));
    for (const one of this.series) {
      one.marks.forEach((mark, i) => {
        const [x, y] = this.placeOf(one.points[i]);
        mark.setAttribute("transform", `translate(${x} ${y})`);
      });
    }
    const group = this.svg.querySelector(".ticks");
    group.replaceChildren();
    for (const [v, text] of roundTicks(newLow, newHigh)) {
      const at = place(v).toFixed(1);
      const path = this.vertical ? `M${from} ${at}H${to}` : `M${at} ${from}V${to}`;
      draw(group, "path", { d: path, stroke: "#e3e3e3" });
      draw(group, "text", this.vertical
        ? { x: from - 6, y: at, dy: "0.35em", "text-anchor": "end" }
        : { x: at, y: from + 15, "text-anchor": "middle" }, text);
    }
  }

  placeOf([x, y]) {
    return this.vertical
      ? [x, this.factor * y + this.shift]
      : [this.factor * x + this.shift, y];
  }

  point(event) {
    const matrix = this.svg.getScreenCTM();
    if (!matrix) return;
    const mouse = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
    let best = null, least = REACH;
    for (const one of this.visible()) {
      for (const known of one.points) {
        const [x, y] = this.placeOf(known);
        const distance = Math.hypot(x - mouse.x, y - mouse.y);
        if (distance < least) [best, least] = [[x, y, known[2]], distance];
      }
    }
    this.leave();
    if (best) this.tell(event, best);
  }

  tell(event, [x, y, text]) {
    draw(this.svg, "circle", { class: "ring", cx: x, cy: y, r: 7 });
    tip.textContent = text;
    tip.hidden = false;
    const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 6);
    const above = event.clientY - tip.offsetHeight - 12;
    tip.style.left = `${Math.max(6, left)}px`;
    tip.style.top = `${above < 4 ? event.clientY + 18 : above}px`;
  }

  leave() {
    this.svg.querySelector(".ring")?.remove();
    tip.hidden = true;
  }
}

for (const figure of document.querySelectorAll(".figure")) {
  const panels = [...figure.querySelectorAll("svg.panel")].map((svg) => new Panel(svg));
  const buttons = [...figure.querySelectorAll(".legend button")];
  const pressed = (button) => button.getAttribute("aria-pressed") === "true";
  const off = new Set(buttons.filter((one) => !pressed(one)).map((one) => one.dataset.key));
  if (off.size) panels.forEach((panel) => panel.show(off));
  for (const button of buttons) {
    button.addEventListener("click", () => {
      const key = button.dataset.key;
      if (!off.delete(key)) off.add(key);
      button.setAttribute("aria-pressed", String(!off.has(key)));
      panels.forEach((panel) => panel.show(off));
    });
  }
}

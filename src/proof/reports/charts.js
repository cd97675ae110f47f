// Draws the figures of a report.
// Names come from outside: they are only ever set as text, never as HTML.
"use strict";

const report = JSON.parse(document.getElementById("data").textContent);
const tip = document.getElementById("tip");

// --- Drawing --------------------------------------------------------------------------------

function node(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function html(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

const MARKS = [ // around 0, 0: circle, square, diamond, two triangles, plus, star
  "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0", "M-3.6-3.6h7.2v7.2h-7.2z", "M0-5 5 0 0 5-5 0z",
  "M0-4.6 4.6 3.6h-9.2z", "M0 4.6 4.6-3.6h-9.2z",
  "M-1.6-4.6h3.2v3h3v3.2h-3v3h-3.2v-3h-3v-3.2h3z",
  "M0-5.5 1.5-1.7 5.5-1.6 2.4.9 3.5 5 0 2.6-3.5 5-2.4.9-5.5-1.6-1.5-1.7z",
];
const look = (m) => `m${m % 7} d${Math.floor(m / 7) % 4}`;
const mark = (m, x, y, scale = 1) =>
  node("path", { class: "mark", d: MARKS[m % 7], transform: `translate(${x} ${y}) scale(${scale})` });
const swatch = (m) => node("svg", { class: `swatch ${look(m)}`, viewBox: "0 0 28 12", "aria-hidden": "true" },
  node("path", { class: "line", d: "M0 6H28" }), mark(m, 14, 6));
const words = (x, y, text, anchor = "start", className = "") =>
  node("text", { x, y, "text-anchor": anchor, class: className }, text);

const pen = document.createElement("canvas").getContext("2d");
function textWidth(text) {
  pen.font = `13px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

// A name, cut where it is longer than there is room for; the tip has all of it.
function fit(text, room) {
  let short = text;
  while (short.length > 4 && textWidth(short) > room) short = `${short.slice(0, -2)}…`;
  return short;
}

// Round numbers from `low` or below to `high` or above, about five of them.
function ticks(low, high) {
  const raw = Math.max(high - low, 1e-6) / 5, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((size) => size * power >= raw) * power;
  const first = Math.floor(low / step), last = Math.max(Math.ceil(high / step), first + 1);
  return Array.from({ length: last - first + 1 }, (_, i) => +((first + i) * step).toPrecision(9));
}

// Heights at least `gap` apart and inside of [top, bottom], as near as can be to those wanted.
function spread(wanted, gap, top, bottom) {
  const order = wanted.map((_, i) => i).sort((a, b) => wanted[a] - wanted[b]);
  const heights = [...wanted];
  let least = top;
  for (const i of order) { heights[i] = Math.max(heights[i], least); least = heights[i] + gap; }
  let most = bottom;
  for (const i of order.reverse()) { heights[i] = Math.min(heights[i], most); most = heights[i] - gap; }
  return heights;
}

function frame(width, height, label) {
  return node("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: 0,
    "aria-label": `${label} Arrow keys read the values.` });
}

function axis(svg, box, at, place, heading) {
  for (const value of at) {
    svg.append(node("line", { class: "grid", x1: box.left, x2: box.right, y1: place(value), y2: place(value) }),
      words(box.left - 6, place(value) + 4, value, "end"));
  }
  svg.append(words((box.left + box.right) / 2, box.bottom + 34, heading, "middle"));
}

// One line a method over the classes learned. `ends` names the methods there, where there is room;
// `gap` also tells how far the highest is above the second.
function lines(setting, series, width, label, { ends = false, gap = false } = {}) {
  const { seen } = setting;
  const named = ends && width >= 640;
  const last = (one) => one.values.findLast((value) => value !== null);
  const ranked = [...series].sort((a, b) => last(b) - last(a));
  const values = series.flatMap((one) => one.values).filter((value) => value !== null);
  const at = ticks(Math.min(...values), Math.max(...values));
  const digits = Math.max(1, Math.ceil(-Math.log10(at[1] - at[0])) + 1);
  const above = gap && ranked.length > 1 ? ` (+${(last(ranked[0]) - last(ranked[1])).toFixed(digits)})` : "";
  const ending = (one) => last(one).toFixed(digits) + (one === ranked[0] ? above : "");
  const told = new Map(series.map((one) => [one, `${fit(report.methods[one.m], width / 4)}  ${ending(one)}`]));
  const room = named ? 34 + Math.max(...[...told.values()].map(textWidth)) : 10;
  const height = Math.round(Math.min(440, Math.max(230, width * 0.52)));
  const box = { left: 30, right: width - room, top: 10, bottom: height - 44 };

  const y = (value) => box.bottom - ((value - at[0]) / (at.at(-1) - at[0])) * (box.bottom - box.top);
  const x = (i) => box.left + 10 +
    (seen.length > 1 ? (seen[i] - seen[0]) / (seen.at(-1) - seen[0]) : 0.5) * (box.right - box.left - 20);
  const svg = frame(width, height, label);
  axis(svg, box, at, y, "classes learned");
  const every = Math.ceil(seen.length / Math.max(2, (box.right - box.left) / 44));
  seen.forEach((count, i) => {
    if ((seen.length - 1 - i) % every === 0) svg.append(words(x(i), box.bottom + 17, count, "middle"));
  });

  const heights = spread(series.map((one) => y(last(one))), 17, box.top, box.bottom);
  const marks = [];
  series.forEach((one, k) => {
    const group = node("g", { class: look(one.m), "data-m": one.m });
    const points = one.values.flatMap((value, i) => (value === null ? [] : [[x(i), y(value), i, value]]));
    if (one.deviation) {
      const edge = (sign) => points.map(([px, , i, value]) => `${px} ${y(value + sign * one.deviation[i])}`);
      group.append(node("path", { class: "band", d: `M${[...edge(1), ...edge(-1).reverse()].join("L")}z` }));
    }
    group.append(node("path", { class: "line", d: `M${points.map(([px, py]) => `${px} ${py}`).join("L")}` }));
    for (const [px, py, i, value] of points) {
      group.append(mark(one.m, px, py));
      const more = one.deviation && one.deviation[i] ? ` ± ${one.deviation[i].toFixed(2)}` : "";
      marks.push({ x: px, y: py, m: one.m, column: i, text: `${seen[i]} classes: ${value.toFixed(digits + 1)}${more}` });
    }
    if (named) {
      const [px, py] = points.at(-1);
      group.append(node("path", { class: "leader", d: `M${px + 7} ${py}L${box.right + 14} ${heights[k]}` }),
        words(box.right + 18, heights[k] + 4, told.get(one), "start", "name"));
    }
    svg.append(group);
  });
  watch(svg, marks);
  return { svg, legend: named ? null : legend(ranked, ending) };
}

function legend(series, value) {
  const list = html("ul", "legend");
  for (const one of series) {
    const item = html("li", "", swatch(one.m), report.methods[one.m], html("span", "value", value(one)));
    item.dataset.m = one.m;
    list.append(item);
  }
  return list;
}

// Places for small figures side by side, each with its title.
function panelsOf(plot, titles) {
  const panels = titles.map((title) => html("div", "", html("h4", "", title)));
  plot.append(html("div", "panels", ...panels));
  return panels;
}

// --- The figures of a setting, by name ------------------------------------------------------

const FIGURES = {
  curves(setting, plot, width) {
    const series = setting.methods.map((one) => ({ m: one.m, values: one.curve, deviation: one.deviation }));
    const { svg, legend: names } = lines(setting, series, width,
      `Accuracy of ${series.length} methods while ${setting.seen.at(-1)} classes are learned.`, { ends: true, gap: true });
    plot.append(svg, ...(names ? [names] : []));
  },

  forgetting(setting, plot, width) {
    const series = setting.methods.map((one) => ({ m: one.m, values: one.forgetting }));
    const { svg, legend: names } = lines(setting, series, width, "Forgetting after each task.", { ends: true });
    plot.append(svg, ...(names ? [names] : []));
  },

  zero_shot(setting, plot) {
    const titles = Object.entries(setting.zero_shot);
    const panels = panelsOf(plot, titles.map(([, title]) => title));
    let names;
    titles.forEach(([key, title], i) => {
      const series = setting.methods.map((one) => ({ m: one.m, values: one.zero_shot[key] || [] }))
        .filter((one) => one.values.some((value) => value !== null));
      panels[i].append(lines(setting, series, panels[i].clientWidth, `${title}.`).svg);
      names ||= legend(series, () => "");
    });
    plot.append(names);
  },

  matrices(setting, plot) {
    const all = setting.methods.flatMap((one) => one.matrix.flat());
    const low = Math.floor(Math.min(...all) / 10) * 10, high = Math.ceil(Math.max(...all) / 10) * 10;
    plot.append(html("p", "scale", `${low} %`, html("span"), `${high} %`));
    const panels = panelsOf(plot, setting.methods.map((one) => report.methods[one.m]));
    setting.methods.forEach((one, i) => panels[i].append(heatMap(one, low, high, panels[i].clientWidth)));
  },

  parameters(setting, plot, width) {
    const methods = [...setting.methods].sort((a, b) => a.total - b.total);
    const most = Math.max(1, ...methods.map((one) => one.total)), least = setting.kept_from;
    const share = (count) => (least ? Math.log(Math.max(count, least) / least) / Math.log(most / least) : count / most);
    const row = 46, svg = frame(width, methods.length * row, "Numbers kept by each method.");
    const marks = methods.map((one, i) => {
      const kept = share(one.inference) * (width - 2), all = share(one.total) * (width - 2);
      const dropped = one.total - one.inference;
      const text = `${short(one.inference)} kept` + (dropped ? `, ${short(dropped)} only while learning` : "") +
        `, ${short(one.bytes)}B a class`;
      const group = node("g", { class: look(one.m), "data-m": one.m },
        words(0, i * row + 14, fit(report.methods[one.m], width / 2), "start", "name"),
        words(width, i * row + 14, width >= 480 ? text : `${short(one.inference)} kept`, "end"),
        node("rect", { class: "kept", x: 0, y: i * row + 21, width: Math.max(kept, 1.5), height: 13 }));
      if (dropped) {
        group.append(node("rect", { class: "dropped", x: kept, y: i * row + 21, width: all - kept, height: 13 }));
      }
      svg.append(group);
      return { x: Math.max(kept, 8), y: i * row + 27, m: one.m, column: i, text };
    });
    watch(svg, marks, 1e4);
    plot.append(svg);
  },

  seconds(setting, plot, width) {
    const { methods } = setting;
    const height = Math.round(Math.min(400, Math.max(240, width * 0.45)));
    const box = { left: 30, right: width - 14, top: 10, bottom: height - 44 };
    const times = methods.map((one) => Math.log10(Math.max(one.seconds, 0.01)));
    const left = Math.min(...times) - 0.15, right = Math.max(...times) + 0.3;
    const at = ticks(Math.min(...methods.map((one) => one.average)), Math.max(...methods.map((one) => one.average)));
    const x = (time) => box.left + ((time - left) / (right - left)) * (box.right - box.left);
    const y = (value) => box.bottom - ((value - at[0]) / (at.at(-1) - at[0])) * (box.bottom - box.top);
    const svg = frame(width, height, "Average accuracy against the seconds of a run.");
    axis(svg, box, at, y, "seconds a run, logarithmic");
    const fine = right - left < 1.6 ? [1, 2, 5] : [1];
    for (let power = Math.floor(left); power <= right; power += 1) {
      for (const digit of fine) {
        const time = power + Math.log10(digit);
        if (time > left && time < right) {
          svg.append(node("line", { class: "grid", x1: x(time), x2: x(time), y1: box.top, y2: box.bottom }),
            words(x(time), box.bottom + 17, `${+(digit * 10 ** power).toPrecision(1)}`, "middle"));
        }
      }
    }
    const marks = methods.map((one, i) => ({ x: x(times[i]), y: y(one.average), m: one.m, column: times[i],
      text: `${one.average.toFixed(2)} % in ${one.seconds.toFixed(1)} s` }));
    const taken = marks.map((at) => [at.x - 8, at.y - 8, at.x + 8, at.y + 8]);
    for (const at of marks) {
      const group = node("g", { class: look(at.m), "data-m": at.m }, mark(at.m, at.x, at.y, 1.4));
      const name = fit(report.methods[at.m], width / 3), wide = textWidth(name);
      const free = besides(at, wide).find(([left, top]) => left >= box.left && left + wide <= width &&
        !taken.some((t) => left < t[2] && left + wide > t[0] && top < t[3] && top + 15 > t[1]));
      if (free) {
        taken.push([free[0], free[1], free[0] + wide, free[1] + 15]);
        group.append(words(free[0], free[1] + 12, name, "start", "name"));
      }
      svg.append(group);
    }
    watch(svg, marks);
    plot.append(svg);
  },
};

// Where the name of a mark may stand: to the right, to the left, above, below.
function besides({ x, y }, wide) {
  return [[x + 11, y - 8], [x - 11 - wide, y - 8], [x - wide / 2, y - 26], [x - wide / 2, y + 10]];
}

function heatMap(one, low, high, width) {
  const tasks = one.matrix.length, size = Math.min((width - 22) / tasks, 40);
  const svg = frame(width, Math.ceil(size * tasks) + 24, `Accuracy of ${report.methods[one.m]} on each task after each task.`);
  const every = Math.ceil(18 / size);
  const marks = [];
  one.matrix.forEach((row, after) => {
    const top = after * size;
    if (after % every === 0) {
      svg.append(words(14, top + size / 2 + 4, after + 1, "end"),
        words(20 + (after + 0.5) * size, tasks * size + 16, after + 1, "middle"));
    }
    row.forEach((value, task) => {
      const share = (value - low) / (high - low || 1);
      const cell = { x: 20 + task * size, y: top, width: size - 1, height: size - 1 };
      const shown = node("rect", cell);
      shown.style.fill = `color-mix(in oklab, var(--high) ${(100 * share).toFixed(1)}%, var(--low))`;
      svg.append(shown);
      const x = 20 + (task + 0.5) * size, y = top + size / 2;
      if (size >= 24) svg.append(words(x, y + 3.5, Math.round(value), "middle", share > 0.68 ? "cell-high" : "cell-low"));
      marks.push({ x, y, m: one.m, column: task, cell,
        text: `task ${task + 1} after task ${after + 1}: ${value.toFixed(1)} %` });
    });
  });
  watch(svg, marks, size);
  return svg;
}

// 1,430,000 is 1.43 M.
function short(count) {
  for (const [size, unit] of [[1e9, " G"], [1e6, " M"], [1e3, " k"]]) {
    if (count >= size) return `${+(count / size).toPrecision(3)}${unit}`;
  }
  return `${Math.round(count)} `;
}


// Draws the charts of a page. Colours are properties of the page's style: no scheme needs a redraw.
const NARROW = 560; // pixels; a narrower chart has no room for labels beside it
const PAPER = 480; // the width of a plot on paper

/** The rows of a data set that is stored by columns, with texts stored once. */
function rows(table) {
  const columns = table.columns.map((column) =>
    Array.isArray(column) ? column : column.at.map((place) => column.texts[place] ?? null),
  );
  return Array.from({ length: table.length }, (_, row) =>
    Object.fromEntries(table.fields.map((field, place) => [field, columns[place][row] ?? null])),
  );
}

/** Draw a specification; `given` are values of its parameters. */
async function draw(place, spec, given) {
  const params = spec.params.map((each) => ({ ...each, value: given[each.name] ?? each.value }));
  // With `ast`, Vega interprets expressions instead of using `eval`, which the policy forbids.
  const options = { ast: true, renderer: "svg", actions: false, defaultStyle: false };
  return (await vegaEmbed(place, { ...spec, params }, options)).view;
}

/** Let a series be picked by its button or in the chart: by hovering for now, by a click to stay. */
function bindPicks(figure, view) {
  const buttons = new Map([...figure.querySelectorAll(".series button")].map((b) => [b.value, b]));
  let kept = "";
  const show = (name) => {
    view.signal("picked", name).run();
    for (const [value, button] of buttons) {
      button.setAttribute("aria-pressed", String(value === kept));
      button.classList.toggle("faded", name !== "" && value !== name);
    }
  };
  const keep = (name) => {
    kept = kept === name ? "" : name;
    show(kept);
  };
  for (const [value, button] of buttons) {
    button.addEventListener("click", () => keep(value));
    button.addEventListener("pointerenter", () => show(value));
    button.addEventListener("pointerleave", () => show(kept));
  }
  addEventListener("beforeprint", () => show((kept = "")));
  const known = (act) => (_, item) => buttons.has(item?.datum?.series) && act(item.datum.series);
  view.addEventListener("pointerover", known(show));
  view.addEventListener("pointerout", known(() => show(kept)));
  view.addEventListener("click", known(keep));
}

/** Show what is best at the slider's weight, in the chart and as text. */
function bindSlider(figure, view, best) {
  const slider = figure.querySelector("input[type=range]");
  const answer = figure.querySelector(".answer");
  const show = () => {
    const weight = Number(slider.value);
    figure.querySelector("output").value = slider.value;
    view.signal("weight", weight).run();
    const found = best.filter((each) => each.low <= weight && weight <= each.high);
    answer.replaceChildren(...found.map((each) => element("li", each.words)));
  };
  slider.addEventListener("input", show);
  show();
}

/** Show the chosen group. */
function bindChoice(figure, view) {
  const choice = figure.querySelector("select");
  const show = () => view.signal("shown", choice.value).run();
  choice.addEventListener("change", show);
  show();
}

/** Fill the table of a chart's numbers when it is first opened. */
function bindNumbers(figure, columns, points) {
  const fold = figure.querySelector("details.numbers");
  const fill = () => {
    const table = element("table");
    const head = table.createTHead().insertRow();
    for (const [, title] of columns) head.append(element("th", title, { scope: "col" }));
    const body = table.createTBody();
    for (const point of points) {
      const row = body.insertRow();
      for (const [field] of columns) row.insertCell().textContent = point[field] ?? "";
    }
    fold.querySelector(".table").append(table);
  };
  fold.addEventListener("toggle", fill, { once: true });
}

/** Save a chart as a picture with the colours that it has now. */
function bindSave(figure, place) {
  figure.querySelector("button.save").addEventListener("click", () => {
    const style = getComputedStyle(document.documentElement);
    const value = (_, name) => style.getPropertyValue(name).trim();
    const picture = place.querySelector("svg").cloneNode(true);
    picture.style.background = value("", "--card");
    const text = new XMLSerializer().serializeToString(picture).replace(/var\((--[\w-]+)\)/g, value);
    const href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    element("a", "", { href, download: `${place.id}.svg` }).click();
    URL.revokeObjectURL(href);
  });
}

function element(name, text = "", attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

/** Draw a figure as wide as its place, and let its controls act. */
async function show(script) {
  const figure = script.closest("figure");
  const { spec, columns } = JSON.parse(script.textContent);
  for (const [name, table] of Object.entries(spec.datasets)) spec.datasets[name] = rows(table);
  const place = figure.querySelector(".chart");
  const narrow = () => place.clientWidth < NARROW;
  const view = await draw(place, spec, { narrow: narrow() });
  addEventListener("resize", () => view.signal("narrow", narrow()).run());
  bindPicks(figure, view);
  if (spec.datasets.best) bindSlider(figure, view, spec.datasets.best);
  if (figure.querySelector("select")) bindChoice(figure, view);
  bindNumbers(figure, columns, spec.datasets.points);
  bindSave(figure, place);
  return () => drawOnPaper(figure, spec);
}

/** Draw every group for paper, where nothing can be chosen. */
async function drawOnPaper(figure, spec) {
  for (const { value } of figure.querySelector("select")?.options ?? []) {
    const place = element("div");
    const part = element("div");
    part.append(element("p", value), place);
    figure.querySelector(".paper").append(part);
    await draw(place, { ...spec, width: PAPER }, { shown: value });
  }
}

// What is on the screen comes first.
Promise.all([...document.querySelectorAll("script[data-chart]")].map(show))
  .then((later) => Promise.all(later.map((onPaper) => onPaper())))
  .then(() => document.documentElement.setAttribute("data-drawn", ""));

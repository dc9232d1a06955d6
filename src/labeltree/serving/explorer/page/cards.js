// Small things that the page is made of. All text goes in as text, never as HTML.

export function element(tag, content = {}, ...children) {
  const { role, ...rest } = content, made = Object.assign(document.createElement(tag), rest);
  if (role) made.setAttribute("role", role);
  made.append(...children);
  return made;
}

const plain = new Intl.NumberFormat("en");
export const whole = (number) => plain.format(number);
export const percent = (share) => `${Math.round(100 * share)}\u202f%`;
export const spell = (path) => path.join(" › ");

export function picture(row, size = 160) {
  const image = element("img", { alt: "", loading: "lazy", src: `/api/pictures/${row}?size=${size}` });
  image.addEventListener("error", () => image.classList.add("none"));
  return image;
}

export function card(sample, told, hit = null, names = null) {
  const label = sample.path.length ? sample.path.at(-1) : "no label";
  const made = element("button", { className: "card", type: "button", title: `${sample.id}\n${spell(sample.path) || "no label"}` });
  made.dataset.row = sample.row;
  if (sample.picture) made.append(picture(sample.row));
  const words = element("span", { className: "words" });
  if (sample.text !== null) words.append(element("span", { className: "text", textContent: sample.text }));
  words.append(element("span", { className: "name", textContent: label }));
  if (hit && hit.far !== null) {
    made.classList.add("framed");
    made.style.borderColor = hit.colour;
    made.dataset.far = hit.far.toFixed(3);
    const shared = hit.shared > 0 ? `shares ${names[hit.shared]}` : "another branch";
    words.append(element("span", { className: "how", textContent: `${hit.similarity.toFixed(2)} · ${hit.far === 0 ? "the same" : shared}`,
      title: `similarity ${hit.similarity.toFixed(4)}, distance ${hit.distance.toFixed(4)}` }));
  } else if (sample.prediction !== null && sample.prediction !== sample.node) {
    words.append(element("span", { className: "how wrong", textContent: `→ ${sample.predicted_path.at(-1)}`,
      title: `predicted: ${spell(sample.predicted_path)}` }));
  }
  made.append(words);
  made.addEventListener("click", () => told.open(sample.row));
  made.addEventListener("pointerenter", () => told.show(sample.row));
  made.addEventListener("focus", () => told.show(sample.row));
  return made;
}

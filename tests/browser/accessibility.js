// Finds what keeps people from reading a page: a list of messages. The rules are those of WCAG 2 that axe-core checks by
// default and that apply to these pages: contrast, names of pictures and controls, keyboard access to what scrolls, scopes
// of table headers, order of headings, landmarks, ids.
(() => {
  const found = [];
  const say = (rule, e, more = "") => found.push(`${rule}: <${e.tagName.toLowerCase()}${e.id ? " #" + e.id : ""}${e.getAttribute("class") ? " ." + e.getAttribute("class") : ""}> ` +
    `${(e.textContent || "").trim().slice(0, 30)} ${more}`);
  const numbers = color => { const n = color.match(/[\d.]+/g).map(Number); return { rgb: n.slice(0, 3), alpha: n.length > 3 ? n[3] : 1 }; };
  const over = (top, below) => top.rgb.map((v, i) => v * top.alpha + below[i] * (1 - top.alpha));
  const background = e => {
    const layers = [];
    for (let at = e; at; at = at.parentElement) layers.push(numbers(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const luminance = rgb => {
    const [r, g, b] = rgb.map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => { const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const visible = e => e.getClientRects().length > 0 && getComputedStyle(e).visibility === "visible";

  for (const e of document.body.querySelectorAll("*")) {
    if (!visible(e) || ["SCRIPT", "OPTION"].includes(e.tagName)) continue;
    const style = getComputedStyle(e);
    if ([...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) {
      const size = parseFloat(style.fontSize), large = size >= 24 || size >= 18.66 && style.fontWeight >= 700, back = background(e);
      const ink = over(numbers(e instanceof SVGElement ? style.fill : style.color), back), least = large ? 3 : 4.5;
      if (contrast(ink, back) < least) say("contrast", e, `${contrast(ink, back).toFixed(2)}, not ${least}`);
    }
    const scrolls = ["auto", "scroll"].some(v => (v === style.overflowX && e.scrollWidth > e.clientWidth + 1) || (v === style.overflowY && e.scrollHeight > e.clientHeight + 1));
    if (scrolls && e.tabIndex < 0 && !e.querySelector("a[href], [tabindex='0']")) say("scrolled by a pointer only", e);
    if (e.tabIndex >= 0 && !e.getAttribute("aria-label") && !e.textContent.trim() && !(e.labels || []).length) say("no name", e);
    if (e.tagName === "IMG" && !e.alt || ["svg", "CANVAS"].includes(e.tagName) && !e.getAttribute("aria-label")) say("no text for a picture", e);
    if (e.tagName === "TH" && !e.scope) say("no scope", e);
    if (e.hasAttribute("aria-label") && !e.hasAttribute("role") && ["DIV", "SPAN"].includes(e.tagName)) say("a label without a role", e);
  }
  const ids = [...document.querySelectorAll("[id]")].map(e => e.id), levels = [...document.querySelectorAll("h1, h2, h3")].map(e => +e.tagName[1]);
  for (const id of new Set(ids.filter((v, i) => ids.indexOf(v) !== i))) found.push(`two elements have the id ${id}`);
  if (levels[0] !== 1 || levels.some((v, i) => i && v > levels[i - 1] + 1)) found.push(`headings of the levels ${levels}`);
  if (!document.documentElement.lang || !document.title) found.push("no language or no title");
  if (document.querySelectorAll("main").length !== 1 || levels.filter(v => v === 1).length !== 1) found.push("not one main and one h1");
  return [...new Set(found)];
})()

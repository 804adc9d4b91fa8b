/**
 * Copies a text, also as `html` where that is given, and where `navigator.clipboard` is missing (the page is not a
 * secure context) or refuses.
 */
export async function copyText(text, html = null) {
  const kinds = { "text/plain": text, ...(html && { "text/html": html }) };
  try {
    if (!html) return await navigator.clipboard.writeText(text);
    const blobs = Object.entries(kinds).map(([type, content]) => [type, new Blob([content], { type })]);
    await navigator.clipboard.write([new ClipboardItem(Object.fromEntries(blobs))]);
  } catch {
    copyThroughSelection(kinds);
  }
}

function copyThroughSelection(kinds) {
  const area = document.createElement("textarea");
  area.value = kinds["text/plain"];
  area.className = "visually-hidden";
  area.addEventListener("copy", (event) => {
    for (const [type, content] of Object.entries(kinds)) event.clipboardData.setData(type, content);
    event.preventDefault();
  });
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

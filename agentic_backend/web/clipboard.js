/** Copies text, also where `navigator.clipboard` is missing (the page is not a secure context) or refuses. */

export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    copyThroughSelection(text);
  }
}

function copyThroughSelection(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "visually-hidden";
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

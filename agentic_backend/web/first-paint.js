/**
 * The theme that was chosen in this browser, before anything is painted: a module would come too late, and the page
 * would flash. A script of its own, without imports; theme.js does the rest.
 */

try {
  const theme = localStorage.getItem("chat.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // The browser keeps nothing of the page.
}

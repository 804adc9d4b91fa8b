/** German: the page's texts by their English form, in alphabetical order. */

export default {
  Older: "Älter",
  "Previous 30 days": "Letzte 30 Tage",
  "Previous 7 days": "Letzte 7 Tage",
  Today: "Heute",
  Yesterday: "Gestern",
};

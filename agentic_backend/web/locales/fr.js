/** French: the page's texts by their English form, in alphabetical order. */

export default {
  Older: "Plus ancien",
  "Previous 30 days": "30 derniers jours",
  "Previous 7 days": "7 derniers jours",
  Today: "Aujourd’hui",
  Yesterday: "Hier",
};

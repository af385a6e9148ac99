// Filters rows by verdict and by text, and folds what was not tried. Without this script the whole matrix is shown.
// What is chosen stands in the address: #v=violated,known&q=text&all; an address #DLY-003 shows that row.
(function () {
  "use strict";
  var place = document.getElementById("filter");
  var rows = Array.from(document.querySelectorAll("tr.row"));
  var looks = [{% for k in present %}["{{ looks[k].name }}", "{{ looks[k].symbol }}", "{{ k.value }}"]{{ "," if not loop.last }}{% endfor %}];
  var grey = [{% for k in untried_kinds %}"{{ looks[k].name }}"{{ "," if not loop.last }}{% endfor %}, "planned"];
  var chosen = new Set(), all = false, buttons = {};
  var search = document.createElement("input");
  search.type = "search";
  search.placeholder = "find a requirement";
  search.setAttribute("aria-label", "find a requirement");

  function verdicts(row) { return row.dataset.verdicts.split(" ").filter(Boolean); }
  function isGrey(row) { return verdicts(row).every(function (name) { return grey.includes(name); }); }

  function apply() {
    var text = search.value.trim().toLowerCase(), narrowed = chosen.size > 0 || text !== "";
    var target = decodeURIComponent(location.hash.slice(1)), folded = 0;
    rows.forEach(function (row) {
      var fits = chosen.size === 0 || verdicts(row).some(function (name) { return chosen.has(name); });
      var found = text === "" || row.querySelector("th").textContent.toLowerCase().includes(text);
      var fold = !all && !narrowed && isGrey(row) && row.id !== target;
      folded += fold ? 1 : 0;
      row.hidden = !(fits && found) || fold;
    });
    document.querySelectorAll(".matrix tbody").forEach(function (body) {
      body.hidden = body.querySelector("tr.row:not([hidden])") === null;
    });
    looks.forEach(function (look) { buttons[look[0]].setAttribute("aria-pressed", String(chosen.has(look[0]))); });
    more.setAttribute("aria-pressed", String(all));
    more.hidden = narrowed || (folded === 0 && !all);
    more.textContent = all ? "hide what was not tried" : "show " + folded + " not tried";
  }

  function remember() {
    var words = [];
    if (chosen.size) { words.push("v=" + Array.from(chosen).join(",")); }
    if (search.value.trim()) { words.push("q=" + encodeURIComponent(search.value.trim())); }
    if (all) { words.push("all"); }
    history.replaceState(null, "", "#" + words.join("&"));
    apply();
  }

  function recall() {
    var hash = location.hash.slice(1), known = looks.map(function (look) { return look[0]; });
    if (/(^|&)(v=|q=|all$)/.test(hash) || hash === "") {
      var words = new URLSearchParams(hash);
      chosen = new Set((words.get("v") || "").split(",").filter(function (name) { return known.includes(name); }));
      search.value = words.get("q") || "";
      all = words.has("all");
    }
    apply();
    var row = hash && document.getElementById(decodeURIComponent(hash));
    if (row) { row.scrollIntoView(); }
  }

  function button(press) {
    var made = document.createElement("button");
    made.type = "button";
    made.addEventListener("click", function () { press(); remember(); });
    place.appendChild(made);
    return made;
  }

  looks.forEach(function (look) {
    var name = look[0], count = rows.filter(function (row) { return verdicts(row).includes(name); }).length;
    var made = buttons[name] = button(function () { if (!chosen.delete(name)) { chosen.add(name); } });
    var symbol = document.createElement("b");
    made.className = "v-" + name;
    symbol.textContent = look[1];
    made.append(symbol, look[2] + " (" + count + ")");
  });
  var more = button(function () { all = !all; });
  search.addEventListener("input", remember);
  place.appendChild(search);
  window.addEventListener("hashchange", recall);
  recall();
})();

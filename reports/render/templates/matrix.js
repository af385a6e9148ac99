// Filters rows by verdict and by text. Without this script the whole matrix is shown, which is the default anyway.
(function () {
  "use strict";
  var place = document.getElementById("filter");
  var rows = Array.prototype.slice.call(document.querySelectorAll("tr.row"));
  var looks = [{% for k in present %}["{{ looks[k].name }}", "{{ looks[k].symbol }}", "{{ k.value }}"]{{ "," if not loop.last }}{% endfor %}];
  var chosen = {};
  var search = document.createElement("input");
  search.type = "search";
  search.placeholder = "find a requirement";
  search.setAttribute("aria-label", "find a requirement");

  function apply() {
    var names = Object.keys(chosen).filter(function (name) { return chosen[name]; });
    var text = search.value.trim().toLowerCase();
    rows.forEach(function (row) {
      var has = row.getAttribute("data-verdicts").split(" ");
      var fits = names.length === 0 || names.some(function (name) { return has.indexOf(name) >= 0; });
      var found = text === "" || row.querySelector("th").textContent.toLowerCase().indexOf(text) >= 0;
      row.hidden = !(fits && found);
    });
    Array.prototype.forEach.call(document.querySelectorAll(".matrix tbody"), function (body) {
      body.hidden = body.querySelector("tr.row:not([hidden])") === null;
    });
  }

  looks.forEach(function (look) {
    var count = rows.filter(function (row) { return row.getAttribute("data-verdicts").split(" ").indexOf(look[0]) >= 0; }).length;
    var button = document.createElement("button");
    button.type = "button";
    button.className = "v-" + look[0];
    button.setAttribute("aria-pressed", "false");
    var symbol = document.createElement("b");
    symbol.textContent = look[1];
    button.appendChild(symbol);
    button.appendChild(document.createTextNode(look[2] + " (" + count + ")"));
    button.addEventListener("click", function () {
      chosen[look[0]] = !chosen[look[0]];
      button.setAttribute("aria-pressed", String(chosen[look[0]]));
      apply();
    });
    place.appendChild(button);
  });
  search.addEventListener("input", apply);
  place.appendChild(search);
})();

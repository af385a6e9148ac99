// Steps through the events of the drawing. Without this script the drawing and its tables are complete.
// ← → Home End: events; + - 0: zoom; Esc: nothing chosen. The address #e17 is the instant of event 17.
(function () {
  "use strict";
  var drawing = document.getElementById("drawing"), place = document.getElementById("player");
  var panel = document.getElementById("instant");
  var events = JSON.parse(document.getElementById("instants").textContent), bySeq = {};
  var groups = Array.from(drawing.querySelectorAll(".event")), lines = Array.from(drawing.querySelectorAll("[data-start]"));
  var home = new Map(groups.map(function (group) { return [+group.dataset.seq, group.transform.baseVal[0].matrix.e]; }));
  var clock = "", zoom = 1, chosen = null, order = [];
  events.forEach(function (event) { bySeq[event.seq] = event; });

  function at(event) { return event.times[clock]; }

  // Where events stand on the chosen clock: gaps grow with their logarithm, as in the drawing; unknown times stay away.
  function lay() {
    order = events.filter(function (event) { return at(event) !== undefined && home.has(event.seq); });
    order.sort(function (a, b) { return at(a) - at(b) || a.seq - b.seq; });
    var x = new Map(home), places = Array.from(home.values()), left = Math.min.apply(0, places), right = Math.max.apply(0, places);
    if (clock !== "") {
      var sum = 0, sums = order.map(function (event, index) {
        var gap = index ? at(event) - at(order[index - 1]) : 0;
        return (sum += gap > 0 ? 0.35 + Math.log10(1 + gap / 10) : 0);
      });
      x = new Map(order.map(function (event, index) { return [event.seq, left + (right - left) * sums[index] / (sum || 1)]; }));
    }
    groups.forEach(function (group) {
      var place = x.get(+group.dataset.seq);
      group.style.display = place === undefined ? "none" : "";
      if (place !== undefined) { group.setAttribute("transform", "translate(" + place + " " + group.transform.baseVal[0].matrix.f + ")"); }
    });
    lines.forEach(function (line) {
      var from = x.get(+line.dataset.start), to = x.get(+line.dataset.end);
      line.style.display = from === undefined || to === undefined ? "none" : "";
      if (line.style.display === "") { line.setAttribute("x1", from); line.setAttribute("x2", to); }
    });
    drawing.classList.toggle("other", clock !== "");
  }

  function say(tag, text) { var made = document.createElement(tag); made.textContent = text; panel.appendChild(made); }

  function choose(seq, silently) {
    var event = chosen = bySeq[seq] || null, messages = event ? event.messages : [];
    var on = new Set(events.filter(function (one) {
      return one === event || one.messages.some(function (message) { return messages.includes(message); });
    }).map(function (one) { return one.seq; }));
    drawing.classList.toggle("lit", messages.length > 0);
    groups.forEach(function (group) {
      group.classList.toggle("on", on.has(+group.dataset.seq));
      group.classList.toggle("chosen", event !== null && +group.dataset.seq === event.seq);
    });
    lines.forEach(function (line) { line.classList.toggle("on", on.has(+line.dataset.start) && on.has(+line.dataset.end)); });
    document.querySelectorAll("tr.chosen").forEach(function (row) { row.classList.remove("chosen"); });
    panel.replaceChildren();
    panel.hidden = event === null;
    if (event) {
      say("p", "Event " + event.seq + ": " + event.words);
      say("p", Object.keys(event.walls).map(function (host) { return host + " " + event.walls[host]; }).join(" · "));
      var row = document.getElementById("e" + event.seq);
      if (row) { row.classList.add("chosen"); }
    }
    if (!silently) { history.replaceState(null, "", event ? "#e" + event.seq : "#"); }
  }

  function step(by) {
    var index = chosen ? order.indexOf(chosen) : by > 0 ? -1 : order.length;
    var next = order[Math.max(0, Math.min(order.length - 1, index + by))];
    if (next) { choose(next.seq); }
  }

  function size(factor) {
    zoom = factor ? Math.max(1, Math.min(16, zoom * factor)) : 1;
    drawing.style.width = 100 * zoom + "%";
    drawing.style.maxWidth = zoom > 1 ? "none" : "";
    var group = chosen && groups.find(function (one) { return +one.dataset.seq === chosen.seq; });
    if (group) { group.scrollIntoView({ block: "nearest", inline: "center" }); }
  }

  // The same picture as one file: the drawing with this page's style sheet in it.
  function save() {
    var copy = drawing.cloneNode(true), style = document.createElementNS("http://www.w3.org/2000/svg", "style");
    style.textContent = document.querySelector("style").textContent;
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.removeAttribute("style");
    copy.prepend(style);
    var link = document.createElement("a");
    link.href = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(new XMLSerializer().serializeToString(copy));
    link.download = document.title.replace(/[^A-Za-z0-9]+/g, "-") + ".svg";
    link.click();
  }

  function button(words, title, press) {
    var made = document.createElement("button");
    made.type = "button";
    made.textContent = words;
    made.title = title;
    made.addEventListener("click", press);
    place.appendChild(made);
  }

  var keys = {
    ArrowLeft: function () { step(-1); }, ArrowRight: function () { step(1); },
    Home: function () { step(-events.length); }, End: function () { step(events.length); },
    "+": function () { size(1.5); }, "-": function () { size(1 / 1.5); }, 0: function () { size(0); },
    Escape: function () { choose(null); }
  };
  button("←", "the event before (key ←)", keys.ArrowLeft);
  button("→", "the next event (key →)", keys.ArrowRight);
  button("−", "smaller (key -)", keys["-"]);
  button("+", "larger (key +)", keys["+"]);
  var axis = document.createElement("select");
  axis.setAttribute("aria-label", "whose time is the axis");
  axis.add(new Option("axis: true time", ""));
  var hosts = new Set();
  events.forEach(function (event) { Object.keys(event.walls).forEach(function (host) { hosts.add(host); }); });
  hosts.forEach(function (host) { axis.add(new Option("axis: clock of " + host, host)); });
  axis.addEventListener("change", function () { clock = axis.value; lay(); });
  place.appendChild(axis);
  button("save as SVG", "the drawing as one file", save);
  groups.forEach(function (group) { group.addEventListener("click", function () { choose(+group.dataset.seq); }); });
  document.addEventListener("keydown", function (event) {
    if (event.target.closest("select, input") || event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) { return; }
    event.preventDefault();
    keys[event.key]();
  });
  function recall() {
    var found = /^#e(\d+)$/.exec(location.hash);
    if (found) { choose(+found[1], true); }
  }
  window.addEventListener("hashchange", recall);
  lay();
  recall();
})();

// Draws the state from Python (`model.get("state")`) and sends clicks back. Contains no rules of the game.

const COLORS = ["red", "yellow", "blue", "green"];
const THINKING = "Thinking …";
const SVG = "http://www.w3.org/2000/svg";

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") node.className = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    // These attributes need the text "true" or "false".
    else if (name.startsWith("aria-")) node.setAttribute(name, String(value));
    else if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

/** Whether the surrounding page is dark: JupyterLab, VS Code, Colab, else the system preference. */
function pageIsDark() {
  const { body, documentElement: root } = document;
  if (body.dataset.jpThemeLight) return body.dataset.jpThemeLight === "false";
  if (body.dataset.vscodeThemeKind) return !body.dataset.vscodeThemeKind.includes("light");
  if (root.getAttribute("theme")) return root.getAttribute("theme") === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Rounding must not show 0% or 100% for an uncertain event. */
function percent(probability) {
  const rounded = Math.round(100 * probability);
  if (rounded === 0 && probability > 0) return "<1 %";
  return rounded === 100 && probability < 1 ? ">99 %" : `${rounded} %`;
}

const cardCount = (count) => `${count} card${count === 1 ? "" : "s"}`;

/** Text of a hint about a choice that is not a card. */
function tell(kind, advice) {
  const chance = advice.wins?.[kind];
  return `${chance === undefined ? "" : `, win ${percent(chance)}`}${advice.card === kind ? ", advised" : ""}`;
}

/** The person's win probability from the start of the game to now, as a line. */
function chart(wins, turn) {
  const width = 340, height = 64, last = Math.max(turn, 1);
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("aria-hidden", "true");
  const add = (tag, attributes) => {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    svg.append(node);
  };
  const x = (at) => 6 + (width - 12) * at / last, y = (win) => 4 + (height - 8) * (1 - win);
  add("line", { x1: 0, x2: width, y1: y(0.5), y2: y(0.5), class: "even" });
  add("polyline", { points: wins.map(([at, win]) => `${x(at)},${y(win)}`).join(" "), class: "wins" });
  const [at, win] = wins[wins.length - 1];
  add("circle", { cx: x(at), cy: y(win), r: 4, class: "now" });
  return svg;
}

function render({ model, el }) {
  const pictures = Object.fromEntries(
    Object.entries(model.get("faces")).map(([name, svg]) => [name, `data:image/svg+xml,${encodeURIComponent(svg)}`]));
  // Images instead of inline markup, so that the rank in three corners is not part of a button's text.
  const face = (name) => make("span", { class: "face" }, make("img", { src: pictures[name], alt: "" }));
  const part = (name, attributes = {}) => make("div", { class: name, ...attributes });

  const far = part("far"), deck = make("button", { class: "deck", type: "button", onclick: () => act({ kind: "draw" }) });
  const pile = part("pile"), color = part("color"), says = part("says", { role: "status", "aria-live": "polite" });
  // The last move, for screen readers.
  const told = part("told", { role: "status", "aria-live": "polite" });
  const others = part("others", { role: "group", "aria-label": "other choices" });
  const notice = part("notice", { role: "alert" }), chooser = part("chooser", { role: "group", hidden: true });
  const hand = part("hand", { role: "group", "aria-label": "your hand" }), count = part("count");
  const win = part("win"), belief = part("belief"), moves = make("ol", { class: "moves", "aria-label": "moves", tabindex: "0" });
  const hint = make("button", { class: "tool hint", type: "button", onclick: askForHint }, "Hint");
  const fresh = make("button", { class: "tool new", type: "button", onclick: () => send({ kind: "new" }) }, "New game");
  const save = make("button", { class: "tool save", type: "button", onclick: () => download(shown.record) }, "Save game");
  const back = make("button", { class: "tool back", type: "button", onclick: () => act({ kind: "back" }) }, "Take back");
  // At a table: the cards to pick as played, drawn or dealt.
  const picker = part("picker", { role: "group", "aria-label": "what happened", hidden: true });
  const table = make("div", { class: "table" }, far,
    make("div", { class: "middle" }, deck, pile, make("div", { class: "talk" }, told, says, color, others, notice, chooser)),
    picker, hand, make("div", { class: "foot" }, count, make("div", { class: "tools" }, hint, back, save, fresh)));
  const side = make("aside", { class: "side" }, win, belief);
  // Keep keys from JupyterLab: the space bar would scroll and Enter would edit the cell.
  const root = make("section", { class: "unojax-board", "aria-label": "a game of UNO", "data-lm-suppress-shortcuts": "true" },
    make("div", { class: "desk" }, table, side, make("div", { class: "history" }, make("h2", {}, "Moves"), moves)));

  // `shown` is on the screen; `coming` is a queue, so that each of the opponent's moves is visible.
  let shown = null, coming = [], timer = null, wild = null, keepsFocus = false, unsaid = null;

  const send = (content) => model.send(content);
  function act(content) {
    notice.textContent = "";
    keepsFocus = content.kind !== "hint";
    if (coming.length === 0) send({ ...content, game: shown.game, turn: shown.turn });
  }

  function askForHint() {
    act({ kind: "hint" });
    notice.textContent = THINKING;
  }

  /** Another choice; at a table it may need a number. */
  function decide(kind, line, asks) {
    const number = asks ? prompt(asks) : "";
    if (number !== null) act(line === undefined ? { kind } : { kind, line: `${line}${number}` });
  }

  function clickCard(held) {
    if (held.wild && held.playable) return choose(held);
    choose(null);
    act({ kind: "play", card: held.card });
  }

  /** Ask for the colour of a wild card, or stop asking. */
  function choose(held) {
    wild = held;
    chooser.hidden = held === null;
    // Replaces the usual content, so that the layout stays fixed.
    for (const other of [says, color, others, notice]) other.hidden = held !== null;
    for (const button of hand.children) button.classList.toggle("chosen", held !== null && button.dataset.card === held.card);
    if (held === null) return chooser.replaceChildren();
    notice.textContent = "";
    const name = `${held.words}: which colour?`;
    chooser.setAttribute("aria-label", name);
    const answer = (colorName) => () => { act({ kind: "play", card: held.card, color: colorName }); choose(null); };
    chooser.replaceChildren(make("span", { class: "question" }, name), ...COLORS.map((colorName) =>
      make("button", { class: `pick ${colorName}`, type: "button", onclick: answer(colorName) }, face(colorName), colorName)),
    make("button", { class: "cancel", type: "button", onclick: cancel }, "another card"));
    chooser.querySelector("button").focus({ preventScroll: true });
  }

  function cancel() {
    const name = wild.card;
    choose(null);
    hand.querySelector(`[data-card="${name}"]`)?.focus({ preventScroll: true });
  }

  function draw(state) {
    const isOther = shown === null || shown.game !== state.game, isNews = isOther || shown.turn !== state.turn;
    // Removing the focused element would lose the focus; a kept one must do the same on Enter as before.
    const focused = document.activeElement, row = [hand, others].find((part) => part.contains(focused));
    const place = isNews || !row ? -1 : [...row.children].indexOf(focused);
    keepsFocus ||= row !== undefined || focused === deck;
    shown = state;
    if (isNews) {
      choose(null);
      told.textContent = state.moves.at(-1).words;
    }
    if (isNews || notice.textContent === THINKING) notice.textContent = "";
    drawTable(state, isNews);
    drawHand(state);
    drawSide(state, isOther);
    if (state.toMove === "you" && keepsFocus) {
      const first = hand.querySelector(".playable") ?? (state.canDraw ? deck : others.firstChild);
      const same = isNews ? null : focused === deck && state.canDraw ? deck : row?.children[place];
      if (!wild) (same ?? first)?.focus({ preventScroll: true });
      keepsFocus = false;
    } else if (state.toMove === null && keepsFocus) {
      fresh.focus({ preventScroll: true });
      keepsFocus = false;
    }
  }

  function drawTable(state, isNews) {
    const { opponent, hint: advice } = state;
    Object.assign(root.dataset, { tomove: state.toMove ?? "over", game: state.game, turn: state.turn });
    const cards = opponent.hand ?? Array(opponent.count).fill("back");
    const named = state.opened?.length ? { role: "img", "aria-label": `the opponent's cards: ${state.opened.join(", ")}` }
      : { "aria-hidden": true };
    const fan = make("div", { class: "fan", ...named }, ...cards.map(face));
    fan.style.setProperty("--cards", cards.length);
    const label = make("div", { class: "who" }, make("b", {}, "opponent"), `${opponent.name}, ${cardCount(opponent.count)}`);
    if (opponent.count === 1 && state.toMove !== null) label.append(make("span", { class: "pill alarm" }, "one card left"));
    if (state.toMove === "opponent") label.append(make("span", { class: "pill" }, state.isStuck ? "stuck" : state.isTable ? "to move" : "thinking"));
    if (state.won === false) label.append(make("span", { class: "pill" }, "wins"));
    far.replaceChildren(label, fan);

    deck.replaceChildren(state.deck ? face("back") : make("span", { class: "face empty" }),
      make("span", { class: "caption" }, `deck ${state.deck}`));
    if (state.canDraw && advice.wins?.draw !== undefined) deck.append(make("span", { class: "chance" }, percent(advice.wins.draw)));
    deck.disabled = !state.canDraw;
    deck.classList.toggle("due", state.canDraw && (state.isForced || advice.card === "draw"));
    deck.setAttribute("aria-label", !state.canDraw ? `deck, ${cardCount(state.deck)}`
      : `draw ${state.penalty || 1}; ${state.deck} in the deck${tell("draw", advice)}`);
    others.replaceChildren(...state.others.map(({ kind, words, line, asks }) => make("button", { class: `tool ${kind}`, type: "button",
      onclick: () => decide(kind, line, asks) }, `${words}${tell(kind, advice)}`)));
    picker.hidden = !state.picker;
    picker.replaceChildren(...(state.picker ?? []).map((held) => make("button", { class: "choice", type: "button", title: held.words,
      "aria-label": held.words, disabled: !held.playable, onclick: () => clickCard(held) }, face(held.card))));
    const top = face(state.top.card);
    if (isNews && state.turn > 0 && state.moves.at(-1).card) top.classList.add(state.by === "you" ? "from-below" : "from-above");
    pile.style.setProperty("--active", `var(--${state.color})`);
    pile.setAttribute("role", "img");
    pile.setAttribute("aria-label", `${state.top.words} on top, ${state.color} is the colour, ${cardCount(state.pile)} in the pile`);
    pile.replaceChildren(make("span", { class: "frame" }, top), make("span", { class: "caption" }, `pile ${state.pile}`));
    color.replaceChildren(face(state.color), state.color);
    says.textContent = state.says;
    says.className = `says${state.penalty && state.toMove === "you" ? " alarm" : ""}${state.won === null ? "" : " result"}`;
  }

  function drawHand(state) {
    const { hint: advice } = state;
    hand.replaceChildren(...state.hand.map((held) => {
      const isAdvised = held.card === advice.card;
      const chance = advice.wins?.[held.card];
      const tells = [held.words, state.toMove === "you" ? (held.playable ? "" : "can't be played") : "",
        chance === undefined ? "" : `win ${percent(chance)}`,
        isAdvised ? `advised${advice.color ? `, declare ${advice.color}` : ""}` : ""].filter(Boolean);
      const button = make("button", { class: "card", type: "button", "data-card": held.card, "aria-label": tells.join(", "),
        title: tells.join(", "), "aria-disabled": !held.playable, onclick: () => clickCard(held) }, face(held.card));
      button.classList.toggle("playable", held.playable);
      button.classList.toggle("new", held.isNew);
      button.classList.toggle("chosen", held.card === wild?.card);
      if (chance !== undefined) button.append(make("span", { class: "chance" }, percent(chance)));
      if (isAdvised) {
        button.classList.add("advised");
        if (advice.color) button.append(make("span", { class: "declare" }, face(advice.color)));
      }
      return button;
    }));
    count.replaceChildren(make("b", {}, "you"), cardCount(state.hand.length));
    if (state.toMove === "you") count.append(make("span", { class: "pill" }, "your turn"));
    if (state.won) count.append(make("span", { class: "pill" }, "win"));
    hint.hidden = !state.showsWin || state.isTable;
    fresh.hidden = state.isTable;
    hint.disabled = state.toMove !== "you" || (state.isForced && state.canDraw);
    back.disabled = !state.canTakeBack || (state.toMove === "opponent" && !state.isStuck && !state.isTable);
    save.disabled = state.record === null;
    save.title = state.record === null ? "when the game is over" : "all moves and cards, for unojax replay";
  }

  /** Win probability, belief and moves. The previous ones of the same game stay, dimmed, until new ones arrive. */
  function drawSide(state, isOther = false) {
    side.hidden = !state.showsWin && !state.showsBelief;
    win.hidden = !state.showsWin;
    belief.hidden = !state.showsBelief;
    win.setAttribute("aria-busy", String(!state.win));
    belief.setAttribute("aria-busy", String(!state.belief));
    if (state.win) {
      const { now, error } = state.win;
      const said = state.toMove === null ? "" : ` ± ${Math.max(1, Math.round(100 * error))}`;
      const bar = make("div", { class: "bar", role: "img", "aria-label": `you win with ${percent(now)}` }, make("span"));
      bar.firstChild.style.width = `${100 * now}%`;
      win.replaceChildren(make("div", { class: "chances" }, make("b", {}, "Your win probability"), make("span", {}, percent(now) + said)), bar,
        chart(state.wins, state.turn));
      win.title = state.winNote;
    } else if (isOther || !win.hasChildNodes()) win.replaceChildren(make("p", { class: "wait" }, "Working out the chances …"));
    if (state.belief) {
      belief.innerHTML = state.belief[root.dataset.theme];
      belief.firstChild.removeAttribute("width");
      belief.firstChild.removeAttribute("height");
    } else if (isOther || !belief.hasChildNodes()) belief.replaceChildren(make("p", { class: "wait" }, "Working out what the opponent may hold …"));
    moves.replaceChildren(...state.moves.map((move, number) =>
      make("li", { class: move.by, value: String(number) }, make("span", { class: "number" }, String(number || "")),
        state.isTable && number ? make("button", { class: `fix${state.fixes === number ? " chosen" : ""}`, type: "button",
          title: "correct this", onclick: () => act({ kind: "fix", number }) }, move.words) : move.words)));
    moves.scrollTop = moves.scrollHeight;
  }

  function download(record) {
    const url = URL.createObjectURL(new Blob([record], { type: "application/json" }));
    make("a", { href: url, download: "game.json" }).click();
    URL.revokeObjectURL(url);
  }

  function take() {
    const state = model.get("state");
    const newest = coming.at(-1) ?? shown;
    if (newest && newest.game === state.game && newest.turn === state.turn) {
      // The same position again, with more information.
      if (coming.length) coming[coming.length - 1] = state; else draw(state);
      return;
    }
    if (newest && newest.game !== state.game) coming = [];
    coming.push(state);
    if (timer === null) next();
  }

  function next() {
    timer = null;
    if (coming.length === 0) return;
    const wait = coming[0].by === "opponent" ? 1000 * model.get("pace") : 0;
    const go = () => {
      draw(coming.shift());
      if (coming.length === 0) say(unsaid);
      next();
    };
    if (wait > 0) timer = setTimeout(go, wait); else go();
  }

  function hear(content) {
    if (content.kind === "notice") say(content.text);
  }

  /** Show a notice after all earlier states. */
  function say(text) {
    unsaid = coming.length ? text : null;
    if (text !== null && unsaid === null) notice.textContent = text;
  }

  function dress() {
    const theme = model.get("theme");
    root.dataset.theme = theme === "auto" ? (pageIsDark() ? "dark" : "light") : theme;
    if (shown) drawSide(shown);
  }

  root.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && wild) cancel();
    const row = event.target.closest(".hand, .chooser");
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!row || !step) return;
    const buttons = [...row.querySelectorAll("button")];
    buttons[(buttons.indexOf(event.target.closest("button")) + step + buttons.length) % buttons.length].focus();
    event.preventDefault();
  });

  const preference = matchMedia("(prefers-color-scheme: dark)"), watcher = new MutationObserver(dress);
  preference.addEventListener("change", dress);
  watcher.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-vscode-theme-kind"] });
  watcher.observe(document.documentElement, { attributes: true, attributeFilter: ["theme"] });
  model.on("change:state", take);
  model.on("change:theme", dress);
  model.on("msg:custom", hear);
  dress();
  draw(model.get("state"));
  el.append(root);
  // Elements scroll only once they are in the page.
  requestAnimationFrame(() => { moves.scrollTop = moves.scrollHeight; });
  send({ kind: "shown" });
  return () => {
    clearTimeout(timer);
    watcher.disconnect();
    preference.removeEventListener("change", dress);
    model.off("change:state", take);
    model.off("change:theme", dress);
    model.off("msg:custom", hear);
  };
}

export default { render };

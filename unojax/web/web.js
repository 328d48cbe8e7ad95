// The bar around the board, and the channel to the server. The board itself is /board.js, the same as in notebooks.

import board from "/board.js";

const find = (id) => document.getElementById(id);
const lost = find("lost"), dialog = find("form"), form = dialog.querySelector("form"), file = find("file");

/** Name of the tab's game; unique to the tab, and kept on reload. */
const game = sessionStorage.getItem("unojax-game") ?? crypto.randomUUID();
sessionStorage.setItem("unojax-game", game);

const values = { theme: "auto", pace: 0.8, state: null, faces: null }, listeners = {};
const fire = (name, ...news) => (listeners[name] ?? []).slice().forEach((listener) => listener(...news));
const model = {
  get: (name) => values[name],
  on: (name, listener) => (listeners[name] ??= []).push(listener),
  off: (name, listener) => { listeners[name] = (listeners[name] ?? []).filter((one) => one !== listener); },
  send: (content) => post({ kind: "board", content }),
};

let socket = null, isDrawn = false, choices = null, wait = 250;

function post(message) {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ ...message, game }));
}

function connect() {
  socket = new WebSocket(`ws://${location.host}/messages`);
  socket.onopen = () => {
    wait = 250;
    post({ kind: "hello" });
  };
  socket.onmessage = ({ data }) => hear(JSON.parse(data));
  socket.onclose = () => {
    setLost(true);
    setTimeout(connect, wait);
    wait = Math.min(2 * wait, 4000);
  };
}

/** Show that the server is gone, or back. */
function setLost(isLost) {
  if (lost.hidden === !isLost) return;
  lost.textContent = isLost ? `The server has stopped. Start ${settings.command} again: this game is kept, and continues here.` : "";
  lost.hidden = !isLost;
  for (const part of [find("cell"), document.querySelector("nav")]) part.inert = isLost;
}

function hear(message) {
  if (message.kind === "state") {
    const isBack = !lost.hidden;
    setLost(false);
    values.state = message.state;
    if (!isDrawn) return draw();
    fire("change:state");
    // A restarted server does not know that a page is open.
    if (isBack) model.send({ kind: "shown" });
  } else if (message.kind === "custom") fire("msg:custom", message.content);
  else if (message.kind === "choices") choices = message.choices;
  else if (message.kind === "record") download(message.text);
}

function draw() {
  isDrawn = true;
  find("cell").replaceChildren();
  board.render({ model, el: find("cell") });
}

function download(text) {
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  Object.assign(document.createElement("a"), { href: url, download: "game.json" }).click();
  URL.revokeObjectURL(url);
}

const { preset, fields } = form.elements;
/** Hide the fields if the rules are a preset. */
preset.onchange = () => { fields.disabled = preset.value !== "fields"; };

find("choose").onclick = () => {
  // At a table the cards are dealt by hand, so the form has no choices.
  if (values.state?.isTable) return post({ kind: "deal" });
  for (const [name, value] of Object.entries(choices ?? {})) {
    const field = form.elements[name];
    // The form has some fields of the rules; the others stay.
    if (!field) continue;
    if (field.type === "checkbox") field.checked = value; else field.value = value;
  }
  // A new game gets another seed by default.
  form.elements.seed.value = "";
  preset.onchange();
  dialog.returnValue = "cancel";
  dialog.showModal();
};
dialog.onclose = () => {
  if (dialog.returnValue !== "deal") return;
  const chosen = Object.fromEntries(new FormData(form));
  for (const box of form.querySelectorAll("[type=checkbox]")) chosen[box.name] = box.checked;
  post({ kind: "deal", choices: chosen });
};
find("save").onclick = () => post({ kind: "save" });
find("load").onclick = () => file.click();
file.onchange = async () => {
  const [chosen] = file.files;
  file.value = "";
  if (chosen?.size > settings.maxFile) {
    fire("msg:custom", { kind: "notice", text: `${chosen.name} is no saved game: it has more than ${settings.maxFile / 1e6} MB.` });
  } else if (chosen) post({ kind: "load", text: await chosen.text() });
};
find("record").onclick = () => {
  const theme = document.querySelector(".unojax-board")?.dataset.theme ?? "light";
  open(`/record?game=${game}&theme=${theme}`, "_blank", "noopener");
};

values.faces = await (await fetch("/faces.json")).json();
const settings = await (await fetch("/settings.json")).json();
values.pace = settings.pace;
for (const name of settings.agents) {
  find("agents").append(Object.assign(document.createElement("option"), { value: name }));
}
connect();

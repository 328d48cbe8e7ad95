"use strict";
(() => {
  const find = (selector) => document.querySelector(selector);
  const frames = [...document.querySelectorAll(".stage > [data-step]")];
  const moves = [...document.querySelectorAll(".moves button")];
  const list = find(".moves"), slider = find(".controls input"), count = find(".count"), said = find(".said");
  const play = find(".play"), speed = find(".speed"), plot = find(".plot svg"), cursor = find(".plot .cursor");
  const last = frames.length - 1;
  let step = 0, timer = null;

  function show(wanted) {
    step = Math.min(last, Math.max(0, wanted));
    frames.forEach((frame, index) => { frame.hidden = index !== step; });
    moves.forEach((move, index) => {
      if (index === step) move.setAttribute("aria-current", "step"); else move.removeAttribute("aria-current");
    });
    // Not scrollIntoView, which would scroll the page too.
    const row = moves[step].parentElement;
    if (row.offsetTop < list.scrollTop) list.scrollTop = row.offsetTop;
    const below = row.offsetTop + row.offsetHeight - list.clientHeight;
    if (below > list.scrollTop) list.scrollTop = below;
    said.textContent = moves[step].lastChild.textContent;
    slider.value = step;
    slider.setAttribute("aria-valuetext", "step " + step + ": " + said.textContent);
    count.textContent = step + " of " + last;
    if (cursor) {
      const x = xAt(step);
      cursor.setAttribute("x1", x);
      cursor.setAttribute("x2", x);
    }
    if (step === last) stop();
  }

  function xAt(index) {
    const { x0, x1 } = cursor.dataset;
    return Number(x0) + (x1 - x0) * index / Math.max(1, last);
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
  }

  function start() {
    if (step === last) show(0);
    if (last === 0) return;
    clearInterval(timer);
    timer = setInterval(() => show(step + 1), Number(speed.value));
    play.textContent = "Pause";
  }

  function goTo(wanted) {
    stop();
    show(wanted);
  }

  play.addEventListener("click", () => { if (timer === null) start(); else stop(); });
  speed.addEventListener("change", () => { if (timer !== null) start(); });
  find(".back").addEventListener("click", () => goTo(step - 1));
  find(".forth").addEventListener("click", () => goTo(step + 1));
  slider.addEventListener("input", () => goTo(Number(slider.value)));
  moves.forEach((move, index) => move.addEventListener("click", () => goTo(index)));
  if (plot) {
    plot.addEventListener("click", (event) => {
      const box = plot.getBoundingClientRect();
      const x = (event.clientX - box.left) * plot.viewBox.baseVal.width / box.width;
      goTo(Math.round(last * (x - xAt(0)) / (xAt(last) - xAt(0) || 1)));
    });
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target === slider || event.target === speed) return;
    const keys = { ArrowLeft: step - 1, ArrowRight: step + 1, Home: 0, End: last };
    if (event.key in keys) goTo(keys[event.key]);
    else if (event.key === " " && event.target.tagName !== "BUTTON") play.click();
    else return;
    event.preventDefault();
  });
  const addressed = () => Math.trunc(Number(location.hash.slice(1))) || 0;
  window.addEventListener("hashchange", () => goTo(addressed()));
  show(addressed());
})();

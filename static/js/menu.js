// Menus (<details class="menu">) are placed beside their button, never clipped, and closed by Escape or a click elsewhere.
import { isTyping, moveFocus, on } from "./dom.js";

const GAP = 4, EDGE = 8; // px

/** Places a list on the screen below the box {left, right, top, bottom}, or above the box if there is no space below. */
export function place(list, box, alignRight = false) {
  list.classList.add("placed");
  list.style.left = list.style.top = "0"; // otherwise the space at its old position would limit the width
  const { width, height } = list.getBoundingClientRect();
  const left = alignRight ? box.right - width : box.left;
  const below = box.bottom + GAP + height <= innerHeight - EDGE || box.top < innerHeight / 2;
  list.style.left = `${Math.max(EDGE, Math.min(left, innerWidth - width - EDGE))}px`;
  list.style.top = `${Math.max(EDGE, below ? Math.min(box.bottom + GAP, innerHeight - height - EDGE) : box.top - GAP - height)}px`;
}

/** Returns the visible items of a list that arrow keys reach, with the items that open submenus but not their content. */
const items = (list) => [...list.querySelectorAll("a, button, input, summary")]
  .filter((item) => item.offsetParent !== null && item.closest(".menu-list") === list);

const OPENS = ".menu-list details.sub > summary";
const subs = (list) => [...list.querySelectorAll(":scope > details.sub[open]")];

/** Places a submenu beside its item. On a screen that is too narrow, the submenu stays inside the menu. */
function placeSub(sub) {
  const list = sub.querySelector(":scope > .menu-list"), box = sub.querySelector("summary").getBoundingClientRect();
  list.classList.add("placed");
  list.style.left = list.style.top = "0";
  const { width, height } = list.getBoundingClientRect();
  const left = box.right + width <= innerWidth - EDGE ? box.right : box.left - width;
  if (left < EDGE) {
    list.classList.remove("placed");
    return;
  }
  list.style.left = `${left}px`;
  list.style.top = `${Math.max(EDGE, Math.min(box.top - GAP, innerHeight - height - EDGE))}px`;
}

/** Moves a list that has grown back onto the screen. */
function fit(list) {
  const { top, height } = list.getBoundingClientRect();
  list.style.top = `${Math.max(EDGE, Math.min(top, innerHeight - height - EDGE))}px`;
}

const beside = (sub) => sub.querySelector(":scope > .menu-list").matches(".placed");

document.addEventListener("toggle", ({ target }) => {
  if (!(target instanceof Element) || !target.matches("details.sub") || !target.open) return;
  for (const other of subs(target.parentElement)) if (other !== target) other.open = false;
  placeSub(target);
  if (!beside(target)) fit(target.parentElement.closest(".menu-list"));
}, { capture: true });

// Hovering over an item opens its submenu, and hovering over another item closes that submenu. A click on the item keeps
// the submenu open.
on("pointerover", ".menu-list .menu-item", ({ pointerType }, item) => {
  if (pointerType !== "mouse") return;
  const own = item.matches(OPENS) ? item.parentElement : null;
  for (const sub of subs(item.closest(".menu-list"))) if (beside(sub) && sub !== own) sub.open = false;
  if (!own || own.open) return;
  own.open = true;
  placeSub(own);
  own.open = beside(own);
});
on("click", OPENS, (event, summary) => {
  if (event.detail > 0 && event.pointerType === "mouse" && summary.parentElement.open && beside(summary.parentElement)) event.preventDefault();
});

const opened = () => [...document.querySelectorAll("details.menu[open]")];
const closeAll = (except) => opened().forEach((menu) => { if (menu !== except && !menu.contains(except)) menu.open = false; });
const anchors = new WeakMap(); // position of each menu's button when the list was placed

function placeOf(menu) {
  const list = menu.querySelector(":scope > .menu-list"), box = menu.querySelector("summary").getBoundingClientRect();
  anchors.set(menu, box);
  if (list) place(list, box, list.matches(".right"));
}

/** Whether the menu's button has moved since its list was placed. Other parts of the page can scroll without moving it. */
function moved(menu) {
  const was = anchors.get(menu), { left, top } = menu.querySelector("summary").getBoundingClientRect();
  return was && (Math.abs(left - was.left) > 1 || Math.abs(top - was.top) > 1);
}

document.addEventListener("toggle", ({ target }) => {
  if (!(target instanceof Element) || !target.matches("details.menu")) return;
  for (const sub of target.querySelectorAll("details.sub[open]")) sub.open = false;
  if (!target.open) return;
  closeAll(target);
  placeOf(target);
}, { capture: true });

// Content from htmx may move the button of an open menu, resize the menu's list, and remove the focused item.
document.addEventListener("htmx:afterSettle", ({ target }) => {
  opened().forEach(placeOf);
  const menu = target.closest?.("details.menu[open]");
  if (menu && target.matches(".menu-list") && document.activeElement === document.body) items(target)[0]?.focus();
});

document.addEventListener("click", ({ target }) => {
  closeAll(target.closest?.("details.menu"));
  const item = target.closest?.(".menu-item");
  if (item && !item.matches('[aria-disabled="true"], label, summary')) closeAll(null);
});
document.addEventListener("focusin", ({ target }) => closeAll(target.closest("details.menu")));
// A phone's keyboard resizes the page: a menu with a focused field stays open.
const typing = () => document.activeElement?.matches(".menu-list input") ?? false;
addEventListener("resize", () => { if (!typing()) closeAll(null); });
document.addEventListener("scroll", ({ target }) => {
  if (target instanceof Element && target.matches(".menu-list")) subs(target).filter(beside).forEach((sub) => { sub.open = false; });
  if (target instanceof Element && target.closest(".menu-list") || typing()) return;
  opened().forEach((menu) => { if (moved(menu)) menu.open = false; });
}, { capture: true, passive: true });

on("keydown", "details.menu", (event, menu) => {
  const list = menu.querySelector(":scope > .menu-list");
  if (event.key === "Escape" && menu.open) {
    menu.open = false;
    menu.querySelector("summary").focus();
    event.preventDefault(); // a surrounding dialog stays open
  } else if (event.key === "ArrowDown" && !menu.open && event.target.matches("summary")) {
    menu.open = true;
    event.preventDefault();
    requestAnimationFrame(() => items(list)[0]?.focus());
  } else if (list && menu.open) {
    arrows(event, list);
  }
});

/**
 * Handles arrow keys, Home and End in a list of items; left and right move between the list and a submenu. In a field,
 * Home and End keep their usual function.
 */
export function arrows(event, menu) {
  const list = event.target.closest(".menu-list") ?? menu, all = items(list), sub = list.closest("details.sub");
  if (event.key === "ArrowRight" && event.target.matches(OPENS)) {
    event.target.parentElement.open = true;
    placeSub(event.target.parentElement);
    items(event.target.nextElementSibling)[0]?.focus();
  } else if (event.key === "ArrowLeft" && sub) {
    sub.open = false;
    sub.querySelector("summary").focus();
  } else if (event.key === "ArrowDown") moveFocus(all, 1);
  else if (event.key === "ArrowUp") moveFocus(all, -1);
  else if (isTyping(event.target)) return;
  else if (event.key === "Home") all[0]?.focus();
  else if (event.key === "End") all.at(-1)?.focus();
  else return;
  event.preventDefault();
}

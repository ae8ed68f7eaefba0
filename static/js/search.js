// Global search: htmx loads the results while the user types. This module moves the focus through the results by keyboard.
import { moveFocus, on } from "./dom.js";

const box = () => document.querySelector(".search .results");

on("keydown", ".search", (event, form) => {
  const links = [...form.querySelectorAll(".results a")];
  if (event.key === "Escape" && links.length > 0) {
    box().classList.add("closed");
    form.querySelector("input").focus();
  } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && links.length > 0) {
    box().classList.remove("closed");
    if (event.key === "ArrowUp" && document.activeElement === links[0]) form.querySelector("input").focus();
    else moveFocus(links, event.key === "ArrowDown" ? 1 : -1);
  } else {
    return;
  }
  event.preventDefault();
});

on("input", ".search input", () => box()?.classList.remove("closed"));

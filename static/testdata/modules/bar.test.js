import { $, is, page, test } from "./harness.js";
import { hideBar, showBar, showGone } from "js/bar.js";

const words = () => $("#page-bar")?.textContent.split(/[.;]/)[0] ?? "";

test("only the most severe state is shown, then the next one", () => {
  page(`<main id="main"><p>x</p></main>`);
  showBar("lost");
  is([words(), $("#main").firstElementChild.id], ["Live updates are interrupted", "page-bar"]);
  showGone("The VM was deleted.", "/vms");
  is([words(), $("#page-bar a").getAttribute("href")], ["The VM was deleted", "/vms"]);
  showBar("signed-out");
  is([words(), $("#page-bar a").getAttribute("href")], ["You are signed out", `/sign-in?next=${encodeURIComponent(location.pathname)}`]);
  showBar("lost");
  is(document.querySelectorAll("#page-bar").length, 1);
  for (const [kind, left] of [["signed-out", "The VM was deleted"], ["gone", "Live updates are interrupted"], ["lost", ""]]) {
    hideBar(kind);
    is(words(), left, `without ${kind}`);
  }
});

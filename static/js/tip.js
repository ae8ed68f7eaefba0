// The reason of a disabled button is placed on the screen when it appears, because parts of the page would clip it.
import { on } from "./dom.js";
import { place } from "./menu.js";

for (const event of ["pointerover", "focusin"])
  on(event, ".reason", (_, reason) => {
    const tip = reason.querySelector(".tip"), box = reason.getBoundingClientRect();
    place(tip, box, box.left + tip.offsetWidth > innerWidth);
  });

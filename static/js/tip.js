// The reason of a disabled button is placed on the screen when it appears, because parts of the page would clip it.
import { on } from "./dom.js";
import { place } from "./menu.js";

for (const event of ["pointerover", "focusin"])
  on(event, ".reason", (_, reason) => place(reason.querySelector(".tip"), reason.getBoundingClientRect(), true));

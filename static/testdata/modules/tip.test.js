import { $, is, page, test } from "./harness.js";
import "js/tip.js";

test("the reason of a disabled button at the left edge is on the screen", () => {
  page(`<div style="position: fixed; left: 0; top: 0; width: 80px; overflow: hidden"><span class="reason"><button aria-disabled="true">Off</button>
    <span class="tip" style="width: 240px">Shut the VM down first.</span></span></div>`);
  $(".reason button").dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
  const { left, right } = $(".tip").getBoundingClientRect();
  is([left >= 0, right <= innerWidth, $(".tip").matches(".placed")], [true, true, true]);
});

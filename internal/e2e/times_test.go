//go:build linux && ordeal

package e2e

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// inServersWords refreshes all that lives on the page a few times and counts the frames in which a time stood in the server's words.
const inServersWords = `new Promise(done => {
  let frames = 0, left = 5;
  const refresh = () => document.querySelectorAll("[data-live]").forEach(part => part.dispatchEvent(new CustomEvent("poke")));
  const look = () => {
    if ([...document.querySelectorAll("time.local")].some(time => time.textContent.includes("UTC"))) frames++;
    if (left > 0) requestAnimationFrame(look); else done(frames);
  };
  document.addEventListener("htmx:afterSettle", ({target}) => {
    if (!target.querySelector("time.local")) return;
    if (--left > 0) refresh();
  });
  look();
  refresh();
})`

// TestTimesStayInTheReadersWords: no refresh shows a time as the server writes it, not even for a moment, in which a table would jump.
func TestTimesStayInTheReadersWords(t *testing.T) {
	t.Parallel()
	s := demoProgram.get(t)
	p := newTab(t, s.URL)
	p.signIn(s)
	p.open("/tasks")
	p.waitTrue("times in the reader's words", `document.querySelector("#task-rows time.local") !== null && !document.querySelector("#task-rows").innerText.includes("UTC")`)
	if frames, err := eval[int](p, inServersWords, chromedp.EvalAwaitPromise); err != nil || frames > 0 {
		t.Errorf("times stood in the server's words for %d frames (%v)", frames, err)
	}
}

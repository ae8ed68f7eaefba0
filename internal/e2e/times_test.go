//go:build linux && ordeal

package e2e

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// framesInServerFormat is a script that refreshes all live parts of the page several times. It counts the frames that
// show a time in the server's format.
const framesInServerFormat = `new Promise(done => {
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

// TestTimesStayInLocalFormat fails if a refresh shows a time in the server's format even for one frame, which would
// make tables jump.
func TestTimesStayInLocalFormat(t *testing.T) {
	t.Parallel()
	s := demoProgram.get(t)
	p := newTab(t, s.URL)
	p.signIn(s)
	p.open("/tasks")
	p.waitTrue("times in the local format", `document.querySelector("#task-rows time.local") !== null && !document.querySelector("#task-rows").innerText.includes("UTC")`)
	if frames, err := evalJS[int](p, framesInServerFormat, chromedp.EvalAwaitPromise); err != nil || frames > 0 {
		t.Errorf("%d frames show the server's time format (%v)", frames, err)
	}
}

//go:build linux

package e2e

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"

	"quantix/internal/testkit/tier"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// picturesVariable is the environment variable that names the directory for screenshots. Without it, none are stored.
const picturesVariable = "QUANTIX_TEST_SCREENSHOTS"

var themes = []string{"light", "dark"}

// capture takes screenshots of the page in both themes, on a desktop and on a phone, and checks the page with axe-core.
// The gate checks only the light theme on a desktop, unless screenshots are wanted.
func (p *tab) capture(name string) {
	p.Helper()
	if !tier.Ordeal && os.Getenv(picturesVariable) == "" {
		p.setTheme(themes[0])
		p.captureSized(1440, 900, name, themes[0])
		return
	}
	for _, theme := range themes {
		p.setTheme(theme)
		p.captureSized(1440, 900, name, theme)
		p.captureSized(390, 844, name, theme)
	}
	p.setWindowSize(1440, 900)
}

func (p *tab) captureSized(width, height int64, name, theme string) {
	p.Helper()
	p.setWindowSize(width, height)
	p.waitSettled()
	if p.menu != nil {
		p.menu()
		p.waitSettled()
	}
	on := fmt.Sprintf("%s-%d-%s", name, width, theme)
	p.savePicture(on)
	p.checkWidth(on)
	p.checkEnter(on)
	p.checkAccessibility(on)
	if p.menu != nil {
		p.typeKeys(kb.Escape)
		p.waitTrue("the menu to close", `!document.querySelector("details.menu[open], :popover-open:not(.toasts)")`)
	}
}

// withMenu opens a menu by a click, again for each screenshot of the shot. shows is a text in the open menu.
func (p *tab) withMenu(sel, text, shows string) {
	p.menu = func() {
		p.Helper()
		p.click(sel, text)
		p.waitText("details.menu[open] > .menu-list, .menu-list:popover-open", shows)
	}
}

// withTree opens the inventory tree, a drawer on a phone, again for each screenshot of the shot. shows is a text in the
// tree.
func (p *tab) withTree(shows string) {
	p.menu = func() {
		p.Helper()
		if narrow, err := evalJS[bool](p, `matchMedia("(max-width: 900px)").matches`); err != nil || narrow {
			p.click("[aria-label='Open the inventory']", "")
		}
		p.waitText("#tree", shows)
	}
}

// setTheme sets the color scheme that the browser reports as the user's preference.
func (p *tab) setTheme(theme string) {
	p.Helper()
	features := []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: theme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}
	p.runActions("set the theme", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
		return err
	}))
}

// waitSettled waits until no request is running and the layout has been painted.
func (p *tab) waitSettled() {
	p.Helper()
	p.waitTrue("the page to settle", `document.readyState === "complete" && !document.querySelector(".htmx-request, .htmx-swapping, .htmx-settling")`)
	_, err := evalJS[bool](p, `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`, chromedp.EvalAwaitPromise)
	if err != nil {
		p.Fatal(err)
	}
}

// checkWidth fails the test if any element other than a table can be scrolled sideways.
func (p *tab) checkWidth(name string) {
	p.Helper()
	over, err := evalJS[int](p, `Math.max(document.documentElement.scrollWidth, document.querySelector("main")?.scrollWidth || 0) - innerWidth`)
	if err != nil || over > 0 {
		p.Errorf("%s is %d pixels wider than the window (%v)", name, over, err)
	}
}

// otherOnEnter is a script that finds buttons that Enter presses in a form although another button looks like the
// form's primary button.
const otherOnEnter = `[...document.forms].flatMap(form => {
  const sends = [...form.elements].filter(e => e.type === "submit");
  const chosen = sends.find(e => e.matches(".primary, .danger")), first = sends[0];
  const what = e => [e.name, e.value, e.formAction].join(" ");
  return sends.length < 2 || first.disabled || chosen && what(first) === what(chosen) ? [] : [first.outerHTML];
})`

// checkEnter fails the test unless Enter in a form presses its primary button.
func (p *tab) checkEnter(name string) {
	p.Helper()
	others, err := evalJS[[]string](p, otherOnEnter)
	if err != nil || len(others) > 0 {
		p.Errorf("%s: Enter in a field presses %s, not the chosen button (%v)", name, others, err)
	}
}

// violation is an axe-core rule that the page violates.
type violation struct {
	ID, Help string
	Nodes    []string
}

const axeRun = `axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.map(v =>
  ({id: v.id, help: v.help, nodes: v.nodes.slice(0, 3).map(n => n.target.join(" ") + "  " + n.html.slice(0, 200) + "  " + (n.any[0]?.message || n.all[0]?.message || n.none[0]?.message || ""))})))`

// axeSource reads axe-core, which is in the directory of the browser's other libraries.
var axeSource = sync.OnceValues(func() ([]byte, error) { return os.ReadFile("../../static/internal/axe/axe.min.js") })

// checkAccessibility fails the test if axe-core finds a violation on the page.
func (p *tab) checkAccessibility(name string) {
	p.Helper()
	if loaded, err := evalJS[bool](p, `typeof axe !== "undefined"`); err != nil || !loaded {
		source, err := axeSource()
		if err == nil {
			_, err = evalJS[chromedp.Void](p, string(source))
		}
		if err != nil {
			p.Fatal(err)
		}
	}
	found, err := evalJS[[]violation](p, axeRun, chromedp.EvalAwaitPromise)
	if err != nil {
		p.Fatalf("axe-core on %s: %v", name, err)
	}
	for _, v := range found {
		p.Errorf("axe-core on %s: %s: %s\n%s", name, v.ID, v.Help, strings.Join(v.Nodes, "\n"))
	}
}

// routePattern returns a regular expression for the paths of a route.
func routePattern(route string) string {
	parts := strings.Split(route, "/")
	for i, part := range parts {
		if strings.HasPrefix(part, ":") {
			parts[i] = "[^/]+"
		}
	}
	return fmt.Sprintf(`^%s(\?.*)?$`, strings.Join(parts, "/"))
}

// captureShot opens a page and captures it. QUANTIX_TEST_SCREENSHOTS_OF is a pattern for shot names; a developer can
// use it to capture only some pages.
func (p *tab) captureShot(s pageShot) {
	p.Helper()
	if of := os.Getenv("QUANTIX_TEST_SCREENSHOTS_OF"); of != "" && !regexp.MustCompile(of).MatchString(s.name) {
		return
	}
	p.open(s.path)
	p.waitSettled()
	if s.act != nil {
		s.act(p)
	}
	p.capture(s.name)
	p.menu = nil
}

// waitConsole waits until the console shows the guest's screen.
func (p *tab) waitConsole() {
	p.Helper()
	p.waitTrue("the guest's screen", `document.querySelector("#console").dataset.state === "connected"`)
	p.waitTrue("a picture", drawnPixels+` > 0`)
}

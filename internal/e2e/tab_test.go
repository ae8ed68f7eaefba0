//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// open navigates to a path of the portal and waits until the page has loaded. If the browser aborted the request
// because a network device appeared or disappeared, open retries.
func (p *tab) open(path string) {
	p.Helper()
	eventually(p, stepLimit, "opening "+path, func() (bool, string) {
		ctx, cancel := context.WithTimeout(p.ctx, stepLimit)
		defer cancel()
		cuts := p.networkChangeCuts()
		if err := chromedp.Do(ctx, chromedp.Navigate(p.base+path)); err != nil && !strings.Contains(err.Error(), networkChanged) {
			p.Fatalf("open %s: %v", path, err)
		}
		return p.networkChangeCuts() == cuts, "network devices changed"
	})
}

// noPolls is a script that suppresses htmx's timers of ten seconds and more, and counts them.
const noPolls = `(() => {
  const later = window.setTimeout;
  window.pollsKept = 0;
  window.setTimeout = (f, ms, ...rest) => ms >= 10000 && new Error().stack.includes("htmx") ? (window.pollsKept++, 0) : later(f, ms, ...rest);
})()`

// withoutPolls disables the slow polls that make up for lost wake-ups, in pages opened from now on. These pages get
// updates only through the event stream.
func (p *tab) withoutPolls() {
	p.Helper()
	p.runActions("stop the polls", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: noPolls})
		return err
	}))
}

// checkPollsOff fails the test unless the page has polls and all of them were suppressed.
func (p *tab) checkPollsOff() {
	p.Helper()
	p.waitTrue("the page's polls to be off", `window.pollsKept > 0`)
}

func (p *tab) path() string {
	at, err := evalJS[string](p, `location.pathname + location.search`)
	if err != nil {
		return err.Error()
	}
	return at
}

// waitPath waits until the page's path begins with prefix and the page has loaded.
func (p *tab) waitPath(prefix string) {
	p.Helper()
	cuts := p.networkChangeCuts()
	eventually(p, stepLimit, "going to "+prefix, func() (bool, string) {
		at := p.path()
		return at == prefix || prefix != "/" && strings.HasPrefix(at, prefix), "the page is " + at
	})
	p.waitTrue("the page to load", `document.readyState === "complete"`)
	if p.networkChangeCuts() != cuts {
		p.open(p.path())
	}
}

// waitText waits until an element that sel selects shows the text.
func (p *tab) waitText(sel, text string) {
	p.Helper()
	eventually(p, stepLimit, fmt.Sprintf("%q in %s", text, sel), func() (bool, string) {
		shown := p.visibleText(sel)
		return strings.Contains(shown, text), fmt.Sprintf("%s shows %q", sel, shown)
	})
}

// waitNoText waits until no element that sel selects shows the text.
func (p *tab) waitNoText(sel, text string) {
	p.Helper()
	eventually(p, stepLimit, fmt.Sprintf("the end of %q in %s", text, sel), func() (bool, string) {
		shown := p.visibleText(sel)
		return !strings.Contains(shown, text), fmt.Sprintf("%s shows %q", sel, shown)
	})
}

// visibleText returns the text of the visible elements that sel selects, one per line.
func (p *tab) visibleText(sel string) string {
	text, err := evalJS[string](p, fmt.Sprintf(`[...document.querySelectorAll(%s)].map(e => e.innerText).join("\n")`, jsString(sel)))
	if err != nil {
		return err.Error()
	}
	return text
}

// waitTrue waits until a JavaScript expression is true.
func (p *tab) waitTrue(what, expression string) {
	p.Helper()
	eventually(p, stepLimit, what, func() (bool, string) {
		ok, err := evalJS[bool](p, expression)
		return err == nil && ok, fmt.Sprintf("%s is %v (%v)", expression, ok, err)
	})
}

// findScript finds the first visible element that matches sel and contains the text, scrolls it into view, and returns
// its center. No other element may cover the center.
const findScript = `((sel, text) => {
  if (document.readyState !== "complete") return {why: "the page is loading"};
  const hit = [...document.querySelectorAll(sel)].filter(e => e.checkVisibility({visibilityProperty: true}) && e.textContent.includes(text));
  const e = hit.find(e => e.textContent.trim() === text) || hit[0];
  if (!e) return {why: "there is no such element"};
  if (e.closest("[aria-disabled=true], .htmx-request")) return {why: "it is disabled or busy"};
  const middle = () => { const r = e.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]; };
  const onTop = (x, y) => { const top = document.elementFromPoint(x, y); return top && (e.contains(top) || top.contains(e) && top.tagName === "LABEL"); };
  if (!onTop(...middle())) e.scrollIntoView({block: "center", behavior: "instant"});
  const [x, y] = middle();
  return onTop(x, y) ? {x, y, ok: true} : {why: "something lies over it: " + document.elementFromPoint(x, y)?.outerHTML.slice(0, 120)};
})`

type clickTarget struct {
	X, Y float64
	OK   bool
	Why  string
}

// click clicks on the first visible element that sel selects and that contains the text; "" means any text. It waits
// until the element no longer moves.
func (p *tab) click(sel, text string) {
	p.Helper()
	var at clickTarget
	eventually(p, stepLimit, fmt.Sprintf("a click on %s %q", sel, text), func() (bool, string) {
		now, err := evalJS[clickTarget](p, fmt.Sprintf(`%s(%s, %s)`, findScript, jsString(sel), jsString(text)))
		if err != nil {
			return false, err.Error()
		}
		still := now == at
		at = now
		return at.OK && still, at.Why
	})
	p.runActions("click on "+sel, chromedp.MouseClickXY(at.X, at.Y))
}

// openSub is a script that opens the submenu with the item, in an open menu.
const openSub = `(item => {
  const sub = [...document.querySelectorAll("details.menu[open] details.sub:not([open])")]
    .find(e => [...e.querySelectorAll(":scope > .menu-list .menu-item")].some(i => i.textContent.includes(item)));
  const seen = [...document.querySelectorAll("details.menu[open] .menu-item:not(summary)")].some(e => e.checkVisibility() && e.textContent.includes(item));
  if (sub && !seen) sub.open = true;
  return true;
})(%s)`

// pickMenuItem opens a menu and clicks an item, as a user does. If a layout change closed the menu, or if the item is
// still disabled, it opens the menu again.
func (p *tab) pickMenuItem(menu, name, item string) {
	p.Helper()
	open := fmt.Sprintf(`[...document.querySelectorAll(%s)].some(e => e.textContent.includes(%s) && e.closest("details").open)`, jsString(menu), jsString(name))
	var at clickTarget
	eventually(p, stepLimit, fmt.Sprintf("the menu %q with %q", name, item), func() (bool, string) {
		if opened, err := evalJS[bool](p, open); err != nil || !opened {
			p.click(menu, name)
			return false, fmt.Sprintf("it is closed (%v)", err)
		}
		if _, err := evalJS[bool](p, fmt.Sprintf(openSub, jsString(item))); err != nil {
			return false, err.Error()
		}
		now, err := evalJS[clickTarget](p, fmt.Sprintf(`%s("details[open] .menu-item", %s)`, findScript, jsString(item)))
		if still := now == at; err != nil || !now.OK || !still {
			if at = now; now.Why == "it is disabled or busy" { // an open menu does not update its items
				_, err = evalJS[bool](p, `(document.querySelectorAll("details.menu[open]").forEach(e => { e.open = false; }), true)`)
			}
			return false, fmt.Sprintf("%s (%v)", now.Why, err)
		}
		p.runActions("click on "+item, chromedp.MouseClickXY(at.X, at.Y))
		return true, ""
	})
}

// fillInput replaces an input's value by typing. sel must be a CSS selector. A layout change between the search for the
// input and the click makes the click miss the input; fillInput then clicks again, as a user does. The dialog's own focus
// can remove the selection before the text is typed; fillInput then types again.
func (p *tab) fillInput(sel, value string) {
	p.Helper()
	eventually(p, stepLimit, "the focus on "+sel, func() (bool, string) {
		focused, err := evalJS[bool](p, fmt.Sprintf(`document.activeElement === document.querySelector(%[1]s) && (document.activeElement.select(), true)`, jsString(sel)))
		if err == nil && !focused {
			p.click(sel, "")
		}
		return focused, fmt.Sprintf("a click on it did not focus it (%v)", err)
	})
	for range 2 {
		p.runActions("fill "+sel, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, input.InsertText, input.InsertTextParams{Text: value})
			return err
		}))
		mixed, err := evalJS[bool](p, fmt.Sprintf(`((e, typed) => e === document.activeElement && e.value !== typed && e.value.includes(typed) && (e.select(), true))(document.querySelector(%s), %s)`, jsString(sel), jsString(value)))
		if err != nil || !mixed {
			return
		}
	}
}

// chooseOption selects the option whose text begins with text.
func (p *tab) chooseOption(sel, text string) {
	p.Helper()
	p.waitTrue(fmt.Sprintf("the choice %q in %s", text, sel), fmt.Sprintf(`((sel, text) => {
  const s = document.querySelector(sel);
  const o = s && [...s.options].find(o => o.text.startsWith(text));
  if (!o) return false;
  s.focus(); s.value = o.value;
  s.dispatchEvent(new Event("input", {bubbles: true})); s.dispatchEvent(new Event("change", {bubbles: true}));
  return true;
})(%s, %s)`, jsString(sel), jsString(text)))
}

// linkTarget returns the target of the first link that sel selects.
func (p *tab) linkTarget(sel string) string {
	p.Helper()
	p.waitTrue("the link "+sel, fmt.Sprintf(`!!document.querySelector(%s)`, jsString(sel)))
	path, err := evalJS[string](p, fmt.Sprintf(`document.querySelector(%s).getAttribute("href")`, jsString(sel)))
	if err != nil {
		p.Fatal(err)
	}
	return path
}

// typeKeys types text as key events into the focused element.
func (p *tab) typeKeys(text string) {
	p.Helper()
	p.runActions("type", chromedp.KeyEvent(text))
}

const newPassword = "seven wet paper boats"

// signIn signs in as the playground's administrator. The first sign-in uses the one-time password and changes it.
func (p *tab) signIn(s *playground) {
	p.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	p.open("/vms")
	p.waitPath("/sign-in")
	p.enterCredentials(s.User, s.password)
	if !s.changed {
		p.waitPath("/account/password")
		p.fillInput("#old", s.password)
		p.fillInput("#new", newPassword)
		p.fillInput("#again", newPassword)
		p.click("button.primary", "Change password")
		s.password, s.changed = newPassword, true
	}
	p.waitPath("/vms")
	p.waitText("h1", "Virtual machines")
}

func (p *tab) enterCredentials(name, password string) {
	p.Helper()
	p.fillInput("#name", name)
	p.fillInput("#password", password)
	p.click("button.primary", "Sign in")
}

// markDocument sets a variable in the page. A reload of the page would remove the variable.
func (p *tab) markDocument() {
	p.Helper()
	if _, err := evalJS[bool](p, `window.quantixMark = true`); err != nil {
		p.Fatal(err)
	}
}

// checkNotReloaded fails the test if the page was reloaded since markDocument.
func (p *tab) checkNotReloaded() {
	p.Helper()
	if ok, err := evalJS[bool](p, `window.quantixMark === true`); err != nil || !ok {
		p.Errorf("the page was loaded again (%v)", err)
	}
}

// jsString returns a string as a JavaScript literal.
func jsString(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// unfoldForm opens all sections of a VM's form.
func (p *tab) unfoldForm() {
	p.Helper()
	for _, s := range fleet.VMSections {
		id := "vm-" + kit.ElementIDSlug(string(s))
		p.click("#"+id+" > summary", string(s))
		p.waitTrue("the section is open", fmt.Sprintf("document.getElementById(%s).open", jsString(id)))
	}
}

// openRows opens the sections of the first row in a list of the form. list is the prefix of these sections' element
// IDs.
func (p *tab) openRows(list string) {
	p.Helper()
	for _, s := range []fleet.FormSection{fleet.SectionLimits, fleet.SectionDevice} {
		p.click("[id^="+list+"][id$="+kit.ElementIDSlug(string(s))+"] > summary", string(s))
		p.waitTrue("the section is open", "document.querySelector('[id^="+list+"][id$="+kit.ElementIDSlug(string(s))+"]').open")
	}
}

package kit

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/testkit/rendered"
)

// TestActionRendersAlikeAsMenuItemAndButton checks that an action renders alike as a menu item and as a button: a link,
// a dialog, a form with its values, or a reason.
func TestActionRendersAlikeAsMenuItemAndButton(t *testing.T) {
	t.Parallel()
	post := ActionButton{Word: "Go", Post: "/x", Back: "/b", PostValues: []FormValue{{"a", "1"}, {"b", `"2"`}}}
	into, sure := post, post
	into.ReplaceTarget, sure.Confirm = "#members", "Really?"
	calm := sure
	calm.ConfirmTone = "primary"
	for name, c := range map[string]struct {
		act   ActionButton
		has   []string
		lacks []string
	}{
		"link":    {ActionButton{Icon: "eye", Word: "Go", Href: "/x"}, []string{`href="/x"`, "<svg"}, []string{"<form", "data-dialog"}},
		"dialog":  {ActionButton{Word: "Go", Href: "/x", Dialog: true}, []string{"data-dialog"}, []string{"<form", "<svg"}},
		"post":    {post, []string{`action="/x"`, `hx-post="/x"`, `hx-swap="none"`, `name="back" value="/b"`, `name="a" value="1"`, `name="b" value="&#34;2&#34;"`}, []string{"hx-target", "hx-confirm"}},
		"into":    {into, []string{`hx-target="#members"`, `hx-swap="outerHTML"`}, []string{`hx-swap="none"`}},
		"sure":    {sure, []string{`hx-confirm="Really?"`}, []string{"data-tone"}},
		"calm":    {calm, []string{`hx-confirm="Really?"`, `data-tone="primary"`}, nil},
		"no back": {ActionButton{Word: "Go", Post: "/x"}, []string{"<form"}, []string{"<input"}},
		"label":   {ActionButton{Word: "Go", Label: "Go there", Post: "/x"}, []string{`aria-label="Go there"`}, nil},
		"why":     {ActionButton{Word: "Go", Post: "/x", Why: "Not <now>."}, []string{`aria-disabled="true"`, "Not &lt;now&gt;."}, []string{"<form", "/x"}},
	} {
		for where, got := range map[string]string{"item": rendered.HTML(t, MenuItems([]ActionButton{c.act})), "button": rendered.HTML(t, StandaloneButton("id", "small", c.act))} {
			if c.act.Why != "" && where == "item" {
				c.lacks = append(c.lacks, "aria-label")
			}
			for _, text := range c.has {
				if !strings.Contains(got, text) {
					t.Errorf("%s, %s: lacks %s: %s", name, where, text, got)
				}
			}
			for _, text := range c.lacks {
				if strings.Contains(got, text) {
					t.Errorf("%s, %s: has %s: %s", name, where, text, got)
				}
			}
		}
	}
}

func TestSeparatorPrecedesDangerousMenuItems(t *testing.T) {
	t.Parallel()
	a := ActionButton{Word: "A", Href: "/"}
	danger, apart := a, a
	danger.Danger, apart.Separated = true, true
	for want, acts := range map[int][]ActionButton{0: {danger, a}, 1: {a, danger}, 2: {a, apart, danger}} {
		if got := strings.Count(rendered.HTML(t, MenuItems(acts)), "<hr"); got != want {
			t.Errorf("%d separators, not %d", got, want)
		}
	}
}

// TestReasonSharedByMenuItemsShownOnce checks that several actions disabled for the same reason show the reason once,
// below the last of these actions. Screen readers get the reason with each action.
func TestReasonSharedByMenuItemsShownOnce(t *testing.T) {
	t.Parallel()
	off, other := ActionButton{Word: "A", Why: "Two hosts run it."}, ActionButton{Word: "B", Why: "It is off."}
	danger := off
	danger.Danger = true
	for name, c := range map[string]struct {
		acts  []ActionButton
		shown int
	}{
		"same reason on adjacent items":     {[]ActionButton{off, off, off}, 1},
		"second reason on the last item":    {[]ActionButton{off, off, other}, 2},
		"item with a second reason between": {[]ActionButton{off, other, off}, 3},
		"separator between the items":       {[]ActionButton{off, off, danger}, 2},
	} {
		html := rendered.HTML(t, MenuItems(c.acts))
		if shown, all := strings.Count(html, `class="why"`), strings.Count(html, "</small>"); shown != c.shown || all != len(c.acts) {
			t.Errorf("%s: %d of %d reasons are shown: %s", name, shown, all, html)
		}
	}
}

// TestDialogOfDisabledActionShowsReasonInsteadOfButton checks that a dialog about an impossible action shows the reason
// instead of the button.
func TestDialogOfDisabledActionShowsReasonInsteadOfButton(t *testing.T) {
	t.Parallel()
	for why, live := range map[string]bool{"": true, "It still has 2 VMs.": false} {
		html := rendered.HTML(t, DialogForm(Dialog{Title: "Remove h?", Action: "/x", Button: "Remove", Danger: true, Why: why}))
		if strings.Contains(html, `<button class="btn danger">Remove`) != live || !strings.Contains(html, why) || strings.Contains(html, "aria-disabled") == live {
			t.Errorf("%q: %s", why, html)
		}
	}
}

func TestDisabledActionKeepsFirstReason(t *testing.T) {
	t.Parallel()
	states := []fleet.ActionState{{Action: fleet.ActEdit, Reason: "Third."}}
	if got := (ActionButton{}).DisableFor("").RequirePermission(fleet.Actor{UserID: "ann", Role: fleet.RoleAdmin}, policy.InfraChange).WithReasonFrom(states, fleet.ActDelete).Why; got != "" {
		t.Errorf("an allowed act has the reason %q", got)
	}
	if got := (ActionButton{}).DisableFor("First.").DisableFor("Second.").Why; got != "First." {
		t.Errorf("the reason is %q", got)
	}
	if got := (ActionButton{}).WithReasonFrom(states, fleet.ActEdit).Why; got != "Third." {
		t.Errorf("the reason is %q", got)
	}
}

// withChildren renders a component with another one nested in it, as a template does.
func withChildren(around, inside templ.Component) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error { return around.Render(templ.WithChildren(ctx, inside), w) })
}

func renderFragment(t *testing.T, c templ.Component, id string) string {
	t.Helper()
	var out strings.Builder
	if err := templ.RenderFragments(t.Context(), &out, c, id); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

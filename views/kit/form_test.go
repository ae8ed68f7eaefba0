package kit

import (
	"strings"
	"testing"

	"quantix/internal/testkit/rendered"
)

// TestPostFormHasOnePathAndOptionalTarget checks that a form names one path, for requests with and without JavaScript,
// and the element to replace, if any.
func TestPostFormHasOnePathAndOptionalTarget(t *testing.T) {
	t.Parallel()
	const dialog = `<form method="post" action="/x?a=1&amp;b=2" hx-post="/x?a=1&amp;b=2" hx-target="#dialog" hx-swap="innerHTML" class="dialog-form">`
	if got := rendered.HTML(t, DialogForm(Dialog{Title: "T", Action: "/x?a=1&b=2"})); !strings.HasPrefix(got, dialog) {
		t.Errorf("a dialog begins %s", got)
	}
	for want, a := range map[string]ActionButton{
		`<form class="inline" method="post" action="/x" hx-post="/x" hx-swap="none"><button`:                                        {Post: "/x"},
		`<form class="inline" method="post" action="/x" hx-post="/x" hx-target="#a" hx-swap="outerHTML" hx-confirm="Sure?"><button`: {Post: "/x", ReplaceTarget: "#a", Confirm: "Sure?"},
	} {
		if got := strings.TrimSpace(rendered.HTML(t, MenuItems([]ActionButton{a}))); !strings.HasPrefix(got, want) {
			t.Errorf("an act begins %s", got)
		}
	}
}

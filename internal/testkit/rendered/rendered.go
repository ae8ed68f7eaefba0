// Package rendered shows tests what a component comes out as.
package rendered

import (
	"context"
	"html"
	"io"
	"regexp"
	"strings"
	"testing"
)

// Component is what templ makes.
type Component interface {
	Render(ctx context.Context, w io.Writer) error
}

// HTML is a component's HTML.
func HTML(t testing.TB, c Component) string {
	t.Helper()
	var b strings.Builder
	if err := c.Render(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var tags = regexp.MustCompile(`<[^>]*>`)

// Text is what a person reads of it: no attributes.
func Text(t testing.TB, c Component) string {
	t.Helper()
	return strings.Join(strings.Fields(html.UnescapeString(tags.ReplaceAllString(HTML(t, c), " "))), " ")
}

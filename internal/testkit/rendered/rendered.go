// Package rendered renders templ components for tests.
package rendered

import (
	"context"
	"html"
	"io"
	"regexp"
	"strings"
	"testing"
)

// Component is a templ component.
type Component interface {
	Render(ctx context.Context, w io.Writer) error
}

// HTML returns a component's HTML.
func HTML(t testing.TB, c Component) string {
	t.Helper()
	var b strings.Builder
	if err := c.Render(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var tags = regexp.MustCompile(`<[^>]*>`)

// Text returns a component's visible text, without tags and attributes.
func Text(t testing.TB, c Component) string {
	t.Helper()
	return strings.Join(strings.Fields(html.UnescapeString(tags.ReplaceAllString(HTML(t, c), " "))), " ")
}

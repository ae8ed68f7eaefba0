// Package help shows the manual.
package help

import (
	"github.com/a-h/templ"

	"quantix/static/docs"
	"quantix/views"
)

// Page is a chapter, or what a search found.
type Page struct {
	Manual  *docs.Manual
	Chapter *docs.Chapter
	Text    string // that is searched; empty: the chapter is shown
	Hits    []docs.Hit
}

// Title is the page's, in the browser's tab.
func (p Page) Title() string {
	if p.Text != "" {
		return "Help: " + p.Text
	}
	return p.Chapter.Title
}

// headings are those beside the chapter. The table of contents needs none.
func (p Page) headings() []docs.Section {
	if p.Text != "" || p.Chapter == p.Manual.Index {
		return nil
	}
	return p.Chapter.Headings()
}

func (p Page) here(c *docs.Chapter) bool { return p.Text == "" && c == p.Chapter }

func hitPath(h docs.Hit) string { return views.HelpPath(h.Chapter.Name, h.Section.Anchor) }

func current(here bool) templ.Attributes {
	if here {
		return templ.Attributes{"aria-current": "page"}
	}
	return nil
}

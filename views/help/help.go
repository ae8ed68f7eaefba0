// Package help renders the manual.
package help

import (
	"github.com/a-h/templ"

	"quantix/static/docs"
	"quantix/views"
)

// Page is a chapter of the manual, or the hits of a search.
type Page struct {
	Manual  *docs.Manual
	Chapter *docs.Chapter
	Text    string // search text; empty: the chapter is shown
	Hits    []docs.Hit
}

// Title is the title of the browser's tab.
func (p Page) Title() string {
	if p.Text != "" {
		return "Help: " + p.Text
	}
	return p.Chapter.Title
}

// headings are the sections of the current chapter, for navigation. The table of contents has none.
func (p Page) headings() []docs.Section {
	if p.Text != "" || p.Chapter == p.Manual.Index {
		return nil
	}
	return p.Chapter.Headings()
}

func (p Page) isCurrentChapter(c *docs.Chapter) bool { return p.Text == "" && c == p.Chapter }

func hitPath(h docs.Hit) string { return views.HelpPath(h.Chapter.Name, h.Section.Anchor) }

func currentPageAttrs(here bool) templ.Attributes {
	if here {
		return templ.Attributes{"aria-current": "page"}
	}
	return nil
}

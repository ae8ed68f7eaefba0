// Package docs is the manual: one Markdown file per chapter, embedded, rendered once and searched in memory. README.md
// is the table of contents: its headings are groups, and the links below a heading are the chapters of the group, in
// order.
package docs

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"sync"
)

//go:embed *.md *.json
var manualFiles embed.FS

const indexFile = "README.md"

// Manual holds all chapters. It does not change after Open, so it is safe for concurrent use.
type Manual struct {
	Index    *Chapter // the table of contents, as a page
	Groups   []ChapterGroup
	chapters map[string]*Chapter
}

// ChapterGroup holds the chapters below one heading of the table of contents.
type ChapterGroup struct {
	Title    string
	Chapters []*Chapter
}

// Chapter is one Markdown file of the manual.
type Chapter struct {
	Name     string // file name without .md, also used in the chapter's URL; empty: the table of contents
	Title    string
	HTML     string // rendered chapter, including its title
	Sections []Section
}

// Section is a heading of a chapter with the text below the heading. A chapter's first section is its title with the
// introduction, and has no anchor.
type Section struct {
	Anchor string
	Title  string
	Level  int // 1: the chapter, 2 and 3: headings
	text   string
}

// Open returns the manual. The first call renders it; later calls return the same Manual.
var Open = sync.OnceValue(func() *Manual {
	m, err := loadManual(manualFiles)
	if err != nil {
		panic(fmt.Sprintf("docs: %v", err)) // the files are embedded, and a test renders them
	}
	return m
})

func loadManual(tree fs.FS) (*Manual, error) {
	m := &Manual{chapters: map[string]*Chapter{}}
	index, err := renderFile(tree, indexFile)
	if err != nil {
		return nil, err
	}
	m.Index, m.Groups = &index.Chapter, index.groups
	for _, g := range m.Groups {
		for i, c := range g.Chapters {
			page, err := renderFile(tree, c.Name+".md")
			if err != nil {
				return nil, fmt.Errorf("%s lists a chapter that cannot be read: %w", indexFile, err)
			}
			g.Chapters[i] = &page.Chapter
			g.Chapters[i].Name = c.Name
			m.chapters[c.Name] = g.Chapters[i]
		}
	}
	return m, nil
}

func renderFile(tree fs.FS, name string) (renderedFile, error) {
	source, err := fs.ReadFile(tree, name)
	if err != nil {
		return renderedFile{}, err
	}
	return renderMarkdown(source)
}

// Chapter returns the chapter with the name; false: the manual has none.
func (m *Manual) Chapter(name string) (*Chapter, bool) {
	c, ok := m.chapters[name]
	return c, ok
}

// File returns a file that chapters link to for download, such as "grafana-dashboard.json"; false: the manual has none.
func File(name string) ([]byte, bool) {
	if path.Ext(name) != ".json" {
		return nil, false
	}
	content, err := manualFiles.ReadFile(name)
	return content, err == nil
}

// Headings returns the sections below the chapter's title.
func (c *Chapter) Headings() []Section {
	return c.Sections[1:]
}

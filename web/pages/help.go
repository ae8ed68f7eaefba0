package pages

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/static/docs"
	"quantix/views/help"
	"quantix/views/shell"
)

const (
	maxHelpQueryBytes = 200 // bytes of a search text
	maxHelpHits       = 15  // sections that a search of the manual shows
)

// HelpPage shows a chapter of the manual, the table of contents, or search results. The manual is public, because users
// who cannot sign in need it too. The page shows no data of the inventory.
func (s *Site) HelpPage(c echo.Context, a fleet.Actor) error {
	manual := docs.Open()
	p := help.Page{Manual: manual, Chapter: manual.Index, Text: strings.TrimSpace(c.QueryParam("q"))}
	if name := c.Param("chapter"); name != "" {
		if content, ok := docs.File(name); ok {
			c.Response().Header().Set(echo.HeaderContentDisposition, `attachment; filename="`+name+`"`)
			return c.Blob(http.StatusOK, "application/json", content)
		}
		chapter, ok := manual.Chapter(name)
		if !ok {
			return fleet.Errorf(fleet.NotFound, "The manual has no chapter %q. Its table of contents is at /help.", name)
		}
		p.Chapter = chapter
	}
	if len(p.Text) > maxHelpQueryBytes {
		return fleet.Errorf(fleet.Malformed, "The search text is too long. Search for at most %d bytes.", maxHelpQueryBytes)
	}
	if p.Text != "" {
		p.Hits = manual.Search(p.Text, maxHelpHits)
	}
	f := shell.PageLayout{Title: p.Title(), Actor: a}
	s.FillPageLayout(c, &f)
	return s.WritePage(c, http.StatusOK, shell.PublicPage(f, help.ManualPage(p)))
}

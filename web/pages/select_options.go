package pages

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views/kit"
	"quantix/web/options"
)

// ShowSelectOptions returns the options of a select that match the search text.
func (s *Site) ShowSelectOptions(c echo.Context, a fleet.Actor) error {
	q := options.Query{Kind: c.Param("noun"), ParentID: c.QueryParam("of"), Text: strings.TrimSpace(c.QueryParam("q"))}
	found, err := s.Options.Search(c.Request().Context(), a, q)
	if err != nil {
		return err
	}
	return s.WritePage(c, http.StatusOK, kit.OptionElements(found, ""))
}

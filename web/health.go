package web

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/static"
)

// readyLimit is how long the database may take to answer /readyz.
const readyLimit = 2 * time.Second

// alive says that the process answers.
func (s *Server) alive(c echo.Context, _ fleet.Actor) error {
	return c.String(http.StatusOK, "ok\n")
}

// ready says whether the portal can do its work: whether its database answers.
func (s *Server) ready(c echo.Context, _ fleet.Actor) error {
	if s.Ready != nil {
		ctx, cancel := context.WithTimeout(c.Request().Context(), readyLimit)
		defer cancel()
		if err := s.Ready(ctx); err != nil {
			s.Log.Warn("not ready", "error", err)
			return c.String(http.StatusServiceUnavailable, "The database does not answer.\n")
		}
	}
	return c.String(http.StatusOK, "ready\n")
}

func (s *Server) static(c echo.Context, _ fleet.Actor) error {
	static.Handler().ServeHTTP(c.Response(), c.Request())
	return nil
}

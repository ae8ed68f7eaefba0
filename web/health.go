package web

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/static"
)

// readinessTimeout is how long the database may take to answer /readyz.
const readinessTimeout = 2 * time.Second

// livenessProbe answers 200, which shows that the process responds.
func (s *Server) livenessProbe(c echo.Context, _ fleet.Actor) error {
	return c.String(http.StatusOK, "ok\n")
}

// readinessProbe answers 200 if the portal's database accepts writes, else 503.
func (s *Server) readinessProbe(c echo.Context, _ fleet.Actor) error {
	if s.Ready != nil {
		ctx, cancel := context.WithTimeout(c.Request().Context(), readinessTimeout)
		defer cancel()
		if err := s.Ready(ctx); err != nil {
			s.Log.Warn("not ready", "error", err)
			return c.String(http.StatusServiceUnavailable, "The database accepts no writes.\n")
		}
	}
	return c.String(http.StatusOK, "ready\n")
}

// serveAsset serves embedded files without the security headers that matter only for documents: a new browser loads ten
// files for its first page, and these headers would be larger than some of the files. SVG files and workers keep the
// content security policy.
func (s *Server) serveAsset(c echo.Context, _ fleet.Actor) error {
	h, path := c.Response().Header(), c.Request().URL.Path
	for _, name := range []string{"Cross-Origin-Opener-Policy", "X-Frame-Options", "Referrer-Policy", "X-Request-Id"} {
		h.Del(name)
	}
	if !strings.HasSuffix(path, ".svg") && !strings.HasSuffix(path, "-worker.js") {
		h.Del("Content-Security-Policy")
	}
	static.Handler().ServeHTTP(c.Response(), c.Request())
	return nil
}

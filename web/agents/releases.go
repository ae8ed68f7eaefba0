package agents

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// sendReleaseManifest sends a host the signature of the release that its job installs.
func (e *Endpoints) sendReleaseManifest(c echo.Context, a fleet.Actor, _ struct{}) (*wire.ReleaseManifest, error) {
	out, err := e.Control.ReleaseManifest(c.Request().Context(), a, c.Param("version"), c.Param("platform"))
	return &out, err
}

// releasePiece is the number of bytes that a host must take within releaseTimeout.
const (
	releasePiece   = 1 << 20
	releaseTimeout = 30 * time.Second
)

// sendRelease sends a host the program of the release that its job installs.
func (e *Endpoints) sendRelease(c echo.Context, a fleet.Actor) error {
	program, size, err := e.Control.OpenRelease(c.Request().Context(), a, c.Param("version"), c.Param("platform"))
	if err != nil {
		return err
	}
	defer program.Close()
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, echo.MIMEOctetStream)
	h.Set(echo.HeaderContentLength, strconv.FormatInt(size, 10))
	c.Response().WriteHeader(http.StatusOK)
	deadline := http.NewResponseController(c.Response())
	for left := size; left > 0; {
		_ = deadline.SetWriteDeadline(time.Now().Add(releaseTimeout)) // a connection without deadlines has none
		n, err := io.CopyN(c.Response(), program, min(left, releasePiece))
		if err != nil {
			return nil // the agent has disconnected, or notices the short answer
		}
		left -= n
	}
	return nil
}

package agents

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/internal/hostcommand"
	"quantix/web/bodylimit"
)

// Limits of archives: how long one may take to arrive, and how many a portal receives at once, because each is in memory.
const (
	artifactTimeout = 90 * time.Second
	maxArtifacts    = 4
)

var artifactSlots = make(chan struct{}, maxArtifacts)

// storeArtifact stores the archive of a job that the host runs. The archive is the request's body.
func (e *Endpoints) storeArtifact(c echo.Context, a fleet.Actor) error {
	r := c.Request()
	epoch, err := strconv.ParseInt(c.QueryParam("epoch"), 10, 64)
	switch {
	case err != nil:
		return fleet.Errorf(fleet.Malformed, "Send the job's epoch.")
	case r.ContentLength > hostcommand.MaxArchive:
		return bodylimit.TooLargeError(hostcommand.MaxArchive)
	}
	select {
	case artifactSlots <- struct{}{}:
		defer func() { <-artifactSlots }()
	default:
		return fleet.Errorf(fleet.TooMany, "The portal receives %d archives already. Send this one again in a moment.", maxArtifacts)
	}
	bodylimit.SetReadDeadline(c.Response(), time.Now().Add(artifactTimeout))
	defer bodylimit.SetReadDeadline(c.Response(), time.Time{})
	archive, err := io.ReadAll(http.MaxBytesReader(c.Response(), r.Body, hostcommand.MaxArchive))
	if err != nil {
		if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return bodylimit.TooLargeError(e.Limit)
		}
		return fleet.Errorf(fleet.Malformed, "The request was cut off. Send it again.")
	}
	if err := e.Control.StoreArtifact(r.Context(), a, fleet.JobID(c.Param("id")), epoch, archive); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

package web

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/control/storage"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/relay"
	"quantix/internal/wire"
	"quantix/web/pages"
)

// downloadStallLimit is how long a client may read nothing before the portal aborts its download.
const downloadStallLimit = 4 * time.Minute

// downloadPermissionCheckInterval is the interval between checks of the user's permission during a download.
const downloadPermissionCheckInterval = 30 * time.Second

// downloadRelayConfig configures the relay for downloads of volumes. The portal itself is the receiving end, on behalf
// of the user.
var downloadRelayConfig = relay.KindConfig{
	Kind:         relay.Download,
	Wait:         [2]time.Duration{relay.Requester: 15 * time.Second, relay.Answerer: 15 * time.Second},
	NoPeer:       [2]string{relay.Requester: "The host did not answer in time.", relay.Answerer: "The download was cancelled before the host connected."},
	Disconnected: [2]string{relay.Requester: "The client cancelled the download.", relay.Answerer: "The host ended the connection."},
	Unreachable:  [2]string{relay.Requester: "The client is no longer connected.", relay.Answerer: "The host is no longer connected."},
	Taken:        "This download has its connection already.",
	NotBinary:    "A download carries binary messages only.",
}

// sendVolumeBySession sends a volume's file to a browser with a session; sendVolumeByToken sends it to a client with a
// token.
func (s *Server) sendVolumeBySession(c echo.Context, a fleet.Actor) error {
	return s.streamVolume(c, a, pages.VolumeInPath(c))
}

func (s *Server) sendVolumeByToken(c echo.Context, a fleet.Actor) error {
	of := pages.VolumeInPath(c)
	of.Volume = c.Param("volume")
	return s.streamVolume(c, a, of)
}

// streamVolume streams a volume from its host as fast as the client reads, with one buffer in memory. It sends a
// Content-Length, so that clients detect a truncated download.
func (s *Server) streamVolume(c echo.Context, a fleet.Actor, of storage.VolumeID) error {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return err
	}
	mayRead := func(a fleet.Actor) bool { return policy.May(a, policy.InfraChange, "") }
	return s.streamFromHost(c, a, mayRead, func(ctx context.Context) (relay.End, string, string, error) {
		end, host, err := s.Control.DownloadVolume(ctx, a, of)
		return end, host, of.Volume, err
	})
}

// streamFromHost sends the client a file that a host streams. request asks the host for the stream, and returns the
// relay end and the names of the host and the file. The stream ends when mayRead returns false for the user.
func (s *Server) streamFromHost(c echo.Context, a fleet.Actor, mayRead func(fleet.Actor) bool, request func(context.Context) (end relay.End, host, name string, err error)) error {
	if !s.transfersPerUser.tryAcquire(a.UserID) {
		return fleet.Errorf(fleet.TooMany, "You have %d consoles, uploads and downloads open. Close some.", maxTransfersPerUser)
	}
	defer s.transfersPerUser.release(a.UserID)
	ctx, cancel := context.WithCancel(c.Request().Context())
	defer cancel()
	end, host, name, err := request(ctx)
	if err != nil {
		return err
	}
	ws, release, err := s.relayBroker.ConnectPortalSide(ctx, end)
	if err != nil {
		left, done := context.WithTimeout(context.WithoutCancel(ctx), pageTimeout)
		defer done()
		if err := s.Control.AbandonRelay(left, a, end.ID()); err != nil {
			s.Log.Warn("cancel a download whose host did not connect", "error", err)
		}
		return fleet.Errorf(fleet.Unavailable, "The host %s did not send the volume in time. Try again when the host is online.", host)
	}
	defer release()
	from := wire.NewSlowReaderStream(ws, downloadStallLimit)
	defer func() { _ = from.Close() }()
	defer context.AfterFunc(ctx, func() { _ = from.Close() })() // ends the stream when the browser disconnects
	head, err := wire.ReadDownloadHead(from)
	switch {
	case err != nil:
		return fleet.Errorf(fleet.Unavailable, "The host %s ended the connection before it sent any data. Try again.", host)
	case head.Error != "":
		return fleet.RefusalError(head.Error)
	}
	go s.endTransferWhenForbidden(ctx, c, mayRead, cancel)
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, echo.MIMEOctetStream)
	h.Set(echo.HeaderContentDisposition, mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	h.Set(echo.HeaderContentLength, strconv.FormatInt(head.SizeBytes, 10))
	c.Response().WriteHeader(http.StatusOK)
	if err := copyToClient(c, from, head.SizeBytes); err != nil {
		s.Log.Info("A download ended early.", "volume", name, "host", host, "error", err)
		panic(http.ErrAbortHandler) // a truncated download must not look complete
	}
	return nil
}

// copyToClient copies exactly size bytes to the client. A client that stops reading for downloadStallLimit is an error.
func copyToClient(c echo.Context, from io.Reader, size int64) error {
	piece := transferBuffers.Get().(*[wire.UploadHeader + wire.MaxUploadPiece]byte)
	defer transferBuffers.Put(piece)
	out := http.NewResponseController(c.Response())
	for size > 0 {
		n, err := from.Read(piece[:min(int64(len(piece)), size)])
		if n > 0 {
			size -= int64(n)
			// The error for a connection that supports no deadlines, such as a test's recorder, is ignored.
			_ = out.SetWriteDeadline(time.Now().Add(downloadStallLimit))
			if _, err := c.Response().Write(piece[:n]); err != nil {
				return err
			}
		}
		if err != nil && size > 0 {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// endTransferWhenForbidden checks the user at intervals. It calls end when the user's session ends or mayRead returns
// false.
func (s *Server) endTransferWhenForbidden(ctx context.Context, c echo.Context, mayRead func(fleet.Actor) bool, end context.CancelFunc) {
	look := time.NewTicker(downloadPermissionCheckInterval)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		asking, done := context.WithTimeout(ctx, pageTimeout)
		a, err := s.currentTransferActor(asking, c)
		done()
		if code := fleet.CodeOf(err); err == nil && !mayRead(a) || code == fleet.Unauthorized || code == fleet.Forbidden {
			end()
			return
		}
	}
}

// sendExport sends the file of an export to a client with a session or a token.
func (s *Server) sendExport(c echo.Context, a fleet.Actor) error {
	id := fleet.ExportID(c.Param("id"))
	e, err := s.Control.GetExport(c.Request().Context(), a, id)
	if err != nil {
		return err
	}
	mayRead := func(a fleet.Actor) bool { return policy.May(a, policy.VMChange, e.ProjectID) }
	return s.streamFromHost(c, a, mayRead, func(ctx context.Context) (end relay.End, host, name string, err error) {
		return s.Control.DownloadExport(ctx, a, id)
	})
}

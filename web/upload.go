package web

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path"
	"sync"

	"github.com/labstack/echo/v4"
	tus "github.com/tus/tusd/v2/pkg/handler"
	"golang.org/x/exp/slog"

	"quantix/internal/auth"
	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/web/api"
	"quantix/web/bodylimit"
)

// errorMessageHeader is the header with an error's sentence, for scripts: the response to HEAD has no body.
const errorMessageHeader = "X-Quantix-Message"

// uploadRoutes lists the routes that receive uploads, for browsers and for API clients.
func (s *Server) uploadRoutes() []route {
	make := func(h *tus.UnroutedHandler) http.HandlerFunc { return h.PostFile }
	look := func(h *tus.UnroutedHandler) http.HandlerFunc { return h.HeadFile }
	send := func(h *tus.UnroutedHandler) http.HandlerFunc { return h.PatchFile }
	end := func(h *tus.UnroutedHandler) http.HandlerFunc { return h.DelFile }
	var out []route
	for base, k := range map[string]routeKind{"": sessionTransfer, api.Base: tokenTransfer} {
		at := base + "/uploads/"
		out = append(
			out,
			route{post, base + "/pools/:id/uploads", k, policy.InfraChange, s.uploadHandler(at, make)},
			route{http.MethodHead, at + ":id", k, policy.InfraChange, s.uploadHandler(at, look)},
			route{patch, at + ":id", k, policy.InfraChange, s.uploadHandler(at, send)},
			route{remove, at + ":id", k, policy.InfraChange, s.uploadHandler(at, end)},
		)
	}
	return append(
		out,
		route{put, api.Base + "/pools/:id/uploads/:name", tokenTransfer, policy.InfraChange, s.uploadVolumeInOneRequest},
		route{get, api.Base + "/exports/:id/content", tokenTransfer, policy.VMChange, s.sendExport},
		route{get, api.Base + "/pools/:id/volumes/:volume/content", tokenTransfer, policy.InfraChange, s.sendVolumeByToken},
	)
}

// uploadRequest is one HTTP request of an upload. tusd passes it to tusStore in the request's context.
type uploadRequest struct {
	s         *Server
	c         echo.Context
	a         fleet.Actor
	closeHost func() // closes the host connection at the end of the request
	release   sync.Once
}

type uploadRequestKey struct{}

func uploadRequestOf(ctx context.Context) *uploadRequest {
	return ctx.Value(uploadRequestKey{}).(*uploadRequest)
}

// newTusHandler returns a handler for tus 1.0 uploads at addresses below base. Its data store is tusStore.
func newTusHandler(base string) *tus.UnroutedHandler {
	composer := tus.NewStoreComposer()
	composer.UseCore(tusStore{})
	composer.UseTerminater(tusStore{})
	h, err := tus.NewUnroutedHandler(tus.Config{
		StoreComposer: composer, BasePath: base, MaxSize: fleet.MaxDiskBytes, Cors: &tus.CorsConfig{Disable: true},
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), // the portal's access log covers these requests
	})
	if err != nil {
		panic(err) // the settings are constants of this program
	}
	return h
}

// uploadHandler returns the portal's handler for a route. do selects the method of tusd's handler that serves the
// route.
func (s *Server) uploadHandler(base string, do func(*tus.UnroutedHandler) http.HandlerFunc) handler {
	h := newTusHandler(base)
	serve := h.Middleware(do(h))
	return func(c echo.Context, a fleet.Actor) error {
		if !s.transfersPerUser.tryAcquire(a.UserID) {
			return fleet.Errorf(fleet.TooMany, "You have %d consoles, uploads and downloads open. Close some.", maxTransfersPerUser)
		}
		defer s.transfersPerUser.release(a.UserID)
		at := &uploadRequest{s: s, c: c, a: a}
		defer at.closeHostConnection()
		r := c.Request().WithContext(context.WithValue(c.Request().Context(), uploadRequestKey{}, at))
		r.Header.Del("X-HTTP-Method-Override") // the permission was checked for the route's real method
		c.Response().Before(func() {
			// The location is reduced to a path, because proxies may have changed scheme and host.
			if u, err := url.Parse(c.Response().Header().Get("Location")); err == nil && u.Path != "" {
				c.Response().Header().Set("Location", u.Path)
			}
		})
		serve.ServeHTTP(c.Response(), r)
		return nil
	}
}

func (at *uploadRequest) closeHostConnection() {
	if at.closeHost != nil {
		at.release.Do(at.closeHost)
	}
}

// tusError converts an error to an error of package tusd.
func (at *uploadRequest) tusError(err error) error {
	if _, own := errors.AsType[tus.Error](err); err == nil || own {
		return err
	}
	if errors.Is(err, context.Canceled) {
		err = fleet.Errorf(fleet.Unavailable, "The portal is stopping. Continue the upload when the portal runs again.")
	}
	r := at.s.refusalFromError(at.c, bodylimit.ConvertMaxBytesError(err))
	body, _ := json.Marshal(r.problem()) // not reached: plain values always encode
	out := tus.NewError("ERR_REFUSED", r.userMessage(), r.status)
	out.HTTPResponse.Body = string(body)
	out.HTTPResponse.Header = tus.HTTPHeader{"Content-Type": "application/problem+json", errorMessageHeader: url.PathEscape(r.userMessage())}
	return out
}

// tusStore implements tusd's data store, but stores no data: control manages the uploads, and the host stores the data
// and reports how many bytes have arrived.
type tusStore struct{}

// NewUpload implements tus.DataStore. The client describes the upload in its metadata.
func (tusStore) NewUpload(ctx context.Context, info tus.FileInfo) (tus.Upload, error) {
	at := uploadRequestOf(ctx)
	m := info.MetaData
	name := m["name"]
	if name == "" {
		name = path.Base(m["filename"])
	}
	u, err := at.s.Control.CreateUpload(at.c.Request().Context(), at.a, fleet.PoolID(at.c.Param("id")), control.NewUpload{
		Name: name, HostID: fleet.HostID(m["host"]), SizeBytes: info.Size, Checksum: m["checksum"], File: m["file"],
	})
	if err != nil {
		return nil, at.tusError(err)
	}
	return &tusUpload{uploadRequest: at, upload: u, isNew: true}, nil
}

// GetUpload implements tus.DataStore.
func (tusStore) GetUpload(ctx context.Context, _ string) (tus.Upload, error) {
	at := uploadRequestOf(ctx)
	u, err := at.s.Control.GetUpload(at.c.Request().Context(), at.a, fleet.UploadID(at.c.Param("id")))
	if err != nil {
		return nil, at.tusError(err)
	}
	return &tusUpload{uploadRequest: at, upload: u}, nil
}

// AsTerminatableUpload implements tus.TerminaterDataStore.
func (tusStore) AsTerminatableUpload(u tus.Upload) tus.TerminatableUpload { return u.(*tusUpload) }

// tusUpload is an upload during one request.
type tusUpload struct {
	*uploadRequest
	upload fleet.Upload
	conn   *uploadConn
	isNew  bool // this request created the upload, so the host has no data yet
}

// GetInfo implements tus.Upload. The host reports the current offset.
func (u *tusUpload) GetInfo(context.Context) (tus.FileInfo, error) {
	info := tus.FileInfo{ID: string(u.upload.ID), Size: u.upload.SizeBytes, MetaData: tus.MetaData{"name": u.upload.Volume}}
	if u.isNew {
		return info, nil
	}
	if err := u.upload.EndedError(); err != nil {
		return info, u.tusError(err)
	}
	var err error
	if info.Offset = u.upload.SizeBytes; !u.upload.IsComplete() {
		info.Offset, err = u.connectToHost()
	}
	return info, u.tusError(err)
}

// connectToHost connects to the host, once per request, and returns the current offset.
func (u *tusUpload) connectToHost() (int64, error) {
	if u.conn == nil {
		line, err := u.s.openUploadConn(u.c.Request().Context(), u.a, u.upload)
		switch {
		case errors.Is(err, errUploadEnded):
			return u.upload.SizeBytes, nil
		case err != nil:
			return 0, err
		}
		u.conn, u.closeHost = line, line.close
	}
	return u.conn.offset, nil
}

// WriteChunk implements tus.Upload.
func (u *tusUpload) WriteChunk(_ context.Context, offset int64, src io.Reader) (int64, error) {
	has, err := u.connectToHost()
	switch {
	case err != nil:
		return 0, u.tusError(err)
	case has != offset || u.conn == nil:
		return 0, tus.ErrMismatchOffset
	}
	ctx, stop := u.s.watchPermission(u.c.Request(), u.a, nil, u.checkSender)
	defer stop()
	n, err := u.conn.sendChunks(ctx, src)
	if errors.Is(err, errUploadEnded) {
		if err = u.FinishUpload(ctx); err == nil {
			err = fleet.Errorf(fleet.Invalid, "This upload has ended.")
		}
	}
	return n, u.tusError(err)
}

// checkSender checks that the user still has permission, and records that the upload is still active.
func (u *tusUpload) checkSender(ctx context.Context) error {
	a, err := u.s.currentTransferActor(ctx, u.c)
	if err == nil && a.UserID != u.a.UserID {
		err = fleet.Errorf(fleet.Unauthorized, "Sign in first.")
	}
	if err != nil {
		return err
	}
	return u.s.Control.TouchUpload(ctx, a, u.upload.ID)
}

// currentTransferActor returns the actor of an upload or download, with current permissions. The transfer counts as use
// of the session.
func (s *Server) currentTransferActor(ctx context.Context, c echo.Context) (fleet.Actor, error) {
	if routeOf(c).kind == tokenTransfer {
		return s.Control.ActorOfToken(ctx, fleet.Actor{}, auth.BearerToken(c.Request()))
	}
	return s.currentConsoleActor(ctx, c.Request(), true)
}

// FinishUpload implements tus.Upload. The client gets the host's result if the host finishes soon enough; the task
// always shows the result.
func (u *tusUpload) FinishUpload(context.Context) error {
	u.closeHostConnection()
	now, err := u.s.awaitUpload(u.c.Request().Context(), u.a, u.upload)
	if err == nil {
		err = now.EndedError()
	}
	return u.tusError(err)
}

// GetReader implements tus.Upload. Uploads cannot be read back.
func (u *tusUpload) GetReader(context.Context) (io.ReadCloser, error) {
	return nil, tus.ErrNotImplemented
}

// Terminate implements tus.TerminatableUpload.
func (u *tusUpload) Terminate(context.Context) error {
	return u.tusError(u.s.Control.CancelUpload(u.c.Request().Context(), u.a, u.upload.ID))
}

// uploadVolumeInOneRequest accepts a volume in one request, as curl -T sends it. It cancels a truncated upload, because
// a client like curl has no address to continue the upload at.
func (s *Server) uploadVolumeInOneRequest(c echo.Context, a fleet.Actor) error {
	r := c.Request()
	ctx := r.Context()
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return err
	}
	if r.ContentLength <= 0 {
		return fleet.Errorf(fleet.Malformed, "Send the size of the file as Content-Length. To upload from a pipe, use the tus protocol.")
	}
	if !s.transfersPerUser.tryAcquire(a.UserID) {
		return fleet.Errorf(fleet.TooMany, "You have %d consoles, uploads and downloads open. Close some.", maxTransfersPerUser)
	}
	defer s.transfersPerUser.release(a.UserID)
	of, err := s.Control.CreateUpload(ctx, a, fleet.PoolID(c.Param("id")), control.NewUpload{
		Name: c.Param("name"), HostID: fleet.HostID(c.QueryParam("host")), SizeBytes: r.ContentLength, Checksum: c.QueryParam("checksum"),
	})
	if err != nil {
		return err
	}
	at := &uploadRequest{s: s, c: c, a: a}
	defer at.closeHostConnection()
	u := &tusUpload{uploadRequest: at, upload: of}
	if _, err = u.connectToHost(); err == nil && u.conn != nil { // otherwise the host ended the upload before any data was sent
		watch, stop := s.watchPermission(r, a, nil, u.checkSender)
		defer stop()
		_, err = u.conn.sendChunks(watch, r.Body)
	}
	whole := u.conn != nil && u.conn.offset == of.SizeBytes
	at.closeHostConnection()
	if err == nil && !whole || err != nil && !errors.Is(err, errUploadEnded) {
		fresh, cancel := context.WithTimeout(context.WithoutCancel(ctx), pageTimeout)
		defer cancel()
		if gone := s.Control.CancelUpload(fresh, a, of.ID); gone != nil && fleet.CodeOf(gone) != fleet.Conflict {
			s.Log.Warn("cancel a truncated upload", "upload", of.ID, "error", gone)
		}
		if err == nil {
			err = fleet.Errorf(fleet.Malformed, "The upload was cut off. Send the file again.")
		}
		return err
	}
	now, err := s.awaitUpload(ctx, a, of)
	if err == nil {
		err = now.EndedError()
	}
	if err != nil {
		return err
	}
	return c.JSON(http.StatusCreated, now)
}

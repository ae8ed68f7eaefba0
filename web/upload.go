package web

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"
	tus "github.com/tus/tusd/v2/pkg/handler"
	"golang.org/x/exp/slog"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	poolview "quantix/views/pool"
)

// uploadScript sends files from the pages that have it.
const uploadScript = "bundle/upload.js"

// messageHeader carries a refusal's sentence where scripts read it: an answer to HEAD has no body.
const messageHeader = "X-Quantix-Message"

// arrival is one request of an upload, which tusd carries through to the store below.
type arrival struct {
	s       *Server
	c       echo.Context
	a       fleet.Actor
	onHost  func() // what the request holds open; called at its end
	release sync.Once
}

type arrivalKey struct{}

func arrivalOf(ctx context.Context) *arrival { return ctx.Value(arrivalKey{}).(*arrival) }

// tusHandler speaks tus 1.0; base is the address below which uploads are.
func tusHandler(base string) *tus.UnroutedHandler {
	composer := tus.NewStoreComposer()
	composer.UseCore(tusStore{})
	composer.UseTerminater(tusStore{})
	h, err := tus.NewUnroutedHandler(tus.Config{
		StoreComposer: composer, BasePath: base, MaxSize: fleet.MaxDiskBytes, Cors: &tus.CorsConfig{Disable: true},
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), // the access log has each request
	})
	if err != nil {
		panic(err) // settings of this program
	}
	return h
}

// upload makes a route of one of tusd's handlers.
func (s *Server) upload(base string, do func(*tus.UnroutedHandler) http.HandlerFunc) handler {
	h := tusHandler(base)
	serve := h.Middleware(do(h))
	return func(c echo.Context, a fleet.Actor) error {
		if !s.seats.enter(a.UserID) {
			return fleet.Errorf(fleet.TooMany, "You have %d consoles and uploads open. Close some.", mostConsoles)
		}
		defer s.seats.leave(a.UserID)
		at := &arrival{s: s, c: c, a: a}
		defer at.leave()
		r := c.Request().WithContext(context.WithValue(c.Request().Context(), arrivalKey{}, at))
		r.Header.Del("X-HTTP-Method-Override") // the route has been judged by its own method
		c.Response().Before(func() {
			// Below the address by which the sender came: proxies may have changed the rest.
			if u, err := url.Parse(c.Response().Header().Get("Location")); err == nil && u.Path != "" {
				c.Response().Header().Set("Location", u.Path)
			}
		})
		serve.ServeHTTP(c.Response(), r)
		return nil
	}
}

func (at *arrival) leave() {
	if at.onHost != nil {
		at.release.Do(at.onHost)
	}
}

// refuse puts an error into an answer of tusd's.
func (at *arrival) refuse(err error) error {
	if _, own := errors.AsType[tus.Error](err); err == nil || own {
		return err
	}
	if errors.Is(err, context.Canceled) {
		err = fleet.Errorf(fleet.Unavailable, "The portal is stopping. Continue the upload.")
	}
	r := at.s.refuse(at.c, asTooLarge(err))
	body, _ := json.Marshal(problemOf(r)) // plain values
	out := tus.NewError("ERR_REFUSED", r.text(), r.status)
	out.HTTPResponse.Body = string(body)
	out.HTTPResponse.Header = tus.HTTPHeader{"Content-Type": "application/problem+json", messageHeader: url.PathEscape(r.text())}
	return out
}

// tusStore keeps nothing: what uploads there are, control says, and how much of one there is, its host.
type tusStore struct{}

// NewUpload implements tus.DataStore. What a sender says of the upload is in its metadata.
func (tusStore) NewUpload(ctx context.Context, info tus.FileInfo) (tus.Upload, error) {
	at := arrivalOf(ctx)
	m := info.MetaData
	name := m["name"]
	if name == "" {
		name = path.Base(m["filename"])
	}
	u, err := at.s.Control.CreateUpload(at.c.Request().Context(), at.a, fleet.PoolID(at.c.Param("id")), control.NewUpload{
		Name: name, HostID: fleet.HostID(m["host"]), SizeBytes: info.Size, Checksum: m["checksum"], File: m["file"],
	})
	if err != nil {
		return nil, at.refuse(err)
	}
	return &tusUpload{arrival: at, of: u, fresh: true}, nil
}

// GetUpload implements tus.DataStore.
func (tusStore) GetUpload(ctx context.Context, _ string) (tus.Upload, error) {
	at := arrivalOf(ctx)
	u, err := at.s.Control.GetUpload(at.c.Request().Context(), at.a, fleet.UploadID(at.c.Param("id")))
	if err != nil {
		return nil, at.refuse(err)
	}
	return &tusUpload{arrival: at, of: u}, nil
}

// AsTerminatableUpload implements tus.TerminaterDataStore.
func (tusStore) AsTerminatableUpload(u tus.Upload) tus.TerminatableUpload { return u.(*tusUpload) }

// tusUpload is an upload for the length of one request.
type tusUpload struct {
	*arrival
	of    fleet.Upload
	line  *uploadLine
	fresh bool // it was just made: nobody need ask its host
}

// GetInfo implements tus.Upload: the host says how much there is.
func (u *tusUpload) GetInfo(context.Context) (tus.FileInfo, error) {
	info := tus.FileInfo{ID: string(u.of.ID), Size: u.of.SizeBytes, MetaData: tus.MetaData{"name": u.of.Volume}}
	if u.fresh {
		return info, nil
	}
	if err := u.of.Over(); err != nil {
		return info, u.refuse(err)
	}
	var err error
	if info.Offset = u.of.SizeBytes; !u.of.Whole() {
		info.Offset, err = u.open()
	}
	return info, u.refuse(err)
}

// open goes to the host, once a request, and returns how much it has.
func (u *tusUpload) open() (int64, error) {
	if u.line == nil {
		line, err := u.s.openLine(u.c.Request().Context(), u.a, u.of)
		switch {
		case errors.Is(err, errUploadEnded):
			return u.of.SizeBytes, nil
		case err != nil:
			return 0, err
		}
		u.line, u.onHost = line, line.close
	}
	return u.line.offset, nil
}

// WriteChunk implements tus.Upload.
func (u *tusUpload) WriteChunk(_ context.Context, offset int64, src io.Reader) (int64, error) {
	has, err := u.open()
	switch {
	case err != nil:
		return 0, u.refuse(err)
	case has != offset || u.line == nil:
		return 0, tus.ErrMismatchOffset
	}
	ctx, stop := u.s.watched(u.c.Request(), u.a, u.kept)
	defer stop()
	n, err := u.line.send(ctx, src)
	if errors.Is(err, errUploadEnded) {
		if err = u.FinishUpload(ctx); err == nil {
			err = fleet.Errorf(fleet.Invalid, "This upload has ended.")
		}
	}
	return n, u.refuse(err)
}

// kept notes that the sender is there still, who must have the right to it still.
func (u *tusUpload) kept(ctx context.Context) error {
	a, err := u.s.senderNow(ctx, u.c)
	if err == nil && a.UserID != u.a.UserID {
		err = fleet.Errorf(fleet.Unauthorized, "Sign in first.")
	}
	if err != nil {
		return err
	}
	return u.s.Control.KeepUpload(ctx, a, u.of.ID)
}

// senderNow is whose request it is, with the rights of this moment. Sending is use of a session.
func (s *Server) senderNow(ctx context.Context, c echo.Context) (fleet.Actor, error) {
	if routeOf(c).kind == tokenInflow {
		return s.Control.ActorOfToken(ctx, fleet.Actor{}, bearerOf(c.Request()))
	}
	return s.consoleActor(ctx, c.Request(), true)
}

// FinishUpload implements tus.Upload: the sender hears what the host finds, if it does not look for too long. Its task says it in any case.
func (u *tusUpload) FinishUpload(context.Context) error {
	u.leave()
	now, err := u.s.awaitUpload(u.c.Request().Context(), u.a, u.of)
	if err == nil {
		err = now.Over()
	}
	return u.refuse(err)
}

// GetReader implements tus.Upload. Nothing is sent back.
func (u *tusUpload) GetReader(context.Context) (io.ReadCloser, error) {
	return nil, tus.ErrNotImplemented
}

// Terminate implements tus.TerminatableUpload.
func (u *tusUpload) Terminate(context.Context) error {
	return u.refuse(u.s.Control.CancelUpload(u.c.Request().Context(), u.a, u.of.ID))
}

// putVolume takes a volume in that comes in one piece, as curl -T sends it. What is cut off leaves nothing: there is no address by which it
// could be continued.
func (s *Server) putVolume(c echo.Context, a fleet.Actor) error {
	r := c.Request()
	ctx := r.Context()
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return err
	}
	if r.ContentLength <= 0 {
		return fleet.Errorf(fleet.Malformed, "Say how large the file is: Content-Length. From a pipe, upload by tus instead.")
	}
	if !s.seats.enter(a.UserID) {
		return fleet.Errorf(fleet.TooMany, "You have %d consoles and uploads open. Close some.", mostConsoles)
	}
	defer s.seats.leave(a.UserID)
	of, err := s.Control.CreateUpload(ctx, a, fleet.PoolID(c.Param("id")), control.NewUpload{
		Name: c.Param("name"), HostID: fleet.HostID(c.QueryParam("host")), SizeBytes: r.ContentLength, Checksum: c.QueryParam("checksum"),
	})
	if err != nil {
		return err
	}
	at := &arrival{s: s, c: c, a: a}
	defer at.leave()
	u := &tusUpload{arrival: at, of: of}
	if _, err = u.open(); err == nil && u.line != nil { // else the host has ended it before anything was sent
		watch, stop := s.watched(r, a, u.kept)
		defer stop()
		_, err = u.line.send(watch, r.Body)
	}
	whole := u.line != nil && u.line.offset == of.SizeBytes
	at.leave()
	if err == nil && !whole || err != nil && !errors.Is(err, errUploadEnded) {
		fresh, cancel := context.WithTimeout(context.WithoutCancel(ctx), pageLimit)
		defer cancel()
		if gone := s.Control.CancelUpload(fresh, a, of.ID); gone != nil && fleet.CodeOf(gone) != fleet.Conflict {
			s.Log.Warn("an upload that was cut off is not cancelled yet", "upload", of.ID, "error", gone)
		}
		if err == nil {
			err = fleet.Errorf(fleet.Malformed, "The file did not arrive whole. Send it again.")
		}
		return err
	}
	now, err := s.awaitUpload(ctx, a, of)
	if err == nil {
		err = now.Over()
	}
	if err != nil {
		return err
	}
	return c.JSON(created, now)
}

func (s *Server) askUploadVolume(c echo.Context, a fleet.Actor, in volumeForm, how asked) error {
	return s.askVolumeToCome(c, a, in, how, poolview.UploadVolume, uploadScript)
}

// uploadVolume makes the upload that the form's page then sends.
func (s *Server) uploadVolume(c echo.Context, a fleet.Actor, in volumeForm) (end, error) {
	var checks fleet.Checks
	size, err := strconv.ParseInt(in.Size, 10, 64)
	if err != nil || in.File == "" {
		checks.Add("sizeBytes", "Choose the file to upload.")
		return nil, checks.Err()
	}
	u, err := s.Control.CreateUpload(c.Request().Context(), a, fleet.PoolID(c.Param("id")), control.NewUpload{
		Name: strings.TrimSpace(in.Name), HostID: fleet.HostID(in.Host), SizeBytes: size, Checksum: strings.TrimSpace(in.Checksum), File: in.File,
	})
	back := views.TabPath(views.PoolPath(fleet.PoolID(c.Param("id"))), "volumes")
	return stay(back, "Uploading "+u.Volume+" to "+u.HostName+"."), err
}

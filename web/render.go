package web

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"

	"github.com/a-h/templ"
	"github.com/andybalholm/brotli"
	"github.com/andybalholm/brotli/matchfinder"
	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzip"
	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/static"
	"quantix/views/shell"
)

// zip compresses parts of pages, and pages for browsers that take no brotli, from the size on where it is worth it. Pages hold no secret that is the same each time, such as a token
// against forged requests, so their size tells nothing about one (BREACH). Streams and exports do not come here, and static
// files are compressed once, harder. No zstd: browsers take it over TLS only, and its encoders hold megabytes.
var zip = func() func(http.Handler) http.HandlerFunc {
	wrap, err := gzhttp.NewWrapper(gzhttp.MinSize(1400), gzhttp.CompressionLevel(gzip.BestSpeed), gzhttp.EnableZstd(false))
	if err != nil {
		panic(err) // the options are constants
	}
	return wrap
}()

// brotlis are encoders between pages. A whole page is a third smaller by them than by zip, for twice its time: they are for the page
// that somebody opens, not for the parts that open pages ask for by themselves.
var brotlis = sync.Pool{New: func() any { return brotli.NewWriterV2(nil, 1) }}

func takesBrotli(c echo.Context) bool {
	return !isHX(c) && static.Takes(c.Request().Header.Get(echo.HeaderAcceptEncoding), "br")
}

func isHX(c echo.Context) bool { return c.Request().Header.Get("HX-Request") == "true" }

// target is the id of the element that htmx wants to fill; empty for a plain request.
func target(c echo.Context) string {
	if !isHX(c) {
		return ""
	}
	return c.Request().Header.Get("HX-Target")
}

// isRefresh tells what a page asks by itself, to stay live, from what a person asked: an element that fetches itself.
// It must not keep an idle session open.
func isRefresh(c echo.Context) bool {
	h := c.Request().Header
	return c.Request().Method == http.MethodGet && (routeOf(c).kind == stream ||
		isHX(c) && h.Get("HX-Target") != "" && h.Get("HX-Target") == h.Get("HX-Trigger"))
}

// show answers with body in its frame. Where htmx asks for one element, the answer is the part of body inside
// @templ.Fragment(id) with that element's id, from the same handler: first render and update are one code path.
func (s *Server) show(c echo.Context, a fleet.Actor, f shell.Frame, body templ.Component) error {
	return s.showAs(c, http.StatusOK, a, f, body)
}

// showAs is show with a status: 422 for a form with its errors.
func (s *Server) showAs(c echo.Context, status int, a fleet.Actor, f shell.Frame, body templ.Component) error {
	if id := target(c); id != "" {
		var out bytes.Buffer
		if err := templ.RenderFragments(c.Request().Context(), &out, body, id); err != nil {
			return err
		}
		if out.Len() == 0 {
			return fleet.Errorf(fleet.NotFound, "This part of the page no longer exists. Reload the page.")
		}
		return s.send(c, status, out.Bytes())
	}
	f.Actor = a
	if err := s.loadFrame(c, &f); err != nil {
		return err
	}
	return s.write(c, status, shell.Layout(f, body))
}

// part answers with a piece of a page that has an address of its own: a menu, a level of the tree, suggestions.
// Without scripts the same address is a page.
func (s *Server) part(c echo.Context, a fleet.Actor, title string, piece templ.Component) error {
	if isHX(c) {
		return s.write(c, http.StatusOK, piece)
	}
	return s.show(c, a, shell.Frame{Title: title}, shell.Piece(title, piece))
}

// write renders into memory first: an error while rendering is still answered with the right status.
func (s *Server) write(c echo.Context, status int, page templ.Component) error {
	out := takeBuffer()
	defer giveBuffer(out)
	// Rendering asks nothing, and an error page must come out after the request's own time is over.
	if err := page.Render(context.WithoutCancel(c.Request().Context()), out); err != nil {
		return err
	}
	return s.send(c, status, out.Bytes())
}

// buffers are kept between pages: a list of a hundred rows is a quarter of a megabyte.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func takeBuffer() *bytes.Buffer { return buffers.Get().(*bytes.Buffer) }

// giveBuffer keeps a buffer for the next page, unless an uncommonly large one has swollen it.
func giveBuffer(b *bytes.Buffer) {
	if b.Cap() <= 1<<20 {
		b.Reset()
		buffers.Put(b)
	}
}

func (s *Server) send(c echo.Context, status int, html []byte) error {
	idle(c)
	if takesBrotli(c) {
		return sendBrotli(c, status, html)
	}
	return sendTo(c.Response(), c.Request(), status, html)
}

func sendTo(to http.ResponseWriter, r *http.Request, status int, html []byte) (err error) {
	h := to.Header()
	h.Set(echo.HeaderContentType, "text/html; charset=utf-8")
	h.Set(echo.HeaderVary, "HX-Request, HX-Target")
	h.Set(echo.HeaderContentLength, strconv.Itoa(len(html))) // of what is not compressed
	zip(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, err = w.Write(html)
	})).ServeHTTP(to, r)
	return err
}

func sendBrotli(c echo.Context, status int, html []byte) error {
	out := takeBuffer()
	defer giveBuffer(out)
	to := brotlis.Get().(*matchfinder.Writer)
	defer brotlis.Put(to)
	to.Reset(out)
	_, _ = to.Write(html) // a bytes.Buffer takes everything, also the end
	_ = to.Close()
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, "text/html; charset=utf-8")
	h.Set(echo.HeaderVary, "HX-Request, HX-Target")
	h.Add(echo.HeaderVary, echo.HeaderAcceptEncoding)
	h.Set(echo.HeaderContentEncoding, "br")
	h.Set(echo.HeaderContentLength, strconv.Itoa(out.Len()))
	c.Response().WriteHeader(status)
	_, err := c.Response().Write(out.Bytes())
	return err
}

// trigger writes events for htmx as JSON in ASCII: headers hold nothing else.
func trigger(events map[string]any) string {
	text, err := json.Marshal(events)
	if err != nil {
		return "{}" // maps of strings and booleans always encode
	}
	var out strings.Builder
	for _, r := range string(text) {
		if r < 0x80 {
			out.WriteRune(r)
			continue
		}
		for _, u := range utf16.Encode([]rune{r}) {
			out.WriteString(`\u` + strconv.FormatUint(uint64(u)+0x10000, 16)[1:])
		}
	}
	return out.String()
}

// localPath returns path where it is an address on this site, else "/". It keeps "return to" from leading anywhere else.
func localPath(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || !strings.HasPrefix(path, "/") ||
		strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n\t") {
		return "/"
	}
	return path
}

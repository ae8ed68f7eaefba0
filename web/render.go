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

// gzipMiddleware is the middleware that compresses fragments, and pages for browsers without brotli, with gzip from
// 1400 bytes on. Pages contain no constant secret, such as an anti-forgery token, so their compressed size reveals none
// (BREACH attack). Streams and exports bypass it; static files are compressed in advance, at a higher level. zstd is
// off, because browsers accept zstd over TLS only and its encoders hold megabytes.
var gzipMiddleware = func() func(http.Handler) http.HandlerFunc {
	wrap, err := gzhttp.NewWrapper(gzhttp.MinSize(1400), gzhttp.CompressionLevel(gzip.BestSpeed), gzhttp.EnableZstd(false))
	if err != nil {
		panic(err) // the options are constants
	}
	return wrap
}()

// brotliWriters pools brotli encoders. Brotli makes a full page a third smaller than gzip, in twice the time. It is
// used for pages that a user opens, not for automatic refreshes.
var brotliWriters = sync.Pool{New: func() any { return brotli.NewWriterV2(nil, 1) }}

func acceptsBrotli(c echo.Context) bool {
	return !isHTMXRequest(c) && static.AcceptsEncoding(c.Request().Header.Get(echo.HeaderAcceptEncoding), "br")
}

func isHTMXRequest(c echo.Context) bool { return c.Request().Header.Get("HX-Request") == "true" }

// htmxTarget returns the id of the element that htmx will fill with the response; empty for a request without htmx.
func htmxTarget(c echo.Context) string {
	if !isHTMXRequest(c) {
		return ""
	}
	return c.Request().Header.Get("HX-Target")
}

// isAutomaticRefresh reports whether the request is a page's automatic refresh of an element, or a stream. Such a
// request must not keep an idle session alive.
func isAutomaticRefresh(c echo.Context) bool {
	h := c.Request().Header
	return c.Request().Method == http.MethodGet && (routeOf(c).kind == stream ||
		isHTMXRequest(c) && h.Get("HX-Target") != "" && h.Get("HX-Target") == h.Get("HX-Trigger"))
}

// showPage answers with body inside the page layout f. If htmx requests one element, the answer is only the part of
// body inside @templ.Fragment(id) with that element's id. First render and update share this code path.
func (s *Server) showPage(c echo.Context, a fleet.Actor, f shell.PageLayout, body templ.Component) error {
	return s.showPageWithStatus(c, http.StatusOK, a, f, body)
}

// showPageWithStatus is showPage with a status: 422 for a form with its errors.
func (s *Server) showPageWithStatus(c echo.Context, status int, a fleet.Actor, f shell.PageLayout, body templ.Component) error {
	if id := htmxTarget(c); id != "" {
		var out bytes.Buffer
		if err := templ.RenderFragments(c.Request().Context(), &out, body, id); err != nil {
			return err
		}
		if out.Len() == 0 {
			return fleet.Errorf(fleet.NotFound, "This part of the page no longer exists. Reload the page.")
		}
		return s.sendHTML(c, status, out.Bytes())
	}
	f.Actor = a
	if err := s.loadPageLayout(c, &f); err != nil {
		return err
	}
	return s.writePage(c, status, shell.Layout(f, body))
}

// writeFragment answers htmx with a fragment that has a separate address: a menu, a level of the tree, suggestions.
// Without scripts it answers with a page that contains the fragment.
func (s *Server) writeFragment(c echo.Context, a fleet.Actor, title string, piece templ.Component) error {
	if isHTMXRequest(c) {
		return s.writePage(c, http.StatusOK, piece)
	}
	return s.showPage(c, a, shell.PageLayout{Title: title}, shell.FragmentPage(title, piece))
}

// writePage answers with the rendered page. It renders into memory first, so that a render error can still become
// an error response.
func (s *Server) writePage(c echo.Context, status int, page templ.Component) error {
	out := getBuffer()
	defer returnBuffer(out)
	// An error page must be rendered even after the request's deadline; rendering makes no queries that could hang.
	if err := page.Render(context.WithoutCancel(c.Request().Context()), out); err != nil {
		return err
	}
	return s.sendHTML(c, status, out.Bytes())
}

// pageBuffers pools memory for rendered pages: a list of a hundred rows takes a quarter of a megabyte.
var pageBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func getBuffer() *bytes.Buffer { return pageBuffers.Get().(*bytes.Buffer) }

// returnBuffer returns a buffer to the pool, unless an unusually large page has enlarged it.
func returnBuffer(b *bytes.Buffer) {
	if b.Cap() <= 1<<20 {
		b.Reset()
		pageBuffers.Put(b)
	}
}

func (s *Server) sendHTML(c echo.Context, status int, html []byte) error {
	releaseRefreshSlot(c)
	if acceptsBrotli(c) {
		return sendBrotli(c, status, html)
	}
	return writeCompressed(c.Response(), c.Request(), status, html)
}

func writeCompressed(to http.ResponseWriter, r *http.Request, status int, html []byte) (err error) {
	h := to.Header()
	h.Set(echo.HeaderContentType, "text/html; charset=utf-8")
	h.Set(echo.HeaderVary, "HX-Request, HX-Target")
	h.Set(echo.HeaderContentLength, strconv.Itoa(len(html))) // of the uncompressed text; gzipMiddleware corrects the header when it compresses
	gzipMiddleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, err = w.Write(html)
	})).ServeHTTP(to, r)
	return err
}

func sendBrotli(c echo.Context, status int, html []byte) error {
	out := getBuffer()
	defer returnBuffer(out)
	to := brotliWriters.Get().(*matchfinder.Writer)
	defer brotliWriters.Put(to)
	to.Reset(out)
	_, _ = to.Write(html) // a bytes.Buffer accepts every write and Close
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

// triggerHeader encodes events for the HX-Trigger header as ASCII JSON, because headers allow only ASCII.
func triggerHeader(events map[string]any) string {
	text, err := json.Marshal(events)
	if err != nil {
		return "{}" // not reached: maps of strings and booleans always encode
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

// localPath returns path if it is an address on this site, else "/". It prevents open redirects.
func localPath(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || !strings.HasPrefix(path, "/") ||
		strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n\t") {
		return "/"
	}
	return path
}

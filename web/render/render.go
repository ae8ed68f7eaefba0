// Package render renders the answers to browsers: pages in their layout, fragments for htmx, lists and CSV exports.
// render.go compresses and sends HTML, layout.go reads the layout around each page, list.go has what all lists share.
package render

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/a-h/templ"
	"github.com/andybalholm/brotli"
	"github.com/andybalholm/brotli/matchfinder"
	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzip"
	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/static"
	"quantix/views/shell"
)

// Renderer renders pages and their parts. All exported fields must be set before the first call of a method.
type Renderer struct {
	Control   *control.Control
	PublicURL string // address of the portal in browsers

	// BeforeResponse is called before a rendered page is sent. Sending may take long, because the client may read
	// slowly.
	BeforeResponse func(echo.Context)
	// BeginExportRead returns ctx with the limits for reading one page of an export, and a function that ends the read.
	BeginExportRead func(ctx context.Context, user fleet.UserID) (context.Context, func(), error)
}

// gzipMiddleware is the middleware that compresses fragments, and pages for browsers without brotli, with gzip from
// 1400 bytes on. Pages contain no constant secret, such as an anti-forgery token, so the BREACH attack cannot guess one
// from their compressed size. Streams and exports bypass it; static files are compressed in advance, at a higher level.
// zstd is off, because browsers accept zstd over TLS only and its encoders hold megabytes.
var gzipMiddleware = func() func(http.Handler) http.HandlerFunc {
	wrap, err := gzhttp.NewWrapper(gzhttp.MinSize(1400), gzhttp.CompressionLevel(gzip.BestSpeed), gzhttp.EnableZstd(false))
	if err != nil {
		panic(err) // the options are constants
	}
	return wrap
}()

// brotliLevel makes a list of 100 VMs 9 % smaller than level 1 does, in 2.7 instead of 2.0 ms.
const brotliLevel = 4

// brotliWriters pools brotli encoders. Brotli makes a full page a third smaller than gzip does, in twice the time. It
// is used for pages that a user opens, not for automatic refreshes.
var brotliWriters = sync.Pool{New: func() any { return brotli.NewWriterV2(nil, brotliLevel) }}

func acceptsBrotli(c echo.Context) bool {
	return !IsHTMXRequest(c) && static.AcceptsEncoding(c.Request().Header.Get(echo.HeaderAcceptEncoding), "br")
}

// IsHTMXRequest reports whether htmx sent the request, which expects a fragment.
func IsHTMXRequest(c echo.Context) bool { return c.Request().Header.Get("HX-Request") == "true" }

// HTMXTarget returns the id of the element whose content htmx replaces with the response. It is empty for a request
// without htmx.
func HTMXTarget(c echo.Context) string {
	if !IsHTMXRequest(c) {
		return ""
	}
	return c.Request().Header.Get("HX-Target")
}

// ShowPage answers with body inside the page layout f. If htmx requests one element, the answer is only the part of
// body inside @templ.Fragment(id) with that element's id. So the first page and its updates share one template.
func (r *Renderer) ShowPage(c echo.Context, a fleet.Actor, f shell.PageLayout, body templ.Component) error {
	return r.ShowPageWithStatus(c, http.StatusOK, a, f, body)
}

// ShowPageWithStatus is ShowPage with a status: 422 for a form with its errors.
func (r *Renderer) ShowPageWithStatus(c echo.Context, status int, a fleet.Actor, f shell.PageLayout, body templ.Component) error {
	if id := HTMXTarget(c); id != "" {
		var out bytes.Buffer
		if err := templ.RenderFragments(c.Request().Context(), &out, body, id); err != nil {
			return err
		}
		if out.Len() == 0 {
			return fleet.Errorf(fleet.NotFound, "This part of the page no longer exists. Reload the page.")
		}
		return r.sendHTML(c, status, out.Bytes())
	}
	f.Actor = a
	if err := r.loadPageLayout(c, &f); err != nil {
		return err
	}
	return r.WritePage(c, status, shell.Layout(f, body))
}

// WriteFragment answers htmx with a fragment that has a separate address: a menu, a level of the tree, suggestions.
// Without JavaScript, it answers with a page that contains the fragment.
func (r *Renderer) WriteFragment(c echo.Context, a fleet.Actor, title string, piece templ.Component) error {
	if IsHTMXRequest(c) {
		return r.WritePage(c, http.StatusOK, piece)
	}
	return r.ShowPage(c, a, shell.PageLayout{Title: title}, shell.FragmentPage(title, piece))
}

// WritePage answers with the rendered page. It renders into memory first, so that a render error can still become
// an error response.
func (r *Renderer) WritePage(c echo.Context, status int, page templ.Component) error {
	out := getBuffer()
	defer returnBuffer(out)
	// An error page must be rendered even after the request's deadline. Rendering makes no queries, so it cannot hang.
	if err := page.Render(context.WithoutCancel(c.Request().Context()), out); err != nil {
		return err
	}
	return r.sendHTML(c, status, out.Bytes())
}

// pageBuffers pools memory for rendered pages: a list of a hundred rows takes a quarter of a megabyte.
var pageBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func getBuffer() *bytes.Buffer { return pageBuffers.Get().(*bytes.Buffer) }

// returnBuffer returns a buffer to the pool. It drops a buffer that an unusually large page has enlarged.
func returnBuffer(b *bytes.Buffer) {
	if b.Cap() <= 1<<20 {
		b.Reset()
		pageBuffers.Put(b)
	}
}

func (r *Renderer) sendHTML(c echo.Context, status int, html []byte) error {
	r.BeforeResponse(c)
	if acceptsBrotli(c) {
		return sendBrotli(c, status, html)
	}
	return WriteCompressed(c.Response(), c.Request(), status, html)
}

// WriteCompressed sends html with gzip if the browser accepts it and html is large enough.
func WriteCompressed(to http.ResponseWriter, r *http.Request, status int, html []byte) (err error) {
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

// LocalPathOrRoot returns path if it is an address on this site, else "/". It prevents open redirects.
func LocalPathOrRoot(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || !strings.HasPrefix(path, "/") ||
		strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n\t") {
		return "/"
	}
	return path
}

// UploadScript is the path of the script that uploads files.
const UploadScript = "bundle/upload.js"

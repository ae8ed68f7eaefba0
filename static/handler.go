package static

import (
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
)

// contentTypes maps the extensions of served files to content types. Files of other types, such as licenses, are plain
// text. The list is fixed because mime.TypeByExtension depends on the machine.
var contentTypes = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

type asset struct {
	plain       []byte
	contentType string
	compressed  map[string]func() []byte // compressed content by encoding, computed at first use
}

// encodings are the encodings of compressed files, the best first. Each file is compressed once per encoding, at the
// highest level.
var encodings = []struct {
	name string
	to   func(io.Writer) io.WriteCloser
}{
	{"br", func(w io.Writer) io.WriteCloser { return brotli.NewWriterLevel(w, brotli.BestCompression) }},
	{"gzip", func(w io.Writer) io.WriteCloser {
		z, _ := gzip.NewWriterLevel(w, gzip.BestCompression) // NewWriterLevel fails only for an unknown level
		return z
	}},
}

func newAsset(name string, content []byte) *asset {
	contentType, ok := contentTypes[path.Ext(name)]
	if !ok {
		contentType = "text/plain; charset=utf-8"
	}
	packed := map[string]func() []byte{}
	for _, coding := range encodings {
		packed[coding.name] = sync.OnceValue(func() []byte { return compress(content, coding.to) })
	}
	return &asset{plain: content, contentType: contentType, compressed: packed}
}

func compress(content []byte, to func(io.Writer) io.WriteCloser) []byte {
	var out bytes.Buffer
	writer := to(&out)
	_, _ = writer.Write(content) // not checked: writes to a bytes.Buffer cannot fail
	_ = writer.Close()
	return out.Bytes()
}

func sortedNames(assets map[string]*asset) []string {
	return slices.Sorted(maps.Keys(assets))
}

// Handler returns the handler that serves every asset below Prefix, as immutable and, if the browser accepts it,
// compressed. It needs no compressing middleware. A path with the hash of another build answers 404, so that an
// outdated page fails visibly instead of mixing versions.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			header.Set("Allow", "GET, HEAD")
			http.Error(w, "Static files can only be read.", http.StatusMethodNotAllowed)
			return
		}
		name, inTree := strings.CutPrefix(r.URL.Path, base)
		file, known := assets[name]
		if !inTree || !known {
			header.Set("Cache-Control", "no-store")
			http.Error(w, "There is no such file in this version. Reload the page.", http.StatusNotFound)
			return
		}
		header.Set("Cache-Control", "public, max-age=31536000, immutable")
		header.Set("Content-Type", file.contentType)
		header.Set("Vary", "Accept-Encoding")
		body := file.plain
		if coding := bestEncoding(r.Header.Get("Accept-Encoding")); coding != "" {
			header.Set("Content-Encoding", coding)
			body = file.compressed[coding]()
		}
		header.Set("Content-Length", strconv.Itoa(len(body)))
		if r.Method == http.MethodGet {
			_, _ = w.Write(body) // the browser has disconnected
		}
	})
}

// bestEncoding returns the best encoding of compressed files that accepted, the value of an Accept-Encoding header,
// allows; empty: none.
func bestEncoding(accepted string) string {
	for _, coding := range encodings {
		if AcceptsEncoding(accepted, coding.name) {
			return coding.name
		}
	}
	return ""
}

// AcceptsEncoding reports whether accepted, the value of an Accept-Encoding header, allows the content coding.
func AcceptsEncoding(accepted, coding string) bool {
	for one := range strings.SplitSeq(accepted, ",") {
		name, quality, _ := strings.Cut(strings.TrimSpace(one), ";")
		quality = strings.ReplaceAll(quality, " ", "")
		if strings.TrimSpace(name) == coding && quality != "q=0" && quality != "q=0.0" {
			return true
		}
	}
	return false
}

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

// contentTypes names what may be served; a file of another kind (a licence, say) is plain text.
// The list is fixed because mime.TypeByExtension asks the machine it runs on.
var contentTypes = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

type asset struct {
	plain       []byte
	contentType string
	packed      map[string]func() []byte // by coding
}

// codings are what files are compressed with, the best first. Each is as hard as it goes, and done once.
var codings = []struct {
	name string
	to   func(io.Writer) io.WriteCloser
}{
	{"br", func(w io.Writer) io.WriteCloser { return brotli.NewWriterLevel(w, brotli.BestCompression) }},
	{"gzip", func(w io.Writer) io.WriteCloser {
		z, _ := gzip.NewWriterLevel(w, gzip.BestCompression) // fails only for an unknown level
		return z
	}},
}

func newAsset(name string, content []byte) *asset {
	contentType, ok := contentTypes[path.Ext(name)]
	if !ok {
		contentType = "text/plain; charset=utf-8"
	}
	packed := map[string]func() []byte{}
	for _, coding := range codings {
		packed[coding.name] = sync.OnceValue(func() []byte { return compress(content, coding.to) })
	}
	return &asset{plain: content, contentType: contentType, packed: packed}
}

func compress(content []byte, to func(io.Writer) io.WriteCloser) []byte {
	var out bytes.Buffer
	writer := to(&out)
	_, _ = writer.Write(content) // a bytes.Buffer takes everything, also the end
	_ = writer.Close()
	return out.Bytes()
}

func sortedNames(assets map[string]*asset) []string {
	return slices.Sorted(maps.Keys(assets))
}

// Handler serves every asset below Prefix: immutable, compressed where the browser takes it. Each is compressed once, as far as it
// goes, which no handler that compresses answers on their way does.
// A name from another build answers 404, so that a stale page fails loudly instead of mixing versions.
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
		if coding := taken(r.Header.Get("Accept-Encoding")); coding != "" {
			header.Set("Content-Encoding", coding)
			body = file.packed[coding]()
		}
		header.Set("Content-Length", strconv.Itoa(len(body)))
		if r.Method == http.MethodGet {
			_, _ = w.Write(body) // the browser went away: nothing to do about it
		}
	})
}

// taken is the best of codings that is accepted; empty: none.
func taken(accepted string) string {
	for _, coding := range codings {
		if Takes(accepted, coding.name) {
			return coding.name
		}
	}
	return ""
}

// Takes reports whether a browser that sends accepted as its Accept-Encoding takes coding.
func Takes(accepted, coding string) bool {
	for one := range strings.SplitSeq(accepted, ",") {
		name, quality, _ := strings.Cut(strings.TrimSpace(one), ";")
		quality = strings.ReplaceAll(quality, " ", "")
		if strings.TrimSpace(name) == coding && quality != "q=0" && quality != "q=0.0" {
			return true
		}
	}
	return false
}

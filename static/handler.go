package static

import (
	"bytes"
	"compress/gzip"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
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
	gzipped     func() []byte
}

func newAsset(name string, content []byte) *asset {
	contentType, ok := contentTypes[path.Ext(name)]
	if !ok {
		contentType = "text/plain; charset=utf-8"
	}
	return &asset{
		plain:       content,
		contentType: contentType,
		gzipped:     sync.OnceValue(func() []byte { return compress(content) }),
	}
}

func compress(content []byte) []byte {
	var out bytes.Buffer
	writer, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // fails only for an unknown level
	_, _ = writer.Write(content)                                 // a bytes.Buffer takes everything, also the end
	_ = writer.Close()
	return out.Bytes()
}

func sortedNames(assets map[string]*asset) []string {
	return slices.Sorted(maps.Keys(assets))
}

// Handler serves every asset below Prefix: immutable, gzipped where the browser takes it. Each is compressed once, as far as it
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
		if takesGzip(r.Header.Get("Accept-Encoding")) {
			header.Set("Content-Encoding", "gzip")
			body = file.gzipped()
		}
		header.Set("Content-Length", strconv.Itoa(len(body)))
		if r.Method == http.MethodGet {
			_, _ = w.Write(body) // the browser went away: nothing to do about it
		}
	})
}

func takesGzip(accepted string) bool {
	for coding := range strings.SplitSeq(accepted, ",") {
		name, quality, _ := strings.Cut(strings.TrimSpace(coding), ";")
		quality = strings.ReplaceAll(quality, " ", "")
		if strings.TrimSpace(name) == "gzip" && quality != "q=0" && quality != "q=0.0" {
			return true
		}
	}
	return false
}

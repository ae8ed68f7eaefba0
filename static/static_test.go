package static_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"

	"quantix/static"
	"quantix/static/internal/sources"
)

// The committed bundle must be generated from the current sources.
func TestBundleMatchesSources(t *testing.T) {
	t.Parallel()
	want, err := sources.HashSources(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	made, err := os.ReadFile("bundle/SOURCES")
	if err != nil || strings.TrimSpace(string(made)) != want {
		t.Errorf("static/bundle was made of other files: go run ./static/internal/bundle (%v)", err)
	}
}

func getAsset(t *testing.T, url string, header ...string) *http.Response {
	t.Helper()
	request := httptest.NewRequest(http.MethodGet, url, nil)
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	recorder := httptest.NewRecorder()
	static.Handler().ServeHTTP(recorder, request)
	return recorder.Result()
}

func readBody(t *testing.T, r io.Reader) string {
	t.Helper()
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestAssetsHaveCacheAndTypeHeaders(t *testing.T) {
	t.Parallel()
	for name, contentType := range map[string]string{
		"app.css":                          "text/css; charset=utf-8",
		"js/app.js":                        "text/javascript; charset=utf-8",
		"icons.svg":                        "image/svg+xml",
		"vendor/novnc/core/rfb.js":         "text/javascript; charset=utf-8",
		"vendor/htmx/htmx.min.js":          "text/javascript; charset=utf-8",
		"vendor/novnc/LICENSE.txt":         "text/plain; charset=utf-8",
		"vendor/idiomorph/LICENSE":         "text/plain; charset=utf-8",
		"vendor/novnc/vendor/pako/LICENSE": "text/plain; charset=utf-8",
	} {
		response := getAsset(t, static.Path(name))
		if response.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d", name, response.StatusCode)
		}
		if got := response.Header.Get("Content-Type"); got != contentType {
			t.Errorf("%s: content type %q, want %q", name, got, contentType)
		}
		if got := response.Header.Get("Cache-Control"); got != "public, max-age=31536000, immutable" {
			t.Errorf("%s: Cache-Control %q", name, got)
		}
	}
}

func TestAssetEncodingFollowsAcceptEncoding(t *testing.T) {
	t.Parallel()
	plain := readBody(t, getAsset(t, static.Path("app.css")).Body)
	for accepted, want := range map[string]string{
		"gzip": "gzip", "br, gzip;q=0.8": "br", "": "", "identity": "", "gzip;q=0": "", "br;q=0, gzip": "gzip", "gzip, deflate, br, zstd": "br", "zstd": "",
	} {
		response := getAsset(t, static.Path("app.css"), "Accept-Encoding", accepted)
		if got := response.Header.Get("Content-Encoding"); got != want {
			t.Errorf("Accept-Encoding %q: got encoding %q, want %q", accepted, got, want)
			continue
		}
		if want == "" {
			continue
		}
		var unzipped io.Reader = brotli.NewReader(response.Body)
		if want == "gzip" {
			var err error
			if unzipped, err = gzip.NewReader(response.Body); err != nil {
				t.Fatal(err)
			}
		}
		if readBody(t, unzipped) != plain {
			t.Errorf("Accept-Encoding %q: the unzipped file differs", accepted)
		}
	}
}

func TestAssetRequestsWithWrongPathOrMethodRefused(t *testing.T) {
	t.Parallel()
	tree := strings.TrimSuffix(static.Path("app.css"), "app.css")
	for _, url := range []string{"/static/0123456789ab/app.css", "/static/app.css", "/static/", tree, tree + "js/", tree + "js", tree + "static.go", tree + "js/../app.css", tree + "vendor.json"} {
		response := getAsset(t, url)
		if response.StatusCode != http.StatusNotFound || response.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: status %d, Cache-Control %q; want 404 and no-store", url, response.StatusCode, response.Header.Get("Cache-Control"))
		}
	}
	recorder := httptest.NewRecorder()
	static.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, static.Path("app.css"), nil))
	if recorder.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: status %d, want 405", recorder.Code)
	}
}

func TestHeadRequestGetsNoBody(t *testing.T) {
	t.Parallel()
	recorder := httptest.NewRecorder()
	static.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodHead, static.Path("app.css"), nil))
	if recorder.Body.Len() != 0 || recorder.Header().Get("Content-Length") == "0" {
		t.Errorf("HEAD: %d bytes of body, Content-Length %s", recorder.Body.Len(), recorder.Header().Get("Content-Length"))
	}
}

func TestPathPanicsForUnknownAsset(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(){
		"path":   func() { static.Path("nothing.css") },
		"sprite": func() { static.IconURL("no-such-icon") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: an unknown name did not panic", name)
				}
			}()
			call()
		}()
	}
}

func TestSpriteContainsEveryListedIcon(t *testing.T) {
	t.Parallel()
	var list struct {
		Packages []struct{ Icons []string }
	}
	text, err := os.ReadFile("vendor.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	icons := []string{"quantix"}
	for _, p := range list.Packages {
		icons = append(icons, p.Icons...)
	}
	for _, icon := range icons {
		if !strings.HasSuffix(static.IconURL(icon), "icons.svg#"+icon) {
			t.Errorf("%s: %s", icon, static.IconURL(icon))
		}
	}
}

var importPathPattern = regexp.MustCompile(`(?m)(?:^|;)(?:import|export)\b[^"'\n]*["'](\.[^"']+)["']|new URL\("(\./[^"]+)"`)

// A module that imports a missing file disables all scripts of a page, which only a browser notices.
func TestEveryImportedModuleExists(t *testing.T) {
	t.Parallel()
	imports := 0
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".js") || strings.HasPrefix(name, "internal/") || strings.HasPrefix(name, "testdata/") {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, match := range importPathPattern.FindAllStringSubmatch(string(text), -1) {
			imports++
			static.Path(path.Join(path.Dir(name), match[1]+match[2]))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if imports < 80 {
		t.Errorf("saw only %d imports: the search for them is broken", imports)
	}
}

// A first page may have 55 KB with its HTML and all headers, which leaves 44 KB for its assets.
func TestUncachedPageAssetsWithinSizeBudget(t *testing.T) {
	t.Parallel()
	const most = 44 << 10
	names := []string{"bundle/app.css", "icons.svg", "mark.svg", "bundle/theme.js", "bundle/app.js", "bundle/live-worker.js", "vendor/htmx/htmx.min.js", "vendor/idiomorph/idiomorph-ext.min.js"}
	for _, entry := range []string{"bundle/app.js", "bundle/live-worker.js"} {
		text, err := os.ReadFile(entry)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range importPathPattern.FindAllStringSubmatch(string(text), -1) {
			if name := path.Join("bundle", match[1]+match[2]); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if len(names) > 11 {
		t.Errorf("the first page loads %d files: %s", len(names), names)
	}
	total := 0
	for _, name := range names {
		total += len(readBody(t, getAsset(t, static.Path(name), "Accept-Encoding", "gzip, deflate, br, zstd").Body))
	}
	t.Logf("%d files, %d bytes compressed", len(names), total)
	if total > most {
		t.Errorf("the first page loads %d bytes of assets compressed; at most %d", total, most)
	}
}

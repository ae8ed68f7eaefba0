//go:build linux

package static_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"quantix/static"
)

// modulePage is the page that runs one test file. The page maps "js/…" imports to the modules that the portal serves.
const modulePage = `<!doctype html><html data-user="ann"><head><meta charset="utf-8">
<script>
	window.results = new Promise((done) => { window.finish = done; });
	const failed = (why) => finish([{ name: "load", error: String(why) }]);
	addEventListener("error", (event) => failed(event.message));
	addEventListener("unhandledrejection", (event) => failed(event.reason));
</script>
<script src="%[1]svendor/htmx/htmx.min.js"></script>
<script src="%[1]svendor/idiomorph/idiomorph-ext.min.js"></script>
<script type="importmap">{"imports": {"js/": "%[1]sjs/"}}</script>
<script type="module">
	import { run } from "/test/harness.js";
	await import("/test/%[2]s");
	finish(await run());
</script></head><body></body></html>`

// TestBrowserModulesPassTheirTests runs each testdata/modules/*.test.js in a page of a real browser.
func TestBrowserModulesPassTheirTests(t *testing.T) {
	t.Parallel()
	base := strings.TrimSuffix(static.Path("app.css"), "app.css")
	mux := http.NewServeMux()
	mux.Handle(static.Prefix, static.Handler())
	mux.Handle("/test/", http.StripPrefix("/test/", http.FileServer(http.Dir("testdata/modules"))))
	mux.Handle("/keymaps/", http.StripPrefix("/keymaps/", http.FileServer(http.Dir("/usr/share/qemu/keymaps"))))
	mux.HandleFunc("/page/{name}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, modulePage, base, r.PathValue("name"))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	browser := startBrowser(t)
	files, err := filepath.Glob("testdata/modules/*.test.js")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no tests", err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(strings.TrimSuffix(name, ".test.js"), func(t *testing.T) {
			t.Parallel()
			for _, r := range runModule(t, browser, server.URL+"/page/"+name) {
				t.Run(r.Name, func(t *testing.T) {
					if r.Error != "" {
						t.Error(r.Error)
					}
				})
			}
		})
	}
}

type moduleResult struct{ Name, Error string }

// runModule runs one test file in a page. Other tests create and delete network devices on this machine, and the
// browser then aborts its requests. A page whose modules are not loaded never reports results, so an aborted request
// ends the attempt, and the page is loaded again.
func runModule(t *testing.T, browser context.Context, address string) (results []moduleResult) {
	t.Helper()
	tab, closeTab := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	defer closeTab()
	ctx, cancel := context.WithTimeout(tab, time.Minute)
	defer cancel()
	aborted := make(chan struct{}, 1)
	err := chromedp.Listen(ctx, func(event any) {
		if e, is := event.(*network.EventLoadingFailed); is && strings.Contains(e.ErrorText, "ERR_NETWORK_CHANGED") {
			select {
			case aborted <- struct{}{}:
			default:
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for again := true; again && ctx.Err() == nil; {
		again, results, err = loadModulePage(ctx, aborted, address)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(results) == 0 {
		t.Error("no test ran")
	}
	return results
}

// loadModulePage loads the page and waits for its results. again is true if the browser aborted a request meanwhile.
func loadModulePage(ctx context.Context, aborted <-chan struct{}, address string) (again bool, results []moduleResult, err error) {
	attempt, end := context.WithCancel(ctx)
	watched := make(chan bool)
	go func() {
		select {
		case <-aborted:
			end()
			watched <- true
		case <-attempt.Done():
			watched <- false
		}
	}()
	if err = chromedp.Do(attempt, chromedp.Navigate(address)); err == nil {
		results, err = chromedp.Run(attempt, chromedp.Evaluate[[]moduleResult]("window.results", chromedp.EvalAwaitPromise))
	}
	end()
	return <-watched, results, err
}

// startBrowser starts a browser, which is stopped when the test ends.
func startBrowser(t *testing.T) context.Context {
	t.Helper()
	dir := t.TempDir()
	options := []chromedp.ExecAllocatorOption{
		chromedp.NoSandbox, chromedp.Headless, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.UserDataDir(dir), chromedp.Env("TMPDIR=" + dir),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("disable-renderer-backgrounding", true), chromedp.Flag("disable-backgrounding-occluded-windows", true),
		chromedp.ModifyCmdFunc(func(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }),
	}
	allocator, endAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(allocator)
	started, over := make(chan error), make(chan struct{})
	go func() { // the kernel sends the signal when the thread that started the browser ends
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		started <- chromedp.Do(ctx)
		<-over
	}()
	t.Cleanup(func() {
		end()
		endAllocator()
		close(over)
	})
	if err := <-started; err != nil {
		t.Fatalf("start chromium (quantix doctor test --install installs it): %v", err)
	}
	return ctx
}

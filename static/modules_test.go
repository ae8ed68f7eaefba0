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
	"sync/atomic"
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

// runModule runs one test file in a page. It repeats the run if the browser aborts requests because a network device
// appeared or disappeared, because other tests create and delete devices on this machine.
func runModule(t *testing.T, browser context.Context, address string) (results []moduleResult) {
	t.Helper()
	tab, closeTab := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	defer closeTab()
	ctx, cancel := context.WithTimeout(tab, time.Minute)
	defer cancel()
	var cuts atomic.Int32
	err := chromedp.Listen(ctx, func(event any) {
		if e, is := event.(*network.EventLoadingFailed); is && strings.Contains(e.ErrorText, "ERR_NETWORK_CHANGED") {
			cuts.Add(1)
		}
	})
	for again := err == nil; again; again = cuts.Swap(0) > 0 && ctx.Err() == nil {
		if err = chromedp.Do(ctx, chromedp.Navigate(address)); err == nil {
			results, err = chromedp.Run(ctx, chromedp.Evaluate[[]moduleResult]("window.results", chromedp.EvalAwaitPromise))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(results) == 0 {
		t.Error("no test ran")
	}
	return results
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

//go:build linux

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// chromium is the only browser process of a test run. All tabs are in it.
var chromium struct {
	once sync.Once
	ctx  context.Context
	stop func()
	err  error
}

func startBrowser() {
	dir := filepath.Join(root, "browser")
	options := []chromedp.ExecAllocatorOption{
		chromedp.NoSandbox, chromedp.Headless, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.UserDataDir(dir),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("force-color-profile", "srgb"), chromedp.Flag("hide-scrollbars", true),
		// Tabs in the background must run like tabs in the foreground.
		chromedp.Flag("disable-renderer-backgrounding", true), chromedp.Flag("disable-background-timer-throttling", true),
		chromedp.Flag("disable-backgrounding-occluded-windows", true),
		chromedp.ModifyCmdFunc(func(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }),
	}
	allocator, endAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(allocator)
	started := make(chan error)
	stopped := make(chan struct{})
	onOwnThread(func() {
		started <- chromedp.Do(ctx)
		<-stopped
	})
	chromium.err = <-started
	chromium.ctx = ctx
	chromium.stop = func() {
		end()
		endAllocator()
		close(stopped)
	}
}

func stopBrowser() {
	if chromium.stop != nil {
		chromium.stop()
	}
}

// tab is a tab of the browser. Its methods fail the test with an explanation; a failed test saves a screenshot of the
// tab.
type tab struct {
	*testing.T
	ctx  context.Context
	base string // URL of the portal
	menu func() // opens the menu for a screenshot; it is called again after each resize, which closes menus; nil: no menu

	mu       sync.Mutex
	faults   []string
	expected []string // texts in faults that the test provokes
	cuts     int      // number of requests that the browser aborted because a network device appeared or disappeared
}

// newTab opens a tab in a window of its own, without cookies. When the test ends, browser faults in the tab fail it:
// console errors, script exceptions, violations of the content security policy, and failed requests.
func newTab(t *testing.T, base string) *tab {
	t.Helper()
	chromium.once.Do(startBrowser)
	if chromium.err != nil {
		t.Fatalf("start chromium: %v", chromium.err)
	}
	ctx, cancel := chromedp.NewContext(chromium.ctx, chromedp.WithNewBrowserContext())
	return attachTab(t, ctx, cancel, base)
}

// sameBrowserTab opens a tab that shares this tab's cookies.
func (p *tab) sameBrowserTab() *tab {
	p.Helper()
	ctx, cancel := chromedp.NewContext(p.ctx)
	return attachTab(p.T, ctx, cancel, p.base)
}

func attachTab(t *testing.T, ctx context.Context, cancel context.CancelFunc, base string) *tab {
	t.Helper()
	p := &tab{T: t, ctx: ctx, base: base}
	t.Cleanup(func() {
		if t.Failed() {
			p.savePicture(pictureName(t.Name()) + "-failed")
		}
		cancel()
		for _, f := range p.unexpectedFaults() {
			t.Errorf("browser fault: %s", f)
		}
	})
	if err := chromedp.Listen(ctx, p.recordFault); err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	p.setWindowSize(1440, 900)
	// Each tab must behave as if it had the focus, although other tabs open and close.
	p.runActions("hold the focus", chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
		return err
	}))
	return p
}

// recordFault records browser faults. It runs inside the loop that reads the browser's messages, so it must not wait.
func (p *tab) recordFault(event any) {
	fault := ""
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "assert" {
			parts := []string{"console:"}
			for _, a := range e.Args {
				parts = append(parts, fmt.Sprintf("%s%s", a.Value, a.Description))
			}
			fault = strings.Join(parts, " ")
		}
	case *runtime.EventExceptionThrown:
		fault = (&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error()
	case *log.EventEntryAdded:
		if e.Entry.Level == "error" {
			fault = fmt.Sprintf("%s: %s (%s)", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case *network.EventLoadingFailed:
		if !e.Canceled && e.ErrorText != "net::ERR_ABORTED" {
			fault = fmt.Sprintf("request failed: %s %s", e.Type, e.ErrorText)
		}
	}
	if fault == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if strings.Contains(fault, networkChanged) {
		// Labs create and remove bridges on this machine, and the browser then aborts its requests.
		p.cuts++
		p.expected = append(p.expected, "htmx:sendError", "htmx:afterRequest")
		return
	}
	if n := len(p.faults); strings.Contains(fault, "htmx:sendAbort") && n > 0 && strings.Contains(p.faults[n-1], "htmx:afterRequest") {
		// A newer request of the same form replaced this one (hx-sync), which htmx reports by these two errors.
		p.faults = p.faults[:n-1]
		return
	}
	p.faults = append(p.faults, fault)
}

const networkChanged = "ERR_NETWORK_CHANGED"

func (p *tab) networkChangeCuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

// allowFaults allows later faults that contain one of these texts.
func (p *tab) allowFaults(parts ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = append(p.expected, parts...)
}

func (p *tab) unexpectedFaults() (out []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		known := false
		for _, part := range p.expected {
			known = known || strings.Contains(f, part)
		}
		if !known {
			out = append(out, f)
		}
	}
	return out
}

// runActions runs the actions within stepLimit.
func (p *tab) runActions(what string, steps ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, stepLimit)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.Fatalf("%s: %v", what, err)
	}
}

// evalJS evaluates a JavaScript expression in the page.
func evalJS[T any](p *tab, expression string, options ...chromedp.EvaluateOption) (T, error) {
	ctx, cancel := context.WithTimeout(p.ctx, stepLimit)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, options...))
}

func (p *tab) setWindowSize(width, height int64) {
	p.Helper()
	p.runActions("set the window's size", chromedp.EmulateViewport(width, height))
}

// pictureDir returns the directory for screenshots, which QUANTIX_TEST_SCREENSHOTS names. Without the variable,
// screenshots of failures are stored in the system's temporary directory, and all others are deleted after the run.
func (p *tab) pictureDir() string {
	if dir := os.Getenv(picturesVariable); dir != "" {
		return dir
	}
	if p.Failed() {
		return filepath.Join(os.TempDir(), "quantix-screenshots")
	}
	return filepath.Join(root, "pictures")
}

func pictureName(test string) string { return strings.NewReplacer("/", "-", " ", "_").Replace(test) }

// savePicture saves a screenshot of the tab. It also works after the test has failed.
func (p *tab) savePicture(name string) {
	dir := p.pictureDir()
	ctx, cancel := context.WithTimeout(p.ctx, 10*time.Second)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	file := filepath.Join(dir, name+".png")
	if err == nil {
		err = os.WriteFile(file, png, 0o644)
	}
	if err != nil {
		p.Logf("no screenshot %s: %v", name, err)
		return
	}
	if p.Failed() {
		p.Logf("screenshot: %s", file)
	}
}

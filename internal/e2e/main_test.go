//go:build linux

package e2e

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quantix/internal/testkit/tier"
)

// root is the directory for all files of a test run. Its path is short, because paths of Unix sockets below it are
// limited. It is removed at the end of the run.
var root string

func TestMain(m *testing.M) {
	var err error
	if root, err = os.MkdirTemp("/var/tmp", "qxe-"); err == nil {
		err = os.Chmod(root, 0o755) // PostgreSQL and QEMU run as other users
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	flag.Parse()
	if runtime.GOMAXPROCS(0) < atOnce {
		// The tests mostly wait for other processes, so more tests run in parallel than there are processors.
		_ = flag.Set("test.parallel", strconv.Itoa(atOnce))
	}
	release, err := tier.AcquireGuestSlot()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	code := m.Run()
	if err := cleanUp(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: left behind:", err)
		code = max(code, 1)
	}
	release()
	os.Exit(code)
}

// cleanUp stops the shared programs and the browser, and returns an error that names what they left behind.
func cleanUp() error {
	stopBrowser()
	var errs []error
	for _, shared := range []*sharedProgram{labProgram, demoProgram} {
		errs = append(errs, shared.end())
	}
	errs = append(errs, checkLeftovers(root), os.RemoveAll(root))
	return errors.Join(errs...)
}

// binary builds the program, once per test run, and returns the program's path.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(root, "quantix")
	out, err := exec.Command("go", "build", "-o", path, "quantix").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the program: %w: %s", err, out)
	}
	return path, nil
})

const (
	atOnce     = 4                 // number of parallel tests
	readyLimit = 150 * time.Second // for a lab to start on a busy machine, including the build of the guest image
	endLimit   = 60 * time.Second
	stepLimit  = 30 * time.Second // for one change on a page
	pollEvery  = 50 * time.Millisecond
)

// eventually polls until done returns true. After limit it fails the test with the last reason that done returned.
func eventually(t testing.TB, limit time.Duration, what string, done func() (ok bool, why string)) {
	t.Helper()
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		ok, why := done()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen within %s: %s", what, limit, why)
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("%s: the test has ended", what)
		}
	}
}

// onOwnThread runs f on an OS thread of its own, because Pdeathsig kills a child when the thread that started it ends.
func onOwnThread(f func()) {
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		f()
	}()
}

var names atomic.Int64

// uniqueName returns a name that no other test and no other run of the same test has used.
func uniqueName(name string) string { return fmt.Sprintf("%s-%d", name, names.Add(1)) }

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

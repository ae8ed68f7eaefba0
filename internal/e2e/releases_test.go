//go:build linux

package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"quantix/internal/release"
)

// releases is a directory with releases of the agent, signed by the program's own commands.
type releases struct {
	dir, keyFile, publicKey string
}

func newReleases(t *testing.T) *releases {
	t.Helper()
	o := &releases{dir: filepath.Join(root, uniqueName("releases"))}
	o.keyFile = o.dir + ".key"
	if err := os.Mkdir(o.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	o.publicKey = strings.TrimSpace(runQuantix(t, "release", "keygen", o.keyFile))
	return o
}

// runQuantix runs a command of the program and returns its output.
func runQuantix(t *testing.T, args ...string) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	out, err := commandOutput(t.Context(), path, args...)
	if err != nil {
		t.Fatalf("quantix %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return out
}

func (o *releases) path(version string) string {
	return filepath.Join(o.dir, release.FileName(version, release.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}))
}

// offerScript offers a program that prints the version, and does body as an agent.
func (o *releases) offerScript(t *testing.T, version, body string) {
	t.Helper()
	text := "#!/bin/sh\nif [ \"$1\" = version ]; then echo 'quantix " + version + " (test)'; exit; fi\n" + body + "\n"
	if err := os.WriteFile(o.path(version), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	runQuantix(t, "release", "sign", o.path(version), "--key", o.keyFile)
	runQuantix(t, "release", "verify", o.path(version), "--key", o.publicKey)
}

// offerScriptOfOtherKey offers a program whose key no host trusts.
func (o *releases) offerScriptOfOtherKey(t *testing.T, version string) {
	t.Helper()
	other := &releases{dir: o.dir, keyFile: o.keyFile + "-other"}
	other.publicKey = strings.TrimSpace(runQuantix(t, "release", "keygen", other.keyFile))
	other.offerScript(t, version, "exit 0")
}

// corrupt changes the offered program after its signature, without a change of its size.
func (o *releases) corrupt(t *testing.T, version string) {
	t.Helper()
	text, err := os.ReadFile(o.path(version))
	if err == nil {
		err = os.WriteFile(o.path(version), []byte(strings.Replace(string(text), "exit 0", "exit 1", 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// offerBuild offers a build of this repository with the version.
func (o *releases) offerBuild(t *testing.T, version string) {
	t.Helper()
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags", "-X quantix/internal/cli.Version="+version, "-o", o.path(version), "quantix")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build version %s: %v: %s", version, err, out)
	}
	runQuantix(t, "release", "sign", o.path(version), "--key", o.keyFile)
}

// installProgram copies the program, so that an upgrade replaces only the copy, and returns the copy's path.
func (o *releases) installProgram(t *testing.T, dir string) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(dir, "bin", "quantix")
	text, err := os.ReadFile(path)
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, text, 0o755)) //nolint:gosec // a program
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// processesWithProgram returns the processes whose program has the path, also if it was replaced since their start.
func processesWithProgram(path string) (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if exe, err := os.Readlink(filepath.Join("/proc", e.Name(), "exe")); err == nil && strings.TrimSuffix(exe, " (deleted)") == path {
			pids = append(pids, pid)
		}
	}
	return pids
}

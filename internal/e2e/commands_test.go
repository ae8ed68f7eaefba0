//go:build linux && ordeal

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestReadyLineHasStableKeys checks the keys of the JSON line that demo and lab print for scripts.
func TestReadyLineHasStableKeys(t *testing.T) {
	t.Parallel()
	for _, shared := range []*sharedProgram{demoProgram, labProgram} {
		t.Run(shared.name, func(t *testing.T) {
			t.Parallel()
			s := shared.get(t)
			var line map[string]json.RawMessage
			if err := json.Unmarshal([]byte(s.line), &line); err != nil {
				t.Fatal(err)
			}
			if got, want := slices.Sorted(maps.Keys(line)), []string{"apiToken", "hosts", "password", "url", "user"}; !slices.Equal(got, want) {
				t.Errorf("the line has the keys %v, want %v", got, want)
			}
			var hosts []map[string]string
			if err := json.Unmarshal(line["hosts"], &hosts); err != nil {
				t.Fatal(err)
			}
			for _, h := range hosts {
				if got, want := slices.Sorted(maps.Keys(h)), []string{"libvirtUri", "name"}; !slices.Equal(got, want) {
					t.Errorf("a host has the keys %v, want %v", got, want)
				}
			}
			if s.User != "admin" || s.Password == "" || s.APIToken == "" || !strings.HasPrefix(s.URL, "http://127.0.0.1:") {
				t.Errorf("the ready line has a wrong user or URL, or no password or API token: %s", s.line)
			}
			if want := map[string]int{"demo": 3, "lab": 2}[shared.name]; len(s.Hosts) != want {
				t.Fatalf("%d hosts, want %d", len(s.Hosts), want)
			}
			for _, h := range s.Hosts {
				if shared.name == "demo" {
					if h.LibvirtURI != "" {
						t.Errorf("the simulated host %s has the libvirt address %s", h.Name, h.LibvirtURI)
					}
				} else if got := virsh(t, h, "hostname"); got != h.Name {
					t.Errorf("libvirt at %s has the hostname %s, want %s", h.LibvirtURI, got, h.Name)
				}
			}
		})
	}
}

// TestLabClosedToOtherUsers checks that the user nobody can neither read nor write any file of a running lab.
func TestLabClosedToOtherUsers(t *testing.T) {
	t.Parallel()
	labProgram.get(t)
	var paths bytes.Buffer
	err := filepath.WalkDir(labDir(), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the file was removed in the meantime
		}
		if err == nil && d.Type()&fs.ModeSymlink == 0 {
			paths.WriteString(path + "\x00")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "xargs", "-0", "sh", "-c", `for f; do if [ -r "$f" ] || [ -w "$f" ]; then echo "$f"; fi; done`, "sh")
	cmd.Stdin = &paths
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("the user nobody can read or write (%v):\n%s", err, out)
	}
}

// TestInterruptedLabRemovesProcessesMountsAndBridges stops a lab by Ctrl-C during its start. No process, mount or
// bridge may remain.
func TestInterruptedLabRemovesProcessesMountsAndBridges(t *testing.T) {
	t.Parallel()
	temp := filepath.Join(root, uniqueName("i"))
	if err := os.Mkdir(temp, 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := launch(filepath.Base(temp), []string{"TMPDIR=" + temp}, "lab", "--json", "--listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		var out lockedBuffer
		_, _ = out.b.ReadFrom(p.out)
		p.reap()
	}()
	var dirs []string
	eventually(t, readyLimit, "the start of a libvirt host", func() (bool, string) {
		dirs, _ = filepath.Glob(filepath.Join(temp, "quantix-lab-*", "h?", "run", "libvirtd.pid"))
		return len(dirs) > 0, lastLinesOfFile(p.log, 5)
	})
	used := bridgesOfHosts(filepath.Dir(filepath.Dir(dirs[0])))
	if err := p.signal(syscall.SIGINT); err != nil {
		t.Errorf("the lab ended with %v after Ctrl-C:\n%s", err, lastLinesOfFile(p.log, 20))
	}
	if err := checkLeftovers(temp); err != nil {
		t.Errorf("the interrupted lab left %v", err)
	}
	for _, b := range used {
		if b.stillExists() {
			t.Errorf("the bridge %s is still there", b.name)
		}
	}
	entries, err := os.ReadDir(temp)
	if err != nil || len(entries) > 0 {
		t.Errorf("the interrupted lab left in the temporary folder: %v (%v)", entries, err)
	}
}

// TestUnknownSettingErrorNamesLine checks that the error for a misspelt key in a settings file names its line.
func TestUnknownSettingErrorNamesLine(t *testing.T) {
	t.Parallel()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "portal.yaml")
	writeFile(t, file, "dataDir: /nowhere\n\nlistne: 127.0.0.1:1\n")
	out, err := commandOutput(t.Context(), path, "portal", "--config", file)
	if err == nil {
		t.Fatal("the portal started")
	}
	for _, want := range []string{"listne", "line 3"} {
		if !strings.Contains(out, want) && !strings.Contains(out, ":3") {
			t.Errorf("the refusal does not name %q: %s", want, out)
		}
	}
	if !strings.Contains(out, "listne") {
		t.Errorf("the refusal does not name the key: %s", out)
	}
}

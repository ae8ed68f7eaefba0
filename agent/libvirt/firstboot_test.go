//go:build linux

package libvirt_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"

	"quantix/agent/seed"
	"quantix/internal/fleet"
)

// seedsOf are the files that lie on the host for the VM, each by its names.
func seedsOf(t *testing.T, id fleet.VMID) []map[string]string {
	t.Helper()
	var out []map[string]string
	dir := filepath.Join(seed.Dir, string(id))
	all, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range all {
		path := filepath.Join(dir, e.Name())
		info := must(os.Stat(path))
		if info.Mode() != 0o600 {
			t.Errorf("%s has the mode %v", path, info.Mode())
		}
		if strings.HasSuffix(path, ".ign") {
			out = append(out, map[string]string{"config.ign": string(must(os.ReadFile(path)))})
			continue
		}
		out = append(out, discOf(t, path))
	}
	return out
}

func discOf(t *testing.T, path string) map[string]string {
	t.Helper()
	from := must(file.OpenFromPath(path, true))
	defer from.Close()
	disc := must(iso9660.Read(from, 0, 0, 2048))
	out := map[string]string{}
	for _, e := range must(disc.ReadDir(".")) {
		out[e.Name()] = string(must(disc.ReadFile(e.Name())))
	}
	return out
}

func dropSeeds(t *testing.T, id fleet.VMID) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(seed.Dir, string(id))); err != nil {
		t.Fatal(err)
	}
}

var seedEntry = regexp.MustCompile(`(?s)<sysinfo type='fwcfg'>.*?</sysinfo>`)

// takeSeed takes it out of the definition, as virsh edit does.
func takeSeed(t *testing.T, id string) {
	t.Helper()
	text := virsh(t, "dumpxml", id, "--inactive")
	after := seedEntry.ReplaceAllString(text, "")
	if i := strings.Index(after, "ua-quantix-firstboot"); i >= 0 {
		from, to := strings.LastIndex(after[:i], "<disk "), strings.Index(after[i:], "</disk>")
		after = after[:from] + after[i+to+len("</disk>"):]
	}
	if after == text {
		t.Fatalf("the definition has no first boot:\n%s", text)
	}
	edited := filepath.Join(t.TempDir(), "edited.xml")
	if err := os.WriteFile(edited, []byte(after), 0o600); err != nil {
		t.Fatal(err)
	}
	virsh(t, "define", edited)
}

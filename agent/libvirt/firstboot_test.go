//go:build linux

package libvirt_test

import (
	"context"
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

// A guest goes back to the memory of a snapshot, for which what it read when it first started is kept, however it is told to be since.
func TestASnapshotKeepsWhatItsGuestReadFirst(t *testing.T) {
	t.Parallel()
	for kind, files := range map[fleet.FirstBootKind]map[string][]byte{
		fleet.CloudInit: {"meta-data": []byte("instance-id: x\n"), "user-data": []byte("#cloud-config\n"), "network-config": []byte("version: 2\n")},
		fleet.Ignition:  {"config.ign": []byte(`{"ignition": {"version": "3.4.0"}}`)},
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			s := &snapper{fixture: f, vm: f.vm()}
			s.vm.Spec.Disks = []fleet.Disk{f.disk("disk.qcow2")}
			s.vm.Spec.FirstBoot = fleet.VMFirstBoot{Kind: kind, Number: 1}
			apply := func() {
				t.Helper()
				in := order(s.vm, s.pool)
				in.FirstBoot = func(context.Context) (map[string][]byte, error) { return files, nil }
				s.ok(s.ApplyVM(t.Context(), in))
			}
			apply()
			s.ok(s.StartVM(t.Context(), s.vm.ID))
			id := s.take(true)
			s.off()
			s.vm.Generation, s.vm.Spec.FirstBoot = 2, fleet.VMFirstBoot{}
			apply()
			if n := len(seedsOf(t, s.vm.ID)); n != 1 {
				t.Fatalf("with a snapshot that needs it, %d are kept", n)
			}
			s.ok(s.RevertSnapshot(t.Context(), s.order(fleet.SnapshotOrder{ID: id})))
			if st := s.status(); st.Power != fleet.Running || len(st.Drift)+len(st.Faults) > 0 {
				t.Errorf("back again: %+v", st)
			}
			s.off()
			s.ok(s.DeleteSnapshot(t.Context(), s.order(fleet.SnapshotOrder{ID: id})))
			s.vm.Generation = 3
			apply()
			if n := len(seedsOf(t, s.vm.ID)); n != 0 {
				t.Errorf("without it, %d are kept", n)
			}
		})
	}
}

package seed_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
	"github.com/google/go-cmp/cmp"

	"quantix/agent/seed"
	"quantix/internal/fleet"
)

const testVMID = fleet.VMID("5f9d3f3e-3c47-4dd6-9e3c-6b3c12345678")

func readDisc(t *testing.T, path string) (label string, files map[string]string) {
	t.Helper()
	b, err := file.OpenFromPath(path, true)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	disc, err := iso9660.Read(b, 0, 0, 2048)
	if err != nil {
		t.Fatal(err)
	}
	all, err := disc.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	files = map[string]string{}
	for _, e := range all {
		data, err := disc.ReadFile(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(data)
	}
	return strings.TrimRight(disc.Label(), " \x00"), files
}

func TestSeedDiscContainsFilesByName(t *testing.T) {
	t.Parallel()
	for kind, want := range map[fleet.FirstBootKind]struct {
		label string
		files map[string]string
	}{
		fleet.CloudInit:   {"cidata", map[string]string{"meta-data": "a", "user-data": strings.Repeat("b", 5000), "network-config": "c"}},
		fleet.CloudConfig: {"cidata", map[string]string{"meta-data": "a", "user-data": "b"}},
		fleet.Sysprep:     {"UNATTEND", map[string]string{"Autounattend.xml": "<a/>", "unattend.xml": "<a/>"}},
	} {
		s := seed.Store{Dir: t.TempDir()}
		of := fleet.VMFirstBoot{Kind: kind, Number: 3}
		files := map[string][]byte{}
		for name, text := range want.files {
			files[name] = []byte(text)
		}
		if err := s.Write(testVMID, of, files); err != nil {
			t.Fatal(err)
		}
		path, err := s.PathOf(testVMID, of)
		if err != nil {
			t.Fatal(err)
		}
		label, got := readDisc(t, path)
		if label != want.label || !cmp.Equal(got, want.files) {
			t.Errorf("%s: the disc %q has %v", kind, label, cmp.Diff(want.files, got))
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: its mode is %v, %v", kind, info, err)
		}
		if back, ok := seed.ParsePath(path); !ok || back != of {
			t.Errorf("%s is the path of %v, %v", path, back, ok)
		}
		if all, err := os.ReadDir(filepath.Dir(path)); err != nil || len(all) != 1 {
			t.Errorf("%s: beside it lies %v, %v", kind, all, err)
		}
	}
}

func TestIgnitionSeedIsPlainFile(t *testing.T) {
	t.Parallel()
	s := seed.Store{Dir: t.TempDir()}
	of := fleet.VMFirstBoot{Kind: fleet.Ignition, Number: 1}
	if err := s.Write(testVMID, of, map[string][]byte{"config.ign": []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	path, _ := s.PathOf(testVMID, of)
	if data, err := os.ReadFile(path); err != nil || !bytes.Equal(data, []byte("{}")) {
		t.Errorf("the file says %q, %v", data, err)
	}
}

func TestInterruptedSeedIsRecreatedAndUnusedSeedsAreRemoved(t *testing.T) {
	t.Parallel()
	s := seed.Store{Dir: t.TempDir()}
	one, two := fleet.VMFirstBoot{Kind: fleet.CloudInit, Number: 1}, fleet.VMFirstBoot{Kind: fleet.CloudInit, Number: 2}
	path, _ := s.PathOf(testVMID, one)
	dir := filepath.Dir(path)
	for _, left := range []string{path + ".work/user-data", path + ".part"} {
		if err := os.MkdirAll(filepath.Dir(left), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := s.Exists(testVMID, one); have || err != nil {
		t.Errorf("an interrupted file counts as complete: %v", err)
	}
	files := map[string][]byte{"meta-data": []byte("a"), "user-data": []byte("b")}
	for _, of := range []fleet.VMFirstBoot{one, two} {
		if err := s.Write(testVMID, of, files); err != nil {
			t.Fatal(err)
		}
		if have, err := s.Exists(testVMID, of); !have || err != nil {
			t.Errorf("%v is not there: %v", of, err)
		}
	}
	next, _ := s.PathOf(testVMID, two)
	if err := s.RemoveExcept(testVMID, next); err != nil {
		t.Fatal(err)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 || all[0].Name() != filepath.Base(next) {
		t.Errorf("after the deletion of all but the second there is %v, %v", all, err)
	}
	for range 2 {
		if err := s.RemoveExcept(testVMID); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("its directory stays: %v", err)
	}
}

func TestSeedCleanupKeepsUnknownFiles(t *testing.T) {
	t.Parallel()
	s := seed.Store{Dir: t.TempDir()}
	path, _ := s.PathOf(testVMID, fleet.VMFirstBoot{Kind: fleet.CloudInit, Number: 1})
	other := filepath.Join(filepath.Dir(path), "notes.txt")
	if err := os.MkdirAll(filepath.Dir(other), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveExcept(testVMID); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}

func TestFileNamesCannotEscapeSeedDirectory(t *testing.T) {
	t.Parallel()
	s := seed.Store{Dir: t.TempDir()}
	good := map[string][]byte{"user-data": []byte("a")}
	of := fleet.VMFirstBoot{Kind: fleet.CloudInit, Number: 1}
	for what, err := range map[string]error{
		"an id that is a path":  s.Write("../../etc", of, good),
		"no id":                 s.RemoveExcept(""),
		"an unknown kind":       s.Write(testVMID, fleet.VMFirstBoot{Kind: "../x", Number: 1}, good),
		"no number":             s.Write(testVMID, fleet.VMFirstBoot{Kind: fleet.CloudInit}, good),
		"a file that is a path": s.Write(testVMID, of, map[string][]byte{"../user-data": nil}),
		"a hidden file":         s.Write(testVMID, of, map[string][]byte{".x": nil}),
		"no file":               s.Write(testVMID, of, nil),
		"too much":              s.Write(testVMID, of, map[string][]byte{"user-data": make([]byte, 2<<20)}),
	} {
		if err == nil {
			t.Errorf("%s is taken", what)
		}
	}
	if all, err := os.ReadDir(s.Dir); err != nil || len(all) != 0 {
		t.Errorf("a refused call left %v, %v", all, err)
	}
}

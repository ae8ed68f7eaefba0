package healthcheck

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// edacTree writes the tree that a file of testdata/edac describes.
func edacTree(t *testing.T, name string) tree {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/edac", name))
	if err != nil {
		t.Fatal(err)
	}
	root := tree(t.TempDir())
	for line := range strings.Lines(string(text)) {
		path, content, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		writeFile(t, root, filepath.Join("sys/devices/system/edac/mc", path), content)
	}
	return root
}

func writeFile(t *testing.T, root tree, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(root.path(path)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(root.path(path), []byte(content+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestMemoryErrorsOfControllers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ found, unread []string }{
		"intel-dimms.txt": {[]string{"memory/mc0/dimm2 memory-uncorrected"}, nil},
		"amd-ranks.txt":   {nil, nil},
		"old-rows.txt":    {nil, nil},
		"arm-server.txt":  {[]string{"memory/mc0 memory-uncorrected"}, nil},
		"broken.txt":      {[]string{"memory/mc0/dimm2 memory-uncorrected"}, []string{"memory/mc0/dimm0", "memory/mc0/dimm1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := memory(edacTree(t, name), time.Now).Run(t.Context())
			p, _ := errors.AsType[Partial](err)
			if !slices.Equal(codes(found), c.found) || !slices.Equal(p.Unread, c.unread) {
				t.Errorf("found %v, %v", codes(found), err)
			}
		})
	}
	if _, err := memory(tree(t.TempDir()), time.Now).Run(t.Context()); err == nil {
		t.Error("a host without counters is checked")
	}
}

// TestCorrectedMemoryErrorsCountWithinADay lets a counter grow, and waits until its growth is a day old.
func TestCorrectedMemoryErrorsCountWithinADay(t *testing.T) {
	t.Parallel()
	root, now := edacTree(t, "intel-dimms.txt"), time.Now()
	writeFile(t, root, "sys/devices/system/edac/mc/mc0/dimm2/dimm_ue_count", "0")
	check := memory(root, func() time.Time { return now })
	for _, step := range []struct {
		after time.Duration
		count string
		want  string // severity and part of the text
	}{
		{0, "12", ""},
		{time.Minute, "13", "info corrected errors in the last 24 hours"},
		{time.Minute, "62", "warning at least 10 corrected errors"},
		{time.Minute, "151", "warning at least 100 corrected errors"},
		{23 * time.Hour, "151", "warning at least 100 corrected errors"},
		{2 * time.Hour, "151", ""},
		{time.Minute, "3", "info corrected errors in the last 24 hours"}, // the driver was loaded again
	} {
		now = now.Add(step.after)
		writeFile(t, root, "sys/devices/system/edac/mc/mc0/dimm0/dimm_ce_count", step.count)
		found, err := check.Run(t.Context())
		got := ""
		if len(found) > 0 {
			got = string(found[0].Severity) + " " + found[0].Text
		}
		severity, text, _ := strings.Cut(step.want, " ")
		if err != nil || (got == "") != (step.want == "") || !strings.HasPrefix(got, severity) || !strings.Contains(got, text) {
			t.Errorf("at %s: %q instead of %q, %v", step.count, got, step.want, err)
		}
	}
}

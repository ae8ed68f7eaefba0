package healthcheck

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestLinesOfFileAreReportedOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := &KernelLog{Path: filepath.Join(dir, "log"), Position: filepath.Join(dir, "position")}
	write := func(flags int, text string) {
		t.Helper()
		f, err := os.OpenFile(log.Path, flags|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	// follow returns the lines up to last.
	follow := func(last string) (lines []string) {
		t.Helper()
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		if err := log.Follow(ctx, func(line string) {
			lines = append(lines, line)
			if line == last {
				stop()
			}
		}); err != nil {
			t.Fatal(err)
		}
		return lines
	}
	write(0, "one\ntwo\nhalf")
	if got := follow("two"); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("read %q", got)
	}
	write(os.O_APPEND, " done\n")
	if got := follow("half done"); !slices.Equal(got, []string{"half done"}) {
		t.Errorf("read %q after a restart", got)
	}
	write(os.O_TRUNC, "new\n")
	if got := follow("new"); !slices.Equal(got, []string{"new"}) {
		t.Errorf("read %q of a shorter file", got)
	}
	if err := (&KernelLog{Path: filepath.Join(dir, "none")}).Follow(t.Context(), nil); err == nil {
		t.Error("a missing file is followed")
	}
}

func TestRecordsOfPrograms(t *testing.T) {
	t.Parallel()
	for record, want := range map[string]string{
		"3,1234,5678,-;NVRM: Xid (PCI:0000:41:00): 79, GPU\n SUBSYSTEM=pci\n DEVICE=+pci:0000:41:00.0\n": "NVRM: Xid (PCI:0000:41:00): 79, GPU",
		"11,1235,5679,-;NVRM: Xid (PCI:0000:41:00): 79, GPU\n":                                           "", // facility user: a program wrote it
		"garbage":   "",
		"x,y,z,-;a": "",
	} {
		text, _, ok := parseRecord([]byte(record))
		if text != want || ok != (want != "") {
			t.Errorf("%q gives %q, %v", record, text, ok)
		}
	}
}

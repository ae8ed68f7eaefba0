package diagnose

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/hostcommand"
)

// item returns the collected item of the name, and its text.
func item(t *testing.T, items []hostcommand.Item, texts []string, name string) (hostcommand.Item, string) {
	t.Helper()
	i := slices.IndexFunc(items, func(i hostcommand.Item) bool { return i.Name == name })
	if i < 0 {
		t.Fatalf("there is no item %s in %+v", name, items)
	}
	return items[i], texts[i]
}

func TestBadItemsNeverHideTheOthers(t *testing.T) {
	t.Parallel()
	forever := make(chan struct{})
	t.Cleanup(func() { close(forever) })
	all := []Item{
		{"good", "Good", Text(func(context.Context) (string, error) { return "fine\n", nil })},
		{"hangs", "Hangs without end", func(_ context.Context, to io.Writer) error {
			fmt.Fprintln(to, "before the hang")
			<-forever
			return nil
		}},
		{"endless", "Writes without end", func(_ context.Context, to io.Writer) error {
			for {
				if _, err := to.Write(bytes.Repeat([]byte("line of an endless text\n"), 1000)); err != nil {
					return err
				}
			}
		}},
		{"fails", "Fails", func(context.Context, io.Writer) error { return errors.New("no such\x1b[31m device") }},
		{"panics", "Panics", func(context.Context, io.Writer) error { panic("oops") }},
		{"absent", "Absent", Command("no-such-program-here")},
		{"endless-command", "A command without end", Command("yes")},
		{"sleeps", "A command that sleeps, with a child", Command("sh", "-c", "echo begun; sleep 1000 & sleep 1000")},
		{"last", "Last", Text(func(context.Context) (string, error) { return "also fine\n", nil })},
	}
	done := 0
	items, texts := Collector{Timeout: time.Second}.Collect(t.Context(), all, func(n int) { done = n })
	if len(items) != len(all) || done != len(all) {
		t.Fatalf("%d items, %d done", len(items), done)
	}
	want := map[string]struct {
		status hostcommand.ItemStatus
		text   string
	}{
		"good": {hostcommand.ItemOK, "fine\n"}, "last": {hostcommand.ItemOK, "also fine\n"},
		"hangs": {hostcommand.ItemTimedOut, "before the hang\n"}, "sleeps": {hostcommand.ItemTimedOut, "begun\n"},
		"endless": {hostcommand.ItemTruncated, "line of"}, "endless-command": {hostcommand.ItemTruncated, "y\ny\n"},
		"fails": {hostcommand.ItemFailed, ""}, "panics": {hostcommand.ItemFailed, ""}, "absent": {hostcommand.ItemSkipped, ""},
	}
	for name, w := range want {
		got, text := item(t, items, texts, name)
		if got.Status != w.status || !strings.HasPrefix(text, w.text) || len(text) > hostcommand.MaxItem || got.Bytes != len(text) || got.Status != hostcommand.ItemOK && got.Reason == "" {
			t.Errorf("%s: %+v, %.80q", name, got, text)
		}
	}
	if got, _ := item(t, items, texts, "fails"); strings.Contains(got.Reason, "\x1b") {
		t.Errorf("the reason has a control character: %q", got.Reason)
	}
	archive, err := Archive(items, texts, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	summary, err := hostcommand.CheckArchive(archive)
	if err != nil || len(summary.Items) != len(all) {
		t.Fatalf("the portal reads %+v, %v", summary, err)
	}
	if text, err := hostcommand.ItemText(archive, "hangs"); err != nil || text != "before the hang\n" {
		t.Errorf("the text is %q, %v", text, err)
	}
}

// TestTimeoutKillsWholeProcessGroup checks that no process of a command lives on after its time.
func TestTimeoutKillsWholeProcessGroup(t *testing.T) {
	t.Parallel()
	items, texts := Collector{Timeout: time.Second / 2}.Collect(t.Context(), []Item{
		{"child", "Child", Command("sh", "-c", "trap '' TERM; sleep 1000 & echo $!; wait")},
		{"leaves", "Leaves a child", Command("sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!")},
	}, nil)
	for i, text := range texts {
		pid, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			t.Fatalf("%+v: %q", items[i], text)
		}
		for deadline := time.Now().Add(5 * time.Second); alive(pid); {
			if time.Now().After(deadline) {
				t.Fatalf("the process %d of %s lives on", pid, items[i].Name)
			}
			runtime.Gosched()
		}
	}
}

// alive reports whether the process runs; a zombie does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestArchiveOfIncompressibleTextsStaysWithinItsBound(t *testing.T) {
	t.Parallel()
	random := make([]byte, 700<<10)
	rand.New(rand.NewSource(1)).Read(random)
	var lines strings.Builder
	for chunk := range slices.Chunk(random, 600) {
		lines.WriteString(base64.StdEncoding.EncodeToString(chunk) + "\n")
	}
	noise := lines.String()
	var all []Item
	for i := range 14 {
		all = append(all, Item{fmt.Sprint("noise-", i), "Noise", Text(func(context.Context) (string, error) {
			return noise[i*1000:] + noise[:i*1000], nil
		})})
	}
	all = append(all, Item{"small", "Small", Text(func(context.Context) (string, error) { return "small\n", nil })})
	items, texts := Collector{}.Collect(t.Context(), all, nil)
	archive, err := Archive(items, texts, time.Now())
	if err != nil || len(archive) > hostcommand.MaxArchive {
		t.Fatalf("%d bytes, %v", len(archive), err)
	}
	summary, err := hostcommand.CheckArchive(archive)
	if err != nil || summary.Items[0].Status != hostcommand.ItemTruncated || summary.Items[14].Status != hostcommand.ItemOK {
		t.Errorf("%+v, %v", summary.Items, err)
	}
}

// newSite returns a directory of diagnostics whose owner is the user of the test.
func newSite(t *testing.T) Site {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return Site{Dir: dir, owner: uint32(os.Getuid())}
}

func (s Site) write(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	path := filepath.Join(s.Dir, name)
	if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
}

func (s Site) runAll(t *testing.T, names ...string) ([]hostcommand.Item, []string) {
	t.Helper()
	return Collector{Timeout: 2 * time.Second}.Collect(t.Context(), s.Items(names), nil)
}

func TestSiteRunsOnlySafeExecutablesByName(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write(t, "raid", "#!/bin/sh\necho \"arguments: $#\"; env | sort; pwd; cat\n", 0o755)
	s.write(t, "others-write", "#!/bin/sh\necho bad\n", 0o757)
	s.write(t, "group-writes", "#!/bin/sh\necho bad\n", 0o775)
	s.write(t, "not-executable", "#!/bin/sh\necho bad\n", 0o644)
	s.write(t, "-n", "#!/bin/sh\necho bad\n", 0o755)
	s.write(t, ".hidden", "#!/bin/sh\necho bad\n", 0o755)
	s.write(t, "with space", "#!/bin/sh\necho bad\n", 0o755)
	s.write(t, "semi;colon", "#!/bin/sh\necho bad\n", 0o755)
	s.write(t, strings.Repeat("n", 65), "#!/bin/sh\necho bad\n", 0o755)
	if err := errors.Join(os.Mkdir(filepath.Join(s.Dir, "directory"), 0o755), os.Symlink("/bin/sh", filepath.Join(s.Dir, "link")),
		os.Symlink(filepath.Join(s.Dir, "raid"), filepath.Join(s.Dir, "link-inside")), syscall.Mkfifo(filepath.Join(s.Dir, "pipe"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if got := s.Names(); !slices.Equal(got, []string{"raid"}) {
		t.Errorf("the names are %q", got)
	}
	items, texts := s.runAll(t, "raid", "others-write", "group-writes", "not-executable", "directory", "link", "link-inside", "pipe", "missing",
		"../raid", "-n", "with space", "semi;colon", "..", "raid; id")
	if len(items) != 9 {
		t.Fatalf("%d items: %+v", len(items), items)
	}
	got, text := item(t, items, texts, "site-raid")
	if got.Status != hostcommand.ItemOK || !strings.HasPrefix(text, "arguments: 0\n") || strings.Contains(text, "GOFLAGS") || strings.Contains(text, "USER=") || !strings.Contains(text, "LC_ALL=C") || !strings.Contains(text, "\n/\n") {
		t.Errorf("%+v: %q", got, text)
	}
	for i, got := range items {
		if got.Name != "site-raid" && (got.Status != hostcommand.ItemFailed || texts[i] != "" || got.Reason == "") {
			t.Errorf("%s: %+v %q", got.Name, got, texts[i])
		}
	}
}

func TestSiteDirectoryThatOthersMayChangeIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write(t, "raid", "#!/bin/sh\necho ran\n", 0o755)
	other := s
	other.owner++
	link := s
	link.Dir = filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(s.Dir, link.Dir); err != nil {
		t.Fatal(err)
	}
	open := newSite(t)
	open.write(t, "raid", "#!/bin/sh\necho ran\n", 0o755)
	if err := os.Chmod(open.Dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for name, site := range map[string]Site{"of another owner": other, "a link": link, "writable by all": open, "missing": {Dir: "/no/such/directory"}, "none": {}} {
		if got := site.Names(); len(got) != 0 {
			t.Errorf("%s: the names are %q", name, got)
		}
		if items, texts := site.runAll(t, "raid"); items[0].Status != hostcommand.ItemFailed || texts[0] != "" {
			t.Errorf("%s: %+v %q", name, items[0], texts[0])
		}
	}
	if items, texts := s.runAll(t, "raid"); items[0].Status != hostcommand.ItemOK || texts[0] != "ran\n" {
		t.Errorf("%+v %q", items[0], texts[0])
	}
}

func TestSiteListIsBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for i := range fleet.MaxSiteDiagnostics + 10 {
		s.write(t, fmt.Sprint("d", i), "#!/bin/sh\n", 0o755)
	}
	if got := s.Names(); len(got) != fleet.MaxSiteDiagnostics || !slices.IsSorted(got) {
		t.Errorf("%d names", len(got))
	}
}

// TestMachineItemsReadThisMachine checks that each item ends within its time, and that those of every Linux succeed.
func TestMachineItemsReadThisMachine(t *testing.T) {
	t.Parallel()
	items, texts := Collector{}.Collect(t.Context(), MachineItems(), nil)
	for _, name := range []string{"kernel", "cpu-memory", "mounts", "nics", "cgroup"} {
		if got, text := item(t, items, texts, name); got.Status != hostcommand.ItemOK && got.Status != hostcommand.ItemTruncated || text == "" {
			t.Errorf("%+v: %.200q", got, text)
		}
	}
	for i, got := range items {
		if got.Seconds > (hostcommand.ItemTimeout+2*grace).Seconds() || !fleet.IsDiagnosticName(got.Name) || got.Title == "" {
			t.Errorf("%+v", got)
		}
		t.Logf("%-16s %-10s %6.3f s %8d bytes %s", got.Name, got.Status, got.Seconds, len(texts[i]), got.Reason)
	}
}

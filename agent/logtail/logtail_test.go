package logtail

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

func TestTailKeepsNewestLinesWithinItsBounds(t *testing.T) {
	t.Parallel()
	tail := New(3, 1000)
	log := slog.New(tail.Handler(slog.DiscardHandler))
	log.Debug("never kept")
	log.Info("kept, although the next handler does not log it")
	if got := tail.Text(); !strings.Contains(got, "level=INFO") || strings.Contains(got, "never") {
		t.Errorf("kept %q", got)
	}
	var out strings.Builder
	log = slog.New(tail.Handler(slog.NewTextHandler(&out, nil))).With("host", "h 1")
	for i := range 10 {
		log.Warn("line", "n", i)
	}
	lines := strings.Split(strings.TrimSpace(tail.Text()), "\n")
	if len(lines) != 3 || !strings.HasSuffix(lines[0], `level=WARN msg=line host="h 1" n=7`) || !strings.HasSuffix(lines[2], "n=9") {
		t.Errorf("kept %q", lines)
	}
	if strings.Count(out.String(), "\n") != 10 {
		t.Errorf("the next handler got %q", out.String())
	}
	log.Info(strings.Repeat("x", 600))
	log.Info(strings.Repeat("y", 600))
	if got := tail.Text(); len(got) > 1000 || !strings.Contains(got, "yyy") || strings.Contains(got, "xxx") {
		t.Errorf("kept %d bytes: %q", len(got), got)
	}
	log.Info(strings.Repeat("é", 20000))
	if got := tail.Text(); len(got) > 1000 {
		t.Errorf("kept %d bytes of one long line", len(got))
	}
}

func TestTailEscapesControlCharactersAndLineBreaks(t *testing.T) {
	t.Parallel()
	tail := New(10, 1<<20)
	var out strings.Builder
	slog.New(tail.Handler(slog.NewJSONHandler(&out, nil))).Info("a\x1b[31mb\nlevel=ERROR forged", "k\n", "v\x00\u202e")
	if got := tail.Text(); strings.Count(got, "\n") != 1 || strings.ContainsAny(got, "\x1b\x00\u202e") {
		t.Errorf("kept %q", got)
	}
}

func TestTailIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	tail := New(50, 1<<20)
	var out strings.Builder
	var all sync.WaitGroup
	log := slog.New(tail.Handler(slog.NewTextHandler(&out, nil)))
	for i := range 8 {
		all.Go(func() {
			for n := range 200 {
				log.Info(fmt.Sprint(i, n))
				_ = tail.Text()
			}
		})
	}
	all.Wait()
	if got := strings.Count(tail.Text(), "\n"); got != 50 {
		t.Errorf("kept %d lines", got)
	}
}

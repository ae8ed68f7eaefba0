// Package logtail keeps the last lines of a program's log in memory.
package logtail

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
)

// maxLine is the maximum length of a kept line in bytes; longer lines are cut.
const maxLine = 8 << 10

// Tail keeps the last lines of a log, in the form of slog.TextHandler, which escapes control characters. It is safe for
// concurrent use.
type Tail struct {
	maxLines, maxBytes int

	mu    sync.Mutex
	lines []string // a ring: the oldest line is at first
	first int
	bytes int
}

// New returns a Tail of at most maxLines lines with maxBytes bytes in all.
func New(maxLines, maxBytes int) *Tail { return &Tail{maxLines: maxLines, maxBytes: maxBytes} }

// Handler returns a handler that passes each record that next logs to next, and keeps its line. It also keeps the lines of
// the level Info and above that next does not log.
func (t *Tail) Handler(next slog.Handler) slog.Handler {
	return tee{next, slog.NewTextHandler(t, &slog.HandlerOptions{Level: slog.LevelDebug - 100})}
}

// Write keeps one line. It is called by the handler.
func (t *Tail) Write(line []byte) (int, error) {
	n := len(line)
	text := strings.TrimRight(string(line[:min(n, maxLine)]), "\n")
	if n > maxLine {
		text = strings.ToValidUTF8(text, "") + " … (cut)"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, text)
	t.bytes += len(text) + 1
	for len(t.lines)-t.first > t.maxLines || t.bytes > t.maxBytes {
		t.bytes -= len(t.lines[t.first]) + 1
		t.lines[t.first] = ""
		t.first++
	}
	if t.first > t.maxLines {
		t.lines = append([]string(nil), t.lines[t.first:]...)
		t.first = 0
	}
	return n, nil
}

// Text returns the kept lines, the oldest one first.
func (t *Tail) Text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == t.first {
		return ""
	}
	return strings.Join(t.lines[t.first:], "\n") + "\n"
}

// tee passes records to both handlers.
type tee struct{ next, keep slog.Handler }

func (h tee) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelInfo || h.next.Enabled(ctx, l)
}

func (h tee) Handle(ctx context.Context, r slog.Record) error {
	err := h.keep.Handle(ctx, r.Clone())
	if h.next.Enabled(ctx, r.Level) {
		err = errors.Join(err, h.next.Handle(ctx, r))
	}
	return err
}

func (h tee) WithAttrs(a []slog.Attr) slog.Handler {
	return tee{h.next.WithAttrs(a), h.keep.WithAttrs(a)}
}

func (h tee) WithGroup(name string) slog.Handler {
	return tee{h.next.WithGroup(name), h.keep.WithGroup(name)}
}

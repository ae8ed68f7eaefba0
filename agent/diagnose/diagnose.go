// Package diagnose collects diagnostics of a host: a list of items, each within its own limits of time and size, without
// secrets. An item that fails, hangs or writes without end is listed with its reason and affects no other item.
package diagnose

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/hostcommand"
)

// Item is one thing to collect. Read writes its text. It ends when its context ends, or when a write fails.
type Item struct {
	Name, Title string
	Read        func(ctx context.Context, to io.Writer) error
}

// Text returns the Read of an item that returns its text at once.
func Text(read func(context.Context) (string, error)) func(context.Context, io.Writer) error {
	return func(ctx context.Context, to io.Writer) error {
		text, err := read(ctx)
		_, werr := io.WriteString(to, text)
		return errors.Join(err, werr)
	}
}

// NotAvailableError means that the host lacks what an item needs.
type NotAvailableError struct{ Reason string }

func (e NotAvailableError) Error() string { return e.Reason }

const (
	parallel = 4
	// overlap is the number of bytes read beyond the limit of an item, so that no secret is cut in half before its removal.
	overlap = 64 << 10
	cutTail = 8 << 10 // the end of a cut text, which may have the beginning of a secret
	grace   = time.Second
)

// Collector collects items.
type Collector struct {
	Scrub   Scrubber
	Timeout time.Duration // of one item; 0: hostcommand.ItemTimeout
}

// Collect reads all items, some at a time, and returns what it read of each in the same order. It calls progress, unless
// nil, after each item.
func (c Collector) Collect(ctx context.Context, items []Item, progress func(done int)) ([]hostcommand.Item, []string) {
	out, texts := make([]hostcommand.Item, len(items)), make([]string, len(items))
	var all sync.WaitGroup
	var mu sync.Mutex
	done := 0
	slots := make(chan struct{}, parallel)
	for i, item := range items {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			out[i], texts[i] = c.collect(ctx, item)
			mu.Lock()
			defer mu.Unlock()
			if done++; progress != nil {
				progress(done)
			}
		})
	}
	all.Wait()
	return out, texts
}

// collect reads one item. A Read that ignores the end of its context, such as one of a file on storage that hangs, is left
// behind.
func (c Collector) collect(ctx context.Context, item Item) (hostcommand.Item, string) {
	limit := c.Timeout
	if limit == 0 {
		limit = hostcommand.ItemTimeout
	}
	began := time.Now()
	parent := ctx
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	to := &boundedBuffer{full: cancel}
	ended := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				ended <- fmt.Errorf("internal error: %v", p)
			}
		}()
		ended <- item.Read(ctx, to)
	}()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		select {
		case err = <-ended:
		case <-time.After(grace):
			err = ctx.Err()
		}
	}
	raw, cut := to.take()
	seconds := time.Since(began).Seconds()
	got := hostcommand.Item{Name: item.Name, Title: item.Title, Status: hostcommand.ItemOK, Seconds: float64(int(seconds*1000)) / 1000}
	text := c.clean(raw, cut)
	missing, isMissing := errors.AsType[NotAvailableError](err)
	switch {
	case cut || len(text) > hostcommand.MaxItem:
		got.Status, got.Reason = hostcommand.ItemTruncated, "The text is longer than "+fleet.FormatBytes(hostcommand.MaxItem)+" and was cut."
	case parent.Err() != nil && err != nil:
		got.Status, got.Reason = hostcommand.ItemFailed, "The collection was interrupted."
	case err != nil && ctx.Err() != nil:
		got.Status, got.Reason = hostcommand.ItemTimedOut, fmt.Sprintf("It did not end within %s.", limit)
	case isMissing:
		got.Status, got.Reason = hostcommand.ItemSkipped, missing.Reason
	case err != nil:
		got.Status, got.Reason = hostcommand.ItemFailed, c.clean([]byte(err.Error()), false)
	}
	text = cutText(text, hostcommand.MaxItem)
	got.Bytes = len(text)
	return got, text
}

// clean returns an item's output as text without control characters and secrets. cut: the end is missing.
func (c Collector) clean(raw []byte, cut bool) string {
	text := c.Scrub.Scrub(hostcommand.EscapeControls(string(raw)))
	if cut {
		text = cutText(text, max(len(text)-cutTail, 0))
	}
	return text
}

// cutText returns at most limit bytes of the text, up to the end of a line where there is one.
func cutText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	text = text[:limit]
	if i := strings.LastIndexByte(text, '\n'); i >= limit/2 {
		text = text[:i+1]
	}
	return strings.ToValidUTF8(text, "")
}

// errFull ends a Read that writes more than an item may have.
var errFull = errors.New("the text is too long")

// boundedBuffer holds the text of one item. It accepts no more bytes once it is full or taken.
type boundedBuffer struct {
	full func()

	mu     sync.Mutex
	buf    bytes.Buffer
	closed bool
	cut    bool
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, errFull
	}
	if room := hostcommand.MaxItem + overlap - b.buf.Len(); len(p) > room {
		b.buf.Write(p[:room])
		b.cut, b.closed = true, true
		b.full()
		return room, errFull
	}
	return b.buf.Write(p)
}

func (b *boundedBuffer) take() (text []byte, cut bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return b.buf.Bytes(), b.cut
}

// Archive returns the archive of the items. If it would be larger than hostcommand.MaxArchive, it cuts the long texts.
func Archive(items []hostcommand.Item, texts []string, at time.Time) ([]byte, error) {
	items, texts = slices.Clone(items), slices.Clone(texts)
	for limit := hostcommand.MaxItem / 4; ; limit /= 4 {
		archive, err := hostcommand.WriteArchive(items, texts, at)
		if err == nil || limit < 1<<10 {
			return archive, err
		}
		for i := range texts {
			if len(texts[i]) > limit {
				texts[i] = cutText(texts[i], limit)
				items[i].Bytes, items[i].Status, items[i].Reason = len(texts[i]), hostcommand.ItemTruncated, "The archive was too large, so this text was cut."
			}
		}
	}
}

// commandEnvironment is the environment of commands that items run. Nothing of the agent's environment is in it.
var commandEnvironment = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "LANG=C", "HOME=/", "TERM=dumb"}

// Command returns the Read of an item that runs a program of the system. Its output, also that of a failure, is the text.
func Command(name string, args ...string) func(context.Context, io.Writer) error {
	return func(ctx context.Context, to io.Writer) error {
		path := findProgram(name)
		if path == "" {
			return NotAvailableError{name + " is not installed."}
		}
		return runCommand(ctx, exec.CommandContext(ctx, path, args...), to) //nolint:gosec // constant words
	}
}

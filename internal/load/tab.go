package load

import (
	"bufio"
	"context"
	"fmt"
	"html"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Timing of live pages, the same as in static/js/live.js and static/js/stream.js.
const (
	minGap      = 250 * time.Millisecond // default minimum time between two refreshes of one part
	streamRetry = time.Second            // delay before a lost event stream is reopened
	idleLimit   = time.Minute
)

// livePart is a live element of a page: it follows event keys and refreshes itself.
type livePart struct {
	id, path string
	keys     []string
	every    time.Duration
	gap      time.Duration // minimum time between two refreshes

	last, due time.Time // times of refreshes; due is zero if no refresh is scheduled
	poked     time.Time // time of the oldest event that no refresh has shown yet; zero: none
}

// tab is a browser tab that shows a page and refreshes its live parts.
type tab struct {
	*browser
	mu    sync.Mutex
	parts []*livePart
	wake  chan struct{} // capacity 1
}

var (
	liveTag  = regexp.MustCompile(`<[a-z]+ [^>]*\bdata-live="[^>]*>`)
	liveAttr = regexp.MustCompile(`([a-z-]+)(?:="([^"]*)")?`)
	pollTerm = regexp.MustCompile(`every (\d+s)`)
)

// open loads the page and follows it in the background until ctx ends.
func (t *tab) open(ctx context.Context, path string) error {
	text, err := t.getPageText(ctx, path)
	if err != nil {
		return err
	}
	if t.parts = liveParts(text, time.Now()); len(t.parts) == 0 {
		return fmt.Errorf("the page %s has no live parts", path)
	}
	var keys []string
	for _, p := range t.parts {
		for _, k := range p.keys {
			if !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
		}
	}
	t.run.parked.Go(func() { t.followEventStream(ctx, "/events?"+url.Values{"key": keys}.Encode()) })
	t.run.parked.Go(func() { t.refresh(ctx) })
	return nil
}

// liveParts returns the live parts of a page. Collapsed parts follow no events.
func liveParts(text string, now time.Time) []*livePart {
	var out []*livePart
	for _, tag := range liveTag.FindAllString(text, -1) {
		attrs := map[string]string{}
		for _, a := range liveAttr.FindAllStringSubmatch(tag, -1) {
			attrs[a[1]] = html.UnescapeString(a[2])
		}
		if _, folded := attrs["data-lazy"]; folded || attrs["id"] == "" || attrs["hx-get"] == "" {
			continue
		}
		p := &livePart{id: attrs["id"], path: attrs["hx-get"], keys: strings.Fields(attrs["data-live"]), last: now, gap: minGap}
		if own, err := time.ParseDuration(attrs["data-gap"] + "s"); err == nil {
			p.gap = max(p.gap, own)
		}
		if m := pollTerm.FindStringSubmatch(attrs["hx-trigger"]); m != nil {
			p.every, _ = time.ParseDuration(m[1])
			p.due = now.Add(rand.N(p.every + 1))
		}
		out = append(out, p)
	}
	return out
}

// followEventStream reads the event stream, and reopens the stream when it ends.
func (t *tab) followEventStream(ctx context.Context, path string) {
	for ctx.Err() == nil {
		if err := t.readEventStream(ctx, path); err != nil && ctx.Err() == nil {
			t.run.addFailure("stream", err)
		}
		pause(ctx, streamRetry/2+rand.N(streamRetry))
	}
}

func (t *tab) readEventStream(ctx context.Context, path string) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	silence := time.AfterFunc(idleLimit, end)
	defer silence.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.portal+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	res, err := t.via.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the event stream returned status %d", res.StatusCode)
	}
	t.run.streams.Add(1)
	defer t.run.streams.Add(-1)
	lines := bufio.NewReaderSize(res.Body, 512)
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			return fmt.Errorf("the portal ended the stream: %w", err)
		}
		if err != nil {
			return err
		}
		silence.Reset(idleLimit)
		if key, ok := strings.CutPrefix(line, "event: "); ok {
			t.scheduleRefresh(strings.TrimSpace(key))
		}
	}
}

// scheduleRefresh schedules a refresh of the parts that follow the key: at once, or when the gap after a part's last
// refresh is over.
func (t *tab) scheduleRefresh(key string) {
	now := time.Now()
	t.mu.Lock()
	for _, p := range t.parts {
		if key != "resync" && !slices.Contains(p.keys, key) {
			continue
		}
		if at := p.last.Add(p.gap); p.due.IsZero() || p.due.After(at) {
			p.due = at
		}
		if p.poked.IsZero() {
			p.poked = now
		}
	}
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// nextRefresh returns the part with the earliest scheduled refresh, and its time.
func (t *tab) nextRefresh() (first *livePart, due time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.parts {
		if !p.due.IsZero() && (first == nil || p.due.Before(due)) {
			first, due = p, p.due
		}
	}
	return first, due
}

// refresh requests the parts whose refresh is due, one after another.
func (t *tab) refresh(ctx context.Context) {
	idle := time.NewTimer(0)
	defer idle.Stop()
	for ctx.Err() == nil {
		p, due := t.nextRefresh()
		wait := time.Hour
		if p != nil {
			wait = time.Until(due)
		}
		if wait > 0 {
			idle.Reset(wait)
			select {
			case <-idle.C:
			case <-t.wake:
			case <-ctx.Done():
			}
			continue
		}
		t.mu.Lock()
		poked := p.poked
		p.last, p.due, p.poked = time.Now(), time.Time{}, time.Time{}
		if p.every > 0 {
			p.due = p.last.Add(p.every)
		}
		t.mu.Unlock()
		took, err := t.get(ctx, p.path, p.id, io.Discard)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			t.run.addFailure("refresh", err)
		default:
			t.run.refreshes.add(took)
			if !poked.IsZero() {
				t.run.waits.add(time.Since(poked))
			}
		}
	}
}

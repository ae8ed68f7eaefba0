package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"quantix/internal/event"
)

// listen connects the portal's hub to the database.
func (p *portal) listen() *portal {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.hub.Listen(ctx, p.pool.Config().ConnConfig, p.server.Log) }()
	p.t.Cleanup(func() { stop(); <-ended })
	return p
}

// streamedEvent is one server-sent event.
type streamedEvent struct {
	id, name string
	event.Event
	Reason event.ResyncReason
}

func (e streamedEvent) String() string {
	if e.name == event.TypeResync {
		return "resync " + string(e.Reason)
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s", e.Type, e.Action, e.Name, e.State))
}

// eventClient is a stream of events.
type eventClient struct {
	t      *testing.T
	events chan streamedEvent // closed at the end of the stream
	cut    func()
	lastID string // of the events that next returned
}

// openEvents opens a stream at the portal with the client's token. after is the last ID; empty: none.
func (g *apiClient) openEvents(t *testing.T, portal, query, after string) *eventClient {
	t.Helper()
	ctx, cut := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, portal+"/api/v1/events?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+g.token)
	if after != "" {
		r.Header.Set("Last-Event-ID", after)
	}
	got, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "text/event-stream" {
		text, _ := io.ReadAll(got.Body)
		t.Fatalf("the stream answers %d %s: %s", got.StatusCode, got.Header.Get("Content-Type"), text)
	}
	c := &eventClient{t: t, events: make(chan streamedEvent), lastID: after}
	ended := make(chan struct{})
	c.cut = sync.OnceFunc(func() { cut(); <-ended })
	t.Cleanup(c.cut)
	go func() {
		defer close(ended)
		defer close(c.events)
		defer got.Body.Close()
		var e streamedEvent
		for s := bufio.NewScanner(got.Body); s.Scan(); {
			field, value, _ := strings.Cut(s.Text(), ": ")
			switch field {
			case "id":
				e.id = value
			case "event":
				e.name = value
			case "data":
				if ctx.Err() != nil {
					return // the last line may be incomplete
				}
				if json.Unmarshal([]byte(value), &e.Event) != nil || string(e.ID) != e.id || e.Type != e.name {
					t.Errorf("event %q has id %q and name %q", value, e.id, e.name)
				}
				_ = json.Unmarshal([]byte(value), &e)
			case "":
				if e.name != "" {
					select {
					case c.events <- e:
					case <-ctx.Done():
						return
					}
				}
				e = streamedEvent{}
			}
		}
	}()
	return c
}

// next returns the next event.
func (c *eventClient) next() streamedEvent {
	c.t.Helper()
	select {
	case e, ok := <-c.events:
		if !ok {
			c.t.Fatal("the stream ended")
		}
		c.lastID = e.id
		return e
	case <-time.After(20 * time.Second):
		c.t.Fatal("no event")
	}
	return streamedEvent{}
}

func (c *eventClient) want(want ...string) {
	c.t.Helper()
	var got []string
	for range want {
		got = append(got, c.next().String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		c.t.Errorf("events (-want +got):\n%s", diff)
	}
}

func (c *eventClient) wantEnd() {
	c.t.Helper()
	select {
	case e, ok := <-c.events:
		if ok {
			c.t.Fatalf("event %s instead of the end", e)
		}
	case <-time.After(10 * time.Second): // before the periodic check
		c.t.Fatal("the stream does not end")
	}
}

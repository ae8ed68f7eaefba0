package wire_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// resultPortal is a portal that accepts results. Its first call waits until release is closed.
type resultPortal struct {
	release chan struct{}
	called  chan struct{}
	refuses map[string]int // status by job
	older   bool           // the portal lacks PathResults, as older versions do
	mu      sync.Mutex
	calls   []string // "a" for a single result, "b+c" for a batch
}

func (p *resultPortal) serve(w http.ResponseWriter, r *http.Request) {
	var out wire.ResultsAnswer
	var jobs []string
	take := func(id fleet.JobID) {
		jobs = append(jobs, string(id))
		out.Answers = append(out.Answers, wire.ResultAnswer{FinishAnswer: wire.FinishAnswer{Requeued: id == "again"}, Status: p.refuses[string(id)], Detail: "no"})
	}
	status := http.StatusOK
	var answer any = &out
	if r.URL.Path == wire.PathResults {
		var in wire.Results
		json.NewDecoder(r.Body).Decode(&in)
		for _, one := range in.Results {
			take(one.Job)
		}
		if p.older {
			status = http.StatusNotFound
		} else if s := p.refuses["all"]; s != 0 {
			status = s
		}
	} else {
		id, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, wire.PathJobs), "/")
		take(fleet.JobID(id))
		if answer = out.Answers[0].FinishAnswer; out.Answers[0].Status != 0 {
			status = out.Answers[0].Status
		}
	}
	p.mu.Lock()
	p.calls = append(p.calls, strings.Join(jobs, "+"))
	first := len(p.calls) == 1
	p.mu.Unlock()
	if first {
		close(p.called)
		<-p.release
	}
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(answer)
}

func TestQueuedResultsAreBatched(t *testing.T) {
	t.Parallel()
	type outcome struct {
		again  bool
		status int
	}
	for name, c := range map[string]struct {
		portal *resultPortal
		calls  int // number of calls made
		want   map[string]outcome
	}{
		"all accepted":                 {&resultPortal{}, 2, map[string]outcome{"first": {}, "b": {}, "again": {again: true}, "d": {}}},
		"one refused":                  {&resultPortal{refuses: map[string]int{"b": 409}}, 2, map[string]outcome{"first": {}, "b": {status: 409}, "again": {again: true}, "d": {}}},
		"batch refused":                {&resultPortal{refuses: map[string]int{"all": 422, "d": 422}}, 5, map[string]outcome{"first": {}, "b": {}, "again": {again: true}, "d": {status: 422}}},
		"portal unavailable":           {&resultPortal{refuses: map[string]int{"all": 503}}, 2, map[string]outcome{"first": {}, "b": {status: 503}, "again": {status: 503}, "d": {status: 503}}},
		"older portal without batches": {&resultPortal{older: true}, 5, map[string]outcome{"first": {}, "b": {}, "again": {again: true}, "d": {}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAuthority(t)
			p := c.portal
			p.release, p.called = make(chan struct{}), make(chan struct{})
			client := a.client(a.startServer(loopback, p.serve).URL)
			client.SetResultDelay(time.Hour)
			var mu sync.Mutex
			got := map[string]outcome{}
			var all sync.WaitGroup
			send := func(id string) {
				all.Go(func() {
					answer, err := client.Finish(t.Context(), fleet.JobID(id), wire.Finish{Outcome: wire.Done})
					status := wire.StatusOf(err)
					if err != nil && status == 0 {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					got[id] = outcome{answer.Requeued, status}
				})
			}
			send("first")
			<-p.called
			for _, id := range []string{"b", "again", "d"} {
				send(id)
			}
			client.WaitForQueued(t, 3)
			close(p.release)
			all.Wait()
			if fmt.Sprint(got) != fmt.Sprint(c.want) || len(p.calls) != c.calls {
				t.Errorf("results %v, want %v; calls %q, want %d", got, c.want, p.calls, c.calls)
			}
		})
	}
}

// If a lock in the portal delays one result, other results are not delayed.
func TestDelayedJobResultDoesNotDelayFurtherResults(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	p := &resultPortal{release: make(chan struct{}), called: make(chan struct{})}
	client := a.client(a.startServer(loopback, p.serve).URL)
	held := make(chan error, 1)
	go func() {
		_, err := client.Finish(t.Context(), "held", wire.Finish{Outcome: wire.Done})
		held <- err
	}()
	<-p.called
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := client.Finish(ctx, "other", wire.Finish{Outcome: wire.Done}); err != nil {
		t.Errorf("other result: %v", err)
	}
	close(p.release)
	if err := <-held; err != nil {
		t.Errorf("delayed result: %v", err)
	}
}

// A portal that knows none of the jobs is not mistaken for an older portal.
func TestUnknownJobsDoNotMarkPortalAsOlder(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	p := &resultPortal{release: make(chan struct{}), called: make(chan struct{}), refuses: map[string]int{"all": 404, "a": 404, "b": 404}}
	client := a.client(a.startServer(loopback, p.serve).URL)
	client.SetResultDelay(time.Hour)
	together := func(ids ...string) {
		release := sync.OnceFunc(func() { close(p.release) })
		defer release() // without this, a failed test would leave the server blocked
		var all sync.WaitGroup
		for i, id := range ids {
			all.Go(func() { client.Finish(t.Context(), fleet.JobID(id), wire.Finish{Outcome: wire.Done}) })
			if i == 0 {
				<-p.called
			}
		}
		client.WaitForQueued(t, len(ids)-1)
		release()
		all.Wait()
	}
	together("first", "a", "b")
	p.mu.Lock()
	p.calls, p.release, p.called = nil, make(chan struct{}), make(chan struct{})
	p.mu.Unlock()
	together("first", "a", "b")
	if !slices.Contains(p.calls, "a+b") && !slices.Contains(p.calls, "b+a") {
		t.Errorf("later calls: %q", p.calls)
	}
}

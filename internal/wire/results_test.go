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

// taker is a portal that takes results; the first one waits until it is let.
type taker struct {
	let     chan struct{}
	came    chan struct{}
	refuses map[string]int // a job's result, with this status
	alone   bool           // it is an older one
	mu      sync.Mutex
	calls   []string // "a" one by itself, "b+c" some at once
}

func (p *taker) serve(w http.ResponseWriter, r *http.Request) {
	var out wire.ResultsAnswer
	var jobs []string
	take := func(id fleet.JobID) {
		jobs = append(jobs, string(id))
		out.Answers = append(out.Answers, wire.ResultAnswer{FinishAnswer: wire.FinishAnswer{Again: id == "again"}, Status: p.refuses[string(id)], Detail: "no"})
	}
	status := http.StatusOK
	var answer any = &out
	if r.URL.Path == wire.PathResults {
		var in wire.Results
		json.NewDecoder(r.Body).Decode(&in)
		for _, one := range in.Results {
			take(one.Job)
		}
		if p.alone {
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
		close(p.came)
		<-p.let
	}
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(answer)
}

func TestResultsThatComeMeanwhileGoTogether(t *testing.T) {
	t.Parallel()
	type told struct {
		again  bool
		status int
	}
	for name, c := range map[string]struct {
		portal *taker
		calls  int // that were made
		want   map[string]told
	}{
		"all are taken":              {&taker{}, 2, map[string]told{"first": {}, "b": {}, "again": {again: true}, "d": {}}},
		"one is refused":             {&taker{refuses: map[string]int{"b": 409}}, 2, map[string]told{"first": {}, "b": {status: 409}, "again": {again: true}, "d": {}}},
		"all at once are refused":    {&taker{refuses: map[string]int{"all": 422, "d": 422}}, 5, map[string]told{"first": {}, "b": {}, "again": {again: true}, "d": {status: 422}}},
		"the portal is in trouble":   {&taker{refuses: map[string]int{"all": 503}}, 2, map[string]told{"first": {}, "b": {status: 503}, "again": {status: 503}, "d": {status: 503}}},
		"an older one takes but one": {&taker{alone: true}, 5, map[string]told{"first": {}, "b": {}, "again": {again: true}, "d": {}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAuthority(t)
			p := c.portal
			p.let, p.came = make(chan struct{}), make(chan struct{})
			client := a.client(a.serve(loopback, p.serve).URL)
			client.Late(time.Hour)
			var mu sync.Mutex
			got := map[string]told{}
			var all sync.WaitGroup
			hand := func(id string) {
				all.Go(func() {
					answer, err := client.Finish(t.Context(), fleet.JobID(id), wire.Finish{Outcome: wire.Done})
					status := wire.StatusOf(err)
					if err != nil && status == 0 {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					got[id] = told{answer.Again, status}
				})
			}
			hand("first")
			<-p.came
			for _, id := range []string{"b", "again", "d"} {
				hand(id)
			}
			client.Waiting(t, 3)
			close(p.let)
			all.Wait()
			if fmt.Sprint(got) != fmt.Sprint(c.want) || len(p.calls) != c.calls {
				t.Errorf("told %v, want %v, by the calls %q, want %d", got, c.want, p.calls, c.calls)
			}
		})
	}
}

// A result that the portal holds up, for somebody has locked what it is about, holds up no other.
func TestAResultThatIsHeldUpHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	p := &taker{let: make(chan struct{}), came: make(chan struct{})}
	client := a.client(a.serve(loopback, p.serve).URL)
	held := make(chan error, 1)
	go func() {
		_, err := client.Finish(t.Context(), "held", wire.Finish{Outcome: wire.Done})
		held <- err
	}()
	<-p.came
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := client.Finish(ctx, "other", wire.Finish{Outcome: wire.Done}); err != nil {
		t.Errorf("the other: %v", err)
	}
	close(p.let)
	if err := <-held; err != nil {
		t.Errorf("the one that was held up: %v", err)
	}
}

// A portal that knows none of the jobs is no older one.
func TestJobsThatAreGoneMakeNoPortalAnOlderOne(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	p := &taker{let: make(chan struct{}), came: make(chan struct{}), refuses: map[string]int{"all": 404, "a": 404, "b": 404}}
	client := a.client(a.serve(loopback, p.serve).URL)
	client.Late(time.Hour)
	together := func(ids ...string) {
		let := sync.OnceFunc(func() { close(p.let) })
		defer let() // or a portal that is waited for in vain never ends
		var all sync.WaitGroup
		for i, id := range ids {
			all.Go(func() { client.Finish(t.Context(), fleet.JobID(id), wire.Finish{Outcome: wire.Done}) })
			if i == 0 {
				<-p.came
			}
		}
		client.Waiting(t, len(ids)-1)
		let()
		all.Wait()
	}
	together("first", "a", "b")
	p.mu.Lock()
	p.calls, p.let, p.came = nil, make(chan struct{}), make(chan struct{})
	p.mu.Unlock()
	together("first", "a", "b")
	if !slices.Contains(p.calls, "a+b") && !slices.Contains(p.calls, "b+a") {
		t.Errorf("the next ones went by %q", p.calls)
	}
}

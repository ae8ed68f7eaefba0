package wire

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"quantix/internal/fleet"
)

// olderFor is how long a portal is taken for an older one that knows no Results.
const olderFor = 10 * time.Minute

// handing is how results come to the portal: who comes while others are on their way goes with the next ones, so that a host on which many
// jobs end at once needs one connection and few calls. Nobody waits for longer than late for results that the portal holds up.
type handing struct {
	late    time.Duration
	mu      sync.Mutex
	waiting []*handed
	busy    bool      // some are on their way
	alone   time.Time // until when the portal is given one at a time
}

// handed is one result on its way.
type handed struct {
	Result
	ctx    context.Context
	answer FinishAnswer
	err    error
	done   chan struct{}
}

// Finish hands in a job's result.
func (c *Client) Finish(ctx context.Context, id fleet.JobID, in Finish) (FinishAnswer, error) {
	h := &handed{Result: Result{Job: id, Finish: in}, ctx: ctx, done: make(chan struct{})}
	c.results.mu.Lock()
	apart := time.Now().Before(c.results.alone) || in.Pool != nil // a list of volumes may be as much as one call takes
	if !apart {
		c.results.waiting = append(c.results.waiting, h)
		if !c.results.busy {
			c.results.busy = true
			go c.handIn()
		}
	}
	c.results.mu.Unlock()
	if apart {
		c.finish(h)
	}
	select {
	case <-h.done:
		return h.answer, h.err
	case <-ctx.Done():
		return FinishAnswer{}, ctx.Err()
	}
}

// finish hands in one result by itself.
func (c *Client) finish(h *handed) {
	defer close(h.done)
	h.err = c.call(h.ctx, PathJobs+url.PathEscape(string(h.Job))+"/finish", h.Finish, &h.answer)
}

// handIn hands in until nothing waits, or until another one goes on because these take too long.
func (c *Client) handIn() {
	for next := c.results.next(); len(next) > 0; next = c.results.next() {
		late := time.AfterFunc(c.results.late, c.handIn)
		if len(next) == 1 {
			c.finish(next[0])
		} else {
			c.finishAll(next)
		}
		if !late.Stop() {
			return
		}
	}
}

// next are the results to go, without those that nobody waits for any more.
func (r *handing) next() (next []*handed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.waiting) > 0 && len(next) < MaxResults {
		h := r.waiting[0]
		r.waiting = r.waiting[1:]
		if h.ctx.Err() == nil {
			next = append(next, h)
		}
	}
	if len(next) == 0 {
		r.waiting, r.busy = nil, false
	}
	return next
}

// finishAll hands in some at once. What the portal refuses as a whole goes one by one: none is refused for another's sake.
func (c *Client) finishAll(all []*handed) {
	in := Results{Results: make([]Result, len(all))}
	for i, h := range all {
		in.Results[i] = h.Result
	}
	var out ResultsAnswer
	err := c.call(context.Background(), PathResults, in, &out)
	if status := StatusOf(err); status/100 == 4 || err == nil && len(out.Answers) != len(all) {
		c.finishEach(all, status == http.StatusNotFound || status == http.StatusMethodNotAllowed)
		return
	}
	for i, h := range all {
		if h.err = err; err == nil {
			a := out.Answers[i]
			if h.answer = a.FinishAnswer; a.Status != 0 {
				h.err = &Error{Status: a.Status, Detail: a.Detail}
			}
		}
		close(h.done)
	}
}

// finishEach hands in each of them by itself. unknown: the portal does not know of Results, or of any of these jobs; where it knows of
// one, it is an older one.
func (c *Client) finishEach(all []*handed, unknown bool) {
	var each sync.WaitGroup
	for _, h := range all {
		each.Go(func() { c.finish(h) })
	}
	each.Wait()
	known := func(h *handed) bool {
		return h.err == nil || StatusOf(h.err) != 0 && StatusOf(h.err) != http.StatusNotFound
	}
	if unknown && slices.ContainsFunc(all, known) {
		c.results.mu.Lock()
		defer c.results.mu.Unlock()
		c.results.alone = time.Now().Add(olderFor)
	}
}

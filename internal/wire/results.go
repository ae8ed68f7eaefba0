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

// olderPortalPeriod is how long the client sends results one by one after it found that the portal lacks PathResults.
const olderPortalPeriod = 10 * time.Minute

// resultQueue batches job results: results that arrive during a call are sent together in the next call. So a host with
// many jobs that end at once needs one connection and few calls. If the portal delays a call, other results wait for at
// most maxDelay.
type resultQueue struct {
	maxDelay    time.Duration
	mu          sync.Mutex
	queue       []*pendingResult
	busy        bool      // a call is in progress
	singleUntil time.Time // until then, send results one by one
}

// pendingResult is one queued result.
type pendingResult struct {
	Result
	ctx    context.Context
	answer FinishAnswer
	err    error
	done   chan struct{}
}

// Finish reports a job's result.
func (c *Client) Finish(ctx context.Context, id fleet.JobID, in Finish) (FinishAnswer, error) {
	h := &pendingResult{Result: Result{Job: id, Finish: in}, ctx: ctx, done: make(chan struct{})}
	c.results.mu.Lock()
	separate := time.Now().Before(c.results.singleUntil) || in.Pool != nil // a result with a volume list may fill a call
	if !separate {
		c.results.queue = append(c.results.queue, h)
		if !c.results.busy {
			c.results.busy = true
			go c.flushResults()
		}
	}
	c.results.mu.Unlock()
	if separate {
		c.sendResult(h)
	}
	select {
	case <-h.done:
		return h.answer, h.err
	case <-ctx.Done():
		return FinishAnswer{}, ctx.Err()
	}
}

// sendResult sends one result in its own call.
func (c *Client) sendResult(h *pendingResult) {
	defer close(h.done)
	h.err = c.call(h.ctx, PathJobs+url.PathEscape(string(h.Job))+"/finish", h.Finish, &h.answer)
}

// flushResults sends batches until the queue is empty. If a call takes too long, another flush continues with the rest of the
// queue.
func (c *Client) flushResults() {
	for next := c.results.nextBatch(); len(next) > 0; next = c.results.nextBatch() {
		timer := time.AfterFunc(c.results.maxDelay, c.flushResults)
		if len(next) == 1 {
			c.sendResult(next[0])
		} else {
			c.sendResultBatch(next)
		}
		if !timer.Stop() {
			return
		}
	}
}

// nextBatch removes the next batch from the queue, and drops results whose caller has given up.
func (r *resultQueue) nextBatch() (next []*pendingResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.queue) > 0 && len(next) < MaxResults {
		h := r.queue[0]
		r.queue = r.queue[1:]
		if h.ctx.Err() == nil {
			next = append(next, h)
		}
	}
	if len(next) == 0 {
		r.queue, r.busy = nil, false
	}
	return next
}

// sendResultBatch sends a batch. If the portal refuses the batch, sendResultBatch sends each result in its own call, so that one
// invalid result does not affect the others.
func (c *Client) sendResultBatch(all []*pendingResult) {
	in := Results{Results: make([]Result, len(all))}
	for i, h := range all {
		in.Results[i] = h.Result
	}
	var out ResultsAnswer
	err := c.call(context.Background(), PathResults, in, &out)
	if status := StatusOf(err); status/100 == 4 || err == nil && len(out.Answers) != len(all) {
		c.sendResultsSeparately(all, status == http.StatusNotFound || status == http.StatusMethodNotAllowed)
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

// sendResultsSeparately sends each result in its own call. unknown means that the portal answered 404 to the batch: it lacks
// PathResults, or knows none of the jobs. If the portal then accepts one of the jobs, it is an older portal.
func (c *Client) sendResultsSeparately(all []*pendingResult, unknown bool) {
	var each sync.WaitGroup
	for _, h := range all {
		each.Go(func() { c.sendResult(h) })
	}
	each.Wait()
	known := func(h *pendingResult) bool {
		return h.err == nil || StatusOf(h.err) != 0 && StatusOf(h.err) != http.StatusNotFound
	}
	if unknown && slices.ContainsFunc(all, known) {
		c.results.mu.Lock()
		defer c.results.mu.Unlock()
		c.results.singleUntil = time.Now().Add(olderPortalPeriod)
	}
}

package web

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
)

const (
	maxConcurrent = 8  // concurrent pages and lists of one user, in all browsers and API clients; see newLimiter
	maxWaiting    = 64 // further requests of one user that may wait
	// longest wait: well below pageLimit, so that the refusal is still sent in time
	maxSlotWait = 1500 * time.Millisecond
)

// limiter is the per-user limiter: it bounds the concurrent reads of each user, so that one user cannot occupy the
// whole portal. Further reads wait.
type limiter struct {
	most   int
	mu     sync.Mutex
	people map[fleet.UserID]*queueOf
}

// newLimiter returns a limiter that leaves most database connections to other users.
func newLimiter(pool func() PoolStat) *limiter {
	n := &limiter{most: maxConcurrent, people: map[fleet.UserID]*queueOf{}}
	if pool != nil {
		n.most = min(maxConcurrent, max(1, int(pool().MaxConns())*2/5))
	}
	return n
}

type queueOf struct {
	slots  chan struct{}
	within int // requests that have a slot or wait for one
}

// take waits for a slot of the user; the caller must call leave to free the slot. It fails with TooMany after
// maxSlotWait. Requests without a user need no slot, because the handlers of public pages have limits of their own.
func (n *limiter) take(ctx context.Context, id fleet.UserID) (leave func(), err error) {
	if id == "" {
		return func() {}, nil
	}
	q := n.enter(id)
	if q == nil {
		return nil, n.tooMany()
	}
	patience := time.NewTimer(maxSlotWait)
	defer patience.Stop()
	select {
	case q.slots <- struct{}{}:
		return func() { <-q.slots; n.leave(id) }, nil
	case <-patience.C:
		err = n.tooMany()
	case <-ctx.Done():
		err = ctx.Err()
	}
	n.leave(id)
	return nil, err
}

func (n *limiter) tooMany() error {
	return fleet.Errorf(fleet.TooMany, "You have too many open requests: at most %d pages and lists load at the same time. Try again in a moment.", n.most)
}

func (n *limiter) enter(id fleet.UserID) *queueOf {
	n.mu.Lock()
	defer n.mu.Unlock()
	q, ok := n.people[id]
	if !ok {
		q = &queueOf{slots: make(chan struct{}, n.most)}
		n.people[id] = q
	}
	if q.within == n.most+maxWaiting {
		return nil
	}
	q.within++
	return q
}

func (n *limiter) leave(id fleet.UserID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	q := n.people[id]
	if q.within--; q.within == 0 {
		delete(n.people, id)
	}
}

// limitPerUser is the middleware of the per-user limiter. It does not limit writes, which are short and which control
// bounds.
func (s *Server) limitPerUser(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if k := routeOf(c).kind; c.Request().Method != http.MethodGet || k != page && k != api {
			return next(c)
		}
		came := time.Now()
		leave, err := s.turns.take(c.Request().Context(), actorOf(c).UserID)
		waited(c, time.Since(came))
		if err != nil {
			return err
		}
		defer leave()
		return next(c)
	}
}
